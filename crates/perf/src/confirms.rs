//! Which publishes of a channel await their confirm, and since when.
//!
//! A ring of publish times, one slot per delivery tag; confirms may come one by one, in any order,
//! or for all up to a tag. Knows nothing of frames; allocates once.

/// The widest window that can be asked for.
pub(crate) const CONFIRM_WINDOW_MAX: u32 = 1_000_000;

/// Slots per message of the window: how far one late confirm lets the others run ahead.
const SLOTS_PER_MESSAGE: u64 = 4;
const SLOTS_MIN: u64 = 1_024;
const SETTLED: u64 = 0;

/// The publishes that await their confirm.
#[derive(Debug)]
pub(crate) struct ConfirmWindow {
    /// Publish time by tag modulo its length; [`SETTLED`] where none is awaited.
    published_ns: Box<[u64]>,
    window: u64,
    open: u64,
    /// The lowest tag that may be unsettled.
    lowest: u64,
    /// The next publish's tag.
    next_tag: u64,
}

/// The broker confirmed what it should not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfirmFault {
    #[error("the broker confirmed publish {tag}, but only {published} were published")]
    NeverPublished { tag: u64, published: u64 },
    #[error("the broker confirmed publish {tag} twice")]
    Twice { tag: u64 },
}

impl ConfirmWindow {
    pub(crate) fn new(window: u32) -> Self {
        let window = u64::from(window.clamp(1, CONFIRM_WINDOW_MAX));
        let slots = (window * SLOTS_PER_MESSAGE).max(SLOTS_MIN);
        Self {
            published_ns: vec![SETTLED; slots as usize].into(),
            window,
            open: 0,
            lowest: 1,
            next_tag: 1,
        }
    }

    /// Whether one more may be published.
    pub(crate) fn has_room(&self) -> bool {
        self.open < self.window && self.next_tag - self.lowest < self.published_ns.len() as u64
    }

    /// How many await their confirm.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// Notes a publish; its tags count from 1 as the broker's do.
    pub(crate) fn published(&mut self, at_ns: u64) {
        let slot = self.slot(self.next_tag);
        self.published_ns[slot] = at_ns.max(SETTLED + 1);
        self.next_tag += 1;
        self.open += 1;
    }

    /// Settles a tag, or all up to it, and calls `settled` with tag and publish time of each.
    /// Tag 0 with `multiple` means all.
    pub(crate) fn settle(
        &mut self,
        tag: u64,
        multiple: bool,
        mut settled: impl FnMut(u64, u64),
    ) -> Result<(), ConfirmFault> {
        let published = self.next_tag - 1;
        let tag = if tag == 0 && multiple { published } else { tag };
        if tag == 0 || tag > published {
            return Err(ConfirmFault::NeverPublished { tag, published });
        }
        if multiple {
            for each in self.lowest..=tag {
                self.settle_one(each, &mut settled);
            }
            self.lowest = self.lowest.max(tag + 1);
        } else if tag < self.lowest || !self.settle_one(tag, &mut settled) {
            return Err(ConfirmFault::Twice { tag });
        }
        self.advance();
        Ok(())
    }

    /// The tags that await their confirm.
    pub(crate) fn open_tags(&self) -> impl Iterator<Item = u64> + '_ {
        (self.lowest..self.next_tag).filter(|tag| self.published_ns[self.slot(*tag)] != SETTLED)
    }

    fn settle_one(&mut self, tag: u64, settled: &mut impl FnMut(u64, u64)) -> bool {
        let slot = self.slot(tag);
        let at_ns = std::mem::replace(&mut self.published_ns[slot], SETTLED);
        if at_ns == SETTLED {
            return false;
        }
        self.open -= 1;
        settled(tag, at_ns);
        true
    }

    fn advance(&mut self) {
        while self.lowest < self.next_tag && self.published_ns[self.slot(self.lowest)] == SETTLED {
            self.lowest += 1;
        }
    }

    fn slot(&self, tag: u64) -> usize {
        (tag % self.published_ns.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window_with(window: u32, publishes: u64) -> ConfirmWindow {
        let mut confirms = ConfirmWindow::new(window);
        for at_ns in 1..=publishes {
            confirms.published(at_ns * 10);
        }
        confirms
    }

    fn settled(
        confirms: &mut ConfirmWindow,
        tag: u64,
        multiple: bool,
    ) -> Result<Vec<(u64, u64)>, ConfirmFault> {
        let mut seen = Vec::new();
        confirms.settle(tag, multiple, |tag, at_ns| seen.push((tag, at_ns)))?;
        Ok(seen)
    }

    #[test]
    fn the_window_closes_when_full_and_opens_with_each_confirm() {
        let mut confirms = window_with(3, 3);
        assert!(!confirms.has_room());
        assert_eq!(settled(&mut confirms, 2, false), Ok(vec![(2, 20)]));
        assert!(confirms.has_room());
        assert_eq!(confirms.open(), 2);
    }

    #[test]
    fn a_multiple_confirm_settles_what_is_left_up_to_its_tag() {
        let mut confirms = window_with(10, 5);
        assert_eq!(settled(&mut confirms, 2, false), Ok(vec![(2, 20)]));
        let rest = vec![(1, 10), (3, 30), (4, 40)];
        assert_eq!(settled(&mut confirms, 4, true), Ok(rest));
        assert_eq!(settled(&mut confirms, 0, true), Ok(vec![(5, 50)]));
        assert_eq!(confirms.open(), 0);
    }

    #[test]
    fn confirms_of_nothing_or_of_the_same_again_are_faults() {
        let mut confirms = window_with(10, 2);
        let never = ConfirmFault::NeverPublished {
            tag: 3,
            published: 2,
        };
        assert_eq!(settled(&mut confirms, 3, false), Err(never));
        assert_eq!(settled(&mut confirms, 1, false), Ok(vec![(1, 10)]));
        assert_eq!(
            settled(&mut confirms, 1, false),
            Err(ConfirmFault::Twice { tag: 1 })
        );
        assert_eq!(settled(&mut confirms, 2, false), Ok(vec![(2, 20)]));
        assert_eq!(
            settled(&mut confirms, 2, false),
            Err(ConfirmFault::Twice { tag: 2 })
        );
    }

    #[test]
    fn a_confirm_that_stays_away_stops_the_channel_before_its_slot_is_reused() {
        let mut confirms = ConfirmWindow::new(1_000);
        let mut published = 0;
        while confirms.has_room() {
            confirms.published(1);
            published += 1;
            if published > 1 {
                assert!(settled(&mut confirms, published, false).is_ok());
            }
        }
        assert_eq!(published, 1_000 * SLOTS_PER_MESSAGE);
        assert_eq!(confirms.open_tags().collect::<Vec<_>>(), [1]);
    }
}
