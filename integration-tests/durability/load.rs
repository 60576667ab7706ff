//! Publishers and consumers that run until their broker dies, and write down what they saw.
//! Each has a connection and a thread of its own; the end of the socket is the end of its work.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use integration_tests::connection::{Incoming, PATIENCE, publish_octets};
use integration_tests::request::{basic_ack, basic_nack, basic_reject};
use integration_tests::{Connection, ConsumerSpec, Properties, Publication};
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::oracle::{Found, Id, Seen};

/// Publishes of one publisher that wait for their confirms at once.
const UNCONFIRMED_MAX: usize = 300;
/// How long a client waits for the socket before it looks at its work again.
const TURN: Duration = Duration::from_millis(2);
/// Unacked messages of one consumer.
const PREFETCH: u16 = 100;
/// One message in so many is a large one.
const LARGE_ONE_IN: u32 = 60;

/// The id at the head of a body.
pub(super) fn id_of(body: &[u8]) -> Id {
    let head: &[u8; 12] = body
        .get(..12)
        .and_then(|head| head.try_into().ok())
        .expect("An id.");
    let (publisher, number) = head.split_at(4);
    Id {
        publisher: u32::from_be_bytes(publisher.try_into().expect("Four octets.")),
        number: u64::from_be_bytes(number.try_into().expect("Eight octets.")),
    }
}

fn body_of(id: Id, random: &mut SmallRng) -> Vec<u8> {
    let large = random.random_range(0..LARGE_ONE_IN) == 0;
    let length = if large {
        random.random_range(8_000..60_000)
    } else {
        random.random_range(12..600)
    };
    let mut body = Vec::with_capacity(length);
    body.extend(id.publisher.to_be_bytes());
    body.extend(id.number.to_be_bytes());
    // The rest follows from the id, so that a mixed-up body shows.
    let filling = id.number.to_le_bytes()[0] ^ id.publisher.to_le_bytes()[0];
    body.resize(length, filling);
    body
}

/// Checks that a body is whole.
fn is_whole(body: &[u8]) -> bool {
    let id = id_of(body);
    let filling = id.number.to_le_bytes()[0] ^ id.publisher.to_le_bytes()[0];
    body[12..].iter().all(|octet| *octet == filling)
}

/// One publisher of one queue.
pub(super) struct Publisher {
    connection: Connection,
    queue: String,
    publisher: u32,
    next: u64,
    /// One message in so many is transient; 0 for none.
    transient_one_in: u32,
}

impl Publisher {
    pub(super) fn connect(
        address: SocketAddr,
        queue: &str,
        publisher: u32,
        transient_one_in: u32,
    ) -> Publisher {
        let connection = Connection::open(address);
        connection.channel(1).confirm_select();
        let queue = queue.to_owned();
        Publisher {
            connection,
            queue,
            publisher,
            next: 0,
            transient_one_in,
        }
    }

    /// Publishes until the socket ends.
    pub(super) fn run(mut self, random: &mut SmallRng) -> Seen {
        let mut seen = Seen::default();
        let mut open: BTreeSet<u64> = BTreeSet::new();
        loop {
            let room = UNCONFIRMED_MAX - open.len();
            let count = if room == 0 {
                0
            } else {
                random.random_range(1..=room.min(40))
            };
            let mut octets = Vec::new();
            for _ in 0..count {
                octets.extend(self.next_message(random, &mut seen));
                // Confirm numbers count from 1, ours from 0.
                open.insert(self.next);
            }
            if self.connection.try_send_octets(&octets).is_err() {
                return self.finish(seen, &mut open);
            }
            if !self.take_confirms(TURN, &mut open, &mut seen) {
                return seen;
            }
        }
    }

    fn next_message(&mut self, random: &mut SmallRng, seen: &mut Seen) -> Vec<u8> {
        let id = Id {
            publisher: self.publisher,
            number: self.next,
        };
        let transient =
            self.transient_one_in > 0 && random.random_range(0..self.transient_one_in) == 0;
        let properties = if transient {
            Properties::default()
        } else {
            Properties::persistent()
        };
        let publication = Publication::to_queue(&self.queue, body_of(id, random)).with(properties);
        seen.published.push((id, transient));
        self.next += 1;
        publish_octets(1, &publication, self.connection.frame_max())
    }

    /// Takes the confirms that came before the socket ended.
    fn finish(&self, mut seen: Seen, open: &mut BTreeSet<u64>) -> Seen {
        while self.take_confirms(TURN, open, &mut seen) && !open.is_empty() {}
        seen
    }

