//! Rules that a value's type cannot hold: ranges, and keys that depend on each other.

use serde_yaml::Value;

use crate::error::{Fault, Problem};
use crate::key_path::KeyPath;
use crate::keys::Keys;
use crate::layer::{self, Layer, last_word};
use crate::scalar::{ByteSize, ClientCertificates, Listen, Timeout};
use crate::sections::{Quorum, Settings, Tls};
use crate::yaml::Aim;

/// A rule that the settings break.
pub(crate) struct Broken {
    path: KeyPath,
    rule: String,
}

/// Mechanisms that the broker can offer.
const MECHANISMS: [&str; 4] = ["ANONYMOUS", "AMQPLAIN", "PLAIN", "EXTERNAL"];

/// rabbitmq: frames smaller than this cannot carry the handshake of every client.
const FRAME_BYTES_MIN: u64 = 8192;
/// A frame is held in memory whole.
const FRAME_BYTES_MAX: u64 = 16 << 20;
/// amqp 1.4.2.6: tune carries the heartbeat as 16-bit seconds.
const HEARTBEAT_MS_MAX: u64 = u16::MAX as u64 * 1000;
/// rabbitmq: the ceiling of `max_message_size`.
const MESSAGE_BYTES_MAX: u64 = 512 << 20;
const JOURNAL_FILE_BYTES_MIN: u64 = 1 << 20;
const JOURNAL_FILE_BYTES_MAX: u64 = 1 << 30;
/// One file is written while another is emptied.
const JOURNAL_FILES_MIN: u64 = 2;
const JOURNAL_CAP_BYTES_MAX: u64 = 1 << 40;
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// More sockets than one process can hold on any system.
const CONNECTIONS_MAX: u32 = 1_000_000;
const GROUPS_MAX: u32 = 256;

impl Broken {
    /// The fault, at the place of the layer that has the last word on the key.
    pub(crate) fn fault(self, keys: &Keys, layers: &[Layer], settings: &Settings) -> Fault {
        let path = self.path;
        let tree = serde_yaml::to_value(settings).unwrap_or_else(|_| keys.defaults().clone());
        let found = layer::plain(&path, path.value(&tree).unwrap_or(&Value::Null));
        Fault {
            origin: last_word(layers, &path).origin_of(&path, Aim::Value),
            key: Some(path.to_string()),
            problem: Problem::OutOfRange {
                found,
                rule: self.rule,
            },
        }
    }
}

/// Every rule that the settings break.
pub(crate) fn whole(settings: &Settings) -> Vec<Broken> {
    let mut broken = Vec::new();
    tls(settings, &mut broken);
    auth(settings, &mut broken);
    storage(settings, &mut broken);
    memory(settings, &mut broken);
    flow(settings, &mut broken);
    limits(settings, &mut broken);
    quorum(settings, &mut broken);
    cluster(settings, &mut broken);
    log(settings, &mut broken);
    broken
}

fn memory(settings: &Settings, broken: &mut Vec<Broken>) {
    let percent = settings.memory.producer_percent;
    let rule = "must be a percentage from 0 to 100";
    need(percent <= 100, "memory.producer_percent", rule, broken);
}

fn flow(settings: &Settings, broken: &mut Vec<Broken>) {
    let list = KeyPath::dotted("flow.clients");
    for (index, client) in settings.flow.clients.iter().enumerate() {
        let fault = |rule: &str| Broken {
            path: list.item(index),
            rule: rule.to_owned(),
        };
        if client.product.is_empty() {
            broken.push(fault("name the client's product, as it announces it"));
        }
        if client.obeys_flow.is_none() && client.stops_acks_when_blocked.is_none() {
            broken.push(fault("say obeys_flow or stops_acks_when_blocked of it"));
        }
    }
}

fn need(holds: bool, key: &'static str, rule: impl Into<String>, broken: &mut Vec<Broken>) {
    if !holds {
        broken.push(Broken {
            path: KeyPath::dotted(key),
            rule: rule.into(),
        });
    }
}

