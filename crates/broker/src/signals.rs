//! What the broker tells a connection besides messages: closes, alarms, flow.
//!
//! A mailbox with one waiting reader (the connection's task). Nobody waits to put something in.

use std::collections::VecDeque;

use broker_core::Refusal;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::bounds::SIGNALS_MAX;

/// One thing a connection must do because the broker says so.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// Close the channel with this reason.
    CloseChannel {
        /// The channel.
        number: u16,
        /// Why.
        refusal: Refusal,
    },
    /// Close the connection with this reason.
    CloseConnection {
        /// Why.
        refusal: Refusal,
    },
    /// Publishing is stopped by an alarm; the text names it.
    Blocked(String),
    /// The last alarm is over.
    Unblocked,
    /// Ask the client to pause or resume publishing on a channel.
    Flow {
        /// The channel.
        channel: u16,
        /// Whether it may publish.
        active: bool,
    },
}

/// A connection's mailbox of signals.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    waiting: Mutex<VecDeque<Signal>>,
    arrived: Notify,
}

impl Signals {
    /// Leaves a signal. Beyond [`SIGNALS_MAX`] the oldest is dropped: a connection that does not
    /// listen any more is on its way out.
    pub(crate) fn send(&self, signal: Signal) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= SIGNALS_MAX {
            waiting.pop_front();
        }
        waiting.push_back(signal);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// The channel is closed: nothing that was meant for it must reach its successor.
    pub(crate) fn forget_channel(&self, closed: u16) {
        self.waiting.lock().retain(|signal| match signal {
            Signal::CloseChannel { number, .. } => *number != closed,
            Signal::Flow { channel, .. } => *channel != closed,
            _ => true,
        });
    }

    /// The next signal; cancelling the wait loses nothing.
    pub(crate) async fn next(&self) -> Signal {
        loop {
            if let Some(signal) = self.waiting.lock().pop_front() {
                return signal;
            }
            self.arrived.notified().await;
        }
    }
}
