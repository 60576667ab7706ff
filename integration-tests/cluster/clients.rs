//! Publishers and consumers that go on whatever becomes of their nodes, and write down what they see.
//! Each has a thread, and a connection to one node, which it opens again when it ends.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use integration_tests::connection::{Incoming, publish_octets};
use integration_tests::request::{basic_ack, basic_consume, basic_nack, basic_qos, confirm_select};
use integration_tests::{Connection, ConsumerSpec, Method, Properties, Publication};

use crate::history::{History, Id, What};

/// Queues of a test: enough that each node leads some.
pub(crate) const LINES: u32 = 6;

pub(crate) fn line(number: u32) -> String {
    format!("line.{number}")
}

/// How long a node may take to answer a client before the client tries again.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
const DIAL_AGAIN: Duration = Duration::from_millis(200);
/// How long a client waits for its socket at once.
const TURN: Duration = Duration::from_millis(5);
/// Publishes without outcome of one publisher.
const WINDOW: usize = 30;
const PREFETCH: u16 = 20;
/// Deliveries that a consumer acks with one ack, when they come fast.
const ACK_EVERY: usize = 8;
/// One delivery in so many is given back.
const GIVEN_BACK_ONE_IN: u64 = 97;

pub(crate) struct Clients {
    publishing: Arc<AtomicBool>,
    consuming: Arc<AtomicBool>,
    publishers: Vec<JoinHandle<()>>,
    consumers: Vec<JoinHandle<()>>,
}

impl Clients {
    /// A publisher on each node, and a consumer for each queue.
    pub(crate) fn start(nodes: &[(u64, SocketAddr)], history: &History) -> Clients {
        let publishing = Arc::new(AtomicBool::new(true));
        let consuming = Arc::new(AtomicBool::new(true));
        let publishers = nodes.iter().map(|(node, address)| {
            let publisher = Publisher {
                node: *node,
                address: *address,
                history: history.clone(),
                go_on: publishing.clone(),
                next: 0,
            };
            spawn(move || publisher.run())
        });
        let consumers = (0..LINES)
            .zip(nodes.iter().cycle())
            .map(|(queue, (node, address))| {
                let consumer = Consumer {
                    node: *node,
                    address: *address,
                    queue,
                    history: history.clone(),
                    go_on: consuming.clone(),
                };
                spawn(move || consumer.run())
            });
        Clients {
            publishers: publishers.collect(),
            consumers: consumers.collect(),
            publishing,
            consuming,
        }
    }

    /// Publishes no more; true once every publish has its outcome.
    pub(crate) fn stop_publishing(&self, limit: Duration) -> bool {
        self.publishing.store(false, Ordering::Release);
        let end = Instant::now() + limit;
        while !self.publishers.iter().all(JoinHandle::is_finished) {
            if Instant::now() > end {
                return false;
            }
            sleep(DIAL_AGAIN);
        }
        true
    }

    /// Ends the consumers; a panic of any client is the test's.
    pub(crate) fn end(mut self) {
        self.stop();
        let publishers = self.publishers.drain(..);
        for client in publishers.chain(self.consumers.drain(..)) {
            client.join().expect("No client panics.");
        }
    }

    fn stop(&self) {
        self.publishing.store(false, Ordering::Release);
        self.consuming.store(false, Ordering::Release);
    }
}

impl Drop for Clients {
    /// A test that failed leaves nobody behind who dials its dead nodes.
    fn drop(&mut self) {
        self.stop();
    }
}

struct Publisher {
    node: u64,
    address: SocketAddr,
    history: History,
    go_on: Arc<AtomicBool>,
    next: u64,
}

impl Publisher {
    fn run(mut self) {
        while self.go_on.load(Ordering::Acquire) {
            let opened = Connection::try_open(self.address, ANSWER_WITHIN)
                .filter(|own| own.try_call(1, &confirm_select(), ANSWER_WITHIN).is_some());
            match opened {
                Some(connection) => self.publish_on(&connection),
                None => sleep(DIAL_AGAIN),
            }
        }
    }

