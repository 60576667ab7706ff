//! How long lists take with many queues, while messages flow: `cargo bench -p management`.
//!
//! Two sizes, five questions each; prints the median and the slowest of some rounds.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use auth::{
    AuthPolicy, Authenticator, HashedPassword, HashingAlgorithm, UserDirectory, UserRecord,
};
use broker::{Broker, BrokerOptions, Outbox, Outgoing, Publish, SessionOptions};
use broker_core::metadata::{MetadataChange, QueueDeclaration, VhostRecord};
use broker_core::{QueueName, UserName, VhostName};
use management::{Management, ManagementOptions};
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 15;
const SIZES: [usize; 2] = [10_000, 100_000];
const QUESTIONS: [(&str, &str); 5] = [
    ("first page", "/api/queues?page=1&page_size=100"),
    (
        "first page by messages",
        "/api/queues?page=1&page_size=100&sort=messages&sort_reverse=true",
    ),
    (
        "page of a name",
        "/api/queues?page=1&page_size=100&name=99&use_regex=true",
    ),
    ("one queue", "/api/queues/%2F/queue-0000042"),
    (
        "all, three columns",
        "/api/queues?columns=name,messages,consumers",
    ),
];

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

struct Nowhere;

impl Outbox for Nowhere {
    fn push(&self, _channel: u16, _out: &[Outgoing<'_>]) -> usize {
        0
    }
}

fn main() {
    // Cargo's test runner asks benches to list themselves.
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for size in SIZES {
        let dir = tempfile::tempdir().expect("a folder");
        let (broker, api) = runtime.block_on(set_up(dir.path(), size));
        let stop = Arc::new(AtomicBool::new(false));
        let load = runtime.spawn(publish(broker.clone(), size, stop.clone()));
        println!("{size} queues, messages flowing");
        for (what, path) in QUESTIONS {
            let mut times: Vec<Duration> = (0..ROUNDS).map(|_| ask(api, path)).collect();
            times.sort_unstable();
            let (median, slowest) = (times[ROUNDS / 2], times[ROUNDS - 1]);
            println!("  {what:<24} {median:>10.2?} median {slowest:>10.2?} slowest");
        }
        stop.store(true, Ordering::Relaxed);
        let published = runtime.block_on(load).expect("the load");
        println!("  published meanwhile      {published}");
    }
}

async fn set_up(dir: &std::path::Path, size: usize) -> (Broker, SocketAddr) {
    let broker = Broker::open(BrokerOptions::new(dir))
        .await
        .expect("a broker");
    let (user, vhost) = (UserName::new("guest"), VhostName::new("/"));
    let hash = HashedPassword::new(HashingAlgorithm::default(), b"guest");
    let all = || Box::from(".*");
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
            configure: all(),
            write: all(),
            read: all(),
        },
    ];
    for change in changes {
        broker.apply(&change).await.expect("a change");
    }
    let declared = (0..size).map(|number| declare(&broker, number));
    for part in declared.collect::<Vec<_>>().chunks_mut(1_000) {
        futures::future::join_all(part.iter_mut()).await;
    }
    let directory = Arc::new(Directory(broker.clone()));
    let authenticator = Authenticator::new(AuthPolicy::default(), directory);
    let options = ManagementOptions::new("bench@here");
    let management = Management::new(broker.clone(), authenticator, options);
    let server = management
        .bind_api(SocketAddr::from(([127, 0, 0, 1], 0)))
        .expect("a port");
    let api = server.local_addr().expect("an address");
    tokio::spawn(server.serve(CancellationToken::new()));
    (broker, api)
}

fn name(number: usize) -> String {
    format!("queue-{number:07}")
}

fn declare(broker: &Broker, number: usize) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
    let declaration = QueueDeclaration {
        vhost: VhostName::new("/"),
        queue: QueueName::new(name(number)),
        server_named: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: amqp::Table::default(),
        connection: None,
        user: None,
        node: Default::default(),
        groups: broker.group_count(),
    };
    Box::pin(async move {
        let change = MetadataChange::DeclareQueue(declaration);
        broker.apply(&change).await.expect("a queue");
    })
}

/// Publishes to one queue after the other; answers how many messages.
async fn publish(broker: Broker, size: usize, stop: Arc<AtomicBool>) -> u64 {
    let here = SocketAddr::from(([127, 0, 0, 1], 1));
    let session = broker
        .open_session(SessionOptions {
            tls: None,
            user: UserName::new("guest"),
            vhost: VhostName::new("/"),
            peer: here,
            local: here,
            client_properties: amqp::Table::default(),
            outbox: Arc::new(Nowhere),
            channel_max: 1,
            frame_max: 131_072,
            heartbeat_s: 0,
            mechanism: "PLAIN".into(),
        })
        .expect("a session");
    let mut channel = session.open_channel(1).expect("a channel");
    let properties = amqp::PropertiesBuilder::new().build();
    let mut published = 0;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..100 {
            let key = name(published as usize * 7 % size);
            let message = Publish {
                exchange: "",
                routing_key: &key,
                mandatory: false,
                immediate: false,
                properties: &properties,
                body: b"sixteen octets..",
            };
            channel.publish(message).expect("a publish");
            published += 1;
        }
        channel.end_turn();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    channel.close().await;
    session.close().await;
    published
}

fn ask(api: SocketAddr, path: &str) -> Duration {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(api).expect("a connection");
    // guest:guest
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\
         authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
    );
    stream
        .write_all(request.as_bytes())
        .expect("a sent request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}");
    begun.elapsed()
}
