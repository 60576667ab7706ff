//! The attacks: each is one connection that misbehaves in its own way and then is gone.
//! None of them judges the answer; whoever calls them looks at the broker.

use std::net::SocketAddr;
use std::time::Duration;

use integration_tests::connection::{
    Incoming, PROTOCOL_HEADER, header_payload, open, publish_octets,
};
use integration_tests::request::{
    basic_consume, basic_publish, basic_qos, channel_close, channel_open, queue_declare,
};
use integration_tests::wire::frame::{BODY, HEADER, METHOD, frame, frame_with};
use integration_tests::wire::value::{put_long_string, put_short_string};
use integration_tests::{Connection, ConsumerSpec, Login, Properties, Publication, QueueSpec};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt};

/// How long an attacker listens before it goes.
const LISTEN: Duration = Duration::from_millis(500);
/// What a connection may say in a frame when it has agreed on nothing smaller.
const FRAME_MAX: usize = 131_072;

/// A connection with channel 1 open.
fn session(address: SocketAddr) -> Connection {
    let connection = Connection::open(address);
    connection.channel(1);
    connection
}

/// Sends octets, waits for what the broker has to say, and goes.
fn send_and_go(connection: &Connection, octets: &[u8]) {
    // The broker may end the socket while the octets still go out.
    let _ = connection.try_send_octets(octets);
    listen(connection);
}

/// Takes what comes until a close or the end of the socket.
fn listen(connection: &Connection) {
    loop {
        match connection.receive(LISTEN) {
            None | Some(Incoming::Gone) => return,
            Some(Incoming::Method { method, .. }) if method.name == "connection.close" => return,
            Some(_) => {}
        }
    }
}

fn garbage(random: &mut SmallRng, length: usize) -> Vec<u8> {
    let mut octets = vec![0; length];
    random.fill_bytes(&mut octets);
    octets
}

/// Octets that are no protocol header.
pub(super) fn garbage_header(address: SocketAddr, random: &mut SmallRng) {
    let connection = Connection::dial(address);
    let mut octets = garbage(random, 64);
    // Never the header by accident.
    octets[0] = b'!';
    let _ = connection.try_send_octets(&octets);
    // Raw octets come back, which are no frames: the attacker does not look at them.
    connection.drop_socket();
}

/// A part of the header, and nothing more.
pub(super) fn half_header(address: SocketAddr, random: &mut SmallRng) {
    let connection = Connection::dial(address);
    let length = random.random_range(0..PROTOCOL_HEADER.len());
    let _ = connection.try_send_octets(&PROTOCOL_HEADER[..length]);
    connection.drop_socket();
}

/// The header, and then octets that are no frames.
pub(super) fn garbage_after_header(address: SocketAddr, random: &mut SmallRng) {
    let connection = Connection::dial(address);
    connection.start();
    let octets = garbage(random, 200);
    send_and_go(&connection, &octets);
}

/// A log-in that must fail.
pub(super) fn wrong_password(address: SocketAddr, random: &mut SmallRng) {
    let connection = Connection::dial(address);
    connection.start();
    let password = format!("{:x}", random.next_u64());
    connection.send(0, &Login::of("guest", &password).start_ok());
    listen(&connection);
}

/// A frame that ends in the middle.
pub(super) fn half_frame(address: SocketAddr, random: &mut SmallRng) {
    let connection = session(address);
    let whole = publish_octets(1, &Publication::new("", "nowhere", [7; 5000]), FRAME_MAX);
    let length = random.random_range(1..whole.len());
    let _ = connection.try_send_octets(&whole[..length]);
    connection.drop_socket();
}

/// A frame whose last octet is not the end octet.
pub(super) fn wrong_end_octet(address: SocketAddr, random: &mut SmallRng) {
    let payload = basic_qos(1).encode();
    let size = u32::try_from(payload.len()).expect("A short method.");
    let end = random.random_range(0..0xCE);
    send_and_go(
        &session(address),
        &frame_with(METHOD, 1, size, &payload, end),
    );
}

