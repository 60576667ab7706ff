//! Which keys change while the broker runs.

use super::*;

/// A value that is not the default, for each key that can be set alone.
pub(crate) const SECOND_VALUES: &[(&str, &str)] = &[
    ("node.name", "other@here"),
    ("node.product", "Other"),
    ("node.data_dir", "elsewhere"),
    ("listeners.amqp", "1"),
    ("listeners.management", "1"),
    ("listeners.metrics", "1"),
    ("tls.certificate", "c.pem"),
    ("tls.private_key", "k.pem"),
    ("tls.certificates_by_name", "[a=b:c]"),
    ("tls.client_authorities", "ca.pem"),
    ("tls.minimum_version", "1.3"),
    ("tls.cipher_suites", "[TLS_AES_256_GCM_SHA384]"),
    ("tls.login_from", "common_name"),
    ("tls.login_san_type", "uri"),
    ("tls.login_san_index", "1"),
    ("auth.mechanisms", "[PLAIN]"),
    ("auth.loopback_users", "[]"),
    ("auth.anonymous_user", "other"),
    ("auth.anonymous_password", "other"),
    ("auth.failure_delay", "1s"),
    ("auth.default_user", "other"),
    ("auth.default_password", "other"),
    ("auth.default_vhost", "other"),
    ("definitions.path", "d.json"),
    ("definitions.skip_if_unchanged", "false"),
    ("policies.path", "p.yaml"),
    ("storage.journal_file_size", "32MiB"),
    ("storage.journal_cap", "512MiB"),
    ("storage.segment_size", "8MiB"),
    ("memory.high_watermark", "0.5"),
    ("memory.producer_percent", "50"),
    ("disk.free_limit", "1GB"),
    ("flow.hold_timeout", "1m"),
    ("flow.hold_notify_period", "7s"),
    ("flow.grace", "7s"),
    ("flow.park_memory", "1MiB"),
    ("flow.park_disk", "1MiB"),
    ("flow.park_memory_total", "16MiB"),
    ("flow.park_disk_total", "16MiB"),
    ("flow.channel_flow", "never"),
    ("flow.blocked_notice", "never"),
    ("flow.clients", "[{product: x, obeys_flow: true}]"),
    ("flow.users", "{batch: {blocked_notice: never}}"),
    ("flow.vhosts", "{bulk: {channel_flow: never}}"),
    ("limits.frame_max", "64KiB"),
    ("limits.channel_max", "7"),
    ("limits.heartbeat", "5s"),
    ("limits.max_message_size", "1MiB"),
    ("limits.max_connections", "7"),
    ("limits.handshake_timeout", "5s"),
    ("quorum.consumer_timeout", "5s"),
    ("quorum.consumer_timeout_action", "return"),
    ("quorum.delivery_limit", "7"),
    ("quorum.delivery_limit_counts", "failures"),
    ("quorum.dead_letter_strategy", "at-least-once"),
    ("quorum.delayed_retry_type", "all"),
    ("quorum.delayed_retry_min", "2s"),
    ("quorum.delayed_retry_max", "2m"),
    ("quorum.delayed_retry_multiplier", "2"),
    ("quorum.delayed_retry_jitter", "10"),
    ("quorum.expire_anywhere", "true"),
    ("quorum.poison_loop_returns", "7"),
    ("quorum.groups", "9"),
    ("log.level", "debug"),
    ("log.format", "json"),
    ("shutdown.drain_timeout", "5s"),
];

fn with(key: &str, value: &str) -> Settings {
    let sources = Sources {
        assignments: vec![settings::Assignment::Set(format!("{key}={value}"))],
        ..Sources::default()
    };
    let loaded = settings::load(&sources);
    loaded
        .unwrap_or_else(|error| panic!("{key}: {error}"))
        .settings
}

#[test]
fn what_is_live_is_taken_over_and_all_else_stays() {
    let old = Settings::default();
    let mut new = old.clone();
    new.log.level = "debug".to_owned();
    new.limits.channel_max = 7;
    new.node.product = "Other".to_owned();
    new.quorum.groups = 9;
    let live = live_only(&old, &new);
    assert_eq!(
        settings::differing_keys(&old, &live),
        ["limits.channel_max", "log.level"]
    );
}

#[test]
fn every_key_that_is_taken_over_is_called_live_and_no_other() {
    let old = Settings::default();
    for (key, value) in SECOND_VALUES {
        let new = with(key, value);
        assert_eq!(
            settings::differing_keys(&old, &new),
            [*key],
            "the value is the default"
        );
        let taken = live_only(&old, &new) != old;
        assert_eq!(taken, is_live(key), "{key}");
    }
}
