//! No message comes again after its ack was committed. A client does not see the commit; but an ack
//! that was sent while the cluster was whole, and stayed so for a while, is.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::history::{History, Id, What};

/// How long a whole cluster may take to commit an ack.
const COMMITTED_AFTER: Duration = Duration::from_millis(1000);

pub(crate) fn judge(history: &History) -> Vec<String> {
    let mut settled: HashMap<Id, Instant> = HashMap::new();
    let mut wrong = Vec::new();
    for event in history.events() {
        match event.what {
            What::Acked if history.is_calm(event.at, COMMITTED_AFTER) => {
                settled.insert(event.id, event.at);
            }
            What::Delivered { .. } => {
                let acked = settled.get(&event.id);
                if let Some(acked) = acked.filter(|acked| event.at > **acked + COMMITTED_AFTER) {
                    wrong.push(format!(
                        "{:?} came again through node {}, {:?} after its ack",
                        event.id,
                        event.node,
                        event.at - *acked
                    ));
                }
            }
            _ => {}
        }
    }
    wrong
}

#[test]
fn a_message_that_comes_again_is_noticed() {
    let history = History::default();
    let id = Id {
        queue: 1,
        publisher: 1,
        number: 1,
    };
    let acked = Instant::now();
    history.note_at(acked, 1, id, What::Acked);
    let again = What::Delivered { redelivered: true };
    history.note_at(acked + COMMITTED_AFTER * 2, 1, id, again);
    assert_eq!(judge(&history).len(), 1);
}

#[test]
fn an_ack_amid_a_fault_may_be_lost() {
    let history = History::default();
    let id = Id {
        queue: 1,
        publisher: 1,
        number: 1,
    };
    history.fault_begins();
    let acked = Instant::now();
    history.note_at(acked, 1, id, What::Acked);
    let again = What::Delivered { redelivered: true };
    history.note_at(acked + COMMITTED_AFTER * 2, 1, id, again);
    assert_eq!(judge(&history), Vec::<String>::new());
}
