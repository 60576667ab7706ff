//! Items that outlive their journal file: append-only files per store, with an index at the end of each
//! full one.
//!
//! Knows stores and items, and which of them are dead; not what they are. A segment in which nothing lives is
//! removed; a store whose segments are more than half dead says so, and is compacted.

mod account;
pub(crate) mod check;
mod compaction;
mod format;
mod open_files;
mod reader;
mod recovered;
mod remembered;
mod run;
mod writer;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, mem};

use bytes::Bytes;
use parking_lot::Mutex;

use self::account::Account;
use self::open_files::{Key, OpenFiles};
pub(crate) use self::open_files::{name as file_name, parse_name};
use self::reader::{Contents, SegmentFile};
use self::recovered::Source;
pub use self::recovered::{RecoveredItem, RecoveredItems, SegmentSpan};
pub use self::run::Run;
use self::writer::Writer;
use crate::bell::Bell;
use crate::disk::{Disk, read_full_at};
use crate::error::{During, Result, StorageError};
use crate::options::Options;
use crate::place::{Location, StoreId, Tier};

/// An item to be kept.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// The owner's number for it, unique within its store.
    pub id: u64,
    /// Opaque; comes back from `SegmentStore::recover`.
    pub attributes: u64,
    /// The bytes, in parts that lie one after the other on disk.
    pub parts: &'a [&'a [u8]],
}

/// What a store has on disk. Segments that were not looked into since the start count as segments only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Segment files.
    pub segments: u64,
    /// Items that are not released.
    pub live_items: u64,
    /// Their bytes, without headers.
    pub live_bytes: u64,
    /// Bytes of released items that still take room.
    pub dead_bytes: u64,
    /// Bytes of the files, headers and footers of closed ones excepted.
    pub file_bytes: u64,
}

/// One segment of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentUsage {
    /// Its sequence within the store, as in `Location`.
    pub segment: u32,
    /// Items that are not released.
    pub live_items: u64,
    /// Their bytes, without headers.
    pub live_bytes: u64,
    /// Bytes of released items that still take room.
    pub dead_bytes: u64,
    /// Bytes of the file, header and footer excepted.
    pub file_bytes: u64,
}

/// All segments of one tier of a data directory.
///
/// Appending and syncing is the background thread's work; reading and releasing is free to all. The
/// latter two take no lock that is held across a system call.
#[derive(Debug)]
pub struct SegmentStore {
    files: OpenFiles,
    segment_bytes: u64,
    dead_bytes_allowed: u64,
    /// How many stores there are, so that each knows its share of what is allowed.
    store_count: AtomicU64,
    /// Stores to be compacted, each once.
    wasteful: Mutex<Vec<StoreId>>,
    /// Stores that have a segment.
    stores: Mutex<HashMap<StoreId, Arc<Store>>>,
    /// Segments in which nothing lives, to be removed by the background thread.
    dead: Mutex<Vec<Key>>,
    bell: Arc<Bell>,
}

#[derive(Debug, Default)]
struct Store {
    // Lock order: writer, then account. The account's lock is never held across a system call.
    writer: Mutex<Writer>,
    account: Mutex<Account>,
}

