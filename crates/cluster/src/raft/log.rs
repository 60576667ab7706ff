//! The log of one replica group: entries in memory as long as no checkpoint covers them, records in
//! the journal.
//!
//! openraft counts entries from 0, machines and the journal from 1: `index + 1` on every border.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::mem;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{EntryPayload, LogState, RaftLogReader, StorageIOError};
use parking_lot::Mutex;
use storage::{Position, StreamId};
use tokio::sync::oneshot;

use super::control::{self, Control, Saved};
use super::types::{Entry, LeaderId, LogId, StorageError, StoredMembership, TypeConfig, Vote};
use crate::group::NodeId;

/// Entries in one answer to a member that lags.
const READ_BYTES_MAX: usize = 4 << 20;

/// Called once when a record is durable, with its place, or when it never will be.
pub type LogDone = Box<dyn FnOnce(io::Result<Option<Position>>) + Send>;

/// Where records go. Records become durable in the order of these calls.
pub trait LogDisk: Send + Sync {
    /// Appends a record and returns at once.
    fn append(&self, stream: StreamId, index: u64, payload: Bytes, done: LogDone);

    /// The group's machine has applied the entry at `index`; its log goes on to `last`.
    fn applied(&self, index: u64, last: u64);

    /// Whether the disk keeps up; when not, publishers should be held.
    fn has_room(&self) -> bool;

    /// Largest payload that `append` takes.
    fn record_bytes_max(&self) -> u64;
}

/// Told where a group's records lie, so that its state is saved before they go.
pub trait LogNotes: Send + Sync {
    /// A record of the group is durable at this place; `index` is its entry's, for machines, if it
    /// is an entry.
    fn durable(&self, at: Position, index: Option<u64>);
}

/// The control stream of a group.
pub fn control_stream(stream: StreamId) -> StreamId {
    StreamId(stream.0 | 1 << 30)
}

/// A log, shared by openraft's parts.
#[derive(Clone)]
pub(crate) struct RaftLog(Arc<Shared>);

struct Shared {
    stream: StreamId,
    disk: Arc<dyn LogDisk>,
    notes: Arc<dyn LogNotes>,
    state: Mutex<State>,
}

/// What is known of the log.
pub(crate) struct State {
    pub(crate) vote: Option<Vote>,
    /// The last entry that is not here any more.
    pub(crate) purged: Option<LogId>,
    /// The members as of `purged`.
    pub(crate) membership: StoredMembership,
    pub(crate) entries: VecDeque<Logged>,
    /// See `Control::Behind`.
    pub(crate) behind: bool,
    /// Number of the last control record.
    pub(crate) control_index: u64,
    /// Whose batches follow in the stream, as far as it is written.
    pub(crate) written_leader: Option<LeaderId>,
    /// Entries that were taken out. Whoever proposed them hears of it when they are dropped, which
    /// must not happen under the lock.
    pub(crate) void: Vec<Logged>,
}

pub(crate) struct Logged {
    pub(crate) entry: Entry,
    pub(crate) at: Option<Position>,
}

impl State {
    /// A member that led when it stopped leads no more. openraft would go on in the same term; but the
    /// others may have entries of that term that this disk has not, and the machine decided
    /// beyond the log what is lost with its memory.
    pub(crate) fn resign(&mut self, me: NodeId) {
        if let Some(vote) = &mut self.vote
            && vote.committed
            && vote.leader_id.voted_for() == Some(me.0)
        {
            vote.committed = false;
        }
    }

    fn first_index(&self) -> u64 {
        self.purged.map_or(0, |purged| purged.index + 1)
    }

    fn last_log_id(&self) -> Option<LogId> {
        let last = self.entries.back().map(|logged| logged.entry.log_id);
        last.or(self.purged)
    }

    fn get(&self, index: u64) -> Option<&Logged> {
        let at = index.checked_sub(self.first_index())?;
        self.entries.get(at as usize)
    }

    /// Takes an entry in: whatever was there from its index on is void.
    pub(crate) fn put(&mut self, entry: Entry, at: Option<Position>) -> bool {
        let first = self.first_index();
        let Some(place) = entry.log_id.index.checked_sub(first) else {
            return false;
        };
        if place as usize > self.entries.len() {
            return false;
        }
        self.void.extend(self.entries.drain(place as usize..));
        self.entries.push_back(Logged { entry, at });
        true
    }

