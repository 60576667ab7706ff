//! The oracle of the crash test: what may, must and must not be in a queue after a crash, from what
//! its publishers and consumers saw before. Knows message ids and promises, no sockets.

use std::collections::{BTreeMap, BTreeSet};

/// A message: who published it, and its number there, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) publisher: u32,
    pub(super) number: u64,
}

/// What is known of one message.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    confirmed: bool,
    /// An ack or a discard was sent; nobody knows whether it was kept.
    ack_sent: bool,
    /// It was handed out at least once.
    delivered: bool,
    /// A drain after a crash did not find it: it must never come again.
    gone: bool,
    /// Transient: a crash ends it.
    transient: bool,
}

/// What one client saw between two crashes.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) published: Vec<(Id, bool)>,
    pub(super) confirmed: Vec<Id>,
    pub(super) delivered: Vec<(Id, bool)>,
    pub(super) acked: Vec<Id>,
    pub(super) requeued: Vec<Id>,
}

/// A message found by the drain after a restart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) id: Id,
    pub(super) redelivered: bool,
}

/// All that is known of one queue.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    records: BTreeMap<Id, Record>,
}

impl Oracle {
    /// Takes in what happened between two crashes; tells what was wrong already then.
    pub(super) fn learn(&mut self, seen: &[Seen]) -> Vec<String> {
        let mut wrong = Vec::new();
        for (id, transient) in seen.iter().flat_map(|seen| &seen.published) {
            let record = Record {
                transient: *transient,
                ..Record::default()
            };
            self.records.insert(*id, record);
        }
        let mut hand_outs: BTreeMap<Id, Vec<bool>> = BTreeMap::new();
        let mut returns: BTreeMap<Id, usize> = BTreeMap::new();
        for seen in seen {
            for id in &seen.requeued {
                *returns.entry(*id).or_default() += 1;
            }
            for (id, redelivered) in &seen.delivered {
                hand_outs.entry(*id).or_default().push(*redelivered);
            }
        }
        for (id, flags) in hand_outs {
            let Some(record) = self.records.get_mut(&id) else {
                wrong.push(format!("{id:?} was delivered and never published"));
                continue;
            };
            let times = 1 + returns.get(&id).copied().unwrap_or_default();
            if flags.len() > times {
                wrong.push(format!(
                    "{id:?} was delivered {} times for {times}",
                    flags.len()
                ));
            }
            let fresh = flags.iter().filter(|redelivered| !**redelivered).count();
            if fresh > 1 || (record.delivered && record.ack_sent && fresh > 0) {
                wrong.push(format!(
                    "{id:?} was delivered as if for the first time, again"
                ));
            }
            if record.gone {
                wrong.push(format!("{id:?} was gone and was delivered"));
            }
            record.delivered = true;
        }
        for id in seen.iter().flat_map(|seen| &seen.confirmed) {
            if let Some(record) = self.records.get_mut(id) {
                record.confirmed = true;
            }
        }
        for id in seen.iter().flat_map(|seen| &seen.acked) {
            if let Some(record) = self.records.get_mut(id) {
                record.ack_sent = true;
            }
        }
        wrong
    }

    /// Compares the queue after a crash, in its order, with what may, must and must not be there;
    /// `transient_kept` for a queue that keeps every message.
    pub(super) fn judge(&mut self, found: &[Found], transient_kept: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut there = BTreeSet::new();
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        for Found { id, redelivered } in found {
            if !there.insert(*id) {
                wrong.push(format!("{id:?} is there twice"));
            }
            let Some(record) = self.records.get(id) else {
                wrong.push(format!("{id:?} was never published"));
                continue;
            };
            if record.gone {
                wrong.push(format!("{id:?} was gone and is back"));
            }
            if record.transient && !transient_kept {
                wrong.push(format!("{id:?} is transient and is still there"));
            }
            if record.ack_sent && !redelivered {
                wrong.push(format!(
                    "{id:?} was acked and is back without being redelivered"
                ));
            }
            if !record.delivered {
                let before = last.insert(id.publisher, id.number);
                if before.is_some_and(|before| before > id.number) {
                    wrong.push(format!("{id:?} comes behind {before:?} of its publisher"));
                }
            }
        }
        for (id, record) in &mut self.records {
            if there.contains(id) {
                // Whatever was confirmed or not, from here on it is known to be kept.
                record.confirmed = true;
                record.ack_sent = false;
                continue;
            }
            let must_be = record.confirmed && !record.ack_sent && !record.gone;
            if must_be && (transient_kept || !record.transient) {
                wrong.push(format!("{id:?} was confirmed and never acked, and is lost"));
            }
            record.gone = true;
        }
        wrong
    }

    /// Messages published, and confirmed, so far.
    pub(super) fn totals(&self) -> (usize, usize) {
        let confirmed = self
            .records
            .values()
            .filter(|record| record.confirmed)
            .count();
        (self.records.len(), confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Id = Id {
        publisher: 1,
        number: 0,
    };
    const TWO: Id = Id {
        publisher: 1,
        number: 1,
    };

    fn oracle(confirmed: &[Id], acked: &[Id]) -> Oracle {
        let mut oracle = Oracle::default();
        let seen = Seen {
            published: vec![(ONE, false), (TWO, false)],
            confirmed: confirmed.to_vec(),
            acked: acked.to_vec(),
            delivered: acked.iter().map(|id| (*id, false)).collect(),
            ..Seen::default()
        };
        assert_eq!(oracle.learn(&[seen]), [""; 0]);
        oracle
    }

    fn found(id: Id, redelivered: bool) -> Found {
        Found { id, redelivered }
    }

    #[test]
    fn a_lost_confirmed_message_is_noticed() {
        let wrong = oracle(&[ONE, TWO], &[]).judge(&[found(ONE, false)], false);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
    }

    #[test]
    fn an_unconfirmed_message_may_be_lost_or_kept() {
        assert_eq!(
            oracle(&[ONE], &[]).judge(&[found(ONE, false)], false),
            [""; 0]
        );
        let both = [found(ONE, false), found(TWO, false)];
        assert_eq!(oracle(&[ONE], &[]).judge(&both, false), [""; 0]);
    }

    #[test]
    fn an_acked_message_may_come_back_as_redelivered_only() {
        let come_back = |redelivered| [found(ONE, redelivered), found(TWO, false)];
        assert_eq!(
            oracle(&[ONE, TWO], &[ONE]).judge(&come_back(true), false),
            [""; 0]
        );
        assert_eq!(
            oracle(&[ONE, TWO], &[ONE])
                .judge(&come_back(false), false)
                .len(),
            1
        );
    }

    #[test]
    fn doubles_disorder_and_inventions_are_noticed() {
        let twice = [found(ONE, false), found(ONE, false), found(TWO, false)];
        assert_eq!(oracle(&[ONE, TWO], &[]).judge(&twice, false).len(), 1);
        let turned = [found(TWO, false), found(ONE, false)];
        assert_eq!(oracle(&[ONE, TWO], &[]).judge(&turned, false).len(), 1);
        let invented = [found(
            Id {
                publisher: 9,
                number: 0,
            },
            false,
        )];
        assert_eq!(oracle(&[], &[]).judge(&invented, false).len(), 1);
    }

    #[test]
    fn a_message_that_was_gone_must_not_come_back() {
        let mut oracle = oracle(&[ONE, TWO], &[ONE]);
        assert_eq!(oracle.judge(&[found(TWO, false)], false), [""; 0]);
        let back = [found(ONE, true), found(TWO, false)];
        assert_eq!(oracle.judge(&back, false).len(), 1);
    }
}
