//! Transactions: publishes and settles held back until the commit.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use broker_core::Refusal;
use broker_core::channel::TransactionParts;

use super::Channel;
use super::publish::{Prepared, Publish};
use crate::bounds::TRANSACTION_BYTES_MAX;
use crate::origin::CommitReceipt;

/// A publish that waits for the commit.
pub(super) struct HeldPublish {
    exchange: String,
    routing_key: String,
    mandatory: bool,
    properties: Vec<u8>,
    body: Vec<u8>,
    prepared: Prepared,
}

impl Channel {
    /// `tx.select`.
    ///
    /// # Errors
    /// The channel is confirming.
    pub fn tx_select(&mut self) -> Result<(), Refusal> {
        self.mode.select_tx()?;
        self.holder
            .facts
            .transactional
            .store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Holds a publish until the commit.
    pub(super) fn hold(
        &mut self,
        publish: &Publish<'_>,
        prepared: Prepared,
    ) -> Result<(), Refusal> {
        let bytes = publish.properties.len() + publish.body.len();
        if self.transaction_bytes + bytes > TRANSACTION_BYTES_MAX {
            let limit = TRANSACTION_BYTES_MAX as u64;
            return Err(Refusal::TableFull {
                what: "transaction bytes".into(),
                limit,
            });
        }
        self.transaction_bytes += bytes;
        self.transaction.publish(HeldPublish {
            exchange: publish.exchange.to_owned(),
            routing_key: publish.routing_key.to_owned(),
            mandatory: publish.mandatory,
            properties: publish.properties.to_owned(),
            body: publish.body.to_owned(),
            prepared,
        })?;
        self.show_uncommitted();
        Ok(())
    }

    /// Tells listings how many publishes wait for the commit.
    fn show_uncommitted(&self) {
        self.holder
            .facts
            .uncommitted
            .store(self.transaction.len() as u64, Ordering::Relaxed);
    }

    /// `tx.commit`: everything held back takes effect; done when all of it is safe. Answers false
    /// when a message waits for its queue: [`Outgoing::CommitOk`](crate::Outgoing::CommitOk) follows.
    ///
    /// # Errors
    /// The channel is not transactional, or a queue refused a message.
    pub async fn tx_commit(&mut self) -> Result<bool, Refusal> {
        self.mode.check_tx()?;
        self.transaction_bytes = 0;
        let TransactionParts {
            publishes,
            settlements,
        } = self.transaction.commit();
        self.show_uncommitted();
        let receipt = Arc::new(CommitReceipt::default());
        for mut held in publishes {
            held.prepared.forget_deleted(&self.node);
            let publish = Publish {
                exchange: &held.exchange,
                routing_key: &held.routing_key,
                mandatory: held.mandatory,
                immediate: false,
                properties: &held.properties,
                body: &held.body,
            };
            self.send(&publish, held.prepared, Some(&receipt));
        }
        for (how, items) in settlements {
            self.settles
                .extend(items.iter().map(|item| (item.queue, item.entry, how)));
        }
        self.settle_down().await;
        let done = receipt.settled();
        match done && receipt.was_refused() {
            true => Err(Refusal::PartialTransaction),
            false => Ok(done),
        }
    }

    /// `tx.rollback`: publishes are dropped, settled deliveries are unacknowledged again.
    ///
    /// # Errors
    /// The channel is not transactional.
    // rabbitmq: nothing is requeued by a rollback.
    pub fn tx_rollback(&mut self) -> Result<(), Refusal> {
        self.mode.check_tx()?;
        self.transaction_bytes = 0;
        let mut deliveries = self.holder.deliveries.lock();
        self.transaction.rollback(&mut deliveries.unacked);
        deliveries.tell();
        drop(deliveries);
        self.show_uncommitted();
        Ok(())
    }
}
