//! Where a topic exchange sends a message: words, `*` and `#`.

use std::collections::BTreeSet;

use integration_tests::request::queue_bind;
use integration_tests::{Close, Table, Trial, conformance};

use super::{exchange, queue, send};

/// Which of `routing_keys` come to a queue bound by `binding_key`.
#[track_caller]
fn check(trial: &Trial, binding_key: &str, routing_keys: &[&str], wanted: &[&str]) {
    let (channel, exchange) = exchange(trial, "topic");
    let queue = queue(trial, &channel, "topic");
    channel.bind(&queue, &exchange, binding_key);
    routing_keys
        .iter()
        .for_each(|key| send(&channel, &exchange, key));
    assert_eq!(
        channel.take_all(&queue),
        wanted,
        "binding key {binding_key:?}"
    );
}

/// Keys with no word, with empty words, and with one to four.
const KEYS: &[&str] = &[
    "", "a", "b", "a.", ".", "a.b", "b.a", "a.x.b", "a.b.c", "a.x.y.b",
];

// amqp 3.1.3.3
#[test]
fn a_star_stands_for_one_word() {
    conformance(|trial| check(trial, "*", KEYS, &["a", "b"]));
}

// amqp 3.1.3.3
#[test]
fn two_stars_stand_for_two_words_even_empty_ones() {
    conformance(|trial| check(trial, "*.*", KEYS, &["a.", ".", "a.b", "b.a"]));
}

// amqp 3.1.3.3
#[test]
fn a_hash_stands_for_any_number_of_words() {
    conformance(|trial| check(trial, "#", KEYS, KEYS));
}

// amqp 3.1.3.3
#[test]
fn two_hashes_stand_for_the_same_as_one() {
    conformance(|trial| check(trial, "#.#", KEYS, KEYS));
}

// amqp 3.1.3.3
#[test]
fn two_hashes_before_a_word_stand_for_any_number_of_words() {
    conformance(|trial| check(trial, "#.#.b", KEYS, &["b", "a.b", "a.x.b", "a.x.y.b"]));
}

// amqp 3.1.3.3
#[test]
fn two_hashes_behind_a_word_stand_for_any_number_of_words() {
    conformance(|trial| {
        check(
            trial,
            "a.#.#",
            KEYS,
            &["a", "a.", "a.b", "a.x.b", "a.b.c", "a.x.y.b"],
        )
    });
}

// amqp 3.1.3.3
#[test]
fn a_word_between_two_hashes_may_stand_anywhere() {
    conformance(|trial| {
        check(
            trial,
            "#.a.#",
            KEYS,
            &["a", "a.", "a.b", "b.a", "a.x.b", "a.b.c", "a.x.y.b"],
        )
    });
}

// amqp 3.1.3.3
#[test]
fn words_before_a_hash_must_be_there() {
    conformance(|trial| {
        check(
            trial,
            "a.#",
            KEYS,
            &["a", "a.", "a.b", "a.x.b", "a.b.c", "a.x.y.b"],
        )
    });
}

// amqp 3.1.3.3
#[test]
fn words_behind_a_hash_must_be_there() {
    conformance(|trial| check(trial, "#.b", KEYS, &["b", "a.b", "a.x.b", "a.x.y.b"]));
}

// amqp 3.1.3.3
#[test]
fn a_hash_in_the_middle_stands_for_none_or_more() {
    conformance(|trial| check(trial, "a.#.b", KEYS, &["a.b", "a.x.b", "a.x.y.b"]));
}

// amqp 3.1.3.3
#[test]
fn a_star_and_a_hash_stand_for_at_least_one_word() {
    let wanted: Vec<&str> = KEYS.iter().copied().filter(|key| !key.is_empty()).collect();
    conformance(|trial| check(trial, "*.#", KEYS, &wanted));
}

// rabbitmq: the empty key has no words.
#[test]
fn the_empty_binding_key_matches_the_empty_key_only() {
    conformance(|trial| check(trial, "", KEYS, &[""]));
}

