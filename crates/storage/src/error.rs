//! What can go wrong below, sorted by fault: the caller's, the machine's, ours.
//!
//! Variants are data; words for operators are made from them here and nowhere deeper.

use std::any::Any;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

/// Everything that `storage` refuses or fails at.
#[derive(Debug, Error)]
pub enum StorageError {
    /// The operator's or caller's fault: an option out of its bounds.
    #[error("option {name} is {value}, but must lie between {min} and {max}")]
    OptionOutOfBounds {
        /// Name of the field in `Options`.
        name: &'static str,
        /// What was given.
        value: u64,
        /// Least allowed value.
        min: u64,
        /// Greatest allowed value.
        max: u64,
    },
    /// The operator's fault: another process has this data directory.
    #[error("data directory {} is in use by another process (lock file {})", dir.display(), lock.display())]
    Locked {
        /// The data directory.
        dir: PathBuf,
        /// The lock file within it.
        lock: PathBuf,
    },
    /// The operator's fault: written by a newer release.
    #[error("{} has format {found}, this release reads up to {known}", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The format it names.
        found: u16,
        /// The newest format this release reads.
        known: u16,
    },
    /// The caller's fault: an item larger than a segment can ever hold.
    #[error("an item of {bytes} bytes is over the maximum of {bytes_max}")]
    ItemTooLarge {
        /// Bytes of the item.
        bytes: u64,
        /// The bound it broke.
        bytes_max: u64,
    },
    /// The caller's fault: a location whose segment is gone or never was.
    #[error("store {store:016x} has no segment {segment}")]
    NoSuchSegment {
        /// The store.
        store: u64,
        /// The segment's sequence.
        segment: u32,
    },
    /// The machine's fault: a system call failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: "write", "sync".
        doing: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The machine's fault: bytes that were durable do not read back as written.
    #[error("{} is damaged at offset {offset}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the damage begins.
        offset: u64,
        /// What was expected there.
        what: &'static str,
    },
    /// The storage has failed before and takes no more work.
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
    /// Our own or the owner's fault: one of the storage threads panicked.
    #[error("a storage thread panicked: {0}")]
    Panicked(String),
    /// The storage is shut down, or was started already.
    #[error("storage is {0}")]
    WrongState(&'static str),
}

/// Why the storage takes no more work. After the first failed write or sync nothing is retried: what
/// the disk holds can be known only by reading it afresh, that is by a restart.
#[derive(Debug, Clone, Error)]
#[error("storage is stopped after a failure: {why}")]
pub struct Poisoned {
    /// The text of the first failure.
    pub why: Arc<str>,
}

/// Why a record is not taken.
#[derive(Debug, Clone, Error)]
pub enum AppendError {
    /// The caller's fault.
    #[error("a record of {bytes} bytes is over the maximum of {bytes_max}")]
    TooLarge {
        /// Payload bytes of the record.
        bytes: u64,
        /// `Options::record_bytes_max`.
        bytes_max: u64,
    },
    /// The journal is being shut down.
    #[error("the journal is closed")]
    Closed,
    /// See `Poisoned`.
    #[error(transparent)]
    Poisoned(#[from] Poisoned),
}

pub(crate) type Result<T> = std::result::Result<T, StorageError>;

/// Adds what was tried, and on what, to a failed system call.
pub(crate) trait During<T> {
    fn during(self, doing: &'static str, path: &Path) -> Result<T>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| StorageError::Io {
            doing,
            path: path.to_path_buf(),
            source,
        })
    }
}

/// Runs the body of a thread; a panic in it becomes an error. What it worked on must not be used again.
pub(crate) fn guarded(body: impl FnOnce() -> Result<()>) -> Result<()> {
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => Err(StorageError::Panicked(panic_text(&*payload))),
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}
