//! What one conformance test gets: a broker to talk to, names that nobody else uses, and the
//! clearing up afterwards. Knows which broker is under test; the rules are the tests' own.

use std::any::type_name;
use std::cell::{Cell, RefCell};
use std::env;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::broker_process::BrokerProcess;
use crate::channel::Channel;
use crate::connection::{Connection, Login};
use crate::differences::difference_of;
use crate::http::Http;
use crate::request;

/// Names an AMQP broker to test instead of our own: `host:port`.
const ADDRESS: &str = "SLUICEMQ_TEST_AMQP";
/// Names that broker's HTTP API: `host:port`.
const HTTP_ADDRESS: &str = "SLUICEMQ_TEST_HTTP";
/// RabbitMQ's modes where our own defaults differ; the `defaults` tests look at ours.
const AS_RABBITMQ: &[&str] = &[
    "quorum.consumer_timeout_action=cancel",
    "quorum.delivery_limit_counts=failures",
];

/// The broker that the tests of this process share.
enum Target {
    /// Of this workspace, started once for the whole test binary.
    Own(Box<BrokerProcess>),
    /// Somebody else's.
    Foreign {
        amqp: SocketAddr,
        http: Option<SocketAddr>,
    },
}

fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| match env::var(ADDRESS) {
        Ok(amqp) => {
            let http = env::var(HTTP_ADDRESS).ok();
            Target::Foreign {
                amqp: resolve(&amqp),
                http: http.map(|http| resolve(&http)),
            }
        }
        Err(_) => Target::Own(Box::new(BrokerProcess::start_with(AS_RABBITMQ))),
    })
}

fn resolve(address: &str) -> SocketAddr {
    let mut found = address.to_socket_addrs().into_iter().flatten();
    found
        .next()
        .unwrap_or_else(|| panic!("{address} is not host:port"))
}

/// Whether the tests are pointed at a broker that is not of this workspace.
pub fn is_foreign() -> bool {
    env::var_os(ADDRESS).is_some()
}

/// The scene of one test.
#[derive(Debug)]
pub struct Trial {
    address: SocketAddr,
    http: Option<SocketAddr>,
    suffix: String,
    names: Cell<u32>,
    queues: RefCell<Vec<String>>,
    exchanges: RefCell<Vec<String>>,
}

/// Runs one conformance test against the shared broker, or against the one that the environment
/// names; there, a test that is listed as a wanted difference must fail.
#[track_caller]
pub fn conformance<F: Fn(&Trial)>(body: F) {
    let name = test_name::<F>();
    let trial = Trial::shared();
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| body(&trial)));
    trial.clear_up();
    match (
        outcome,
        is_foreign().then(|| difference_of(&name)).flatten(),
    ) {
        (Ok(()), None) => {}
        (Ok(()), Some(difference)) if difference.by_chance => {}
        (Err(_), Some(difference)) => {
            say(&format!("DIFFERS AS WANTED {name}: {}", difference.reason));
        }
        (Ok(()), Some(difference)) => {
            panic!(
                "{name} is listed as a difference ({}) and yet agrees",
                difference.reason
            )
        }
        (Err(cause), None) => {
            if let Target::Own(broker) = target() {
                say(&format!(
                    "The broker's last words:\n{}",
                    broker.stderr_tail()
                ));
            }
            panic::resume_unwind(cause)
        }
    }
}

/// Runs a test that needs a broker process of its own; pointed at a foreign broker it says loudly
/// that it did not run.
pub fn own_broker<F: FnOnce()>(body: F) {
    if is_foreign() {
        say(&format!(
            "SKIPPED {}: it needs a broker of its own",
            test_name::<F>()
        ));
        return;
    }
    body();
}

/// Path of the test whose closure has type `F`, without crate and closure.
fn test_name<F>() -> String {
    let path = type_name::<F>();
    let path = path.split("::{{closure}}").next().unwrap_or(path);
    path.split_once("::")
        .map_or(path, |(_, inside)| inside)
        .to_owned()
}

/// Prints past the test harness, which hides what passing tests say.
pub fn say(line: &str) {
    // A closed standard error is nothing to fail for.
    let _ = writeln!(std::io::stderr(), "{line}");
}

impl Trial {
    /// A scene on the shared broker.
    pub fn shared() -> Trial {
        match target() {
            Target::Own(broker) => Trial::new(broker.address(), broker.management()),
            Target::Foreign { amqp, http } => Trial::new(*amqp, *http),
        }
    }

    /// A scene on the broker at `address`.
    pub fn new(address: SocketAddr, http: Option<SocketAddr>) -> Trial {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let suffix = format!(
            "{:x}.{count}.{:x}",
            std::process::id(),
            rand::random::<u32>()
        );
        Trial {
            address,
            http,
            suffix,
            names: Cell::default(),
            queues: RefCell::default(),
            exchanges: RefCell::default(),
        }
    }

    /// Where AMQP is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The HTTP API as guest, if the broker serves one; a test without it says loudly that it did
    /// not run.
    pub fn http(&self, test: &str) -> Option<Http> {
        if self.http.is_none() {
            say(&format!(
                "SKIPPED {test}: the broker under test serves no HTTP API"
            ));
        }
        self.http.map(Http::new)
    }

    /// A name that nobody else uses, nor this test twice.
    pub fn name(&self, stem: &str) -> String {
        let count = self.names.get() + 1;
        self.names.set(count);
        format!("{stem}.{}.{count:x}", self.suffix)
    }

    /// A queue name that nobody else uses; the queue is deleted after the test.
    pub fn queue(&self, stem: &str) -> String {
        let name = self.name(stem);
        self.queues.borrow_mut().push(name.clone());
        name
    }

    /// An exchange name that nobody else uses; the exchange is deleted after the test.
    pub fn exchange(&self, stem: &str) -> String {
        let name = self.name(stem);
        self.exchanges.borrow_mut().push(name.clone());
        name
    }

    /// A fresh connection as guest.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// A fresh connection.
    #[track_caller]
    pub fn connect_as(&self, login: &Login) -> Connection {
        Connection::open_as(self.address, login)
    }

    /// Channel 1 of a fresh connection.
    #[track_caller]
    pub fn channel(&self) -> Channel {
        self.connect().channel(1)
    }

    /// Deletes what the test may have declared; what is gone already is as good.
    fn clear_up(&self) {
        let queues = self.queues.borrow();
        let exchanges = self.exchanges.borrow();
        let queues = queues.iter().map(|name| request::queue_delete(name));
        let deletes = queues.chain(exchanges.iter().map(|name| request::exchange_delete(name)));
        let cleared = panic::catch_unwind(AssertUnwindSafe(|| {
            let connection = self.connect();
            for (number, method) in (1..=u16::MAX).zip(deletes) {
                let channel = connection.channel(number);
                let answer = format!("{}-ok", method.name);
                channel.send(&method);
                // A queue that a dying connection still owns goes with that connection.
                let _ = connection.wait_within(number, &[&answer], crate::connection::PATIENCE);
            }
            connection.close();
        }));
        if cleared.is_err() {
            say("The test could not clear up after itself.");
        }
    }
}
