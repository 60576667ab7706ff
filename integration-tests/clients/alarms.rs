//! A broker whose alarms of memory and of disk, and a part of the memory that is full, come and go by
//! turns while clients work.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use integration_tests::http::Http;
use integration_tests::{BrokerProcess, SettingsFile, own_broker};
use serde_json::{Value, json};

/// Time of an alarm, and between two.
const PULSE: Duration = Duration::from_millis(700);

/// Rounds of stories within which every alarm must come.
const ROUNDS_MAX: usize = 200;

/// Tells a client's stories, each time with new names for its queues, until it met all alarms.
#[track_caller]
pub(crate) fn live_through(prefix: &str, stories: impl Fn(SocketAddr, &dyn Fn() -> String)) {
    let named = Cell::new(0);
    until_all_were_there(|address| {
        stories(address, &|| {
            named.set(named.get() + 1);
            format!("{prefix}.{}", named.get())
        });
    });
}

/// Has a client work at a broker whose alarms come and go, again and again until it met all of them.
#[track_caller]
pub(crate) fn until_all_were_there(mut work: impl FnMut(SocketAddr)) {
    own_broker(|| {
        let alarms = Alarms::start();
        for _ in 0..ROUNDS_MAX {
            if alarms.all_were_there() {
                break;
            }
            work(alarms.address());
        }
        alarms.end();
    });
}

/// What happens by turns.
#[derive(Clone, Copy)]
enum Turn {
    /// Other settings.
    Settings(&'static str),
    /// The publishers of the vhost have so many bytes of memory; -1 is no limit.
    Memory(i64),
}

const TURNS: [Turn; 6] = [
    Turn::Settings("memory: {high_watermark: 0}"),
    Turn::Settings(""),
    Turn::Settings("disk: {free_limit: 1000TiB}"),
    Turn::Settings(""),
    Turn::Memory(1),
    Turn::Memory(-1),
];

/// See the module.
struct Alarms {
    broker: BrokerProcess,
    end: Sender<()>,
    all_were_there: Arc<AtomicBool>,
    /// Answers whether a channel was held for the memory of its queue.
    pulses: JoinHandle<bool>,
}

/// Whether some channel is held for memory.
fn is_held_for_memory(http: Http) -> bool {
    let channels = http.ok("GET", "/api/channels", None);
    let channels = channels.as_array().into_iter().flatten();
    let causes = channels.filter_map(|channel| channel.pointer("/hold/held_by/0/cause"));
    causes
        .filter_map(Value::as_str)
        .any(|cause| cause.ends_with(", memory"))
}

impl Alarms {
    #[track_caller]
    fn start() -> Alarms {
        let settings = SettingsFile::new("");
        let broker = settings.start_broker(&["log.level=warn"]);
        let management = broker.management().expect("The HTTP API is served.");
        let http = Http::new(management);
        let (end, ended) = mpsc::channel();
        let all_were_there = Arc::new(AtomicBool::new(false));
        let all_there = all_were_there.clone();
        let pulses = std::thread::spawn(move || {
            let mut held_for_memory = false;
            for (number, turn) in (1..).zip(TURNS.into_iter().cycle()) {
                match turn {
                    Turn::Settings(text) => settings.write(text),
                    Turn::Memory(bytes) => {
                        let limit = json!({"value": bytes});
                        http.ok("PUT", "/api/vhost-limits/%2F/max-memory", Some(&limit));
                    }
                }
                // A test that failed has dropped the sender.
                if ended.recv_timeout(PULSE) != Err(RecvTimeoutError::Timeout) {
                    return held_for_memory;
                }
                held_for_memory |= is_held_for_memory(http);
                all_there.store(number >= TURNS.len() && held_for_memory, Ordering::Release);
            }
            held_for_memory
        });
        Alarms {
            broker,
            end,
            all_were_there,
            pulses,
        }
    }

    fn address(&self) -> SocketAddr {
        self.broker.address()
    }

    /// Whether clients have met all of them.
    fn all_were_there(&self) -> bool {
        self.all_were_there.load(Ordering::Acquire)
    }

    /// All of them must have been there.
    #[track_caller]
    fn end(self) {
        self.end.send(()).expect("The pulses go on until now.");
        let held_for_memory = self.pulses.join().expect("Settings can be written.");
        let log = self.broker.stderr_tail();
        for alarm in ["memory alarm", "disk alarm"] {
            assert!(log.contains(alarm), "there was no {alarm}:\n{log}");
        }
        assert!(held_for_memory, "no channel was held for memory");
    }
}
