//! What the tests of this crate share: a disk that remembers, a sink that collects, an owner with a model.
//!
//! Used by several test programs, each of which needs only some of it.
#![allow(dead_code, unreachable_pub)]

pub mod disk;
pub mod history;
pub mod shelf;
pub mod sink;

/// A small generator of numbers: the same seed, the same run (SplitMix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// Waits until the condition holds; fails loudly if it never does.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut tries = 0;
    while !holds() {
        assert!(
            std::time::Instant::now() < deadline,
            "gave up waiting until {what}"
        );
        tries += 1;
        if tries < 50 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
}
