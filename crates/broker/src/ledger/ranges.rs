//! A set of ids as ranges: a queue that is consumed in order needs one, whatever its depth.
//!
//! A range says of every id in it that its message is gone, also of ids that never were. So ranges may
//! be joined wherever nothing lives in between. Knows numbers only.

use std::collections::BTreeMap;

/// Ranges beyond those that the last joining left, at which joining is worth its while again.
const UNJOINED_MAX: usize = 4_096;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// First id to last id.
    ranges: BTreeMap<u64, u64>,
    joined: usize,
}

impl Ranges {
    pub(crate) fn insert(&mut self, id: u64) {
        let before = self.ranges.range_mut(..=id).next_back();
        let mut first = id;
        match before {
            Some((_, last)) if *last >= id => return,
            Some((start, last)) if *last + 1 == id => {
                *last = id;
                first = *start;
            }
            _ => {
                self.ranges.insert(id, id);
            }
        }
        // Consumers ack in any order: the gap may have closed.
        if let Some(end) = id.checked_add(1).and_then(|next| self.ranges.remove(&next)) {
            self.ranges.insert(first, end);
        }
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        let before = self.ranges.range(..=id).next_back();
        before.is_some_and(|(_, last)| *last >= id)
    }

    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(first, last)| (*first, *last))
    }

    /// Forgets all ids below the floor.
    pub(crate) fn forget_below(&mut self, floor: u64) {
        let kept = self.ranges.split_off(&floor);
        let across = self.ranges.last_key_value().map(|(_, last)| *last);
        self.ranges = kept;
        if let Some(last) = across.filter(|last| *last >= floor) {
            self.ranges.insert(floor, last);
        }
    }

    /// Whether there are many ranges that were never tried to be joined.
    pub(crate) fn wants_joining(&self) -> bool {
        self.ranges.len() > 2 * self.joined + UNJOINED_MAX
    }

    /// Joins ranges between which nothing lives; `next_live` answers the first live id at or after one.
    /// Afterwards there are no more ranges than live messages, and one.
    pub(crate) fn join(&mut self, mut next_live: impl FnMut(u64) -> Option<u64>) {
        let mut joined: Vec<(u64, u64)> = Vec::new();
        let mut live = 0;
        for (first, last) in std::mem::take(&mut self.ranges) {
            match joined.last_mut() {
                Some((_, end))
                    if {
                        if live <= *end {
                            live = next_live(*end + 1).unwrap_or(u64::MAX);
                        }
                        live > first
                    } =>
                {
                    *end = last;
                }
                _ => joined.push((first, last)),
            }
        }
        self.joined = joined.len();
        self.ranges = joined.into_iter().collect();
    }
}

impl FromIterator<(u64, u64)> for Ranges {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        Self {
            ranges: ranges.into_iter().collect(),
            joined: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_in_any_order_come_to_few_ranges() {
        let mut ranges = Ranges::default();
        for id in [5, 3, 4, 9, 1, 4, 10] {
            ranges.insert(id);
        }
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(1, 1), (3, 5), (9, 10)]);
        assert!(ranges.contains(4) && ranges.contains(9) && !ranges.contains(2));
        ranges.forget_below(4);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(4, 5), (9, 10)]);
        ranges.forget_below(11);
        assert_eq!(ranges.len(), 0);
    }

    #[test]
    fn joining_leaves_no_more_ranges_than_live_ids_and_one() {
        // Ids with gaps, as batches leave them; every hundredth lives.
        let ids: Vec<u64> = (0..1_000).map(|n| n * 7 + 3).collect();
        let live: BTreeSet<u64> = ids.iter().copied().step_by(100).collect();
        let mut ranges = Ranges::default();
        for id in ids.iter().filter(|id| !live.contains(id)) {
            ranges.insert(*id);
        }
        assert_eq!(ranges.len(), 990);
        ranges.join(|from| live.range(from..).next().copied());
        assert_eq!(ranges.len(), live.len());
        for id in ids {
            assert_eq!(ranges.contains(id), !live.contains(&id), "{id}");
        }
    }
}
