//! An owner with a model small enough to be obviously right: stores in which items are put and settled.
//!
//! It applies records on the journal thread, keeps the bytes of what lives, and recovers itself the way
//! the contract of `Owner` says. Tests compare it with the list of all commands.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use parking_lot::Mutex;
use storage::{
    FileId, FlushSink, Flushed, LiveItem, Location, Owner, Poisoned, Recovery, Replayed,
    ReplayedRecord, SegmentStore, StorageError, StoreId, StreamId, Tier,
};

use super::disk::SimulatedDisk;

pub const STREAM: StreamId = StreamId(3);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Put {
        store: StoreId,
        id: u64,
        body: Bytes,
    },
    Settle {
        store: StoreId,
        id: u64,
    },
}

impl Command {
    pub fn store(&self) -> StoreId {
        match self {
            Self::Put { store, .. } | Self::Settle { store, .. } => *store,
        }
    }
}

pub fn encode(commands: &[Command]) -> Bytes {
    let mut out = Vec::new();
    for command in commands {
        match command {
            Command::Put { store, id, body } => {
                out.put_u8(1);
                out.put_u64(store.0);
                out.put_u64(*id);
                out.put_u32(body.len() as u32);
                out.put_slice(body);
            }
            Command::Settle { store, id } => {
                out.put_u8(2);
                out.put_u64(store.0);
                out.put_u64(*id);
            }
        }
    }
    out.into()
}

pub fn decode(mut payload: Bytes) -> Vec<Command> {
    let mut commands = Vec::new();
    while payload.has_remaining() {
        let kind = payload.get_u8();
        let (store, id) = (StoreId(payload.get_u64()), payload.get_u64());
        commands.push(match kind {
            1 => {
                let len = payload.get_u32() as usize;
                Command::Put {
                    store,
                    id,
                    body: payload.split_to(len),
                }
            }
            2 => Command::Settle { store, id },
            other => panic!("unknown command {other}"),
        });
    }
    commands
}

#[derive(Debug, Clone)]
enum Place {
    Resident(FileId, Bytes),
    Segment(Location),
}

#[derive(Debug, Default)]
struct Items {
    live: BTreeMap<u64, Place>,
    applied: u64,
}

#[derive(Debug, Default)]
struct State {
    stores: BTreeMap<StoreId, Items>,
    touched: HashMap<FileId, BTreeSet<StoreId>>,
    applied: u64,
    released: Vec<FileId>,
    poisoned: Option<String>,
}

#[derive(Debug)]
pub struct Shelf {
    /// Items that live by what was saved, and whose bytes are nowhere.
    missing: Vec<(StoreId, u64)>,
    state: Mutex<State>,
    segments: Arc<SegmentStore>,
    disk: Option<SimulatedDisk>,
}

/// Everything that lives, by store and id.
pub type Contents = BTreeMap<(u64, u64), Bytes>;

impl Shelf {
    /// The shelf as it was saved: checkpoints, then segments, then the journal. With it the index of the
    /// last record that has an effect in it.
    pub fn recover(
        segments: &Arc<SegmentStore>,
        recovery: Recovery,
        disk: Option<&SimulatedDisk>,
    ) -> Result<(Arc<Self>, Replayed, u64), StorageError> {
        let mut stores: BTreeMap<StoreId, Recovering> = BTreeMap::new();
        for store in recovery.stores() {
            let mut found = Recovering::default();
            if let Some(checkpoint) = recovery.checkpoint(store)? {
                found.covered = checkpoint.covered;
                let mut blob = checkpoint.blob;
                while blob.has_remaining() {
                    found.live.insert(blob.get_u64(), None);
                }
            }
            for item in segments.recover(store)? {
                let item = item?;
                assert_eq!(item.attributes, item.id ^ 0xA77A, "attributes come back");
                found
                    .segments
                    .entry(item.id)
                    .or_default()
                    .push(item.location);
            }
            stores.insert(store, found);
        }
        let mut state = State::default();
        let replayed = recovery.replay(|record: ReplayedRecord| {
            state.applied = state.applied.max(record.index);
            for command in decode(record.payload.clone()) {
                let touched = state.touched.entry(record.at.file).or_default();
                touched.insert(command.store());
                stores
                    .entry(command.store())
                    .or_default()
                    .replay(&record, command);
            }
            Ok::<_, StorageError>(())
        })?;
        let covered = stores
            .values()
            .map(|found| found.covered)
            .max()
            .unwrap_or(0);
        let durable = state.applied.max(covered);
        state.applied = replayed.last_index(STREAM);
        let mut missing = Vec::new();
        for (store, found) in stores {
            let (items, dead) = found.finish(store, state.applied, &mut missing);
            segments.release(store, &dead);
            state.stores.insert(store, items);
        }
        let segments = Arc::clone(segments);
        let shelf = Self {
            missing,
            state: Mutex::new(state),
            segments,
            disk: disk.cloned(),
        };
        Ok((Arc::new(shelf), replayed, durable))
    }

