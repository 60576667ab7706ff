//! Reads segments back after a restart: what is in a closed one by its footer, in an open one by its
//! items, and where a torn tail begins.
//!
//! Knows one file at a time; not which items live.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::{self, Entry, FileHeader, Trailer};
use super::open_files::Key;
use crate::disk::{DiskFile, read_full_at};
use crate::error::{During, Result, StorageError};

/// Bytes read in one call while items are walked, unless one is larger.
const WINDOW_BYTES: u64 = 1 << 20;

/// An open file of a segment, and its name for errors.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub(super) key: Key,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn DiskFile>,
}

/// What is in a segment.
#[derive(Debug)]
pub(super) struct Contents {
    /// The items, in the order of their writing.
    pub(super) entries: Vec<Entry>,
    /// Where they end.
    pub(super) end: u64,
    /// Whether a footer follows, so that nothing can be appended.
    pub(super) closed: bool,
}

impl SegmentFile {
    /// The trailer of a closed segment; `None` for an open one. Checks the header as well.
    pub(super) fn trailer(&self) -> Result<Option<Trailer>> {
        let len = self.len()?;
        if !self.check_header()? {
            return Ok(None);
        }
        let Some(offset) = len.checked_sub(format::TRAILER_BYTES) else {
            return Ok(None);
        };
        Ok(format::decode_trailer(
            &self.read(offset, format::TRAILER_BYTES)?,
            len,
        ))
    }

    /// Everything in the segment: from the footer when there is a whole one, else from the items
    /// themselves, up to a torn tail. `None` when not even the header was made durable.
    pub(super) fn contents(&self) -> Result<Option<Contents>> {
        if let Some(trailer) = self.trailer()?
            && let Some(entries) = self.footer(&trailer)?
        {
            return Ok(Some(Contents {
                entries,
                end: trailer.entries_offset,
                closed: true,
            }));
        }
        if !self.check_header()? {
            return Ok(None);
        }
        let (entries, end) = self.walk()?;
        Ok(Some(Contents {
            entries,
            end,
            closed: false,
        }))
    }

    /// The entries of the footer, if they were written whole.
    fn footer(&self, trailer: &Trailer) -> Result<Option<Vec<Entry>>> {
        let len = u64::from(trailer.items) * format::ENTRY_BYTES;
        let bytes = self.read(trailer.entries_offset, len)?;
        if bytes.len() as u64 != len || crc32c::crc32c(&bytes) != trailer.entries_crc {
            return Ok(None);
        }
        let mut fields = bytes.as_slice();
        let mut entries = Vec::with_capacity(trailer.items as usize);
        entries.extend(std::iter::from_fn(|| format::decode_entry(&mut fields)));
        Ok(Some(entries))
    }

    /// False when the header was never made durable, an error when it is damaged.
    fn check_header(&self) -> Result<bool> {
        let bytes = self.read(0, format::FILE_HEADER_BYTES)?;
        match format::decode_file_header(&bytes) {
            FileHeader::Valid { store, segment } if (store, segment) == self.key => Ok(true),
            FileHeader::Newer { format } => Err(StorageError::NewerFormat {
                path: self.path.clone(),
                found: format,
                known: format::FORMAT,
            }),
            FileHeader::Valid { .. } | FileHeader::Bad => {
                self.forbid_damage(0, "the header of a segment")?;
                Ok(false)
            }
        }
    }

    fn walk(&self) -> Result<(Vec<Entry>, u64)> {
        let mut entries = Vec::new();
        let mut start = format::FILE_HEADER_BYTES;
        let mut wanted = WINDOW_BYTES;
        loop {
            let window = self.read(start, wanted)?;
            let mut at = 0;
            while let Some(frame) = window.get(at..)
                && let Some(entry) = entry_of(frame, start + at as u64)
            {
                entries.push(entry);
                at += format::item_frame_bytes(u64::from(entry.len)) as usize;
            }
            start += at as u64;
            if at > 0 {
                wanted = WINDOW_BYTES;
                continue;
            }
            // Nothing whole in the window: the item is larger than it, or there is none.
            let header = format::decode_item_header(&window);
            let frame = header.map_or(0, |header| format::item_frame_bytes(u64::from(header.len)));
            if frame <= window.len() as u64 || wanted == frame {
                break;
            }
            wanted = frame;
        }
        self.forbid_damage(start, "an item of a segment")?;
        Ok((entries, start))
    }

    /// An error if what is missing at `offset` was durable once, because a later item says so.
    fn forbid_damage(&self, offset: u64, what: &'static str) -> Result<()> {
        let mut at = (offset + 1).next_multiple_of(format::ALIGNMENT);
        loop {
            let window = self.read(at, WINDOW_BYTES)?;
            let mut tried = 0;
            let step = format::ALIGNMENT as usize;
            for bytes in window
                .windows(format::ITEM_HEADER_BYTES as usize)
                .step_by(step)
            {
                let header = format::decode_item_header(bytes);
                let vouching = header.filter(|header| u64::from(header.synced) > offset);
                if let Some(header) = vouching {
                    let frame = format::item_frame_bytes(u64::from(header.len));
                    if format::item_range(&self.read(at, frame)?).is_some() {
                        return Err(self.damage(offset, what));
                    }
                }
                at += format::ALIGNMENT;
                tried += 1;
            }
            if tried == 0 {
                return Ok(());
            }
        }
    }

    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let rest = self.len()?.saturating_sub(offset);
        let mut bytes = vec![0; len.min(rest) as usize];
        let read = read_full_at(&*self.file, &mut bytes, offset).during("read", &self.path)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn len(&self) -> Result<u64> {
        self.file.len().during("measure", &self.path)
    }

    fn damage(&self, offset: u64, what: &'static str) -> StorageError {
        StorageError::Corrupt {
            path: self.path.clone(),
            offset,
            what,
        }
    }
}

fn entry_of(frame: &[u8], offset: u64) -> Option<Entry> {
    format::item_range(frame)?;
    let header = format::decode_item_header(frame)?;
    let offset = u32::try_from(offset).ok()?;
    Some(Entry {
        id: header.id,
        offset,
        len: header.len,
        attributes: header.attributes,
    })
}

/// For errors about a segment that has only a key and a path.
pub(super) fn missing(key: Key, error: std::io::Error, path: &Path) -> StorageError {
    if error.kind() == std::io::ErrorKind::NotFound {
        return StorageError::NoSuchSegment {
            store: key.0.0,
            segment: key.1,
        };
    }
    StorageError::Io {
        doing: "open",
        path: path.to_path_buf(),
        source: error,
    }
}
