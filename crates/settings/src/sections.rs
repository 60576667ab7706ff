//! Everything that can be set, as types, with the built-in defaults.
//!
//! One struct a section, one field a key: the tree of keys that the loader knows is read off the
//! serialized defaults, so a field is all that a key needs besides its lines in
//! `config/broker.yaml`. What the values do to a running broker is decided elsewhere.

mod flow;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::scalar::{
    ByteSize, Cap, ClientCertificates, DeadLetterStrategy, DelayedRetry, DeliveryLimitCounts,
    Listen, LogFormat, LoginFrom, SanType, Secret, Span, Timeout, TimeoutAction, TlsVersion,
    Watermark,
};
pub use flow::{Flow, FlowClient, FlowUser, FlowVhost};

/// What the operator wrote, laid over the built-in defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Who the node is and where its data lies.
    pub node: Node,
    /// Where clients, operators and scrapers connect.
    pub listeners: Listeners,
    /// Encryption of the listeners that have it.
    pub tls: Tls,
    /// Who may log in, and how.
    pub auth: Auth,
    /// What the broker shall hold when it starts.
    pub definitions: Definitions,
    /// Where policies are written.
    pub policies: Policies,
    /// The durable store.
    pub storage: Storage,
    /// When publishers are held for memory.
    pub memory: Memory,
    /// When publishers are held for disk space.
    pub disk: Disk,
    /// How publishers are held.
    pub flow: Flow,
    /// What one client may ask for.
    pub limits: Limits,
    /// Quorum queues.
    pub quorum: Quorum,
    /// The other nodes.
    pub cluster: Cluster,
    /// The log.
    pub log: Log,
    /// The end.
    pub shutdown: Shutdown,
}

/// `node`: who the node is and where its data lies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Node {
    /// The node's name in the HTTP API and in metrics; `rabbit@` and the host's name if unset.
    pub name: Option<String>,
    /// The product that the AMQP handshake announces.
    pub product: String,
    /// The folder that holds everything durable; relative to the working directory.
    pub data_dir: PathBuf,
}

/// `listeners`: where the broker waits for connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listeners {
    /// AMQP 0-9-1 over TCP.
    pub amqp: Listen,
    /// AMQP 0-9-1 over TLS.
    pub amqps: Listen,
    /// The HTTP API.
    pub management: Listen,
    /// The HTTP API over TLS.
    pub management_tls: Listen,
    /// Metrics and health for machines, without login.
    pub metrics: Listen,
    /// The other nodes.
    pub cluster: Listen,
}

/// `tls`: encryption of the listeners that have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// PEM file of the certificate and of those between it and its authority.
    pub certificate: Option<PathBuf>,
    /// PEM file of the certificate's private key.
    pub private_key: Option<PathBuf>,
    /// Other certificates for clients that ask for a name: `NAME=CERTIFICATE:KEY`.
    pub certificates_by_name: Vec<String>,
    /// PEM file of the authorities that clients' certificates are checked against.
    pub client_authorities: Option<PathBuf>,
    /// Whether clients show a certificate.
    pub client_certificates: ClientCertificates,
    /// The oldest version that is spoken.
    pub minimum_version: TlsVersion,
    /// Cipher suites that may be used; empty for all that are safe.
    pub cipher_suites: Vec<String>,
    /// Which name of a client's certificate EXTERNAL takes for the user's.
    pub login_from: LoginFrom,
    /// The kind of alternative name that is meant.
    pub login_san_type: SanType,
    /// Which of the alternative names of that kind, from 0.
    pub login_san_index: u16,
}

/// `definitions`: what the broker shall hold when it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Definitions {
    /// A file of definitions that is imported at the start.
    pub path: Option<PathBuf>,
    /// Whether a file that was imported already is passed over.
    pub skip_if_unchanged: bool,
}

