//! A broker of a few hundred lines: enough AMQP for the tool, and one fault planted on purpose.
//!
//! Messages wait in a list until their queue has a consumer; what a consumer did not acknowledge
//! comes back, marked as redelivered, when its connection ends. One channel of a connection
//! publishes. Flow control, prefetch, exchanges and all else that a real broker does is absent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use amqp::protocol::{AMQPClass, basic, channel, confirm, connection, queue};
use amqp::{
    BasicAck, BasicNack, FrameDecoder, FrameKind, Method, Table, encode_ack, encode_method,
    encode_method_with_table, encode_nack,
};

mod store;

use store::{Consumer, FRAME_BYTES_MAX, Message, State, deliver_all, end_connection};

/// What goes wrong, counting publishes from 0 over the life of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Confirmed and never delivered.
    Lose {
        nth: u64,
    },
    Duplicate {
        nth: u64,
    },
    /// Delivered behind the one after it.
    Swap {
        nth: u64,
    },
    /// Its last byte changed.
    Corrupt {
        nth: u64,
    },
    /// Answered by nack.
    Refuse {
        nth: u64,
    },
    CloseChannel {
        after: u64,
    },
    DropConnection {
        after: u64,
    },
    RefuseQueues,
}

pub(crate) struct StandIn {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl StandIn {
    /// Listens on a free port until the test process ends.
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for (number, socket) in (0..).zip(listener.incoming()) {
                let (socket, state) = (socket.unwrap(), Arc::clone(&shared));
                thread::spawn(move || {
                    // A client that goes away ends its connection here, whichever way.
                    let _ended = Connection::new(number, socket, fault, &state).serve();
                    end_connection(&state, number);
                });
            }
        });
        Self { address, state }
    }

    pub(crate) fn uri(&self) -> String {
        format!("amqp://{}", self.address)
    }

    /// Names of the queues that exist.
    pub(crate) fn queues(&self) -> Vec<String> {
        self.state.lock().unwrap().queues.keys().cloned().collect()
    }
}

struct Connection<'a> {
    number: u64,
    socket: TcpStream,
    fault: Fault,
    state: &'a Mutex<State>,
    out: Vec<u8>,
    /// A publish under way: its queue and body so far, and how much is to come.
    publish: Option<(String, Vec<u8>, u64)>,
    /// Publishes answered so far, once answers were asked for.
    confirms: Option<u64>,
    over: bool,
}

impl<'a> Connection<'a> {
    fn new(number: u64, socket: TcpStream, fault: Fault, state: &'a Mutex<State>) -> Self {
        Self {
            number,
            socket,
            fault,
            state,
            out: Vec::new(),
            publish: None,
            confirms: None,
            over: false,
        }
    }

