//! A disk in memory that records every write, sync and rename, and can show what would be found after a
//! crash at any point of the record: unsynced work kept, lost or torn.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use storage::{Disk, DiskFile, DiskLock};

use super::Dice;

const SECTOR: usize = 512;
/// One call writes no more, so that callers meet short writes.
const WRITE_BYTES_MAX: usize = 10_000;

#[derive(Debug, Clone)]
enum Step {
    Write {
        inode: usize,
        offset: usize,
        data: Vec<u8>,
    },
    SetLen {
        inode: usize,
        len: usize,
    },
    Sync {
        inode: usize,
    },
    /// The kernel dropped what it could not write, and counts it as written.
    FailedSync {
        inode: usize,
    },
    Create {
        path: PathBuf,
        inode: usize,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    SyncDir,
    SyncTree,
    /// Something that the test wants to find again in the order of things.
    Note(u64),
}

/// What becomes of work that was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsynced {
    /// The process was killed, the machine lives.
    Kept,
    /// Power was lost before anything was written back.
    Lost,
    /// Power was lost while some of it was written back, sector by sector in any order.
    Torn,
    /// As `Torn`, and the last write of each file ends at a byte that no sector boundary explains.
    TornAtByte,
}

#[derive(Debug, Default)]
struct World {
    files: Vec<Vec<u8>>,
    names: BTreeMap<PathBuf, usize>,
    steps: Vec<Step>,
    locks: HashMap<PathBuf, ()>,
    fail_syncs_of: Option<&'static str>,
    fail_writes_of: Option<&'static str>,
    full: bool,
    /// Syncs of files that succeed before one fails.
    syncs_until_failure: Option<u64>,
    /// Reads that succeed before one fails.
    reads_until_failure: Option<u64>,
    reads: u64,
}

/// Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDisk(Arc<Mutex<World>>);

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    inode: usize,
    path: PathBuf,
}

#[derive(Debug)]
struct SimulatedLock {
    disk: SimulatedDisk,
    path: PathBuf,
}

impl SimulatedDisk {
    /// A disk that holds these files.
    pub fn with_files(files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>) -> Self {
        let mut world = World::default();
        for (path, content) in files {
            world.names.insert(path, world.files.len());
            world.files.push(content);
        }
        world.begin(0);
        Self(Arc::new(Mutex::new(world)))
    }