    pub fn contents(&self) -> Contents {
        assert!(self.missing.is_empty(), "{:?} have no bytes", self.missing);
        self.readable_contents().unwrap()
    }

    /// Items that live by what was saved, and whose bytes are nowhere.
    pub fn missing(&self) -> &[(StoreId, u64)] {
        &self.missing
    }

    /// What can be read, or why something cannot.
    pub fn readable_contents(&self) -> Result<Contents, StorageError> {
        let state = self.state.lock();
        let mut contents = Contents::new();
        for (store, items) in &state.stores {
            for (id, place) in &items.live {
                let body = match place {
                    Place::Resident(_, body) => body.clone(),
                    Place::Segment(location) => self.segments.read(*store, location)?,
                };
                contents.insert((store.0, *id), body);
            }
        }
        Ok(contents)
    }

    pub fn applied_index(&self) -> u64 {
        self.state.lock().applied
    }

    pub fn released(&self) -> Vec<FileId> {
        self.state.lock().released.clone()
    }

    pub fn poisoned(&self) -> Option<String> {
        self.state.lock().poisoned.clone()
    }

    /// How many live items are in segments.
    pub fn in_segments(&self) -> usize {
        let state = self.state.lock();
        let places = state.stores.values().flat_map(|items| items.live.values());
        places
            .filter(|place| matches!(place, Place::Segment(_)))
            .count()
    }
}

/// What all commands up to an index come to.
pub fn model(log: &[Vec<Command>], last_index: u64) -> Contents {
    let mut contents = Contents::new();
    for command in log.iter().take(last_index as usize).flatten() {
        match command {
            Command::Put { store, id, body } => {
                contents.insert((store.0, *id), body.clone());
            }
            Command::Settle { store, id } => {
                contents.remove(&(store.0, *id));
            }
        }
    }
    contents
}

#[derive(Default)]
struct Recovering {
    covered: u64,
    /// Live by the state so far; bytes if the journal had them.
    live: BTreeMap<u64, Option<Place>>,
    segments: HashMap<u64, Vec<Location>>,
}

impl Recovering {
    fn replay(&mut self, record: &ReplayedRecord, command: Command) {
        let covered = record.index <= self.covered;
        match command {
            Command::Put { id, body, .. } => {
                if covered && !self.live.contains_key(&id) {
                    return;
                }
                self.live
                    .insert(id, Some(Place::Resident(record.at.file, body)));
            }
            Command::Settle { id, .. } if !covered => {
                self.live.remove(&id);
            }
            Command::Settle { .. } => {}
        }
    }

    /// The items, and the places in segments that nobody needs.
    fn finish(
        mut self,
        store: StoreId,
        applied: u64,
        missing: &mut Vec<(StoreId, u64)>,
    ) -> (Items, Vec<Location>) {
        let mut items = Items {
            live: BTreeMap::new(),
            applied,
        };
        let mut dead = Vec::new();
        for (id, resident) in self.live {
            let mut places = self.segments.remove(&id).unwrap_or_default();
            let place = places.pop().map(Place::Segment).or(resident);
            dead.append(&mut places);
            match place {
                Some(place) => {
                    items.live.insert(id, place);
                }
                None => missing.push((store, id)),
            }
        }
        dead.extend(self.segments.into_values().flatten());
        (items, dead)
    }
}

