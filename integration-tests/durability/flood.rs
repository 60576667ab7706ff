//! Millions of small messages through one durable queue: the disk must not remember them.
//! Speaks raw octets, since whole methods would be too slow for it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use integration_tests::connection::{PATIENCE, publish_octets};
use integration_tests::request::basic_ack;
use integration_tests::wire::frame::{ENVELOPE_BYTES, METHOD, frame};
use integration_tests::{
    BrokerProcess, Connection, ConsumerSpec, Properties, Publication, QueueSpec, own_broker, say,
};

use crate::from_environment;

/// Messages that pass; `SLUICEMQ_TEST_FLOOD_MESSAGES` for more.
const MESSAGES: u64 = 3_000_000;
/// The journal's cap and one segment: what may be left on disk, octets.
pub(crate) const DISK_BYTES_MAX: u64 = (256 + 16) * 1024 * 1024;
/// Publishes sent at once, and unconfirmed at most.
const BATCH: u64 = 1000;
const UNCONFIRMED_MAX: u64 = 100_000;
/// Unacked messages of the consumer; it acks a quarter of them at once.
const PREFETCH: u16 = 20_000;
/// How long the disk may take to be cleared up when the messages are through.
const CLEARED_WITHIN: Duration = Duration::from_secs(30);

/// Method frames out of a stream, content skipped.
pub(crate) struct Scanner {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
}

impl Scanner {
    pub(crate) fn new(stream: TcpStream) -> Scanner {
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("A positive time is a valid one.");
        Scanner {
            stream,
            buffer: Vec::new(),
            start: 0,
        }
    }

    /// Hands every method of the next read to `take`: class and method, and the arguments.
    pub(crate) fn read(&mut self, mut take: impl FnMut((u16, u16), &[u8])) {
        self.buffer.drain(..self.start);
        self.start = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + 256 * 1024, 0);
        let read = self.stream.read(&mut self.buffer[filled..]);
        let read = read.expect("The broker must go on sending.");
        assert!(read > 0, "the broker ended the connection");
        self.buffer.truncate(filled + read);
        while let Some(rest) = self.buffer.get(self.start..) {
            let Some([kind, _, _, s0, s1, s2, s3]) = rest.first_chunk::<7>() else {
                break;
            };
            let size = u32::from_be_bytes([*s0, *s1, *s2, *s3]) as usize;
            let Some(whole) = rest.get(..size + ENVELOPE_BYTES) else {
                break;
            };
            if *kind == METHOD {
                let payload = &whole[7..7 + size];
                let class = u16::from_be_bytes([payload[0], payload[1]]);
                let method = u16::from_be_bytes([payload[2], payload[3]]);
                take((class, method), &payload[4..]);
            }
            self.start += whole.len();
        }
    }
}

/// The 64-bit number at the head of arguments.
pub(crate) fn number(arguments: &[u8]) -> u64 {
    u64::from_be_bytes(
        *arguments
            .first_chunk()
            .expect("A delivery tag leads the arguments."),
    )
}

/// Publishes `messages` and waits for every confirm.
pub(crate) fn publish(address: SocketAddr, queue: &str, messages: u64) {
    let connection = Connection::open(address);
    connection.channel(1).confirm_select();
    let publication = Publication::to_queue(queue, [7; 16]).with(Properties::persistent());
    let one = publish_octets(1, &publication, connection.frame_max());
    let batch = one.repeat(usize::try_from(BATCH).expect("A batch is small."));
    let mut writing = connection.into_stream();
    let reading = writing.try_clone().expect("A socket can be cloned.");
    let confirmed = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| count_confirms(reading, messages, &confirmed));
        let mut sent = 0;
        while sent < messages {
            while sent - confirmed.load(Ordering::Relaxed) > UNCONFIRMED_MAX {
                thread::sleep(Duration::from_millis(1));
            }
            let now = (messages - sent).min(BATCH);
            let octets = &batch[..one.len() * usize::try_from(now).expect("A batch is small.")];
            writing
                .write_all(octets)
                .expect("The broker must go on reading.");
            sent += now;
        }
    });
    // The broker may have ended the socket already.
    let _ = writing.shutdown(Shutdown::Both);
}

