//! How long a consumer takes for a message: deliveries wait in line and are settled one by one.
//! Pure: time is an argument.

use std::collections::VecDeque;

/// How many deliveries may wait before nothing more is read.
const LINE_MAX: usize = 65_536;

/// Deliveries in the order they came.
#[derive(Debug)]
pub(crate) struct Service<T> {
    service_ns: u64,
    line: VecDeque<(u64, T)>,
    busy_until_ns: u64,
}

impl<T> Service<T> {
    pub(crate) fn new(service_ns: u64) -> Self {
        Self {
            service_ns,
            line: VecDeque::new(),
            busy_until_ns: 0,
        }
    }

    /// A delivery that came at this time.
    pub(crate) fn arrive(&mut self, at_ns: u64, delivery: T) {
        self.line.push_back((at_ns, delivery));
    }

    /// The next delivery whose service is over.
    pub(crate) fn finish(&mut self, now_ns: u64) -> Option<T> {
        let done_ns = self.next_done_ns()?;
        if done_ns > now_ns {
            return None;
        }
        self.busy_until_ns = done_ns;
        self.line.pop_front().map(|(_, delivery)| delivery)
    }

    /// When [`Service::finish`] will have something.
    pub(crate) fn next_done_ns(&self) -> Option<u64> {
        let (arrived_ns, _) = self.line.front()?;
        let begun_ns = self.busy_until_ns.max(*arrived_ns);
        Some(begun_ns.saturating_add(self.service_ns))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.line.len() >= LINE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_served_one_after_the_other() {
        let mut service = Service::new(10);
        service.arrive(100, 'a');
        service.arrive(101, 'b');
        assert_eq!(service.finish(109), None);
        assert_eq!(service.finish(110), Some('a'));
        assert_eq!(service.next_done_ns(), Some(120));
        assert_eq!(service.finish(119), None);
        assert_eq!(service.finish(120), Some('b'));
        assert_eq!(service.next_done_ns(), None);
    }

    #[test]
    fn an_idle_consumer_begins_when_the_delivery_comes() {
        let mut service = Service::new(10);
        service.arrive(0, 'a');
        assert_eq!(service.finish(10), Some('a'));
        service.arrive(500, 'b');
        assert_eq!(service.next_done_ns(), Some(510));
    }

    #[test]
    fn a_consumer_that_wakes_late_has_served_in_the_meantime() {
        let mut service = Service::new(10);
        for name in ['a', 'b', 'c'] {
            service.arrive(0, name);
        }
        let served: Vec<char> = std::iter::from_fn(|| service.finish(25)).collect();
        assert_eq!(served, ['a', 'b']);
    }

    #[test]
    fn the_line_is_bounded() {
        let mut service = Service::new(1);
        for n in 0..LINE_MAX {
            assert!(!service.is_full());
            service.arrive(0, n);
        }
        assert!(service.is_full());
    }
}
