//! A meter of the memory tree: what is used, and against which limit.
//!
//! Adding walks to the root, so a parent always shows the sum of its leaves. A leaf without a limit
//! is bound by the first limit above it. Counters are atomic: whoever has work for a queue adds,
//! once a batch, without a lock. Debug builds can count the whole tree, at a moment at which nobody
//! adds.
// ActiveMQ: MemoryUsage
#![cfg_attr(
    debug_assertions,
    allow(
        clippy::disallowed_types,
        reason = "the count of the whole tree, in debug builds only, needs it to stand still"
    )
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(debug_assertions)]
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

use super::HIGH_WATER_DEFAULT_PERCENT;

/// No limit of its own.
const NONE: u64 = 0;

/// How far a meter's limit is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threshold {
    /// Below the high-water mark.
    Below,
    /// At or above the high-water mark: nothing more is cached.
    HighWater,
    /// At or above the limit: publishers wait.
    Full,
}

/// One node of the tree. Sizes in bytes.
#[derive(Debug)]
pub struct Meter {
    used: AtomicU64,
    limit: AtomicU64,
    high_water_percent: AtomicU64,
    parent: Option<Arc<Meter>>,
    /// Taken for writing by who counts the tree, for reading by who changes it.
    #[cfg(debug_assertions)]
    rest: Arc<RwLock<()>>,
    #[cfg(debug_assertions)]
    parts: Mutex<Vec<Weak<Meter>>>,
}

/// A part of the tree that shows another number than the sum of its parts.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongSum {
    /// What it shows.
    pub used: u64,
    /// What its parts show together.
    pub parts: u64,
}

impl Meter {
    /// The root of a tree; a limit of 0 is none.
    pub fn root(limit: u64) -> Arc<Self> {
        Arc::new(Self::new(limit, None))
    }

    /// A part of this one; a limit of 0 is none of its own.
    pub fn child(self: &Arc<Self>, limit: u64) -> Arc<Self> {
        let child = Arc::new(Self::new(limit, Some(self.clone())));
        #[cfg(debug_assertions)]
        {
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.retain(|part| part.strong_count() > 0);
            parts.push(Arc::downgrade(&child));
        }
        child
    }

    /// Counts the tree from here down while nobody changes it.
    ///
    /// # Errors
    /// The first part that has parts and shows another number than their sum.
    #[cfg(debug_assertions)]
    pub fn count(&self) -> Result<(), WrongSum> {
        let _rest = self.rest.write().unwrap_or_else(PoisonError::into_inner);
        self.count_parts()
    }

