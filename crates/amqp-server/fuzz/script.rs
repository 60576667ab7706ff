//! What an arbitrary client says on an open connection: bytes chosen by chance become steps, and
//! steps become frames that are mostly well formed and mostly out of place.
//!
//! Shared by the fuzz target and the ordinary tests. Knows the codec only.

use amqp::protocol::{AMQPClass, basic, channel, confirm, connection, exchange, queue, tx};
use amqp::{
    BasicAck, BasicNack, BasicPublish, BasicReject, Content, FrameEncoder, HEARTBEAT_FRAME,
    PropertiesBuilder, Table, Value, encode_ack, encode_method, encode_method_with_table,
    encode_nack, encode_reject,
};

/// Steps of one script: more would only repeat what a shorter one finds.
const STEPS_MAX: usize = 64;
/// Few channels, so that steps meet each other on the same one.
const CHANNELS: u16 = 3;
const NAMES: [&str; 5] = ["", "a", "b", "amq.direct", "amq.gen-x"];
const KINDS: [&str; 6] = [
    "direct",
    "fanout",
    "topic",
    "headers",
    "x-delayed-message",
    "?",
];
const TAGS: [u64; 6] = [0, 1, 2, 3, 1 << 40, u64::MAX];

/// The bytes of a script, taken from the front; zeros when there are no more.
struct Chances<'a>(&'a [u8]);

impl<'a> Chances<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    fn name(&mut self) -> &'static str {
        self.one_of(&NAMES)
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn bytes(&mut self, count_max: u8) -> &'a [u8] {
        let count = usize::from(self.byte() % count_max).min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn table(&mut self) -> Table {
        let mut table = Table::new();
        for _ in 0..self.byte() % 3 {
            let key = self.one_of(&[
                "x-max-length",
                "x-message-ttl",
                "x-expires",
                "x-queue-type",
                "x-overflow",
                "x-dead-letter-exchange",
                "x-max-priority",
                "x-delayed-type",
                "x-match",
                "x-delay",
                "CC",
            ]);
            let value = match self.byte() % 6 {
                0 => Value::Bool(self.flag()),
                1 => Value::I32(i32::from(self.byte())),
                2 => Value::I64(-1),
                3 => Value::from(self.one_of(&["quorum", "classic", "drop-head", "a", "topic"])),
                4 => Value::Table(Table::new()),
                _ => Value::Void,
            };
            table.push(key, value);
        }
        table
    }
}

/// The octets behind a handshake: `data` chooses what they say.
pub(crate) fn octets(data: &[u8]) -> Vec<u8> {
    let mut chances = Chances(data);
    let mut out = Vec::new();
    // Most scripts begin with what everything else needs.
    if chances.flag() {
        open(&mut out, 1);
    }
    for _ in 0..STEPS_MAX {
        if chances.0.is_empty() {
            break;
        }
        let number = u16::from(chances.byte()) % (CHANNELS + 1);
        step(&mut chances, number, &mut out);
    }
    out
}

fn open(out: &mut Vec<u8>, number: u16) {
    say(
        out,
        number,
        AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {})),
    );
}

fn say(out: &mut Vec<u8>, number: u16, call: AMQPClass) {
    encode_method(out, number, &call);
}

fn step(chances: &mut Chances<'_>, number: u16, out: &mut Vec<u8>) {
    match chances.byte() % 16 {
        0 => open(out, number),
        1 | 2 => publish(chances, number, out),
        3 => settle(chances, number, out),
        4 => on_queues(chances, number, out),
        5 => on_exchanges(chances, number, out),
        6 => consume(chances, number, out),
        7 => on_channel(chances, number, out),
        8 => modes(chances, number, out),
        9 => on_connection(chances, out),
        10 => out.extend_from_slice(&HEARTBEAT_FRAME),
        11 => any_method(chances, number, out),
        12 => any_content(chances, number, out),
        13 => cut_or_bend(chances, out),
        14 => out.extend_from_slice(chances.bytes(24)),
        _ => get(chances, number, out),
    }
}

