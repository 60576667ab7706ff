//! What passed through exchanges. Channels gather over a turn and add once, since many publish to
//! one exchange.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker_core::VhostName;
use dashmap::DashMap;

/// What an exchange did.
#[derive(Debug, Default)]
pub(crate) struct ExchangeTraffic {
    published_in: AtomicU64,
    published_out: AtomicU64,
}

impl ExchangeTraffic {
    /// Many channels publish to one exchange: each adds what it gathered over a turn.
    fn add(&self, published_in: u64, published_out: u64) {
        self.published_in.fetch_add(published_in, Ordering::Relaxed);
        self.published_out
            .fetch_add(published_out, Ordering::Relaxed);
    }

    /// Messages that came in, and copies that left for queues.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.published_in.load(Ordering::Relaxed),
            self.published_out.load(Ordering::Relaxed),
        )
    }
}

/// What a channel published to one exchange in this turn.
#[derive(Default)]
pub(crate) struct ExchangeTally {
    exchange: Option<Arc<ExchangeTraffic>>,
    published_in: u64,
    published_out: u64,
}

impl ExchangeTally {
    pub(crate) fn published(&mut self, exchange: &Arc<ExchangeTraffic>, copies: u64) {
        if !self
            .exchange
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, exchange))
        {
            self.flush();
            self.exchange = Some(exchange.clone());
        }
        self.published_in += 1;
        self.published_out += copies;
    }

    pub(crate) fn flush(&mut self) {
        if self.published_in == 0 {
            return;
        }
        if let Some(exchange) = &self.exchange {
            exchange.add(self.published_in, self.published_out);
        }
        self.published_in = 0;
        self.published_out = 0;
    }
}

/// Exchange counters by vhost and name. Bounded by the exchanges that exist.
#[derive(Debug, Default)]
pub(crate) struct ExchangeTable {
    pub(super) by_name: DashMap<(VhostName, Box<str>), Arc<ExchangeTraffic>>,
}

impl ExchangeTable {
    /// The counters of an exchange, made when they are first asked for.
    pub(crate) fn of(&self, vhost: &VhostName, exchange: &str) -> Arc<ExchangeTraffic> {
        self.by_name
            .entry((vhost.clone(), exchange.into()))
            .or_default()
            .clone()
    }

    pub(crate) fn find(&self, vhost: &VhostName, exchange: &str) -> Option<Arc<ExchangeTraffic>> {
        let key = (vhost.clone(), exchange.into());
        self.by_name
            .get(&key)
            .map(|traffic| traffic.value().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_gets_what_a_turn_gathered_and_changes_of_exchange_end_it() {
        let (one, other) = (Arc::new(ExchangeTraffic::default()), Arc::default());
        let mut tally = ExchangeTally::default();
        tally.published(&one, 2);
        tally.published(&one, 0);
        assert_eq!(one.counts(), (0, 0));
        tally.published(&other, 1);
        assert_eq!(one.counts(), (2, 2));
        tally.flush();
        tally.flush();
        assert_eq!(other.counts(), (1, 1));
    }
}
