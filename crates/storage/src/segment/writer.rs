//! The open segment of one store: appends, syncs, and closes it with a footer when it is full.
//!
//! Used by one thread at a time. Knows where bytes go; not which items live.

use std::io::IoSlice;
use std::mem;
use std::sync::Arc;

use super::Item;
use super::format::{self, Entry};
use super::open_files::{Key, OpenFiles};
use super::reader::{Contents, SegmentFile};
use super::remembered::Remembered;
use crate::disk::{DiskFile, write_all_at};
use crate::error::{During, Result, StorageError};
use crate::options::RECORD_BYTES_MAX;
use crate::place::{Location, StoreId};

/// Bytes gathered in memory before they are written, while a store has unsynced items.
const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Debug, Default)]
pub(super) struct Writer {
    open: Option<Open>,
    /// Whether the directory has names that are not durable.
    created: bool,
    /// Whether the newest segment on disk has been looked at.
    pub(super) loaded: bool,
    /// Whether the store is not in the table any more; nothing may be appended.
    pub(super) retired: bool,
    newest: u32,
}

#[derive(Debug)]
struct Open {
    key: Key,
    /// Held from the first write to the sync, so that no failed write-back goes unseen.
    file: Option<Arc<dyn DiskFile>>,
    buffer: Vec<u8>,
    /// Where the buffer belongs.
    written: u64,
    /// What a sync of this process covered.
    synced: u64,
    /// What is in it; none when that is not known from the beginning on.
    entries: Option<Remembered>,
}

impl Writer {
    /// The newest segment on disk: appended to if it is open.
    pub(super) fn load(&mut self, key: Key, contents: &Contents) {
        self.loaded = true;
        self.newest = self.newest.max(key.1);
        if contents.closed {
            return;
        }
        // What a killed process wrote may not be durable yet, so nothing vouches for it.
        let open = Open {
            key,
            file: None,
            buffer: Vec::new(),
            written: contents.end,
            synced: 0,
            entries: None,
        };
        self.open = Some(open);
    }

    /// The store has no segment on disk, or none that could be appended to.
    pub(super) fn load_nothing(&mut self, newest: u32) {
        self.loaded = true;
        self.newest = self.newest.max(newest);
    }

    pub(super) fn append(
        &mut self,
        files: &OpenFiles,
        store: StoreId,
        item: &Item<'_>,
        segment_bytes: u64,
    ) -> Result<Location> {
        let bytes: u64 = item.parts.iter().map(|part| part.len() as u64).sum();
        if bytes > RECORD_BYTES_MAX {
            return Err(StorageError::ItemTooLarge {
                bytes,
                bytes_max: RECORD_BYTES_MAX,
            });
        }
        let frame_bytes = format::item_frame_bytes(bytes);
        let full = self.open.as_ref().is_some_and(|open| {
            open.end() > format::FILE_HEADER_BYTES && open.end() + frame_bytes > segment_bytes
        });
        if full {
            self.close(files)?;
        }
        let open = match self.open.as_mut() {
            Some(open) => open,
            None => self.create(files, store)?,
        };
        let (offset, len) = (offset_u32(open.end()), offset_u32(bytes));
        let synced = offset_u32(open.synced);
        format::encode_item(
            &mut open.buffer,
            item.id,
            item.attributes,
            item.parts,
            synced,
        );
        let entry = Entry {
            id: item.id,
            offset,
            len,
            attributes: item.attributes,
        };
        open.entries.take_if(|entries| !entries.push(entry));
        if open.buffer.len() >= BUFFER_BYTES {
            open.write(files)?;
        }
        Ok(Location {
            segment: open.key.1,
            offset,
            len,
        })
    }

    fn create(&mut self, files: &OpenFiles, store: StoreId) -> Result<&mut Open> {
        let key = (store, self.newest + 1);
        let file = files.create(key).during("create", &files.path(key))?;
        self.newest = key.1;
        self.created = true;
        let buffer = format::encode_file_header(store, key.1);
        let open = Open {
            key,
            file: Some(file),
            buffer,
            written: 0,
            synced: 0,
            entries: files.is_durable().then(|| files.remembered()),
        };
        Ok(self.open.insert(open))
    }

    /// Makes everything appended readable, and on the durable tier durable.
    pub(super) fn sync(&mut self, files: &OpenFiles) -> Result<()> {
        if let Some(open) = self.open.as_mut() {
            open.write(files)?;
            if let Some(file) = open.file.take()
                && files.is_durable()
            {
                file.sync().during("sync", &files.path(open.key))?;
                open.synced = open.written;
            }
            open.buffer = Vec::new();
        }
        Ok(())
    }

    /// Whether a name must be made durable; asked once after a sync.
    pub(super) fn take_created(&mut self) -> bool {
        mem::take(&mut self.created)
    }

    /// Ends the open segment with its footer. The items are read back for it if they are not remembered:
    /// thousands of stores may have a segment open.
    fn close(&mut self, files: &OpenFiles) -> Result<()> {
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        open.write(files)?;
        if !files.is_durable() {
            return Ok(());
        }
        let path = files.path(open.key);
        let file = match open.file.take() {
            Some(file) => file,
            None => files.get(open.key).during("open", &path)?,
        };
        let segment = SegmentFile {
            key: open.key,
            path,
            file,
        };
        if let Some(entries) = open.entries {
            return write_footer(&segment, entries.entries(), open.written);
        }
        let contents = segment
            .contents()?
            .filter(|contents| contents.end == open.written);
        let Some(contents) = contents else {
            let (path, offset) = (segment.path, open.synced);
            return Err(StorageError::Corrupt {
                path,
                offset,
                what: "a segment just written",
            });
        };
        write_footer(&segment, &contents.entries, contents.end)
    }

    /// Ends the open segment without a footer if it is this one: it is about to be compacted, and what
    /// lives in it goes to another.
    pub(super) fn end(&mut self, files: &OpenFiles, segment: u32) -> Result<()> {
        if self.open.as_ref().is_some_and(|open| open.key.1 == segment) {
            self.sync(files)?;
            self.open = None;
        }
        Ok(())
    }

    /// Forgets a segment that is about to be removed.
    pub(super) fn forget(&mut self, segment: u32) {
        self.open.take_if(|open| open.key.1 == segment);
    }

    /// End of the open segment in the file, if that is the one.
    pub(super) fn written(&self, segment: u32) -> Option<u64> {
        self.open
            .as_ref()
            .filter(|open| open.key.1 == segment)
            .map(|open| open.written)
    }
}

impl Open {
    fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn write(&mut self, files: &OpenFiles) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let path = files.path(self.key);
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(files.get(self.key).during("open", &path)?),
        };
        let mut parts = [IoSlice::new(&self.buffer)];
        write_all_at(&**file, &mut parts, self.written).during("write", &path)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES);
        Ok(())
    }
}

/// Makes the items durable, then writes the footer behind them. The footer itself need not be durable:
/// what it says can be read from the items; but it must never tell of items that are not.
pub(super) fn write_footer(segment: &SegmentFile, entries: &[Entry], end: u64) -> Result<()> {
    segment.file.sync().during("sync", &segment.path)?;
    let footer = format::encode_footer(entries, end);
    // The trailer is found at the very end, so nothing may lie behind it.
    segment.file.set_len(end).during("cut", &segment.path)?;
    let mut parts = [IoSlice::new(&footer)];
    write_all_at(&*segment.file, &mut parts, end).during("write", &segment.path)
}

/// Segments stay below 4 GiB: one item of at most 1 GiB beyond `Options::segment_bytes`.
fn offset_u32(offset: u64) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}
