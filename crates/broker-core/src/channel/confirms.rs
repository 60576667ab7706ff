//! Publisher confirms: how many targets each publish still waits for, and which confirms may be
//! sent as one.
//!
//! Publishes are kept as runs of consecutive numbers that wait for the same, so that a batch
//! costs what one publish costs, and a run that is settled out of order leaves nothing behind.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::UNCONFIRMED_PER_CHANNEL_MAX;

/// What one target did with a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It keeps its promise: stored, replicated, or expired and dropped by a rule.
    Stored,
    /// It refused the message or lost it.
    Rejected,
}

/// What the publisher is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Confirm {
    /// `basic.ack`
    Ack,
    /// `basic.nack`
    Nack,
}

/// One confirm frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfirmRun {
    /// The delivery tag.
    pub up_to: u64,
    /// Whether it stands for all unconfirmed publishes up to it.
    pub multiple: bool,
    /// Ack or nack.
    pub confirm: Confirm,
}

/// Consecutive publishes that wait for the same. Keyed by the first number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    last: u64,
    targets: u32,
    rejected: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    first: u64,
    last: u64,
    confirm: Confirm,
}

/// The unconfirmed publishes of a channel in confirm mode, numbered from 1.
///
/// A batch that is settled in order costs O(1) amortised, however long it is; out of order O(log n).
#[derive(Debug, Default)]
pub struct Confirms {
    last_number: u64,
    waiting: BTreeMap<u64, Waiting>,
    done: Vec<Done>,
    open: u64,
}

impl Confirms {
    /// No publish yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Publishes whose confirm has not been taken.
    pub fn open(&self) -> u64 {
        self.open
    }

    /// Whether `UNCONFIRMED_PER_CHANNEL_MAX` is reached: hold the publisher.
    pub fn is_full(&self) -> bool {
        self.open >= UNCONFIRMED_PER_CHANNEL_MAX
    }

    /// The smallest number that still waits for a target.
    pub fn oldest_waiting(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(first, _)| *first)
    }

    /// Numbers a publish that goes to so many targets; with none it is done at once.
    // rabbitmq: confirm.select
    pub fn publish(&mut self, targets: u32) -> u64 {
        let number = self.last_number + 1;
        self.last_number = number;
        self.open += 1;
        if targets == 0 {
            self.finish(number, number, Confirm::Ack);
            return number;
        }
        if let Some(mut newest) = self.waiting.last_entry() {
            let run = newest.get_mut();
            if run.last + 1 == number && run.targets == targets && !run.rejected {
                run.last = number;
                return number;
            }
        }
        self.waiting.insert(
            number,
            Waiting {
                last: number,
                targets,
                rejected: false,
            },
        );
        number
    }

    /// One target of this publish has answered. Numbers that do not wait are ignored.
    pub fn settled(&mut self, number: u64, verdict: Verdict) {
        self.settled_range(number..=number, verdict);
    }

    /// One target of each of these publishes has answered.
    pub fn settled_range(&mut self, numbers: RangeInclusive<u64>, verdict: Verdict) {
        let (mut from, to) = numbers.into_inner();
        while from <= to {
            let Some((first, run)) = self.run_at_or_after(from) else {
                return;
            };
            if first > to {
                return;
            }
            let part_first = first.max(from);
            let part_last = run.last.min(to);
            self.cut(first, run, part_first, part_last);
            let rejected = run.rejected || verdict == Verdict::Rejected;
            if run.targets == 1 {
                let confirm = if rejected {
                    Confirm::Nack
                } else {
                    Confirm::Ack
                };
                self.finish(part_first, part_last, confirm);
            } else {
                let targets = run.targets - 1;
                self.keep(
                    part_first,
                    Waiting {
                        last: part_last,
                        targets,
                        rejected,
                    },
                );
            }
            from = part_last + 1;
        }
    }

    fn run_at_or_after(&self, number: u64) -> Option<(u64, Waiting)> {
        let before = self.waiting.range(..=number).next_back();
        if let Some((first, run)) = before.filter(|(_, run)| run.last >= number) {
            return Some((*first, *run));
        }
        self.waiting
            .range(number..)
            .next()
            .map(|(first, run)| (*first, *run))
    }

    /// Takes a part out of a run; what is left of it stays.
    fn cut(&mut self, first: u64, run: Waiting, part_first: u64, part_last: u64) {
        if part_first == first {
            self.waiting.remove(&first);
        } else {
            self.waiting.insert(
                first,
                Waiting {
                    last: part_first - 1,
                    ..run
                },
            );
        }
        if part_last < run.last {
            self.waiting.insert(part_last + 1, run);
        }
    }

    /// Puts a run back, joined to its elder neighbour when both wait for the same.
    fn keep(&mut self, first: u64, run: Waiting) {
        let elder = self.waiting.range_mut(..first).next_back();
        if let Some((_, elder)) = elder
            && elder.last + 1 == first
            && (elder.targets, elder.rejected) == (run.targets, run.rejected)
        {
            elder.last = run.last;
            return;
        }
        self.waiting.insert(first, run);
    }

    fn finish(&mut self, first: u64, last: u64, confirm: Confirm) {
        if let Some(previous) = self.done.last_mut()
            && previous.last + 1 == first
            && previous.confirm == confirm
        {
            previous.last = last;
            return;
        }
        self.done.push(Done {
            first,
            last,
            confirm,
        });
    }

    /// Appends the confirms that can be sent, in the order to send them.
    ///
    /// Below the smallest number that waits one frame stands for all neighbours of one verdict;
    /// above it each number has its own.
    // rabbitmq: confirms, multiple
    pub fn take(&mut self, runs: &mut Vec<ConfirmRun>) {
        if self.done.is_empty() {
            return;
        }
        self.done.sort_unstable_by_key(|done| done.first);
        let cutoff = self.oldest_waiting().unwrap_or(u64::MAX);
        let mut group: Option<Done> = None;
        let mut grouped = 0;
        for done in self.done.drain(..) {
            self.open -= done.last - done.first + 1;
            if done.first > cutoff {
                flush(&mut group, &mut grouped, runs);
                runs.extend((done.first..=done.last).map(|number| single(number, done.confirm)));
                continue;
            }
            match &mut group {
                Some(current) if current.confirm == done.confirm => current.last = done.last,
                _ => {
                    flush(&mut group, &mut grouped, runs);
                    group = Some(done);
                }
            }
            grouped += done.last - done.first + 1;
        }
        flush(&mut group, &mut grouped, runs);
        self.done.shrink_to(1024);
    }

    /// Runs that are kept.
    #[cfg(test)]
    pub(super) fn runs(&self) -> usize {
        self.waiting.len() + self.done.len()
    }
}

fn flush(group: &mut Option<Done>, grouped: &mut u64, runs: &mut Vec<ConfirmRun>) {
    if let Some(done) = group.take() {
        let multiple = *grouped > 1;
        runs.push(ConfirmRun {
            up_to: done.last,
            multiple,
            confirm: done.confirm,
        });
    }
    *grouped = 0;
}

fn single(number: u64, confirm: Confirm) -> ConfirmRun {
    ConfirmRun {
        up_to: number,
        multiple: false,
        confirm,
    }
}
