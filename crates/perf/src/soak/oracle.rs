//! Accounts for every message of a soak: confirmed or not, kept or not, surely acknowledged or
//! not; and says what a broker may never do. Knows no sockets.
//!
//! | the broker may | it may not |
//! |---|---|
//! | deliver again, marked as redelivered, what was not surely acknowledged | deliver again without the mark |
//! | deliver or lose what it did not confirm | lose what it confirmed |
//! | | deliver again what was surely acknowledged: the channel was closed in peace after the ack |
//! | | deliver what was never published |

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::roles::publisher::PublishRecord;
use crate::verify::{Sighting, Witness};

const CONFIRMED: u8 = 1;
const KEPT: u8 = 2;
const SETTLED: u8 = 4;

/// Messages of one producer that are accounted for; a soak ends before it publishes more.
pub(crate) const MESSAGES_PER_PRODUCER_MAX: u64 = 100_000_000;
const EXAMPLES_MAX: usize = 8;

/// One producer's messages.
#[derive(Debug, Default)]
struct Account {
    /// What is known of each message, by sequence.
    known: Vec<u8>,
    /// Sequences below this were published.
    published: u64,
}

#[derive(Debug, Default)]
struct Violations {
    settled_again: u64,
    unmarked_again: u64,
    examples: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Oracle {
    accounts: Vec<Mutex<Account>>,
    violations: Mutex<Violations>,
}

/// What the oracle says at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Judgement {
    /// Confirmed and never seen.
    pub(crate) lost: u64,
    /// Surely acknowledged and delivered again.
    pub(crate) settled_again: u64,
    /// Delivered again without the mark.
    pub(crate) unmarked_again: u64,
    /// Delivered though never published.
    pub(crate) invented: u64,
    /// The first of them, with what was wrong.
    pub(crate) examples: Vec<String>,
}

impl Judgement {
    pub(crate) fn is_clean(&self) -> bool {
        self.lost + self.settled_again + self.unmarked_again + self.invented == 0
    }
}

impl Oracle {
    pub(crate) fn new(producers: usize) -> Self {
        Self {
            accounts: (0..producers).map(|_| Mutex::default()).collect(),
            violations: Mutex::default(),
        }
    }

    /// A producer stopped: what it published, and what the broker said of it.
    pub(crate) fn published(&self, record: &PublishRecord) {
        let Some(mut account) = self.account(record.producer) else {
            return;
        };
        let end = record.first_sequence + record.published.count;
        account.published = account.published.max(end);
        for sequence in record.first_sequence..end {
            if !record.published.exempt.contains(sequence) {
                *account.known(sequence) |= CONFIRMED;
            }
        }
    }

    /// How many confirmed messages nobody has kept yet.
    pub(crate) fn missing(&self) -> u64 {
        self.count(|known| known & (CONFIRMED | KEPT) == CONFIRMED)
    }

    pub(crate) fn judge(&self) -> Judgement {
        let violations = lock(&self.violations);
        let mut judgement = Judgement {
            lost: self.missing(),
            settled_again: violations.settled_again,
            unmarked_again: violations.unmarked_again,
            invented: 0,
            examples: violations.examples.clone(),
        };
        for producer in 0..self.accounts.len() as u16 {
            let Some(account) = self.account(producer) else {
                continue;
            };
            for (sequence, known) in (0_u64..).zip(&account.known) {
                let wrong = if known & (CONFIRMED | KEPT) == CONFIRMED {
                    "lost"
                } else if known & KEPT != 0 && sequence >= account.published {
                    judgement.invented += 1;
                    "invented"
                } else {
                    continue;
                };
                if judgement.examples.len() < EXAMPLES_MAX {
                    judgement
                        .examples
                        .push(format!("{wrong} {producer}/{sequence}"));
                }
            }
        }
        judgement
    }

    fn count(&self, wanted: impl Fn(u8) -> bool) -> u64 {
        let of_account = |account: &Mutex<Account>| {
            let account = lock(account);
            account.known.iter().filter(|known| wanted(**known)).count() as u64
        };
        self.accounts.iter().map(of_account).sum()
    }

    fn account(&self, producer: u16) -> Option<MutexGuard<'_, Account>> {
        self.accounts.get(usize::from(producer)).map(lock)
    }
}

impl Account {
    fn known(&mut self, sequence: u64) -> &mut u8 {
        let place = sequence as usize;
        if place >= self.known.len() {
            self.known.resize(place + 1, 0);
        }
        &mut self.known[place]
    }
}

