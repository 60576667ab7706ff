//! Bad input over real sockets: whatever a peer sends, it ends in the right close or a dropped
//! socket; a bystander goes on, the broker lives and its memory stays where it was.
//! Knows octets only; what the closes say is the conformance suite's business.

mod attacks;

use std::net::SocketAddr;

use integration_tests::{BrokerProcess, Channel, Connection, QueueSpec, own_broker};
use rand::SeedableRng;
use rand::rngs::SmallRng;

/// Hostile connections of one kind, one after another.
const HOSTILE_CONNECTIONS: usize = 2000;
/// Hostile connections before memory is looked at first: pools and caches fill up by then.
const WARM_UP_CONNECTIONS: usize = 300;
/// How much the broker's resident memory may have grown by all of them, octets. Less than nine
/// kilobytes a connection: a leak of one buffer each shows.
const RSS_GROWTH_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How often the bystander checks that it is still served.
const BYSTANDER_EVERY: usize = 100;

/// Somebody who minds his own business on a connection opened before all the others.
struct Bystander {
    channel: Channel,
    queue: String,
    passed: usize,
}

impl Bystander {
    fn new(address: SocketAddr) -> Bystander {
        let channel = Connection::open(address).channel(1);
        let queue = "bystander".to_owned();
        channel.declare(&QueueSpec::durable(&queue));
        Bystander {
            channel,
            queue,
            passed: 0,
        }
    }

    /// Passes one message through its queue.
    #[track_caller]
    fn check(&mut self) {
        self.passed += 1;
        let text = format!("message {}", self.passed);
        self.channel.put_all(&self.queue, [&text]);
        let came = self.channel.get_soon(&self.queue);
        assert_eq!((came.text(), came.tag), (text, self.passed as u64));
        self.channel.ack(&came);
    }
}

/// Runs one attack many times against a broker of its own.
#[track_caller]
fn withstands(attack: fn(SocketAddr, &mut SmallRng)) {
    own_broker(|| {
        let mut broker = BrokerProcess::start_with(&["auth.failure_delay=1ms"]);
        let address = broker.address();
        let mut bystander = Bystander::new(address);
        // A fixed seed: a failure comes again.
        let mut random = SmallRng::seed_from_u64(0x511CE);
        let mut attack_times = |times: usize| {
            for n in 0..times {
                attack(address, &mut random);
                if n % BYSTANDER_EVERY == 0 {
                    bystander.check();
                }
            }
        };
        attack_times(WARM_UP_CONNECTIONS);
        let before = broker.rss_bytes();
        attack_times(HOSTILE_CONNECTIONS);
        let grown = broker.rss_bytes().saturating_sub(before);
        assert!(
            broker.is_alive(),
            "the broker has ended:\n{}",
            broker.stderr_tail()
        );
        bystander.check();
        bystander.channel.connection().close();
        Connection::open(address).close();
        assert!(
            grown <= RSS_GROWTH_BYTES_MAX,
            "expected growth of at most {RSS_GROWTH_BYTES_MAX} octets over {HOSTILE_CONNECTIONS} \
             connections; came {grown} on top of {before}"
        );
        let said = broker.stderr_tail();
        assert!(!said.contains("panicked"), "the broker panicked:\n{said}");
    });
}

#[test]
fn garbage_instead_of_a_header_is_withstood() {
    withstands(attacks::garbage_header);
}

#[test]
fn half_a_header_is_withstood() {
    withstands(attacks::half_header);
}

#[test]
fn garbage_after_the_header_is_withstood() {
    withstands(attacks::garbage_after_header);
}

#[test]
fn wrong_passwords_are_withstood() {
    withstands(attacks::wrong_password);
}

#[test]
fn half_a_frame_is_withstood() {
    withstands(attacks::half_frame);
}

#[test]
fn a_wrong_end_octet_is_withstood() {
    withstands(attacks::wrong_end_octet);
}

#[test]
fn huge_announced_frames_are_withstood() {
    withstands(attacks::huge_frame);
}

#[test]
fn huge_announced_bodies_on_many_channels_are_withstood() {
    withstands(attacks::huge_bodies);
}

#[test]
fn unknown_classes_and_methods_are_withstood() {
    withstands(attacks::unknown_method);
}

#[test]
fn frames_on_closed_channels_are_withstood() {
    withstands(attacks::closed_channel);
}

#[test]
fn a_content_header_without_a_publish_is_withstood() {
    withstands(attacks::header_without_publish);
}

#[test]
fn a_body_that_is_too_long_is_withstood() {
    withstands(attacks::body_too_long);
}

#[test]
fn tables_within_tables_without_end_are_withstood() {
    withstands(attacks::deep_table);
}

#[test]
fn tables_that_lie_about_their_length_are_withstood() {
    withstands(attacks::lying_table);
}

#[test]
fn a_good_session_with_changed_octets_is_withstood() {
    withstands(attacks::changed_octets);
}

#[test]
fn channels_that_are_never_closed_are_withstood() {
    withstands(attacks::open_channels);
}

#[test]
fn consumers_that_vanish_are_withstood() {
    withstands(attacks::vanishing_consumer);
}
