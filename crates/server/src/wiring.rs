//! The only place that turns settings into the options of each crate.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use amqp_server::{AmqpServerOptions, ServerIdentity};
use auth::{AuthPolicy, FirstUser, FirstUserError, Mechanism};
use broker::{BrokerOptions, ClusterMember, ClusterOptions, ClusterSecret, FlowOptions};
use broker_core::flow::{HoldBounds, Levers, LibraryWord, UserWord, When};
use broker_core::settings as core;
use broker_core::{UserName, VhostName};
use management::{ListenerInfo, ManagementOptions, ReloadDoor};
use settings::{
    DeadLetterStrategy, DeliveryLimitCounts, Lever, LoginFrom, Quorum, SanType, Settings,
    TimeoutAction,
};
use tls::{CertificateName, ClientCertificates, NamedCertificate, SanKind, TlsOptions, TlsVersion};

use crate::serving::Addresses;

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
        is_explicit: false,
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

/// The names of a cluster's nodes, the same on each of them.
fn cluster_names(settings: &Settings) -> BTreeMap<u64, String> {
    let members = settings.cluster.members().unwrap_or_default().into_iter();
    members
        .map(|(node, address)| (node, ClusterMember { node, address }.name()))
        .collect()
}

/// The name of this node: its cluster's, else as set, else `rabbit@` and the host's, the form that
/// tools made for RabbitMQ expect.
pub(crate) fn node_name(settings: &Settings) -> String {
    if let Some(name) = cluster_names(settings).remove(&settings.cluster.node) {
        return name;
    }
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
    options.name = node_name(settings);
    options.storage.journal_file_bytes = storage.journal_file_size.as_bytes();
    options.storage.journal_bytes_max = storage.journal_cap.as_bytes();
    // The other half is for the file that is written, and for the one that is flushed meanwhile.
    options.storage.journal_bytes_kept = options.storage.journal_bytes_max / 2;
    options.storage.segment_bytes = storage.segment_size.as_bytes();
    let largest = settings.limits.max_message_size.as_bytes() + RECORD_BYTES_BESIDE_MESSAGE;
    options.storage.record_bytes_max = options.storage.record_bytes_max.max(largest);
    options.groups = settings.quorum.groups;
    options.defaults.quorum = quorum_defaults(settings);
    options.flow = flow_options(settings, broker::memory_limit_bytes());
    options.levers = levers(settings);
    options
}

/// How publishers are held on a machine that lets the process use so much memory.
pub(crate) fn flow_options(settings: &Settings, memory_bytes: Option<u64>) -> FlowOptions {
    let flow = &settings.flow;
    FlowOptions {
        hold_timeout_ms: flow.hold_timeout.as_ms(),
        bounds: HoldBounds {
            memory_bytes: flow.park_memory.as_bytes(),
            spill_bytes: flow.park_disk.as_bytes(),
            notify_ms: flow.hold_notify_period.as_ms(),
            grace_ms: flow.grace.as_ms(),
        },
        parked_memory_max_bytes: flow.park_memory_total.as_bytes(),
        parked_disk_max_bytes: flow.park_disk_total.as_bytes(),
        memory_limit_bytes: memory_bytes
            .map(|bytes| settings.memory.high_watermark.bytes_of(bytes)),
        producer_percent: settings.memory.producer_percent.into(),
        disk_free_limit_bytes: settings.disk.free_limit.as_bytes(),
        ..FlowOptions::default()
    }
}

/// Which levers hold which clients.
pub(crate) fn levers(settings: &Settings) -> Levers {
    let flow = &settings.flow;
    let libraries = flow.clients.iter().map(|client| LibraryWord {
        product: client.product.clone(),
        platform: client.platform.clone(),
        obeys_flow: client.obeys_flow,
        stops_acks: client.stops_acks_when_blocked,
    });
    let users = flow.users.iter().map(|(user, said)| {
        let word = UserWord {
            channel_flow: said.channel_flow.map(when),
            blocked_notice: said.blocked_notice.map(when),
        };
        (UserName::new(user), word)
    });
    let vhosts = flow
        .vhosts
        .iter()
        .filter_map(|(vhost, said)| Some((VhostName::new(vhost), when(said.channel_flow?))));
    Levers {
        channel_flow: when(flow.channel_flow),
        blocked_notice: when(flow.blocked_notice),
        libraries: libraries.collect(),
        users: users.collect(),
        vhosts: vhosts.collect(),
    }
}

fn when(lever: Lever) -> When {
    match lever {
        Lever::Auto => When::Auto,
        Lever::Always => When::Always,
        Lever::Never => When::Never,
    }
}

