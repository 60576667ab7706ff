//! The commit threads: entries that became durable are applied here, in order, off the journal thread.
//!
//! Each group belongs to one shard, each shard is one thread with one queue. Knows groups as doors to
//! knock at; not machines, batches or members.

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::{fmt, io, mem};

use parking_lot::{Condvar, Mutex, RwLock};
use storage::{FlushSink, Flushed, Poisoned, Position, StreamId};

use crate::machine::Abandoned;

/// A group as its commit thread sees it.
pub(crate) trait Door: Send + Sync {
    /// The group's entry at `index` is durable: apply it.
    fn committed(&self, index: u64, at: Option<Position>);
    /// Take no more entries.
    fn stop(&self, why: &Arc<str>);
    /// Nothing that is in flight will be committed.
    fn abandon(&self, why: Abandoned);
    /// Index of the last applied entry.
    fn applied_index(&self) -> u64;
}

/// Goes through the journal with each entry and says whom to tell.
#[derive(Clone)]
pub struct Tag {
    pub(crate) door: Arc<dyn Door>,
    pub(crate) shard: usize,
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tag")
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}

enum Work {
    Committed {
        door: Arc<dyn Door>,
        index: u64,
        at: Option<Position>,
    },
    Abandon {
        door: Arc<dyn Door>,
        why: Abandoned,
    },
}

/// A queue of work and the thread that does it. Bounded by what its groups have in flight.
#[derive(Default)]
struct Shard {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    work: Vec<Work>,
    asleep: bool,
    closed: bool,
}

type OnStop = Box<dyn Fn(&str) + Send + Sync>;

/// All commit threads of a node; the sink of its journal.
pub struct CommitShards {
    shards: Vec<Shard>,
    groups: RwLock<HashMap<StreamId, Weak<dyn Door>>>,
    /// Room to sort one flush by shard, kept between flushes.
    sorted: Mutex<Vec<Vec<Work>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    on_stop: OnStop,
}

impl fmt::Debug for CommitShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitShards")
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}

impl CommitShards {
    /// Starts the threads, at least one. `on_stop` is told, with the reason, when the journal has
    /// failed or a machine has panicked: the groups take no more entries and the node should end.
    pub fn start(
        shards: usize,
        on_stop: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        let count = shards.max(1);
        let commits = Arc::new(Self {
            shards: (0..count).map(|_| Shard::default()).collect(),
            groups: RwLock::default(),
            sorted: Mutex::new((0..count).map(|_| Vec::new()).collect()),
            threads: Mutex::default(),
            on_stop: Box::new(on_stop),
        });
        for number in 0..count {
            let this = Arc::clone(&commits);
            let run = move || this.run(number);
            let spawned = thread::Builder::new()
                .name(format!("commit-{number}"))
                .spawn(run);
            match spawned {
                Ok(handle) => commits.threads.lock().push(handle),
                Err(error) => {
                    commits.shutdown();
                    return Err(error);
                }
            }
        }
        Ok(commits)
    }

    /// Whether every stream is applied up to the index given with it: what `storage::Owner::applied` asks.
    /// A stream without a group is: its records were applied when they were replayed.
    pub fn applied(&self, last: &[(StreamId, u64)]) -> bool {
        let groups = self.groups.read();
        last.iter().all(|(stream, index)| {
            let door = groups.get(stream).and_then(Weak::upgrade);
            door.is_none_or(|door| door.applied_index() >= *index)
        })
    }

    /// Ends the threads after they have done what waits; what is in flight still is abandoned. Call it
    /// after `Storage::shutdown`, never from a machine.
    pub fn shutdown(&self) {
        for shard in &self.shards {
            shard.queue.lock().closed = true;
            shard.wake.notify_one();
        }
        for thread in mem::take(&mut *self.threads.lock()) {
            // A panic in a machine was reported when it happened.
            let _ = thread.join();
        }
        let why: Arc<str> = "the node is shut down".into();
        for door in self.doors() {
            door.stop(&why);
            door.abandon(Abandoned::Closed);
        }
    }

    /// The shard of a stream; always the same one.
    pub(crate) fn shard_of(&self, stream: StreamId) -> usize {
        stream.0 as usize % self.shards.len()
    }

    pub(crate) fn register(&self, stream: StreamId, door: Weak<dyn Door>) {
        self.groups.write().insert(stream, door);
    }

    fn doors(&self) -> Vec<Arc<dyn Door>> {
        self.groups
            .read()
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }

    fn run(&self, number: usize) {
        let Some(shard) = self.shards.get(number) else {
            return;
        };
        let worked = panic::catch_unwind(AssertUnwindSafe(|| shard.run()));
        if worked.is_err() {
            // A machine that stopped in the middle of an entry must not be fed another.
            self.stop_groups("a state machine panicked while it applied an entry");
        }
    }

    fn stop_groups(&self, why: &str) {
        let reason: Arc<str> = why.into();
        for door in self.doors() {
            door.stop(&reason);
        }
        (self.on_stop)(why);
    }
}

impl Shard {
    fn run(&self) {
        let mut work = Vec::new();
        while self.take(&mut work) {
            for item in work.drain(..) {
                match item {
                    Work::Committed { door, index, at } => door.committed(index, at),
                    Work::Abandon { door, why } => door.abandon(why),
                }
            }
        }
    }

    /// Sleeps until there is work; false when there will be none.
    fn take(&self, work: &mut Vec<Work>) -> bool {
        let mut queue = self.queue.lock();
        while queue.work.is_empty() {
            if queue.closed {
                return false;
            }
            queue.asleep = true;
            self.wake.wait(&mut queue);
            queue.asleep = false;
        }
        mem::swap(work, &mut queue.work);
        true
    }

    /// One lock and at most one wake-up for all of it.
    fn push(&self, work: &mut Vec<Work>) {
        let mut queue = self.queue.lock();
        queue.work.append(work);
        let asleep = mem::take(&mut queue.asleep);
        drop(queue);
        if asleep {
            self.wake.notify_one();
        }
    }
}

impl FlushSink<Tag> for CommitShards {
    fn flushed(&self, done: &mut Vec<Flushed<Tag>>) {
        let mut sorted = self.sorted.lock();
        for Flushed {
            tag: Tag { door, shard },
            index,
            at,
            ..
        } in done.drain(..)
        {
            if let Some(work) = sorted.get_mut(shard) {
                work.push(Work::Committed { door, index, at });
            }
        }
        for (shard, work) in self.shards.iter().zip(sorted.iter_mut()) {
            if !work.is_empty() {
                shard.push(work);
            }
        }
    }

    fn poisoned(&self, why: &Poisoned) {
        let groups: Vec<_> = self
            .groups
            .read()
            .iter()
            .filter_map(|(stream, door)| Some((*stream, door.upgrade()?)))
            .collect();
        for (stream, door) in groups {
            // Behind what is durable already, which is applied as usual.
            let mut work = vec![Work::Abandon {
                door,
                why: Abandoned::Poisoned,
            }];
            if let Some(shard) = self.shards.get(self.shard_of(stream)) {
                shard.push(&mut work);
            }
        }
        self.stop_groups(&why.to_string());
    }
}