/// `cluster`: which nodes make up the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    /// This node's number among `nodes`; 0 for a node without a cluster.
    pub node: u64,
    /// Every node, this one too, as `NUMBER@HOST:PORT`; the same on all of them.
    pub nodes: Vec<String>,
    /// What every node must know to be let in.
    pub secret: Secret,
    /// Members of a replica group.
    pub group_size: u32,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            node: 0,
            nodes: Vec::new(),
            secret: Secret::default(),
            group_size: 3,
        }
    }
}

impl Cluster {
    /// The nodes as numbers and addresses; `None` when one is not written as it must be.
    pub fn members(&self) -> Option<Vec<(u64, String)>> {
        let member = |node: &String| {
            let (number, address) = node.split_once('@')?;
            let (host, port) = address.rsplit_once(':')?;
            let sound = !host.is_empty() && port.parse::<u16>().is_ok();
            let number = number.parse().ok()?;
            (sound && number > 0).then(|| (number, address.to_owned()))
        };
        self.nodes.iter().map(member).collect()
    }
}

/// `auth`: who may log in, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// SASL mechanisms that clients are offered, by name.
    pub mechanisms: Vec<String>,
    /// Users that may log in from this machine only.
    pub loopback_users: Vec<String>,
    /// The user behind the mechanism ANONYMOUS; unset switches the mechanism off.
    pub anonymous_user: Option<String>,
    /// Password that the mechanism ANONYMOUS logs in with.
    pub anonymous_password: Secret,
    /// How long a refused client waits before its socket is closed.
    pub failure_delay: Span,
    /// Name of the administrator that the first start creates.
    pub default_user: String,
    /// Password of that user.
    pub default_password: Secret,
    /// The virtual host that the first start creates.
    pub default_vhost: String,
}

/// `policies`: where policies are written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policies {
    /// A YAML file, or a folder of `*.yaml`; relative to the folder of the configuration file.
    pub path: Option<PathBuf>,
}

/// `storage`: the durable store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// Size of one journal file.
    pub journal_file_size: ByteSize,
    /// The journal's files together stay under this size.
    pub journal_cap: ByteSize,
    /// Size of one segment file.
    pub segment_size: ByteSize,
}

/// `memory`: when publishers are held for memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Memory in use above which publishers are held.
    pub high_watermark: Watermark,
    /// The publishers' share of it in percent; 0 makes one pool of publishers and consumers.
    pub producer_percent: u8,
}

/// `disk`: when publishers are held for disk space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Disk {
    /// Free space in the data folder's file system below which publishers are held.
    pub free_limit: ByteSize,
}

/// `limits`: what one client may ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest frame that is offered to clients.
    pub frame_max: ByteSize,
    /// Channels that one connection may have open.
    pub channel_max: u16,
    /// Heartbeat period that is proposed to clients, in whole seconds; `off` proposes none.
    pub heartbeat: Timeout,
    /// Largest message body.
    pub max_message_size: ByteSize,
    /// Connections to this node.
    pub max_connections: u32,
    /// Time for a client to finish the handshake.
    pub handshake_timeout: Span,
}

/// `quorum`: defaults of quorum queues that neither policy nor argument sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quorum {
    /// How long a consumer may keep a delivery without settling it.
    pub consumer_timeout: Timeout,
    /// What happens then.
    pub consumer_timeout_action: TimeoutAction,
    /// Returns after which a message is dead-lettered or dropped.
    pub delivery_limit: Cap,
    /// What counts as a return.
    pub delivery_limit_counts: DeliveryLimitCounts,
    /// How surely dead letters reach their targets.
    pub dead_letter_strategy: DeadLetterStrategy,
    /// Which returns are held back.
    pub delayed_retry_type: DelayedRetry,
    /// The delay of the first return.
    pub delayed_retry_min: Span,
    /// The longest delay.
    pub delayed_retry_max: Span,
    /// By how much the delay grows with each return; linearly if unset.
    #[serde(deserialize_with = "crate::scalar::factor")]
    pub delayed_retry_multiplier: Option<f64>,
    /// By up to how many percent each delay is shortened.
    pub delayed_retry_jitter: u8,
    /// Whether messages expire behind ones that live longer.
    pub expire_anywhere: bool,
    /// Returns of one message by one consumer within a minute above which it is reported.
    pub poison_loop_returns: Cap,
    /// Replica groups that the node's quorum queues are spread over.
    pub groups: u32,
}

