//! Rubbish, cut and bent frames: a typed fault or patience, never a panic.

use amqp::{
    BasicDeliver, BasicPublish, Content, ContentByReference, ContentHeader, FrameDecoder,
    FrameEncoder, FrameKind, Method, MethodFault, Properties, PropertyError, ReplyCode,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{checks, frames};

const DECODER: FrameDecoder = FrameDecoder::new(8192);

/// Reads a frame and what is in it; answers whether all of it made sense.
fn read(bytes: &[u8]) -> bool {
    let Ok(Some((frame, _))) = DECODER.next(bytes) else {
        return false;
    };
    match frame.kind {
        FrameKind::Method => {
            checks::method(frame.payload);
            Method::decode(frame.payload).is_ok()
        }
        FrameKind::Header => match ContentHeader::decode(frame.payload) {
            Ok(header) => {
                checks::properties(header.properties.raw());
                true
            }
            Err(_) => false,
        },
        FrameKind::Body | FrameKind::Heartbeat => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_harm_nobody(bytes in vec(any::<u8>(), 0..200)) {
        checks::frames(&bytes);
        checks::method(&bytes);
        checks::properties(&bytes);
        checks::table(&bytes);
    }

    #[test]
    fn random_arguments_of_known_methods_harm_nobody(
        class in prop_oneof![Just(10u8), Just(20), Just(40), Just(50), Just(60)],
        method in prop_oneof![Just(10u8), Just(11), Just(20), Just(30), Just(40), Just(50), Just(60)],
        arguments in vec(prop_oneof![Just(0u8), Just(1), 0..8u8, any::<u8>()], 0..60),
    ) {
        let payload = [&[0, class, 0, method][..], &arguments].concat();
        checks::method(&payload);
    }

    #[test]
    fn random_fields_behind_random_flags_harm_nobody(
        flags: u16,
        fields in vec(prop_oneof![Just(0u8), 0..6u8, any::<u8>()], 0..80),
    ) {
        checks::properties(&[&(flags & !1).to_be_bytes()[..], &fields].concat());
    }
}

#[test]
fn the_committed_fuzz_corpus_passes_its_checks() {
    type Check = fn(&[u8]);
    let targets: [(&str, Check); 4] = [
        ("frames", checks::frames),
        ("method", checks::method),
        ("properties", checks::properties),
        ("table", checks::table),
    ];
    for (name, check) in targets {
        let folder = format!("{}/fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut n_inputs = 0;
        for entry in std::fs::read_dir(&folder).expect("the folder exists") {
            check(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
            n_inputs += 1;
        }
        assert!(n_inputs >= 4, "{n_inputs} inputs for {name}");
    }
}

#[test]
fn the_beginning_of_a_frame_is_waited_for() {
    for bytes in frames::small() {
        for cut in 0..bytes.len() {
            assert_eq!(DECODER.next(&bytes[..cut]), Ok(None));
        }
    }
}

#[test]
fn a_payload_that_is_cut_short_is_a_fault_at_every_place() {
    for bytes in frames::small() {
        let payload = &bytes[7..bytes.len() - 1];
        for cut in 0..payload.len() {
            match bytes[0] {
                1 => assert!(
                    Method::decode(&payload[..cut]).is_err(),
                    "{payload:?} at {cut}"
                ),
                2 => assert!(ContentHeader::decode(&payload[..cut]).is_err()),
                _ => {}
            }
        }
    }
}

#[test]
fn a_payload_that_is_overlong_is_a_fault() {
    for bytes in frames::small() {
        let mut payload = bytes[7..bytes.len() - 1].to_vec();
        payload.push(0);
        match bytes[0] {
            1 => assert!(matches!(
                Method::decode(&payload),
                Err(MethodFault::Malformed { .. })
            )),
            2 => assert!(ContentHeader::decode(&payload).is_err()),
            _ => {}
        }
    }
}

#[test]
fn a_frame_with_any_octet_bent_harms_nobody() {
    let (mut n_good, mut n_bad) = (0, 0);
    for bytes in frames::small() {
        assert!(read(&bytes));
        for place in 0..bytes.len() {
            for bend in [1, 0x7f, 0x80, 0xff] {
                let mut bent = bytes.clone();
                bent[place] = bent[place].wrapping_add(bend);
                if read(&bent) { n_good += 1 } else { n_bad += 1 }
            }
        }
    }
    assert!(n_good > 0 && n_bad > 0);
}

fn fault_of(payload: &[u8], channel: u16) -> (Option<ReplyCode>, (u16, u16), String) {
    let fault = Method::decode(payload).expect_err("a fault");
    (
        fault.reply_code(channel),
        fault.ids(channel),
        fault.explanation(channel, payload),
    )
}

#[test]
fn method_faults_are_told_as_rabbitmq_tells_them() {
    let frame_error = Some(ReplyCode::FrameError);
    let unknown_class = [0, 61, 0, 40];
    assert_eq!(fault_of(&unknown_class, 1), (None, (0, 0), String::new()));
    let unknown_method = [0, 60, 0, 200];
    let text = "cannot decode <<>>".to_owned();
    assert_eq!(fault_of(&unknown_method, 1), (frame_error, (60, 200), text));
    let short_ack = [0, 60, 0, 80, 0];
    let text = "cannot decode <<0>>".to_owned();
    assert_eq!(fault_of(&short_ack, 1), (frame_error, (60, 80), text));
    let short_open = [0, 10, 0, 40, 0];
    let internal = Some(ReplyCode::InternalError);
    assert_eq!(fault_of(&short_open, 0), (internal, (0, 0), String::new()));
}

#[test]
fn short_strings_must_be_utf8_in_hot_and_other_methods() {
    let text = "Malformed UTF-8 in shortstr".to_owned();
    let frame_error = Some(ReplyCode::FrameError);
    let publish = [0, 60, 0, 40, 0, 0, 1, 0xff, 0, 0];
    assert_eq!(fault_of(&publish, 1), (frame_error, (0, 0), text.clone()));
    let delete = [0, 50, 0, 40, 0, 0, 1, 0xff, 0];
    assert_eq!(fault_of(&delete, 1), (frame_error, (0, 0), text));
}

#[test]
fn tables_of_methods_keep_what_amq_protocol_would_lose() {
    let entries = b"\x01zS\x00\x00\x00\x02\xff\xfe\x01aL\x00\x00\x00\x00\x00\x00\x00\x07\x01aV";
    let declare = [
        &[0, 50, 0, 10, 0, 0, 1, b'q', 2, 0, 0, 0, entries.len() as u8][..],
        &entries[..],
    ]
    .concat();
    let Ok(Method::Other(other)) = Method::decode(&declare) else {
        panic!("a declare")
    };
    let keys: Vec<_> = other.table.iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(keys, ["z", "a", "a"]);
    assert_eq!(
        other.table.get("z").and_then(|v| v.as_bytes()),
        Some(&[0xff, 0xfe][..])
    );
    assert_eq!(other.table.get("a").and_then(|v| v.as_i64()), Some(7));
}

#[test]
fn a_table_nested_without_end_is_malformed_and_overflows_no_stack() {
    let mut entries = Vec::new();
    for _ in 0..20_000 {
        let mut outer = vec![b'A'];
        outer.extend_from_slice(&(entries.len() as u32).to_be_bytes());
        outer.append(&mut entries);
        entries = outer;
    }
    let table = [&[1, b'k'][..], &entries].concat();
    let mut declare = vec![0, 50, 0, 10, 0, 0, 1, b'q', 2];
    declare.extend_from_slice(&(table.len() as u32).to_be_bytes());
    declare.extend_from_slice(&table);
    let malformed = MethodFault::Malformed {
        class: 50,
        method: 10,
    };
    assert_eq!(Method::decode(&declare), Err(malformed));
}

#[test]
fn property_faults_have_names() {
    let parse = |raw: &[u8]| Properties::parse(raw).map(|_| ());
    assert_eq!(parse(&[0, 0]), Ok(()));
    assert_eq!(parse(&[0, 2]), Ok(()));
    assert_eq!(parse(&[0, 1]), Err(PropertyError::Continued));
    assert_eq!(parse(&[0]), Err(PropertyError::Truncated));
    assert_eq!(parse(&[0x10, 0]), Err(PropertyError::Truncated));
    assert_eq!(
        parse(&[0x10, 0, 2, 9]),
        Err(PropertyError::Overlong { bytes: 1 })
    );
    let bad_headers = [0x20, 0, 0, 0, 0, 3, 1, b'k', b'?'];
    assert!(matches!(
        parse(&bad_headers),
        Err(PropertyError::Headers(_))
    ));
}

proptest! {
    #[test]
    fn a_body_is_cut_at_the_frame_size_and_comes_together_again(
        frame_size_max in 9u32..200,
        body in vec(any::<u8>(), 0..600),
        channel: u16,
    ) {
        let publish = BasicPublish {
            exchange: "x", routing_key: "k", mandatory: false, immediate: false,
        };
        let mut out = Vec::new();
        let content = Content { properties: Properties::empty(), body: &body };
        FrameEncoder::new(frame_size_max).publish(&mut out, channel, &publish, content);
        let (mut rest, mut kinds, mut joined) = (out.as_slice(), Vec::new(), Vec::new());
        while let Some((frame, consumed)) = FrameDecoder::new(0).next(rest).expect("no fault") {
            prop_assert_eq!(frame.channel, channel);
            if frame.kind == FrameKind::Body {
                prop_assert!(consumed <= frame_size_max as usize);
                joined.extend_from_slice(frame.payload);
            }
            kinds.push(frame.kind);
            rest = &rest[consumed..];
        }
        prop_assert!(rest.is_empty());
        prop_assert_eq!(&kinds[..2], &[FrameKind::Method, FrameKind::Header]);
        prop_assert_eq!(kinds.len() - 2, body.len().div_ceil(frame_size_max as usize - 8));
        prop_assert_eq!(joined, body);
    }

    #[test]
    fn a_spliced_delivery_is_the_copied_one(
        frame_size_max in 0u32..200,
        body in vec(any::<u8>(), 0..600),
    ) {
        let deliver = BasicDeliver {
            consumer_tag: &b"ctag"[..],
            delivery_tag: 9,
            redelivered: true,
            exchange: b"x",
            routing_key: b"not utf-8 \xff",
        };
        let encoder = FrameEncoder::new(frame_size_max);
        let properties = Properties::trusted(&[0x10, 0, 2]);
        let mut copied = b"before".to_vec();
        encoder.deliver(&mut copied, 3, &deliver, Content { properties, body: &body });
        let mut octets = b"before".to_vec();
        let mut splices = Vec::new();
        let content = ContentByReference { properties, body_bytes: body.len() };
        encoder.deliver_spliced(&mut octets, 3, &deliver, content, |s| splices.push(s));
        let (mut woven, mut at) = (Vec::new(), 0);
        for splice in splices {
            woven.extend_from_slice(&octets[at..splice.at]);
            woven.extend_from_slice(&body[splice.body]);
            at = splice.at;
        }
        woven.extend_from_slice(&octets[at..]);
        prop_assert_eq!(woven, copied);
    }
}
