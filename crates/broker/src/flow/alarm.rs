//! Alarms of the whole node: memory in use above its watermark, free disk space below its limit.
//! While one lasts, publishers wait; whoever only publishes is not read.
// rabbitmq: alarms

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const MEMORY: u8 = 1;
const DISK: u8 = 2;
/// The producers' part of the memory stays full whatever single queues are held for.
const POOL: u8 = 4;

/// No limit of memory.
const NONE: u64 = u64::MAX;

/// Which alarms last, and the limits that raise them.
#[derive(Debug)]
pub(crate) struct Alarms {
    raised: AtomicU8,
    memory_limit_bytes: AtomicU64,
    disk_free_limit_bytes: AtomicU64,
    memory_used_bytes: AtomicU64,
}

impl Alarms {
    pub(crate) fn new(memory_limit_bytes: Option<u64>, disk_free_limit_bytes: u64) -> Self {
        Self {
            raised: AtomicU8::new(0),
            memory_limit_bytes: AtomicU64::new(memory_limit_bytes.unwrap_or(NONE)),
            disk_free_limit_bytes: AtomicU64::new(disk_free_limit_bytes),
            memory_used_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.raised.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn is_low_on_memory(&self) -> bool {
        self.raised.load(Ordering::Relaxed) & (MEMORY | POOL) != 0
    }

    pub(crate) fn is_low_on_disk(&self) -> bool {
        self.raised.load(Ordering::Relaxed) & DISK != 0
    }

    /// What is short, in the words of `connection.blocked`.
    // rabbitmq: the reason of connection.blocked, disk first
    pub(crate) fn reason(&self) -> Option<&'static str> {
        match self.raised.load(Ordering::Relaxed) {
            0 => None,
            raised if raised & DISK == 0 => Some("low on memory"),
            DISK => Some("low on disk"),
            _ => Some("low on disk & memory"),
        }
    }

    pub(crate) fn set_memory_limit(&self, bytes: Option<u64>) {
        self.memory_limit_bytes
            .store(bytes.unwrap_or(NONE), Ordering::Relaxed);
    }

    pub(crate) fn set_disk_free_limit(&self, bytes: u64) {
        self.disk_free_limit_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn memory_limit(&self) -> Option<u64> {
        let limit = self.memory_limit_bytes.load(Ordering::Relaxed);
        (limit != NONE).then_some(limit)
    }

    pub(crate) fn disk_free_limit(&self) -> u64 {
        self.disk_free_limit_bytes.load(Ordering::Relaxed)
    }

    /// Memory in use at the last look.
    pub(crate) fn memory_used(&self) -> u64 {
        self.memory_used_bytes.load(Ordering::Relaxed)
    }

    /// Looks at the memory of the process.
    pub(crate) fn look_at_memory(&self) {
        let Some(used_bytes) = machine::memory_used_bytes() else {
            return;
        };
        self.memory_used_bytes.store(used_bytes, Ordering::Relaxed);
        let limit_bytes = self.memory_limit_bytes.load(Ordering::Relaxed);
        if !self.set(MEMORY, used_bytes > limit_bytes) {
            return;
        }
        if used_bytes > limit_bytes {
            tracing::warn!(
                used_bytes,
                limit_bytes,
                "memory alarm: publishers wait until less is used"
            );
        } else {
            tracing::info!(used_bytes, "memory alarm is over");
        }
    }

    /// The disk is almost full, or not any more. Answers whether that is news.
    pub(crate) fn set_low_on_disk(&self, low: bool) -> bool {
        self.set(DISK, low)
    }

    /// Answers whether it was otherwise before.
    fn set(&self, alarm: u8, raised: bool) -> bool {
        let before = match raised {
            true => self.raised.fetch_or(alarm, Ordering::Relaxed),
            false => self.raised.fetch_and(!alarm, Ordering::Relaxed),
        };
        (before & alarm != 0) != raised
    }

    /// The producers' part of the memory is full for good, or not any more.
    pub(crate) fn set_pool_full(&self, full: bool) {
        match (self.set(POOL, full), full) {
            (true, true) => tracing::warn!("memory of publishers is full: all of them wait"),
            (true, false) => tracing::info!("memory of publishers has room again"),
            _ => {}
        }
    }
}

/// What the machine says of itself.
pub(crate) mod machine {
    use std::path::{Path, PathBuf};

    /// Resident memory of this process.
    pub(crate) fn memory_used_bytes() -> Option<u64> {
        kib_after(
            "VmRSS:",
            &std::fs::read_to_string("/proc/self/status").ok()?,
        )
    }

    /// Memory that this process may use: the machine's, or less when a control group says so.
    pub fn memory_limit_bytes() -> Option<u64> {
        let total = std::fs::read_to_string("/proc/meminfo").ok();
        let total = total.and_then(|text| kib_after("MemTotal:", &text));
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let limits = limit_files(&groups);
        let limits = limits.iter().filter_map(|file| {
            let text = std::fs::read_to_string(file).ok()?;
            text.trim().parse::<u64>().ok()
        });
        total.into_iter().chain(limits).min()
    }

    /// The files that may limit a process of these control groups, its ancestors' too.
    fn limit_files(groups: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let (root, file) = match controllers {
                "" => ("/sys/fs/cgroup", "memory.max"),
                _ if controllers.split(',').any(|one| one == "memory") => {
                    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
                }
                _ => continue,
            };
            let path = Path::new(path.trim_start_matches('/'));
            // Within a container the own path is not there, but its root is.
            files.extend(
                path.ancestors()
                    .map(|dir| Path::new(root).join(dir).join(file)),
            );
        }
        files
    }

    fn kib_after(key: &str, text: &str) -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn both_versions_of_control_groups_are_looked_at_up_to_the_root() {
            let files = limit_files("0::/a/b\n");
            let expected = ["a/b/memory.max", "a/memory.max", "memory.max"];
            assert_eq!(
                files,
                expected.map(|file| Path::new("/sys/fs/cgroup").join(file))
            );
            let files = limit_files("5:cpu,cpuacct:/x\n4:memory:/y\n");
            let root = Path::new("/sys/fs/cgroup/memory");
            let expected = ["y/memory.limit_in_bytes", "memory.limit_in_bytes"];
            assert_eq!(files, expected.map(|file| root.join(file)));
        }

        #[test]
        fn the_machine_can_be_measured() {
            assert!(memory_used_bytes().unwrap() > 0);
            assert!(memory_limit_bytes().unwrap() > 0);
            assert_eq!(kib_after("VmRSS:", "VmRSS:\t  12 kB\n"), Some(12_288));
        }
    }
}
