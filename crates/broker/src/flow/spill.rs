//! A channel's parked messages that memory has no room for: one nameless file, which the system
//! takes back when the channel, or the whole process, is gone.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;

/// Where a message lies in its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    at: u64,
    len: u32,
}

/// A file of messages that wait. It starts anew whenever it is empty, so it grows beyond what is
/// live only while something stays in it.
#[derive(Debug, Default)]
pub(crate) struct SpillFile {
    file: Option<File>,
    end: u64,
    live: u64,
}

impl SpillFile {
    /// Bytes of the file, live or not.
    pub(crate) fn len(&self) -> u64 {
        self.end
    }

    /// Writes a message behind the others.
    pub(crate) fn write(&mut self, dir: &Path, bytes: &[u8]) -> io::Result<Spot> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile_in(dir)?),
        };
        file.write_all_at(bytes, self.end)?;
        let spot = Spot {
            at: self.end,
            len: bytes.len() as u32,
        };
        self.end += bytes.len() as u64;
        self.live += bytes.len() as u64;
        Ok(spot)
    }

    pub(crate) fn read(&self, spot: Spot) -> io::Result<Bytes> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = vec![0; spot.len as usize];
        file.read_exact_at(&mut bytes, spot.at)?;
        Ok(bytes.into())
    }

    /// A message is not wanted any more.
    pub(crate) fn release(&mut self, spot: Spot) {
        self.live -= u64::from(spot.len);
        if self.live == 0 {
            self.file = None;
            self.end = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_went_and_an_empty_file_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = SpillFile::default();
        let first = file.write(dir.path(), b"one").unwrap();
        let second = file.write(dir.path(), b"second").unwrap();
        assert_eq!(file.read(second).unwrap(), "second");
        file.release(first);
        assert_eq!(file.read(second).unwrap(), "second");
        assert_eq!(file.len(), 9);
        file.release(second);
        assert_eq!(file.len(), 0);
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
    }
}
