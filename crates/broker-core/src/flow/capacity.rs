//! Overfull and underfull: a queue's logical size against its capacity, with hysteresis.
//!
//! Admission follows [`Fullness::is_overfull`] at once. What is said about it (log, wire) follows
//! the [`Turn`]s, which keep a distance where capacity and resume capacity are the same number.

use crate::settings::{Overflow, QueueSettings};
use crate::time::{Millis, Timestamp};

/// Least time between two turns of a queue that resumes at its capacity, unless its size has
/// moved by a message.
const TURN_GAP_MS: u64 = 1_000;

/// No limit.
const NONE: u64 = u64::MAX;

/// The sizes at which a queue turns. Either one over makes it overfull, both must be under to end
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityLimits {
    bytes: u64,
    resume_bytes: u64,
    messages: u64,
    resume_messages: u64,
}

impl CapacityLimits {
    /// The limits of a queue; `None` when it holds nobody.
    pub fn of(settings: &QueueSettings) -> Option<Self> {
        let some = |limit: Option<u64>| limit.filter(|limit| *limit > 0);
        let (bytes, messages) = (
            some(settings.capacity_bytes),
            some(settings.capacity_messages),
        );
        if settings.overflow == Overflow::FlowToDisk || (bytes, messages) == (None, None) {
            return None;
        }
        let (bytes, messages) = (bytes.unwrap_or(NONE), messages.unwrap_or(NONE));
        let eighty_percent = match messages {
            NONE => NONE,
            messages => messages - messages.div_ceil(5),
        };
        Some(Self {
            bytes,
            resume_bytes: settings
                .flow_resume_capacity_bytes
                .map_or(bytes, |resume| resume.min(bytes)),
            messages,
            resume_messages: settings
                .flow_resume_messages
                .map_or(eighty_percent, |resume| resume.min(messages)),
        })
    }

    /// Bytes above which the queue is overfull; the largest number is no limit.
    pub fn capacity_bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes at or below which it is underfull.
    pub fn resume_bytes(&self) -> u64 {
        self.resume_bytes
    }

    /// Messages above which it is overfull; the largest number is no limit.
    pub fn capacity_messages(&self) -> u64 {
        self.messages
    }

    /// Messages at or below which it is underfull.
    pub fn resume_messages(&self) -> u64 {
        self.resume_messages
    }

    fn is_over(&self, bytes: u64, messages: u64) -> bool {
        bytes > self.bytes || messages > self.messages
    }

    // Qpid: "less than" in its handbook, "not above" in its code; with the former a resume
    // capacity of 0 would never resume.
    fn is_under(&self, bytes: u64, messages: u64) -> bool {
        bytes <= self.resume_bytes && messages <= self.resume_messages
    }

    fn has_gap(&self) -> bool {
        let bytes = self.bytes == NONE || self.resume_bytes < self.bytes;
        let messages = self.messages == NONE || self.resume_messages < self.messages;
        bytes && messages
    }

    /// Whether the size is at least one average message below both limits.
    fn is_a_message_under(&self, bytes: u64, messages: u64) -> bool {
        let average = bytes.checked_div(messages).unwrap_or(0).max(1);
        let bytes_under = self.bytes == NONE || bytes.saturating_add(average) <= self.bytes;
        let messages_under = self.messages == NONE || messages < self.messages;
        bytes_under && messages_under
    }
}

/// A change that is worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The queue holds its publishers from here on.
    Overfull,
    /// It does so no more.
    Underfull,
}

/// Whether a queue is overfull, and what was said about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fullness {
    limits: Option<CapacityLimits>,
    overfull: bool,
    /// What the world was told last, and when.
    told: bool,
    told_at: Option<Timestamp>,
    overfull_at: Option<Timestamp>,
    turns: u64,
    overfull_ms: u64,
}

impl Fullness {
    /// A queue with these limits that is not overfull.
    pub fn new(limits: Option<CapacityLimits>) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The limits; `None` when the queue holds nobody.
    pub fn limits(&self) -> Option<CapacityLimits> {
        self.limits
    }

    /// Other limits apply. Call [`Fullness::note`] afterwards.
    pub fn set_limits(&mut self, limits: Option<CapacityLimits>) {
        self.limits = limits;
    }

    /// Whether new messages must wait.
    pub fn is_overfull(&self) -> bool {
        self.overfull
    }

    /// Whether the world was told that it is overfull: what is said on the wire follows this.
    pub fn is_told_overfull(&self) -> bool {
        self.told
    }

    /// Since when it is overfull.
    pub fn overfull_since(&self) -> Option<Timestamp> {
        self.overfull_at.filter(|_| self.overfull)
    }

    /// How often it became overfull.
    pub fn times_overfull(&self) -> u64 {
        self.turns
    }

    /// How long it was overfull, all in all.
    pub fn overfull_ms(&self, now: Timestamp) -> u64 {
        let current = self.overfull_since().map_or(0, |since| now.since(since).0);
        self.overfull_ms + current
    }

    /// Whether a turn waits to be told; call [`Fullness::note`] again later.
    pub fn owes_a_turn(&self) -> bool {
        self.told != self.overfull
    }

