//! A broker with its HTTP side on a free port, and the program run against it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use auth::{
    AuthPolicy, Authenticator, HashedPassword, HashingAlgorithm, UserDirectory, UserRecord,
};
use broker::{Broker, BrokerOptions};
use broker_core::metadata::{MetadataChange, VhostRecord};
use broker_core::{UserName, VhostName};
use management::{ListenerInfo, Management, ManagementOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Everything that a story needs; gone when it is dropped.
pub(crate) struct Stage {
    pub(crate) api: SocketAddr,
    pub(crate) metrics: SocketAddr,
    dir: TempDir,
    _shutdown: DropGuard,
    _runtime: Runtime,
}

struct Directory(Broker);

impl UserDirectory for Directory {
    fn user(&self, name: &str) -> Option<UserRecord> {
        let metadata = self.0.metadata();
        let record = metadata.user(&UserName::new(name))?;
        Some(UserRecord {
            password_hash: record.password_hash.clone(),
            hashing_algorithm: record.hashing_algorithm.clone(),
            tags: record.tags.clone(),
        })
    }
}

impl Stage {
    /// A broker with vhost `/` and user guest, who may do everything.
    pub(crate) fn set() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let dir = tempfile::tempdir().expect("a folder");
        let shutdown = CancellationToken::new();
        let (api, metrics) = runtime.block_on(serve(dir.path(), shutdown.clone()));
        Self {
            api,
            metrics,
            dir,
            _shutdown: shutdown.drop_guard(),
            _runtime: runtime,
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// The program with these words, separated by single blanks.
    pub(crate) fn run(&self, line: &str) -> Ran {
        let words: Vec<&str> = line.split(' ').collect();
        self.run_words(&words)
    }

    pub(crate) fn run_words(&self, words: &[&str]) -> Ran {
        let mut command = self.command();
        command.env("SLUICECTL_URL", format!("http://{}", self.api));
        command.args(words);
        Ran::of(command.output().expect("the program"))
    }

    /// The program with nothing but a file of contexts of its own.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicectl"));
        command
            .env_clear()
            .env("SLUICECTL_CONFIG", self.dir.path().join("contexts.yaml"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }
}

async fn serve(dir: &Path, shutdown: CancellationToken) -> (SocketAddr, SocketAddr) {
    let broker = Broker::open(BrokerOptions::new(dir.join("data")))
        .await
        .expect("a broker");
    populate(&broker).await;
    let directory = Arc::new(Directory(broker.clone()));
    let authenticator = Authenticator::new(AuthPolicy::default(), directory);
    let mut options = ManagementOptions::new("rabbit@test");
    options.data_dir = dir.to_owned();
    let management = Management::new(broker, authenticator, options);
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = management.bind_api(any_port).expect("a port");
    let for_machines = management.bind_metrics(any_port).expect("a port");
    let api = server.local_addr().expect("an address");
    let metrics = for_machines.local_addr().expect("an address");
    management.announce(vec![
        ListenerInfo {
            protocol: "amqp",
            address: SocketAddr::from(([127, 0, 0, 1], 5672)),
        },
        ListenerInfo {
            protocol: "http",
            address: api,
        },
    ]);
    tokio::spawn(server.serve(shutdown.clone()));
    tokio::spawn(for_machines.serve(shutdown));
    (api, metrics)
}

async fn populate(broker: &Broker) {
    let (user, vhost) = (UserName::new("guest"), VhostName::new("/"));
    let hash = HashedPassword::new(HashingAlgorithm::default(), b"guest");
    let everything = || Box::from(".*");
    let changes = [
        MetadataChange::PutVhost {
            vhost: vhost.clone(),
            record: VhostRecord::default(),
        },
        MetadataChange::PutUser {
            user: user.clone(),
            password_hash: hash.to_string().into(),
            hashing_algorithm: HashingAlgorithm::default().name().into(),
            tags: vec!["administrator".into()],
        },
        MetadataChange::SetPermission {
            user,
            vhost,
            configure: everything(),
            write: everything(),
            read: everything(),
        },
    ];
    for change in changes {
        broker.apply(&change).await.expect("a change");
    }
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// Its results, when all went well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// What it complained of, with the exit code.
    #[track_caller]
    pub(crate) fn fails_with(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.err
    }
}
