//! The mode of a channel, and its `basic.qos`.

use crate::refusal::Refusal;

/// Whether the channel confirms publishes, collects them in transactions, or neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChannelMode {
    /// As it was opened.
    #[default]
    Plain,
    /// After `confirm.select`.
    Confirm,
    /// After `tx.select`.
    Tx,
}

impl ChannelMode {
    /// `confirm.select`; again is fine.
    // rabbitmq: confirm.select
    pub fn select_confirm(&mut self) -> Result<(), Refusal> {
        if *self == ChannelMode::Tx {
            return Err(Refusal::ConfirmAfterTx);
        }
        *self = ChannelMode::Confirm;
        Ok(())
    }

    /// `tx.select`; again is fine.
    // rabbitmq: tx.select
    pub fn select_tx(&mut self) -> Result<(), Refusal> {
        if *self == ChannelMode::Confirm {
            return Err(Refusal::TxAfterConfirm);
        }
        *self = ChannelMode::Tx;
        Ok(())
    }

    /// Whether `tx.commit` and `tx.rollback` are allowed.
    // rabbitmq: tx.commit
    pub fn check_tx(self) -> Result<(), Refusal> {
        match self {
            ChannelMode::Tx => Ok(()),
            ChannelMode::Plain | ChannelMode::Confirm => Err(Refusal::NotTransactional),
        }
    }
}

/// What `basic.qos` has set: for consumers that start later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetch {
    count: u16,
}

impl Prefetch {
    /// `basic.qos`. A global limit counts per consumer, like any other.
    // rabbitmq: basic.qos
    pub fn set(&mut self, prefetch_size: u32, prefetch_count: u16) -> Result<(), Refusal> {
        if prefetch_size != 0 {
            return Err(Refusal::PrefetchSizeNotSupported { prefetch_size });
        }
        self.count = prefetch_count;
        Ok(())
    }

    /// Most unsettled deliveries of a consumer that starts; 0 is no limit.
    pub fn count(self) -> u16 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_confirms_or_is_transactional_but_not_both() {
        let mut mode = ChannelMode::default();
        assert_eq!(mode.check_tx(), Err(Refusal::NotTransactional));
        assert_eq!(mode.select_confirm(), Ok(()));
        assert_eq!(mode.select_confirm(), Ok(()));
        assert_eq!(mode.select_tx(), Err(Refusal::TxAfterConfirm));
        assert_eq!(mode.check_tx(), Err(Refusal::NotTransactional));

        let mut mode = ChannelMode::default();
        assert_eq!(mode.select_tx(), Ok(()));
        assert_eq!(mode.select_tx(), Ok(()));
        assert_eq!(mode.select_confirm(), Err(Refusal::ConfirmAfterTx));
        assert_eq!(mode.check_tx(), Ok(()));
    }

    #[test]
    fn a_prefetch_by_size_is_refused_and_changes_nothing() {
        let mut prefetch = Prefetch::default();
        assert_eq!(prefetch.set(0, 7), Ok(()));
        let refused = Err(Refusal::PrefetchSizeNotSupported { prefetch_size: 1 });
        assert_eq!(prefetch.set(1, 9), refused);
        assert_eq!(prefetch.count(), 7);
    }
}
