//! Real frames: all are understood, and say the same in `amq-protocol`'s reading and in ours.

use amq_protocol::frame::{AMQPFrame, parse_frame};
use amqp::protocol::{AMQPClass, connection::AMQPMethod};
use amqp::{
    ContentHeader, FrameDecoder, FrameKind, Method, OtherMethod, Properties, PropertiesBuilder,
    ProtocolHeader, Table, encode_method_with_table,
};

use crate::checks;
use crate::frames;

const DECODER: FrameDecoder = FrameDecoder::new(8192);

#[test]
fn a_stream_of_real_frames_is_cut_where_the_frames_end() {
    let frames = frames::all();
    let stream = frames.concat();
    let mut rest = stream.as_slice();
    for expected in &frames {
        let (frame, consumed) = DECODER.next(rest).expect("no fault").expect("whole");
        assert_eq!(&rest[..consumed], expected);
        assert_eq!(frame.payload, &expected[7..expected.len() - 1]);
        rest = &rest[consumed..];
    }
    assert_eq!(DECODER.next(rest), Ok(None));
}

#[test]
fn every_real_method_is_encoded_to_the_bytes_it_came_in() {
    let mut n_methods = 0;
    for bytes in frames::all() {
        let (frame, _) = DECODER.next(&bytes).expect("no fault").expect("whole");
        if frame.kind != FrameKind::Method {
            continue;
        }
        n_methods += 1;
        let method = Method::decode(frame.payload).expect("a method");
        let encoded = checks::encode(&method);
        let (again, _) = DECODER.next(&encoded).expect("no fault").expect("whole");
        // The last bit of connection.open is deprecated, and `amq-protocol` drops it.
        let dropped = usize::from(Method::ids(frame.payload) == Some((10, 40)));
        let kept = frame.payload.len() - dropped;
        assert_eq!(again.payload.len(), frame.payload.len());
        assert_eq!(again.payload[..kept], frame.payload[..kept], "{method:?}");
    }
    assert!(n_methods > 90, "{n_methods} methods in the corpus");
}

#[test]
fn every_real_content_header_reads_as_amq_protocol_reads_it() {
    let mut n_headers = 0;
    for bytes in frames::all() {
        let (frame, _) = DECODER.next(&bytes).expect("no fault").expect("whole");
        if frame.kind != FrameKind::Header {
            continue;
        }
        n_headers += 1;
        let header = ContentHeader::decode(frame.payload).expect("a content header");
        let Ok((_, AMQPFrame::Header(channel, theirs))) = parse_frame(bytes.as_slice()) else {
            panic!("the oracle reads it too");
        };
        assert_eq!((frame.channel, header.class_id), (channel, theirs.class_id));
        assert_eq!(header.body_size, theirs.body_size);
        let ours = header.properties;
        let text = |s: &Option<amqp::protocol_types::ShortString>| {
            s.as_ref().map(|s| s.as_str().as_bytes().to_vec())
        };
        assert_eq!(
            ours.content_type().map(<[u8]>::to_vec),
            text(theirs.properties.content_type())
        );
        assert_eq!(
            ours.message_id().map(<[u8]>::to_vec),
            text(theirs.properties.message_id())
        );
        assert_eq!(ours.delivery_mode(), *theirs.properties.delivery_mode());
        assert_eq!(ours.timestamp(), *theirs.properties.timestamp());
        assert_eq!(ours.has_headers(), theirs.properties.headers().is_some());
        assert_eq!(PropertiesBuilder::from(ours).build(), ours.raw());
        checks::properties(ours.raw());
    }
    assert!(n_headers >= 9, "{n_headers} content headers in the corpus");
}

