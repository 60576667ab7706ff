//! A group's log after a restart: read back record by record, then opened.
//!
//! Entries that were written but perhaps never committed come back as entries of the log, not of the
//! machine: the group applies them once a leader says so.

use std::collections::VecDeque;

use bytes::Bytes;
use openraft::EntryPayload;
use storage::{Position, StreamId};
use thiserror::Error;

use super::control::{self, Control, Saved};
use super::log::State;
use super::types::{Command, Entry, LeaderId, LogId, StoredMembership};

/// A group's records do not fit together.
#[derive(Debug, Error)]
pub enum LogFault {
    /// The saved state or a control record cannot be read.
    #[error("the state of the replica group of stream {stream} cannot be read: {why}")]
    Unreadable {
        /// The group's stream.
        stream: StreamId,
        /// What is wrong.
        why: String,
    },
    /// A batch lies in the stream although nobody led the group: a single node wrote it.
    #[error("stream {stream} was written by a node without a cluster")]
    NotReplicated {
        /// The group's stream.
        stream: StreamId,
    },
}

/// The log of one group while it is read back.
pub struct ReplayedLog {
    stream: StreamId,
    state: State,
    /// Whose batches follow; `None` until a control record says so.
    leader: Option<LeaderId>,
    saved_leaders: Vec<(u64, LeaderId)>,
}

impl ReplayedLog {
    /// Begins with the saved state, if there is one.
    pub fn new(stream: StreamId, saved: Option<&[u8]>) -> Result<Self, LogFault> {
        let saved: Saved = match saved {
            Some(bytes) => control::read(bytes).map_err(|fault| LogFault::Unreadable {
                stream,
                why: fault.to_string(),
            })?,
            None => Saved::default(),
        };
        let state = State {
            vote: saved.vote,
            purged: saved.covered,
            membership: saved.membership,
            entries: VecDeque::new(),
            behind: saved.behind,
            control_index: 0,
            written_leader: None,
            void: Vec::new(),
        };
        Ok(Self {
            stream,
            state,
            leader: None,
            saved_leaders: saved.leaders,
        })
    }

    /// Machine index up to which the machine's own checkpoints go.
    pub fn covered(&self) -> u64 {
        self.state.purged.map_or(0, |covered| covered.index + 1)
    }

    /// Takes a record of the group's own stream.
    pub fn batch(&mut self, index: u64, payload: Bytes, at: Position) -> Result<(), LogFault> {
        if index <= self.covered() {
            return Ok(());
        }
        let index = index - 1;
        let Some(leader_id) = self.leader.or_else(|| self.saved_leader(index)) else {
            return Err(LogFault::NotReplicated {
                stream: self.stream,
            });
        };
        let proposal = None;
        let payload = EntryPayload::Normal(Command { payload, proposal });
        self.put(LogId::new(leader_id, index), payload, Some(at));
        Ok(())
    }

    /// Takes a record of the control stream. Answers the machine index of its entry, if it is one.
    pub fn control(&mut self, index: u64, record: &[u8]) -> Result<Option<u64>, LogFault> {
        self.state.control_index = self.state.control_index.max(index);
        let record: Control = control::read(record).map_err(|fault| LogFault::Unreadable {
            stream: self.stream,
            why: fault.to_string(),
        })?;
        match record {
            // The saved vote may be younger than this record.
            Control::Vote(vote) if Some(vote) >= self.state.vote => self.state.vote = Some(vote),
            Control::Vote(_) => {}
            Control::Leader { leader, .. } => self.leader = Some(leader),
            Control::Blank { log_id } => {
                self.put(log_id, EntryPayload::Blank, None);
                return Ok(Some(log_id.index + 1));
            }
            Control::Members { log_id, membership } => {
                self.put(log_id, EntryPayload::Membership(membership), None);
                return Ok(Some(log_id.index + 1));
            }
            Control::Truncate { from } => self.state.truncate(from),
            Control::Behind(behind) => self.state.behind = behind,
            Control::Installed { log_id, membership } => self.install(log_id, membership),
        }
        Ok(None)
    }

    /// Continues the numbers of control records after this one.
    pub fn continue_control(&mut self, last_index: u64) {
        self.state.control_index = self.state.control_index.max(last_index);
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    pub(crate) fn into_state(mut self) -> State {
        self.state.void.clear();
        self.state
    }

    fn install(&mut self, log_id: LogId, membership: StoredMembership) {
        if self.state.purged.is_some_and(|purged| purged >= log_id) {
            return;
        }
        self.state.purge(log_id);
        self.state.membership = membership;
    }

    fn saved_leader(&self, index: u64) -> Option<LeaderId> {
        let leaders = self.saved_leaders.iter().rev();
        let mut before = leaders.filter(|(from, _)| *from <= index);
        let saved = before.next().map(|(_, leader)| *leader);
        saved.or(self.state.purged.map(|purged| purged.leader_id))
    }

    fn put(
        &mut self,
        log_id: LogId,
        payload: EntryPayload<super::types::TypeConfig>,
        at: Option<Position>,
    ) {
        if log_id.index < self.covered() {
            return;
        }
        if !self.state.put(Entry { log_id, payload }, at) {
            tracing::warn!(stream = %self.stream, entry = %log_id, "an entry behind a hole is left out");
        }
    }
}
