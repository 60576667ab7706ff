//! The background thread: flushes what lives in full journal files to segments, then recycles them, and
//! removes segments in which nothing lives.
//!
//! Knows the order that makes this safe; not what items or checkpoints are. The order, for each file:
//! live items durable in segments → their owner told → state of every touched store durable → file
//! released. Killed between any two, a restart finds the file still there and does it all again; an item
//! that is then in a segment and in the journal is the same item.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::bell::Bell;
use crate::checkpoint::Checkpoints;
use crate::disk::Disk;
use crate::error::{During, Result, guarded};
use crate::journal::Door;
use crate::journal::pool::{Pool, SealedFile};
use crate::owner::{LiveItem, Owner};
use crate::place::{FileId, Location, StoreId};
use crate::segment::{Item, SegmentStore};

/// How often the owner is asked again whether a file's records are applied.
const APPLIED_POLL: Duration = Duration::from_millis(5);
/// Item bytes after which the segments are synced and the owner is told, so that memory is given back
/// while a large file is still being flushed.
const ROUND_BYTES: u64 = 16 << 20;
/// Stores in such a round: each holds a file open until the sync.
const ROUND_STORES: usize = 128;
/// Bytes of checkpoints that become durable together.
const CHECKPOINT_SET_BYTES: usize = 4 << 20;
/// How much the thread steps back behind those that serve clients.
const NICENESS: i32 = 5;

/// Everything the background thread works on.
pub(crate) struct Background {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) pool: Arc<Pool>,
    pub(crate) segments: Arc<SegmentStore>,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) door: Arc<dyn Door>,
    pub(crate) owner: Arc<dyn Owner>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Items that are in the segments but not durable there yet.
#[derive(Default)]
struct Round {
    stores: Vec<(StoreId, Vec<(u64, Location)>)>,
    bytes: u64,
}

impl Background {
    pub(crate) fn start(self) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name("storage".to_owned())
            .spawn(move || {
                // A wish only: with no right to be nice the thread works all the same.
                let _ = rustix::process::nice(NICENESS);
                if let Err(error) = guarded(|| self.run()) {
                    self.door.poison(&error);
                    // Whoever waits for a file to be released waits in vain.
                    self.pool.stop();
                }
            })
    }

    fn run(&self) -> Result<()> {
        if !self.segments.stores().is_empty() {
            // What a killed process wrote to segments may be in the page cache only, and the owner
            // counts on it already.
            self.disk.sync_tree(&self.dir).during("sync", &self.dir)?;
        }
        while !self.stopping() {
            self.segments.remove_dead()?;
            match self.pool.oldest_sealed() {
                Some(file) => self.flush(&file)?,
                None => self.bell.wait(),
            }
        }
        Ok(())
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire) || self.door.poisoned().is_some()
    }

    fn flush(&self, file: &SealedFile) -> Result<()> {
        while !self.owner.applied(&file.last) {
            if self.stopping() {
                return Ok(());
            }
            self.bell.wait_at_most(APPLIED_POLL);
            self.segments.remove_dead()?;
        }
        let touched = self.owner.touched(file.id);
        let moved = self.move_live_items(file.id, &touched)?;
        self.checkpoint(&touched)?;
        self.pool.release_oldest()?;
        tracing::debug!(file = %file.id, stores = touched.len(), moved, "journal file flushed");
        self.owner.released(file.id);
        Ok(())
    }

    /// Copies what lives only in the file to the segments; answers how many items.
    fn move_live_items(&self, file: FileId, stores: &[StoreId]) -> Result<usize> {
        let mut round = Round::default();
        let mut live = Vec::new();
        let mut moved = 0;
        for store in stores {
            let mut from = 0;
            loop {
                live.clear();
                self.owner.live_items(*store, file, from, &mut live);
                let Some(newest) = live.last() else { break };
                let next = newest.id.checked_add(1);
                moved += live.len();
                self.copy(*store, &live, &mut round)?;
                if round.bytes >= ROUND_BYTES || round.stores.len() >= ROUND_STORES {
                    self.finish(&mut round)?;
                }
                let Some(next) = next else { break };
                from = next;
            }
        }
        self.finish(&mut round)?;
        Ok(moved)
    }

    fn copy(&self, store: StoreId, live: &[LiveItem], round: &mut Round) -> Result<()> {
        let parts: Vec<[&[u8]; 1]> = live.iter().map(|item| [item.bytes.as_ref()]).collect();
        let items: Vec<Item<'_>> = live
            .iter()
            .zip(&parts)
            .map(|(item, parts)| Item {
                id: item.id,
                attributes: item.attributes,
                parts,
            })
            .collect();
        let places = self.segments.append(store, &items)?;
        round.bytes += live.iter().map(|item| item.bytes.len() as u64).sum::<u64>();
        let moved = live.iter().map(|item| item.id).zip(places);
        match round.stores.last_mut().filter(|(last, _)| *last == store) {
            Some((_, all)) => all.extend(moved),
            None => round.stores.push((store, moved.collect())),
        }
        Ok(())
    }

    fn finish(&self, round: &mut Round) -> Result<()> {
        let stores: Vec<StoreId> = round.stores.iter().map(|(store, _)| *store).collect();
        self.segments.sync(&stores)?;
        for (store, moved) in round.stores.drain(..) {
            let unwanted = self.owner.relocated(store, &moved);
            self.segments.release(store, &unwanted);
        }
        round.bytes = 0;
        Ok(())
    }

    /// Makes the state of every store durable, in sets of bounded size.
    fn checkpoint(&self, stores: &[StoreId]) -> Result<()> {
        let mut states: Vec<(StoreId, u64, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        for store in stores {
            let mut blob = Vec::new();
            match self.owner.checkpoint(*store, &mut blob) {
                Some(covered) => {
                    bytes += blob.len();
                    states.push((*store, covered, blob));
                }
                None => {
                    self.checkpoints.remove(*store);
                    self.segments.drop_store(*store);
                }
            }
            if bytes >= CHECKPOINT_SET_BYTES {
                self.put(&mut states)?;
                bytes = 0;
            }
        }
        self.put(&mut states)
    }

    fn put(&self, states: &mut Vec<(StoreId, u64, Vec<u8>)>) -> Result<()> {
        // Asked after the states were taken, so that no state covers an index above these.
        let streams = self.door.last_indexes();
        let set: Vec<(StoreId, u64, &[u8])> = states
            .iter()
            .map(|(store, covered, blob)| (*store, *covered, blob.as_slice()))
            .collect();
        self.checkpoints.put_with_streams(&set, &streams)?;
        states.clear();
        Ok(())
    }
}
