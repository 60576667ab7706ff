//! A channel as the queues see it: who deliveries are handed to, and whose publishes are
//! confirmed.
//!
//! Locks here are taken while a queue is locked (queue, then holder, then outbox), never the
//! other way round.

use std::ops::RangeInclusive;
use std::sync::Arc;

use broker_core::channel::{Confirm, ConfirmRun, Confirms, Resolved, Unacked, Verdict};
use broker_core::flow::{ChannelHold, HoldBounds};
use broker_core::metadata::QueueId;
use broker_core::queue::HolderId;
use broker_core::{ConsumerTag, Refusal};
use parking_lot::Mutex;

use crate::flow::hold::HolderFlow;
use crate::flow::spill::SpillFile;
use crate::observe::traffic::{ChannelFacts, ChannelTraffic, QueueTraffic, TrafficCounts};
use crate::outbox::Outgoing;
use crate::session::SessionShared;
use crate::tenants::in_hand::Share;

pub(crate) struct Holder {
    pub(crate) id: HolderId,
    pub(crate) number: u16,
    pub(crate) session: Arc<SessionShared>,
    /// What the channel's own task counts and sets.
    pub(crate) traffic: ChannelTraffic,
    pub(crate) facts: ChannelFacts,
    pub(crate) deliveries: Mutex<Deliveries>,
    confirms: Mutex<ConfirmState>,
    held_cancels: Mutex<Option<Vec<ConsumerTag>>>,
    /// What makes its publisher wait.
    pub(crate) flow: Mutex<HolderFlow>,
    /// Its messages that wait on disk.
    pub(crate) spill: Mutex<SpillFile>,
}

/// Deliveries out on the channel. Tags are given and frames pushed under one lock, so that tags
/// leave in their order.
pub(crate) struct Deliveries {
    pub(crate) unacked: Unacked<QueueId>,
    /// Queues that deliver here or did; they are told when the channel ends.
    pub(crate) queues: Vec<QueueId>,
    pub(crate) open: bool,
    pub(crate) traffic: QueueTraffic,
    /// Its part in what its user and vhost have in hand, where somebody limits that.
    pub(crate) share: Share,
}

impl Deliveries {
    /// Remembers that this queue may hold something for the channel.
    pub(crate) fn touch(&mut self, queue: QueueId) {
        if !self.queues.contains(&queue) {
            self.queues.push(queue);
        }
    }
}

struct ConfirmState {
    confirms: Confirms,
    runs: Vec<ConfirmRun>,
    /// Publishes that were acked or nacked.
    confirmed: u64,
}

impl Holder {
    pub(crate) fn new(
        id: HolderId,
        number: u16,
        session: Arc<SessionShared>,
        bounds: HoldBounds,
    ) -> Self {
        let hold = ChannelHold::new(bounds, session.flow.client.obeys_flow);
        Self {
            id,
            number,
            session,
            traffic: ChannelTraffic::default(),
            facts: ChannelFacts::default(),
            deliveries: Mutex::new(Deliveries {
                unacked: Unacked::new(),
                queues: Vec::new(),
                open: true,
                traffic: QueueTraffic::default(),
                share: Share::default(),
            }),
            confirms: Mutex::new(ConfirmState {
                confirms: Confirms::new(),
                runs: Vec::new(),
                confirmed: 0,
            }),
            held_cancels: Mutex::default(),
            flow: Mutex::new(HolderFlow::new(hold)),
            spill: Mutex::default(),
        }
    }

    /// Numbers a publish that waits for this many verdicts; none settles it at once.
    pub(crate) fn number_publish(&self, verdicts: u32) -> u64 {
        self.confirms.lock().confirms.publish(verdicts)
    }

    /// What passed through the channel.
    pub(crate) fn traffic_counts(&self) -> TrafficCounts {
        let taken = self.deliveries.lock().traffic;
        let confirm = self.confirms.lock().confirmed;
        TrafficCounts {
            publish: self.traffic.publish.get(),
            confirm,
            return_unroutable: self.traffic.return_unroutable.get(),
            drop_unroutable: self.traffic.drop_unroutable.get(),
            deliver: taken.deliver,
            deliver_no_ack: taken.deliver_no_ack,
            get: taken.get,
            get_no_ack: taken.get_no_ack,
            get_empty: self.traffic.get_empty.get(),
            ack: self.traffic.ack.get(),
            redeliver: taken.redeliver,
        }
    }

    /// Publishes that wait for a confirm.
    pub(crate) fn unconfirmed(&self) -> u64 {
        self.confirms.lock().confirms.open()
    }

    /// The verdict of one journal entry or queue on a run of publishes.
    pub(crate) fn confirmed(&self, numbers: RangeInclusive<u64>, verdict: Verdict) {
        self.confirms
            .lock()
            .confirms
            .settled_range(numbers, verdict);
    }

    /// Sends the acks and nacks that are due.
    pub(crate) fn send_confirms(&self) {
        let mut state = self.confirms.lock();
        let ConfirmState {
            confirms,
            runs,
            confirmed,
        } = &mut *state;
        runs.clear();
        let open = confirms.open();
        confirms.take(runs);
        *confirmed += open - confirms.open();
        if runs.is_empty() {
            return;
        }
        let out: smallvec::SmallVec<[Outgoing<'_>; 4]> = runs
            .iter()
            .map(|run| match run.confirm {
                Confirm::Ack => Outgoing::Ack {
                    delivery_tag: run.up_to,
                    multiple: run.multiple,
                },
                Confirm::Nack => Outgoing::Nack {
                    delivery_tag: run.up_to,
                    multiple: run.multiple,
                },
            })
            .collect();
        // Pushed under the lock: two threads confirming one channel must not swap their frames.
        self.session.options.outbox.push(self.number, &out);
    }

    /// Until [`Holder::release_cancels`], cancels wait: the answer to the channel's own call goes
    /// first.
    pub(crate) fn hold_cancels(&self) {
        self.held_cancels.lock().get_or_insert_default();
    }

    /// Sends the cancels that were held.
    pub(crate) fn release_cancels(&self) {
        let held = self.held_cancels.lock().take();
        for tag in held.into_iter().flatten() {
            self.consumer_cancelled(&tag);
        }
    }

    /// The client learns that a consumer is gone, if it wants to.
    // rabbitmq: capability consumer_cancel_notify.
    pub(crate) fn consumer_cancelled(&self, tag: &ConsumerTag) {
        if let Some(held) = &mut *self.held_cancels.lock() {
            held.push(tag.clone());
            return;
        }
        if self.session.cancel_notify {
            let cancel = Outgoing::CancelConsumer {
                consumer_tag: tag.as_str(),
            };
            self.session.options.outbox.push(self.number, &[cancel]);
        }
    }

    /// Takes the deliveries that an ack, nack or reject names.
    pub(crate) fn take(
        &self,
        tag: u64,
        multiple: bool,
        out: &mut Resolved<QueueId>,
    ) -> Result<(), Refusal> {
        let mut deliveries = self.deliveries.lock();
        deliveries.unacked.settle(tag, multiple, out)?;
        deliveries.tell();
        Ok(())
    }
}
