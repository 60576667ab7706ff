//! What live messages went through: how their last attempts ended, what the application said of
//! them, and how often one consumer gave one back within a minute.
//!
//! Known to the leader only and gone with a restart: counts that rules depend on are the
//! messages' own. Only messages that somebody held are in here, and no more than a bound.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::effect::{DiscardCause, ReturnCause};
use super::entry::{ConsumerId, HolderId};
use super::table::Place;
use crate::names::ConsumerTag;
use crate::time::Timestamp;

/// Attempts of a message that are remembered, the last ones.
pub const ATTEMPTS_KEPT_MAX: usize = 8;

/// Messages of one queue whose past is remembered at a time: 10 MiB at most. Others are treated
/// as if nothing had happened to them.
pub const PASTS_KEPT_MAX: usize = 1 << 16;

/// Bytes of an application's reason.
pub const REASON_BYTES_MAX: usize = 1024;

/// The time in which returns are counted for a poison loop, in milliseconds.
const POISON_LOOP_WINDOW_MS: u64 = 60_000;

/// How one delivery of a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptEnd {
    /// It came back.
    Returned(ReturnCause),
    /// It was not wanted.
    Discarded(DiscardCause),
}

impl AttemptEnd {
    /// The word in dead letters.
    pub fn name(self) -> &'static str {
        match self {
            AttemptEnd::Returned(ReturnCause::Nack) => "nack",
            AttemptEnd::Returned(ReturnCause::Reject) => "reject",
            AttemptEnd::Returned(ReturnCause::Recover) => "recover",
            AttemptEnd::Returned(ReturnCause::Timeout) => "timeout",
            AttemptEnd::Returned(ReturnCause::ChannelClosed) => "channel-closed",
            AttemptEnd::Returned(ReturnCause::ConnectionLost) => "connection-lost",
            AttemptEnd::Returned(ReturnCause::NodeDown) => "node-down",
            AttemptEnd::Discarded(DiscardCause::Nack) => "nack-discard",
            AttemptEnd::Discarded(DiscardCause::Reject) => "reject-discard",
        }
    }
}

/// One delivery of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it was handed out.
    pub since: Timestamp,
    /// When it ended.
    pub until: Timestamp,
    /// How.
    pub end: AttemptEnd,
}

/// What a message went through, as its dead letter tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The last attempts, oldest first; at most `ATTEMPTS_KEPT_MAX`.
    pub attempts: SmallVec<[Attempt; 2]>,
    /// The consumer of the last one; none when it was fetched.
    pub consumer: Option<ConsumerTag>,
    /// What the application said of it; at most `REASON_BYTES_MAX`.
    pub reason: Option<Arc<str>>,
}

impl Past {
    fn add(&mut self, attempt: Attempt, consumer: Option<ConsumerTag>) {
        if self.attempts.len() == ATTEMPTS_KEPT_MAX {
            self.attempts.remove(0);
        }
        self.attempts.push(attempt);
        self.consumer = consumer;
    }
}

/// Whose return it was.
pub(super) type Giver = (HolderId, Option<ConsumerId>);

#[derive(Debug, Default)]
struct Memory {
    past: Past,
    returns: Returns,
}

/// Returns by one giver since a moment.
#[derive(Debug, Default)]
struct Returns {
    by: Option<Giver>,
    from: Timestamp,
    count: u32,
    told: bool,
}

impl Returns {
    /// Counts one more. Answers how many there were when that is the first time within the
    /// window that they are more than `limit`.
    fn count(&mut self, now: Timestamp, by: Giver, limit: u32) -> Option<u32> {
        let is_over = now.since(self.from).0 >= POISON_LOOP_WINDOW_MS;
        if self.by != Some(by) || is_over {
            *self = Self {
                by: Some(by),
                from: now,
                count: 0,
                told: false,
            };
        }
        self.count = self.count.saturating_add(1);
        let tells = self.count > limit && !self.told;
        self.told |= tells;
        tells.then_some(self.count)
    }
}

#[derive(Debug, Default)]
pub(super) struct Pasts {
    by_place: FxHashMap<Place, Box<Memory>>,
}

