//! The background thread: flushes what lives in full journal files to segments, then recycles them, pages
//! stores out, removes segments in which nothing lives and compacts those in which little does.
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
use crate::moving::Moving;
use crate::owner::Owner;
use crate::page_out::PageOut;
use crate::place::{FileId, StoreId, Tier};
use crate::segment::SegmentStore;

/// How often the owner is asked again whether a file's records are applied.
const APPLIED_POLL: Duration = Duration::from_millis(5);
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
    pub(crate) paged: Arc<SegmentStore>,
    pub(crate) page_out: Arc<PageOut>,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) door: Arc<dyn Door>,
    pub(crate) owner: Arc<dyn Owner>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) stop: Arc<AtomicBool>,
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
            self.remove_dead()?;
            // Memory first: somebody waits for it. Then what is dead, before the next file adds to the
            // disk: when this falls behind, the journal runs out of files and publishers are held.
            if let Some((store, keep_bytes)) = self.page_out.take() {
                self.page_out(store, keep_bytes)?;
            } else if self.compact()? {
            } else if let Some(file) = self.pool.oldest_due() {
                self.flush(&file)?;
            } else {
                self.bell.wait();
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
            self.remove_dead()?;
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
        let mut moving = Moving::to(Tier::Durable, &self.segments, &self.owner);
        let mut live = Vec::new();
        for store in stores {
            let mut from = Some(0);
            while let Some(first) = from {
                live.clear();
                self.owner.live_items(*store, file, first, &mut live);
                moving.copy(*store, &live)?;
                from = live.last().and_then(|newest| newest.id.checked_add(1));
            }
        }
        moving.finish()?;
        Ok(moving.items)
    }

    /// Moves items of the store from memory to its segments, all behind the first `keep_bytes`.
    fn page_out(&self, store: StoreId, keep_bytes: u64) -> Result<()> {
        let start = self.owner.paging_starts(store, keep_bytes);
        let mut paged_bytes = 0;
        for tier in [Tier::Paged, Tier::Durable] {
            let mut moving = Moving::to(tier, self.tier(tier), &self.owner);
            let mut live = Vec::new();
            let mut from = Some(start);
            while let Some(first) = from {
                live.clear();
                self.owner.pageable(tier, store, first, &mut live);
                moving.copy(store, &live)?;
                from = live.last().and_then(|newest| newest.id.checked_add(1));
            }
            moving.finish()?;
            paged_bytes += moving.bytes;
        }
        tracing::debug!(%store, keep_bytes, paged_bytes, "store paged out");
        Ok(())
    }

    /// Empties the worst segment of one wasteful store; answers whether there was one.
    fn compact(&self) -> Result<bool> {
        for tier in [Tier::Durable, Tier::Paged] {
            let segments = self.tier(tier);
            if let Some(store) = segments.take_wasteful() {
                Moving::to(tier, segments, &self.owner).compact(store)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn tier(&self, tier: Tier) -> &SegmentStore {
        match tier {
            Tier::Durable => &self.segments,
            Tier::Paged => &self.paged,
        }
    }

    fn remove_dead(&self) -> Result<()> {
        self.segments.remove_dead()?;
        self.paged.remove_dead()
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
                    self.paged.drop_store(*store);
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
