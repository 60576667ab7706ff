//! The targets of an exchange's bindings, laid out so that its type finds them quickly.
//!
//! A table is changed binding by binding and never built anew. It answers with targets, possibly
//! several times the same; who gets a message once is the router's knowledge.

use amqp::Table;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::hash::{ConsistentHash, ModulusHash};
use super::headers::{HeadersMatch, HeadersTable};
use super::topic::TopicTrie;
use super::{ExchangeKind, HashSource};
use crate::metadata::QueueId;
use crate::router::MessageView;

/// The place of an exchange in its vhost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ExchangeSlot(pub(crate) u32);

/// Where a binding leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Target {
    Queue(QueueId),
    Exchange(ExchangeSlot),
}

/// What a table answers with.
pub(crate) type Targets = SmallVec<[Target; 8]>;

/// What a message is matched by.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    /// The routing key, or one of the extra keys.
    pub(crate) key: &'a [u8],
    pub(crate) message: &'a dyn MessageView,
    /// A random number.
    pub(crate) seed: u64,
    /// Whether a queue's home is the publisher's node; none asks nobody: all are.
    pub(crate) is_local: Option<&'a dyn Fn(QueueId) -> bool>,
}

/// One binding of a table.
#[derive(Clone, Copy)]
pub(crate) struct Bound<'a> {
    pub(crate) key: &'a str,
    pub(crate) arguments: &'a Table,
    pub(crate) target: Target,
    /// Orders targets where their order decides.
    pub(crate) name: &'a str,
    /// Grows with each binding of the cluster.
    pub(crate) sequence: u64,
}

/// The bindings of one exchange.
#[derive(Clone, Debug)]
pub(crate) enum RoutingTable {
    Direct(FxHashMap<Box<[u8]>, TargetSet>),
    Fanout(TargetSet),
    Topic(Box<TopicTrie>),
    Headers(HeadersTable),
    ConsistentHash(Box<ConsistentHash>),
    ModulusHash(ModulusHash),
    Random(TargetSet),
    LocalRandom(TargetSet),
}

impl RoutingTable {
    /// An empty table for exchanges that route by `kind`.
    pub(crate) fn new(kind: ExchangeKind, arguments: &Table) -> Self {
        match kind {
            ExchangeKind::Direct => Self::Direct(FxHashMap::default()),
            ExchangeKind::Fanout | ExchangeKind::RecentHistory | ExchangeKind::DelayedMessage => {
                Self::Fanout(TargetSet::default())
            }
            ExchangeKind::Topic => Self::Topic(Box::default()),
            ExchangeKind::Headers => Self::Headers(HeadersTable::default()),
            ExchangeKind::ConsistentHash => {
                let source = HashSource::parse(arguments).unwrap_or_default();
                Self::ConsistentHash(Box::new(ConsistentHash::new(source)))
            }
            ExchangeKind::ModulusHash => Self::ModulusHash(ModulusHash::default()),
            ExchangeKind::Random => Self::Random(TargetSet::default()),
            ExchangeKind::LocalRandom => Self::LocalRandom(TargetSet::default()),
        }
    }

    /// Adds a binding that is not there yet. Its key and arguments have been checked.
    pub(crate) fn bind(&mut self, bound: Bound<'_>) {
        match self {
            Self::Direct(keys) => match keys.get_mut(bound.key.as_bytes()) {
                Some(targets) => targets.add(bound.target),
                None => {
                    let mut targets = TargetSet::default();
                    targets.add(bound.target);
                    keys.insert(bound.key.as_bytes().into(), targets);
                }
            },
            Self::Fanout(targets) | Self::Random(targets) | Self::LocalRandom(targets) => {
                targets.add(bound.target);
            }
            Self::Topic(trie) => trie.bind(bound.key, bound.target),
            Self::Headers(table) => {
                if let Ok(rule) = HeadersMatch::parse(bound.arguments) {
                    table.bind(bound.sequence, rule, bound.target);
                }
            }
            Self::ConsistentHash(ring) => ring.bind(bound.sequence, bound.key, bound.target),
            Self::ModulusHash(ring) => ring.bind(bound.name, bound.target),
        }
    }

    /// Removes a binding that is there.
    pub(crate) fn unbind(&mut self, bound: Bound<'_>) {
        match self {
            Self::Direct(keys) => {
                if let Some(targets) = keys.get_mut(bound.key.as_bytes()) {
                    targets.remove(bound.target);
                    if targets.is_empty() {
                        keys.remove(bound.key.as_bytes());
                    }
                }
            }
            Self::Fanout(targets) | Self::Random(targets) | Self::LocalRandom(targets) => {
                targets.remove(bound.target);
            }
            Self::Topic(trie) => trie.unbind(bound.key, bound.target),
            Self::Headers(table) => table.unbind(bound.sequence),
            Self::ConsistentHash(ring) => ring.unbind(bound.sequence),
            Self::ModulusHash(ring) => ring.unbind(bound.name, bound.target),
        }
    }

