//! A client that says what a test wants it to say, right or wrong.

use std::time::Duration;

use amqp::protocol::{AMQPClass, basic, channel, connection, queue};
use amqp::protocol_types::{LongString, ShortString};
use amqp::{
    BasicPublish, Content, FrameDecoder, FrameEncoder, FrameKind, Method, Properties, Table, Value,
    encode_method, encode_method_with_table,
};
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// A test that waits longer than this for a byte hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something that the server said, contents put together.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Method(u16, AMQPClass),
    Deliver {
        channel: u16,
        consumer_tag: String,
        delivery_tag: u64,
        redelivered: bool,
        body: Vec<u8>,
    },
    GetOk {
        channel: u16,
        delivery_tag: u64,
        message_count: u32,
        body: Vec<u8>,
    },
    Return {
        channel: u16,
        code: u16,
        text: String,
        body: Vec<u8>,
    },
    Ack {
        channel: u16,
        delivery_tag: u64,
        multiple: bool,
    },
    Nack {
        channel: u16,
        delivery_tag: u64,
        multiple: bool,
    },
    Heartbeat,
    End,
}

/// A close as the server said it.
#[derive(Debug, PartialEq)]
pub(super) struct Closed {
    pub(super) channel: u16,
    pub(super) code: u16,
    pub(super) text: String,
    pub(super) at: (u16, u16),
}

pub(super) struct Client {
    stream: DuplexStream,
    input: BytesMut,
    pub(super) frame_max: u32,
    cut: bool,
}

impl Client {
    pub(super) fn new(stream: DuplexStream) -> Self {
        Self {
            stream,
            input: BytesMut::new(),
            frame_max: 131_072,
            cut: false,
        }
    }

