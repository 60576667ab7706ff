//! What a message's body holds: a stamp that says which message it is, then filler.
//!
//! | bytes | content |
//! |---|---|
//! | 0–7 | run mark (10 bits), producer (14 bits), sequence (40 bits), big-endian |
//! | 8–15 | when it was, or should have been, published: monotonic nanoseconds, big-endian |
//! | 16– | filler, equal in every message of the run |
//!
//! A body of 8 to 15 bytes carries the first word only, so it can be verified but its latency is
//! unknown; a smaller body carries filler only. Knows nothing of frames.

use std::str::FromStr;
use std::sync::Arc;

use crate::random::Random;

/// Bytes of the word that identifies a message.
pub(crate) const IDENTITY_BYTES: usize = 8;
/// Bytes of a whole stamp.
pub(crate) const STAMP_BYTES: usize = 16;
/// The largest body the tool makes.
pub(crate) const BODY_BYTES_MAX: usize = 128 * 1024 * 1024;
/// How many sizes a list may name.
const SIZES_MAX: usize = 1_024;

const SEQUENCE_BITS: u32 = 40;
const PRODUCER_BITS: u32 = 14;
/// Producers that a stamp can tell apart.
pub(crate) const PRODUCERS_MAX: u32 = 1 << PRODUCER_BITS;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;
const MARK_MASK: u16 = (1 << (64 - SEQUENCE_BITS - PRODUCER_BITS)) - 1;

/// Tells this run's messages from what an earlier run left in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunMark(u16);

impl RunMark {
    /// Never 0, so that a body of zeros is nobody's message.
    pub(crate) fn draw(random: &mut Random) -> Self {
        Self(random.between(1, u64::from(MARK_MASK)) as u16)
    }
}

/// Which message a body belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) mark: RunMark,
    pub(crate) producer: u16,
    pub(crate) sequence: u64,
}

impl Identity {
    pub(crate) fn word(self) -> u64 {
        u64::from(self.mark.0) << (SEQUENCE_BITS + PRODUCER_BITS)
            | u64::from(self.producer) << SEQUENCE_BITS
            | (self.sequence & SEQUENCE_MASK)
    }

    pub(crate) fn of_word(word: u64) -> Self {
        Self {
            mark: RunMark((word >> (SEQUENCE_BITS + PRODUCER_BITS)) as u16),
            producer: ((word >> SEQUENCE_BITS) & u64::from(PRODUCERS_MAX - 1)) as u16,
            sequence: word & SEQUENCE_MASK,
        }
    }
}

/// What the first bytes of a received body say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) identity: Identity,
    /// When it was published; absent in bodies under [`STAMP_BYTES`].
    pub(crate) published_ns: Option<u64>,
}

impl Stamp {
    /// The stamp's bytes; a body shorter than they are takes as many as fit.
    pub(crate) fn bytes(identity: Identity, published_ns: u64) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..IDENTITY_BYTES].copy_from_slice(&identity.word().to_be_bytes());
        bytes[IDENTITY_BYTES..].copy_from_slice(&published_ns.to_be_bytes());
        bytes
    }

    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let (word, rest) = body.split_first_chunk::<IDENTITY_BYTES>()?;
        Some(Self {
            identity: Identity::of_word(u64::from_be_bytes(*word)),
            published_ns: rest.first_chunk().map(|time| u64::from_be_bytes(*time)),
        })
    }
}

/// How many of a body's first bytes are stamp.
pub(crate) fn stamped_bytes(body_bytes: usize) -> usize {
    match body_bytes {
        0..IDENTITY_BYTES => 0,
        IDENTITY_BYTES..STAMP_BYTES => IDENTITY_BYTES,
        _ => STAMP_BYTES,
    }
}

/// The bytes behind the stamp, shared by all producers and compared by all consumers: byte `i` of
/// a body is byte `i` of the filler.
#[derive(Clone, Debug)]
pub(crate) struct Filler(Arc<[u8]>);

