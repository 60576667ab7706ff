//! A live message in its queue: what the rules need of it, and what it is doing.

use crate::dead_letter::DeathReason;
use crate::time::Timestamp;

/// What a live message is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not handed out yet, or restored: in its level's line.
    Ready,
    /// Back at its old place (classic queues).
    Requeued,
    /// Back in front of all levels (quorum queues).
    Returned,
    /// Held back.
    Delayed,
    /// With the holder of this hold.
    Held(u32),
    /// Waits for the confirms of its dead letter.
    Dead(DeathReason),
}

impl State {
    pub(super) fn is_ready(self) -> bool {
        matches!(self, State::Ready | State::Requeued | State::Returned)
    }
}

/// A live message without its id.
#[derive(Clone, Debug)]
pub(super) struct Message<C> {
    pub(super) content: C,
    /// `NEVER` when it does not expire.
    expires_at: Timestamp,
    pub(super) state: State,
    pub(super) bytes: u32,
    pub(super) delivery_count: u32,
    pub(super) acquired_count: u32,
    pub(super) level: u8,
    pub(super) persistent: bool,
}

const NEVER: Timestamp = Timestamp(u64::MAX);

impl<C> Message<C> {
    pub(super) fn new(content: C, bytes: u32, level: u8, expires_at: Option<Timestamp>) -> Self {
        Self {
            content,
            expires_at: expires_at.unwrap_or(NEVER),
            state: State::Ready,
            bytes,
            delivery_count: 0,
            acquired_count: 0,
            level,
            persistent: true,
        }
    }

    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        (self.expires_at != NEVER).then_some(self.expires_at)
    }

    pub(super) fn expired(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }
}
