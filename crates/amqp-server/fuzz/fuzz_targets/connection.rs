//! An open connection against whatever a client says, over a real socket with a real broker
//! behind. A panic of the connection ends the run; so does a server that stops answering others.
#![no_main]

#[path = "../script.rs"]
mod script;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use amqp::protocol::{AMQPClass, connection};
use amqp::{PROTOCOL_HEADER, encode_method};
use amqp_server::{AmqpServer, AmqpServerOptions};
use auth::{
    AuthPolicy, Authenticator, HashedPassword, HashingAlgorithm, UserDirectory, UserRecord,
};
use broker::{Broker, BrokerOptions};
use broker_core::metadata::VhostRecord;
use broker_core::{MetadataChange, UserName, VhostName};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A server that says nothing for so long does not answer any more.
const PATIENCE: Duration = Duration::from_secs(20);

static SERVER: LazyLock<Server> = LazyLock::new(Server::start);

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

struct Server {
    address: SocketAddr,
    _runtime: Runtime,
    _data: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let data = tempfile::tempdir().expect("a temporary folder");
        let runtime = Runtime::new().expect("a runtime");
        // The fuzzer's own main lets a write to a closed socket end the process; Rust's does not.
        runtime.block_on(async { signal(SignalKind::pipe()).expect("a handler of SIGPIPE") });
        let address = runtime.block_on(serve(data.path()));
        Self {
            address,
            _runtime: runtime,
            _data: data,
        }
    }
}

async fn serve(data: &std::path::Path) -> SocketAddr {
    let broker = Broker::open(BrokerOptions::new(data))
        .await
        .expect("a broker");
    let (user, vhost) = (UserName::new("guest"), VhostName::new("/"));
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
            configure: ".*".into(),
            write: ".*".into(),
            read: ".*".into(),
        },
    ] {
        broker.apply(&change).await.expect("a fresh broker");
    }
    let authenticator = Authenticator::new(AuthPolicy::default(), Arc::new(OnlyGuest));
    let options = AmqpServerOptions {
        refusal_delay: Duration::from_millis(1),
        heartbeat_s: 0,
        ..AmqpServerOptions::default()
    };
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = AmqpServer::bind(any, broker, authenticator, options).expect("a port");
    let address = server.local_addr().expect("an address");
    tokio::spawn(server.serve(CancellationToken::new()));
    address
}

/// Header, login, tune and open in one go: nothing of it depends on the answers.
fn handshake() -> Vec<u8> {
    let mut out = PROTOCOL_HEADER.to_vec();
    for method in [
        connection::AMQPMethod::StartOk(connection::StartOk {
            mechanism: "PLAIN".into(),
            response: "\0guest\0guest".into(),
            locale: "en_US".into(),
            ..connection::StartOk::default()
        }),
        connection::AMQPMethod::TuneOk(connection::TuneOk {
            channel_max: 16,
            frame_max: 131_072,
            heartbeat: 0,
        }),
        connection::AMQPMethod::Open(connection::Open {
            virtual_host: "/".into(),
        }),
    ] {
        encode_method(&mut out, 0, &AMQPClass::Connection(method));
    }
    out
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut stream = TcpStream::connect(SERVER.address).expect("the server accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let said = [handshake(), script::octets(data)].concat();
    // The server may have closed meanwhile.
    let _ = stream.write_all(&said);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answers = [0; 4096];
    loop {
        match stream.read(&mut answers) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the server does not answer any more")
            }
            Err(_) => return,
        }
    }
});