impl Filler {
    /// As many bytes as the largest body has: readable ones, or random ones, which no layer on
    /// the way can compress.
    pub(crate) fn new(bytes: usize, random: Option<&mut Random>) -> Self {
        let mut filler: Vec<u8> = (b'a'..=b'z').cycle().take(bytes).collect();
        if let Some(random) = random {
            random.fill(&mut filler);
        }
        Self(filler.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether `piece`, which begins at byte `at` of a body of `body_bytes`, is as it was sent.
    pub(crate) fn matches(&self, at: usize, piece: &[u8], body_bytes: usize) -> bool {
        let skipped = stamped_bytes(body_bytes)
            .saturating_sub(at)
            .min(piece.len());
        let from = at + skipped;
        self.0.get(from..at + piece.len()) == Some(&piece[skipped..])
    }
}

/// How large bodies are: sizes taken in turn, or drawn from a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodySizes {
    InTurn(Vec<usize>),
    Range { low: usize, high: usize },
}

/// Why a text names no sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SizeFault {
    #[error("{0:?} is no size in bytes: write 16, or 16,1024 for a list, or 16..1024 for a range")]
    Number(String),
    #[error("a body has at most {BODY_BYTES_MAX} bytes, not {0}")]
    TooLarge(usize),
    #[error("the range {low}..{high} ends before it begins")]
    EmptyRange { low: usize, high: usize },
    #[error("a list names at most {SIZES_MAX} sizes, not {0}")]
    TooMany(usize),
}

impl FromStr for BodySizes {
    type Err = SizeFault;

    fn from_str(text: &str) -> Result<Self, SizeFault> {
        if let Some((low, high)) = text.split_once("..") {
            let (low, high) = (size(low)?, size(high.trim_start_matches('='))?);
            if low > high {
                return Err(SizeFault::EmptyRange { low, high });
            }
            return Ok(Self::Range { low, high });
        }
        let sizes: Vec<usize> = text.split(',').map(size).collect::<Result<_, _>>()?;
        if sizes.len() > SIZES_MAX {
            return Err(SizeFault::TooMany(sizes.len()));
        }
        Ok(Self::InTurn(sizes))
    }
}

fn size(text: &str) -> Result<usize, SizeFault> {
    let size = text
        .trim()
        .parse()
        .map_err(|_| SizeFault::Number(text.to_owned()))?;
    if size > BODY_BYTES_MAX {
        return Err(SizeFault::TooLarge(size));
    }
    Ok(size)
}

/// As it would be written on the command line.
impl std::fmt::Display for BodySizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InTurn(sizes) => {
                let texts: Vec<String> = sizes.iter().map(usize::to_string).collect();
                f.write_str(&texts.join(","))
            }
            Self::Range { low, high } => write!(f, "{low}..{high}"),
        }
    }
}

impl BodySizes {
    pub(crate) fn smallest(&self) -> usize {
        match self {
            Self::InTurn(sizes) => sizes.iter().copied().min().unwrap_or(0),
            Self::Range { low, .. } => *low,
        }
    }

    pub(crate) fn largest(&self) -> usize {
        match self {
            Self::InTurn(sizes) => sizes.iter().copied().max().unwrap_or(0),
            Self::Range { high, .. } => *high,
        }
    }
}

/// One producer's walk through the sizes.
#[derive(Debug)]
pub(crate) struct SizeDraw {
    sizes: BodySizes,
    turn: usize,
    random: Random,
}

impl SizeDraw {
    pub(crate) fn new(sizes: BodySizes, random: Random) -> Self {
        Self {
            sizes,
            turn: 0,
            random,
        }
    }