    /// Until the connection ends, or all that was published has its outcome and no more is wanted.
    fn publish_on(&mut self, connection: &Connection) {
        let mut open: BTreeMap<u64, Id> = BTreeMap::new();
        let mut tag = 0;
        loop {
            let go_on = self.go_on.load(Ordering::Acquire);
            if !go_on && open.is_empty() {
                return;
            }
            if go_on && open.len() < WINDOW {
                tag += 1;
                let id = self.next_id();
                open.insert(tag, id);
                if !self.publish(connection, id) {
                    return;
                }
            }
            match connection.receive(TURN) {
                None | Some(Incoming::Heartbeat) => {}
                Some(Incoming::Gone) => return,
                Some(Incoming::Method { method, .. }) => {
                    let what = match method.name {
                        "basic.ack" => What::Confirmed,
                        "basic.nack" => What::Refused,
                        // A close: whatever is open has no outcome.
                        _ => return,
                    };
                    for id in settled(&method, &mut open) {
                        self.history.note(self.node, id, what);
                    }
                }
            }
        }
    }

    fn next_id(&mut self) -> Id {
        self.next += 1;
        Id {
            queue: (self.next % u64::from(LINES)) as u32,
            publisher: self.node as u32,
            number: self.next,
        }
    }

    fn publish(&self, connection: &Connection, id: Id) -> bool {
        self.history.note(self.node, id, What::Published);
        let publication = Publication::to_queue(&line(id.queue), id.body());
        let publication = publication.with(Properties::persistent());
        let octets = publish_octets(1, &publication, connection.frame_max());
        connection.try_send_octets(&octets).is_ok()
    }
}

/// What an outcome is about.
fn settled(method: &Method, open: &mut BTreeMap<u64, Id>) -> Vec<Id> {
    let (tag, multiple) = (method.number(0), method.bit(1));
    let from = if multiple { 0 } else { tag };
    let tags: Vec<u64> = open.range(from..=tag).map(|(tag, _)| *tag).collect();
    tags.iter().filter_map(|tag| open.remove(tag)).collect()
}

struct Consumer {
    node: u64,
    address: SocketAddr,
    queue: u32,
    history: History,
    go_on: Arc<AtomicBool>,
}

impl Consumer {
    fn run(self) {
        let consume = basic_consume(&ConsumerSpec::of(&line(self.queue)));
        while self.go_on.load(Ordering::Acquire) {
            let opened = Connection::try_open(self.address, ANSWER_WITHIN).filter(|own| {
                own.try_call(1, &basic_qos(PREFETCH), ANSWER_WITHIN)
                    .is_some()
                    && own.try_call(1, &consume, ANSWER_WITHIN).is_some()
            });
            match opened {
                Some(connection) => self.consume_on(&connection),
                None => sleep(DIAL_AGAIN),
            }
        }
    }

    fn consume_on(&self, connection: &Connection) {
        let mut held: Vec<(u64, Id)> = Vec::new();
        while self.go_on.load(Ordering::Acquire) {
            let idle = match connection.receive(TURN) {
                None | Some(Incoming::Heartbeat) => true,
                Some(Incoming::Method {
                    method, content, ..
                }) if method.name == "basic.deliver" => {
                    let body = content.expect("A delivery has content.").body;
                    let id = Id::read(&body).expect("Only this test publishes here.");
                    let redelivered = method.bit(2);
                    self.history
                        .note(self.node, id, What::Delivered { redelivered });
                    held.push((method.number(1), id));
                    false
                }
                // The end, or a close.
                Some(_) => break,
            };
            let done = idle || held.len() >= ACK_EVERY;
            if done && !held.is_empty() && !self.settle(connection, &mut held) {
                break;
            }
        }
        for (_, id) in held {
            self.history.note(self.node, id, What::Returned);
        }
    }

    /// Acks what is in hand, and gives some of it back.
    fn settle(&self, connection: &Connection, held: &mut Vec<(u64, Id)>) -> bool {
        let mut last = None;
        for (tag, id) in held.drain(..) {
            if id.number.is_multiple_of(GIVEN_BACK_ONE_IN) && rand::random_bool(0.5) {
                self.history.note(self.node, id, What::Returned);
                if !connection.try_send(1, &basic_nack(tag, false, true)) {
                    return false;
                }
            } else {
                self.history.note(self.node, id, What::Acked);
                last = Some(tag);
            }
        }
        last.is_none_or(|tag| connection.try_send(1, &basic_ack(tag, true)))
    }
}
