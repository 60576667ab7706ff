//! What the codec costs for each message, and how often it allocates.
//!
//! `cargo bench -p amqp` gives nanoseconds. Under callgrind, `PROFILE=decode_publish_16` (or any
//! other name) does that alone, without criterion.

use std::hint::black_box;
use std::time::Duration;

use allocation_counter::measure;
use amqp::{
    BasicAck, BasicDeliver, BasicPublish, Content, ContentHeader, FrameDecoder, FrameEncoder,
    Method, Properties, PropertiesBuilder, encode_ack,
};
use criterion::Criterion;

/// How often a deed is done for a profiler.
const PROFILE_ROUNDS: usize = 10_000;

const FRAME_SIZE_MAX: u32 = 131_072;
const DECODER: FrameDecoder = FrameDecoder::new(FRAME_SIZE_MAX);

const DELIVER: BasicDeliver<&str> = BasicDeliver {
    consumer_tag: "ctag1.0123456789abcdef",
    delivery_tag: 77,
    redelivered: false,
    exchange: "orders",
    routing_key: "order.created",
};

const PUBLISH: BasicPublish<&str> = BasicPublish {
    exchange: "orders",
    routing_key: "order.created",
    mandatory: false,
    immediate: false,
};

/// Persistent, nothing else.
const PROPERTIES: Properties<'_> = Properties::trusted(&[0x10, 0, 2]);

struct Scene {
    publish_16: Vec<u8>,
    publish_1024: Vec<u8>,
    publish_rich: Vec<u8>,
    ack: Vec<u8>,
    buffer: Vec<u8>,
    body: Vec<u8>,
    out: Vec<u8>,
}

impl Scene {
    fn new() -> Self {
        let body = vec![7; 1024];
        let rich = PropertiesBuilder::new()
            .content_type("application/json")
            .headers(
                &[("traceparent", "00-0af7651916cd43dd-01")]
                    .into_iter()
                    .collect(),
            )
            .delivery_mode(2)
            .correlation_id("2c7b1f1e")
            .reply_to("answers")
            .build();
        let publish_16 = published(PROPERTIES, &body[..16]);
        let mut ack = Vec::new();
        encode_ack(
            &mut ack,
            1,
            BasicAck {
                delivery_tag: 77,
                multiple: false,
            },
        );
        Self {
            publish_1024: published(PROPERTIES, &body),
            publish_rich: published(Properties::trusted(&rich), &body[..16]),
            buffer: publish_16.repeat(65_536 / publish_16.len()),
            publish_16,
            ack,
            body,
            out: Vec::with_capacity(4096),
        }
    }

    fn encode_deliver(&mut self, body_bytes: usize) {
        self.out.clear();
        let content = Content {
            properties: PROPERTIES,
            body: &self.body[..body_bytes],
        };
        let encoder = FrameEncoder::new(FRAME_SIZE_MAX);
        encoder.deliver(&mut self.out, 1, black_box(&DELIVER), black_box(content));
        black_box(&self.out);
    }

    fn encode_confirm(&mut self) {
        self.out.clear();
        encode_ack(
            &mut self.out,
            1,
            black_box(BasicAck {
                delivery_tag: 77,
                multiple: true,
            }),
        );
        black_box(&self.out);
    }
}

type Deed = fn(&mut Scene);

const DEEDS: [(&str, Deed); 8] = [
    ("decode_publish_16", |scene| {
        decode_publish(&scene.publish_16)
    }),
    ("decode_publish_1024", |scene| {
        decode_publish(&scene.publish_1024)
    }),
    ("decode_publish_rich", |scene| {
        decode_publish(&scene.publish_rich)
    }),
    ("decode_ack", |scene| decode_ack(&scene.ack)),
    ("cut_64_kib", |scene| cut(&scene.buffer)),
    ("encode_deliver_16", |scene| scene.encode_deliver(16)),
    ("encode_deliver_1024", |scene| scene.encode_deliver(1024)),
    ("encode_confirm", Scene::encode_confirm),
];

fn published(properties: Properties<'_>, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    FrameEncoder::new(FRAME_SIZE_MAX).publish(&mut out, 1, &PUBLISH, Content { properties, body });
    out
}

/// Method, header and one body frame.
fn decode_publish(stream: &[u8]) {
    let stream = black_box(stream);
    let (frame, consumed) = DECODER.next(stream).expect("no fault").expect("whole");
    black_box(&Method::decode(frame.payload).expect("a method"));
    let stream = &stream[consumed..];
    let (frame, consumed) = DECODER.next(stream).expect("no fault").expect("whole");
    black_box(&ContentHeader::decode(frame.payload).expect("a content header"));
    let (frame, _) = DECODER
        .next(&stream[consumed..])
        .expect("no fault")
        .expect("whole");
    black_box(frame.payload);
}

fn decode_ack(stream: &[u8]) {
    let (frame, _) = DECODER
        .next(black_box(stream))
        .expect("no fault")
        .expect("whole");
    black_box(&Method::decode(frame.payload).expect("a method"));
}

fn cut(buffer: &[u8]) {
    let mut rest = black_box(buffer);
    while let Some((frame, consumed)) = DECODER.next(rest).expect("no fault") {
        black_box(frame.payload);
        rest = &rest[consumed..];
    }
}

fn main() {
    let mut scene = Scene::new();
    if let Ok(name) = std::env::var("PROFILE") {
        let (_, deed) = DEEDS
            .iter()
            .find(|(known, _)| *known == name)
            .expect("a known name");
        return (0..PROFILE_ROUNDS).for_each(|_| deed(&mut scene));
    }
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1200))
        .configure_from_args();
    for (name, deed) in DEEDS {
        let info = measure(|| deed(&mut scene));
        eprintln!("{name}: {} allocations", info.count_total);
        criterion.bench_function(name, |bencher| bencher.iter(|| deed(&mut scene)));
    }
    criterion.final_summary();
}