    /// Appends the targets of a message.
    pub(crate) fn route(&self, probe: Probe<'_>, out: &mut Targets) {
        match self {
            Self::Direct(keys) => {
                if let Some(targets) = keys.get(probe.key) {
                    out.extend(targets.iter());
                }
            }
            Self::Fanout(targets) => out.extend(targets.iter()),
            Self::Topic(trie) => trie.route(probe.key, out),
            Self::Headers(table) => table.route(probe.message.headers(), out),
            Self::ConsistentHash(ring) => out.extend(ring.pick(probe.key, probe.message)),
            Self::ModulusHash(ring) => out.extend(ring.pick(probe.key)),
            Self::Random(targets) => out.extend(targets.pick(probe.seed, |_| true)),
            Self::LocalRandom(targets) => {
                let is_local = |target: Target| match (target, probe.is_local) {
                    (Target::Queue(queue), Some(is_local)) => is_local(queue),
                    _ => true,
                };
                out.extend(targets.pick(probe.seed, is_local));
            }
        }
    }

    /// Whether the answer is the same for every message of the same key.
    pub(crate) fn depends_on_key_only(&self) -> bool {
        match self {
            Self::Direct(_) | Self::Fanout(_) | Self::Topic(_) | Self::ModulusHash(_) => true,
            Self::ConsistentHash(ring) => ring.source() == &HashSource::RoutingKey,
            Self::Headers(_) | Self::Random(_) | Self::LocalRandom(_) => false,
        }
    }

    /// Whether every key has the same answer, so that asking once is enough.
    pub(crate) fn ignores_keys(&self) -> bool {
        match self {
            Self::Fanout(_) | Self::Headers(_) | Self::Random(_) | Self::LocalRandom(_) => true,
            Self::ConsistentHash(_) => true,
            Self::Direct(_) | Self::Topic(_) | Self::ModulusHash(_) => false,
        }
    }
}

/// From here on a set is searched by hash and no longer entry by entry.
const TARGETS_SCANNED_MAX: usize = 16;

/// Targets, each once, with the number of bindings that lead there.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetSet {
    entries: SmallVec<[(Target, u32); 1]>,
    places: Option<Box<FxHashMap<Target, usize>>>,
}

impl TargetSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Target> + '_ {
        self.entries.iter().map(|(target, _)| *target)
    }

    pub(crate) fn add(&mut self, target: Target) {
        if let Some(place) = self.place(target) {
            self.entries[place].1 += 1;
            return;
        }
        self.entries.push((target, 1));
        let last = self.entries.len() - 1;
        match &mut self.places {
            Some(places) => {
                places.insert(target, last);
            }
            None if self.entries.len() > TARGETS_SCANNED_MAX => {
                let places = self
                    .iter()
                    .enumerate()
                    .map(|(place, target)| (target, place));
                self.places = Some(Box::new(places.collect()));
            }
            None => {}
        }
    }

    pub(crate) fn remove(&mut self, target: Target) {
        let Some(place) = self.place(target) else {
            return;
        };
        self.entries[place].1 -= 1;
        if self.entries[place].1 > 0 {
            return;
        }
        self.entries.swap_remove(place);
        let moved = self.entries.get(place).map(|(target, _)| *target);
        if let Some(places) = &mut self.places {
            places.remove(&target);
            if let Some(moved) = moved {
                places.insert(moved, place);
            }
        }
        self.shrink();
    }

    /// Gives memory back when most of it is unused.
    fn shrink(&mut self) {
        if self.entries.len() <= TARGETS_SCANNED_MAX / 2 {
            self.places = None;
        }
        if self.entries.len() * 4 < self.entries.capacity() {
            self.entries.shrink_to_fit();
        }
    }

    /// The first suitable target from a random place on.
    fn pick(&self, seed: u64, suits: impl Fn(Target) -> bool) -> Option<Target> {
        let count = self.entries.len();
        let start = usize::try_from(seed % count.max(1) as u64).unwrap_or_default();
        (0..count)
            .map(|step| self.entries[(start + step) % count].0)
            .find(|target| suits(*target))
    }

    fn place(&self, target: Target) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(&target).copied(),
            None => self.entries.iter().position(|(other, _)| *other == target),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_counts_like_a_map(steps in prop::collection::vec((any::<bool>(), 0u64..40), 0..300)) {
            let mut set = TargetSet::default();
            let mut model = std::collections::BTreeMap::<Target, u32>::new();
            for (adds, number) in steps {
                let target = Target::Queue(QueueId(number));
                if adds {
                    set.add(target);
                    *model.entry(target).or_default() += 1;
                } else {
                    set.remove(target);
                    if let Some(count) = model.get_mut(&target) {
                        *count -= 1;
                        if *count == 0 {
                            model.remove(&target);
                        }
                    }
                }
                let mut held: Vec<Target> = set.iter().collect();
                held.sort();
                prop_assert_eq!(held, model.keys().copied().collect::<Vec<_>>());
            }
        }
    }
}