/// The node's place among the others.
pub(crate) fn cluster_options(settings: &Settings, listener: TcpListener) -> ClusterOptions {
    let cluster = &settings.cluster;
    // The settings' checks have read them once.
    let members = cluster.members().unwrap_or_default().into_iter();
    ClusterOptions {
        node: cluster.node,
        members: members
            .map(|(node, address)| ClusterMember { node, address })
            .collect(),
        secret: ClusterSecret::new(cluster.secret.reveal()),
        listener: Arc::new(listener),
        group_size: cluster.group_size as usize,
    }
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
        dead_letter_strategy: match quorum.dead_letter_strategy {
            DeadLetterStrategy::AtMostOnce => core::DeadLetterStrategy::AtMostOnce,
            DeadLetterStrategy::AtLeastOnce => core::DeadLetterStrategy::AtLeastOnce,
        },
        delayed_retry: delayed_retry(quorum),
        expire_anywhere: quorum.expire_anywhere,
        poison_loop_returns: quorum.poison_loop_returns.limit(),
    }
}

fn delayed_retry(quorum: &Quorum) -> Option<core::DelayedRetry> {
    Some(core::DelayedRetry {
        kind: core::DelayedRetryKind::parse(quorum.delayed_retry_type.as_str())?,
        min_ms: quorum.delayed_retry_min.as_ms(),
        max_ms: quorum.delayed_retry_max.as_ms(),
        multiplier_permille: quorum
            .delayed_retry_multiplier
            .map(|multiplier| (multiplier * 1000.0).round() as u32),
        jitter_percent: quorum.delayed_retry_jitter,
    })
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

/// What TLS listeners need; `None` without certificate and key.
pub(crate) fn tls_options(settings: &Settings) -> Option<TlsOptions> {
    let tls = &settings.tls;
    let named = tls.certificates_by_name.iter();
    let by_name = named.filter_map(|entry| {
        let (name, certificate, key) = settings::Tls::named_certificate(entry)?;
        Some(NamedCertificate {
            name: name.to_owned(),
            certificate: certificate.into(),
            private_key: key.into(),
        })
    });
    Some(TlsOptions {
        certificate: tls.certificate.clone()?,
        private_key: tls.private_key.clone()?,
        by_name: by_name.collect(),
        client_authorities: tls.client_authorities.clone(),
        client_certificates: match tls.client_certificates {
            settings::ClientCertificates::Off => ClientCertificates::Off,
            settings::ClientCertificates::Optional => ClientCertificates::Optional,
            settings::ClientCertificates::Required => ClientCertificates::Required,
        },
        minimum_version: match tls.minimum_version {
            settings::TlsVersion::OneTwo => TlsVersion::Tls12,
            settings::TlsVersion::OneThree => TlsVersion::Tls13,
        },
        cipher_suites: tls.cipher_suites.clone(),
    })
}

/// Which name of a certificate EXTERNAL logs in with.
pub(crate) fn login_from(settings: &Settings) -> CertificateName {
    let tls = &settings.tls;
    match tls.login_from {
        LoginFrom::DistinguishedName => CertificateName::DistinguishedName,
        LoginFrom::CommonName => CertificateName::CommonName,
        LoginFrom::SubjectAlternativeName => CertificateName::AlternativeName {
            kind: match tls.login_san_type {
                SanType::Dns => SanKind::Dns,
                SanType::Ip => SanKind::Ip,
                SanType::Email => SanKind::Email,
                SanType::Uri => SanKind::Uri,
                SanType::OtherName => SanKind::OtherName,
            },
            index: tls.login_san_index.into(),
        },
    }
}

/// The HTTP side's options.
pub(crate) fn management_options(
    settings: &Settings,
    config_files: &[PathBuf],
    reload: ReloadDoor,
) -> ManagementOptions {
    let auth = &settings.auth;
    ManagementOptions {
        product_name: settings.node.product.clone(),
        product_version: env!("CARGO_PKG_VERSION").to_owned(),
        data_dir: settings.node.data_dir.clone(),
        config_files: config_files.to_vec(),
        auth_mechanisms: auth.mechanisms.iter().map(ToString::to_string).collect(),
        login_failure_delay: settings.auth.failure_delay.as_duration(),
        reload: Some(reload),
        settings: masked(settings),
        cluster: cluster_names(settings),
        ..ManagementOptions::new(node_name(settings))
    }
}

/// The settings for operators to look at; whatever is secret is a row of dots.
fn masked(settings: &Settings) -> serde_json::Value {
    let mut shown = serde_json::to_value(settings).unwrap_or_default();
    mask(&mut shown);
    shown
}

fn mask(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, inner) in fields {
                let is_secret = ["password", "secret", "token", "cookie"];
                match is_secret.iter().any(|word| key.contains(word)) {
                    true => *inner = "••••".into(),
                    false => mask(inner),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

/// The open listeners as the HTTP side shows them.
pub(crate) fn listener_infos(addresses: &Addresses) -> Vec<ListenerInfo> {
    let info = |protocol, address: Option<SocketAddr>| {
        address.map(|address| ListenerInfo { protocol, address })
    };
    [
        info("amqp", addresses.amqp),
        info("amqp/ssl", addresses.amqps),
        info("http", addresses.management),
        info("https", addresses.management_tls),
        info("http/prometheus", addresses.metrics),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests;