    fn state(&self) -> MutexGuard<'a, State> {
        self.state.lock().unwrap()
    }

    fn serve(mut self) -> std::io::Result<()> {
        let mut greeting = [0; 8];
        self.socket.read_exact(&mut greeting)?;
        assert_eq!(greeting, amqp::PROTOCOL_HEADER);
        let start = connection::Start {
            version_major: 0,
            version_minor: 9,
            mechanisms: "PLAIN".into(),
            locales: "en_US".into(),
            ..connection::Start::default()
        };
        let properties: Table = [("product", "stand-in"), ("version", "1")]
            .into_iter()
            .collect();
        let start = AMQPClass::Connection(connection::AMQPMethod::Start(start));
        encode_method_with_table(&mut self.out, 0, &start, &properties);
        let decoder = FrameDecoder::new(FRAME_BYTES_MAX);
        let mut unread = Vec::new();
        let mut chunk = vec![0; 65_536];
        while !self.over {
            self.flush()?;
            let bytes = self.socket.read(&mut chunk)?;
            if bytes == 0 {
                return Ok(());
            }
            unread.extend_from_slice(&chunk[..bytes]);
            let mut at = 0;
            while let Some((frame, consumed)) = decoder.next(&unread[at..]).unwrap() {
                at += consumed;
                let (kind, channel) = (frame.kind, frame.channel);
                match kind {
                    FrameKind::Method => {
                        let method = Method::decode(frame.payload).unwrap();
                        self.on_method(channel, method);
                    }
                    FrameKind::Header => {
                        let size = frame.payload[4..12].try_into().unwrap();
                        self.on_header(channel, u64::from_be_bytes(size));
                    }
                    FrameKind::Body => self.on_body(channel, frame.payload),
                    FrameKind::Heartbeat => {}
                }
            }
            unread.drain(..at);
        }
        self.flush()
    }

    /// Under the lock, so that nothing mixes with what others deliver on this socket.
    fn flush(&mut self) -> std::io::Result<()> {
        let _deliveries_wait = self.state.lock().unwrap();
        self.socket.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn say(&mut self, channel: u16, call: AMQPClass) {
        encode_method(&mut self.out, channel, &call);
    }

    fn on_method(&mut self, channel: u16, method: Method<'_>) {
        match method {
            Method::BasicPublish(publish) => {
                self.publish = Some((publish.routing_key.to_owned(), Vec::new(), 0));
            }
            Method::BasicAck(ack) => self.on_ack(channel, ack),
            Method::BasicNack(nack) => self.on_nack(channel, nack),
            Method::Other(other) => self.on_other(channel, other.call),
            other => panic!("the tool sent {other:?}"),
        }
    }

    fn on_ack(&mut self, channel: u16, ack: BasicAck) {
        let number = self.number;
        self.state()
            .unacked
            .retain(|(connection, its_channel, tag), _| {
                let its = *connection == number && *its_channel == channel;
                let named = if ack.multiple {
                    *tag <= ack.delivery_tag
                } else {
                    *tag == ack.delivery_tag
                };
                !(its && named)
            });
    }

    fn on_nack(&mut self, channel: u16, nack: BasicNack) {
        let mut state = self.state();
        let key = (self.number, channel, nack.delivery_tag);
        if let Some((name, mut message)) = state.unacked.remove(&key) {
            message.redelivered = true;
            state
                .queues
                .entry(name)
                .or_default()
                .ready
                .push_front(message);
            deliver_all(&mut state);
        }
    }

    fn on_header(&mut self, channel: u16, body_bytes: u64) {
        if let Some((_, _, to_come)) = &mut self.publish {
            *to_come = body_bytes;
        }
        self.take_if_whole(channel);
    }

    fn on_body(&mut self, channel: u16, piece: &[u8]) {
        if let Some((_, body, to_come)) = &mut self.publish {
            body.extend_from_slice(piece);
            *to_come -= piece.len() as u64;
        }
        self.take_if_whole(channel);
    }

    fn take_if_whole(&mut self, channel: u16) {
        let whole = self.publish.take_if(|(_, _, to_come)| *to_come == 0);
        if let Some((name, body, _)) = whole {
            self.on_publish(channel, &name, body);
        }
    }

    fn on_publish(&mut self, channel: u16, name: &str, body: Vec<u8>) {
        let mut state = self.state();
        let nth = state.published;
        state.published += 1;
        let answered = self.confirms.map(|answered| answered + 1);
        self.confirms = answered;
        let tag = answered.unwrap_or(0);
        if self.fault == (Fault::Refuse { nth }) {
            let nack = BasicNack {
                delivery_tag: tag,
                multiple: false,
                requeue: false,
            };
            encode_nack(&mut self.out, channel, nack);
            return;
        }
        let mut arriving = vec![Message {
            body,
            redelivered: false,
        }];
        self.plant(nth, &mut arriving, &mut state);
        state
            .queues
            .entry(name.to_owned())
            .or_default()
            .ready
            .extend(arriving);
        deliver_all(&mut state);
        drop(state);
        if answered.is_some() {
            let ack = BasicAck {
                delivery_tag: tag,
                multiple: false,
            };
            encode_ack(&mut self.out, channel, ack);
        }
        match self.fault {
            Fault::CloseChannel { after } if nth == after => {
                self.close_channel(channel, 406, "PRECONDITION_FAILED - planted");
            }
            Fault::DropConnection { after } if nth == after => self.over = true,
            _ => {}
        }
    }

    fn plant(&self, nth: u64, arriving: &mut Vec<Message>, state: &mut State) {
        match self.fault {
            Fault::Lose { nth: planted } if nth == planted => arriving.clear(),
            Fault::Duplicate { nth: planted } if nth == planted => {
                arriving.push(arriving[0].clone());
            }
            Fault::Swap { nth: planted } if nth == planted => state.swapped = arriving.pop(),
            Fault::Swap { nth: planted } if nth == planted + 1 => {
                arriving.extend(state.swapped.take());
            }
            Fault::Corrupt { nth: planted } if nth == planted => {
                if let Some(last) = arriving[0].body.last_mut() {
                    *last ^= 1;
                }
            }
            _ => {}
        }
    }

    fn close_channel(&mut self, channel: u16, reply_code: u16, text: &str) {
        let close = channel::Close {
            reply_code,
            reply_text: text.into(),
            class_id: 0,
            method_id: 0,
        };
        self.say(
            channel,
            AMQPClass::Channel(channel::AMQPMethod::Close(close)),
        );
    }

    fn on_other(&mut self, channel: u16, call: AMQPClass) {
        match call {
            AMQPClass::Connection(call) => self.on_connection(call),
            AMQPClass::Channel(channel::AMQPMethod::Open(_)) => {
                let ok = channel::AMQPMethod::OpenOk(channel::OpenOk {});
                self.say(channel, AMQPClass::Channel(ok));
            }
            AMQPClass::Channel(channel::AMQPMethod::Close(_)) => {
                let ok = channel::AMQPMethod::CloseOk(channel::CloseOk {});
                self.say(channel, AMQPClass::Channel(ok));
            }
            AMQPClass::Channel(_) => {}
            AMQPClass::Confirm(_) => {
                self.confirms = Some(0);
                let ok = confirm::AMQPMethod::SelectOk(confirm::SelectOk {});
                self.say(channel, AMQPClass::Confirm(ok));
            }
            AMQPClass::Queue(call) => self.on_queue(channel, call),
            AMQPClass::Basic(call) => self.on_basic(channel, call),
            other => panic!("the tool sent {other:?}"),
        }
    }

    fn on_connection(&mut self, call: connection::AMQPMethod) {
        let answer = match call {
            connection::AMQPMethod::StartOk(_) => connection::AMQPMethod::Tune(connection::Tune {
                channel_max: 2_047,
                frame_max: FRAME_BYTES_MAX,
                heartbeat: 60,
            }),
            connection::AMQPMethod::Open(_) => {
                connection::AMQPMethod::OpenOk(connection::OpenOk {})
            }
            connection::AMQPMethod::Close(_) => {
                self.over = true;
                connection::AMQPMethod::CloseOk(connection::CloseOk {})
            }
            _ => return,
        };
        self.say(0, AMQPClass::Connection(answer));
    }

    fn on_queue(&mut self, channel: u16, call: queue::AMQPMethod) {
        let answer = match call {
            queue::AMQPMethod::Declare(declare) => {
                let name = declare.queue.as_str().to_owned();
                let exists = self.state().queues.contains_key(&name);
                if declare.passive && !exists {
                    return self.close_channel(channel, 404, "NOT_FOUND - no queue");
                }
                if self.fault == Fault::RefuseQueues {
                    return self.close_channel(channel, 540, "NOT_IMPLEMENTED - planted");
                }
                self.state().queues.entry(name).or_default();
                queue::AMQPMethod::DeclareOk(queue::DeclareOk {
                    queue: declare.queue,
                    message_count: 0,
                    consumer_count: 0,
                })
            }
            queue::AMQPMethod::Delete(delete) => {
                self.state().queues.remove(delete.queue.as_str());
                queue::AMQPMethod::DeleteOk(queue::DeleteOk { message_count: 0 })
            }
            other => panic!("the tool sent {other:?}"),
        };
        self.say(channel, AMQPClass::Queue(answer));
    }

    fn on_basic(&mut self, channel: u16, call: basic::AMQPMethod) {
        match call {
            basic::AMQPMethod::Qos(_) => {
                let ok = basic::AMQPMethod::QosOk(basic::QosOk {});
                self.say(channel, AMQPClass::Basic(ok));
            }
            basic::AMQPMethod::Consume(consume) => self.on_consume(channel, &consume),
            other => panic!("the tool sent {other:?}"),
        }
    }

    fn on_consume(&mut self, channel: u16, consume: &basic::Consume) {
        let tag = consume.consumer_tag.clone();
        let ok = basic::AMQPMethod::ConsumeOk(basic::ConsumeOk {
            consumer_tag: tag.clone(),
        });
        self.say(channel, AMQPClass::Basic(ok));
        // The answer must be out before the first delivery.
        let _sent_or_gone = self.flush();
        let mut state = self.state();
        let name = consume.queue.as_str().to_owned();
        state.queues.entry(name).or_default().consumer = Some(Consumer {
            connection: self.number,
            channel,
            tag: tag.as_str().to_owned(),
            no_ack: consume.no_ack,
            socket: self.socket.try_clone().unwrap(),
        });
        deliver_all(&mut state);
    }
}
