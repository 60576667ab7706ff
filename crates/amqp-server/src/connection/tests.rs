//! Connections over an in-memory pipe, with a real broker behind: bytes in, bytes out.

mod chance;
mod channels;
mod client;
mod endings;
mod faults;
mod handshake;
mod heartbeats;
mod messages;
mod signals;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use auth::{
    AuthPolicy, Authenticator, HashedPassword, HashingAlgorithm, UserDirectory, UserRecord,
};
use broker::{Broker, BrokerOptions, StorageOptions};
use broker_core::metadata::VhostRecord;
use broker_core::{MetadataChange, UserName, VhostName};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Context, Endpoint, serve_connection};
use crate::AmqpServerOptions;
use client::Client;

/// Knows guest, whose password is guest.
struct OnlyGuest;

impl UserDirectory for OnlyGuest {
    fn user(&self, name: &str) -> Option<UserRecord> {
        (name == "guest").then(|| UserRecord {
            password_hash: HashedPassword::new(HashingAlgorithm::Sha256, b"guest")
                .to_string()
                .into(),
            hashing_algorithm: HashingAlgorithm::Sha256.name().into(),
            tags: Vec::new(),
        })
    }
}

/// A broker with vhost `/` and user guest, and what is needed to serve pipes.
struct World {
    context: Arc<Context>,
    shutdown: CancellationToken,
    _data: TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(quick()).await
    }

    async fn with(options: AmqpServerOptions) -> Self {
        let data = tempfile::tempdir().expect("a temporary folder");
        let mut broker_options = BrokerOptions::new(data.path());
        broker_options.storage = StorageOptions {
            journal_file_bytes: 4 << 20,
            journal_bytes_max: 16 << 20,
            ..StorageOptions::default()
        };
        let broker = Broker::open(broker_options).await.expect("a broker");
        let (user, vhost) = (UserName::new("guest"), VhostName::new("/"));
        let all = || ".*".into();
        for change in [
            MetadataChange::PutVhost {
                vhost: vhost.clone(),
                record: VhostRecord::default(),
            },
            MetadataChange::PutUser {
                user: user.clone(),
                password_hash: "".into(),
                hashing_algorithm: "".into(),
                tags: Vec::new(),
            },
            MetadataChange::SetPermission {
                user,
                vhost,
                configure: all(),
                write: all(),
                read: all(),
            },
        ] {
            broker
                .apply(&change)
                .await
                .expect("a fresh broker takes it");
        }
        let authenticator = Authenticator::new(AuthPolicy::default(), Arc::new(OnlyGuest));
        let context = Arc::new(Context::new(broker, authenticator, options));
        Self {
            context,
            shutdown: CancellationToken::new(),
            _data: data,
        }
    }

    /// A pipe to a connection that has not said anything yet.
    fn connect(&self) -> (Client, JoinHandle<()>) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5672);
        let endpoint = Endpoint {
            peer: address,
            local: address,
        };
        let context = self.context.clone();
        let served = serve_connection(reader, writer, endpoint, context, self.shutdown.clone());
        (Client::new(ours), tokio::spawn(served))
    }

    /// An open connection.
    async fn open(&self) -> Client {
        let (mut client, _) = self.connect();
        client.handshake().await;
        client
    }

    /// An open connection with channel 1 open.
    async fn open_channel(&self) -> Client {
        let mut client = self.open().await;
        client.open_channel(1).await;
        client
    }
}

/// Delays short enough for tests; heartbeats off.
fn quick() -> AmqpServerOptions {
    AmqpServerOptions {
        refusal_delay: Duration::from_millis(20),
        heartbeat_s: 0,
        ..AmqpServerOptions::default()
    }
}
