//! Which messages of a queue stay in memory: the first ones, up to the high-water mark.

use super::HIGH_WATER_DEFAULT_PERCENT;

/// A queue's resident bytes against its memory limit.
///
/// New arrivals are kept while they fit below the mark; what does not is paged: the queue knows
/// where it is and reads it when its turn comes. Nobody is held for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    high_water_bytes: u64,
    resident_bytes: u64,
    paged_messages: u64,
}

impl Paging {
    /// For a memory limit in bytes; `None` keeps everything.
    pub fn new(memory_limit_bytes: Option<u64>) -> Self {
        let mut paging = Self {
            high_water_bytes: u64::MAX,
            resident_bytes: 0,
            paged_messages: 0,
        };
        paging.set_limit(memory_limit_bytes, HIGH_WATER_DEFAULT_PERCENT);
        paging
    }

    /// Another limit or mark applies to what comes.
    pub fn set_limit(&mut self, memory_limit_bytes: Option<u64>, high_water_percent: u64) {
        self.high_water_bytes = memory_limit_bytes.map_or(u64::MAX, |limit| {
            (u128::from(limit) * u128::from(high_water_percent.min(100)) / 100) as u64
        });
    }

    /// A message arrives: whether it is kept in memory.
    pub fn arrives(&mut self, bytes: u64) -> bool {
        let kept = self.paged_messages == 0 && self.fits(bytes);
        match kept {
            true => self.resident_bytes += bytes,
            false => self.paged_messages += 1,
        }
        kept
    }

    /// A resident message has left the queue's memory: delivered, gone, or paged out.
    pub fn left(&mut self, bytes: u64) {
        debug_assert!(self.resident_bytes >= bytes, "more left than was resident");
        self.resident_bytes = self.resident_bytes.saturating_sub(bytes);
    }

    /// A paged message is next: whether there is room to read it ahead of its delivery.
    pub fn read_ahead(&mut self, bytes: u64) -> bool {
        let taken = self.paged_messages > 0 && self.fits(bytes);
        if taken {
            self.paged_messages -= 1;
            self.resident_bytes += bytes;
        }
        taken
    }

    /// A paged message was delivered straight from disk, or is gone.
    pub fn paged_left(&mut self) {
        self.paged_messages = self.paged_messages.saturating_sub(1);
    }

    /// Bytes of messages in memory.
    pub fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }

    /// Messages that are on disk only.
    pub fn paged_messages(&self) -> u64 {
        self.paged_messages
    }

    fn fits(&self, bytes: u64) -> bool {
        self.resident_bytes.saturating_add(bytes) <= self.high_water_bytes
    }
}

/// How many of a queue's resident bytes belong to messages that are handed out: the consumers'
/// part. Messages are handed out from the head and leave memory from the head, so those that are
/// not resident are handed out first.
pub fn handed_out_part(
    resident_bytes: u64,
    resident_messages: u64,
    messages: u64,
    handed_out: u64,
) -> u64 {
    let elsewhere = messages.saturating_sub(resident_messages);
    let resident = handed_out.saturating_sub(elsewhere).min(resident_messages);
    let part = u128::from(resident_bytes) * u128::from(resident);
    part.checked_div(resident_messages.into()).unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_out_is_the_consumers_part() {
        assert_eq!(handed_out_part(1_000, 10, 10, 4), 400);
        assert_eq!(handed_out_part(1_000, 10, 10, 10), 1_000);
        // Six are on disk: the first of those that are handed out.
        assert_eq!(handed_out_part(400, 4, 10, 6), 0);
        assert_eq!(handed_out_part(400, 4, 10, 7), 100);
        assert_eq!(handed_out_part(0, 0, 0, 0), 0);
    }

    #[test]
    fn without_a_limit_everything_is_kept() {
        let mut paging = Paging::new(None);
        assert!(paging.arrives(u64::MAX / 2));
        assert_eq!(paging.paged_messages(), 0);
    }

    #[test]
    fn nothing_overtakes_what_is_paged_and_what_is_next_is_read_ahead() {
        let mut paging = Paging::new(Some(100));
        assert!(paging.arrives(60));
        assert!(!paging.arrives(60));
        // It would fit, but it comes after one that does not.
        assert!(!paging.arrives(1));
        assert!(!paging.read_ahead(60));
        paging.left(60);
        assert!(paging.read_ahead(60));
        paging.paged_left();
        assert_eq!((paging.paged_messages(), paging.resident_bytes()), (0, 60));
    }
}