    pub(crate) fn truncate(&mut self, from: u64) {
        let keep = from.saturating_sub(self.first_index()) as usize;
        if keep < self.entries.len() {
            self.void.extend(self.entries.drain(keep..));
        }
    }

    /// Forgets entries up to this one, and remembers the members as of then.
    pub(crate) fn purge(&mut self, upto: LogId) {
        while let Some(logged) = self.entries.front()
            && logged.entry.log_id.index <= upto.index
        {
            if let EntryPayload::Membership(members) = &logged.entry.payload {
                let log_id = Some(logged.entry.log_id);
                let members = StoredMembership::new(log_id, members.clone());
                self.note_members(members);
            }
            self.void.extend(self.entries.pop_front());
        }
        if self.purged.is_none_or(|purged| purged.index < upto.index) {
            self.purged = Some(upto);
        }
    }

    /// The members as of an entry that is not in the log any more, or never was. Older ones than those
    /// that are known say nothing.
    pub(crate) fn note_members(&mut self, members: StoredMembership) {
        if members.log_id() >= self.membership.log_id() {
            self.membership = members;
        }
    }

    /// What must outlive the journal files whose entries go up to `index`.
    fn save(&self, index: Option<u64>) -> Saved {
        let last = self.last_log_id().map(|last| last.index);
        let index = index.min(last).max(self.purged.map(|purged| purged.index));
        let covered = index
            .and_then(|index| self.get(index))
            .map(|logged| logged.entry.log_id)
            .or(self.purged);
        let mut membership = self.membership.clone();
        let mut leaders: Vec<(u64, LeaderId)> = Vec::new();
        for Logged { entry, .. } in &self.entries {
            let log_id = entry.log_id;
            if covered.is_some_and(|covered| log_id.index <= covered.index) {
                if let EntryPayload::Membership(members) = &entry.payload {
                    membership = StoredMembership::new(Some(log_id), members.clone());
                }
            } else if leaders.last().map(|(_, leader)| *leader) != Some(log_id.leader_id) {
                leaders.push((log_id.index, log_id.leader_id));
            }
        }
        Saved {
            vote: self.vote,
            covered,
            membership,
            leaders,
            behind: self.behind,
        }
    }
}

impl RaftLog {
    pub(crate) fn new(
        stream: StreamId,
        state: State,
        disk: Arc<dyn LogDisk>,
        notes: Arc<dyn LogNotes>,
    ) -> Self {
        Self(Arc::new(Shared {
            stream,
            disk,
            notes,
            state: Mutex::new(state),
        }))
    }

    pub(crate) fn vote(&self) -> Option<Vote> {
        self.0.state.lock().vote
    }

    pub(crate) fn last_log_id(&self) -> Option<LogId> {
        self.0.state.lock().last_log_id()
    }

    /// Machine index of the last entry.
    pub(crate) fn last_index(&self) -> u64 {
        let last = self.0.state.lock().last_log_id();
        last.map_or(0, |last| last.index + 1)
    }

    /// The machine has applied the entry at this machine index.
    pub(crate) fn applied(&self, index: u64) {
        self.0.disk.applied(index, self.last_index());
    }

    pub(crate) fn disk(&self) -> &dyn LogDisk {
        &*self.0.disk
    }

    /// Where the batch of an entry lies.
    pub(crate) fn position(&self, index: u64) -> Option<Position> {
        self.0.state.lock().get(index).and_then(|logged| logged.at)
    }

    /// Writes the state that outlives journal files whose entries go up to `index`, counted as
    /// machines count. Answers the last control record that is in it.
    pub(crate) fn save(&self, index: u64, out: &mut Vec<u8>) -> Option<u64> {
        let state = self.0.state.lock();
        match control::write(&state.save(index.checked_sub(1))) {
            Ok(bytes) => out.extend_from_slice(&bytes),
            Err(error) => {
                tracing::error!(stream = %self.0.stream, %error, "the state of a group cannot be written");
                return None;
            }
        }
        Some(state.control_index)
    }

    /// The entry that `save` would call covered, and the members as of then.
    pub(crate) fn covered(&self, index: u64) -> (Option<LogId>, StoredMembership) {
        let saved = self.0.state.lock().save(index.checked_sub(1));
        (saved.covered, saved.membership)
    }

