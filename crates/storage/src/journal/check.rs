//! Walks over a journal file past what is damaged.

use bytes::Bytes;

use super::record::{self, FileHeader, RecordHeader};
use crate::check::Walk;
use crate::error::{Result, StorageError};
use crate::place::{FileId, StreamId};

/// Shows every readable record, and notes every stretch that is not.
pub(crate) fn walk(
    walk: &mut Walk<'_>,
    id: FileId,
    is_newest: bool,
    mut show: impl FnMut(StreamId, u64, Bytes),
) -> Result<()> {
    match record::decode_file_header(walk.bytes) {
        FileHeader::Valid { file, .. } if file == id => {}
        FileHeader::Newer { format } => {
            return Err(StorageError::NewerFormat {
                path: walk.path.to_path_buf(),
                found: format,
                known: record::FORMAT,
            });
        }
        // Recycled, and killed before anything in it was durable, if no record follows.
        FileHeader::Valid { .. } | FileHeader::Bad => {
            let next = next_record(walk.bytes, record::FILE_HEADER_BYTES, id);
            if next.is_none() {
                return Ok(());
            }
            walk.damaged(0, next, "the header of a journal file");
        }
    }
    let mut at = record::FILE_HEADER_BYTES;
    while at + record::RECORD_HEADER_BYTES <= walk.bytes.len() as u64 {
        if let Some((header, payload)) = record_at(walk.bytes, at, id) {
            if header.end {
                break;
            }
            at += record::record_bytes(u64::from(header.len));
            show(header.stream, header.index, payload);
            continue;
        }
        let next = next_record(walk.bytes, at + record::ALIGNMENT, id);
        if next.is_some() || !is_newest {
            walk.damaged(at, next, "a record");
        }
        let Some(next) = next else { break };
        at = next;
    }
    Ok(())
}

fn record_at(bytes: &Bytes, at: u64, id: FileId) -> Option<(RecordHeader, Bytes)> {
    let header = record::decode_record_header(bytes.get(at as usize..)?, id)?;
    let start = (at + record::RECORD_HEADER_BYTES) as usize;
    let end = start + header.len as usize;
    let payload = bytes.get(start..end)?;
    let whole = header.end || crc32c::crc32c(payload) == header.payload_crc;
    whole.then(|| (header, bytes.slice(start..end)))
}

fn next_record(bytes: &Bytes, from: u64, id: FileId) -> Option<u64> {
    let last = (bytes.len() as u64).checked_sub(record::RECORD_HEADER_BYTES)?;
    (from..=last)
        .step_by(record::ALIGNMENT as usize)
        .find(|at| record_at(bytes, *at, id).is_some())
}
