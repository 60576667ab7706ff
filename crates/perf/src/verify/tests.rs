//! Planted losses, duplicates and reorderings, and what the ledgers make of them.

use super::*;

fn sighting(queue: u32, producer: u16, sequence: u64) -> Sighting {
    Sighting {
        queue,
        producer,
        redelivered: false,
        sequence,
    }
}

fn whole(producer: u16) -> Share {
    Share {
        producer,
        offset: 0,
        stride: 1,
    }
}

fn published(count: u64) -> Published {
    Published {
        count,
        ..Published::default()
    }
}

/// One queue, one producer, these sequences.
fn findings_of(sequences: impl IntoIterator<Item = u64>, published: Published) -> Findings {
    let ledgers = Ledgers::new(&[vec![whole(0)]]);
    let sightings: Vec<Sighting> = sequences
        .into_iter()
        .map(|sequence| sighting(0, 0, sequence))
        .collect();
    ledgers.note(&sightings);
    ledgers.findings(&[published])
}

#[test]
fn a_complete_run_has_no_findings() {
    assert_eq!(findings_of(0..500, published(500)), Findings::default());
}

#[test]
fn a_planted_loss_is_found_and_named() {
    let findings = findings_of((0..500).filter(|n| *n != 77 && *n != 499), published(500));
    assert_eq!(findings.lost, 2);
    let named = vec![sighting(0, 0, 77), sighting(0, 0, 499)];
    assert_eq!(findings.lost_examples, named);
    assert_eq!(findings.duplicated, 0);
}

#[test]
fn a_planted_duplicate_is_found_wherever_it_comes() {
    assert_eq!(
        findings_of((0..90).chain([89]), published(90)).duplicated,
        1
    );
    assert_eq!(
        findings_of((0..90).chain([0, 5]), published(90)).duplicated,
        2
    );
}

#[test]
fn refused_and_returned_messages_are_not_missed() {
    let mut exempt = SequenceSet::default();
    exempt.insert(2);
    let published = Published { count: 4, exempt };
    assert_eq!(findings_of([0, 3], published).lost, 1);
}

#[test]
fn nothing_seen_means_everything_lost_with_few_examples() {
    let findings = findings_of([], published(1_000));
    assert_eq!(findings.lost, 1_000);
    assert_eq!(findings.lost_examples.len(), EXAMPLES_MAX);
}

#[test]
fn a_producer_that_serves_queues_in_turn_is_checked_queue_by_queue() {
    let share = |offset| Share {
        producer: 0,
        offset,
        stride: 3,
    };
    let ledgers = Ledgers::new(&[vec![share(0)], vec![share(1)], vec![share(2)]]);
    let fresh = ledgers.note(&[
        sighting(0, 0, 0),
        sighting(1, 0, 1),
        sighting(2, 0, 2),
        sighting(0, 0, 3),
    ]);
    assert_eq!(fresh, 4);
    let findings = ledgers.findings(&[published(5)]);
    assert_eq!(findings.lost_examples, [sighting(1, 0, 4)]);
}

#[test]
fn messages_in_a_queue_they_were_not_published_to_are_astray() {
    let share = |offset| Share {
        producer: 0,
        offset,
        stride: 2,
    };
    let ledgers = Ledgers::new(&[vec![share(0)], vec![share(1)]]);
    assert_eq!(ledgers.note(&[sighting(0, 0, 1), sighting(1, 9, 1)]), 0);
    assert_eq!(ledgers.findings(&[published(0)]).astray, 2);
}

#[test]
fn every_queue_of_a_fan_out_must_see_every_message() {
    let ledgers = Ledgers::new(&[vec![whole(0), whole(1)], vec![whole(0), whole(1)]]);
    ledgers.note(&[sighting(0, 0, 0), sighting(0, 1, 0), sighting(1, 1, 0)]);
    let findings = ledgers.findings(&[published(1), published(1)]);
    assert_eq!(findings.lost_examples, [sighting(1, 0, 0)]);
}

#[test]
fn a_planted_reordering_is_found_for_each_message_that_fell_back() {
    let reordered = |sequences: &[u64]| {
        let mut order = OrderCheck::default();
        for sequence in sequences {
            order.note(&sighting(0, 0, *sequence));
        }
        order.reordered()
    };
    assert_eq!(reordered(&[0, 1, 2, 5, 9]), 0);
    assert_eq!(reordered(&[0, 2, 1, 3]), 1);
    assert_eq!(reordered(&[5, 0, 1, 6]), 2);
}

#[test]
fn order_is_a_matter_of_one_producer_and_one_queue() {
    let mut order = OrderCheck::default();
    for (queue, producer, sequence) in [(0, 0, 9), (0, 1, 1), (1, 0, 1), (0, 0, 10)] {
        order.note(&sighting(queue, producer, sequence));
    }
    assert_eq!(order.reordered(), 0);
}
