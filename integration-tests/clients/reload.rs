//! The operator's files change again and again, broken ones among them, while clients work. Knows
//! what each text says, and what live queues must go by once it was read.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use integration_tests::http::Http;
use integration_tests::{
    BrokerProcess, Connection, ConsumerSpec, Publication, QueueSpec, SettingsFile, expect_soon,
    own_broker, say,
};
use serde_json::Value;

/// Clients that publish and consume all the while.
const CLIENTS: usize = 4;

/// Rewritings, the broken ones not counted.
const TURNS: u64 = 12;

/// A queue that nobody consumes: what lives in it shows its limit.
const IDLE: &str = "reload.idle";

const POLICY_FILE: &str = "policies.yaml";

/// What the files say in a turn; no two turns that follow each other say the same.
#[derive(Clone, Copy)]
struct Said {
    max_length: u64,
    delivery_limit: u64,
}

impl Said {
    fn in_turn(turn: u64) -> Said {
        Said {
            max_length: 3 + turn % 5,
            delivery_limit: 20 + turn,
        }
    }

    fn policies(self) -> String {
        format!(
            "vhosts:\n  /:\n    policies:\n      - name: short\n        pattern: '^reload'\n        \
             apply_to: queues\n        definition: {{max-length: {}}}\n",
            self.max_length
        )
    }

    fn settings(self) -> String {
        format!("quorum: {{delivery_limit: {}}}\n", self.delivery_limit)
    }
}

/// A broker that reads files, and what is told of it.
struct Scene {
    files: SettingsFile,
    broker: BrokerProcess,
    http: Http,
    metrics: Http,
}

impl Scene {
    #[track_caller]
    fn start() -> Scene {
        let said = Said::in_turn(0);
        let files = SettingsFile::new(&said.settings());
        files.write_beside(POLICY_FILE, &said.policies());
        let broker = files.start_broker(&[]);
        let served = "Every listener has a port.";
        Scene {
            files,
            http: Http::new(broker.management().expect(served)),
            metrics: Http::new(broker.metrics().expect(served)),
            broker,
        }
    }

    /// What a setting of a queue is now.
    #[track_caller]
    fn effective(&self, queue: &str, key: &str) -> Value {
        let path = format!("/api/queues/%2F/{queue}/settings");
        let told = self.http.ok("GET", &path, None);
        let mut settings = told["settings"].as_array().into_iter().flatten();
        let found = settings
            .find(|setting| setting["key"] == key)
            .map(|setting| setting["value"].clone());
        found.unwrap_or(Value::Null)
    }

    /// All queues go by what is said.
    #[track_caller]
    fn expect(&self, said: Said) {
        for queue in queues().chain([IDLE.to_owned()]) {
            for (key, wanted) in [
                ("max-length", said.max_length),
                ("delivery-limit", said.delivery_limit),
            ] {
                expect_soon(&format!("{key} of {queue}"), &Value::from(wanted), || {
                    self.effective(&queue, key)
                });
            }
        }
    }

    fn metric(&self, name: &str) -> String {
        let text = self.metrics.text("/metrics");
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.rsplit(' ').next());
        value.unwrap_or_default().to_owned()
    }

    /// Writes a file with a fault; the broker says so and goes by what it had.
    #[track_caller]
    fn break_one(&self, turn: u64, events: &mut impl Iterator<Item = String>, said: Said) {
        let (event, metric) = match turn % 2 {
            0 => {
                let broken = said.policies().replace("max-length", "max-lenght");
                self.files.write_beside(POLICY_FILE, &broken);
                ("policies.refused", "sluicemq_policy_files")
            }
            _ => {
                self.files.write("quorum: {delivery_limit: [1\n");
                ("configuration.refused", "sluicemq_configuration")
            }
        };
        let wanted = format!("event: {event}");
        assert!(
            events.any(|line| line.trim() == wanted),
            "there was no {event}"
        );
        expect_soon(metric, &"0".to_owned(), || {
            self.metric(&format!("{metric}_in_force"))
        });
        let failures = self.metric(&format!("{metric}_load_failures_total"));
        assert!(failures.parse::<u64>().is_ok_and(|failures| failures > 0));
        self.expect(said);
    }
}

/// The queues of the clients.
fn queues() -> impl Iterator<Item = String> {
    (0..CLIENTS).map(|number| format!("reload.{number}"))
}

/// Lines of the event stream, from now on.
#[track_caller]
fn events(management: SocketAddr) -> impl Iterator<Item = String> {
    let mut stream = TcpStream::connect(management).expect("The HTTP API must listen.");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("A positive time is a valid one.");
    stream
        .write_all(
            b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\
              Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n",
        )
        .expect("The HTTP API must take a request.");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let head = lines.by_ref().find(String::is_empty);
    assert!(head.is_some(), "nobody tells of events");
    lines
}

/// Publishes with confirms and consumes with acks, one message after the other, until it is told to
/// end. Answers how many; a connection or a channel that the broker closes is a panic.
fn work(address: SocketAddr, queue: String, is_over: Arc<AtomicBool>) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let connection = Connection::open(address);
        let (publisher, consumer) = (connection.channel(1), connection.channel(2));
        publisher.confirm_select();
        consumer.consume(&ConsumerSpec::of(&queue));
        let mut messages = 0;
        while !is_over.load(Ordering::Acquire) {
            let text = messages.to_string();
            let confirmed = publisher.publish_confirmed(&Publication::to_queue(&queue, &text));
            assert!(confirmed, "{queue}: {text} is refused");
            let delivery = consumer.expect_delivery();
            assert_eq!((delivery.text(), delivery.redelivered), (text, false));
            consumer.ack(&delivery);
            messages += 1;
        }
        consumer.sync();
        assert_eq!(publisher.ready(&queue), 0, "{queue}");
        connection.close();
        messages
    })
}

#[test]
fn files_change_under_load_and_no_client_notices_but_by_what_they_say() {
    own_broker(|| {
        let scene = Scene::start();
        let address = scene.broker.address();
        let idle = Connection::open(address).channel(1);
        for queue in queues().chain([IDLE.to_owned()]) {
            idle.declare(&QueueSpec::quorum(&queue));
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = queues()
            .map(|queue| work(address, queue, is_over.clone()))
            .collect();
        for queue in queues() {
            idle.expect_consumers(&queue, 1);
        }
        let management = scene.broker.management().expect("Scene::start saw it.");
        let mut events = events(management);
        let mut slowest = Duration::ZERO;
        for turn in 1..=TURNS {
            let said = Said::in_turn(turn);
            let written = Instant::now();
            scene.files.write_beside(POLICY_FILE, &said.policies());
            scene.files.write(&said.settings());
            scene.expect(said);
            slowest = slowest.max(written.elapsed());
            idle.put_all(IDLE, (0..10).map(|number| number.to_string()));
            idle.expect_ready(IDLE, said.max_length);
            scene.break_one(turn, &mut events, said);
        }
        is_over.store(true, Ordering::Release);
        for worker in workers {
            let messages = worker.join().expect("A client works until the end.");
            assert!(messages > TURNS, "{messages} messages");
        }
        // Times are told and not judged: other programs use the machine, too.
        say(&format!("the slowest of {TURNS} reloads took {slowest:?}"));
    });
}