    pub(crate) fn next_size(&mut self) -> usize {
        match &self.sizes {
            BodySizes::InTurn(sizes) => {
                let size = sizes.get(self.turn).copied().unwrap_or(0);
                self.turn = if self.turn + 1 >= sizes.len() {
                    0
                } else {
                    self.turn + 1
                };
                size
            }
            BodySizes::Range { low, high } => {
                self.random.between(*low as u64, *high as u64) as usize
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(producer: u16, sequence: u64) -> Identity {
        Identity {
            mark: RunMark(1_023),
            producer,
            sequence,
        }
    }

    #[test]
    fn a_stamp_reads_back_at_the_ends_of_its_ranges() {
        for (producer, sequence) in [(0, 0), (16_383, SEQUENCE_MASK), (7, 1)] {
            let bytes = Stamp::bytes(identity(producer, sequence), u64::MAX);
            let stamp = Stamp::read(&bytes).unwrap();
            assert_eq!(stamp.identity, identity(producer, sequence));
            assert_eq!(stamp.published_ns, Some(u64::MAX));
        }
    }

    #[test]
    fn small_bodies_carry_what_fits() {
        let bytes = Stamp::bytes(identity(3, 9), 5);
        assert_eq!(Stamp::read(&bytes[..7]), None);
        let without_time = Stamp::read(&bytes[..8]).unwrap();
        assert_eq!(without_time.identity, identity(3, 9));
        assert_eq!(without_time.published_ns, None);
        assert_eq!(
            [0, 7, 8, 15, 16, 99].map(stamped_bytes),
            [0, 0, 8, 8, 16, 16]
        );
    }

    #[test]
    fn filler_is_compared_behind_the_stamp_only() {
        let filler = Filler::new(40, None);
        let mut body = filler.bytes().to_vec();
        body[..16].fill(0);
        assert!(filler.matches(0, &body, 40));
        assert!(filler.matches(10, &body[10..30], 40));
        body[16] ^= 1;
        assert!(!filler.matches(0, &body, 40));
        assert!(!filler.matches(10, &body[10..30], 40));
        assert!(filler.matches(20, &body[20..], 40));
        assert!(
            !filler.matches(30, &[b'x'; 20], 50),
            "longer than any body sent"
        );
        assert!(filler.matches(0, b"abc", 3), "no stamp in three bytes");
    }

    #[test]
    fn random_filler_differs_from_readable_filler() {
        let random = Filler::new(64, Some(&mut Random::seeded(1)));
        assert_ne!(random.bytes(), Filler::new(64, None).bytes());
    }

    #[test]
    fn sizes_can_be_one_a_list_or_a_range() {
        assert_eq!("16".parse(), Ok(BodySizes::InTurn(vec![16])));
        assert_eq!("1, 2,3".parse(), Ok(BodySizes::InTurn(vec![1, 2, 3])));
        assert_eq!("1..9".parse(), Ok(BodySizes::Range { low: 1, high: 9 }));
        let fault = |text: &str| text.parse::<BodySizes>().unwrap_err();
        assert_eq!(fault("1k"), SizeFault::Number("1k".to_owned()));
        assert_eq!(fault("9..1"), SizeFault::EmptyRange { low: 9, high: 1 });
        assert_eq!(fault("999999999"), SizeFault::TooLarge(999_999_999));
        let too_many = vec!["1"; SIZES_MAX + 1].join(",");
        assert_eq!(fault(&too_many), SizeFault::TooMany(SIZES_MAX + 1));
    }

    #[test]
    fn sizes_come_in_turn_or_from_the_whole_range() {
        let mut turns = SizeDraw::new("1,2,3".parse().unwrap(), Random::seeded(1));
        let drawn: Vec<usize> = (0..7).map(|_| turns.next_size()).collect();
        assert_eq!(drawn, [1, 2, 3, 1, 2, 3, 1]);
        let mut range = SizeDraw::new("4..6".parse().unwrap(), Random::seeded(1));
        let drawn: Vec<usize> = (0..200).map(|_| range.next_size()).collect();
        assert!((4..=6).all(|size| drawn.contains(&size)));
        assert!(drawn.iter().all(|size| (4..=6).contains(size)));
    }
}