/// A frame that announces more than was agreed, up to four gigabytes, and brings nothing.
pub(super) fn huge_frame(address: SocketAddr, random: &mut SmallRng) {
    let size = random.random_range(200_000..=u32::MAX);
    let kind = [METHOD, HEADER, BODY][random.random_range(0..3)];
    let whole = frame_with(kind, 1, size, &[], 0xCE);
    send_and_go(&session(address), &whole[..7]);
}

/// Bodies of half a gigabyte announced on many channels, of which a few octets come.
pub(super) fn huge_bodies(address: SocketAddr, random: &mut SmallRng) {
    let connection = Connection::open(address);
    let publish = basic_publish(&Publication::new("", "nowhere", "")).encode();
    let mut octets = Vec::new();
    for channel in 1..=20 {
        octets.extend(frame(METHOD, channel, &channel_open().encode()));
        octets.extend(frame(METHOD, channel, &publish));
        let announced = random.random_range(16_000_000..536_870_912);
        let header = header_payload(announced, &Properties::default());
        octets.extend(frame(HEADER, channel, &header));
        octets.extend(frame(BODY, channel, &[0; 100]));
    }
    let _ = connection.try_send_octets(&octets);
    connection.wait_for(20, &["channel.open-ok"]);
    connection.drop_socket();
}

/// A class or a method that is not there.
pub(super) fn unknown_method(address: SocketAddr, random: &mut SmallRng) {
    let class = [60, random.random_range(200..u16::MAX)][random.random_range(0..2)];
    let mut payload = class.to_be_bytes().to_vec();
    payload.extend(random.random_range(200..u16::MAX).to_be_bytes());
    payload.extend(garbage(random, 20));
    send_and_go(&session(address), &frame(METHOD, 1, &payload));
}

/// Frames of every type on a channel that was closed.
pub(super) fn closed_channel(address: SocketAddr, random: &mut SmallRng) {
    let connection = session(address);
    let mut octets = frame(METHOD, 1, &channel_close().encode());
    let header = header_payload(10, &Properties::default());
    let method = basic_qos(1).encode();
    let (kind, payload) = [(METHOD, method), (HEADER, header), (BODY, vec![1; 10])]
        [random.random_range(0..3)]
    .clone();
    octets.extend(frame(kind, 1, &payload));
    send_and_go(&connection, &octets);
}

/// Content that nobody announced.
pub(super) fn header_without_publish(address: SocketAddr, random: &mut SmallRng) {
    let header = header_payload(random.random(), &Properties::default());
    send_and_go(&session(address), &frame(HEADER, 1, &header));
}

/// More body than the header said.
pub(super) fn body_too_long(address: SocketAddr, random: &mut SmallRng) {
    let mut octets = frame(
        METHOD,
        1,
        &basic_publish(&Publication::new("", "nowhere", "")).encode(),
    );
    octets.extend(frame(
        HEADER,
        1,
        &header_payload(10, &Properties::default()),
    ));
    let length = random.random_range(11..FRAME_MAX - 8);
    octets.extend(frame(BODY, 1, &vec![3; length]));
    send_and_go(&session(address), &octets);
}

/// queue.declare with arguments of the caller's own octets.
fn declare_with_arguments(arguments: &[u8]) -> Vec<u8> {
    let mut payload = queue_declare(&QueueSpec::transient("hostile").auto_delete()).encode();
    // The empty table at the end makes room for the hostile one.
    payload.truncate(payload.len() - 4);
    payload.extend(arguments);
    frame(METHOD, 1, &payload)
}

