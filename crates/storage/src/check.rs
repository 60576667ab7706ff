//! Reads a data directory without changing it, past whatever is damaged: what is there, and what is not.
//!
//! Knows files, records, items and states; not what they mean. A start stops at the first damaged byte;
//! this goes on behind it, so that what is left can be saved.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::checkpoint::{self, Checkpoint};
use crate::disk::{Disk, RealDisk, read_full_at};
use crate::error::{During, Result, StorageError};
use crate::journal;
use crate::place::{FileId, StoreId, StreamId};
use crate::segment;
use crate::storage::{JOURNAL, SEGMENTS, lock};

/// Something that can be read.
#[derive(Debug)]
pub enum Found {
    /// The last durable state of a store. All of them come first.
    State(StoreId, Checkpoint),
    /// A record of the journal. They come in the order of the journal, after the states.
    Record {
        /// Whose it is.
        stream: StreamId,
        /// Its index in the stream.
        index: u64,
        /// The payload.
        payload: Bytes,
    },
    /// An item of a segment, dead or alive. They come last.
    Item {
        /// Whose it is.
        store: StoreId,
        /// The owner's number for it.
        id: u64,
        /// What the owner gave with it.
        attributes: u64,
        /// The item.
        bytes: Bytes,
    },
}

/// A stretch that does not read back as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where it begins.
    pub offset: u64,
    /// Where something begins that can be read again; the end of the file when nothing does.
    pub until: u64,
    /// What was expected there.
    pub what: &'static str,
}

/// What was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Journal files with records.
    pub journal_files: u64,
    /// Readable records.
    pub records: u64,
    /// Segment files.
    pub segments: u64,
    /// Readable items.
    pub items: u64,
    /// Readable states.
    pub states: u64,
    /// Bytes of all these files.
    pub bytes: u64,
    /// What is damaged. A torn end of the newest journal file, or of a store's newest segment, is not:
    /// it was never reported to anybody.
    pub damage: Vec<Damage>,
}

/// What one file holds, for the walks of the other modules.
pub(crate) struct Walk<'a> {
    pub(crate) path: &'a Path,
    pub(crate) bytes: &'a Bytes,
    pub(crate) damage: &'a mut Vec<Damage>,
}

impl Walk<'_> {
    pub(crate) fn damaged(&mut self, offset: u64, until: Option<u64>, what: &'static str) {
        self.damage.push(Damage {
            path: self.path.to_path_buf(),
            offset,
            until: until.unwrap_or(self.bytes.len() as u64),
            what,
        });
    }
}

/// Checks a data directory of this machine; no broker may be using it. Every readable thing is shown.
///
/// # Errors
/// It is no data directory, is in use, or cannot be read at all; damage is no error here.
pub fn check(dir: &Path, show: impl FnMut(Found)) -> Result<Checked> {
    check_on(&RealDisk, dir, show)
}

/// The same on a disk of the caller's choice.
pub fn check_on(disk: &dyn Disk, dir: &Path, mut show: impl FnMut(Found)) -> Result<Checked> {
    let (journal_dir, segments_dir) = (dir.join(JOURNAL), dir.join(SEGMENTS));
    // Before the lock: no file is made where there is no data directory.
    let states = dir.join(checkpoint::NAME);
    disk.open(&states).during("open", &states)?;
    let _lock = lock(disk, dir)?;
    let mut checked = Checked::default();
    check_states(disk, dir, &mut checked, &mut show)?;
    check_journal(disk, &journal_dir, &mut checked, &mut show)?;
    check_segments(disk, &segments_dir, &mut checked, &mut show)?;
    Ok(checked)
}

fn check_states(
    disk: &dyn Disk,
    dir: &Path,
    checked: &mut Checked,
    show: &mut impl FnMut(Found),
) -> Result<()> {
    let path = dir.join(checkpoint::NAME);
    let file = disk.open(&path).during("open", &path)?;
    checked.bytes += file.len().during("measure", &path)?;
    let states = match checkpoint::read_states(&*file, &path) {
        Err(StorageError::Corrupt { path, offset, what }) => {
            let until = file.len().during("measure", &path)?;
            checked.damage.push(Damage {
                path,
                offset,
                until,
                what,
            });
            checkpoint::read_states_before(&*file, &dir.join(checkpoint::NAME), offset)?
        }
        read => read?,
    };
    for (store, state) in states {
        checked.states += 1;
        show(Found::State(store, state));
    }
    Ok(())
}

fn check_journal(
    disk: &dyn Disk,
    dir: &Path,
    checked: &mut Checked,
    show: &mut impl FnMut(Found),
) -> Result<()> {
    let names = disk.list(dir).during("list", dir)?;
    let names = names
        .iter()
        .filter_map(|name| journal::pool::parse_name(name));
    let mut files: Vec<FileId> = names.filter(|(_, used)| *used).map(|(id, _)| id).collect();
    files.sort_unstable();
    for id in &files {
        let path = journal::pool::used_path(dir, *id);
        let bytes = read_whole(disk, &path)?;
        checked.journal_files += 1;
        checked.bytes += bytes.len() as u64;
        let mut walk = Walk {
            path: &path,
            bytes: &bytes,
            damage: &mut checked.damage,
        };
        let is_newest = files.last() == Some(id);
        journal::check::walk(&mut walk, *id, is_newest, |stream, index, payload| {
            checked.records += 1;
            show(Found::Record {
                stream,
                index,
                payload,
            });
        })?;
    }
    Ok(())
}

fn check_segments(
    disk: &dyn Disk,
    dir: &Path,
    checked: &mut Checked,
    show: &mut impl FnMut(Found),
) -> Result<()> {
    let names = disk.list(dir).during("list", dir)?;
    let mut keys: Vec<_> = names
        .iter()
        .filter_map(|name| segment::parse_name(name))
        .collect();
    keys.sort_unstable();
    for (number, key) in keys.iter().enumerate() {
        let path = dir.join(segment::file_name(*key));
        let bytes = read_whole(disk, &path)?;
        checked.segments += 1;
        checked.bytes += bytes.len() as u64;
        let mut walk = Walk {
            path: &path,
            bytes: &bytes,
            damage: &mut checked.damage,
        };
        let is_newest = keys
            .get(number + 1)
            .is_none_or(|(store, _)| *store != key.0);
        segment::check::walk(&mut walk, *key, is_newest, |id, attributes, bytes| {
            checked.items += 1;
            let store = key.0;
            show(Found::Item {
                store,
                id,
                attributes,
                bytes,
            });
        })?;
    }
    Ok(())
}

/// A file that may be a gibibyte, but seldom is.
fn read_whole(disk: &dyn Disk, path: &Path) -> Result<Bytes> {
    let file = disk.open(path).during("open", path)?;
    let len = file.len().during("measure", path)?;
    let mut bytes = vec![0; len as usize];
    let read = read_full_at(&*file, &mut bytes, 0).during("read", path)?;
    bytes.truncate(read);
    Ok(bytes.into())
}
