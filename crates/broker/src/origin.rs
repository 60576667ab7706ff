//! Who published a staged message, and wants to know its fate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use broker_core::Refusal;
use broker_core::channel::Verdict;
use broker_core::metadata::QueueId;
use broker_core::queue::EntryId;

use crate::holder::Holder;
use crate::node::Node;
use crate::observe::incidents::HeldBecause;
use crate::outbox::Outgoing;
use crate::replication::AwayReceipt;
use crate::signals::Signal;

/// Who is told what became of a message.
pub(crate) enum Origin {
    /// A client's publish.
    Channel {
        holder: Arc<Holder>,
        /// The publish number on a confirming channel.
        number: Option<u64>,
    },
    /// A publish of a transaction that is being committed.
    Commit {
        holder: Arc<Holder>,
        receipt: Arc<CommitReceipt>,
    },
    /// A dead letter whose source keeps it until it is safe.
    DeadLetter(Arc<DeadLetterReceipt>),
    /// A publish of another node's client.
    Away {
        receipt: Arc<AwayReceipt>,
        /// Its place among the messages of the other node's batch.
        place: u32,
    },
    /// Nobody waits.
    Nobody,
}

impl Origin {
    /// One more part of a commit.
    pub(crate) fn commit(holder: &Arc<Holder>, receipt: &Arc<CommitReceipt>) -> Self {
        receipt.open.fetch_add(1, Ordering::AcqRel);
        Origin::Commit {
            holder: holder.clone(),
            receipt: receipt.clone(),
        }
    }

    /// A message that waited is on its way: its connection waits for it to land.
    pub(crate) fn departs(&self) {
        match self {
            Origin::Channel { holder, .. } | Origin::Commit { holder, .. } => {
                holder.session.departed(1);
            }
            Origin::DeadLetter(_) | Origin::Away { .. } | Origin::Nobody => {}
        }
    }
}

/// Whether every queue took the messages of a commit, and who answers it: the channel, or, when a
/// part had to wait for a queue, whoever settles the last part.
#[derive(Debug)]
pub(crate) struct CommitReceipt {
    refused: AtomicBool,
    /// Parts without a verdict, and the channel itself.
    open: AtomicU32,
}

impl Default for CommitReceipt {
    fn default() -> Self {
        Self {
            refused: AtomicBool::new(false),
            open: AtomicU32::new(1),
        }
    }
}

impl CommitReceipt {
    pub(crate) fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }

    /// A part is settled, or the channel has sent all. Answers whether it was the last.
    pub(crate) fn settled(&self) -> bool {
        self.open.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// An at-least-once dead letter on its way to its targets.
pub(crate) struct DeadLetterReceipt {
    pub(crate) queue: QueueId,
    pub(crate) entry: EntryId,
    open: AtomicU32,
    rejected: AtomicBool,
}

impl DeadLetterReceipt {
    pub(crate) fn new(queue: QueueId, entry: EntryId, verdicts: u32) -> Self {
        Self {
            queue,
            entry,
            open: AtomicU32::new(verdicts),
            rejected: AtomicBool::new(false),
        }
    }

    fn verdict(&self, node: &Node, verdict: Verdict) {
        if verdict == Verdict::Rejected {
            self.rejected.store(true, Ordering::Release);
        }
        if self.open.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        if let Some(queue) = node.queue(self.queue) {
            let outcome = match self.rejected.load(Ordering::Acquire) {
                true => Err(HeldBecause::Refused),
                false => Ok(()),
            };
            queue.dead_lettered(node, self.entry, outcome);
        }
    }
}

/// Tells each origin its verdict; confirms of one channel leave together, after the last of them.
/// `verdicts` has one element an origin, in the order of publishing.
pub(crate) fn tell(node: &Node, origins: &[Origin], verdict_of: impl Fn(usize) -> Verdict) {
    let mut at = 0;
    while at < origins.len() {
        match &origins[at] {
            Origin::Channel { holder, .. } => {
                let run = origins[at..]
                    .iter()
                    .take_while(|origin| is_of(origin, holder))
                    .count();
                tell_channel(holder, &origins[at..at + run], at, &verdict_of);
                at += run;
            }
            Origin::Commit { holder, receipt } => {
                if verdict_of(at) == Verdict::Rejected {
                    receipt.refused.store(true, Ordering::Release);
                }
                if receipt.settled() {
                    answer_late(holder, receipt);
                }
                holder.session.landed(1);
                at += 1;
            }
            Origin::DeadLetter(receipt) => {
                receipt.verdict(node, verdict_of(at));
                at += 1;
            }
            Origin::Away { receipt, place } => {
                receipt.verdict(node, *place, verdict_of(at));
                at += 1;
            }
            Origin::Nobody => at += 1,
        }
    }
}

/// The last part of a commit that had to wait is settled.
fn answer_late(holder: &Holder, receipt: &CommitReceipt) {
    let session = &holder.session;
    match receipt.was_refused() {
        false => {
            session
                .options
                .outbox
                .push(holder.number, &[Outgoing::CommitOk]);
        }
        true => session.signals.send(Signal::CloseChannel {
            number: holder.number,
            refusal: Refusal::PartialTransaction,
        }),
    }
}

fn is_of(origin: &Origin, of: &Arc<Holder>) -> bool {
    matches!(origin, Origin::Channel { holder, .. } if Arc::ptr_eq(holder, of))
}

/// Folds consecutive numbers with one verdict into ranges.
fn tell_channel(
    holder: &Arc<Holder>,
    origins: &[Origin],
    first: usize,
    verdict_of: &impl Fn(usize) -> Verdict,
) {
    let mut open: Option<(u64, u64, Verdict)> = None;
    for (offset, origin) in origins.iter().enumerate() {
        let Origin::Channel {
            number: Some(number),
            ..
        } = origin
        else {
            continue;
        };
        let verdict = verdict_of(first + offset);
        open = match open {
            Some((from, to, same)) if same == verdict && *number == to + 1 => {
                Some((from, *number, verdict))
            }
            previous => {
                if let Some((from, to, verdict)) = previous {
                    holder.confirmed(from..=to, verdict);
                }
                Some((*number, *number, verdict))
            }
        };
    }
    if let Some((from, to, verdict)) = open {
        holder.confirmed(from..=to, verdict);
        holder.send_confirms();
    }
    holder.session.landed(origins.len() as u64);
}