fn publish(chances: &mut Chances<'_>, number: u16, out: &mut Vec<u8>) {
    let block = PropertiesBuilder::new().headers(&chances.table()).build();
    let publish = BasicPublish {
        exchange: chances.name(),
        routing_key: chances.name(),
        mandatory: chances.flag(),
        immediate: chances.byte() == 255,
    };
    let body = chances.bytes(64);
    let Ok(properties) = amqp::Properties::parse(&block) else {
        return;
    };
    let content = Content { properties, body };
    // The small size makes several body frames of a short body.
    let size = chances.one_of(&[0, 12, 4096]);
    FrameEncoder::new(size).publish(out, number, &publish, content);
}

fn settle(chances: &mut Chances<'_>, number: u16, out: &mut Vec<u8>) {
    let delivery_tag = chances.one_of(&TAGS);
    let (multiple, requeue) = (chances.flag(), chances.flag());
    match chances.byte() % 3 {
        0 => encode_ack(
            out,
            number,
            BasicAck {
                delivery_tag,
                multiple,
            },
        ),
        1 => encode_nack(
            out,
            number,
            BasicNack {
                delivery_tag,
                multiple,
                requeue,
            },
        ),
        _ => encode_reject(
            out,
            number,
            BasicReject {
                delivery_tag,
                requeue,
            },
        ),
    }
}

fn on_queues(chances: &mut Chances<'_>, number: u16, out: &mut Vec<u8>) {
    use queue::AMQPMethod;
    let name = chances.name().into();
    let nowait = chances.flag();
    let call = match chances.byte() % 5 {
        0 | 1 => AMQPMethod::Declare(queue::Declare {
            queue: name,
            passive: chances.byte().is_multiple_of(8),
            durable: chances.flag(),
            exclusive: chances.flag(),
            auto_delete: chances.flag(),
            nowait,
            ..queue::Declare::default()
        }),
        2 => AMQPMethod::Bind(queue::Bind {
            queue: name,
            exchange: chances.name().into(),
            routing_key: chances.name().into(),
            nowait,
            ..queue::Bind::default()
        }),
        3 => AMQPMethod::Purge(queue::Purge {
            queue: name,
            nowait,
        }),
        _ => AMQPMethod::Delete(queue::Delete {
            queue: name,
            if_unused: chances.flag(),
            if_empty: chances.flag(),
            nowait,
        }),
    };
    encode_method_with_table(out, number, &AMQPClass::Queue(call), &chances.table());
}

fn on_exchanges(chances: &mut Chances<'_>, number: u16, out: &mut Vec<u8>) {
    use exchange::AMQPMethod;
    let name = chances.name();
    let nowait = chances.flag();
    let call = match chances.byte() % 4 {
        0 | 1 => AMQPMethod::Declare(exchange::Declare {
            exchange: name.into(),
            kind: chances.one_of(&KINDS).into(),
            durable: chances.flag(),
            auto_delete: chances.flag(),
            internal: chances.flag(),
            nowait,
            ..exchange::Declare::default()
        }),
        2 => AMQPMethod::Bind(exchange::Bind {
            destination: chances.name().into(),
            source: name.into(),
            routing_key: chances.name().into(),
            nowait,
            ..exchange::Bind::default()
        }),
        _ => AMQPMethod::Delete(exchange::Delete {
            exchange: name.into(),
            if_unused: chances.flag(),
            nowait,
        }),
    };
    encode_method_with_table(out, number, &AMQPClass::Exchange(call), &chances.table());
}

fn consume(chances: &mut Chances<'_>, number: u16, out: &mut Vec<u8>) {
    let tag = chances.name();
    if chances.byte().is_multiple_of(3) {
        let cancel = basic::Cancel {
            consumer_tag: tag.into(),
            nowait: chances.flag(),
        };
        return say(
            out,
            number,
            AMQPClass::Basic(basic::AMQPMethod::Cancel(cancel)),
        );
    }
    let consume = basic::Consume {
        queue: chances.name().into(),
        consumer_tag: tag.into(),
        no_ack: chances.flag(),
        exclusive: chances.byte().is_multiple_of(8),
        nowait: chances.flag(),
        ..basic::Consume::default()
    };
    let call = AMQPClass::Basic(basic::AMQPMethod::Consume(consume));
    encode_method_with_table(out, number, &call, &chances.table());
}

