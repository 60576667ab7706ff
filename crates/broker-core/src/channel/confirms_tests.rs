//! Confirms against a plain list, and the shapes of frames that the protocol page names.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Confirm, ConfirmRun, Confirms, Verdict};

fn taken(confirms: &mut Confirms) -> Vec<(u64, bool, Confirm)> {
    let mut runs = Vec::new();
    confirms.take(&mut runs);
    runs.into_iter()
        .map(|run| (run.up_to, run.multiple, run.confirm))
        .collect()
}

#[test]
fn publishes_are_numbered_from_one_and_unroutable_ones_are_done_at_once() {
    let mut confirms = Confirms::new();
    assert_eq!(
        (
            confirms.publish(0),
            confirms.publish(1),
            confirms.publish(0)
        ),
        (1, 2, 3)
    );
    assert_eq!(
        taken(&mut confirms),
        [(1, false, Confirm::Ack), (3, false, Confirm::Ack)]
    );
    confirms.settled(2, Verdict::Stored);
    assert_eq!(taken(&mut confirms), [(2, false, Confirm::Ack)]);
    assert_eq!(confirms.open(), 0);
}

#[test]
fn neighbours_below_the_smallest_unconfirmed_number_are_acked_as_one() {
    let mut confirms = Confirms::new();
    for _ in 0..10 {
        confirms.publish(1);
    }
    confirms.settled_range(1..=5, Verdict::Stored);
    confirms.settled_range(7..=8, Verdict::Stored);
    let expected = [
        (5, true, Confirm::Ack),
        (7, false, Confirm::Ack),
        (8, false, Confirm::Ack),
    ];
    assert_eq!(taken(&mut confirms), expected);
    confirms.settled(6, Verdict::Stored);
    confirms.settled_range(9..=10, Verdict::Stored);
    assert_eq!(taken(&mut confirms), [(10, true, Confirm::Ack)]);
}

#[test]
fn one_rejecting_target_of_several_is_one_nack() {
    let mut confirms = Confirms::new();
    for _ in 0..3 {
        confirms.publish(2);
    }
    confirms.settled_range(1..=3, Verdict::Stored);
    assert_eq!(taken(&mut confirms), []);
    confirms.settled(1, Verdict::Stored);
    confirms.settled(2, Verdict::Rejected);
    confirms.settled(3, Verdict::Stored);
    let expected = [
        (1, false, Confirm::Ack),
        (2, false, Confirm::Nack),
        (3, false, Confirm::Ack),
    ];
    assert_eq!(taken(&mut confirms), expected);
}

#[test]
fn several_nacks_are_one_frame() {
    let mut confirms = Confirms::new();
    for _ in 0..6 {
        confirms.publish(1);
    }
    confirms.settled_range(1..=2, Verdict::Stored);
    confirms.settled_range(3..=5, Verdict::Rejected);
    confirms.settled(6, Verdict::Stored);
    let expected = [
        (2, true, Confirm::Ack),
        (5, true, Confirm::Nack),
        (6, false, Confirm::Ack),
    ];
    assert_eq!(taken(&mut confirms), expected);
}

#[test]
fn a_publish_that_stays_unconfirmed_keeps_nothing_but_itself() {
    let mut confirms = Confirms::new();
    confirms.publish(1);
    let mut runs = Vec::new();
    for _ in 0..100_000 {
        let number = confirms.publish(1);
        confirms.settled(number, Verdict::Stored);
        confirms.take(&mut runs);
    }
    assert_eq!(runs.len(), 100_000);
    assert_eq!((confirms.runs(), confirms.open()), (1, 1));
}

#[test]
fn settling_what_does_not_wait_changes_nothing() {
    let mut confirms = Confirms::new();
    confirms.publish(1);
    confirms.settled(1, Verdict::Stored);
    confirms.settled(1, Verdict::Rejected);
    confirms.settled_range(0..=99, Verdict::Rejected);
    assert_eq!(taken(&mut confirms), [(1, false, Confirm::Ack)]);
    assert_eq!(taken(&mut confirms), []);
}

#[derive(Clone, Debug)]
enum Step {
    Publish(u32),
    Settle { from: u64, len: u64, rejected: bool },
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u32..4).prop_map(Step::Publish),
        4 => (0u64..60, 1u64..20, any::<bool>())
            .prop_map(|(from, len, rejected)| Step::Settle { from, len, rejected }),
        1 => Just(Step::Take),
    ]
}

/// What a client makes of confirm frames.
fn receive(unconfirmed: &mut BTreeMap<u64, ()>, run: ConfirmRun) -> Vec<(u64, Confirm)> {
    let numbers: Vec<u64> = match run.multiple {
        true => unconfirmed
            .range(..=run.up_to)
            .map(|(number, ())| *number)
            .collect(),
        false => vec![run.up_to],
    };
    for number in &numbers {
        assert!(
            unconfirmed.remove(number).is_some(),
            "{number} is confirmed twice"
        );
    }
    numbers
        .into_iter()
        .map(|number| (number, run.confirm))
        .collect()
}

proptest! {
    #[test]
    fn every_publish_is_confirmed_once_with_the_right_verdict(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let mut confirms = Confirms::new();
        // Naively: number, targets that are left, whether one rejected.
        let mut model: BTreeMap<u64, (u32, bool)> = BTreeMap::new();
        let mut unconfirmed = BTreeMap::new();
        for step in steps {
            match step {
                Step::Publish(targets) => {
                    let number = confirms.publish(targets);
                    model.insert(number, (targets, false));
                    unconfirmed.insert(number, ());
                }
                Step::Settle { from, len, rejected } => {
                    let verdict = if rejected { Verdict::Rejected } else { Verdict::Stored };
                    confirms.settled_range(from..=from + len - 1, verdict);
                    for (_, (targets, any_rejected)) in model.range_mut(from..from + len) {
                        if *targets > 0 {
                            *targets -= 1;
                            *any_rejected |= rejected;
                        }
                    }
                }
                Step::Take => {
                    let mut runs = Vec::new();
                    confirms.take(&mut runs);
                    let mut told = BTreeMap::new();
                    for run in runs {
                        told.extend(receive(&mut unconfirmed, run));
                    }
                    let done: BTreeMap<u64, Confirm> = model
                        .iter()
                        .filter(|(_, (targets, _))| *targets == 0)
                        .map(|(number, (_, rejected))| {
                            (*number, if *rejected { Confirm::Nack } else { Confirm::Ack })
                        })
                        .collect();
                    prop_assert_eq!(&told, &done);
                    model.retain(|_, (targets, _)| *targets > 0);
                }
            }
            let waiting = model.iter().find(|(_, (targets, _))| *targets > 0);
            prop_assert_eq!(confirms.oldest_waiting(), waiting.map(|(number, _)| *number));
            prop_assert_eq!(confirms.open(), model.len() as u64);
        }
    }
}
