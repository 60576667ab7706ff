//! The rule of topic keys as a table, and the trie against the rule.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::metadata::QueueId;

fn queue(number: usize) -> Target {
    Target::Queue(QueueId(number as u64))
}

fn routed(trie: &TopicTrie, key: &str) -> BTreeSet<Target> {
    let mut targets = Targets::new();
    trie.route(key.as_bytes(), &mut targets);
    targets.into_iter().collect()
}

fn check(binding_key: &str, matching: &[&str], others: &[&str]) {
    let mut trie = TopicTrie::default();
    trie.bind(binding_key, queue(1));
    let verdict = |key: &str| {
        let by_rule = key_matches(binding_key.as_bytes(), key.as_bytes());
        assert_eq!(
            !routed(&trie, key).is_empty(),
            by_rule,
            "trie: {binding_key:?} {key:?}"
        );
        by_rule
    };
    for key in matching {
        assert!(verdict(key), "{binding_key:?} must match {key:?}");
    }
    for key in others {
        assert!(!verdict(key), "{binding_key:?} must not match {key:?}");
    }
}

#[test]
fn a_star_is_exactly_one_word() {
    check("*", &["a"], &["", "a.b"]);
    check("a.*", &["a.b", "a."], &["a", "a.b.c", "b.a"]);
    check("*.*", &["a.b", "."], &["a", "", ".."]);
    check("*.a", &["b.a", ".a"], &["a", "b.b"]);
    check("a.*.c", &["a.b.c", "a..c"], &["a.c", "a.b.b.c"]);
}

#[test]
fn a_hash_is_any_number_of_words() {
    check("#", &["", "a", "a.b", ".", "a..b"], &[]);
    check("a.#", &["a", "a.b.c", "a."], &["b", "ab", ""]);
    check("#.b", &["b", "a.b", ".b"], &["b.a", "", "ab"]);
    check("a.#.b", &["a.b", "a.x.y.b", "a..b"], &["a", "b", "a.b.c"]);
    check("#.#", &["", "a", "a.b.c"], &[]);
    check("#.a.#", &["a", "b.a", "a.b", "x.a.y.a.z"], &["", "b", "aa"]);
    check("*.#", &["a", "a.b", "."], &[""]);
    check("#.*", &["a", "a.b"], &[""]);
    check("#.*.a", &["b.a", "x.y.a"], &["a", ""]);
}

#[test]
fn the_empty_key_has_no_words_and_whole_words_only_are_wild() {
    check("", &[""], &["a", "."]);
    check("a*", &["a*"], &["ab", "a"]);
    check("a#b", &["a#b"], &["ab", "a.b"]);
    check(".", &["."], &["", "a"]);
    check("a.b", &["a.b"], &["a", "a.b.c", "A.b"]);
}

#[test]
fn wildcards_in_a_routing_key_are_plain_words() {
    check("a.b", &[], &["a.*", "#", "*.b"]);
    check("*.b", &["*.b", "#.b"], &["*"]);
}

#[test]
fn an_emptied_trie_keeps_no_nodes() {
    let mut trie = TopicTrie::default();
    for number in 0..1000 {
        trie.bind(&format!("a.{number}.#.b.*"), queue(number));
    }
    for number in 0..1000 {
        trie.unbind(&format!("a.{number}.#.b.*"), queue(number));
    }
    assert_eq!(trie.nodes.len(), 1);
    assert!(trie.free.is_empty());
}

#[test]
fn unbinding_leaves_the_other_bindings_of_a_path() {
    let mut trie = TopicTrie::default();
    trie.bind("a.b", queue(1));
    trie.bind("a.b.c", queue(2));
    trie.bind("a.#", queue(3));
    trie.bind("a.b", queue(4));
    trie.unbind("a.b", queue(1));
    assert_eq!(routed(&trie, "a.b"), [queue(3), queue(4)].into());
    trie.unbind("a.b", queue(4));
    assert_eq!(routed(&trie, "a.b.c"), [queue(2), queue(3)].into());
    trie.unbind("x.y", queue(1));
    trie.unbind("a.#", queue(3));
    assert_eq!(routed(&trie, "a.b.c"), [queue(2)].into());
}

#[test]
fn a_long_key_through_many_hashes_stays_cheap() {
    let mut trie = TopicTrie::default();
    trie.bind("#.a.#.b", queue(1));
    trie.bind("#.*.#.c", queue(2));
    let key = vec!["a"; 60_000].join(".");
    assert!(routed(&trie, &key).is_empty());
    assert_eq!(routed(&trie, &format!("{key}.b")), [queue(1)].into());
}

fn binding_key() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        3 => Just("a"), 3 => Just("b"), 1 => Just(""), 2 => Just("*"), 2 => Just("#"), 1 => Just("ab")
    ];
    prop::collection::vec(word, 0..6)
        .prop_map(|words| words.join("."))
        .prop_filter("as many hashes as a broker takes", |key| {
            check_key(key).is_ok()
        })
}

fn routing_key() -> impl Strategy<Value = String> {
    let word =
        prop_oneof![4 => Just("a"), 4 => Just("b"), 1 => Just(""), 1 => Just("*"), 1 => Just("c")];
    prop::collection::vec(word, 0..7).prop_map(|words| words.join("."))
}

proptest! {
    #[test]
    fn the_trie_agrees_with_the_rule(
        keys in prop::collection::vec(binding_key(), 0..30),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..15),
        asked in prop::collection::vec(routing_key(), 1..15),
    ) {
        let mut trie = TopicTrie::default();
        let mut bound: Vec<Option<&String>> = keys.iter().map(Some).collect();
        for (number, key) in keys.iter().enumerate() {
            trie.bind(key, queue(number));
        }
        for index in gone.iter().filter(|_| !keys.is_empty()) {
            let number = index.index(keys.len());
            if let Some(key) = bound[number].take() {
                trie.unbind(key, queue(number));
            }
        }
        for key in &asked {
            let expected: BTreeSet<Target> = bound
                .iter()
                .enumerate()
                .filter(|(_, bound)| {
                    bound.is_some_and(|bound| key_matches(bound.as_bytes(), key.as_bytes()))
                })
                .map(|(number, _)| queue(number))
                .collect();
            prop_assert_eq!(routed(&trie, key), expected, "key {:?}", key);
        }
    }
}
