//! What is allocated: nothing on the path of a message, and never on the word of a length.

use allocation_counter::{AllocationInfo, measure};
use amqp::{
    BasicAck, BasicDeliver, BasicPublish, Content, ContentHeader, FrameDecoder, FrameEncoder,
    FrameKind, Method, Properties, PropertiesBuilder, Table, encode_ack,
};

#[path = "wire/frames/mod.rs"]
mod frames;

const DECODER: FrameDecoder = FrameDecoder::new(131_072);

fn published(body: &[u8]) -> Vec<u8> {
    let properties = PropertiesBuilder::new()
        .content_type("application/json")
        .headers(&[("trace", "00-ab")].into_iter().collect())
        .delivery_mode(2)
        .expiration("60000")
        .build();
    let publish = BasicPublish {
        exchange: "orders",
        routing_key: "order.created",
        mandatory: false,
        immediate: false,
    };
    let mut out = Vec::new();
    let content = Content {
        properties: Properties::trusted(&properties),
        body,
    };
    FrameEncoder::new(131_072).publish(&mut out, 1, &publish, content);
    out
}

/// Reads every frame of a stream and what is in it.
fn read(mut stream: &[u8]) {
    while let Ok(Some((frame, consumed))) = DECODER.next(stream) {
        match frame.kind {
            FrameKind::Method => drop(Method::decode(frame.payload)),
            FrameKind::Header => {
                if let Ok(header) = ContentHeader::decode(frame.payload) {
                    assert!(header.properties.raw().len() <= frame.payload.len());
                }
            }
            FrameKind::Body | FrameKind::Heartbeat => {}
        }
        stream = &stream[consumed..];
    }
}

fn nothing(info: &AllocationInfo) -> bool {
    info.count_total == 0
}

#[test]
fn decoding_a_publish_allocates_nothing() {
    for body in [&[][..], &[7; 16], &[7; 100_000], &[7; 300_000]] {
        let stream = published(body);
        let info = measure(|| read(&stream));
        assert!(nothing(&info), "{info:?} for {} bytes", body.len());
    }
}

#[test]
fn decoding_settlements_allocates_nothing() {
    let mut stream = Vec::new();
    encode_ack(
        &mut stream,
        1,
        BasicAck {
            delivery_tag: 9,
            multiple: true,
        },
    );
    let info = measure(|| read(&stream));
    assert!(nothing(&info), "{info:?}");
}

#[test]
fn encoding_into_a_buffer_with_room_allocates_nothing() {
    let mut out = Vec::with_capacity(400_000);
    let deliver = BasicDeliver {
        consumer_tag: "ctag",
        delivery_tag: 1,
        redelivered: false,
        exchange: "orders",
        routing_key: "order.created",
    };
    let body = vec![7; 300_000];
    let content = Content {
        properties: Properties::empty(),
        body: &body,
    };
    let info = measure(|| {
        FrameEncoder::new(131_072).deliver(&mut out, 1, &deliver, content);
        encode_ack(
            &mut out,
            1,
            BasicAck {
                delivery_tag: 1,
                multiple: false,
            },
        );
    });
    assert!(nothing(&info), "{info:?}");
}

/// A decoded value takes more room than its bytes, and a growing list up to twice that; a method
/// is a box of fixed size. What an announced length could claim is millions.
fn bound(input: &[u8]) -> u64 {
    input.len() as u64 * 128 + 2048
}

#[test]
fn a_bent_length_reserves_nothing_that_is_not_backed_by_bytes() {
    for bytes in frames::small() {
        for place in 0..bytes.len() {
            for octet in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bent = bytes.clone();
                bent[place] = octet;
                let info = measure(|| read(&bent));
                assert!(
                    info.bytes_max <= bound(&bent),
                    "{info:?} of {bent:?} at {place}"
                );
            }
        }
    }
}

#[test]
fn the_most_swollen_table_stays_within_a_multiple_of_its_bytes() {
    let entries = [0, b'V'].repeat(30_000);
    let mut elements = vec![0, b'A'];
    elements.extend_from_slice(&60_000u32.to_be_bytes());
    elements.extend_from_slice(&[b'V'; 60_000]);
    for block in [entries, elements] {
        let info = measure(|| drop(Table::decode(&block).expect("a table")));
        assert!(info.bytes_max <= bound(&block), "{info:?}");
    }
}

#[test]
fn judging_and_searching_tables_allocates_nothing() {
    let properties = PropertiesBuilder::new()
        .headers(&[("a", "x"), ("CC", "y")].into_iter().collect())
        .build();
    let info = measure(|| {
        let properties = Properties::parse(&properties).expect("a block");
        assert!(properties.has_headers());
        assert_eq!(properties.header("missing"), None);
    });
    assert!(nothing(&info), "{info:?}");
}