/// The sink that applies: its tags are the payloads, as a real owner keeps them.
impl FlushSink<Bytes> for Shelf {
    fn flushed(&self, done: &mut Vec<Flushed<Bytes>>) {
        let mut dead = Vec::new();
        let mut state = self.state.lock();
        for flushed in done.drain(..) {
            if let Some(disk) = &self.disk {
                disk.note(flushed.index);
            }
            assert!(flushed.index > state.applied, "in order");
            state.applied = flushed.index;
            let Some(at) = flushed.at else { continue };
            for command in decode(flushed.tag) {
                state
                    .touched
                    .entry(at.file)
                    .or_default()
                    .insert(command.store());
                let items = state.stores.entry(command.store()).or_default();
                items.applied = flushed.index;
                match command {
                    Command::Put { id, body, .. } => {
                        items.live.insert(id, Place::Resident(at.file, body));
                    }
                    Command::Settle { store, id } => {
                        if let Some(Place::Segment(location)) = items.live.remove(&id) {
                            dead.push((store, location));
                        }
                    }
                }
            }
        }
        // Under the owner's lock on purpose: releasing must be possible there.
        for (store, location) in dead {
            self.segments.release(store, &[location]);
        }
    }

    fn poisoned(&self, why: &Poisoned) {
        self.state.lock().poisoned = Some(why.to_string());
    }
}

fn item(id: u64, bytes: &Bytes) -> LiveItem {
    LiveItem {
        id,
        attributes: id ^ 0xA77A,
        bytes: bytes.clone(),
    }
}

impl Owner for Shelf {
    fn applied(&self, last: &[(StreamId, u64)]) -> bool {
        let state = self.state.lock();
        last.iter().all(|(_, index)| *index <= state.applied)
    }

    fn touched(&self, file: FileId) -> Vec<StoreId> {
        let state = self.state.lock();
        state
            .touched
            .get(&file)
            .into_iter()
            .flatten()
            .copied()
            .collect()
    }

    fn live_items(&self, store: StoreId, file: FileId, from: u64, out: &mut Vec<LiveItem>) {
        let state = self.state.lock();
        let Some(items) = state.stores.get(&store) else {
            return;
        };
        for (id, place) in items.live.range(from..) {
            if let Place::Resident(held, bytes) = place
                && *held == file
            {
                out.push(item(*id, bytes));
            }
            if out.len() == 100 {
                return;
            }
        }
    }

    fn living(&self, _: Tier, store: StoreId, items: &mut Vec<(u64, Location)>) {
        let state = self.state.lock();
        let live = state.stores.get(&store).map(|items| &items.live);
        items.retain(|(id, location)| {
            let place = live.and_then(|live| live.get(id));
            matches!(place, Some(Place::Segment(at)) if at == location)
        });
    }

    fn paging_starts(&self, store: StoreId, keep_bytes: u64) -> u64 {
        let state = self.state.lock();
        let items = state.stores.get(&store).map(|items| &items.live);
        let mut kept_bytes = 0;
        let first = items.into_iter().flatten().find(|(_, place)| {
            if let Place::Resident(_, bytes) = place {
                kept_bytes += bytes.len() as u64;
            }
            kept_bytes > keep_bytes
        });
        first.map_or(u64::MAX, |(id, _)| *id)
    }

    fn pageable(&self, tier: Tier, store: StoreId, from: u64, out: &mut Vec<LiveItem>) {
        let state = self.state.lock();
        let Some(items) = state.stores.get(&store).filter(|_| tier == Tier::Durable) else {
            return;
        };
        for (id, place) in items.live.range(from..) {
            if let Place::Resident(_, bytes) = place {
                out.push(item(*id, bytes));
            }
            if out.len() == 10 {
                return;
            }
        }
    }

    fn relocated(&self, _: Tier, store: StoreId, moved: &[(u64, Location)]) -> Vec<Location> {
        let mut state = self.state.lock();
        let items = state.stores.entry(store).or_default();
        let mut unwanted = Vec::new();
        for (id, location) in moved {
            match items.live.get_mut(id) {
                Some(place) => *place = Place::Segment(*location),
                None => unwanted.push(*location),
            }
        }
        unwanted
    }

    fn checkpoint(&self, store: StoreId, out: &mut Vec<u8>) -> Option<u64> {
        let state = self.state.lock();
        let items = state.stores.get(&store)?;
        items.live.keys().for_each(|id| out.put_u64(*id));
        Some(state.applied)
    }

    fn released(&self, file: FileId) {
        let mut state = self.state.lock();
        state.touched.remove(&file);
        state.released.push(file);
    }
}