    /// Takes what comes within `limit`; false when the socket has ended.
    fn take_confirms(&self, limit: Duration, open: &mut BTreeSet<u64>, seen: &mut Seen) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let method = match self.connection.receive(left) {
                None => return true,
                Some(Incoming::Gone) => return false,
                Some(Incoming::Heartbeat) => continue,
                Some(Incoming::Method { method, .. }) => method,
            };
            assert_eq!(
                method.name, "basic.ack",
                "a publisher hears acks only; came {method:?}"
            );
            let (tag, multiple) = (method.number(0), method.bit(1));
            let from = if multiple { 1 } else { tag };
            let settled: Vec<u64> = open.range(from..=tag).copied().collect();
            for number in settled {
                open.remove(&number);
                seen.confirmed.push(Id {
                    publisher: self.publisher,
                    number: number - 1,
                });
            }
        }
    }
}

/// One consumer of one queue.
pub(super) struct Consumer {
    connection: Connection,
}

impl Consumer {
    pub(super) fn connect(address: SocketAddr, queue: &str) -> Consumer {
        let connection = Connection::open(address);
        let channel = connection.channel(1);
        channel.prefetch(PREFETCH);
        channel.consume(&ConsumerSpec::of(queue));
        Consumer { connection }
    }

    /// Takes and settles messages until the socket ends: most are acked, some discarded, some given
    /// back, some held.
    pub(super) fn run(self, random: &mut SmallRng) -> Seen {
        let mut seen = Seen::default();
        let mut held: BTreeMap<u64, Id> = BTreeMap::new();
        loop {
            match self.connection.receive(TURN) {
                None | Some(Incoming::Heartbeat) => {}
                Some(Incoming::Gone) => return seen,
                Some(Incoming::Method {
                    method, content, ..
                }) => {
                    assert_eq!(method.name, "basic.deliver", "came {method:?}");
                    let body = content.expect("A delivery has content.").body;
                    assert!(
                        is_whole(&body),
                        "the body of {:?} is mixed up",
                        id_of(&body)
                    );
                    seen.delivered.push((id_of(&body), method.bit(2)));
                    held.insert(method.number(1), id_of(&body));
                }
            }
            if held.len() > usize::from(PREFETCH) / 2 || random.random_range(0..4) == 0 {
                self.settle_some(&mut held, random, &mut seen);
            }
        }
    }

    fn settle_some(&self, held: &mut BTreeMap<u64, Id>, random: &mut SmallRng, seen: &mut Seen) {
        let tags: Vec<u64> = held.keys().copied().collect();
        if tags.is_empty() {
            return;
        }
        let tag = tags[random.random_range(0..tags.len())];
        let (method, multiple) = match random.random_range(0..10) {
            0..4 => (basic_ack(tag, true), true),
            4..7 => (basic_ack(tag, false), false),
            7 => (basic_reject(tag, false), false),
            8 => (basic_nack(tag, false, true), false),
            _ => (basic_nack(tag, true, true), true),
        };
        let gives_back = method.name == "basic.nack";
        let from = if multiple { 0 } else { tag };
        let settled: Vec<u64> = held.range(from..=tag).map(|(tag, _)| *tag).collect();
        // Written down first: the broker may act on it whatever the socket says afterwards.
        for id in settled.iter().filter_map(|tag| held.remove(tag)) {
            if gives_back {
                seen.requeued.push(id);
            } else {
                seen.acked.push(id);
            }
        }
        self.connection.try_send(1, &method);
    }
}

/// Takes every message out of a queue after a restart, in its order; most are acked, the others go
/// back when the connection ends. Tells what was found and which of it was acked.
pub(super) fn drain(
    address: SocketAddr,
    queue: &str,
    random: &mut SmallRng,
) -> (Vec<Found>, Vec<Id>) {
    let connection = Connection::open(address);
    let channel = connection.channel(1);
    let ready = channel.ready(queue);
    channel.consume(&ConsumerSpec::of(queue));
    let mut found = Vec::new();
    let mut acked = Vec::new();
    for n in 0..ready {
        let Some(delivery) = channel.delivery_within(PATIENCE) else {
            let left = Connection::open(address).channel(1).ready(queue);
            panic!("{queue} had {ready} messages ready; only {n} came, and {left} are ready now");
        };
        assert!(
            is_whole(&delivery.body),
            "the body of {:?} is mixed up",
            id_of(&delivery.body)
        );
        let id = id_of(&delivery.body);
        found.push(Found {
            id,
            redelivered: delivery.redelivered,
        });
        if random.random_range(0..10) < 7 {
            channel.ack(&delivery);
            acked.push(id);
        }
    }
    // What was ready is all there is.
    channel.expect_no_delivery();
    connection.close();
    (found, acked)
}