#[test]
fn a_headers_table_of_every_type_comes_through_intact() {
    let published = frames::all()
        .into_iter()
        .filter(|bytes| bytes[0] == 2)
        .find(|bytes| bytes.windows(5).any(|window| window == b"order"))
        .expect("the corpus holds it");
    let (frame, _) = DECODER.next(&published).expect("no fault").expect("whole");
    let header = ContentHeader::decode(frame.payload).expect("a content header");
    assert_eq!(header.scan.delivery_mode, Some(2));
    assert_eq!(header.scan.priority, Some(3));
    assert_eq!(header.scan.expiration, Some(&b"60000"[..]));
    assert_eq!(header.scan.user_id, Some(&b"guest"[..]));
    assert_eq!(header.scan.reply_to, Some(&b"corpus.q"[..]));
    let headers = header
        .properties
        .headers()
        .expect("a table")
        .expect("present");
    let types: Vec<_> = headers
        .iter()
        .map(|(k, v)| (k.to_string(), v.type_name()))
        .collect();
    for (key, type_name) in [
        ("kind", "longstr"),
        ("n", "signedint"),
        ("big", "long"),
        ("flag", "bool"),
        ("none", "void"),
        ("list", "array"),
        ("nested", "table"),
        ("when", "timestamp"),
        ("amount", "decimal"),
        ("bytes", "binary"),
    ] {
        assert!(
            types.contains(&(key.to_owned(), type_name)),
            "{key} in {types:?}"
        );
    }
    assert_eq!(
        headers.get("big").and_then(amqp::Value::as_i64),
        Some(1 << 40)
    );
    assert_eq!(
        headers.get("bytes").and_then(|v| v.as_bytes()),
        Some(&[0, 255][..])
    );
    assert_eq!(headers.get("euro").and_then(|v| v.as_str()), Some("€"));
}

#[test]
fn a_table_goes_out_in_the_middle_of_its_method() {
    let start = amqp::protocol::connection::Start {
        version_major: 0,
        version_minor: 9,
        server_properties: Default::default(),
        mechanisms: "PLAIN".into(),
        locales: "en_US".into(),
    };
    let call = AMQPClass::Connection(AMQPMethod::Start(start));
    let table: Table = [("version", "4.3.6"), ("product", "x")]
        .into_iter()
        .collect();
    let mut out = Vec::new();
    encode_method_with_table(&mut out, 0, &call, &table);
    let (frame, consumed) = DECODER.next(&out).expect("no fault").expect("whole");
    assert_eq!((frame.channel, consumed), (0, out.len()));
    assert_eq!(frame.payload[..6], [0, 10, 0, 10, 0, 9]);
    let other = Box::new(OtherMethod { call, table });
    assert_eq!(Method::decode(frame.payload), Ok(Method::Other(other)));
}

#[test]
fn what_a_connection_asks_for_is_told_from_its_first_eight_octets() {
    let parse = |bytes: &[u8]| ProtocolHeader::parse(bytes);
    assert_eq!(parse(b"AMQP\x00\x00\x09"), None);
    assert_eq!(parse(&amqp::PROTOCOL_HEADER), Some(ProtocolHeader::Amqp091));
    assert_eq!(parse(b"AMQP\x01\x01\x00\x09"), Some(ProtocolHeader::Amqp09));
    let sasl = ProtocolHeader::Amqp10 { protocol_id: 3 };
    assert_eq!(parse(b"AMQP\x03\x01\x00\x00"), Some(sasl));
    let other = ProtocolHeader::OtherVersion {
        asked: [0, 0, 10, 0],
    };
    assert_eq!(parse(b"AMQP\x00\x00\x0a\x00"), Some(other));
    assert_eq!(parse(b"GET / HTTP/1.1"), Some(ProtocolHeader::Foreign));
    let served = [parse(&amqp::PROTOCOL_HEADER), Some(sasl), Some(other)];
    assert_eq!(
        served.map(|header| header.is_some_and(|h| h.is_served())),
        [true, false, false]
    );
}

#[test]
fn a_content_header_of_another_class_is_handed_on_unjudged() {
    let payload = [0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 0xff];
    let header = ContentHeader::decode(&payload).expect("fixed fields suffice");
    assert_eq!((header.class_id, header.body_size), (50, 7));
    assert_eq!(header.properties, Properties::empty());
}