/// Counts confirms until all are there; each number must be confirmed once.
fn count_confirms(stream: TcpStream, messages: u64, confirmed: &AtomicU64) {
    let mut scanner = Scanner::new(stream);
    let mut upto = 0;
    let mut beyond = BTreeSet::new();
    while upto < messages {
        scanner.read(|method, arguments| {
            assert_eq!(method, (60, 80), "a publisher hears acks only");
            let tag = number(arguments);
            if arguments[8] & 1 == 1 {
                upto = upto.max(tag);
                beyond.retain(|number| *number > tag);
            } else {
                assert!(
                    tag > upto && beyond.insert(tag),
                    "{tag} was confirmed twice"
                );
            }
            while beyond.remove(&(upto + 1)) {
                upto += 1;
            }
            confirmed.store(upto, Ordering::Relaxed);
        });
    }
    assert_eq!(upto, messages, "confirms");
}

/// Consumes and acks `messages`.
fn consume(address: SocketAddr, queue: &str, messages: u64) {
    let connection = Connection::open(address);
    let channel = connection.channel(1);
    channel.prefetch(PREFETCH);
    drop(channel);
    let consume = integration_tests::request::basic_consume(&ConsumerSpec::of(queue));
    connection.send(1, &consume);
    let mut stream = connection.into_stream();
    let reading = stream.try_clone().expect("A socket can be cloned.");
    let mut scanner = Scanner::new(reading);
    let (mut delivered, mut acked) = (0, 0);
    while acked < messages {
        scanner.read(|method, arguments| match method {
            (60, 60) => {
                // The consumer tag, then the delivery tag.
                let tag = number(&arguments[1 + usize::from(arguments[0])..]);
                delivered += 1;
                assert_eq!(tag, delivered, "delivery tags count up");
            }
            (60, 21) => {}
            other => panic!("expected deliveries; came {other:?}"),
        });
        if delivered - acked >= u64::from(PREFETCH) / 4 || delivered == messages {
            let ack = frame(METHOD, 1, &basic_ack(delivered, true).encode());
            stream
                .write_all(&ack)
                .expect("The broker must go on reading.");
            acked = delivered;
        }
    }
    // The close tells that the last ack was handled.
    let close = integration_tests::request::connection_close();
    stream
        .write_all(&frame(METHOD, 0, &close.encode()))
        .expect("The broker must go on reading.");
    let mut closed = false;
    while !closed {
        scanner.read(|method, _| closed |= method == (10, 51));
    }
}

/// Lets the messages through a queue of type `kind` and looks at the disk afterwards.
fn passes(kind: &str, messages: u64) {
    let broker = BrokerProcess::start();
    let address = broker.address();
    let channel = Connection::open(address).channel(1);
    channel.declare(&QueueSpec::durable("flood").argument("x-queue-type", kind));
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| consume(address, "flood", messages));
        publish(address, "flood", messages);
    });
    let took = started.elapsed();
    assert_eq!(channel.ready("flood"), 0, "{kind}: messages left");
    let deadline = Instant::now() + CLEARED_WITHIN;
    while broker.disk_bytes() > DISK_BYTES_MAX && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(100));
    }
    let left = broker.disk_bytes();
    say(&format!(
        "{kind}: {messages} messages in {took:?}, {left} octets left on disk"
    ));
    assert!(
        left <= DISK_BYTES_MAX,
        "{kind}: expected at most {DISK_BYTES_MAX} octets on disk after {messages} messages; \
         came {left}"
    );
}

#[test]
fn millions_of_messages_through_a_durable_queue_leave_a_small_disk() {
    let messages = from_environment("SLUICEMQ_TEST_FLOOD_MESSAGES", MESSAGES);
    own_broker(|| passes("classic", messages));
}

#[test]
fn millions_of_messages_through_a_quorum_queue_leave_a_small_disk() {
    let messages = from_environment("SLUICEMQ_TEST_FLOOD_MESSAGES", MESSAGES);
    own_broker(|| passes("quorum", messages));
}
