//! Rules that a value's type cannot hold: ranges, and keys that depend on each other.

use serde_yaml::Value;

use crate::error::{Fault, Problem};
use crate::key_path::KeyPath;
use crate::keys::Keys;
use crate::layer::{self, Layer, last_word};
use crate::scalar::{ByteSize, Listen, Timeout};
use crate::sections::Settings;
use crate::yaml::Aim;

/// A rule that the settings break.
pub(crate) struct Broken {
    key: &'static str,
    rule: String,
}

/// Mechanisms that the broker can offer.
const MECHANISMS: [&str; 3] = ["ANONYMOUS", "AMQPLAIN", "PLAIN"];

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
        let path = KeyPath::dotted(self.key);
        let tree = serde_yaml::to_value(settings).unwrap_or_else(|_| keys.defaults().clone());
        let found = layer::plain(&path, path.value(&tree).unwrap_or(&Value::Null));
        Fault {
            origin: last_word(layers, &path).origin_of(&path, Aim::Value),
            key: Some(self.key.to_owned()),
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
    listeners(settings, &mut broken);
    auth(settings, &mut broken);
    storage(settings, &mut broken);
    limits(settings, &mut broken);
    quorum(settings, &mut broken);
    log(settings, &mut broken);
    broken
}

fn need(holds: bool, key: &'static str, rule: impl Into<String>, broken: &mut Vec<Broken>) {
    if !holds {
        broken.push(Broken {
            key,
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

fn listeners(settings: &Settings, broken: &mut Vec<Broken>) {
    let off_only = "this version does not serve it yet; leave it off";
    need(
        settings.listeners.amqps == Listen::Off,
        "listeners.amqps",
        off_only,
        broken,
    );
    need(
        settings.listeners.cluster == Listen::Off,
        "listeners.cluster",
        off_only,
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