impl Witness for Oracle {
    fn note(&self, kept: &[Sighting]) -> u64 {
        let mut first = 0;
        for sighting in kept {
            // An absurd number can only be a damaged body, which is counted as such.
            if sighting.sequence >= MESSAGES_PER_PRODUCER_MAX {
                continue;
            }
            let Some(mut account) = self.account(sighting.producer) else {
                continue;
            };
            let known = account.known(sighting.sequence);
            let before = *known;
            *known |= KEPT;
            drop(account);
            first += u64::from(before & KEPT == 0);
            self.check_again(sighting, before);
        }
        first
    }

    fn wants_certainty(&self) -> bool {
        true
    }

    fn settled(&self, kept: &[Sighting]) {
        for sighting in kept {
            if sighting.sequence < MESSAGES_PER_PRODUCER_MAX
                && let Some(mut account) = self.account(sighting.producer)
            {
                *account.known(sighting.sequence) |= SETTLED;
            }
        }
    }
}

impl Oracle {
    fn check_again(&self, sighting: &Sighting, before: u8) {
        let wrong = if before & SETTLED != 0 {
            "acknowledged and delivered again"
        } else if before & KEPT != 0 && !sighting.redelivered {
            "delivered again without the mark"
        } else {
            return;
        };
        let mut violations = lock(&self.violations);
        if before & SETTLED != 0 {
            violations.settled_again += 1;
        } else {
            violations.unmarked_again += 1;
        }
        if violations.examples.len() < EXAMPLES_MAX {
            let (producer, sequence) = (sighting.producer, sighting.sequence);
            let example = format!("{wrong} {producer}/{sequence}");
            violations.examples.push(example);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{Published, SequenceSet};

    fn record(first_sequence: u64, count: u64, exempt: &[u64]) -> PublishRecord {
        let mut set = SequenceSet::default();
        for sequence in exempt {
            set.insert(*sequence);
        }
        PublishRecord {
            producer: 0,
            first_sequence,
            published: Published { count, exempt: set },
            unanswered: exempt.len() as u64,
        }
    }

    fn sighting(sequence: u64, redelivered: bool) -> Sighting {
        Sighting {
            queue: 0,
            producer: 0,
            redelivered,
            sequence,
        }
    }

    #[test]
    fn everything_confirmed_and_kept_is_clean() {
        let oracle = Oracle::new(1);
        oracle.published(&record(0, 2, &[]));
        oracle.published(&record(2, 2, &[3]));
        assert_eq!(oracle.missing(), 3);
        let kept: Vec<Sighting> = (0..3).map(|n| sighting(n, false)).collect();
        assert_eq!(oracle.note(&kept), 3);
        assert_eq!(oracle.judge(), Judgement::default());
        assert!(oracle.judge().is_clean());
    }

    #[test]
    fn a_confirmed_message_that_never_came_is_lost() {
        let oracle = Oracle::new(1);
        oracle.published(&record(0, 3, &[2]));
        oracle.note(&[sighting(0, false)]);
        let judgement = oracle.judge();
        assert_eq!((judgement.lost, judgement.is_clean()), (1, false));
        assert_eq!(judgement.examples, ["lost 0/1"]);
    }

    #[test]
    fn a_marked_redelivery_is_fine_until_the_ack_was_certain() {
        let oracle = Oracle::new(1);
        oracle.published(&record(0, 1, &[]));
        oracle.note(&[sighting(0, false)]);
        oracle.note(&[sighting(0, true)]);
        assert!(oracle.judge().is_clean());
        oracle.settled(&[sighting(0, true)]);
        oracle.note(&[sighting(0, true)]);
        assert_eq!(oracle.judge().settled_again, 1);
    }

    #[test]
    fn a_redelivery_without_its_mark_is_a_violation() {
        let oracle = Oracle::new(1);
        oracle.published(&record(0, 1, &[]));
        oracle.note(&[sighting(0, false)]);
        oracle.note(&[sighting(0, false)]);
        assert_eq!(oracle.judge().unmarked_again, 1);
    }

    #[test]
    fn what_was_never_published_is_invented() {
        let oracle = Oracle::new(1);
        oracle.published(&record(0, 1, &[]));
        oracle.note(&[sighting(0, false), sighting(5, false)]);
        assert_eq!(oracle.judge().invented, 1);
    }
}