/// `log`: the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Least level that is written, with exceptions for parts of the broker.
    pub level: String,
    /// Shape of the lines.
    pub format: LogFormat,
}

/// `shutdown`: the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shutdown {
    /// Longest time that a stop may take before the process ends all the same.
    pub drain_timeout: Span,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            name: None,
            product: "SluiceMQ".to_owned(),
            data_dir: PathBuf::from("data"),
        }
    }
}

impl Default for Listeners {
    fn default() -> Self {
        Self {
            amqp: Listen::Everywhere(5672),
            amqps: Listen::Off,
            management: Listen::Everywhere(15672),
            management_tls: Listen::Off,
            metrics: Listen::Everywhere(15692),
            cluster: Listen::Off,
        }
    }
}

impl Tls {
    /// Name, certificate and key of an entry of `certificates_by_name`.
    pub fn named_certificate(entry: &str) -> Option<(&str, &str, &str)> {
        let (name, files) = entry.split_once('=')?;
        let (certificate, key) = files.split_once(':')?;
        let parts = [name, certificate, key].map(str::trim);
        let [name, certificate, key] = parts;
        parts
            .iter()
            .all(|part| !part.is_empty())
            .then_some((name, certificate, key))
    }
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            certificate: None,
            private_key: None,
            certificates_by_name: Vec::new(),
            client_authorities: None,
            client_certificates: ClientCertificates::Off,
            minimum_version: TlsVersion::OneTwo,
            cipher_suites: Vec::new(),
            login_from: LoginFrom::DistinguishedName,
            login_san_type: SanType::Dns,
            login_san_index: 0,
        }
    }
}

impl Default for Definitions {
    fn default() -> Self {
        Self {
            path: None,
            skip_if_unchanged: true,
        }
    }
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            mechanisms: ["ANONYMOUS", "AMQPLAIN", "PLAIN"]
                .map(str::to_owned)
                .to_vec(),
            loopback_users: vec!["guest".to_owned()],
            anonymous_user: Some("guest".to_owned()),
            anonymous_password: Secret::new("guest"),
            failure_delay: Span::seconds(3),
            default_user: "guest".to_owned(),
            default_password: Secret::new("guest"),
            default_vhost: "/".to_owned(),
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            journal_file_size: ByteSize::mib(64),
            journal_cap: ByteSize::mib(256),
            segment_size: ByteSize::mib(16),
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            high_watermark: Watermark::Share(0.6),
            producer_percent: 60,
        }
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            free_limit: ByteSize::bytes(50_000_000),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_max: ByteSize::bytes(131_072),
            channel_max: 2047,
            heartbeat: Timeout::After(Span::seconds(60)),
            max_message_size: ByteSize::mib(16),
            max_connections: 65_536,
            handshake_timeout: Span::seconds(10),
        }
    }
}

impl Default for Quorum {
    fn default() -> Self {
        Self {
            consumer_timeout: Timeout::After(Span::seconds(1800)),
            consumer_timeout_action: TimeoutAction::Close,
            delivery_limit: Cap::AtMost(20),
            delivery_limit_counts: DeliveryLimitCounts::Returns,
            dead_letter_strategy: DeadLetterStrategy::AtMostOnce,
            delayed_retry_type: DelayedRetry::Disabled,
            delayed_retry_min: Span::seconds(1),
            delayed_retry_max: Span::seconds(60),
            delayed_retry_multiplier: None,
            delayed_retry_jitter: 0,
            expire_anywhere: false,
            poison_loop_returns: Cap::AtMost(10),
            groups: 8,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::Auto,
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            drain_timeout: Span::seconds(30),
        }
    }
}
