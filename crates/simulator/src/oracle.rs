//! What must hold in every run: one history for all members, and nothing confirmed is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use parking_lot::Mutex;

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Two members applied different entries at one index.
    Diverged {
        /// The index.
        index: u64,
    },
    /// A confirmed proposal is missing on a member after all faults ended.
    Lost {
        /// The proposal.
        ticket: u64,
        /// Where the history has it, if any member applied it.
        index: Option<u64>,
        /// The members that lack it.
        nodes: Vec<u64>,
    },
    /// The faults ended and the cluster does not get on.
    Stuck {
        /// What was waited for.
        what: &'static str,
    },
    /// A node took an entry for one that it leads with, and had it from before its last crash.
    LedBefore {
        /// The index.
        index: u64,
    },
    /// Two members do not hold the same after all faults ended.
    Unequal {
        /// The member that differs from the first.
        node: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Diverged { index } => write!(f, "two histories at index {index}"),
            Self::Lost {
                ticket,
                index,
                nodes,
            } => write!(
                f,
                "confirmed proposal {ticket}, in the history at {index:?}, is lost on nodes {nodes:?}"
            ),
            Self::Stuck { what } => write!(f, "after the faults: {what}"),
            Self::LedBefore { index } => write!(
                f,
                "a node leads with the entry at index {index}, which it had before it crashed"
            ),
            Self::Unequal { node } => write!(f, "node {node} differs from the others"),
        }
    }
}

/// Sees every entry that any member applies, and every confirm.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    state: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    history: BTreeMap<u64, Bytes>,
    confirmed: BTreeSet<u64>,
    diverged: Option<u64>,
    led_before: Option<u64>,
}

impl Oracle {
    pub(crate) fn applied(&self, index: u64, payload: &Bytes) {
        let mut seen = self.state.lock();
        let known = seen.history.entry(index).or_insert_with(|| payload.clone());
        if known != payload {
            seen.diverged.get_or_insert(index);
        }
    }

    pub(crate) fn led_before(&self, index: u64) {
        self.state.lock().led_before.get_or_insert(index);
    }

    pub(crate) fn confirmed(&self, ticket: u64) {
        self.state.lock().confirmed.insert(ticket);
    }

    pub(crate) fn is_confirmed(&self, ticket: u64) -> bool {
        self.state.lock().confirmed.contains(&ticket)
    }

    pub(crate) fn confirmed_count(&self) -> usize {
        self.state.lock().confirmed.len()
    }

    pub(crate) fn last_index(&self) -> u64 {
        let seen = self.state.lock();
        seen.history.last_key_value().map_or(0, |(index, _)| *index)
    }

    pub(crate) fn divergence(&self) -> Result<(), Violation> {
        let seen = self.state.lock();
        match (seen.diverged, seen.led_before) {
            (Some(index), _) => Err(Violation::Diverged { index }),
            (None, Some(index)) => Err(Violation::LedBefore { index }),
            (None, None) => Ok(()),
        }
    }

    /// Compares what the members hold in the end.
    pub(crate) fn judge(&self, members: &[Held]) -> Result<(), Violation> {
        self.divergence()?;
        self.judge_confirmed(members)?;
        for (node, entries) in members {
            if members.first().is_some_and(|(_, first)| first != entries) {
                return Err(Violation::Unequal { node: *node });
            }
        }
        Ok(())
    }

    fn judge_confirmed(&self, members: &[Held]) -> Result<(), Violation> {
        let seen = self.state.lock();
        let tickets = |entries: &[(u64, Bytes)]| -> BTreeSet<u64> {
            entries.iter().filter_map(|(_, p)| ticket_of(p)).collect()
        };
        let held: Vec<_> = members
            .iter()
            .map(|(node, entries)| (*node, tickets(entries)))
            .collect();
        for ticket in &seen.confirmed {
            let lacking = held.iter().filter(|(_, held)| !held.contains(ticket));
            let nodes: Vec<u64> = lacking.map(|(node, _)| *node).collect();
            if !nodes.is_empty() {
                let mut history = seen.history.iter();
                let found = history.find(|(_, payload)| ticket_of(payload) == Some(*ticket));
                return Err(Violation::Lost {
                    ticket: *ticket,
                    index: found.map(|(index, _)| *index),
                    nodes,
                });
            }
        }
        Ok(())
    }
}

/// What one member holds: entries by their indexes.
type Held = (u64, Vec<(u64, Bytes)>);

/// The proposal that an entry is.
pub(crate) fn ticket_of(payload: &Bytes) -> Option<u64> {
    Some(u64::from_be_bytes(*payload.first_chunk::<8>()?))
}