/// Tables within tables as deep as a frame can hold, in arguments or in headers.
pub(super) fn deep_table(address: SocketAddr, random: &mut SmallRng) {
    let depth = random.random_range(1000..12_000);
    // Each level is a length, and inside it a key, a type and the next level.
    let level_bytes = 4 + 3;
    let mut table = Vec::new();
    for inside in (0..depth).rev() {
        let length = u32::try_from(inside * level_bytes).expect("A frame holds it.");
        table.extend(length.to_be_bytes());
        if inside > 0 {
            table.extend([1, b'k', b'F']);
        }
    }
    let octets = if random.random() {
        declare_with_arguments(&table)
    } else {
        let publish = basic_publish(&Publication::new("amq.headers", "", "")).encode();
        let mut octets = frame(METHOD, 1, &publish);
        let mut header = header_payload(0, &Properties::default());
        let flags = header.len() - 2;
        header[flags] = 0x20;
        header.extend(&table);
        octets.extend(frame(HEADER, 1, &header));
        octets
    };
    send_and_go(&session(address), &octets);
}

/// A table whose fields announce other lengths than they have.
pub(super) fn lying_table(address: SocketAddr, random: &mut SmallRng) {
    let mut fields = Vec::new();
    put_short_string(&mut fields, b"key");
    fields.push(b"SxAF"[random.random_range(0..4)]);
    fields.extend(random.random_range(50..u32::MAX).to_be_bytes());
    fields.extend(garbage(random, 40));
    let mut table = Vec::new();
    put_long_string(&mut table, &fields);
    if random.random() {
        // The table itself lies as well.
        table[0] = 0x7F;
    }
    send_and_go(&session(address), &declare_with_arguments(&table));
}

/// The octets of a session that does a bit of everything, some of them changed.
pub(super) fn changed_octets(address: SocketAddr, random: &mut SmallRng) {
    let connection = Connection::dial(address);
    let tune = connection.log_in(&Login::default());
    let mut octets = Vec::new();
    for (channel, method) in [
        (0, tune.accept()),
        (0, open("/")),
        (1, channel_open()),
        (
            1,
            queue_declare(
                &QueueSpec::transient("")
                    .exclusive()
                    .argument("x-max-length", 5),
            ),
        ),
        (1, basic_qos(3)),
        (
            1,
            basic_consume(&ConsumerSpec::of("").argument("x-priority", 1)),
        ),
    ] {
        octets.extend(frame(METHOD, channel, &method.encode()));
    }
    let properties = Properties::persistent()
        .header("key", "value")
        .expires("1000");
    let publication = Publication::new("amq.topic", "a.b", "some body").with(properties);
    octets.extend(publish_octets(1, &publication.mandatory(), FRAME_MAX));
    for _ in 0..random.random_range(1..4) {
        let index = random.random_range(0..octets.len());
        octets[index] = random.random();
    }
    send_until_quiet(&connection, &octets);
}

/// Sends octets and goes as soon as nothing comes for a moment: a changed length may make the
/// broker wait for more, which is right.
fn send_until_quiet(connection: &Connection, octets: &[u8]) {
    let _ = connection.try_send_octets(octets);
    loop {
        match connection.receive(Duration::from_millis(5)) {
            None | Some(Incoming::Gone) => return,
            Some(_) => {}
        }
    }
}

/// Many channels, none of them closed.
pub(super) fn open_channels(address: SocketAddr, _random: &mut SmallRng) {
    let connection = Connection::open(address);
    let octets: Vec<u8> = (1..=50)
        .flat_map(|number| frame(METHOD, number, &channel_open().encode()))
        .collect();
    let _ = connection.try_send_octets(&octets);
    connection.wait_for(50, &["channel.open-ok"]);
    connection.drop_socket();
}

/// A consumer on a queue of its own, with messages on their way to it.
pub(super) fn vanishing_consumer(address: SocketAddr, _random: &mut SmallRng) {
    let connection = session(address);
    let channel = connection.unopened_channel(1);
    let queue = channel.declare(&QueueSpec::transient("").exclusive()).name;
    channel.consume(&ConsumerSpec::of(&queue));
    for _ in 0..10 {
        channel.publish(&Publication::to_queue(&queue, [0; 1000]));
    }
    channel.expect_delivery();
    connection.drop_socket();
}
