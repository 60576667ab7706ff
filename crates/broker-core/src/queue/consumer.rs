//! A consumer as its queue knows it.

use std::ops::{BitOr, BitOrAssign};

use super::entry::{ConsumerId, HolderId};
use crate::names::ConsumerTag;

/// Reasons for which a consumer is given nothing; it gets messages again when none is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pause(u8);

impl Pause {
    /// None.
    pub const NONE: Pause = Pause(0);
    /// What waits to be written to its connection is enough.
    pub const WINDOW: Pause = Pause(1);
    /// The client stopped its channel with `channel.flow`.
    pub const CHANNEL_FLOW: Pause = Pause(2);
    /// The consumers' part of the memory is full.
    pub const MEMORY: Pause = Pause(4);
    /// Its user, or its vhost, has as much in hand as a limit allows.
    pub const TENANT: Pause = Pause(8);

    /// It was late with a delivery and gets nothing more.
    pub(super) const LATE: Pause = Pause(1 << 5);
    /// It is not the single active consumer, or about to step down.
    pub(super) const BENCHED: Pause = Pause(1 << 6);
    /// It is no consumer any more.
    pub(super) const ENDED: Pause = Pause(1 << 7);

    /// The reasons that callers give.
    pub(super) fn given(self) -> Pause {
        self.without(Pause::LATE | Pause::BENCHED | Pause::ENDED)
    }

    /// Whether this is one of the reasons.
    pub fn contains(self, reason: Pause) -> bool {
        self.0 & reason.0 == reason.0
    }

    /// The reasons that callers give, as a number.
    pub fn bits(self) -> u8 {
        self.given().0
    }

    /// The other way round. Reasons that only the machine gives are left out.
    pub fn from_bits(bits: u8) -> Pause {
        Pause(bits).given()
    }

    /// Whether there is no reason.
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// These reasons without those of `other`.
    #[must_use]
    pub const fn without(self, other: Pause) -> Pause {
        Pause(self.0 & !other.0)
    }
}

impl BitOr for Pause {
    type Output = Pause;

    #[inline]
    fn bitor(self, other: Pause) -> Pause {
        Pause(self.0 | other.0)
    }
}

impl BitOrAssign for Pause {
    fn bitor_assign(&mut self, other: Pause) {
        self.0 |= other.0;
    }
}

/// Who wants to consume, and how.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Its number in the node.
    pub id: ConsumerId,
    /// Its channel.
    pub holder: HolderId,
    /// Its name within the channel.
    pub tag: ConsumerTag,
    /// Most unsettled deliveries; 0 is no limit (quorum queues: `QUORUM_UNLIMITED_PREFETCH`).
    pub prefetch: u16,
    /// `x-priority`: higher ones are served first.
    pub priority: i64,
    /// Wants to be alone. Quorum queues ignore it.
    pub exclusive: bool,
    /// Deliveries need no ack and take no credit.
    pub no_ack: bool,
    /// Its own `x-consumer-timeout` in milliseconds; none is the queue's.
    pub timeout_ms: Option<u64>,
    /// The client understands a `basic.cancel` from the server.
    pub cancel_notify: bool,
    /// Reasons to give it nothing at first.
    pub paused: Pause,
}

impl Consumer {
    /// A consumer with acks, no prefetch limit and priority 0.
    pub fn new(id: ConsumerId, holder: HolderId, tag: ConsumerTag) -> Self {
        Self {
            id,
            holder,
            tag,
            prefetch: 0,
            priority: 0,
            exclusive: false,
            no_ack: false,
            timeout_ms: None,
            cancel_notify: true,
            paused: Pause::NONE,
        }
    }
}

/// What a consumer is to its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConsumerState {
    /// One of those that are served.
    Up,
    /// The single active one.
    SingleActive,
    /// Waits to become the single active one.
    Waiting,
    /// Was late with a delivery; its channel is about to be closed.
    TimedOut,
}

/// A consumer, for listings.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerView<'a> {
    /// As it was added.
    pub consumer: &'a Consumer,
    /// What it is to the queue.
    pub state: ConsumerState,
    /// Reasons for which it is given nothing at the moment.
    pub paused: Pause,
    /// Unsettled deliveries.
    pub unacked: u32,
}
