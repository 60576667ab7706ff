//! Every setting of a queue with its origin, defaults included: the answer to "why does this
//! queue have that limit".

use super::merge::{EffectiveSettings, SettingSource};
use crate::settings::{DelayedRetry, Origin, QueueSettings};
use crate::term::Term;

impl EffectiveSettings {
    /// One for each setting that a queue can have, in a fixed order, keyed by policy key; what
    /// nobody set is the default, and `Term::Null` is "no limit".
    pub fn every_setting(&self) -> Vec<SettingSource> {
        let values = values(&self.settings);
        let every = values.into_iter().map(|(key, value)| {
            // The last word on a key is the one that counts.
            let said = self.sources.iter().rev().find(|source| source.key == key);
            said.cloned().unwrap_or(SettingSource {
                key,
                value,
                origin: Origin::Default,
            })
        });
        every.collect()
    }
}

fn number(value: Option<impl Into<u64>>) -> Term {
    value.map_or(Term::Null, |value| {
        Term::Integer(i64::try_from(value.into()).unwrap_or(i64::MAX))
    })
}

fn text(value: Option<&str>) -> Term {
    value.map_or(Term::Null, Term::text)
}

fn values(settings: &QueueSettings) -> Vec<(&'static str, Term)> {
    let s = settings;
    let dead_letter_exchange = s.dead_letter_exchange.as_ref();
    let mut values = vec![
        ("message-ttl", number(s.message_ttl_ms)),
        ("expires", number(s.expires_ms)),
        ("expire-anywhere", Term::Bool(s.expire_anywhere)),
        ("max-length", number(s.max_length)),
        ("max-length-bytes", number(s.max_length_bytes)),
        ("overflow", Term::text(s.overflow.name())),
        (
            "dead-letter-exchange",
            text(dead_letter_exchange.map(|name| name.as_str())),
        ),
        (
            "dead-letter-routing-key",
            text(s.dead_letter_routing_key.as_deref()),
        ),
        (
            "dead-letter-strategy",
            Term::text(s.dead_letter_strategy.name()),
        ),
        ("max-priority", number(s.max_priority)),
        (
            "single-active-consumer",
            Term::Bool(s.single_active_consumer),
        ),
        ("delivery-limit", number(s.delivery_limit)),
        (
            "delivery-limit-counts",
            Term::text(s.delivery_limit_counts.name()),
        ),
        ("consumer-timeout", number(s.consumer_timeout_ms)),
        (
            "consumer-timeout-action",
            Term::text(s.consumer_timeout_action.name()),
        ),
        (
            "consumer-disconnected-timeout",
            number(Some(s.consumer_disconnected_timeout_ms)),
        ),
        ("poison-loop-returns", number(s.poison_loop_returns)),
        ("queue-leader-locator", Term::text(s.leader_locator.name())),
        ("quorum-initial-group-size", number(s.initial_group_size)),
        ("target-group-size", number(s.target_group_size)),
        ("capacity", number(s.capacity_bytes)),
        ("flow-resume-capacity", number(s.flow_resume_capacity_bytes)),
        ("capacity-messages", number(s.capacity_messages)),
        ("flow-resume-messages", number(s.flow_resume_messages)),
        ("hold-timeout", number(s.hold_timeout_ms)),
        ("memory-limit", number(s.memory_limit_bytes)),
        ("memory-high-water", number(s.memory_high_water_percent)),
    ];
    values.extend(retry_values(s.delayed_retry));
    values
}

fn retry_values(retry: Option<DelayedRetry>) -> [(&'static str, Term); 5] {
    let multiplier = retry.and_then(|retry| retry.multiplier_permille);
    [
        (
            "delayed-retry-type",
            Term::text(retry.map_or("disabled", |retry| retry.kind.name())),
        ),
        ("delayed-retry-min", number(retry.map(|retry| retry.min_ms))),
        ("delayed-retry-max", number(retry.map(|retry| retry.max_ms))),
        (
            "delayed-retry-multiplier",
            multiplier.map_or(Term::Null, |permille| {
                Term::Float(f64::from(permille) / 1000.0)
            }),
        ),
        (
            "delayed-retry-jitter",
            number(retry.map(|retry| retry.jitter_percent)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::QueueSettings;

    #[test]
    fn what_somebody_set_names_its_origin_and_the_rest_is_default() {
        let source = |value, origin| SettingSource {
            key: "max-length",
            value: Term::Integer(value),
            origin,
        };
        let effective = EffectiveSettings {
            settings: QueueSettings::default(),
            sources: vec![
                source(9, Origin::Argument),
                source(5, Origin::Policy("p".into())),
            ],
        };
        let every = effective.every_setting();
        let find = |key| every.iter().find(|setting| setting.key == key).unwrap();
        assert_eq!(*find("max-length"), source(5, Origin::Policy("p".into())));
        assert_eq!(find("overflow").origin, Origin::Default);
        assert_eq!(find("overflow").value, Term::text("drop-head"));
        assert_eq!(find("expires").value, Term::Null);
        let mut keys: Vec<_> = every.iter().map(|setting| setting.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), every.len());
    }
}