    /// Notes in the log that the state was replaced.
    pub(crate) async fn installed(
        &self,
        log_id: LogId,
        membership: StoredMembership,
    ) -> Result<(), StorageError> {
        // First: what is saved once the record is written is taken for having it.
        self.0.state.lock().note_members(membership.clone());
        let record = Control::Installed { log_id, membership };
        self.write_control(&record, None)
            .await
            .map_err(|error| StorageIOError::write_snapshot(None, &error).into())
    }

    /// Notes whether this member is behind; ends when that is durable.
    pub(crate) async fn set_behind(&self, behind: bool) -> io::Result<()> {
        self.0.state.lock().behind = behind;
        self.write_control(&Control::Behind(behind), None).await
    }

    /// Whether nothing was ever written.
    pub(crate) fn is_blank(&self) -> bool {
        let state = self.0.state.lock();
        state.vote.is_none() && state.last_log_id().is_none()
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.0.state.lock().behind
    }

    /// Appends a control record; the future ends when it is durable.
    fn write_control(
        &self,
        record: &Control,
        entry_index: Option<u64>,
    ) -> impl Future<Output = io::Result<()>> + use<> {
        let (done, durable) = oneshot::channel();
        let appended = self.append_control(&mut self.0.state.lock(), record, entry_index, {
            Box::new(move |result| {
                // Whoever waited may be gone with the node.
                let _ = done.send(result.map(|_| ()));
            })
        });
        async move {
            appended?;
            durable.await.map_err(io::Error::other)?
        }
    }

    fn append_control(
        &self,
        state: &mut State,
        record: &Control,
        entry_index: Option<u64>,
        then: LogDone,
    ) -> io::Result<()> {
        let bytes = control::write(record).map_err(io::Error::other)?;
        state.control_index += 1;
        let notes = Arc::clone(&self.0.notes);
        let done: LogDone = Box::new(move |result| {
            if let Ok(Some(at)) = &result {
                notes.durable(*at, entry_index.map(|index| index + 1));
            }
            then(result);
        });
        let stream = control_stream(self.0.stream);
        self.0.disk.append(stream, state.control_index, bytes, done);
        Ok(())
    }

    /// Appends one entry; `then` is called when it is durable.
    fn append_entry(&self, state: &mut State, entry: Entry, then: LogDone) -> io::Result<()> {
        let log_id = entry.log_id;
        match &entry.payload {
            EntryPayload::Normal(command) => {
                if state.written_leader != Some(log_id.leader_id) {
                    let (from, leader) = (log_id.index, log_id.leader_id);
                    let record = Control::Leader { from, leader };
                    self.append_control(state, &record, None, Box::new(|_| {}))?;
                    state.written_leader = Some(leader);
                }
                let payload = command.payload.clone();
                let this = self.clone();
                let done: LogDone = Box::new(move |result| {
                    if let Ok(Some(at)) = &result {
                        this.landed(log_id, *at);
                    }
                    then(result);
                });
                let index = log_id.index + 1;
                self.0.disk.append(self.0.stream, index, payload, done);
            }
            EntryPayload::Blank => {
                let record = Control::Blank { log_id };
                self.append_control(state, &record, Some(log_id.index), then)?;
            }
            EntryPayload::Membership(membership) => {
                let record = Control::Members {
                    log_id,
                    membership: membership.clone(),
                };
                self.append_control(state, &record, Some(log_id.index), then)?;
            }
        }
        if !state.put(entry, None) {
            return Err(io::Error::other(format!("entry {log_id} leaves a hole")));
        }
        Ok(())
    }

    /// A batch is durable.
    fn landed(&self, log_id: LogId, at: Position) {
        let mut state = self.0.state.lock();
        let first = state.first_index();
        let place = log_id.index.checked_sub(first);
        if let Some(logged) = place.and_then(|place| state.entries.get_mut(place as usize))
            && logged.entry.log_id == log_id
        {
            logged.at = Some(at);
        }
        drop(state);
        self.0.notes.durable(at, Some(log_id.index + 1));
    }

