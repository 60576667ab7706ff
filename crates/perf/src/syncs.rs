//! How often a process tells the kernel to bring data to the disk: fsync, fdatasync and their kin.
//!
//! /proc does not count them, and brokers count them differently or not at all. The kernel's
//! tracing does, for every broker alike: one private tracing instance with a small ring of events
//! of this process's threads, whose statistics are read and whose events nobody reads.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel's tracing is mounted.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The calls that count. What a kernel does not have is left out.
const CALLS: [&str; 4] = ["fsync", "fdatasync", "syncfs", "sync_file_range"];
/// The two without which a count would mean nothing.
const CALLS_NEEDED: usize = 2;
/// Of the ring of each processor: events beyond it are counted as overrun, which is just as good.
const RING_KIB: &str = "8";

/// Counts the syncs of one process from its making on; gone without a trace when dropped.
#[derive(Debug)]
pub(crate) struct SyncCounter {
    instance: PathBuf,
}

impl SyncCounter {
    /// Starts to count.
    ///
    /// # Errors
    /// Words for people why this machine cannot tell.
    pub(crate) fn start(pid: u32) -> Result<Self, String> {
        let tracing = TRACING.iter().map(Path::new);
        let found = tracing
            .map(|folder| folder.join("instances"))
            .find(|at| at.is_dir());
        let Some(instances) = found else {
            return Err(format!(
                "the kernel's tracing is not mounted for us (as root: mount -t tracefs none {})",
                TRACING[0]
            ));
        };
        let threads = threads_of(pid).map_err(|why| format!("process {pid}: {why}"))?;
        Self::within(&instances, &threads).map_err(|why| format!("the kernel's tracing: {why}"))
    }

    fn within(instances: &Path, threads: &[String]) -> io::Result<Self> {
        let name = format!("sluicemq-perf-{}", std::process::id());
        let counter = Self {
            instance: instances.join(name),
        };
        fs::create_dir(&counter.instance)?;
        counter.write("buffer_size_kb", RING_KIB)?;
        counter.write("set_event_pid", &threads.join(" "))?;
        // Threads that these begin are watched as well.
        counter.write("options/event-fork", "1")?;
        for (at, call) in CALLS.iter().enumerate() {
            let enabled = counter.write(&format!("events/syscalls/sys_enter_{call}/enable"), "1");
            if at < CALLS_NEEDED {
                enabled?;
            }
        }
        Ok(counter)
    }

    /// The syncs so far; none when the kernel does not tell any more.
    pub(crate) fn count(&self) -> Option<u64> {
        let processors = fs::read_dir(self.instance.join("per_cpu")).ok()?;
        let mut count = 0;
        for processor in processors {
            count += events(&fs::read_to_string(processor.ok()?.path().join("stats")).ok()?);
        }
        Some(count)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.instance.join(file), text)
    }
}

impl Drop for SyncCounter {
    fn drop(&mut self) {
        // What cannot be switched off goes with the instance.
        let _ = self.write("events/enable", "0");
        let _ = fs::remove_dir(&self.instance);
    }
}

/// Events that a ring has seen: those in it, and those that had no room.
fn events(stats: &str) -> u64 {
    ["entries:", "overrun:", "dropped events:"]
        .iter()
        .filter_map(|name| stats.lines().find_map(|line| line.strip_prefix(name)))
        .filter_map(|count| count.trim().parse::<u64>().ok())
        .sum()
}

fn threads_of(pid: u32) -> io::Result<Vec<String>> {
    fs::read_dir(format!("/proc/{pid}/task"))?
        .map(|thread| Ok(thread?.file_name().to_string_lossy().into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_had_no_room_count_as_well() {
        let stats = "entries: 6\noverrun: 40\ncommit overrun: 7\nbytes: 1\ndropped events: 100\n";
        assert_eq!(events(stats), 146);
        assert_eq!(events(""), 0);
    }

    #[test]
    fn the_syncs_of_this_process_are_counted_where_the_kernel_tells_them() {
        let counter = match SyncCounter::start(std::process::id()) {
            Ok(counter) => counter,
            // Not every machine lets its tests look; then there must be a reason in words.
            Err(why) => return assert!(why.contains("tracing"), "{why}"),
        };
        let file = tempfile::tempfile().expect("a file");
        for _ in 0..3 {
            file.sync_all().expect("a sync");
            file.sync_data().expect("a sync");
        }
        assert!(counter.count() >= Some(6), "{:?}", counter.count());
        let instance = counter.instance.clone();
        drop(counter);
        assert!(!instance.exists());
    }

    #[test]
    fn a_process_that_is_not_there_is_a_reason() {
        assert!(SyncCounter::start(u32::MAX).is_err());
    }
}
