//! Leaders spread over the nodes: after a node came back it leads nothing, and the others do its work.
//!
//! A node that leads at least two groups more than another member of one of them hands that one over;
//! one at a time, and only when all has been quiet for a while, because a group that changes hands
//! stands still for about a second.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{NodeId, ReplicaGroup};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Replication;

/// How often a node looks whether it leads too much, and how long nothing may have changed.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_secs(20);

/// A replica group in the eyes of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Led {
    pub(super) leader: Option<NodeId>,
    /// The members that can be reached.
    pub(super) online: Vec<NodeId>,
    pub(super) members: usize,
}

/// What was seen last, and when it became so.
#[derive(Default)]
pub(super) struct Balance(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    groups: Vec<Led>,
    since: Option<Instant>,
    looked: Option<Instant>,
}

/// The group that `me` should hand over, by its place, and to whom.
pub(super) fn next_move(me: NodeId, groups: &[Led]) -> Option<(usize, NodeId)> {
    // While a member is away, or nobody leads, there is nothing to even out.
    let whole = |group: &Led| group.leader.is_some() && group.online.len() == group.members;
    if !groups.iter().all(whole) {
        return None;
    }
    let mut led: BTreeMap<NodeId, usize> = BTreeMap::new();
    for group in groups {
        group.online.iter().for_each(|node| {
            led.entry(*node).or_default();
        });
        if let Some(leader) = group.leader {
            *led.entry(leader).or_default() += 1;
        }
    }
    let own = *led.get(&me)?;
    let mine = groups.iter().enumerate();
    let moves = mine
        .filter(|(_, group)| group.leader == Some(me))
        .flat_map(|(place, group)| group.online.iter().map(move |node| (place, *node)))
        .filter(|(_, node)| led.get(node).is_some_and(|other| other + 2 <= own));
    moves.min_by_key(|(_, node)| led.get(node).copied())
}

impl Replication {
    /// Hands one group over if that is due. Called by the ticker.
    pub(crate) fn tend_balance(&self) {
        let now = Instant::now();
        let mut seen = self.balance.0.lock();
        if seen.looked.is_some_and(|looked| now < looked + LOOK_EVERY) {
            return;
        }
        seen.looked = Some(now);
        let groups = self.seen_groups();
        if seen.groups != groups {
            seen.groups = groups;
            seen.since = Some(now);
            return;
        }
        if seen.since.is_some_and(|since| now >= since + QUIET) {
            self.hand_one_over(&seen.groups);
        }
    }

    /// Evens out the leaders at once, as far as this node leads too much.
    pub(crate) fn balance_now(&self) {
        let mut groups = self.seen_groups();
        while let Some((place, to)) = self.hand_one_over(&groups) {
            if let Some(group) = groups.get_mut(place) {
                group.leader = Some(to);
            }
        }
    }

    fn hand_one_over(&self, groups: &[Led]) -> Option<(usize, NodeId)> {
        let (place, to) = next_move(self.me(), groups)?;
        let group = self.groups().nth(place)?;
        tracing::info!(group = place + 1, to = to.0, "leadership is handed over");
        match group.transfer_leader(to) {
            Ok(()) => Some((place, to)),
            Err(error) => {
                tracing::warn!(group = place + 1, %error, "leadership stays");
                None
            }
        }
    }

    fn seen_groups(&self) -> Vec<Led> {
        self.groups()
            .map(|group| {
                let status = group.status();
                let online = status.members.iter().copied();
                Led {
                    leader: status.leader,
                    members: status.members.len(),
                    online: online
                        .filter(|node| *node == self.me() || self.links.is_up(*node))
                        .collect(),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(leader: u64) -> Led {
        Led {
            leader: Some(NodeId(leader)),
            online: [1, 2, 3].map(NodeId).into(),
            members: 3,
        }
    }

    #[test]
    fn a_node_that_leads_too_much_hands_over_to_the_one_that_leads_least() {
        let groups: Vec<Led> = [1, 1, 1, 2].map(led).into();
        assert_eq!(next_move(NodeId(1), &groups), Some((0, NodeId(3))));
        assert_eq!(next_move(NodeId(2), &groups), None);
    }

    #[test]
    fn leaders_that_are_even_stay() {
        let groups: Vec<Led> = [1, 1, 2, 3].map(led).into();
        assert_eq!(next_move(NodeId(1), &groups), None);
    }

    #[test]
    fn nothing_moves_while_a_member_is_away_or_nobody_leads() {
        let mut groups: Vec<Led> = [1, 1, 1].map(led).into();
        groups[0].online.pop();
        assert_eq!(next_move(NodeId(1), &groups), None);
        let mut groups: Vec<Led> = [1, 1, 1].map(led).into();
        groups[2].leader = None;
        assert_eq!(next_move(NodeId(1), &groups), None);
    }
}
