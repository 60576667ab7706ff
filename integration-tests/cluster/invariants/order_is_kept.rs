//! What one publisher sent to one queue comes in its order, as far as it comes for the first time and
//! was never given back.

use std::collections::{BTreeSet, HashMap};

use crate::history::{Event, Id, What};

pub(crate) fn judge(events: &[Event]) -> Vec<String> {
    // What comes again may come anywhere, and so may what was in hand when its leader died.
    let strays: BTreeSet<Id> = events
        .iter()
        .filter(|event| {
            matches!(
                event.what,
                What::Returned | What::Delivered { redelivered: true }
            )
        })
        .map(|event| event.id)
        .collect();
    let mut last: HashMap<(u32, u32), Id> = HashMap::new();
    let mut wrong = Vec::new();
    for event in events {
        if event.what != (What::Delivered { redelivered: false }) || strays.contains(&event.id) {
            continue;
        }
        let line = (event.id.queue, event.id.publisher);
        if let Some(before) = last.insert(line, event.id)
            && before.number >= event.id.number
        {
            wrong.push(format!("{:?} came behind {before:?}", event.id));
        }
    }
    wrong
}

#[test]
fn disorder_is_noticed() {
    let history = crate::history::History::default();
    let id = |number| Id {
        queue: 1,
        publisher: 1,
        number,
    };
    let fresh = What::Delivered { redelivered: false };
    for number in [1, 3, 2] {
        history.note(1, id(number), fresh);
    }
    assert_eq!(judge(&history.events()).len(), 1);
    history.note(1, id(2), What::Returned);
    assert!(judge(&history.events()).is_empty());
}
