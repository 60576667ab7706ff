//! After the start: takes in what the queues have on disk, one after the other, while the node serves.
//!
//! Knows queues as things that can be woken. A queue that somebody asks for first is taken in then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::node::Node;
use crate::queue::Queue;

const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The thread that does it, until it is done or the node stops, and how far everybody together has come.
#[derive(Default)]
pub(crate) struct Warming {
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Segments that were there at the start.
    segments: AtomicU64,
    /// Those that were taken in.
    taken_in: AtomicU64,
    /// When the log was last told; nothing while nobody waits for it.
    told: Mutex<Option<Instant>>,
}

impl Warming {
    /// There are so many segments to be taken in, from here on.
    pub(crate) fn begin(&self, segments: u64) {
        self.segments.store(segments, Ordering::Relaxed);
        *self.told.lock() = Some(Instant::now());
    }

    /// Somebody took in so many segments: the warming thread, the replay of the journal, or a client.
    pub(crate) fn segments_taken_in(&self, count: u64) {
        let taken_in = self.taken_in.fetch_add(count, Ordering::Relaxed) + count;
        let of = self.segments.load(Ordering::Relaxed).max(taken_in);
        let mut told = self.told.lock();
        if told.is_some_and(|told| told.elapsed() >= PROGRESS_EVERY) {
            *told = Some(Instant::now());
            let percent = taken_in * 100 / of;
            tracing::info!(segments = taken_in, of, percent, "recovering queues");
        }
    }

    pub(crate) fn start(&self, node: &Arc<Node>) -> std::io::Result<()> {
        let stop = Arc::clone(&self.stop);
        let node = Arc::clone(node);
        let thread = std::thread::Builder::new()
            .name("recovery".to_owned())
            .spawn(move || warm(&node, &stop))?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Ends the thread; what it has not come to is left for the next start.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the recovery thread panicked");
        }
    }

    fn end(&self) {
        *self.told.lock() = None;
    }
}

fn warm(node: &Arc<Node>, stop: &AtomicBool) {
    let queues: Vec<Arc<Queue>> = node.all_queues();
    let started = Instant::now();
    for queue in &queues {
        // In pieces, so that whoever asks for the queue meanwhile waits for the rest only.
        while !stop.load(Ordering::Acquire) && queue.take_in_some() {}
        if stop.load(Ordering::Acquire) {
            return;
        }
        queue.warm_up(node);
    }
    node.warming.end();
    let elapsed_ms = started.elapsed().as_millis() as u64;
    tracing::info!(queues = queues.len(), elapsed_ms, "queues recovered");
}
