//! The one door to files: a trait that tests can fake, and the real thing over system calls.
//!
//! Knows paths and bytes, not what is in them. All other files of this crate reach the disk through it,
//! so that torn writes, lost syncs and full disks can be played.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Bound of one gathered write; Linux takes 1,024 parts in one call.
pub const WRITE_PARTS_MAX: usize = 1024;

/// A directory tree with durable files.
pub trait Disk: Send + Sync + Debug {
    /// Creates the directory and its parents unless there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Names of the files in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a file that must not exist yet; its name is durable after `sync_dir`.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames within a directory, replacing the target; durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; durable after `sync_dir`.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in the directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes everything below the directory durable, also what a killed process wrote before.
    fn sync_tree(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock for as long as the answer lives; `WouldBlock` when another has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;
    /// Bytes that may still be written to the file system of the directory.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// A lock that ends when it is dropped.
pub trait DiskLock: Send + Sync + Debug {}

/// An open file. All calls take `&self`: positions are arguments.
pub trait DiskFile: Send + Sync + Debug {
    /// Writes the parts one after the other; may write less, as the system call may.
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    /// Reads up to the length of `into`; zero at the end of the file.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Makes all written bytes durable, and the length needed to read them back.
    fn sync(&self) -> io::Result<()>;
    /// Cuts or extends (by zeros) the file.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file holds nothing.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Reads until `into` is full or the file ends; answers the bytes read.
pub(crate) fn read_full_at(file: &dyn DiskFile, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Writes all parts, however often the system takes only some of them.
pub(crate) fn write_all_at(
    file: &dyn DiskFile,
    parts: &mut [IoSlice<'_>],
    mut offset: u64,
) -> io::Result<()> {
    let mut rest = parts;
    // Empty parts would make a zero-length write look like a full disk.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let turn = rest.get(..WRITE_PARTS_MAX).unwrap_or(rest);
        match file.write_at(turn, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                IoSlice::advance_slices(&mut rest, written);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

#[derive(Debug)]
struct RealLock {
    // The lock lives as long as the open file.
    _file: File,
}

impl DiskLock for RealLock {}

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(
            OpenOptions::new().read(true).write(true).open(path)?,
        )))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn sync_tree(&self, dir: &Path) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(dir)?)?)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(RealLock { _file: file }))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let found = rustix::fs::statvfs(dir)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

impl DiskFile for RealFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&self.0, parts, offset)?)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(into, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