    /// All files and what they hold.
    pub fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let world = self.0.lock();
        let named = world.names.iter();
        named
            .map(|(path, inode)| (path.clone(), world.files[*inode].clone()))
            .collect()
    }

    pub fn note(&self, note: u64) {
        self.0.lock().steps.push(Step::Note(note));
    }

    /// Steps recorded so far: a crash point is a number up to this.
    pub fn steps(&self) -> usize {
        self.0.lock().steps.len()
    }

    /// The crash point just before the first sync of a file with this extension.
    pub fn before_first_sync_of(&self, extension: &str) -> usize {
        let world = self.0.lock();
        let ours: Vec<usize> = world
            .names
            .iter()
            .filter(|(path, _)| path.extension().is_some_and(|found| found == extension))
            .map(|(_, inode)| *inode)
            .collect();
        let is_sync = |step: &Step| matches!(step, Step::Sync { inode } if ours.contains(inode));
        world
            .steps
            .iter()
            .position(is_sync)
            .expect("such a file was synced")
    }

    /// The highest note before a crash point.
    pub fn highest_note(&self, steps: usize) -> u64 {
        let world = self.0.lock();
        let notes = world.steps[..steps].iter().filter_map(|step| match step {
            Step::Note(note) => Some(*note),
            _ => None,
        });
        notes.max().unwrap_or(0)
    }

    /// Every sync of a file whose name contains this fails from here on.
    pub fn fail_syncs_of(&self, name: &'static str) {
        self.0.lock().fail_syncs_of = Some(name);
    }

    pub fn fail_writes_of(&self, name: &'static str) {
        self.0.lock().fail_writes_of = Some(name);
    }

    /// Whether there is no room for anything that the disk does not hold already.
    pub fn set_full(&self, full: bool) {
        self.0.lock().full = full;
    }

    /// One sync of a file fails, after so many that do not; what it should have written is lost.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.0.lock().syncs_until_failure = Some(syncs);
    }

    /// One read fails, after so many that do not. `None` heals the disk.
    pub fn fail_read_after(&self, reads: Option<u64>) {
        self.0.lock().reads_until_failure = reads;
    }

    /// Turns one bit over, behind everybody's back; answers the file. `None` when there is no byte.
    pub fn flip_a_bit(&self, dice: &mut Dice) -> Option<(PathBuf, usize)> {
        let mut world = self.0.lock();
        let named = world.names.iter();
        let files: Vec<(PathBuf, usize)> = named
            .filter(|(_, inode)| !world.files[**inode].is_empty())
            .map(|(path, inode)| (path.clone(), *inode))
            .collect();
        let (path, inode) = files.get(dice.below(files.len().max(1) as u64) as usize)?;
        let bytes = &mut world.files[*inode];
        let bit = dice.below(8 * bytes.len() as u64) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        Some((path.clone(), bit))
    }

    /// Turns the bit back.
    pub fn flip_back(&self, path: &Path, bit: usize) {
        let mut world = self.0.lock();
        if let Some(inode) = world.names.get(path).copied()
            && let Some(byte) = world.files[inode].get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
    }

    pub fn names(&self) -> Vec<String> {
        let world = self.0.lock();
        let names = world.names.keys();
        names
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect()
    }

    pub fn total_bytes(&self, extension: &str) -> usize {
        let world = self.0.lock();
        let files = world
            .names
            .iter()
            .filter(|(path, _)| path.extension().is_some_and(|e| e == extension));
        files.map(|(_, inode)| world.files[*inode].len()).sum()
    }

    /// Changes bytes behind everybody's back.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut world = self.0.lock();
        let inode = *world
            .names
            .iter()
            .find(|(path, _)| path.ends_with(name))
            .unwrap()
            .1;
        change(&mut world.files[inode]);
    }

    pub fn content(&self, name: &str) -> Vec<u8> {
        let world = self.0.lock();
        let inode = *world
            .names
            .iter()
            .find(|(path, _)| path.ends_with(name))
            .unwrap()
            .1;
        world.files[inode].clone()
    }

    /// What a restart finds when the crash comes after so many steps.
    pub fn after_crash(&self, steps: usize, unsynced: Unsynced, dice: &mut Dice) -> Self {
        let reported = self.highest_note(steps);
        let steps = self.0.lock().steps[..steps].to_vec();
        let mut durable = Durable::default();
        steps.iter().cloned().for_each(|step| durable.step(step));
        let (files, names) = durable.settle(unsynced, dice);
        let mut world = World {
            files,
            names,
            ..World::default()
        };
        if unsynced == Unsynced::Kept {
            // The page cache lives on, and a later power cut may still take what nobody syncs.
            world.steps = steps;
        } else {
            world.begin(reported);
        }
        Self(Arc::new(Mutex::new(world)))
    }
}

#[derive(Default)]
struct Durable {
    files: HashMap<usize, Vec<u8>>,
    pending: HashMap<usize, Vec<Step>>,
    names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<Step>,
}

impl Durable {
    fn step(&mut self, step: Step) {
        match step {
            Step::Write { inode, .. } | Step::SetLen { inode, .. } => {
                self.pending.entry(inode).or_default().push(step);
            }
            Step::Sync { inode } => self.write_back(inode),
            Step::FailedSync { inode } => {
                self.pending.remove(&inode);
            }
            Step::Create { .. } | Step::Rename { .. } | Step::Remove { .. } => {
                self.pending_names.push(step);
            }
            Step::SyncDir => self.write_names(usize::MAX),
            Step::SyncTree => {
                let inodes: Vec<usize> = self.pending.keys().copied().collect();
                inodes.into_iter().for_each(|inode| self.write_back(inode));
                self.write_names(usize::MAX);
            }
            Step::Note(_) => {}
        }
    }

