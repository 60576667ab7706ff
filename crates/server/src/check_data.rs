//! `sluicemq check-data`: what is in a data folder and what is damaged, in words.
//!
//! Reads no settings and starts nothing. Decides only how the report is told.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use broker::{CheckError, DataReport};

use crate::failure::EXIT_USAGE;

/// Exit code when something is damaged.
const EXIT_DAMAGED: u8 = 1;

pub(crate) fn run(dir: &Path, salvage: Option<&Path>) -> ExitCode {
    match broker::check_data(dir, salvage) {
        Ok(report) => {
            // A closed standard output leaves nobody to tell.
            let _ = std::io::stdout().write_all(words(&report).as_bytes());
            match report.checked.damage.is_empty() {
                true => ExitCode::SUCCESS,
                false => ExitCode::from(EXIT_DAMAGED),
            }
        }
        Err(error) => {
            eprintln!("sluicemq: {error}; {}", next_step(&error));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn next_step(error: &CheckError) -> &'static str {
    match error {
        CheckError::Storage(broker::StorageError::Locked { .. }) => "stop that broker first",
        CheckError::Storage(_) => "name the data folder of a broker, as its key node.data_dir does",
        CheckError::Write { .. } => "name an empty folder that this user may write",
    }
}

fn words(report: &DataReport) -> String {
    let checked = &report.checked;
    let mut lines = vec![format!(
        "{} journal files with {} records, {} segments with {} messages, {} saved states, {} bytes",
        checked.journal_files,
        checked.records,
        checked.segments,
        checked.items,
        checked.states,
        checked.bytes
    )];
    if !report.metadata_readable {
        lines.push("the metadata cannot be read: queues are told by their numbers".to_owned());
    }
    for found in &report.queues {
        let name = found.name.as_deref().unwrap_or("a queue without a name");
        let (number, messages, bytes) = (found.queue.0, found.messages, found.bytes);
        let saved = found.saved_to.as_ref();
        let saved = saved.map_or_else(String::new, |path| format!(", saved to {}", path.display()));
        lines.push(format!(
            "queue {number} {name}: {messages} live messages, {bytes} bytes{saved}"
        ));
    }
    for damage in &checked.damage {
        lines.push(format!(
            "DAMAGED {} from offset {} to {}: {}",
            damage.path.display(),
            damage.offset,
            damage.until,
            damage.what
        ));
    }
    if checked.damage.is_empty() {
        lines.push("nothing is damaged".to_owned());
    }
    lines.join("\n") + "\n"
}