    /// The queue's size has changed, or time has passed. Answers what is to be told.
    pub fn note(&mut self, now: Timestamp, bytes: u64, messages: u64) -> Option<Turn> {
        let Some(limits) = self.limits else {
            self.become_(now, false);
            return self.tell(now);
        };
        if !self.overfull && limits.is_over(bytes, messages) {
            self.become_(now, true);
        } else if self.overfull && limits.is_under(bytes, messages) {
            self.become_(now, false);
        }
        if !self.owes_a_turn() {
            return None;
        }
        let waited = self
            .told_at
            .is_none_or(|at| now.since(at) >= Millis(TURN_GAP_MS));
        let moved = !self.overfull && limits.is_a_message_under(bytes, messages);
        match limits.has_gap() || waited || moved {
            true => self.tell(now),
            false => None,
        }
    }

    fn become_(&mut self, now: Timestamp, overfull: bool) {
        if self.overfull == overfull {
            return;
        }
        if overfull {
            self.turns += 1;
            self.overfull_at = Some(now);
        } else {
            self.overfull_ms = self.overfull_ms(now);
        }
        self.overfull = overfull;
    }

    fn tell(&mut self, now: Timestamp) -> Option<Turn> {
        if !self.owes_a_turn() {
            return None;
        }
        self.told = self.overfull;
        self.told_at = Some(now);
        Some(match self.overfull {
            true => Turn::Overfull,
            false => Turn::Underfull,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(capacity: u64, resume: Option<u64>) -> QueueSettings {
        QueueSettings {
            capacity_bytes: Some(capacity),
            flow_resume_capacity_bytes: resume,
            ..QueueSettings::default()
        }
    }

    fn of(settings: &QueueSettings) -> Fullness {
        Fullness::new(CapacityLimits::of(settings))
    }

    #[test]
    fn a_queue_is_overfull_above_its_capacity_and_underfull_at_its_resume_capacity() {
        let mut queue = of(&settings(1_000, Some(800)));
        assert_eq!(queue.note(Timestamp(0), 1_000, 5), None);
        assert_eq!(queue.note(Timestamp(0), 1_200, 6), Some(Turn::Overfull));
        assert_eq!(queue.note(Timestamp(0), 801, 4), None);
        assert!(queue.is_overfull());
        assert_eq!(queue.note(Timestamp(0), 800, 4), Some(Turn::Underfull));
        assert!(!queue.is_overfull());
        assert_eq!(queue.times_overfull(), 1);
    }

    #[test]
    fn a_resume_capacity_of_zero_resumes_when_the_queue_is_empty() {
        let mut queue = of(&settings(100, Some(0)));
        queue.note(Timestamp(0), 101, 1);
        assert_eq!(queue.note(Timestamp(0), 0, 0), Some(Turn::Underfull));
    }

    #[test]
    fn either_measure_over_is_overfull_and_both_under_end_it() {
        let mut queue = of(&QueueSettings {
            capacity_messages: Some(10),
            ..settings(1_000, Some(500))
        });
        assert_eq!(queue.note(Timestamp(0), 10, 11), Some(Turn::Overfull));
        assert_eq!(queue.note(Timestamp(0), 10, 9), None);
        // 80 % of ten messages.
        assert_eq!(queue.note(Timestamp(0), 600, 8), None);
        assert_eq!(queue.note(Timestamp(0), 500, 8), Some(Turn::Underfull));
    }

    #[test]
    fn without_a_gap_admission_flips_at_once_and_the_word_waits_for_a_message_or_a_second() {
        let mut queue = of(&settings(1_000, None));
        assert_eq!(queue.note(Timestamp(0), 1_001, 10), Some(Turn::Overfull));
        assert_eq!(queue.note(Timestamp(1), 1_000, 10), None);
        assert!(!queue.is_overfull() && queue.owes_a_turn());
        // One average message below.
        assert_eq!(queue.note(Timestamp(2), 900, 9), Some(Turn::Underfull));
        assert_eq!(queue.note(Timestamp(3), 1_001, 10), None);
        assert!(queue.is_overfull());
        assert_eq!(
            queue.note(Timestamp(1_002), 1_001, 10),
            Some(Turn::Overfull)
        );
    }

    #[test]
    fn taking_the_capacity_away_ends_the_overfull_state() {
        let mut queue = of(&settings(10, None));
        queue.note(Timestamp(0), 11, 1);
        queue.set_limits(None);
        assert_eq!(queue.note(Timestamp(5), 11, 1), Some(Turn::Underfull));
        assert_eq!(queue.overfull_ms(Timestamp(100)), 5);
    }

    #[test]
    fn no_capacity_and_flow_to_disk_hold_nobody() {
        assert_eq!(CapacityLimits::of(&QueueSettings::default()), None);
        assert_eq!(CapacityLimits::of(&settings(0, None)), None);
        let to_disk = QueueSettings {
            overflow: Overflow::FlowToDisk,
            ..settings(10, None)
        };
        assert_eq!(CapacityLimits::of(&to_disk), None);
    }

    #[test]
    fn a_resume_capacity_above_the_capacity_counts_as_the_capacity() {
        let limits = CapacityLimits::of(&settings(10, Some(20))).unwrap();
        assert_eq!(limits.resume_bytes(), 10);
    }
}
