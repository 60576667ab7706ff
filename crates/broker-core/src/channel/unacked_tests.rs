//! Delivery tags against a plain list, and the tag rules of the protocol page.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Resolved, Unacked};
use crate::queue::EntryId;
use crate::refusal::Refusal;

fn settle(unacked: &mut Unacked<u8>, tag: u64, multiple: bool) -> Result<Vec<u64>, Refusal> {
    let mut resolved = Resolved::new();
    unacked.settle(tag, multiple, &mut resolved)?;
    Ok(resolved.items().iter().map(|item| item.tag.0).collect())
}

fn out(count: u64) -> Unacked<u8> {
    let mut unacked = Unacked::new();
    for entry in 1..=count {
        unacked.push((entry % 2) as u8, EntryId(entry), None);
    }
    unacked
}

#[test]
fn tags_count_from_one_and_a_delivery_without_ack_takes_one() {
    let mut unacked = Unacked::new();
    assert_eq!(unacked.push('q', EntryId(7), None).0, 1);
    assert_eq!(unacked.pass().0, 2);
    assert_eq!(unacked.push('q', EntryId(9), None).0, 3);
    let mut resolved = Resolved::new();
    let unknown = Err(Refusal::UnknownDeliveryTag { tag: 2 });
    assert_eq!(unacked.settle(2, false, &mut resolved), unknown);
    assert_eq!(unacked.settle(2, true, &mut resolved), unknown);
    assert_eq!(unacked.settle(3, true, &mut resolved), Ok(()));
    assert_eq!(resolved.items().len(), 2);
}

#[test]
fn tag_zero_is_all_with_multiple_and_unknown_without() {
    let mut unacked = out(3);
    assert_eq!(
        settle(&mut unacked, 0, false),
        Err(Refusal::UnknownDeliveryTag { tag: 0 })
    );
    assert_eq!(settle(&mut unacked, 0, true), Ok(vec![1, 2, 3]));
    assert_eq!(settle(&mut unacked, 0, true), Ok(vec![]));
}

#[test]
fn multiple_settles_up_to_the_tag_and_skips_what_is_settled() {
    let mut unacked = out(8);
    assert_eq!(settle(&mut unacked, 6, false), Ok(vec![6]));
    assert_eq!(settle(&mut unacked, 2, false), Ok(vec![2]));
    assert_eq!(settle(&mut unacked, 5, true), Ok(vec![1, 3, 4, 5]));
    assert_eq!(
        settle(&mut unacked, 6, true),
        Err(Refusal::UnknownDeliveryTag { tag: 6 })
    );
    assert_eq!(
        settle(&mut unacked, 9, true),
        Err(Refusal::UnknownDeliveryTag { tag: 9 })
    );
    assert_eq!(unacked.len(), 2);
}

#[test]
fn what_is_settled_comes_by_queue_in_order_of_tags() {
    let mut unacked = out(5);
    let mut resolved = Resolved::new();
    unacked.take_all(&mut resolved);
    let groups: Vec<(u8, Vec<u64>)> = resolved
        .by_queue()
        .map(|(queue, ids)| (queue, ids.iter().map(|id| id.0).collect()))
        .collect();
    assert_eq!(groups, [(0, vec![2, 4]), (1, vec![1, 3, 5])]);
}

#[test]
fn a_withdrawn_delivery_may_be_settled_late_and_means_nothing_to_its_queue() {
    let mut unacked = out(3);
    assert_eq!(unacked.withdraw(0, &[EntryId(2), EntryId(3)]), 1);
    let mut resolved = Resolved::new();
    assert_eq!(unacked.settle(2, false, &mut resolved), Ok(()));
    assert_eq!((resolved.items().len(), resolved.late()), (0, &[0][..]));
    assert_eq!(
        settle(&mut unacked, 2, false),
        Err(Refusal::UnknownDeliveryTag { tag: 2 })
    );
    assert_eq!(settle(&mut unacked, 3, true), Ok(vec![1, 3]));
}

#[test]
fn a_delivery_that_stays_out_keeps_nothing_but_itself() {
    let mut unacked = Unacked::new();
    let mut resolved = Resolved::new();
    unacked.push('q', EntryId(0), None);
    for entry in 1..200_000 {
        let tag = unacked.push('q', EntryId(entry), None);
        unacked.settle(tag.0, false, &mut resolved).expect("out");
        resolved.clear();
    }
    assert_eq!(unacked.len(), 1);
    assert!(unacked.capacity() <= 512, "{}", unacked.capacity());
}

#[test]
fn memory_is_given_back_after_a_burst() {
    let mut unacked = out(100_000);
    let mut resolved = Resolved::new();
    unacked.settle(99_990, true, &mut resolved).expect("out");
    assert_eq!(unacked.len(), 10);
    assert!(unacked.capacity() <= 512, "{}", unacked.capacity());
}

#[derive(Clone, Debug)]
enum Step {
    Push(u8),
    Pass,
    Settle { tag: u64, multiple: bool },
    Withdraw(u64),
    TakeAll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u8..3).prop_map(Step::Push),
        1 => Just(Step::Pass),
        8 => (0u64..150, prop::bool::weighted(0.2))
            .prop_map(|(tag, multiple)| Step::Settle { tag, multiple }),
        1 => (0u64..150).prop_map(Step::Withdraw),
        1 => Just(Step::TakeAll),
    ]
}

proptest! {
    #[test]
    fn tags_resolve_as_in_a_plain_list(steps in prop::collection::vec(step(), 1..300)) {
        let mut unacked = Unacked::new();
        // Naively: tag to queue, entry and whether it is withdrawn.
        let mut model: BTreeMap<u64, (u8, u64, bool)> = BTreeMap::new();
        let mut last_tag = 0;
        for step in steps {
            let mut resolved = Resolved::new();
            let mut expected = Vec::new();
            match step {
                Step::Push(queue) => {
                    last_tag += 1;
                    let entry = last_tag * 3;
                    prop_assert_eq!(unacked.push(queue, EntryId(entry), None).0, last_tag);
                    model.insert(last_tag, (queue, entry, false));
                }
                Step::Pass => {
                    last_tag += 1;
                    prop_assert_eq!(unacked.pass().0, last_tag);
                }
                Step::Settle { tag, multiple } => {
                    let all = multiple && tag == 0;
                    let known = all || model.contains_key(&tag);
                    let done = unacked.settle(tag, multiple, &mut resolved);
                    prop_assert_eq!(done.is_ok(), known);
                    if known {
                        let hit = |t: u64| if multiple { all || t <= tag } else { t == tag };
                        expected.extend(model.iter().filter(|(t, _)| hit(**t)).map(|(t, m)| (*t, *m)));
                        model.retain(|t, _| !hit(*t));
                    }
                }
                Step::Withdraw(tag) => {
                    if let Some((queue, entry, withdrawn)) = model.get_mut(&tag) {
                        unacked.withdraw(*queue, &[EntryId(*entry)]);
                        *withdrawn = true;
                    }
                }
                Step::TakeAll => {
                    unacked.take_all(&mut resolved);
                    expected.extend(std::mem::take(&mut model));
                }
            }
            let seen: Vec<_> =
                resolved.items().iter().map(|item| (item.tag.0, item.queue, item.entry.0)).collect();
            let out: Vec<_> = expected
                .iter()
                .filter(|(_, (_, _, withdrawn))| !withdrawn)
                .map(|(tag, (queue, entry, _))| (*tag, *queue, *entry))
                .collect();
            prop_assert_eq!(seen, out);
            prop_assert_eq!(unacked.len(), model.len());
        }
    }
}
