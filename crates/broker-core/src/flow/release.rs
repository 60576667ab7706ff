//! Who is let in, and who is held first.

use super::{CapacityLimits, Fullness};

/// How much of what waits for a queue may come in now. A message counts before the next is asked
/// about, so that a release never goes above the capacity.
// Sum: capacity, and one message where nothing else would ever fit.
pub fn allowance(limits: Option<CapacityLimits>, fullness: &Fullness, size: Admit) -> bool {
    if fullness.is_overfull() {
        return false;
    }
    let Some(limits) = limits else {
        return true;
    };
    let fits = size.bytes.saturating_add(size.next_bytes) <= limits.capacity_bytes()
        && size.messages < limits.capacity_messages();
    // A message that is larger than the capacity comes in alone.
    let oversized = size.next_bytes > limits.capacity_bytes()
        && size.bytes <= limits.resume_bytes()
        && size.messages <= limits.resume_messages();
    fits || oversized
}

/// A queue's size and the message that wants in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admit {
    /// Logical bytes, those under way included.
    pub bytes: u64,
    /// Messages, those under way included.
    pub messages: u64,
    /// The next message's logical bytes.
    pub next_bytes: u64,
}

/// The queues whose publishers are held when a part of the memory is full: those over their fair
/// share of it. Answers the share in bytes; a queue with more resident bytes is guilty.
pub fn guilty(limit_bytes: u64, queues_with_resident_bytes: u64) -> u64 {
    limit_bytes / queues_with_resident_bytes.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::QueueSettings;

    fn limits() -> Option<CapacityLimits> {
        CapacityLimits::of(&QueueSettings {
            capacity_bytes: Some(100),
            flow_resume_capacity_bytes: Some(50),
            ..QueueSettings::default()
        })
    }

    fn size(bytes: u64, next_bytes: u64) -> Admit {
        Admit {
            bytes,
            messages: 1,
            next_bytes,
        }
    }

    #[test]
    fn what_waits_comes_in_up_to_the_capacity() {
        let open = Fullness::new(limits());
        assert!(allowance(limits(), &open, size(60, 40)));
        assert!(!allowance(limits(), &open, size(61, 40)));
    }

    #[test]
    fn a_message_above_the_capacity_comes_in_when_the_queue_is_down_to_its_resume_capacity() {
        let open = Fullness::new(limits());
        assert!(!allowance(limits(), &open, size(51, 500)));
        assert!(allowance(limits(), &open, size(50, 500)));
    }

    #[test]
    fn nothing_comes_in_while_the_queue_is_overfull_and_all_without_a_capacity() {
        let mut full = Fullness::new(limits());
        full.note(crate::Timestamp(0), 101, 1);
        assert!(!allowance(limits(), &full, size(60, 1)));
        assert!(allowance(None, &Fullness::new(None), size(1 << 40, 1)));
    }

    #[test]
    fn the_fair_share_is_the_limit_by_the_queues_that_hold_something() {
        assert_eq!(guilty(1_000, 4), 250);
        assert_eq!(guilty(1_000, 0), 1_000);
    }
}