    fn write_back(&mut self, inode: usize) {
        let file = self.files.entry(inode).or_default();
        for step in self.pending.remove(&inode).unwrap_or_default() {
            apply(file, &step);
        }
    }

    fn write_names(&mut self, count: usize) {
        let count = count.min(self.pending_names.len());
        for step in self.pending_names.drain(..count) {
            match step {
                Step::Create { path, inode } => {
                    self.names.insert(path, inode);
                }
                Step::Rename { from, to } => {
                    let inode = self.names.remove(&from).expect("renamed file exists");
                    self.names.insert(to, inode);
                }
                Step::Remove { path } => {
                    self.names.remove(&path);
                }
                other => unreachable!("{other:?} is not about names"),
            }
        }
    }

    fn settle(
        mut self,
        unsynced: Unsynced,
        dice: &mut Dice,
    ) -> (Vec<Vec<u8>>, BTreeMap<PathBuf, usize>) {
        let names = match unsynced {
            Unsynced::Kept => usize::MAX,
            Unsynced::Lost => 0,
            // A file system's own journal keeps the order of names.
            Unsynced::Torn | Unsynced::TornAtByte => {
                dice.below(self.pending_names.len() as u64 + 1) as usize
            }
        };
        self.write_names(names);
        let mut inodes: Vec<usize> = self.pending.keys().copied().collect();
        inodes.sort_unstable();
        for inode in inodes {
            let file = self.files.entry(inode).or_default();
            let steps = self.pending.remove(&inode).unwrap_or_default();
            let last = steps.len().saturating_sub(1);
            for (number, step) in steps.iter().enumerate() {
                match unsynced {
                    Unsynced::Kept => apply(file, step),
                    Unsynced::Lost => {}
                    Unsynced::TornAtByte if number == last => cut_at_byte(file, step, dice),
                    Unsynced::Torn | Unsynced::TornAtByte => tear(file, step, dice),
                }
            }
        }
        let count = self
            .files
            .keys()
            .chain(self.names.values())
            .max()
            .map_or(0, |inode| inode + 1);
        let files = (0..count)
            .map(|inode| self.files.remove(&inode).unwrap_or_default())
            .collect();
        (files, self.names)
    }
}

fn apply(file: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Write { offset, data, .. } => {
            let end = offset + data.len();
            if file.len() < end {
                file.resize(end, 0);
            }
            file[*offset..end].copy_from_slice(data);
        }
        Step::SetLen { len, .. } => file.resize(*len, 0),
        other => unreachable!("{other:?} is not about contents"),
    }
}

/// Some sectors reach the disk, others do not.
fn tear(file: &mut Vec<u8>, step: &Step, dice: &mut Dice) {
    let Step::Write {
        inode,
        offset,
        data,
    } = step
    else {
        if dice.chance(2) {
            apply(file, step);
        }
        return;
    };
    let mut from = 0;
    while from < data.len() {
        let to = (from + SECTOR - (offset + from) % SECTOR).min(data.len());
        if dice.chance(2) {
            let data = data[from..to].to_vec();
            apply(
                file,
                &Step::Write {
                    inode: *inode,
                    offset: offset + from,
                    data,
                },
            );
        }
        from = to;
    }
}

/// The first bytes of a write: none of it, part of a header, a header and no more, all but the last byte.
fn cut_at_byte(file: &mut Vec<u8>, step: &Step, dice: &mut Dice) {
    let Step::Write {
        inode,
        offset,
        data,
    } = step
    else {
        return tear(file, step, dice);
    };
    let len = data.len();
    let cuts = [
        0,
        1,
        7,
        31,
        32,
        33,
        39,
        40,
        41,
        len / 2,
        len.saturating_sub(1),
        len,
    ];
    let cut = cuts[dice.below(cuts.len() as u64) as usize].min(len);
    let data = data[..cut].to_vec();
    apply(
        file,
        &Step::Write {
            inode: *inode,
            offset: *offset,
            data,
        },
    );
}