    /// Sends bytes. The server may have gone; that is for the test to find out by listening.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.cut |= self.stream.write_all(bytes).await.is_err();
    }

    /// Whether something could not be sent.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Ends our side of the stream.
    pub(super) async fn end(&mut self) {
        self.stream.shutdown().await.expect("a pipe ends");
    }

    /// Sends a method.
    pub(super) async fn say(&mut self, channel: u16, method: AMQPClass) {
        let mut bytes = Vec::new();
        encode_method(&mut bytes, channel, &method);
        self.send(&bytes).await;
    }

    /// Sends basic.publish to the default exchange.
    pub(super) async fn publish(&mut self, channel: u16, queue: &str, body: &[u8]) {
        let bytes = self.publish_bytes(channel, queue, false, body);
        self.send(&bytes).await;
    }

    /// The frames of basic.publish to the default exchange.
    pub(super) fn publish_bytes(
        &self,
        channel: u16,
        queue: &str,
        mandatory: bool,
        body: &[u8],
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        let publish = BasicPublish {
            exchange: "",
            routing_key: queue,
            mandatory,
            immediate: false,
        };
        let content = Content {
            properties: Properties::empty(),
            body,
        };
        FrameEncoder::new(self.frame_max).publish(&mut bytes, channel, &publish, content);
        bytes
    }

    /// Some bytes of the stream; none at its end.
    pub(super) async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.input.len() < count && self.fill().await {}
        let count = count.min(self.input.len());
        self.input.split_to(count).to_vec()
    }

    async fn fill(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.input);
        let count = tokio::time::timeout(PATIENCE, read)
            .await
            .expect("the server says something");
        matches!(count, Ok(1..))
    }

    async fn frame(&mut self) -> Option<(FrameKind, u16, Vec<u8>)> {
        let decoder = FrameDecoder::new(0);
        loop {
            let cut = decoder
                .next(&self.input)
                .expect("the server sends good frames");
            if let Some((frame, used)) = cut {
                let frame = (frame.kind, frame.channel, frame.payload.to_vec());
                self.input.advance(used);
                return Some(frame);
            }
            if !self.fill().await {
                assert!(self.input.is_empty(), "the stream ends within a frame");
                return None;
            }
        }
    }

    async fn body(&mut self, channel: u16) -> Vec<u8> {
        let (kind, on, payload) = self.frame().await.expect("a content header");
        assert_eq!((kind, on), (FrameKind::Header, channel));
        let size = u64::from_be_bytes(payload[4..12].try_into().expect("eight octets")) as usize;
        let mut body = Vec::new();
        while body.len() < size {
            let (kind, on, payload) = self.frame().await.expect("a body");
            assert_eq!((kind, on), (FrameKind::Body, channel));
            assert!(payload.len() + 8 <= self.frame_max as usize);
            body.extend(payload);
        }
        assert_eq!(body.len(), size);
        body
    }

    /// The next thing the server says.
    pub(super) async fn listen(&mut self) -> Said {
        let Some((kind, channel, payload)) = self.frame().await else {
            return Said::End;
        };
        if kind == FrameKind::Heartbeat {
            return Said::Heartbeat;
        }
        assert_eq!(kind, FrameKind::Method);
        match Method::decode(&payload).expect("the server sends good methods") {
            Method::BasicDeliver(deliver) => Said::Deliver {
                channel,
                consumer_tag: deliver.consumer_tag.to_owned(),
                delivery_tag: deliver.delivery_tag,
                redelivered: deliver.redelivered,
                body: self.body(channel).await,
            },
            Method::BasicGetOk(got) => Said::GetOk {
                channel,
                delivery_tag: got.delivery_tag,
                message_count: got.message_count,
                body: self.body(channel).await,
            },
            Method::BasicReturn(returned) => Said::Return {
                channel,
                code: returned.reply_code,
                text: returned.reply_text.to_owned(),
                body: self.body(channel).await,
            },
            Method::BasicAck(ack) => Said::Ack {
                channel,
                delivery_tag: ack.delivery_tag,
                multiple: ack.multiple,
            },
            Method::BasicNack(nack) => Said::Nack {
                channel,
                delivery_tag: nack.delivery_tag,
                multiple: nack.multiple,
            },
            Method::Other(other) => Said::Method(channel, other.call),
            other => panic!("a server does not send {other:?}"),
        }
    }

    /// The next method on this channel.
    pub(super) async fn method(&mut self, channel: u16) -> AMQPClass {
        match self.listen().await {
            Said::Method(on, method) if on == channel => method,
            other => panic!("a method on channel {channel} is due, not {other:?}"),
        }
    }

    /// The next thing, which must be a close.
    pub(super) async fn closed(&mut self) -> Closed {
        match self.listen().await {
            Said::Method(channel, AMQPClass::Connection(connection::AMQPMethod::Close(close))) => {
                Closed {
                    channel,
                    code: close.reply_code,
                    text: close.reply_text.to_string(),
                    at: (close.class_id, close.method_id),
                }
            }
            Said::Method(channel, AMQPClass::Channel(channel::AMQPMethod::Close(close))) => {
                Closed {
                    channel,
                    code: close.reply_code,
                    text: close.reply_text.to_string(),
                    at: (close.class_id, close.method_id),
                }
            }
            other => panic!("a close is due, not {other:?}"),
        }
    }

    /// The handshake with everything as offered.
    pub(super) async fn handshake(&mut self) {
        let tune = self
            .log_in("PLAIN", b"\0guest\0guest", &capabilities())
            .await;
        self.tune_ok(tune.channel_max, tune.frame_max, tune.heartbeat)
            .await;
        self.open_vhost("/").await;
        let opened = self.method(0).await;
        assert!(matches!(
            opened,
            AMQPClass::Connection(connection::AMQPMethod::OpenOk(_))
        ));
    }

    /// Header and login; answers connection.tune.
    pub(super) async fn log_in(
        &mut self,
        mechanism: &str,
        response: &[u8],
        properties: &Table,
    ) -> connection::Tune {
        self.start_ok(mechanism, response, properties).await;
        match self.method(0).await {
            AMQPClass::Connection(connection::AMQPMethod::Tune(tune)) => tune,
            other => panic!("connection.tune is due, not {other:?}"),
        }
    }

    /// Header and login.
    pub(super) async fn start_ok(&mut self, mechanism: &str, response: &[u8], properties: &Table) {
        self.send(&amqp::PROTOCOL_HEADER).await;
        let start = self.method(0).await;
        assert!(matches!(
            start,
            AMQPClass::Connection(connection::AMQPMethod::Start(_))
        ));
        let start_ok = connection::StartOk {
            mechanism: mechanism.into(),
            response: LongString::from(response.to_vec()),
            locale: "en_US".into(),
            ..connection::StartOk::default()
        };
        let method = AMQPClass::Connection(connection::AMQPMethod::StartOk(start_ok));
        let mut bytes = Vec::new();
        encode_method_with_table(&mut bytes, 0, &method, properties);
        self.send(&bytes).await;
    }

    pub(super) async fn tune_ok(&mut self, channel_max: u16, frame_max: u32, heartbeat: u16) {
        self.frame_max = frame_max;
        let tune_ok = connection::TuneOk {
            channel_max,
            frame_max,
            heartbeat,
        };
        self.say(
            0,
            AMQPClass::Connection(connection::AMQPMethod::TuneOk(tune_ok)),
        )
        .await;
    }

    pub(super) async fn open_vhost(&mut self, vhost: &str) {
        let open = connection::Open {
            virtual_host: vhost.into(),
        };
        self.say(0, AMQPClass::Connection(connection::AMQPMethod::Open(open)))
            .await;
    }

    pub(super) async fn open_channel(&mut self, number: u16) {
        self.say(number, channel_open()).await;
        let opened = self.method(number).await;
        assert!(matches!(
            opened,
            AMQPClass::Channel(channel::AMQPMethod::OpenOk(_))
        ));
    }

    /// Declares a transient queue and waits for the answer.
    pub(super) async fn declare(&mut self, channel: u16, queue: &str) {
        self.say(channel, declare_queue(queue)).await;
        match self.method(channel).await {
            AMQPClass::Queue(queue::AMQPMethod::DeclareOk(declared)) => {
                assert_eq!(declared.queue.as_str(), queue);
            }
            other => panic!("queue.declare-ok is due, not {other:?}"),
        }
    }

    /// Starts a consumer and waits for the answer.
    pub(super) async fn consume(&mut self, channel: u16, queue: &str, tag: &str) {
        self.say(channel, consume(queue, tag)).await;
        match self.method(channel).await {
            AMQPClass::Basic(basic::AMQPMethod::ConsumeOk(ok)) => {
                assert_eq!(ok.consumer_tag.as_str(), tag);
            }
            other => panic!("basic.consume-ok is due, not {other:?}"),
        }
    }

    /// Asks for a message and answers what comes.
    pub(super) async fn get(&mut self, channel: u16, queue: &str) -> Said {
        let get = basic::Get {
            queue: queue.into(),
            no_ack: true,
        };
        self.say(channel, AMQPClass::Basic(basic::AMQPMethod::Get(get)))
            .await;
        self.listen().await
    }

    /// Closes the connection in good order.
    pub(super) async fn close(&mut self) {
        self.say(0, connection_close()).await;
        assert_eq!(self.listen().await, Said::Method(0, connection_close_ok()));
        assert_eq!(self.listen().await, Said::End);
    }
}

