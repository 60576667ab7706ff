//! The last durable state of each store: small opaque blobs in one append-only file that is rewritten
//! when more than half of it is dead.
//!
//! Knows sets of blobs that become durable together; not what is in them. Beside them it keeps the highest
//! index of each stream, so that an index that a checkpoint covers is never given out twice.

mod format;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, IoSlice};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use self::format::{Entry, FILE_HEADER_BYTES, Place, SetReader, SetWriter};
use crate::disk::{Disk, DiskFile, read_full_at, write_all_at};
use crate::error::{During, Result, StorageError};
use crate::place::{StoreId, StreamId};

pub(crate) const NAME: &str = "checkpoints";
const REWRITTEN_NAME: &str = "checkpoints.new";
/// A blob is O(exceptions) of a queue; this only keeps it within the format's 32 bits.
const BLOB_BYTES_MAX: u64 = 1 << 30;

/// The state of a store as its owner wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Highest index of the store's stream whose effects are in the blob.
    pub covered: u64,
    /// Opaque.
    pub blob: Bytes,
}

/// All checkpoints of a data directory.
#[derive(Debug)]
pub struct Checkpoints {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    rewrite_bytes_min: u64,
    state: Mutex<State>,
    /// Removals that are not written yet; apart, so that a removal waits for no sync. Bounded by the
    /// number of stores.
    removed: Mutex<HashSet<StoreId>>,
}

#[derive(Debug)]
struct State {
    file: Arc<dyn DiskFile>,
    bytes: u64,
    live_bytes: u64,
    places: HashMap<StoreId, Place>,
    last: HashMap<StreamId, u64>,
}

impl Checkpoints {
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, rewrite_bytes_min: u64) -> Result<Self> {
        let path = dir.join(NAME);
        let file = match disk.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(&*disk, dir, |_, _| Ok(FILE_HEADER_BYTES))?.0
            }
            opened => opened.during("open", &path)?,
        };
        let mut state = State {
            file: Arc::clone(&file),
            bytes: 0,
            live_bytes: 0,
            places: HashMap::new(),
            last: HashMap::new(),
        };
        state.bytes = SetReader::open(&*file, &path)?.read(|entry| state.apply(entry))?;
        // A torn set at the end is cut; what a killed process wrote may not be durable yet.
        file.set_len(state.bytes).during("cut", &path)?;
        file.sync().during("sync", &path)?;
        Ok(Self {
            disk,
            dir: dir.to_path_buf(),
            rewrite_bytes_min,
            state: Mutex::new(state),
            removed: Mutex::default(),
        })
    }

    /// Makes the states durable, all or none: (store, covered index, blob).
    pub fn put(&self, set: &[(StoreId, u64, &[u8])]) -> Result<()> {
        self.put_with_streams(set, &[])
    }

    /// `put`, and the highest indexes of streams with it.
    pub(crate) fn put_with_streams(
        &self,
        set: &[(StoreId, u64, &[u8])],
        streams: &[(StreamId, u64)],
    ) -> Result<()> {
        let largest = set
            .iter()
            .map(|(_, _, blob)| blob.len() as u64)
            .max()
            .unwrap_or(0);
        if largest > BLOB_BYTES_MAX {
            return Err(StorageError::ItemTooLarge {
                bytes: largest,
                bytes_max: BLOB_BYTES_MAX,
            });
        }
        let mut state = self.state.lock();
        let removed = mem::take(&mut *self.removed.lock());
        if set.is_empty() && streams.is_empty() && removed.is_empty() {
            return Ok(());
        }
        let path = self.dir.join(NAME);
        let file = Arc::clone(&state.file);
        let mut writer = SetWriter::new(&*file, &path, state.bytes);
        let mut entries = Vec::with_capacity(set.len() + streams.len() + removed.len());
        for (store, covered, blob) in set {
            entries.push(Entry::Put(*store, writer.put(*store, *covered, blob)?));
        }
        for (stream, index) in streams {
            writer.stream(*stream, *index)?;
            entries.push(Entry::Stream(*stream, *index));
        }
        // After the states: a store that was removed while its state was on the way stays removed.
        for store in removed {
            writer.remove(store)?;
            entries.push(Entry::Remove(store));
        }
        let end = writer.finish()?;
        file.sync().during("sync", &path)?;
        vouch(&*file, &path, end)?;
        state.bytes = end;
        entries.into_iter().for_each(|entry| state.apply(entry));
        if state.bytes > 2 * state.live_bytes + self.rewrite_bytes_min {
            self.rewrite(&mut state)?;
        }
        Ok(())
    }

    /// The last state of the store.
    pub fn get(&self, store: StoreId) -> Result<Option<Checkpoint>> {
        if self.removed.lock().contains(&store) {
            return Ok(None);
        }
        let state = self.state.lock();
        let Some(place) = state.places.get(&store).copied() else {
            return Ok(None);
        };
        let blob = read_blob(&*state.file, &self.dir.join(NAME), &place)?;
        Ok(Some(Checkpoint {
            covered: place.covered,
            blob,
        }))
    }

    /// Index that the last state of the store covers; reads no file.
    pub fn covered(&self, store: StoreId) -> Option<u64> {
        self.state
            .lock()
            .places
            .get(&store)
            .map(|place| place.covered)
    }

    /// Every store that has a state, in no order.
    pub fn stores(&self) -> Vec<StoreId> {
        let state = self.state.lock();
        let removed = self.removed.lock();
        state
            .places
            .keys()
            .filter(|store| !removed.contains(store))
            .copied()
            .collect()
    }

    /// The store is gone. Costs no write: it becomes durable with the next set, and a restart before
    /// that shows the store once more.
    pub fn remove(&self, store: StoreId) {
        self.removed.lock().insert(store);
    }

    /// Highest index of each stream as of the last set.
    pub(crate) fn last_indexes(&self) -> HashMap<StreamId, u64> {
        self.state.lock().last.clone()
    }

    /// Bytes of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// Copies what lives into a fresh file that takes the old one's place.
    fn rewrite(&self, state: &mut State) -> Result<()> {
        let old = Arc::clone(&state.file);
        let old_path = self.dir.join(NAME);
        let mut places = HashMap::with_capacity(state.places.len());
        let (file, bytes) = create(&*self.disk, &self.dir, |file, path| {
            let mut writer = SetWriter::new(file, path, FILE_HEADER_BYTES);
            for (store, place) in &state.places {
                let blob = read_blob(&*old, &old_path, place)?;
                places.insert(*store, writer.put(*store, place.covered, &blob)?);
            }
            for (stream, index) in &state.last {
                writer.stream(*stream, *index)?;
            }
            writer.finish()
        })?;
        tracing::debug!(
            from_bytes = state.bytes,
            to_bytes = bytes,
            "checkpoint file rewritten"
        );
        state.file = file;
        state.bytes = bytes;
        state.places = places;
        Ok(())
    }
}

