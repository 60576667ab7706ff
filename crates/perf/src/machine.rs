//! On what machine, and by what tool, figures were taken: without it they mean nothing.

use std::fs;

use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    /// Processes waiting to run, on average over the last minute, before we came: what else was
    /// going on.
    pub(crate) load_before: String,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: cpu_model(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_before: first_word(&read("/proc/loadavg")),
        }
    }
}

fn cpu_model(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    model
        .and_then(|line| line.split_once(':'))
        .map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    total
        .map(first_word)
        .and_then(|kilobytes| kilobytes.parse::<u64>().ok())
        .unwrap_or(0)
        * 1_024
}

fn first_word(text: &str) -> String {
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read_from_what_the_kernel_writes() {
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: Fast CPU\nmodel name\t: x"),
            "Fast CPU"
        );
        assert_eq!(cpu_model(""), "unknown");
        assert_eq!(memory_bytes("MemTotal:       2 kB\n"), 2_048);
    }
}
