//! What the shell tells the HTTP side.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::reload::ReloadDoor;

/// Who the node is, and what it is made of.
#[derive(Clone, Debug)]
pub struct ManagementOptions {
    /// Name of the node.
    pub node: String,
    /// Names of all nodes of its cluster by their numbers; none for a node that stands alone.
    pub cluster: BTreeMap<u64, String>,
    /// The program.
    pub product_name: String,
    /// Its version.
    pub product_version: String,
    /// The level of RabbitMQ that is spoken.
    pub rabbitmq_version: String,
    /// Where everything durable lies.
    pub data_dir: PathBuf,
    /// Configuration files that were read.
    pub config_files: Vec<PathBuf>,
    /// SASL mechanisms on offer.
    pub auth_mechanisms: Vec<String>,
    /// Settings in effect, for operators; secrets are masked already.
    pub settings: serde_json::Value,
    /// Connections that one HTTP listener serves at a time.
    pub connections_max: usize,
    /// How long the answer to a failed login waits, once an address has failed a few times.
    pub login_failure_delay: Duration,
    /// The way to whoever reads the operator's files.
    pub reload: Option<ReloadDoor>,
}

/// The RabbitMQ release whose API this is.
const RABBITMQ_VERSION: &str = "4.3.6";

/// Connections of one HTTP listener; each costs a socket and some tens of KiB.
const CONNECTIONS_MAX: usize = 1_024;

impl ManagementOptions {
    /// The defaults of a node of this name.
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            cluster: BTreeMap::new(),
            product_name: "SluiceMQ".into(),
            product_version: env!("CARGO_PKG_VERSION").into(),
            rabbitmq_version: RABBITMQ_VERSION.into(),
            data_dir: PathBuf::new(),
            config_files: Vec::new(),
            auth_mechanisms: Vec::new(),
            settings: serde_json::json!({}),
            connections_max: CONNECTIONS_MAX,
            login_failure_delay: Duration::from_secs(3),
            reload: None,
        }
    }
}

/// A listener that is open, whoever serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerInfo {
    /// `amqp`, `amqp/ssl`, `clustering`, `http`, `https`, `http/prometheus`.
    pub protocol: &'static str,
    /// Where.
    pub address: SocketAddr,
}