// amqp 3.1.3.3: only whole words are wildcards.
#[test]
fn a_star_inside_a_word_is_a_letter() {
    conformance(|trial| check(trial, "a*.b", &["a*.b", "ax.b", "a.b"], &["a*.b"]));
}

// amqp 3.1.3.3
#[test]
fn keys_without_wildcards_are_compared_whole() {
    conformance(|trial| check(trial, "a.b", KEYS, &["a.b"]));
}

// rabbitmq: at most two hashes in a binding key
#[test]
fn more_than_two_hashes_close_the_channel_with_406() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "topic");
        let queue = queue(trial, &channel, "hashes");
        let bind = queue_bind(&queue, &exchange, "#.a.#.b.#", &Table::default());
        let text = "PRECONDITION_FAILED - Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, at \
                    most 2 are allowed";
        assert_eq!(
            channel.refused(&bind),
            Close::channel(406, text, "queue.bind")
        );
    });
}

// amqp 3.1.3.3: a binding that is taken away matches no more, others stay.
#[test]
fn taking_one_binding_away_leaves_the_others() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "topic");
        let queue = queue(trial, &channel, "left");
        for binding_key in ["a.*", "a.#", "*.b"] {
            channel.bind(&queue, &exchange, binding_key);
        }
        channel.unbind(&queue, &exchange, "a.#");
        ["a", "a.x", "x.b"]
            .iter()
            .for_each(|key| send(&channel, &exchange, key));
        assert_eq!(channel.take_all(&queue), ["a.x", "x.b"]);
    });
}

// amqp 3.1.3.3: many patterns at once, against a plain reading of the rule
#[test]
fn many_patterns_agree_with_the_rule() {
    conformance(|trial| many_patterns_agree(trial, 1));
}

// amqp 3.1.3.3: the same with neighbouring wildcards of all kinds
#[test]
fn many_patterns_with_two_hashes_agree_with_the_rule() {
    conformance(|trial| many_patterns_agree(trial, 2));
}

/// Binds a queue under every pattern of three words with at most `hashes` hashes, all at once.
#[track_caller]
fn many_patterns_agree(trial: &Trial, hashes: usize) {
    let words = ["a", "b", "*", "#"];
    let mut patterns: BTreeSet<String> = BTreeSet::new();
    for one in words {
        for two in words {
            patterns.extend(words.map(|three| format!("{one}.{two}.{three}")));
        }
    }
    patterns.retain(|pattern| pattern.matches('#').count() <= hashes);
    let (channel, exchange) = exchange(trial, "topic");
    let bound: Vec<(String, &String)> = patterns
        .iter()
        .map(|pattern| (queue(trial, &channel, "pattern"), pattern))
        .collect();
    bound
        .iter()
        .for_each(|(queue, pattern)| channel.bind(queue, &exchange, pattern));
    let keys = ["a", "a.b", "b.a", "a.b.a", "b.b.b", "a.c.b", "a.b.a.b", "c"];
    keys.iter().for_each(|key| send(&channel, &exchange, key));
    for (queue, pattern) in &bound {
        let pattern_words: Vec<&str> = pattern.split('.').collect();
        let fits = |key: &&&str| fits(&pattern_words, &key.split('.').collect::<Vec<_>>());
        let wanted: Vec<&str> = keys.iter().filter(fits).copied().collect();
        assert_eq!(channel.take_all(queue), wanted, "binding key {pattern:?}");
    }
}

/// The rule of topics, read word by word.
fn fits(pattern: &[&str], key: &[&str]) -> bool {
    match (pattern.split_first(), key.split_first()) {
        (None, None) => true,
        (Some((&"#", rest)), _) => {
            (0..=key.len()).any(|skipped| fits(rest, key.get(skipped..).unwrap_or_default()))
        }
        (Some((&"*", pattern)), Some((_, key))) => fits(pattern, key),
        (Some((word, pattern)), Some((came, key))) => word == came && fits(pattern, key),
        _ => false,
    }
}