impl World {
    /// Counts down to a failure; true when it is due.
    fn is_due(countdown: &mut Option<u64>) -> bool {
        match countdown {
            Some(0) => {
                *countdown = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    /// Begins the record with all that is there, durable, and with what was promised.
    fn begin(&mut self, reported: u64) {
        for (path, inode) in self.names.clone() {
            self.steps.push(Step::Create { path, inode });
            let data = self.files[inode].clone();
            self.steps.push(Step::Write {
                inode,
                offset: 0,
                data,
            });
            self.steps.push(Step::Sync { inode });
        }
        self.steps.push(Step::SyncDir);
        self.steps.push(Step::Note(reported));
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names
            .get(path)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for SimulatedDisk {
    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let world = self.0.lock();
        let names = world.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(names
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.0.lock();
        if world.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if world.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = world.files.len();
        world.files.push(Vec::new());
        world.names.insert(path.to_path_buf(), inode);
        world.steps.push(Step::Create {
            path: path.to_path_buf(),
            inode,
        });
        Ok(Arc::new(SimulatedFile {
            disk: self.clone(),
            inode,
            path: path.to_path_buf(),
        }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.0.lock().find(path)?;
        Ok(Arc::new(SimulatedFile {
            disk: self.clone(),
            inode,
            path: path.to_path_buf(),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.0.lock();
        let inode = world.find(from)?;
        world.names.remove(from);
        world.names.insert(to.to_path_buf(), inode);
        world.steps.push(Step::Rename {
            from: from.to_path_buf(),
            to: to.to_path_buf(),
        });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.0.lock();
        world.find(path)?;
        world.names.remove(path);
        world.steps.push(Step::Remove {
            path: path.to_path_buf(),
        });
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        self.0.lock().steps.push(Step::SyncDir);
        Ok(())
    }

    fn sync_tree(&self, _dir: &Path) -> io::Result<()> {
        self.0.lock().steps.push(Step::SyncTree);
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        if self.0.lock().locks.insert(path.to_path_buf(), ()).is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimulatedLock {
            disk: self.clone(),
            path: path.to_path_buf(),
        }))
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(if self.0.lock().full { 0 } else { u64::MAX })
    }
}

impl DiskLock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.disk.0.lock().locks.remove(&self.path);
    }
}

impl SimulatedFile {
    fn is_named(&self, part: Option<&str>) -> bool {
        part.is_some_and(|part| self.path.to_string_lossy().contains(part))
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let bytes = parts.iter().flat_map(|part| part.iter().copied());
        let data: Vec<u8> = bytes.take(WRITE_BYTES_MAX).collect();
        let written = data.len();
        let mut world = self.disk.0.lock();
        if self.is_named(world.fail_writes_of) {
            return Err(io::Error::other("the disk is on strike"));
        }
        if world.full && offset as usize + written > world.files[self.inode].len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let step = Step::Write {
            inode: self.inode,
            offset: offset as usize,
            data,
        };
        apply(&mut world.files[self.inode], &step);
        world.steps.push(step);
        Ok(written)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut world = self.disk.0.lock();
        if World::is_due(&mut world.reads_until_failure) {
            return Err(io::Error::other("the disk cannot read this"));
        }
        // Short reads, as the system call may give them.
        world.reads += 1;
        let short = 1 + (world.reads * 0x9E37_79B1) as usize % WRITE_BYTES_MAX;
        let rest = world.files[self.inode]
            .get(offset as usize..)
            .unwrap_or_default();
        let read = rest.len().min(into.len()).min(short);
        into[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.disk.0.lock();
        if self.is_named(world.fail_syncs_of) {
            return Err(io::Error::other("the disk is on strike"));
        }
        if World::is_due(&mut world.syncs_until_failure) {
            world.steps.push(Step::FailedSync { inode: self.inode });
            return Err(io::Error::other("the disk is on strike"));
        }
        world.steps.push(Step::Sync { inode: self.inode });
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut world = self.disk.0.lock();
        let step = Step::SetLen {
            inode: self.inode,
            len: bytes as usize,
        };
        apply(&mut world.files[self.inode], &step);
        world.steps.push(step);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().files[self.inode].len() as u64)
    }
}
