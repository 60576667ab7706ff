//! What flow control does to a whole connection: not reading it, and telling it so.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use broker_core::flow::ClientFlow;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::signals::{Signal, Signals};

/// A connection's standing towards flow control.
#[derive(Debug)]
pub(crate) struct SessionFlow {
    pub(crate) client: ClientFlow,
    /// Channels with so much parked that their connection is not read.
    pressed: AtomicU32,
    /// It published during an alarm that lasts.
    alarmed: AtomicBool,
    /// It has had a consumer or a message: reading it may free memory.
    consumes: AtomicBool,
    blocked: Mutex<Blocked>,
    may_read: Notify,
}

/// Why a connection was told that it is blocked.
#[derive(Debug, Default)]
struct Blocked {
    channels: u32,
    alarm: bool,
    told: bool,
}

impl Blocked {
    fn is_due(&self) -> bool {
        self.channels > 0 || self.alarm
    }
}

impl SessionFlow {
    pub(crate) fn new(client: ClientFlow) -> Self {
        Self {
            client,
            pressed: AtomicU32::new(0),
            alarmed: AtomicBool::new(false),
            consumes: AtomicBool::new(false),
            blocked: Mutex::default(),
            may_read: Notify::new(),
        }
    }

    /// The connection takes messages from here on: it is always read.
    pub(crate) fn note_consumes(&self) {
        if !self.consumes.swap(true, Ordering::AcqRel) {
            self.may_read.notify_waiters();
        }
    }

    pub(crate) fn consumes(&self) -> bool {
        self.consumes.load(Ordering::Acquire)
    }

    /// Whether the socket must not be read.
    pub(crate) fn must_not_be_read(&self) -> bool {
        let held = self.pressed.load(Ordering::Acquire) > 0 || self.alarmed.load(Ordering::Acquire);
        held && !self.consumes()
    }

    /// Returns when the socket may be read again.
    pub(crate) async fn may_be_read(&self) {
        loop {
            let may_read = self.may_read.notified();
            if !self.must_not_be_read() {
                return;
            }
            may_read.await;
        }
    }

    /// A channel has more parked than memory is for.
    pub(crate) fn press(&self, signals: &Signals, reason: &str) {
        self.pressed.fetch_add(1, Ordering::AcqRel);
        self.block(signals, reason, |blocked| blocked.channels += 1);
    }

    /// The channel has less parked.
    pub(crate) fn ease(&self, signals: &Signals) {
        self.pressed.fetch_sub(1, Ordering::AcqRel);
        self.unblock(signals, |blocked| {
            blocked.channels = blocked.channels.saturating_sub(1);
        });
    }

    /// A publish came during an alarm.
    pub(crate) fn alarm(&self, signals: &Signals, reason: &str) {
        if !self.alarmed.swap(true, Ordering::AcqRel) {
            self.block(signals, reason, |blocked| blocked.alarm = true);
        }
    }

    /// The last alarm is over.
    pub(crate) fn alarm_over(&self, signals: &Signals) {
        if self.alarmed.swap(false, Ordering::AcqRel) {
            self.unblock(signals, |blocked| blocked.alarm = false);
        }
    }

    /// Whether the client was told that it is blocked.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.lock().told
    }

    fn block(&self, signals: &Signals, reason: &str, note: impl FnOnce(&mut Blocked)) {
        let mut blocked = self.blocked.lock();
        note(&mut blocked);
        if !blocked.told && self.client.may_hear_blocked(self.consumes()) {
            blocked.told = true;
            signals.send(Signal::Blocked(reason.to_owned()));
        }
    }

    fn unblock(&self, signals: &Signals, note: impl FnOnce(&mut Blocked)) {
        let mut blocked = self.blocked.lock();
        note(&mut blocked);
        if blocked.told && !blocked.is_due() {
            blocked.told = false;
            signals.send(Signal::Unblocked);
        }
        drop(blocked);
        self.may_read.notify_waiters();
    }
}
