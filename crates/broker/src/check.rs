//! Looks at a data directory that no broker uses: which messages it holds, what is damaged, and saves the
//! readable ones to a folder.
//!
//! Changes nothing in the directory. Knows the batches and states of this crate; the bytes below
//! are read by `storage`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Weak;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker_core::metadata::QueueId;
use broker_core::settings::QueueKind;
use serde::Serialize;
use storage::{Checked, Found, StorageError, StreamId};

use crate::apply::entry_id;
use crate::durability::METADATA_STREAM;
use crate::files::METADATA_STORE;
use crate::ledger::Checkpoint;
use crate::metadata_store::MetadataStore;
use crate::options::BrokerOptions;
use crate::record::{Blob, Command, Commands};
use crate::route::keeps;

/// Files of salvaged messages that are open at once.
const OPEN_MAX: usize = 128;

/// Why a data directory cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It is no data directory, in use, or cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The folder for salvaged messages cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What a data directory holds.
#[derive(Debug)]
pub struct DataReport {
    /// The files, and what is damaged in them.
    pub checked: Checked,
    /// Whether vhosts, users and queues can be read. If not, queues have numbers for names.
    pub metadata_readable: bool,
    /// The queues that have messages, in order of their numbers.
    pub queues: Vec<QueueFound>,
}

/// A queue's messages on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueFound {
    /// Its number.
    pub queue: QueueId,
    /// `vhost/name`; `None` when the metadata cannot be read.
    pub name: Option<String>,
    /// Live messages that can be read.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Where they were saved.
    pub saved_to: Option<PathBuf>,
}

/// Checks the directory. With a folder the readable live messages of each queue are saved there: one file a
/// queue, one JSON object a line, property blocks and bodies in base64.
///
/// # Errors
/// It is no data directory, a broker uses it, or the folder cannot be written. Damage is no error:
/// it is in the report.
pub fn check_data(dir: &Path, salvage: Option<&Path>) -> Result<DataReport, CheckError> {
    let mut known = Known::new(dir);
    storage::check(dir, |found| known.learn(&found))?;
    if let Some(folder) = salvage {
        std::fs::create_dir_all(folder).map_err(writing(folder))?;
    }
    let mut saving = Saving {
        known: &known,
        folder: salvage,
        queues: BTreeMap::new(),
        seen: HashSet::new(),
        open: HashMap::new(),
        failed: None,
    };
    let checked = storage::check(dir, |found| saving.look(&found))?;
    saving.close();
    if let Some(failed) = saving.failed {
        return Err(failed);
    }
    let queues = saving.queues.into_values().collect();
    Ok(DataReport {
        checked,
        metadata_readable: known.metadata_readable,
        queues,
    })
}

/// What must be known of everything before a message can be told dead or alive.
struct Known {
    metadata: MetadataStore,
    metadata_readable: bool,
    states: HashMap<u64, (u64, Checkpoint)>,
    forgotten: HashSet<(u64, u64)>,
}

impl Known {
    fn new(dir: &Path) -> Self {
        Self {
            metadata: MetadataStore::new(
                BrokerOptions::new(dir).fresh_metadata(),
                Weak::new(),
                None,
            ),
            metadata_readable: true,
            states: HashMap::new(),
            forgotten: HashSet::new(),
        }
    }

    fn learn(&mut self, found: &Found) {
        match found {
            Found::State(store, state) if *store == METADATA_STORE => {
                self.metadata_readable &= self.metadata.restore(&state.blob).is_ok();
            }
            Found::State(store, state) => {
                if let Some(read) = Checkpoint::read(&state.blob) {
                    self.states.insert(store.0, (state.covered, read));
                }
            }
            Found::Record {
                stream,
                index,
                payload,
            } if *stream == METADATA_STREAM => {
                if !self.metadata.covers(*index) {
                    self.metadata.apply_entry(*index, payload, |_, _, _| {});
                }
            }
            Found::Record { payload, .. } => {
                for command in Commands::of(payload).into_iter().flatten().flatten() {
                    if let Command::Forget { queue, entries } = command {
                        self.forgotten
                            .extend(entries.iter().map(|entry| (queue, entry)));
                    }
                }
            }
            Found::Item { .. } => {}
        }
    }

    /// `vhost/name` and kind; `None` when the queue was deleted.
    fn queue(&self, queue: u64) -> Option<(Option<String>, QueueKind)> {
        let metadata = self.metadata.read();
        match metadata.queue_by_id(QueueId(queue)) {
            Some(record) => {
                let name = format!("{}/{}", record.vhost.as_str(), record.name.as_str());
                Some((Some(name), record.kind))
            }
            // Without metadata nobody knows what was deleted: better too much than too little.
            None if metadata.queues().next().is_none() => Some((None, QueueKind::Quorum)),
            None => None,
        }
    }
}

