//! Everything that can be set, as types, with the built-in defaults.
//!
//! One struct a section, one field a key: the tree of keys that the loader knows is read off the
//! serialized defaults, so a field is all that a key needs besides its lines in
//! `config/broker.yaml`. What the values do to a running broker is decided elsewhere.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::scalar::{
    ByteSize, Cap, DeliveryLimitCounts, Listen, LogFormat, Secret, Span, Timeout, TimeoutAction,
    Watermark,
};

/// What the operator wrote, laid over the built-in defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Who the node is and where its data lies.
    pub node: Node,
    /// Where clients, operators and scrapers connect.
    pub listeners: Listeners,
    /// Who may log in, and how.
    pub auth: Auth,
    /// Where policies are written.
    pub policies: Policies,
    /// The durable store.
    pub storage: Storage,
    /// When publishers are held for memory.
    pub memory: Memory,
    /// When publishers are held for disk space.
    pub disk: Disk,
    /// What one client may ask for.
    pub limits: Limits,
    /// Quorum queues.
    pub quorum: Quorum,
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
    /// Metrics and health for machines, without login.
    pub metrics: Listen,
    /// The other nodes.
    pub cluster: Listen,
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
            metrics: Listen::Everywhere(15692),
            cluster: Listen::Off,
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
