//! Once everything has drained, every message that was confirmed has been delivered.

use std::collections::BTreeSet;

use crate::history::{Event, Id, What};

pub(crate) fn judge(events: &[Event]) -> Vec<String> {
    let delivered: BTreeSet<Id> = events
        .iter()
        .filter(|event| matches!(event.what, What::Delivered { .. }))
        .map(|event| event.id)
        .collect();
    let published: BTreeSet<Id> = events
        .iter()
        .filter(|event| event.what == What::Published)
        .map(|event| event.id)
        .collect();
    let confirmed = events.iter().filter(|event| event.what == What::Confirmed);
    let lost = confirmed
        .filter(|event| !delivered.contains(&event.id))
        .map(|event| {
            format!(
                "{:?} was confirmed through node {} and is lost",
                event.id, event.node
            )
        });
    let invented = delivered
        .difference(&published)
        .map(|id| format!("{id:?} was delivered and never published"));
    lost.chain(invented).collect()
}

#[test]
fn a_lost_message_is_noticed() {
    let history = crate::history::History::default();
    let id = |number| Id {
        queue: 1,
        publisher: 1,
        number,
    };
    for number in [1, 2] {
        history.note(1, id(number), What::Published);
        history.note(1, id(number), What::Confirmed);
    }
    history.note(1, id(1), What::Delivered { redelivered: false });
    assert_eq!(judge(&history.events()).len(), 1);
    history.note(1, id(2), What::Delivered { redelivered: true });
    assert!(judge(&history.events()).is_empty());
    history.note(1, id(3), What::Delivered { redelivered: false });
    assert_eq!(judge(&history.events()).len(), 1);
}