impl State {
    fn apply(&mut self, entry: Entry) {
        let replaced = match entry {
            Entry::Put(store, place) => {
                self.live_bytes += place.file_bytes();
                self.places.insert(store, place)
            }
            Entry::Remove(store) => self.places.remove(&store),
            Entry::Stream(stream, index) => {
                let last = self.last.entry(stream).or_default();
                *last = index.max(*last);
                None
            }
        };
        self.live_bytes -= replaced.map_or(0, |place| place.file_bytes());
    }
}

/// Writes a checkpoint file beside the real one and puts it in its place: whole or not at all. `fill`
/// writes behind the header and answers the end.
fn create(
    disk: &dyn Disk,
    dir: &Path,
    fill: impl FnOnce(&dyn DiskFile, &Path) -> Result<u64>,
) -> Result<(Arc<dyn DiskFile>, u64)> {
    let path = dir.join(REWRITTEN_NAME);
    match disk.remove(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.during("remove", &path)?,
    }
    let file = disk.create(&path).during("create", &path)?;
    let header = format::encode_file_header();
    write_all_at(&*file, &mut [IoSlice::new(&header)], 0).during("write", &path)?;
    let bytes = fill(&*file, &path)?;
    file.sync().during("sync", &path)?;
    vouch(&*file, &path, bytes)?;
    disk.rename(&path, &dir.join(NAME))
        .during("rename", &path)?;
    disk.sync_dir(dir).during("sync", dir)?;
    Ok((file, bytes))
}

/// The last state of each store in a checkpoint file, in order.
pub(crate) fn read_states(file: &dyn DiskFile, path: &Path) -> Result<Vec<(StoreId, Checkpoint)>> {
    states_of(file, path, SetReader::open(file, path)?)
}

/// The same, from what comes before the damage at `end`.
pub(crate) fn read_states_before(
    file: &dyn DiskFile,
    path: &Path,
    end: u64,
) -> Result<Vec<(StoreId, Checkpoint)>> {
    if end < FILE_HEADER_BYTES {
        return Ok(Vec::new());
    }
    states_of(file, path, SetReader::open(file, path)?.up_to(end))
}

fn states_of(
    file: &dyn DiskFile,
    path: &Path,
    reader: SetReader<'_>,
) -> Result<Vec<(StoreId, Checkpoint)>> {
    let mut places = BTreeMap::new();
    reader.read(|entry| match entry {
        Entry::Put(store, place) => {
            places.insert(store, place);
        }
        Entry::Remove(store) => {
            places.remove(&store);
        }
        Entry::Stream(..) => {}
    })?;
    let states = places.into_iter().map(|(store, place)| {
        let blob = read_blob(file, path, &place)?;
        let covered = place.covered;
        Ok((store, Checkpoint { covered, blob }))
    });
    states.collect()
}

/// Writes an empty set, not synced, which the next set overwrites. Once it is on the disk it says that what
/// comes before was durable: damage there is no torn write.
fn vouch(file: &dyn DiskFile, path: &Path, end: u64) -> Result<()> {
    SetWriter::new(file, path, end).finish().map(|_| ())
}

fn read_blob(file: &dyn DiskFile, path: &Path, place: &Place) -> Result<Bytes> {
    let mut blob = vec![0; place.len as usize];
    let read = read_full_at(file, &mut blob, place.offset).during("read", path)?;
    if read != blob.len() || crc32c::crc32c(&blob) != place.crc {
        let (path, offset) = (path.to_path_buf(), place.offset);
        return Err(StorageError::Corrupt {
            path,
            offset,
            what: "a checkpoint",
        });
    }
    Ok(blob.into())
}