fn within(size: ByteSize, (min, max): (u64, u64), key: &'static str, broken: &mut Vec<Broken>) {
    let [min_size, max_size] = [min, max].map(ByteSize::bytes);
    let holds = (min..=max).contains(&size.as_bytes());
    need(
        holds,
        key,
        format!("it must be from {min_size} to {max_size}"),
        broken,
    );
}

fn tls(settings: &Settings, broken: &mut Vec<Broken>) {
    let tls = &settings.tls;
    let listeners = &settings.listeners;
    let is_served = listeners.amqps != Listen::Off || listeners.management_tls != Listen::Off;
    let rule = "a TLS listener is on; name a PEM file, or set listeners.amqps and \
                listeners.management_tls off";
    need(
        !is_served || tls.certificate.is_some(),
        "tls.certificate",
        rule,
        broken,
    );
    need(
        !is_served || tls.private_key.is_some(),
        "tls.private_key",
        rule,
        broken,
    );
    need(
        tls.client_certificates == ClientCertificates::Off || tls.client_authorities.is_some(),
        "tls.client_authorities",
        "tls.client_certificates asks for certificates; name the PEM file of the authorities \
         that they are checked against",
        broken,
    );
    need(
        tls.certificates_by_name
            .iter()
            .all(|entry| Tls::named_certificate(entry).is_some()),
        "tls.certificates_by_name",
        "write each entry as NAME=CERTIFICATE_FILE:KEY_FILE",
        broken,
    );
}

fn auth(settings: &Settings, broken: &mut Vec<Broken>) {
    let auth = &settings.auth;
    let known = auth
        .mechanisms
        .iter()
        .all(|name| MECHANISMS.contains(&name.as_str()));
    let choice = MECHANISMS.join(", ");
    need(
        known,
        "auth.mechanisms",
        format!("choose among {choice}"),
        broken,
    );
    let some = !auth.mechanisms.is_empty();
    need(
        some,
        "auth.mechanisms",
        format!("offer at least one of {choice}"),
        broken,
    );
    let named = !auth.default_user.is_empty();
    need(named, "auth.default_user", "a user needs a name", broken);
    let named = !auth.default_vhost.is_empty();
    need(
        named,
        "auth.default_vhost",
        "a virtual host needs a name",
        broken,
    );
}