fn get(chances: &mut Chances<'_>, number: u16, out: &mut Vec<u8>) {
    let get = basic::Get {
        queue: chances.name().into(),
        no_ack: chances.flag(),
    };
    say(out, number, AMQPClass::Basic(basic::AMQPMethod::Get(get)));
}

fn on_channel(chances: &mut Chances<'_>, number: u16, out: &mut Vec<u8>) {
    use channel::AMQPMethod;
    let call = match chances.byte() % 4 {
        0 => AMQPMethod::Close(channel::Close::default()),
        1 => AMQPMethod::CloseOk(channel::CloseOk {}),
        2 => AMQPMethod::Flow(channel::Flow {
            active: chances.flag(),
        }),
        _ => AMQPMethod::FlowOk(channel::FlowOk {
            active: chances.flag(),
        }),
    };
    say(out, number, AMQPClass::Channel(call));
}

fn modes(chances: &mut Chances<'_>, number: u16, out: &mut Vec<u8>) {
    let call = match chances.byte() % 6 {
        0 => AMQPClass::Confirm(confirm::AMQPMethod::Select(confirm::Select {
            nowait: chances.flag(),
        })),
        1 => AMQPClass::Tx(tx::AMQPMethod::Select(tx::Select {})),
        2 => AMQPClass::Tx(tx::AMQPMethod::Commit(tx::Commit {})),
        3 => AMQPClass::Tx(tx::AMQPMethod::Rollback(tx::Rollback {})),
        4 => AMQPClass::Basic(basic::AMQPMethod::Qos(basic::Qos {
            prefetch_count: u16::from(chances.byte() % 4),
            global: chances.flag(),
        })),
        _ => AMQPClass::Basic(basic::AMQPMethod::Recover(basic::Recover {
            requeue: chances.flag(),
        })),
    };
    say(out, number, call);
}

/// On channel 0, or where it does not belong.
fn on_connection(chances: &mut Chances<'_>, out: &mut Vec<u8>) {
    use connection::AMQPMethod;
    let number = u16::from(chances.byte().is_multiple_of(8));
    let call = match chances.byte() % 6 {
        0 => AMQPMethod::Close(connection::Close::default()),
        1 => AMQPMethod::CloseOk(connection::CloseOk {}),
        2 => AMQPMethod::Open(connection::Open {
            virtual_host: "/".into(),
        }),
        3 => AMQPMethod::TuneOk(connection::TuneOk::default()),
        4 => AMQPMethod::UpdateSecret(connection::UpdateSecret {
            new_secret: "guest".into(),
            reason: "by chance".into(),
        }),
        _ => AMQPMethod::Unblocked(connection::Unblocked {}),
    };
    say(out, number, AMQPClass::Connection(call));
}

/// A method of the protocol's numbers with arguments by chance.
fn any_method(chances: &mut Chances<'_>, number: u16, out: &mut Vec<u8>) {
    let class = chances.one_of(&[10, 20, 40, 50, 60, 85, 90, 99]);
    let method = chances.byte() % 130;
    let arguments = chances.bytes(48);
    let payload = [&[0, class, 0, method][..], arguments].concat();
    frame(out, 1, number, &payload);
}

/// A header or a body, announced by nobody.
fn any_content(chances: &mut Chances<'_>, number: u16, out: &mut Vec<u8>) {
    let payload = chances.bytes(40);
    if chances.flag() {
        return frame(out, 3, number, payload);
    }
    let size = chances.one_of(&[0, 1, 30, 1 << 20, u64::MAX]);
    let header = [&[0, 60, 0, 0][..], &size.to_be_bytes(), payload].concat();
    frame(out, 2, number, &header);
}

/// Something of what was said before is lost, doubled or changed.
fn cut_or_bend(chances: &mut Chances<'_>, out: &mut Vec<u8>) {
    let back = usize::from(chances.byte()).min(out.len());
    let at = out.len() - back;
    match chances.byte() % 3 {
        0 => out.truncate(at),
        1 => out.extend_from_within(at..),
        _ => {
            if let Some(octet) = out.get_mut(at) {
                *octet ^= 1 << (chances.byte() % 8);
            }
        }
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, number: u16, payload: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    out.extend_from_slice(payload);
    out.push(amqp::FRAME_END);
}
