//! What the kernel tells of a process and a folder: CPU time, memory, system calls, disk.
//!
//! The only reader of the broker's data folder. Counts of fsync are not in /proc: see `syncs`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

/// Where /proc stands; another folder in tests.
const PROC: &str = "/proc";
/// Size of the blocks that file metadata counts in.
const BLOCK_BYTES: u64 = 512;
const FOLDER_DEPTH_MAX: u32 = 64;

/// A process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessSample {
    /// User and system time of all its threads so far.
    pub(crate) cpu_seconds: f64,
    pub(crate) rss_bytes: u64,
    /// Absent where the kernel does not let us read them.
    pub(crate) io: Option<IoCounts>,
}

/// System calls and bytes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct IoCounts {
    pub(crate) read_calls: u64,
    pub(crate) write_calls: u64,
    /// Bytes sent to storage.
    pub(crate) written_bytes: u64,
}

impl IoCounts {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            read_calls: self.read_calls.saturating_sub(earlier.read_calls),
            write_calls: self.write_calls.saturating_sub(earlier.write_calls),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }
}

/// Looks at a process.
///
/// # Errors
/// There is none with this number.
pub(crate) fn sample(pid: u32) -> io::Result<ProcessSample> {
    sample_in(&Path::new(PROC).join(pid.to_string()))
}

/// Looks at ourselves.
pub(crate) fn sample_self() -> io::Result<ProcessSample> {
    sample_in(&Path::new(PROC).join("self"))
}

fn sample_in(folder: &Path) -> io::Result<ProcessSample> {
    let stat = fs::read_to_string(folder.join("stat"))?;
    let status = fs::read_to_string(folder.join("status"))?;
    let io = fs::read_to_string(folder.join("io")).ok();
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Ok(ProcessSample {
        cpu_seconds: cpu_ticks(&stat).unwrap_or(0) as f64 / ticks_per_second as f64,
        rss_bytes: kilobytes(&status, "VmRSS:"),
        io: io.as_deref().map(io_counts),
    })
}

/// User and system time; they are fields 14 and 15, and field 2 may hold blanks and brackets.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn kilobytes(status: &str, name: &str) -> u64 {
    number_behind(status, name) * 1_024
}

fn io_counts(io: &str) -> IoCounts {
    IoCounts {
        read_calls: number_behind(io, "syscr:"),
        write_calls: number_behind(io, "syscw:"),
        written_bytes: number_behind(io, "write_bytes:"),
    }
}

fn number_behind(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value
        .and_then(|value| value.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// Bytes that a folder takes on disk, holes not counted. Files that vanish meanwhile are left
/// out: a broker deletes files while it runs.
///
/// # Errors
/// The folder itself cannot be read.
pub(crate) fn folder_bytes(folder: &Path) -> io::Result<u64> {
    folder_bytes_within(folder, FOLDER_DEPTH_MAX)
}

fn folder_bytes_within(folder: &Path, depth: u32) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let Ok(entry) = entry else { continue };
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        bytes += metadata.blocks() * BLOCK_BYTES;
        if metadata.is_dir() && depth > 0 {
            bytes += folder_bytes_within(&entry.path(), depth - 1).unwrap_or(0);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_name_with_brackets() {
        let stat = "7 (a) (b c) S 1 7 7 0 -1 4194304 9 0 0 0 120 34 0 0 20 0 1";
        assert_eq!(cpu_ticks(stat), Some(154));
        assert_eq!(cpu_ticks("7 (short) S 1"), None);
    }

    #[test]
    fn memory_and_system_calls_are_read_by_name() {
        let status = "Name:\tx\nVmRSS:\t    1024 kB\n";
        assert_eq!(kilobytes(status, "VmRSS:"), 1_048_576);
        assert_eq!(kilobytes(status, "VmSwap:"), 0);
        let io = "rchar: 1\nsyscr: 5\nsyscw: 6\nwrite_bytes: 4096\n";
        let counts = io_counts(io);
        assert_eq!((counts.read_calls, counts.write_calls), (5, 6));
        assert_eq!(counts.written_bytes, 4_096);
    }

    #[test]
    fn our_own_process_has_memory_and_a_dead_one_is_an_error() {
        assert!(sample_self().unwrap().rss_bytes > 0);
        assert!(sample(u32::MAX).is_err());
    }

    #[test]
    fn a_folder_counts_the_blocks_of_all_files_below_it() {
        let folder = std::env::temp_dir().join(format!("sluicemq-perf-{}", std::process::id()));
        let inner = folder.join("inner");
        fs::create_dir_all(&inner).unwrap();
        fs::write(folder.join("a"), vec![1; 10_000]).unwrap();
        fs::write(inner.join("b"), vec![1; 10_000]).unwrap();
        let bytes = folder_bytes(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert!(bytes.unwrap() >= 20_000);
        assert!(folder_bytes(&folder).is_err());
    }
}
