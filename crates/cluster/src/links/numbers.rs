//! Numbers of questions to other nodes. Must not know what is asked.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that no question of this node has, in this life of it or an earlier one: what another
/// node answers to a question from before a crash must not pass for the answer to a new one.
#[derive(Debug)]
pub struct CallNumbers(AtomicU64);

impl Default for CallNumbers {
    fn default() -> Self {
        Self(AtomicU64::new(rand::random()))
    }
}

impl CallNumbers {
    /// The next one.
    pub fn draw(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lives_of_a_node_share_no_number() {
        let draw_some = || {
            let numbers = CallNumbers::default();
            std::array::from_fn::<u64, 1000, _>(|_| numbers.draw())
        };
        let before = draw_some();
        assert!(draw_some().iter().all(|number| !before.contains(number)));
    }
}
