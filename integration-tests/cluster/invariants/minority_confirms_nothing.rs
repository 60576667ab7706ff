//! A node that reaches no majority confirms nothing to its clients.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::history::{Event, What};

/// Confirms that were on their way when the node was cut off.
const UNDER_WAY: Duration = Duration::from_millis(500);

/// Judges the time in which `node` was alone.
pub(crate) fn judge(events: &[Event], node: u64, alone: &Range<Instant>) -> Vec<String> {
    let alone = alone.start + UNDER_WAY..alone.end;
    events
        .iter()
        .filter(|event| event.node == node && event.what == What::Confirmed)
        .filter(|event| alone.contains(&event.at))
        .map(|event| {
            format!(
                "{:?} was confirmed through node {node}, alone for {:?}",
                event.id,
                event.at - alone.start
            )
        })
        .collect()
}

#[test]
fn a_confirm_of_a_minority_is_noticed() {
    let history = crate::history::History::default();
    let id = crate::history::Id {
        queue: 1,
        publisher: 1,
        number: 1,
    };
    history.note(2, id, What::Confirmed);
    let events = history.events();
    let begun = events[0].at - Duration::from_secs(2);
    let alone = begun..events[0].at + Duration::from_secs(1);
    assert_eq!(judge(&events, 2, &alone).len(), 1);
    assert!(judge(&events, 1, &alone).is_empty());
}