    fn read(&self, range: impl RangeBounds<u64>, bytes_max: usize) -> Vec<Entry> {
        let state = self.0.state.lock();
        let first = state.first_index();
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => 0,
        };
        // Entries that are gone are no reason to answer with later ones.
        let Some(skip) = from.checked_sub(first) else {
            return Vec::new();
        };
        let (skip, mut bytes) = (skip as usize, 0);
        let wanted = state.entries.iter().skip(skip).map(|logged| &logged.entry);
        wanted
            .take_while(|entry| range.contains(&entry.log_id.index))
            .take_while(|entry| {
                let room = bytes < bytes_max;
                if let EntryPayload::Normal(command) = &entry.payload {
                    bytes += command.payload.len();
                }
                room
            })
            .cloned()
            .collect()
    }
}

impl RaftLogReader<TypeConfig> for RaftLog {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        Ok(self.read(range, usize::MAX))
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, StorageError> {
        Ok(self.read(start..end, READ_BYTES_MAX))
    }
}

impl RaftLogStorage<TypeConfig> for RaftLog {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        let state = self.0.state.lock();
        Ok(LogState {
            last_purged_log_id: state.purged,
            last_log_id: state.last_log_id(),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        self.0.state.lock().vote = Some(*vote);
        self.write_control(&Control::Vote(*vote), None)
            .await
            .map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(self.0.state.lock().vote)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let mut entries = entries.into_iter().peekable();
        let mut callback = Some(callback);
        let mut state = self.0.state.lock();
        while let Some(entry) = entries.next() {
            let last = entries.peek().is_none();
            // The journal reports in order: the last record speaks for all before it.
            let then: LogDone = match callback.take_if(|_| last) {
                Some(callback) => Box::new(move |result| {
                    callback.log_io_completed(result.map(|_| ()));
                }),
                None => Box::new(|_| {}),
            };
            self.append_entry(&mut state, entry, then)
                .map_err(|error| StorageIOError::write_logs(&error))?;
        }
        let void = mem::take(&mut state.void);
        drop(state);
        drop(void);
        if let Some(callback) = callback {
            callback.log_io_completed(Ok(()));
        }
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let from = log_id.index;
        let durable = {
            let mut state = self.0.state.lock();
            state.truncate(from);
            state.written_leader = None;
            let void = mem::take(&mut state.void);
            drop(state);
            drop(void);
            self.write_control(&Control::Truncate { from }, None)
        };
        durable
            .await
            .map_err(|error| StorageIOError::write_logs(&error).into())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let void = {
            let mut state = self.0.state.lock();
            state.purge(log_id);
            mem::take(&mut state.void)
        };
        drop(void);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voted(vote: Vote) -> State {
        State {
            vote: Some(vote),
            purged: None,
            membership: StoredMembership::default(),
            entries: VecDeque::new(),
            behind: false,
            control_index: 0,
            written_leader: None,
            void: Vec::new(),
        }
    }

    #[test]
    fn a_member_that_led_when_it_stopped_does_not_lead_on() {
        let mut state = voted(Vote::new_committed(3, 1));
        state.resign(NodeId(1));
        assert_eq!(state.vote, Some(Vote::new(3, 1)));
    }

    fn members(index: u64, nodes: [u64; 3]) -> StoredMembership {
        let voters = nodes
            .into_iter()
            .collect::<std::collections::BTreeSet<u64>>();
        let nodes: std::collections::BTreeMap<_, _> = voters
            .iter()
            .map(|node| (*node, Default::default()))
            .collect();
        let log_id = LogId::new(LeaderId::new(1, 1), index);
        StoredMembership::new(Some(log_id), openraft::Membership::new(vec![voters], nodes))
    }

    #[test]
    fn the_members_of_an_installed_state_are_saved_and_older_ones_do_not_replace_them() {
        let mut state = voted(Vote::new(3, 1));
        assert_eq!(state.save(None).membership, StoredMembership::default());
        state.note_members(members(7, [1, 2, 3]));
        assert_eq!(state.save(None).membership, members(7, [1, 2, 3]));
        state.note_members(members(4, [1, 2, 4]));
        assert_eq!(state.save(None).membership, members(7, [1, 2, 3]));
        state.note_members(members(9, [2, 3, 5]));
        assert_eq!(state.save(None).membership, members(9, [2, 3, 5]));
    }

    #[test]
    fn a_member_that_followed_remembers_its_leader() {
        let mut state = voted(Vote::new_committed(3, 2));
        state.resign(NodeId(1));
        assert_eq!(state.vote, Some(Vote::new_committed(3, 2)));
    }
}
