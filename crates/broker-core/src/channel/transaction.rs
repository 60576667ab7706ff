//! What a transactional channel holds back until it commits.

use super::TRANSACTION_ITEMS_MAX;
use super::unacked::{Resolved, Unacked, Unsettled};
use crate::queue::Settlement;
use crate::refusal::Refusal;

/// The publishes (`P`) and settlements of the open transaction. There is always one on a
/// transactional channel; it begins when the last one ends.
// amqp 1.9
#[derive(Debug)]
pub struct Transaction<P, K> {
    publishes: Vec<P>,
    settlements: Vec<(Settlement, Vec<Unsettled<K>>)>,
    settled: usize,
}

/// What a commit carries out: publishes first, then settlements, each in order.
#[derive(Debug, PartialEq, Eq)]
pub struct TransactionParts<P, K> {
    /// In order of publish.
    pub publishes: Vec<P>,
    /// In order of arrival.
    pub settlements: Vec<(Settlement, Vec<Unsettled<K>>)>,
}

impl<P, K> Default for Transaction<P, K> {
    fn default() -> Self {
        Self {
            publishes: Vec::new(),
            settlements: Vec::new(),
            settled: 0,
        }
    }
}

impl<P, K: Copy + Ord> Transaction<P, K> {
    /// An empty transaction.
    pub fn new() -> Self {
        Self::default()
    }

    /// Publishes and settled deliveries that are held back.
    pub fn len(&self) -> usize {
        self.publishes.len() + self.settled
    }

    /// Whether nothing is held back.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Holds a publish back.
    ///
    /// # Errors
    /// `TableFull` at `TRANSACTION_ITEMS_MAX`.
    pub fn publish(&mut self, publish: P) -> Result<(), Refusal> {
        self.check_room(1)?;
        self.publishes.push(publish);
        Ok(())
    }

    /// Holds a settlement back. Its tags are unknown from here on.
    ///
    /// # Errors
    /// `TableFull` at `TRANSACTION_ITEMS_MAX`.
    pub fn settle(&mut self, how: Settlement, resolved: &mut Resolved<K>) -> Result<(), Refusal> {
        self.check_room(resolved.items().len())?;
        let items = resolved.take();
        self.settled += items.len();
        if !items.is_empty() {
            self.settlements.push((how, items));
        }
        Ok(())
    }

    fn check_room(&self, more: usize) -> Result<(), Refusal> {
        if self.len() + more <= TRANSACTION_ITEMS_MAX {
            return Ok(());
        }
        let limit = TRANSACTION_ITEMS_MAX as u64;
        Err(Refusal::TableFull {
            what: "transaction".into(),
            limit,
        })
    }

    /// `tx.commit`: hands everything out and begins anew.
    pub fn commit(&mut self) -> TransactionParts<P, K> {
        self.settled = 0;
        TransactionParts {
            publishes: std::mem::take(&mut self.publishes),
            settlements: std::mem::take(&mut self.settlements),
        }
    }

    /// `tx.rollback`: publishes are dropped, settled deliveries are out again; nothing is
    /// requeued. Begins anew.
    pub fn rollback(&mut self, unacked: &mut Unacked<K>) -> Vec<P> {
        let TransactionParts {
            publishes,
            settlements,
        } = self.commit();
        unacked.restore(settlements.into_iter().flat_map(|(_, items)| items));
        publishes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::EntryId;

    fn three_out() -> Unacked<u8> {
        let mut unacked = Unacked::new();
        for entry in 1..=3 {
            unacked.push(1, EntryId(entry * 10), None);
        }
        unacked
    }

    #[test]
    fn a_settled_tag_is_unknown_before_the_commit_and_known_again_after_a_rollback() {
        let mut unacked = three_out();
        let mut transaction = Transaction::<&str, u8>::new();
        let mut resolved = Resolved::new();
        transaction.publish("a").expect("room");
        unacked.settle(2, false, &mut resolved).expect("out");
        transaction
            .settle(Settlement::Ack, &mut resolved)
            .expect("room");
        let unknown = Err(Refusal::UnknownDeliveryTag { tag: 2 });
        assert_eq!(unacked.settle(2, false, &mut resolved), unknown);
        assert_eq!(transaction.len(), 2);

        assert_eq!(transaction.rollback(&mut unacked), ["a"]);
        assert!(transaction.is_empty());
        let tags: Vec<u64> = unacked.iter().map(|unsettled| unsettled.tag.0).collect();
        assert_eq!(tags, [1, 2, 3]);
        unacked.settle(2, false, &mut resolved).expect("out again");
        assert_eq!(resolved.items()[0].entry, EntryId(20));
    }

    #[test]
    fn a_commit_hands_out_publishes_and_settlements_in_order() {
        let mut unacked = three_out();
        let mut transaction = Transaction::<&str, u8>::new();
        let mut resolved = Resolved::new();
        transaction.publish("a").expect("room");
        unacked.settle(3, false, &mut resolved).expect("out");
        transaction
            .settle(Settlement::Ack, &mut resolved)
            .expect("room");
        transaction.publish("b").expect("room");
        unacked.settle(0, true, &mut resolved).expect("out");
        let requeue = Settlement::Requeue(crate::queue::ReturnCause::Nack);
        transaction.settle(requeue, &mut resolved).expect("room");

        let parts = transaction.commit();
        assert_eq!(parts.publishes, ["a", "b"]);
        let settled: Vec<(Settlement, Vec<u64>)> = parts
            .settlements
            .into_iter()
            .map(|(how, items)| (how, items.iter().map(|item| item.tag.0).collect()))
            .collect();
        assert_eq!(settled, [(Settlement::Ack, vec![3]), (requeue, vec![1, 2])]);
        assert!(transaction.is_empty() && unacked.is_empty());
    }
}
