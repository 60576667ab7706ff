//! Shares, stability and the sources of the hash.

use std::collections::BTreeMap;

use amqp::Table;

use super::*;
use crate::metadata::QueueId;
use crate::router::NoMessage;

fn queue(number: u64) -> Target {
    Target::Queue(QueueId(number))
}

fn ring(weights: &[&str]) -> ConsistentHash {
    let mut ring = ConsistentHash::new(HashSource::RoutingKey);
    for (number, weight) in weights.iter().enumerate() {
        ring.bind(number as u64, weight, queue(number as u64));
    }
    ring
}

fn pick(ring: &ConsistentHash, key: u32) -> Target {
    ring.pick(format!("key-{key}").as_bytes(), &NoMessage)
        .unwrap()
}

#[test]
fn shares_follow_the_weights() {
    let ring = ring(&["1", "3"]);
    let mut counts: BTreeMap<Target, u32> = BTreeMap::new();
    for key in 0..4000 {
        *counts.entry(pick(&ring, key)).or_default() += 1;
    }
    let light = counts[&queue(0)];
    assert!((800..1200).contains(&light), "{counts:?}");
    assert_eq!(counts.len(), 2);
}

#[test]
fn a_new_destination_takes_keys_and_moves_no_other() {
    let before = ring(&["1"; 4]);
    let mut after = before.clone();
    after.bind(9, "1", queue(9));
    let moved: Vec<Target> = (0..4000)
        .filter(|key| pick(&before, *key) != pick(&after, *key))
        .map(|key| pick(&after, key))
        .collect();
    assert!(moved.iter().all(|target| *target == queue(9)));
    assert!((600..1000).contains(&moved.len()), "{}", moved.len());
}

#[test]
fn the_hash_stays_the_same_for_ever() {
    // A change of these numbers would send keys to other queues after an upgrade.
    assert_eq!(hash(b""), 0xf52a_15e9_a9b5_e89b);
    assert_eq!(hash(b"key"), 0x487e_b6f7_e0ea_7e7c);
    let ring = ring(&["1"; 10]);
    let picked: Vec<Target> = (0..8).map(|key| pick(&ring, key)).collect();
    assert_eq!(picked, [7, 1, 9, 1, 2, 7, 0, 0].map(queue));
}

#[test]
fn binding_again_with_another_weight_changes_nothing_until_the_first_goes() {
    let mut ring = ring(&["1", "1"]);
    ring.bind(7, "100", queue(0));
    assert_eq!(ring.buckets(), 2);
    ring.unbind(0);
    assert_eq!(ring.buckets(), 101);
    ring.unbind(7);
    assert_eq!(pick(&ring, 5), queue(1));
    ring.unbind(1);
    assert_eq!(ring.pick(b"k", &NoMessage), None);
}

#[test]
fn a_header_may_be_hashed_instead_of_the_key() {
    let mut ring = ConsistentHash::new(HashSource::Header("h".into()));
    for number in 0..10 {
        ring.bind(number, "1", queue(number));
    }
    let with = |value: Value| -> Table { [("h", value)].into_iter().collect() };
    let pick = |key: &str, headers: &Table| ring.pick(key.as_bytes(), headers);
    let headers = with(Value::from("v"));
    assert_eq!(pick("a", &headers), pick("b", &headers));
    assert_eq!(
        pick("a", &with(Value::I32(5))),
        pick("a", &with(Value::I64(5)))
    );
    assert_eq!(pick("a", &Table::new()), pick("b", &Table::new()));
    let spread: std::collections::BTreeSet<_> = (0..50)
        .map(|number| pick("a", &with(Value::I32(number))))
        .collect();
    assert!(spread.len() > 5);
}

#[test]
fn modulus_goes_by_the_sorted_destinations() {
    let mut one = ModulusHash::default();
    let mut other = ModulusHash::default();
    for number in 0..7u64 {
        one.bind(&format!("q{number}"), queue(number));
        other.bind(&format!("q{}", 6 - number), queue(6 - number));
    }
    let keys: Vec<String> = (0..100).map(|number| format!("k{number}")).collect();
    let spread: std::collections::BTreeSet<_> =
        keys.iter().map(|key| one.pick(key.as_bytes())).collect();
    assert_eq!(spread.len(), 7);
    for key in &keys {
        assert_eq!(one.pick(key.as_bytes()), other.pick(key.as_bytes()));
    }
    one.bind("q3", queue(3));
    one.unbind("q3", queue(3));
    assert_eq!(one.pick(b"k1"), other.pick(b"k1"));
    for number in 0..7u64 {
        one.unbind(&format!("q{number}"), queue(number));
    }
    assert_eq!(one.pick(b"k1"), None);
}
