//! Exchanges that choose one destination by a hash.
//!
//! The hash is our own and stays the same for ever: a key must go to the same queue after an
//! upgrade, or its order is lost.

use amqp::Value;
use rustc_hash::FxHashSet;

use super::HashSource;
use super::table::Target;
use crate::refusal::BindingFault;
use crate::router::MessageView;

/// Heaviest weight of one binding.
const WEIGHT_MAX: u32 = u32::MAX;

/// What a message without the header or property hashes as: always the same.
const MISSING: &[u8] = b"undefined";

/// The weight that a binding key names.
pub(crate) fn parse_weight(key: &str) -> Result<u32, BindingFault> {
    match key.parse::<i128>() {
        Err(_) => Err(BindingFault::WeightNotInteger(key.into())),
        Ok(weight) if weight < 1 => Err(BindingFault::WeightNotPositive),
        Ok(weight) => {
            u32::try_from(weight).map_err(|_| BindingFault::WeightTooLarge { max: WEIGHT_MAX })
        }
    }
}

/// FNV-1a, with the finish of splitmix so that all bits count.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut state: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Jump consistent hash (Lamping and Veach): a bucket below `buckets`; when buckets are added, a
/// key stays or moves to a new one.
fn jump(mut key: u64, buckets: u64) -> u64 {
    let (mut bucket, mut next) = (0u64, 0u64);
    while next < buckets {
        bucket = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let scale = (1u64 << 31) as f64 / ((key >> 33) + 1) as f64;
        next = ((bucket + 1) as f64 * scale) as u64;
    }
    bucket
}

/// One binding of a ring.
#[derive(Clone, Copy, Debug)]
struct Weighted {
    sequence: u64,
    weight: u32,
    target: Target,
}

/// The ring of a consistent-hash exchange: each destination owns as many buckets as it weighs, in
/// the order in which they were bound. A destination that is bound again keeps its first weight.
#[derive(Clone, Debug)]
pub(crate) struct ConsistentHash {
    source: HashSource,
    /// By sequence.
    bindings: Vec<Weighted>,
    /// The end of each destination's buckets.
    ends: Vec<(u64, Target)>,
    owners: FxHashSet<Target>,
}

impl ConsistentHash {
    pub(crate) fn new(source: HashSource) -> Self {
        Self {
            source,
            bindings: Vec::new(),
            ends: Vec::new(),
            owners: FxHashSet::default(),
        }
    }

    pub(crate) fn source(&self) -> &HashSource {
        &self.source
    }

    pub(crate) fn bind(&mut self, sequence: u64, key: &str, target: Target) {
        let Ok(weight) = parse_weight(key) else {
            return;
        };
        let binding = Weighted {
            sequence,
            weight,
            target,
        };
        self.bindings.push(binding);
        self.add_buckets(binding);
    }

    pub(crate) fn unbind(&mut self, sequence: u64) {
        self.bindings.retain(|binding| binding.sequence != sequence);
        self.ends.clear();
        self.owners.clear();
        for place in 0..self.bindings.len() {
            self.add_buckets(self.bindings[place]);
        }
    }

    fn add_buckets(&mut self, binding: Weighted) {
        if !self.owners.insert(binding.target) {
            return;
        }
        let end = self.buckets() + u64::from(binding.weight);
        self.ends.push((end, binding.target));
    }

    fn buckets(&self) -> u64 {
        self.ends.last().map_or(0, |(end, _)| *end)
    }

    pub(crate) fn pick(&self, key: &[u8], message: &dyn MessageView) -> Option<Target> {
        let hashed = match &self.source {
            HashSource::RoutingKey => hash(key),
            HashSource::Header(name) => hash_value(
                message
                    .headers()
                    .and_then(|headers| headers.get(name.as_bytes())),
            ),
            HashSource::MessageId => hash(message.message_id().unwrap_or(MISSING)),
            HashSource::CorrelationId => hash(message.correlation_id().unwrap_or(MISSING)),
            HashSource::Timestamp => message
                .timestamp()
                .map_or_else(|| hash(MISSING), |seconds| hash(&seconds.to_be_bytes())),
        };
        let bucket = jump(hashed, self.buckets());
        let place = self.ends.partition_point(|(end, _)| *end <= bucket);
        self.ends.get(place).map(|(_, target)| *target)
    }
}

fn hash_value(value: Option<&Value>) -> u64 {
    match value {
        None => hash(MISSING),
        Some(value) => match (value.as_bytes(), value.as_i64()) {
            (Some(bytes), _) => hash(bytes),
            (None, Some(number)) => hash(&number.to_be_bytes()),
            (None, None) => hash(format!("{value:?}").as_bytes()),
        },
    }
}

/// The destinations of a modulus-hash exchange, sorted, each with the number of its bindings.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModulusHash {
    sorted: Vec<(Box<str>, Target, u32)>,
}

impl ModulusHash {
    pub(crate) fn bind(&mut self, name: &str, target: Target) {
        match self.place(name, target) {
            Ok(place) => self.sorted[place].2 += 1,
            Err(place) => self.sorted.insert(place, (name.into(), target, 1)),
        }
    }

    pub(crate) fn unbind(&mut self, name: &str, target: Target) {
        let Ok(place) = self.place(name, target) else {
            return;
        };
        self.sorted[place].2 -= 1;
        if self.sorted[place].2 == 0 {
            self.sorted.remove(place);
        }
    }

    fn place(&self, name: &str, target: Target) -> Result<usize, usize> {
        self.sorted.binary_search_by(|(other, place, _)| {
            (**other)
                .cmp(name)
                .then_with(|| is_exchange(*place).cmp(&is_exchange(target)))
        })
    }

    pub(crate) fn pick(&self, key: &[u8]) -> Option<Target> {
        let count = u64::try_from(self.sorted.len())
            .ok()
            .filter(|count| *count > 0)?;
        let place = usize::try_from(hash(key) % count).ok()?;
        self.sorted.get(place).map(|(_, target, _)| *target)
    }
}

fn is_exchange(target: Target) -> bool {
    matches!(target, Target::Exchange(_))
}

#[cfg(test)]
mod tests;
