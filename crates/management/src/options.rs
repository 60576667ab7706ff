//! What the shell tells the HTTP side.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Who the node is, and what it is made of.
#[derive(Clone, Debug)]
pub struct ManagementOptions {
    /// Name of the node.
    pub node: String,
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
    /// Bytes of memory at which publishers are blocked.
    pub memory_limit_bytes: u64,
    /// Free bytes of disk below which publishers are blocked.
    pub disk_free_limit_bytes: u64,
    /// Connections that one HTTP listener serves at a time.
    pub connections_max: usize,
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
            product_name: "SluiceMQ".into(),
            product_version: env!("CARGO_PKG_VERSION").into(),
            rabbitmq_version: RABBITMQ_VERSION.into(),
            data_dir: PathBuf::new(),
            config_files: Vec::new(),
            auth_mechanisms: Vec::new(),
            memory_limit_bytes: 0,
            disk_free_limit_bytes: 0,
            connections_max: CONNECTIONS_MAX,
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
