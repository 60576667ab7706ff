//! Transactions: publishes and settles held back until the commit.

use std::sync::Arc;

use broker_core::Refusal;
use broker_core::channel::{ChannelMode, Unsettled};
use broker_core::metadata::QueueId;
use broker_core::queue::Settlement;

use super::Channel;
use super::publish::{Prepared, Publish};
use crate::origin::CommitReceipt;

/// Bytes of publishes that one transaction may hold.
const TRANSACTION_BYTES_MAX: usize = 256 << 20;

/// What a transaction holds back, in order.
#[derive(Default)]
pub(super) struct Buffer {
    publishes: Vec<HeldPublish>,
    settles: Vec<(Unsettled<QueueId>, Settlement)>,
    bytes: usize,
}

struct HeldPublish {
    exchange: String,
    routing_key: String,
    mandatory: bool,
    properties: Vec<u8>,
    body: Vec<u8>,
    prepared: Prepared,
}

impl Buffer {
    pub(super) fn publish(&mut self, publish: &Publish<'_>, prepared: Prepared) -> Result<(), Refusal> {
        let bytes = publish.properties.len() + publish.body.len();
        if self.bytes + bytes > TRANSACTION_BYTES_MAX {
            return Err(Refusal::TableFull {
                what: "transaction bytes".into(),
                limit: TRANSACTION_BYTES_MAX as u64,
            });
        }
        self.bytes += bytes;
        self.publishes.push(HeldPublish {
            exchange: publish.exchange.to_owned(),
            routing_key: publish.routing_key.to_owned(),
            mandatory: publish.mandatory,
            properties: publish.properties.to_owned(),
            body: publish.body.to_owned(),
            prepared,
        });
        Ok(())
    }

    pub(super) fn settle(&mut self, unsettled: &mut Vec<Unsettled<QueueId>>, how: Settlement) {
        self.settles.extend(unsettled.drain(..).map(|unsettled| (unsettled, how)));
    }
}

impl Channel {
    /// `tx.select`.
    ///
    /// # Errors
    /// The channel is confirming.
    pub fn tx_select(&mut self) -> Result<(), Refusal> {
        match self.mode {
            ChannelMode::Confirm => Err(Refusal::TxAfterConfirm),
            _ => {
                self.mode = ChannelMode::Tx;
                Ok(())
            }
        }
    }

    /// `tx.commit`: everything held back takes effect; done when all of it is safe.
    ///
    /// # Errors
    /// The channel is not transactional, or a queue refused a message.
    pub async fn tx_commit(&mut self) -> Result<(), Refusal> {
        if self.mode != ChannelMode::Tx {
            return Err(Refusal::NotTransactional);
        }
        let Buffer { publishes, settles, .. } = std::mem::take(&mut self.transaction);
        let receipt = Arc::new(CommitReceipt::default());
        for held in &publishes {
            let publish = Publish {
                exchange: &held.exchange,
                routing_key: &held.routing_key,
                mandatory: held.mandatory,
                immediate: false,
                properties: &held.properties,
                body: &held.body,
            };
            self.send(&publish, &held.prepared, Some(&receipt));
        }
        for (unsettled, how) in &settles {
            self.gather_committed(unsettled, *how);
        }
        self.settle_down().await;
        match receipt.was_refused() {
            true => Err(Refusal::PartialTransaction),
            false => Ok(()),
        }
    }

    /// `tx.rollback`: publishes are dropped, settled deliveries are unacknowledged again.
    ///
    /// # Errors
    /// The channel is not transactional.
    // rabbitmq: nothing is requeued by a rollback.
    pub fn tx_rollback(&mut self) -> Result<(), Refusal> {
        if self.mode != ChannelMode::Tx {
            return Err(Refusal::NotTransactional);
        }
        let Buffer { settles, .. } = std::mem::take(&mut self.transaction);
        let mut deliveries = self.holder.deliveries.lock();
        for (unsettled, _) in settles {
            deliveries.unacked.restore(unsettled);
        }
        Ok(())
    }
}
