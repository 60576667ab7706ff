//! A broker with its HTTP side on free ports, and a client that knows just enough HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use auth::{
    AuthPolicy, Authenticator, HashedPassword, HashingAlgorithm, UserDirectory, UserRecord,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use broker::{Broker, BrokerOptions, Outbox, Outgoing, Session, SessionOptions};
use broker_core::metadata::{MetadataChange, VhostRecord};
use broker_core::{UserName, VhostName};
use management::{ListenerInfo, Management, ManagementOptions};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const NODE: &str = "rabbit@test";

/// Everything that a story needs; gone when it is dropped.
pub(crate) struct Stage {
    pub(crate) broker: Broker,
    pub(crate) api: SocketAddr,
    pub(crate) metrics: SocketAddr,
    _shutdown: DropGuard,
    _dir: TempDir,
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
    pub(crate) async fn set() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let broker = Broker::open(BrokerOptions::new(dir.path()))
            .await
            .expect("a broker");
        populate(&broker).await;
        let authenticator =
            Authenticator::new(AuthPolicy::default(), Arc::new(Directory(broker.clone())));
        let mut options = ManagementOptions::new(NODE);
        options.data_dir = dir.path().to_owned();
        let management = Management::new(broker.clone(), authenticator, options);
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let api = management.bind_api(anywhere).expect("a port");
        let metrics = management.bind_metrics(anywhere).expect("a port");
        let addresses = (
            api.local_addr().expect("an address"),
            metrics.local_addr().expect("an address"),
        );
        management.announce(vec![
            ListenerInfo {
                protocol: "amqp",
                address: SocketAddr::from(([127, 0, 0, 1], 5672)),
            },
            ListenerInfo {
                protocol: "http",
                address: addresses.0,
            },
        ]);
        let shutdown = CancellationToken::new();
        tokio::spawn(api.serve(shutdown.clone()));
        tokio::spawn(metrics.serve(shutdown.clone()));
        Self {
            broker,
            api: addresses.0,
            metrics: addresses.1,
            _shutdown: shutdown.drop_guard(),
            _dir: dir,
        }
    }

    /// The administrator's client.
    pub(crate) fn admin(&self) -> Http {
        self.user("guest", "guest")
    }

    pub(crate) fn user(&self, name: &str, password: &str) -> Http {
        let credentials = BASE64_STANDARD.encode(format!("{name}:{password}"));
        Http {
            address: self.api,
            headers: vec![format!("authorization: Basic {credentials}")],
        }
    }

    /// A client without credentials.
    pub(crate) fn nobody(&self) -> Http {
        Http {
            address: self.api,
            headers: Vec::new(),
        }
    }

    /// The scraper's client.
    pub(crate) fn scraper(&self) -> Http {
        Http {
            address: self.metrics,
            headers: Vec::new(),
        }
    }

    /// Creates a user with a tag and full rights in `/`.
    pub(crate) async fn add_user(&self, name: &str, tag: &str) -> Http {
        let admin = self.admin();
        let body = serde_json::json!({"password": "pw", "tags": tag});
        admin
            .put(&format!("/api/users/{name}"), body)
            .await
            .expect_status(201);
        let all = serde_json::json!({"configure": ".*", "write": ".*", "read": ".*"});
        admin
            .put(&format!("/api/permissions/%2F/{name}"), all)
            .await
            .expect_status(201);
        self.user(name, "pw")
    }

    /// Opens a session as a client on the network would.
    pub(crate) fn connect(&self, peer_port: u16) -> Session {
        let session = self.broker.open_session(SessionOptions {
            user: UserName::new("guest"),
            vhost: VhostName::new("/"),
            peer: SocketAddr::from(([127, 0, 0, 1], peer_port)),
            local: SocketAddr::from(([127, 0, 0, 1], 5672)),
            client_properties: [("connection_name", amqp::Value::from("story"))]
                .into_iter()
                .collect(),
            outbox: Arc::new(Nowhere),
            channel_max: 2047,
            frame_max: 131_072,
            heartbeat_s: 60,
            mechanism: "PLAIN".into(),
            tls: None,
        });
        session.expect("a session")
    }
}

/// Takes everything and keeps nothing.
struct Nowhere;

impl Outbox for Nowhere {
    fn push(&self, _channel: u16, _out: &[Outgoing<'_>]) -> usize {
        0
    }
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

/// A client of one listener.
pub(crate) struct Http {
    address: SocketAddr,
    headers: Vec<String>,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Http {
    /// The same client with one more header.
    pub(crate) fn with_header(mut self, header: &str) -> Self {
        self.headers.push(header.to_owned());
        self
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "").await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send("PUT", path, &body.to_string()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, &body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, "").await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {}\r\n",
            body.len()
        );
        for header in &self.headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        request.push_str(body);
        let mut stream = TcpStream::connect(self.address)
            .await
            .expect("a connection");
        stream
            .write_all(request.as_bytes())
            .await
            .expect("a sent request");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("an answer");
        let answer = String::from_utf8(bytes).expect("text");
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head
            .split(' ')
            .nth(1)
            .expect("a status")
            .parse()
            .expect("a number");
        Answer {
            status,
            head: head.to_lowercase(),
            text: text.to_owned(),
        }
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines();
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| *key == name)
            .map(|(_, v)| v)
    }

    /// Status and the two fields of a refusal.
    #[track_caller]
    pub(crate) fn expect_refusal(self, status: u16, error: &str, reason: &str) {
        let answer = self.expect_status(status);
        let json = answer.json();
        assert_eq!(
            (&json["error"], &json["reason"]),
            (&error.into(), &reason.into())
        );
    }
}
