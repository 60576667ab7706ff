//! The only place that turns settings into the options of each crate.

use std::net::SocketAddr;
use std::path::PathBuf;

use amqp_server::{AmqpServerOptions, ServerIdentity};
use auth::{AuthPolicy, FirstUser, FirstUserError, Mechanism};
use broker::BrokerOptions;
use broker_core::settings as core;
use management::{ListenerInfo, ManagementOptions};
use settings::{DeliveryLimitCounts, Settings, TimeoutAction};

use crate::serving::Addresses;

/// Keys that are read and checked, but that no part of the broker acts on in this version.
const WITHOUT_EFFECT: [&str; 3] = ["policies.path", "memory.high_watermark", "disk.free_limit"];

/// Whether the operator asks for something with this key that this version does not do.
pub(crate) fn asks_in_vain(key: &str) -> bool {
    WITHOUT_EFFECT.contains(&key)
}

/// Whom an empty broker starts with; the customary environment variables win.
pub(crate) fn first_user(
    settings: &Settings,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<FirstUser, FirstUserError> {
    let auth = &settings.auth;
    let first = FirstUser {
        user: auth.default_user.clone(),
        password: auth.default_password.reveal().to_owned(),
        vhost: auth.default_vhost.clone(),
    };
    first.or_environment(variable)
}

/// Who may log in.
pub(crate) fn auth_policy(settings: &Settings) -> AuthPolicy {
    let auth = &settings.auth;
    let mechanisms = auth
        .mechanisms
        .iter()
        .filter_map(|name| Mechanism::by_name(name));
    let anonymous = auth.anonymous_user.as_ref();
    AuthPolicy {
        mechanisms: mechanisms.collect(),
        loopback_users: auth.loopback_users.clone(),
        anonymous: anonymous
            .map(|user| (user.clone(), auth.anonymous_password.reveal().to_owned())),
    }
}

/// The name of this node: as set, else `rabbit@` and the host's, the form that tools made for
/// RabbitMQ expect.
pub(crate) fn node_name(settings: &Settings) -> String {
    settings
        .node
        .name
        .clone()
        .unwrap_or_else(|| format!("rabbit@{}", host_name()))
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    // Without the domain, as Erlang's short names are.
    match name.trim().split('.').next() {
        Some(short) if !short.is_empty() => short.to_owned(),
        _ => "localhost".to_owned(),
    }
}

/// A batch record must hold the largest message and the commands that ride with it.
const RECORD_BYTES_BESIDE_MESSAGE: u64 = 1 << 20;

/// The engine's options.
pub(crate) fn broker_options(settings: &Settings) -> BrokerOptions {
    let storage = &settings.storage;
    let mut options = BrokerOptions::new(&settings.node.data_dir);
    options.storage.journal_file_bytes = storage.journal_file_size.as_bytes();
    options.storage.journal_bytes_max = storage.journal_cap.as_bytes();
    options.storage.segment_bytes = storage.segment_size.as_bytes();
    let largest = settings.limits.max_message_size.as_bytes() + RECORD_BYTES_BESIDE_MESSAGE;
    options.storage.record_bytes_max = options.storage.record_bytes_max.max(largest);
    options.groups = settings.quorum.groups;
    options.defaults.quorum = quorum_defaults(settings);
    options
}

/// What quorum queues go by when neither argument nor policy says anything.
pub(crate) fn quorum_defaults(settings: &Settings) -> core::QuorumDefaults {
    let quorum = &settings.quorum;
    core::QuorumDefaults {
        delivery_limit: quorum.delivery_limit.limit(),
        delivery_limit_counts: match quorum.delivery_limit_counts {
            DeliveryLimitCounts::Returns => core::DeliveryLimitCounts::Returns,
            DeliveryLimitCounts::Failures => core::DeliveryLimitCounts::Failures,
        },
        consumer_timeout_ms: quorum.consumer_timeout.as_ms(),
        consumer_timeout_action: match quorum.consumer_timeout_action {
            TimeoutAction::Close => core::ConsumerTimeoutAction::Close,
            TimeoutAction::Cancel => core::ConsumerTimeoutAction::Cancel,
            TimeoutAction::Return => core::ConsumerTimeoutAction::Return,
        },
    }
}

/// The AMQP server's options.
pub(crate) fn amqp_options(settings: &Settings) -> AmqpServerOptions {
    let limits = &settings.limits;
    let default = AmqpServerOptions::default();
    AmqpServerOptions {
        identity: ServerIdentity {
            cluster_name: node_name(settings),
            product: settings.node.product.clone(),
            sluicemq_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..default.identity
        },
        // The settings' checks hold these within the types' ranges.
        frame_max: u32::try_from(limits.frame_max.as_bytes()).unwrap_or(u32::MAX),
        heartbeat_s: u16::try_from(limits.heartbeat.as_ms().unwrap_or(0) / 1000)
            .unwrap_or(u16::MAX),
        channel_max: limits.channel_max,
        // Clients that are told RabbitMQ get its answer, which is 540.
        obeys_client_flow: settings.node.product != "RabbitMQ",
        max_message_size: limits.max_message_size.as_bytes(),
        connections_max: limits.max_connections as usize,
        handshake_timeout: limits.handshake_timeout.as_duration(),
        refusal_delay: settings.auth.failure_delay.as_duration(),
        // A third for the connections, the rest for the storage.
        shutdown_grace: settings.shutdown.drain_timeout.as_duration() / 3,
        ..default
    }
}

/// The HTTP side's options.
pub(crate) fn management_options(
    settings: &Settings,
    config_files: &[PathBuf],
) -> ManagementOptions {
    let auth = &settings.auth;
    ManagementOptions {
        product_name: settings.node.product.clone(),
        product_version: env!("CARGO_PKG_VERSION").to_owned(),
        data_dir: settings.node.data_dir.clone(),
        config_files: config_files.to_vec(),
        auth_mechanisms: auth.mechanisms.iter().map(ToString::to_string).collect(),
        ..ManagementOptions::new(node_name(settings))
    }
}

/// The open listeners as the HTTP side shows them.
pub(crate) fn listener_infos(addresses: &Addresses) -> Vec<ListenerInfo> {
    let info = |protocol, address: Option<SocketAddr>| {
        address.map(|address| ListenerInfo { protocol, address })
    };
    [
        info("amqp", addresses.amqp),
        info("http", addresses.management),
        info("http/prometheus", addresses.metrics),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests;