fn storage(settings: &Settings, broken: &mut Vec<Broken>) {
    let storage = &settings.storage;
    let file_range = (JOURNAL_FILE_BYTES_MIN, JOURNAL_FILE_BYTES_MAX);
    within(
        storage.journal_file_size,
        file_range,
        "storage.journal_file_size",
        broken,
    );
    let segment_range = (SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    within(
        storage.segment_size,
        segment_range,
        "storage.segment_size",
        broken,
    );
    let least = storage
        .journal_file_size
        .as_bytes()
        .saturating_mul(JOURNAL_FILES_MIN);
    need(
        (least..=JOURNAL_CAP_BYTES_MAX).contains(&storage.journal_cap.as_bytes()),
        "storage.journal_cap",
        format!(
            "it must hold at least {JOURNAL_FILES_MIN} journal files of \
             storage.journal_file_size ({}), and be at most {}",
            storage.journal_file_size,
            ByteSize::bytes(JOURNAL_CAP_BYTES_MAX)
        ),
        broken,
    );
}

fn limits(settings: &Settings, broken: &mut Vec<Broken>) {
    let limits = &settings.limits;
    within(
        limits.frame_max,
        (FRAME_BYTES_MIN, FRAME_BYTES_MAX),
        "limits.frame_max",
        broken,
    );
    within(
        limits.max_message_size,
        (1, MESSAGE_BYTES_MAX),
        "limits.max_message_size",
        broken,
    );
    need(
        limits.channel_max >= 1,
        "limits.channel_max",
        "it must be from 1 to 65535",
        broken,
    );
    let connections = (1..=CONNECTIONS_MAX).contains(&limits.max_connections);
    let rule = format!("it must be from 1 to {CONNECTIONS_MAX}");
    need(connections, "limits.max_connections", rule, broken);
    let timeout_ms = limits.handshake_timeout.as_ms();
    let rule = "no client can log in within no time; the default is 10s";
    need(timeout_ms > 0, "limits.handshake_timeout", rule, broken);
    heartbeat(limits.heartbeat, broken);
}

fn heartbeat(heartbeat: Timeout, broken: &mut Vec<Broken>) {
    let ms = heartbeat.as_ms().unwrap_or(0);
    let whole_seconds = ms.is_multiple_of(1000);
    need(
        whole_seconds && ms <= HEARTBEAT_MS_MAX,
        "limits.heartbeat",
        "it must be whole seconds, at most 65535s; a number alone counts milliseconds, \
         so write 60s for a minute",
        broken,
    );
}

fn quorum(settings: &Settings, broken: &mut Vec<Broken>) {
    let groups = settings.quorum.groups;
    let rule = format!("it must be from 1 to {GROUPS_MAX}");
    need(
        (1..=GROUPS_MAX).contains(&groups),
        "quorum.groups",
        rule,
        broken,
    );
    delayed_retry(&settings.quorum, broken);
}

/// The most that a delay grows with one return.
const RETRY_MULTIPLIER_MAX: f64 = 1000.0;

fn delayed_retry(quorum: &Quorum, broken: &mut Vec<Broken>) {
    let (min, max) = (quorum.delayed_retry_min, quorum.delayed_retry_max);
    need(
        min.as_ms() > 0,
        "quorum.delayed_retry_min",
        "it must be at least 1ms",
        broken,
    );
    need(
        max.as_ms() >= min.as_ms(),
        "quorum.delayed_retry_max",
        "it must not be less than quorum.delayed_retry_min",
        broken,
    );
    let multiplier = quorum.delayed_retry_multiplier.unwrap_or(1.0);
    need(
        (1.0..=RETRY_MULTIPLIER_MAX).contains(&multiplier),
        "quorum.delayed_retry_multiplier",
        format!("it must be from 1 to {RETRY_MULTIPLIER_MAX}"),
        broken,
    );
    need(
        quorum.delayed_retry_jitter <= 100,
        "quorum.delayed_retry_jitter",
        "it must be from 0 to 100 percent",
        broken,
    );
}

/// Numbers of connections and consumers carry their node's in fifteen bits.
const NODE_MAX: u64 = (1 << 15) - 1;

fn cluster(settings: &Settings, broken: &mut Vec<Broken>) {
    let cluster = &settings.cluster;
    if cluster.nodes.is_empty() {
        return;
    }
    let Some(members) = cluster.members() else {
        let rule = "write each node as NUMBER@HOST:PORT, such as 1@10.0.0.1:25672";
        return need(false, "cluster.nodes", rule, broken);
    };
    let mut numbers: Vec<u64> = members.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    need(
        numbers.len() == members.len() && numbers.last().is_some_and(|last| *last <= NODE_MAX),
        "cluster.nodes",
        format!("each node has a number of its own, from 1 to {NODE_MAX}"),
        broken,
    );
    need(
        numbers.contains(&cluster.node),
        "cluster.node",
        "it must be the number that this node has in cluster.nodes",
        broken,
    );
    need(
        !cluster.secret.reveal().is_empty(),
        "cluster.secret",
        "the nodes of a cluster need a secret, the same on each",
        broken,
    );
    need(
        settings.listeners.cluster != Listen::Off,
        "listeners.cluster",
        "the other nodes must be able to reach this one; by convention on 25672",
        broken,
    );
    need(
        (1..=9).contains(&cluster.group_size),
        "cluster.group_size",
        "it must be from 1 to 9",
        broken,
    );
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

fn log(settings: &Settings, broken: &mut Vec<Broken>) {
    let is_level = |word: &str| LEVELS.contains(&word);
    let is_rule = |rule: &str| match rule.split_once('=') {
        Some((target, level)) => !target.is_empty() && is_level(level),
        None => is_level(rule),
    };
    let holds = settings
        .log
        .level
        .split(',')
        .all(|rule| is_rule(rule.trim()));
    let rule = format!(
        "write one of {}, and exceptions after commas as in info,storage=debug",
        LEVELS.join(", ")
    );
    need(holds, "log.level", rule, broken);
}