impl SegmentStore {
    /// Lists the segments on disk; looks into none. Those of the paged tier are removed instead.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        tier: Tier,
        options: &Options,
        bell: Arc<Bell>,
    ) -> Result<Self> {
        let mut names = disk.list(dir).during("list", dir)?;
        if tier == Tier::Paged {
            for name in names.drain(..) {
                let path = dir.join(name);
                disk.remove(&path).during("remove", &path)?;
            }
        }
        let mut stores: HashMap<StoreId, Arc<Store>> = HashMap::new();
        for (store, segment) in names.iter().filter_map(|name| open_files::parse_name(name)) {
            stores
                .entry(store)
                .or_default()
                .account
                .lock()
                .found(segment);
        }
        Ok(Self {
            files: OpenFiles::new(disk, dir, options.open_segments_max, tier == Tier::Durable),
            segment_bytes: options.segment_bytes,
            dead_bytes_allowed: options.dead_bytes_allowed,
            store_count: AtomicU64::new(stores.len() as u64),
            wasteful: Mutex::default(),
            stores: Mutex::new(stores),
            dead: Mutex::default(),
            bell,
        })
    }

    /// Appends the items and answers their places, in order. They are live at once, and durable and
    /// readable after `sync`.
    pub fn append(&self, store: StoreId, items: &[Item<'_>]) -> Result<Vec<Location>> {
        loop {
            let held = self.store_or_new(store);
            let mut writer = held.writer.lock();
            if !writer.retired {
                return self.append_to(store, &held, &mut writer, items);
            }
        }
    }

    fn append_to(
        &self,
        store: StoreId,
        held: &Store,
        writer: &mut Writer,
        items: &[Item<'_>],
    ) -> Result<Vec<Location>> {
        if !writer.loaded {
            self.load_newest(store, held, writer)?;
        }
        let mut places = Vec::with_capacity(items.len());
        for item in items {
            let place = writer.append(&self.files, store, item, self.segment_bytes)?;
            let item_bytes = u64::from(place.len);
            let frame_bytes = format::item_frame_bytes(item_bytes);
            held.account
                .lock()
                .added(place.segment, item_bytes, frame_bytes);
            places.push(place);
        }
        Ok(places)
    }

    /// Makes everything appended to these stores durable.
    pub fn sync(&self, stores: &[StoreId]) -> Result<()> {
        let mut created = false;
        for store in stores {
            let Some(held) = self.store(*store) else {
                continue;
            };
            let mut writer = held.writer.lock();
            writer.sync(&self.files)?;
            created |= writer.take_created();
        }
        if created && self.files.is_durable() {
            self.files.sync_dir().during("sync", self.files.dir())?;
        }
        Ok(())
    }

    /// Reads one item and checks it.
    pub fn read(&self, store: StoreId, location: &Location) -> Result<Bytes> {
        let frame_bytes = format::ITEM_HEADER_BYTES + u64::from(location.len);
        let run = self.read_run(store, location, frame_bytes as usize)?;
        run.get(location).ok_or_else(|| StorageError::Corrupt {
            path: self.files.path((store, location.segment)),
            offset: u64::from(location.offset),
            what: "an item of a segment",
        })
    }

    /// Reads the item and what lies behind it in its segment, up to `bytes_max` (at least the item). The
    /// items of a store that were appended one after the other lie side by side.
    pub fn read_run(&self, store: StoreId, first: &Location, bytes_max: usize) -> Result<Run> {
        let key = (store, first.segment);
        let path = self.files.path(key);
        let file = self
            .files
            .get(key)
            .map_err(|error| reader::missing(key, error, &path))?;
        let least = format::ITEM_HEADER_BYTES as usize + first.len as usize;
        let mut bytes = vec![0; bytes_max.max(least)];
        let read =
            read_full_at(&*file, &mut bytes, u64::from(first.offset)).during("read", &path)?;
        bytes.truncate(read);
        Ok(Run {
            segment: first.segment,
            start: first.offset,
            bytes: bytes.into(),
        })
    }

    /// The items are dead. Counts only, so it may be called under the owner's locks; a segment in which
    /// nothing lives any more is removed by the background thread.
    pub fn release(&self, store: StoreId, dead: &[Location]) {
        let Some(held) = self.store(store) else {
            return;
        };
        let mut account = held.account.lock();
        let emptied = dead
            .iter()
            .filter(|place| account.released(place.segment, place.len.into()));
        let emptied: Vec<Key> = emptied.map(|place| (store, place.segment)).collect();
        self.note_waste(store, &mut account);
        drop(account);
        self.bury(emptied);
    }

    /// Everything in the store is dead. As cheap as `release`.
    pub fn drop_store(&self, store: StoreId) {
        let Some(held) = self.store(store) else {
            return;
        };
        let segments = held.account.lock().released_all();
        self.bury(
            segments
                .into_iter()
                .map(|segment| (store, segment))
                .collect(),
        );
    }

    fn bury(&self, dead: Vec<Key>) {
        if dead.is_empty() {
            return;
        }
        self.dead.lock().extend(dead);
        self.bell.ring();
    }

    /// Removes the segments in which nothing lives.
    pub(crate) fn remove_dead(&self) -> Result<()> {
        for key in mem::take(&mut *self.dead.lock()) {
            self.remove_if_dead(key)?;
        }
        Ok(())
    }

    fn remove_if_dead(&self, key: Key) -> Result<()> {
        let Some(held) = self.store(key.0) else {
            return Ok(());
        };
        let mut writer = held.writer.lock();
        // The open segment may have got new items since it was buried.
        if !held.account.lock().is_dead(key.1) {
            return Ok(());
        }
        writer.forget(key.1);
        match self.files.remove(key) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.during("remove", &self.files.path(key))?,
        }
        let mut account = held.account.lock();
        account.remove(key.1);
        if account.is_empty() {
            // Whoever waits for this writer finds it retired and asks the table again.
            writer.retired = true;
            drop(account);
            self.stores.lock().remove(&key.0);
            self.store_count.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The items in the segments of the store, oldest first, each with the place it can be read at. All
    /// count as live until released. Looks into segments only here, so it may be left until the
    /// store is needed.
    pub fn recover(&self, store: StoreId) -> Result<RecoveredItems<'_>> {
        let mut sources = Vec::new();
        if let Some(held) = self.store(store) {
            let mut writer = held.writer.lock();
            let unsurveyed = held.account.lock().unsurveyed();
            for segment in unsurveyed {
                self.survey((store, segment), &held, &mut writer)?;
            }
            for segment in held.account.lock().segments() {
                let end = writer.written(segment).unwrap_or(u64::MAX);
                sources.push(Source {
                    key: (store, segment),
                    end,
                });
            }
        }
        Ok(RecoveredItems::new(&self.files, sources))
    }

    /// Which ids each segment of the store holds, oldest segment first. Looks into all of them, as
    /// `recover` does, and remembers nothing.
    pub fn spans(&self, store: StoreId) -> Result<Vec<SegmentSpan>> {
        self.recover(store)?.spans()
    }

    /// The items of some of the store's segments, as `recover` would answer them.
    pub fn items_of_spans(&self, store: StoreId, spans: &[SegmentSpan]) -> RecoveredItems<'_> {
        RecoveredItems::of_spans(&self.files, store, spans)
    }

    /// How many segments there are, those that were never looked into among them.
    pub fn segment_count(&self) -> u64 {
        let stores: Vec<_> = self.stores.lock().values().cloned().collect();
        let counts = stores
            .iter()
            .map(|held| held.account.lock().segment_count());
        counts.sum()
    }

    /// Every store that has a segment, in no order.
    pub fn stores(&self) -> Vec<StoreId> {
        self.stores.lock().keys().copied().collect()
    }

    /// What the store has on disk.
    pub fn usage(&self, store: StoreId) -> StoreUsage {
        self.store(store)
            .map(|held| held.account.lock().usage())
            .unwrap_or_default()
    }

    /// The segments of the store that were looked into since the start, oldest first.
    pub fn segments_of(&self, store: StoreId) -> Vec<SegmentUsage> {
        self.store(store)
            .map(|held| held.account.lock().each())
            .unwrap_or_default()
    }

    /// What all stores have on disk.
    pub fn usage_of_all(&self) -> StoreUsage {
        let stores: Vec<_> = self.stores.lock().values().cloned().collect();
        stores.iter().fold(StoreUsage::default(), |sum, held| {
            sum.plus(held.account.lock().usage())
        })
    }

    fn store(&self, store: StoreId) -> Option<Arc<Store>> {
        self.stores.lock().get(&store).cloned()
    }

    fn store_or_new(&self, store: StoreId) -> Arc<Store> {
        let mut stores = self.stores.lock();
        Arc::clone(stores.entry(store).or_insert_with(|| {
            self.store_count.fetch_add(1, Ordering::Relaxed);
            Arc::default()
        }))
    }

    fn load_newest(&self, store: StoreId, held: &Store, writer: &mut Writer) -> Result<()> {
        let newest = held.account.lock().newest();
        match newest {
            Some(segment) => self.survey((store, segment), held, writer),
            None => {
                writer.load_nothing(0);
                Ok(())
            }
        }
    }

    /// Looks into a segment for the first time since the start.
    fn survey(&self, key: Key, held: &Store, writer: &mut Writer) -> Result<()> {
        let path = self.files.path(key);
        let file = self.files.get(key).during("open", &path)?;
        let segment = SegmentFile { key, path, file };
        let is_newest = held.account.lock().newest() == Some(key.1);
        if let Some(trailer) = segment.trailer()? {
            let items = u64::from(trailer.items);
            held.account
                .lock()
                .surveyed(key.1, items, trailer.item_bytes, trailer.entries_offset);
            if is_newest {
                writer.load_nothing(key.1);
            }
            return self.bury_if_dead(key, held);
        }
        let Some(contents) = segment.contents()? else {
            // Created and killed before anything in it was durable.
            held.account.lock().surveyed(key.1, 0, 0, 0);
            writer.load_nothing(key.1);
            return self.bury_if_dead(key, held);
        };
        let item_bytes = contents
            .entries
            .iter()
            .map(|entry| u64::from(entry.len))
            .sum();
        let items = contents.entries.len() as u64;
        held.account
            .lock()
            .surveyed(key.1, items, item_bytes, contents.end);
        self.tidy(&segment, &contents, is_newest)?;
        if is_newest {
            writer.load(key, &contents);
        }
        self.bury_if_dead(key, held)
    }

    /// Cuts a torn tail; gives an older segment the footer that was lost on the way to the disk.
    fn tidy(&self, segment: &SegmentFile, contents: &Contents, is_newest: bool) -> Result<()> {
        if is_newest {
            return segment
                .file
                .set_len(contents.end)
                .during("cut", &segment.path);
        }
        writer::write_footer(segment, &contents.entries, contents.end)
    }

    fn bury_if_dead(&self, key: Key, held: &Store) -> Result<()> {
        if held.account.lock().is_dead(key.1) {
            self.bury(vec![key]);
        }
        Ok(())
    }
}

impl StoreUsage {
    fn plus(self, other: Self) -> Self {
        Self {
            segments: self.segments + other.segments,
            live_items: self.live_items + other.live_items,
            live_bytes: self.live_bytes + other.live_bytes,
            dead_bytes: self.dead_bytes + other.dead_bytes,
            file_bytes: self.file_bytes + other.file_bytes,
        }
    }
}
