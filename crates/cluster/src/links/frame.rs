//! One frame between two nodes.
//!
//! ```text
//! frame = kind u8 · group u32 · number u64 · body
//! ```

use bytes::{Buf, Bytes};
use storage::StreamId;

const HEADER_BYTES: usize = 13;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The answer to the call with this number.
    Reply = 1,
    /// Entries and heartbeats of a leader.
    Append = 2,
    /// A candidate asks for a vote.
    Vote = 3,
    /// A piece of a snapshot.
    Snapshot = 4,
    /// A batch that the leader is asked to propose.
    Propose = 5,
    /// What became of such a batch.
    Outcome = 6,
    /// The leader asks this member to lead.
    Elect = 7,
    /// Between the services of two nodes.
    Message = 8,
    /// A change of the members, for the leader.
    Members = 9,
    /// A member asks whether it would get a vote.
    Ask = 10,
    /// A leader shows itself to a node that is no member.
    Leading = 11,
    /// A member that remembers nothing asks whether this one does.
    Recall = 12,
    /// The leader is asked to let another member lead.
    HandOver = 13,
}

impl Kind {
    fn of(octet: u8) -> Option<Self> {
        Some(match octet {
            1 => Self::Reply,
            2 => Self::Append,
            3 => Self::Vote,
            4 => Self::Snapshot,
            5 => Self::Propose,
            6 => Self::Outcome,
            7 => Self::Elect,
            8 => Self::Message,
            9 => Self::Members,
            10 => Self::Ask,
            11 => Self::Leading,
            12 => Self::Recall,
            13 => Self::HandOver,
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) group: StreamId,
    /// Of the call, or of the proposal.
    pub(crate) number: u64,
    pub(crate) body: Bytes,
}

impl Frame {
    pub(crate) fn write(kind: Kind, group: StreamId, number: u64, body: &[u8]) -> Bytes {
        let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
        frame.push(kind as u8);
        frame.extend_from_slice(&group.0.to_le_bytes());
        frame.extend_from_slice(&number.to_le_bytes());
        frame.extend_from_slice(body);
        frame.into()
    }

    pub(crate) fn parse(mut bytes: Bytes) -> Option<Self> {
        if bytes.len() < HEADER_BYTES {
            return None;
        }
        Some(Self {
            kind: Kind::of(bytes.get_u8())?,
            group: StreamId(bytes.get_u32_le()),
            number: bytes.get_u64_le(),
            body: bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_as_it_went() {
        for octet in 1..=13 {
            let kind = Kind::of(octet).unwrap();
            let written = Frame::write(kind, StreamId(7), u64::MAX, b"body");
            let read = Frame::parse(written).unwrap();
            let expected = Frame {
                kind,
                group: StreamId(7),
                number: u64::MAX,
                body: Bytes::from_static(b"body"),
            };
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn a_cut_or_unknown_frame_is_none() {
        let written = Frame::write(Kind::Append, StreamId(7), 1, b"");
        for len in 0..written.len() {
            assert_eq!(Frame::parse(written.slice(..len)), None);
        }
        assert_eq!(Frame::parse(Bytes::from_static(&[99; 20])), None);
    }
}
