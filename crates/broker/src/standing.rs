//! How a message stands in its queue that was handed out before: its counts, and what it waits for.
//! The form that records and checkpoints have in common.
//!
//! ```text
//! counted  = delivery_count u32 · acquired_count u32 · standing
//! standing = kind u8 (0 in its line · 1 held back · 2 dead) · value u64 (until, ms · reason · 0)
//! ```

use broker_core::Timestamp;
use broker_core::dead_letter::DeathReason;
use broker_core::queue::{EntryId, Handle, QueueMachine};

/// What a message that was handed out before waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A consumer.
    #[default]
    InLine,
    /// This moment.
    HeldBack(Timestamp),
    /// The targets of its dead letter.
    Dead(DeathReason),
}

/// Counts and standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) delivery_count: u32,
    pub(crate) acquired_count: u32,
    pub(crate) standing: Standing,
}

/// Bytes of the stored form.
pub(crate) const COUNTED_BYTES: usize = 17;

const IN_LINE: u8 = 0;
const HELD_BACK: u8 = 1;
const DEAD: u8 = 2;

const REASONS: [DeathReason; 4] = [
    DeathReason::Rejected,
    DeathReason::Expired,
    DeathReason::MaxLength,
    DeathReason::DeliveryLimit,
];

impl Counted {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (kind, value) = match self.standing {
            Standing::InLine => (IN_LINE, 0),
            Standing::HeldBack(until) => (HELD_BACK, until.0),
            Standing::Dead(reason) => {
                let code = REASONS.iter().position(|known| *known == reason);
                (DEAD, code.unwrap_or_default() as u64)
            }
        };
        out.extend_from_slice(&self.delivery_count.to_le_bytes());
        out.extend_from_slice(&self.acquired_count.to_le_bytes());
        out.push(kind);
        out.extend_from_slice(&value.to_le_bytes());
    }

    /// Reads the stored form; `None` when it is not one of ours.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (delivery, rest) = bytes.split_first_chunk::<4>()?;
        let (acquired, rest) = rest.split_first_chunk::<4>()?;
        let (kind, rest) = rest.split_first()?;
        let (value, rest) = rest.split_first_chunk::<8>()?;
        let value = u64::from_le_bytes(*value);
        let standing = match *kind {
            IN_LINE => Standing::InLine,
            HELD_BACK => Standing::HeldBack(Timestamp(value)),
            DEAD => Standing::Dead(*REASONS.get(usize::try_from(value).ok()?)?),
            _ => return None,
        };
        rest.is_empty().then_some(Self {
            delivery_count: u32::from_le_bytes(*delivery),
            acquired_count: u32::from_le_bytes(*acquired),
            standing,
        })
    }

    /// Puts a message of a queue where it stood. Answers whether it is there.
    pub(crate) fn restore<C: Handle>(&self, machine: &mut QueueMachine<C>, id: EntryId) -> bool {
        let (delivered, acquired) = (self.delivery_count, self.acquired_count);
        match self.standing {
            Standing::InLine => machine.returned(id, delivered, acquired, None),
            Standing::HeldBack(until) => machine.returned(id, delivered, acquired, Some(until)),
            Standing::Dead(reason) => machine.restore_dead_letter(id, reason, delivered, acquired),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_standing_comes_back_as_it_went() {
        let dead = REASONS.map(Standing::Dead);
        let others = [Standing::InLine, Standing::HeldBack(Timestamp(77))];
        for standing in dead.into_iter().chain(others) {
            let counted = Counted {
                delivery_count: 3,
                acquired_count: 4,
                standing,
            };
            let mut bytes = Vec::new();
            counted.put(&mut bytes);
            assert_eq!(bytes.len(), COUNTED_BYTES);
            assert_eq!(Counted::read(&bytes), Some(counted));
            for len in 0..bytes.len() {
                assert_eq!(Counted::read(&bytes[..len]), None, "cut at {len}");
            }
        }
    }
}
