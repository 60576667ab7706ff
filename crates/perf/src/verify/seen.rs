//! Sets of sequence numbers that cost a bit or less per message.

use std::collections::VecDeque;

const BITS: u64 = 64;
/// How far a number may lie ahead of the gapless beginning: 2^28 numbers, 32 MiB of bits.
const AHEAD_WORDS_MAX: u64 = 1 << 22;

/// What adding a number to [`Seen`] showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    First,
    Again,
    /// Too far ahead to be one of ours; not added.
    Absurd,
}

/// Numbers seen so far. The gapless beginning takes no memory, so a run in order takes none.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Words in front of `words`, all of whose numbers were seen.
    full_words: u64,
    words: VecDeque<u64>,
}

impl Seen {
    pub(crate) fn insert(&mut self, number: u64) -> Sight {
        let Some(index) = (number / BITS).checked_sub(self.full_words) else {
            return Sight::Again;
        };
        if index > AHEAD_WORDS_MAX {
            return Sight::Absurd;
        }
        let index = index as usize;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        let bit = 1 << (number % BITS);
        let fresh = self.words[index] & bit == 0;
        self.words[index] |= bit;
        while self.words.front() == Some(&u64::MAX) {
            self.words.pop_front();
            self.full_words += 1;
        }
        if fresh { Sight::First } else { Sight::Again }
    }

    /// The numbers below `end` that were not seen.
    pub(crate) fn missing(&self, end: u64) -> impl Iterator<Item = u64> + '_ {
        let start = self.full_words * BITS;
        (start..end.max(start)).filter(move |number| {
            let word = self.words.get((number / BITS - self.full_words) as usize);
            word.is_none_or(|word| word & (1 << (number % BITS)) == 0)
        })
    }
}

/// Numbers picked from a long range, such as the refused publishes of a producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SequenceSet {
    words: Vec<u64>,
}

impl SequenceSet {
    pub(crate) fn insert(&mut self, number: u64) {
        let index = (number / BITS) as usize;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        self.words[index] |= 1 << (number % BITS);
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let word = self.words.get((number / BITS) as usize);
        word.is_some_and(|word| word & (1 << (number % BITS)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_fresh_once_in_any_order() {
        let mut seen = Seen::default();
        for number in [5, 0, 300, 64, 63] {
            assert_eq!(seen.insert(number), Sight::First, "{number}");
            assert_eq!(seen.insert(number), Sight::Again, "{number}");
        }
    }

    #[test]
    fn a_gapless_beginning_is_remembered_without_memory() {
        let mut seen = Seen::default();
        for number in 0..1_000 {
            assert_eq!(seen.insert(number), Sight::First);
        }
        assert!(seen.words.len() <= 1);
        assert_eq!(seen.insert(3), Sight::Again);
        assert_eq!(seen.missing(1_002).collect::<Vec<_>>(), [1_000, 1_001]);
    }

    #[test]
    fn a_number_out_of_all_reason_costs_no_memory() {
        let mut seen = Seen::default();
        assert_eq!(seen.insert(u64::MAX), Sight::Absurd);
        assert!(seen.words.is_empty());
    }

    #[test]
    fn missing_numbers_are_found_before_among_and_behind_the_seen() {
        let mut seen = Seen::default();
        for number in [1, 2, 70] {
            seen.insert(number);
        }
        let missing: Vec<u64> = seen.missing(72).collect();
        assert_eq!(missing.len(), 72 - 3);
        assert!(missing.contains(&0) && missing.contains(&69) && missing.contains(&71));
        assert_eq!(seen.missing(0).count(), 0);
    }

    #[test]
    fn a_sequence_set_holds_what_was_put_in() {
        let mut set = SequenceSet::default();
        for number in [3, 3, 200] {
            set.insert(number);
        }
        assert!(set.contains(3) && set.contains(200));
        assert!(!set.contains(4) && !set.contains(10_000));
    }
}
