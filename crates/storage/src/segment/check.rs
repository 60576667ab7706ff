//! Walks over a segment past what is damaged.

use bytes::Bytes;

use super::format::{self, FileHeader, ItemHeader};
use super::open_files::Key;
use crate::check::Walk;
use crate::error::{Result, StorageError};

/// Shows every readable item, and notes every stretch that is not.
pub(crate) fn walk(
    walk: &mut Walk<'_>,
    key: Key,
    is_newest: bool,
    mut show: impl FnMut(u64, u64, Bytes),
) -> Result<()> {
    let end = items_end(walk.bytes);
    let is_open = end.is_none() && is_newest;
    let end = end.unwrap_or(walk.bytes.len() as u64);
    match format::decode_file_header(walk.bytes) {
        FileHeader::Valid { store, segment } if (store, segment) == key => {}
        FileHeader::Newer { format } => {
            return Err(StorageError::NewerFormat {
                path: walk.path.to_path_buf(),
                found: format,
                known: format::FORMAT,
            });
        }
        FileHeader::Valid { .. } | FileHeader::Bad => {
            let next = next_item(walk.bytes, format::FILE_HEADER_BYTES, end);
            if next.is_some() || !is_open {
                walk.damaged(0, next, "the header of a segment");
            }
        }
    }
    let mut at = format::FILE_HEADER_BYTES;
    while at < end {
        if let Some((header, bytes)) = item_at(walk.bytes, at) {
            at += format::item_frame_bytes(u64::from(header.len));
            show(header.id, header.attributes, bytes);
            continue;
        }
        let next = next_item(walk.bytes, at + format::ALIGNMENT, end);
        if next.is_some() || !is_open {
            walk.damaged(at, next.or(Some(end)), "an item of a segment");
        }
        let Some(next) = next else { break };
        at = next;
    }
    Ok(())
}

/// Where the items of a closed segment end.
fn items_end(bytes: &Bytes) -> Option<u64> {
    let len = bytes.len() as u64;
    let at = len.checked_sub(format::TRAILER_BYTES)?;
    let trailer = format::decode_trailer(bytes.get(at as usize..)?, len)?;
    Some(trailer.entries_offset)
}

fn item_at(bytes: &Bytes, at: u64) -> Option<(ItemHeader, Bytes)> {
    let frame = bytes.get(at as usize..)?;
    let range = format::item_range(frame)?;
    let header = format::decode_item_header(frame)?;
    let start = at as usize;
    Some((header, bytes.slice(start + range.start..start + range.end)))
}

fn next_item(bytes: &Bytes, from: u64, end: u64) -> Option<u64> {
    (from..end)
        .step_by(format::ALIGNMENT as usize)
        .find(|at| item_at(bytes, *at).is_some())
}