    #[cfg(debug_assertions)]
    fn count_parts(&self) -> Result<(), WrongSum> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: Vec<Arc<Meter>> = parts.iter().filter_map(Weak::upgrade).collect();
        if parts.is_empty() {
            return Ok(());
        }
        let (used, sum) = (self.used(), parts.iter().map(|part| part.used()).sum());
        if used != sum {
            return Err(WrongSum { used, parts: sum });
        }
        parts.iter().try_for_each(|part| part.count_parts())
    }

    #[cfg(debug_assertions)]
    fn moving(&self) -> RwLockReadGuard<'_, ()> {
        self.rest.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(limit: u64, parent: Option<Arc<Meter>>) -> Self {
        Self {
            used: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            high_water_percent: AtomicU64::new(HIGH_WATER_DEFAULT_PERCENT),
            #[cfg(debug_assertions)]
            rest: match &parent {
                Some(parent) => parent.rest.clone(),
                None => Arc::default(),
            },
            #[cfg(debug_assertions)]
            parts: Mutex::default(),
            parent,
        }
    }

    /// Another limit applies; 0 is none.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Another high-water mark applies, in percent of the limit.
    pub fn set_high_water_percent(&self, percent: u64) {
        self.high_water_percent
            .store(percent.min(100), Ordering::Relaxed);
    }

    /// What is used here and in all parts.
    pub fn used(&self) -> u64 {
        let used = self.used.load(Ordering::Relaxed);
        // Two threads that add and take off in the wrong order may show a moment below zero.
        if used > u64::MAX / 2 { 0 } else { used }
    }

    /// Its own limit; `None` when it has none.
    pub fn limit(&self) -> Option<u64> {
        match self.limit.load(Ordering::Relaxed) {
            NONE => None,
            limit => Some(limit),
        }
    }

    /// The mark below its own limit, in bytes.
    pub fn high_water(&self) -> Option<u64> {
        self.limit().map(|limit| self.high_water_of(limit))
    }

    /// Adds here and in everything above.
    pub fn add(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        #[cfg(debug_assertions)]
        let _moving = self.moving();
        for meter in self.path() {
            meter.used.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Takes off here and in everything above what was added before.
    pub fn sub(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        #[cfg(debug_assertions)]
        let _moving = self.moving();
        for meter in self.path() {
            let before = meter.used.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(
                before >= bytes,
                "{bytes} taken off a meter that holds {before}"
            );
        }
    }

    /// Moves what is used here to another part. Meters above both keep their sums.
    pub fn move_to(&self, other: &Meter, bytes: u64) {
        if bytes == 0 {
            return;
        }
        #[cfg(debug_assertions)]
        let _moving = self.moving();
        let shared = |meter: &Meter, path: &Meter| path.path().any(|m| std::ptr::eq(m, meter));
        for meter in other.path().take_while(|meter| !shared(meter, self)) {
            meter.used.fetch_add(bytes, Ordering::Relaxed);
        }
        for meter in self.path().take_while(|meter| !shared(meter, other)) {
            let before = meter.used.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(
                before >= bytes,
                "{bytes} moved from a meter that holds {before}"
            );
        }
    }

    /// How far the limits are used up, from here to the root: the worst of them.
    pub fn threshold(&self) -> Threshold {
        let of = |meter: &Meter| meter.own_threshold();
        self.path().map(of).max().unwrap_or(Threshold::Below)
    }

    /// How far its own limit is used up.
    pub fn own_threshold(&self) -> Threshold {
        let Some(limit) = self.limit() else {
            return Threshold::Below;
        };
        let used = self.used();
        if used >= limit {
            Threshold::Full
        } else if used >= self.high_water_of(limit) {
            Threshold::HighWater
        } else {
            Threshold::Below
        }
    }

    /// Bytes that may be added below the high-water mark of the nearest limit; the largest number
    /// when there is no limit.
    pub fn room_to_cache(&self) -> u64 {
        let nearest = self.path().find_map(|meter| Some((meter, meter.limit()?)));
        nearest.map_or(u64::MAX, |(meter, limit)| {
            meter.high_water_of(limit).saturating_sub(meter.used())
        })
    }

    fn high_water_of(&self, limit: u64) -> u64 {
        let percent = self.high_water_percent.load(Ordering::Relaxed);
        (u128::from(limit) * u128::from(percent) / 100) as u64
    }

    fn path(&self) -> impl Iterator<Item = &Meter> {
        std::iter::successors(Some(self), |meter| meter.parent.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_reaches_the_root_and_a_move_keeps_what_is_above_both() {
        let main = Meter::root(1_000);
        let producers = main.child(600);
        let consumers = main.child(400);
        let queue = producers.child(0);
        let connection = consumers.child(0);
        queue.add(300);
        assert_eq!([main.used(), producers.used(), queue.used()], [300; 3]);
        queue.move_to(&connection, 100);
        assert_eq!((main.used(), queue.used()), (300, 200));
        assert_eq!((producers.used(), consumers.used()), (200, 100));
        assert_eq!(connection.used(), 100);
        connection.sub(100);
        queue.sub(200);
        let all = [&main, &producers, &consumers, &queue, &connection];
        assert!(all.iter().all(|meter| meter.used() == 0));
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_count_finds_a_part_that_shows_more_than_its_parts() {
        let main = Meter::root(0);
        let producers = main.child(0);
        let leaf = producers.child(0);
        leaf.add(5);
        assert_eq!(main.count(), Ok(()));
        // Nothing is added to what has parts.
        producers.add(2);
        let wrong = WrongSum { used: 7, parts: 5 };
        assert_eq!(main.count(), Err(wrong));
        producers.sub(2);
        assert_eq!(main.count(), Ok(()));
    }

    #[test]
    fn limits_are_looked_at_from_the_leaf_up() {
        let main = Meter::root(1_000);
        let vhost = main.child(0);
        let queue = vhost.child(100);
        queue.add(69);
        assert_eq!(queue.threshold(), Threshold::Below);
        assert_eq!(queue.room_to_cache(), 1);
        queue.add(1);
        assert_eq!(queue.threshold(), Threshold::HighWater);
        queue.add(30);
        assert_eq!(queue.threshold(), Threshold::Full);
        assert_eq!(vhost.threshold(), Threshold::Below);
        // A leaf without a limit is bound by what is above it.
        let other = vhost.child(0);
        assert_eq!(other.room_to_cache(), 600);
        other.add(900);
        assert_eq!(other.threshold(), Threshold::Full);
        assert_eq!(other.own_threshold(), Threshold::Below);
    }

    #[test]
    fn usage_above_the_limit_is_shown_and_is_no_error() {
        let main = Meter::root(100);
        main.add(250);
        assert_eq!((main.used(), main.limit()), (250, Some(100)));
        main.set_limit(0);
        assert_eq!(main.threshold(), Threshold::Below);
    }

    #[test]
    #[should_panic(expected = "taken off")]
    fn taking_off_more_than_is_there_is_caught() {
        Meter::root(10).sub(1);
    }
}
