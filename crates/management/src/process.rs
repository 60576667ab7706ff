//! What the operating system says of this process. Where it does not say, figures are 0.

use std::fs;
use std::path::Path;

/// The process at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Process {
    pub(crate) resident_bytes: u64,
    pub(crate) memory_total_bytes: u64,
    pub(crate) disk_free_bytes: u64,
    pub(crate) open_files: u64,
    pub(crate) open_files_max: u64,
    pub(crate) threads: u64,
    pub(crate) threads_max: u64,
}

impl Process {
    /// Asks the system; the data directory tells which disk.
    pub(crate) fn look(data_dir: &Path) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let machine = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            resident_bytes: kib(&status, "VmRSS:"),
            memory_total_bytes: kib(&machine, "MemTotal:"),
            disk_free_bytes: disk_free_bytes(data_dir),
            open_files: fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
            open_files_max: limit(&limits, "Max open files"),
            threads: number(&status, "Threads:"),
            threads_max: limit(&limits, "Max processes"),
        }
    }
}

fn disk_free_bytes(data_dir: &Path) -> u64 {
    rustix::fs::statvfs(data_dir).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn number(text: &str, label: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or_default()
}

fn kib(text: &str, label: &str) -> u64 {
    number(text, label).saturating_mul(1024)
}

/// A soft limit; tools want a number, so no limit is a large one.
fn limit(text: &str, label: &str) -> u64 {
    const UNLIMITED: u64 = u32::MAX as u64;
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    match line.and_then(|rest| rest.split_whitespace().next()) {
        Some("unlimited") => UNLIMITED,
        Some(word) => word.parse().map_or(0, |limit: u64| limit.min(UNLIMITED)),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_systems_files() {
        let status = "Name:\tx\nVmRSS:\t  1234 kB\nThreads:\t7\n";
        assert_eq!(kib(status, "VmRSS:"), 1234 * 1024);
        assert_eq!(number(status, "Threads:"), 7);
        let limits = "Limit     Soft Limit   Hard Limit   Units\nMax processes   unlimited  unlimited  processes\nMax open files  20000  524288  files\n";
        assert_eq!(limit(limits, "Max open files"), 20_000);
        assert_eq!(limit(limits, "Max processes"), u64::from(u32::MAX));
        assert_eq!(limit("", "Max processes"), 0);
    }
}
