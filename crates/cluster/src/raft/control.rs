//! What a replica group writes beside its batches: votes, who led when, entries without a batch.
//!
//! A group has two streams in the journal. The batches lie in its own, exactly as those of a group
//! of one; everything that only the consensus wants to know lies in the control stream. Both formats
//! carry a version.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::types::{LeaderId, LogId, StoredMembership, Vote};

/// Version octet of control records and checkpoints.
const VERSION: u8 = 2;

/// A record of the control stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Control {
    /// Whom this member gave its vote.
    Vote(Vote),
    /// The batches that follow, from this index on, are of this leader.
    Leader { from: u64, leader: LeaderId },
    /// The entry at which a leader began.
    Blank { log_id: LogId },
    /// An entry that changes the members.
    Members {
        log_id: LogId,
        membership: openraft::Membership<u64, openraft::EmptyNode>,
    },
    /// Entries from this index on were never committed and are void.
    Truncate { from: u64 },
    /// The state was replaced by that of another member.
    Installed {
        log_id: LogId,
        membership: StoredMembership,
    },
    /// Whether this member has lost its disk and not caught up yet.
    Behind(bool),
}

/// What outlives the recycling of journal files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) vote: Option<Vote>,
    /// Everything up to here is in the machine's own checkpoints.
    pub(crate) covered: Option<LogId>,
    /// The members as of `covered`.
    pub(crate) membership: StoredMembership,
    /// Where other leaders began among the batches behind `covered`.
    pub(crate) leaders: Vec<(u64, LeaderId)>,
    /// As in `Control::Behind`.
    pub(crate) behind: bool,
}

/// A record of the control stream that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlFault {
    #[error("version {0} is not known")]
    Version(u8),
    #[error("the record is empty")]
    Empty,
    #[error(transparent)]
    Format(#[from] postcard::Error),
}

pub(crate) fn write<T: Serialize>(value: &T) -> Result<Bytes, ControlFault> {
    Ok(postcard::to_extend(value, vec![VERSION])?.into())
}

pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ControlFault> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => Ok(postcard::from_bytes(rest)?),
        Some((&version, _)) => Err(ControlFault::Version(version)),
        None => Err(ControlFault::Empty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_record_comes_back_as_it_went() {
        let records = [
            Control::Vote(Vote::new_committed(3, 2)),
            Control::Leader {
                from: 7,
                leader: LeaderId::new(3, 2),
            },
            Control::Blank {
                log_id: LogId::new(LeaderId::new(3, 2), 6),
            },
            Control::Truncate { from: 9 },
        ];
        for record in records {
            let bytes = write(&record).unwrap();
            assert_eq!(read::<Control>(&bytes).unwrap(), record);
        }
    }

    #[test]
    fn a_record_of_another_version_is_a_fault() {
        let mut bytes = write(&Control::Truncate { from: 9 }).unwrap().to_vec();
        bytes[0] = 200;
        assert!(matches!(
            read::<Control>(&bytes),
            Err(ControlFault::Version(200))
        ));
        assert!(matches!(read::<Control>(&[]), Err(ControlFault::Empty)));
    }
}