impl Pasts {
    fn of(&mut self, place: Place) -> Option<&mut Memory> {
        if self.by_place.len() >= PASTS_KEPT_MAX && !self.by_place.contains_key(&place) {
            return None;
        }
        Some(self.by_place.entry(place).or_default())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// An attempt has ended.
    pub(super) fn add(&mut self, place: Place, attempt: Attempt, consumer: Option<ConsumerTag>) {
        if let Some(memory) = self.of(place) {
            memory.past.add(attempt, consumer);
        }
    }

    /// A return that may be one too many; see [`Returns::count`].
    pub(super) fn returned(
        &mut self,
        place: Place,
        now: Timestamp,
        by: Giver,
        limit: u32,
    ) -> Option<u32> {
        self.of(place)?.returns.count(now, by, limit)
    }

    /// The application's word on a message. Answers whether it is remembered.
    pub(super) fn say(&mut self, place: Place, reason: &str) -> bool {
        let Some(memory) = self.of(place) else {
            return false;
        };
        memory.past.reason = Some(cut(reason).into());
        true
    }

    pub(super) fn get(&self, place: Place) -> Option<&Past> {
        self.by_place.get(&place).map(|memory| &memory.past)
    }

    /// The message has left.
    pub(super) fn take(&mut self, place: Place) -> Option<Past> {
        let taken = self.by_place.remove(&place)?;
        let (len, capacity) = (self.by_place.len(), self.by_place.capacity());
        if capacity > 64 && len * 4 < capacity {
            self.by_place.shrink_to(len * 2);
        }
        Some(taken.past)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let each = size_of::<(Place, Box<Memory>)>();
        self.by_place.capacity() * each + self.by_place.len() * size_of::<Memory>()
    }
}

/// As much of a reason as is kept, ending with a whole character.
fn cut(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: Giver = (HolderId(1), Some(ConsumerId(1)));
    const BY_ANOTHER: Giver = (HolderId(1), Some(ConsumerId(2)));

    #[test]
    fn a_loop_is_told_once_a_window_and_by_one_giver_only() {
        let mut returns = Returns::default();
        let told = |returns: &mut Returns, at_ms: u64, by| returns.count(Timestamp(at_ms), by, 2);
        assert_eq!(told(&mut returns, 1, BY), None);
        assert_eq!(told(&mut returns, 2, BY), None);
        assert_eq!(told(&mut returns, 3, BY), Some(3));
        assert_eq!(told(&mut returns, 4, BY), None);
        for at in 5..=6 {
            assert_eq!(told(&mut returns, at, BY_ANOTHER), None);
        }
        assert_eq!(told(&mut returns, 7, BY_ANOTHER), Some(3));
        for at in [60_100, 60_200] {
            assert_eq!(told(&mut returns, at, BY_ANOTHER), None);
        }
        assert_eq!(told(&mut returns, 60_300, BY_ANOTHER), Some(3));
    }

    #[test]
    fn only_the_last_attempts_are_kept() {
        let mut past = Past::default();
        for at in 0..20 {
            let attempt = Attempt {
                since: Timestamp(at),
                until: Timestamp(at + 1),
                end: AttemptEnd::Returned(ReturnCause::Nack),
            };
            past.add(attempt, None);
        }
        assert_eq!(past.attempts.len(), ATTEMPTS_KEPT_MAX);
        assert_eq!(past.attempts[0].since, Timestamp(12));
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let long = "é".repeat(REASON_BYTES_MAX);
        assert_eq!(cut(&long).len(), REASON_BYTES_MAX);
        let odd = format!("a{long}");
        assert_eq!(cut(&odd).len(), REASON_BYTES_MAX - 1);
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn no_more_than_the_bound_is_remembered() {
        let mut pasts = Pasts::default();
        let places: Vec<Place> = Place::first(PASTS_KEPT_MAX as u64 + 10).collect();
        let remembered = places
            .iter()
            .filter(|place| pasts.say(**place, "x"))
            .count();
        assert_eq!(remembered, PASTS_KEPT_MAX);
        for place in places {
            pasts.take(place);
        }
        assert!(pasts.memory_bytes() < 4096);
    }
}