/// Client-properties with every capability that counts.
pub(super) fn capabilities() -> Table {
    let mut capabilities = Table::new();
    for name in [
        "authentication_failure_close",
        "consumer_cancel_notify",
        "connection.blocked",
    ] {
        capabilities.push(name, Value::Bool(true));
    }
    let mut properties = Table::new();
    properties.push("capabilities", Value::Table(capabilities));
    properties
}

pub(super) fn connection_close() -> AMQPClass {
    let close = connection::Close {
        reply_code: 200,
        reply_text: "bye".into(),
        ..connection::Close::default()
    };
    AMQPClass::Connection(connection::AMQPMethod::Close(close))
}

pub(super) fn connection_close_ok() -> AMQPClass {
    AMQPClass::Connection(connection::AMQPMethod::CloseOk(connection::CloseOk {}))
}

pub(super) fn channel_open() -> AMQPClass {
    AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}))
}

pub(super) fn channel_open_ok() -> AMQPClass {
    AMQPClass::Channel(channel::AMQPMethod::OpenOk(channel::OpenOk {}))
}

pub(super) fn channel_close() -> AMQPClass {
    let close = channel::Close {
        reply_code: 200,
        reply_text: "bye".into(),
        ..channel::Close::default()
    };
    AMQPClass::Channel(channel::AMQPMethod::Close(close))
}

pub(super) fn channel_close_ok() -> AMQPClass {
    AMQPClass::Channel(channel::AMQPMethod::CloseOk(channel::CloseOk {}))
}

pub(super) fn declare_queue(queue: &str) -> AMQPClass {
    let declare = queue::Declare {
        queue: short(queue),
        ..queue::Declare::default()
    };
    AMQPClass::Queue(queue::AMQPMethod::Declare(declare))
}

/// A declaration that is refused when the queue does not exist.
pub(super) fn look_for_queue(queue: &str) -> AMQPClass {
    let declare = queue::Declare {
        queue: short(queue),
        passive: true,
        ..queue::Declare::default()
    };
    AMQPClass::Queue(queue::AMQPMethod::Declare(declare))
}

pub(super) fn consume(queue: &str, tag: &str) -> AMQPClass {
    let consume = basic::Consume {
        queue: short(queue),
        consumer_tag: short(tag),
        no_ack: true,
        ..basic::Consume::default()
    };
    AMQPClass::Basic(basic::AMQPMethod::Consume(consume))
}

pub(super) fn short(text: &str) -> ShortString {
    ShortString::from(text)
}

/// A frame of any kind, right or wrong.
pub(super) fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&channel.to_be_bytes());
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes.push(amqp::FRAME_END);
    bytes
}
