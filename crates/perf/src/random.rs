//! A small seeded generator for sizes, bodies and the soak's choices.
//!
//! Equal seeds give equal choices, so a soak can be repeated by its seed. Not for secrets.

/// SplitMix64: one multiplication chain per number, every seed is a good one.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) const fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator whose seed nobody can repeat, for run marks.
    pub(crate) fn from_time() -> Self {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |elapsed| elapsed.as_nanos() as u64);
        Self::seeded(since_epoch ^ (u64::from(std::process::id()) << 40))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number of `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low).saturating_add(1);
        low + self.next_u64() % span
    }

    /// True `percent` times of a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next_u64() % 100 < percent
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_choices_and_other_seeds_do_not() {
        let draw = |seed| {
            let mut random = Random::seeded(seed);
            [random.next_u64(), random.between(3, 9), random.next_u64()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_range_holds_both_ends_and_nothing_else() {
        let mut random = Random::seeded(1);
        let drawn: Vec<u64> = (0..1_000).map(|_| random.between(5, 8)).collect();
        assert!(drawn.iter().all(|number| (5..=8).contains(number)));
        assert!((5..=8).all(|number| drawn.contains(&number)));
    }
}