/// The second look: the live messages themselves.
struct Saving<'a> {
    known: &'a Known,
    folder: Option<&'a Path>,
    queues: BTreeMap<u64, QueueFound>,
    seen: HashSet<(u64, u64)>,
    open: HashMap<u64, BufWriter<File>>,
    failed: Option<CheckError>,
}

#[derive(Serialize)]
struct Line<'a> {
    entry: u64,
    exchange: &'a str,
    routing_key: &'a str,
    properties: String,
    body: String,
}

impl Saving<'_> {
    fn look(&mut self, found: &Found) {
        match found {
            Found::State(..) => {}
            Found::Record {
                stream,
                index,
                payload,
            } => self.look_at_batch(*stream, *index, payload),
            Found::Item {
                store, id, bytes, ..
            } => {
                let state = self.known.states.get(&store.0);
                if state.is_none_or(|(_, state)| !state.is_dead(*id)) {
                    self.message(store.0, *id, true, bytes);
                }
            }
        }
    }

    fn look_at_batch(&mut self, stream: StreamId, index: u64, payload: &[u8]) {
        if stream == METADATA_STREAM {
            return;
        }
        let mut publishes = 0;
        for command in Commands::of(payload).into_iter().flatten().flatten() {
            let Command::Publish {
                meta,
                targets,
                blob_at,
                blob_len,
            } = command
            else {
                continue;
            };
            let id = entry_id(index, publishes).0;
            publishes += 1;
            let blob = &payload[blob_at as usize..][..blob_len as usize];
            for queue in targets.iter() {
                // What the state covers is in segments, or dead.
                let state = self.known.states.get(&queue);
                if state.is_none_or(|(covered, _)| *covered < index) {
                    self.message(queue, id, meta.persistent, blob);
                }
            }
        }
    }

    fn message(&mut self, queue: u64, id: u64, persistent: bool, bytes: &[u8]) {
        let Some((name, kind)) = self.known.queue(queue) else {
            return;
        };
        let is_wanted = keeps(kind, persistent)
            && !self.known.forgotten.contains(&(queue, id))
            && self.seen.insert((queue, id));
        let Some(blob) = Blob::parse(bytes).filter(|_| is_wanted) else {
            return;
        };
        let saved_to = self
            .folder
            .map(|folder| folder.join(file_name(queue, name.as_deref())));
        if let Some(path) = &saved_to
            && self.failed.is_none()
            && let Err(source) = self.save(queue, path, id, &blob)
        {
            self.failed = Some(writing(path)(source));
        }
        let found = self.queues.entry(queue).or_insert_with(|| QueueFound {
            queue: QueueId(queue),
            name,
            messages: 0,
            bytes: 0,
            saved_to,
        });
        found.messages += 1;
        found.bytes += (blob.properties.len() + blob.body.len()) as u64;
    }

    fn save(&mut self, queue: u64, path: &Path, id: u64, blob: &Blob<'_>) -> io::Result<()> {
        if !self.open.contains_key(&queue) {
            if self.open.len() >= OPEN_MAX {
                self.open
                    .drain()
                    .try_for_each(|(_, mut file)| file.flush())?;
            }
            // The first message of a queue begins its file.
            let begun = self.queues.contains_key(&queue);
            let mut options = OpenOptions::new();
            let options = match begun {
                true => options.append(true),
                false => options.write(true).create_new(true),
            };
            self.open.insert(queue, BufWriter::new(options.open(path)?));
        }
        let Some(file) = self.open.get_mut(&queue) else {
            return Ok(());
        };
        let line = Line {
            entry: id,
            exchange: blob.exchange,
            routing_key: blob.routing_key,
            properties: STANDARD.encode(blob.properties),
            body: STANDARD.encode(blob.body),
        };
        serde_json::to_writer(&mut *file, &line)?;
        file.write_all(b"\n")
    }

    fn close(&mut self) {
        for (queue, mut file) in self.open.drain() {
            let path = self
                .queues
                .get(&queue)
                .and_then(|found| found.saved_to.clone());
            if let (Err(source), Some(path)) = (file.flush(), path) {
                self.failed
                    .get_or_insert(CheckError::Write { path, source });
            }
        }
    }
}

/// A name that every file system takes, and that no other queue has.
fn file_name(queue: u64, name: Option<&str>) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = name
        .unwrap_or_default()
        .chars()
        .take(100)
        .map(plain)
        .collect();
    format!("{queue}-{name}.jsonl")
}

fn writing(path: &Path) -> impl FnOnce(io::Error) -> CheckError {
    let path = path.to_path_buf();
    move |source| CheckError::Write { path, source }
}
