//! The groups that durable queues go through: the local lane (index 0, for durable classic
//! queues) and the replica groups (1 and up, for quorum queues).
//!
//! What callers stage here is one command of a batch; `cluster` makes it an entry of the group's
//! log. Ends of messages are gathered and ride along with the next publishes, or go by themselves
//! once there are many or the ticker calls: nobody waits for them.

use std::sync::{Arc, OnceLock};

use broker_core::metadata::QueueId;
use broker_core::queue::EntryId;
use cluster::{GroupStatus, Staged, Staging};
use parking_lot::Mutex;

use crate::holder::Holder;
use crate::origin::Origin;
use crate::pressure::Pressure;
use crate::record::{self, BATCH_VERSION, EntryMeta, NewMessage};
use crate::standing::Counted;

/// Ends of messages that wait for a publish to ride along with, per group. One journal record of
/// this many is 8 KiB.
const SETTLES_MAX: usize = 1_024;

/// The lane of durable classic queues.
pub(crate) const LOCAL_LANE: u32 = 0;

#[derive(Default)]
pub(crate) struct Groups {
    groups: OnceLock<Vec<Group>>,
}

struct Group {
    staging: Arc<Staging<Origin>>,
    settles: Mutex<Settles>,
}

/// Commands about messages that are in the log already.
#[derive(Default)]
struct Settles {
    commands: Vec<Settle>,
}

enum Settle {
    Forget {
        queue: QueueId,
        entries: Vec<u64>,
    },
    Returned {
        queue: QueueId,
        entry: u64,
        counted: Counted,
    },
    HandedOut {
        queue: QueueId,
        up_to_index: u64,
    },
}

impl Settles {
    fn forget(&mut self, queue: QueueId, entry: u64) -> usize {
        if let Some(Settle::Forget {
            queue: last,
            entries,
        }) = self.commands.last_mut()
            && *last == queue
        {
            entries.push(entry);
            return entries.len();
        }
        self.commands.push(Settle::Forget {
            queue,
            entries: vec![entry],
        });
        self.commands.len()
    }

    /// Stages everything; `staged` keeps the order against publishes.
    fn ride_along(&mut self, staged: &mut Staged<'_, Origin>) {
        for command in self.commands.drain(..) {
            staged.command(true, None, |batch| {
                begin(batch);
                match command {
                    Settle::Forget { queue, entries } => {
                        record::put_forget(batch, queue.0, &entries);
                    }
                    Settle::Returned {
                        queue,
                        entry,
                        counted,
                    } => {
                        record::put_returned(batch, queue.0, entry, &counted);
                    }
                    Settle::HandedOut { queue, up_to_index } => {
                        record::put_handed_out(batch, queue.0, up_to_index);
                    }
                }
            });
        }
    }
}

/// The first command of a batch writes its version.
fn begin(batch: &mut Vec<u8>) {
    if batch.is_empty() {
        batch.push(BATCH_VERSION);
    }
}

/// A message for queues of one group.
pub(crate) struct Publication<'a> {
    /// Queue ids.
    pub(crate) queues: &'a [u64],
    pub(crate) meta: &'a EntryMeta,
    pub(crate) message: &'a NewMessage<'a>,
    /// Whether it must survive a restart.
    pub(crate) logged: bool,
}

impl Groups {
    /// Opens the doors, once, when the journal runs.
    pub(crate) fn open(&self, stagings: Vec<Arc<Staging<Origin>>>) {
        let groups = stagings
            .into_iter()
            .map(|staging| Group {
                staging,
                settles: Mutex::default(),
            })
            .collect();
        let opened = self.groups.set(groups);
        debug_assert!(opened.is_ok(), "groups are opened once");
    }

    /// Where a group's log stands; `None` before the doors are open.
    pub(crate) fn status(&self, group: u32) -> Option<GroupStatus> {
        Some(self.group(group)?.staging.group().status())
    }

    fn group(&self, group: u32) -> Option<&Group> {
        self.groups.get()?.get(group as usize)
    }

    /// Stages a publish to queues of one group. The message's bytes are copied here, once.
    pub(crate) fn publish(
        &self,
        group: u32,
        pressure: &Pressure,
        publication: &Publication<'_>,
        origin: Origin,
    ) {
        let Some(group) = self.group(group) else {
            return;
        };
        let Publication {
            queues,
            meta,
            message,
            logged,
        } = publication;
        pressure.add(message.blob_len());
        group.staging.stage(*logged, Some(origin), |batch| {
            begin(batch);
            record::put_publish(batch, meta, queues.iter().copied(), message);
        });
    }

    /// The entry is gone for good.
    pub(crate) fn forget(&self, group: u32, queue: QueueId, entry: EntryId) {
        let Some(group) = self.group(group) else {
            return;
        };
        let full = group.settles.lock().forget(queue, entry.0) >= SETTLES_MAX;
        if full {
            group.flush();
        }
    }

    /// The entry went back to its queue, or died and stays; its counts have changed.
    pub(crate) fn returned(&self, group: u32, queue: QueueId, entry: EntryId, counted: Counted) {
        let Some(group) = self.group(group) else {
            return;
        };
        let entry = entry.0;
        group.add(Settle::Returned {
            queue,
            entry,
            counted,
        });
    }

    /// Messages of the queue up to this log index may have been delivered.
    pub(crate) fn handed_out(&self, group: u32, queue: QueueId, up_to_index: u64) {
        if let Some(group) = self.group(group) {
            group.add(Settle::HandedOut { queue, up_to_index });
        }
    }

    /// Stages what waits for a ride, and behind it a mark of the channel's own: once that has
    /// landed, all of it is durable.
    pub(crate) fn barrier(&self, group: u32, pressure: &Pressure, holder: &Arc<Holder>) {
        let Some(opened) = self.group(group) else {
            return;
        };
        opened.flush();
        holder.session.departed(1);
        let origin = Origin::Channel {
            holder: holder.clone(),
            number: None,
        };
        let publication = Publication {
            queues: &[],
            meta: &EntryMeta::default(),
            message: &NewMessage::EMPTY,
            logged: true,
        };
        self.publish(group, pressure, &publication, origin);
    }

    /// Stages what waits for a ride.
    pub(crate) fn flush(&self) {
        for group in self.groups.get().into_iter().flatten() {
            group.flush();
        }
    }
}

impl Group {
    fn add(&self, settle: Settle) {
        let mut settles = self.settles.lock();
        settles.commands.push(settle);
        let full = settles.commands.len() >= SETTLES_MAX;
        drop(settles);
        if full {
            self.flush();
        }
    }

    fn flush(&self) {
        let mut settles = self.settles.lock();
        if settles.commands.is_empty() {
            return;
        }
        settles.ride_along(&mut self.staging.begin());
    }
}
