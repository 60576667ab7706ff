//! Whose turn it is: consumers that can be given a message, in turn within a priority, higher
//! priorities first.
//!
//! A consumer that is not open when its turn comes leaves the rotation; whoever opens it again
//! puts it back, at the end.

use std::collections::VecDeque;

use super::leases::Leases;

#[derive(Debug)]
struct Turns {
    priority: i64,
    line: VecDeque<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Rotation {
    /// From the highest priority; none is empty.
    turns: Vec<Turns>,
}

impl Rotation {
    /// Puts a lease at the end of its priority, if it is open and not there.
    pub(super) fn join(&mut self, at: u32, leases: &mut Leases) {
        let lease = leases.get_mut(at);
        if lease.queued || !lease.is_open() {
            return;
        }
        lease.queued = true;
        let priority = lease.priority;
        let index = self
            .turns
            .partition_point(|turns| turns.priority > priority);
        if self
            .turns
            .get(index)
            .is_none_or(|turns| turns.priority != priority)
        {
            self.turns.insert(
                index,
                Turns {
                    priority,
                    line: VecDeque::new(),
                },
            );
        }
        self.turns[index].line.push_back(at);
    }

    /// The lease whose turn it is. It stays first until `turn` or `leave`.
    pub(super) fn first(&mut self, leases: &mut Leases) -> Option<u32> {
        loop {
            let turns = self.turns.first_mut()?;
            let Some(at) = turns.line.front().copied() else {
                self.turns.remove(0);
                continue;
            };
            let lease = leases.get_mut(at);
            if lease.is_open() {
                return Some(at);
            }
            lease.queued = false;
            turns.line.pop_front();
        }
    }

    /// The first has had its turn: it goes to the end, or out when it has no credit left.
    #[inline]
    pub(super) fn turn(&mut self, has_credit: bool, leases: &mut Leases) {
        let Some(turns) = self.turns.first_mut() else {
            return;
        };
        if has_credit {
            if turns.line.len() > 1 {
                turns.line.rotate_left(1);
            }
        } else if let Some(at) = turns.line.pop_front() {
            leases.get_mut(at).queued = false;
        }
    }

    /// A lease that ends, wherever it stands.
    pub(super) fn leave(&mut self, at: u32, leases: &mut Leases) {
        let lease = leases.get_mut(at);
        if !lease.queued {
            return;
        }
        lease.queued = false;
        let priority = lease.priority;
        if let Some(turns) = self
            .turns
            .iter_mut()
            .find(|turns| turns.priority == priority)
        {
            turns.line.retain(|queued| *queued != at);
        }
        self.turns.retain(|turns| !turns.line.is_empty());
    }
}
