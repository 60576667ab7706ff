//! A group in the eyes of a node that is no member: it hears no heartbeats, so leaders show themselves.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::group::Shared;
use crate::group::NodeId;
use crate::links::Kind;
use crate::machine::SnapshotMachine;

/// How long a leader is believed to lead after it has shown itself.
const BELIEVED_FOR: Duration = Duration::from_secs(2);

/// What a leader shows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Shown {
    pub(super) term: u64,
    pub(super) members: BTreeSet<u64>,
}

/// What a node was shown last.
#[derive(Default)]
pub(super) struct Outside(Mutex<Option<Heard>>);

struct Heard {
    leader: NodeId,
    shown: Shown,
    at: Instant,
}

impl Outside {
    pub(super) fn hear(&self, leader: NodeId, shown: Shown) {
        let mut heard = self.0.lock();
        // One that was outvoted may not know it yet.
        if heard
            .as_ref()
            .is_none_or(|last| last.shown.term <= shown.term)
        {
            let at = Instant::now();
            *heard = Some(Heard { leader, shown, at });
        }
    }

    /// The leader that says lately, in this term or a later one, that this node is no member. One
    /// that was removed may not have got the entry that says so.
    pub(super) fn leader(&self, term: u64) -> Option<(NodeId, BTreeSet<u64>)> {
        let heard = self.0.lock();
        let believed = heard
            .as_ref()
            .filter(|heard| heard.at.elapsed() < BELIEVED_FOR && heard.shown.term >= term);
        believed.map(|heard| (heard.leader, heard.shown.members.clone()))
    }

    /// The members, as of the last time that anybody showed itself.
    pub(super) fn last_members(&self) -> BTreeSet<u64> {
        let heard = self.0.lock();
        heard
            .as_ref()
            .map_or_else(BTreeSet::new, |heard| heard.shown.members.clone())
    }
}

impl<M: SnapshotMachine> Shared<M> {
    /// Shows the leader to the nodes that are no members.
    pub(super) fn show_outside(&self) {
        let Some(term) = self.leading_term() else {
            return;
        };
        let members = self.members();
        let outside: Vec<NodeId> = self
            .links
            .other_nodes()
            .into_iter()
            .filter(|node| !members.contains(&node.0))
            .collect();
        if outside.is_empty() {
            return;
        }
        if let Ok(body) = postcard::to_stdvec(&Shown { term, members }) {
            for node in outside {
                // One that is away is shown the next one.
                let _ = self.links.send(node, Kind::Leading, self.stream, 0, &body);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(term: u64) -> Shown {
        let members = [1, 2, 3].into();
        Shown { term, members }
    }

    #[test]
    fn the_leader_of_the_latest_term_is_believed() {
        let outside = Outside::default();
        outside.hear(NodeId(1), shown(4));
        outside.hear(NodeId(2), shown(3));
        let (leader, members) = outside.leader(4).expect("it was shown");
        assert_eq!((leader, members.len()), (NodeId(1), 3));
    }

    #[test]
    fn a_leader_of_a_term_that_is_over_is_not_believed() {
        let outside = Outside::default();
        outside.hear(NodeId(1), shown(4));
        assert_eq!(outside.leader(5), None);
        assert_eq!(outside.last_members().len(), 3);
    }
}
