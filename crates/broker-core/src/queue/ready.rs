//! The order in which messages are handed out.
//!
//! Quorum queues: returned messages in order of return, then levels from the highest, each first
//! in, first out. Classic queues: levels, a requeued message at its old place. Knows places,
//! not messages: the table says whether a place still belongs in a line.

use std::collections::{BTreeSet, VecDeque};

use super::handle::Handle;
use super::message::State;
use super::table::{Place, Table};

/// Capacity, in runs, that an emptied line keeps.
const KEPT_RUNS: usize = 8;
/// Stale places that are not worth a pass over the line.
const KEPT_STALE: u64 = 16;

/// Places that were given one after the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Place,
    len: u64,
}

impl Run {
    fn places(self) -> impl Iterator<Item = Place> {
        (0..self.len).map(move |number| self.first.plus(number))
    }
}

/// Places in order, as runs: a deep queue that nobody consumes is one. Messages that leave out of turn
/// stay as stale places until they reach the front or outnumber the others.
#[derive(Debug)]
struct Line {
    runs: VecDeque<Run>,
    places: u64,
    stale: u64,
    state: State,
}

impl Line {
    fn new(state: State) -> Self {
        Self {
            runs: VecDeque::new(),
            places: 0,
            stale: 0,
            state,
        }
    }

    fn len(&self) -> u64 {
        self.places - self.stale
    }

    fn front(&self) -> Option<Place> {
        self.runs.front().map(|run| run.first)
    }

    #[inline]
    fn push(&mut self, place: Place) {
        self.places += 1;
        match self.runs.back_mut() {
            Some(run) if run.first.plus(run.len) == place => run.len += 1,
            _ => self.runs.push_back(Run {
                first: place,
                len: 1,
            }),
        }
    }

    #[inline]
    fn pop_front(&mut self) {
        let Some(run) = self.runs.front_mut() else {
            return;
        };
        self.places -= 1;
        run.first = run.first.plus(1);
        run.len -= 1;
        if run.len == 0 {
            self.runs.pop_front();
            self.shrink();
        }
    }

    fn belongs<C: Handle>(&self, table: &Table<C>, place: Place) -> bool {
        table
            .get(place)
            .is_some_and(|message| message.state == self.state)
    }

    /// Notes that a message of this line has left out of turn.
    fn leave<C: Handle>(&mut self, table: &Table<C>) {
        self.stale += 1;
        self.trim(table);
        if self.stale > KEPT_STALE && self.stale * 2 > self.places {
            self.drop_stale(table);
        }
    }

    fn drop_stale<C: Handle>(&mut self, table: &Table<C>) {
        (self.places, self.stale) = (0, 0);
        for run in std::mem::take(&mut self.runs) {
            for place in run.places() {
                if self.belongs(table, place) {
                    self.push(place);
                }
            }
        }
    }

    /// Makes the front a live place.
    fn trim<C: Handle>(&mut self, table: &Table<C>) {
        while self.stale > 0 {
            match self.front() {
                Some(front) if !self.belongs(table, front) => {
                    self.pop_front();
                    self.stale -= 1;
                }
                _ => return,
            }
        }
    }

    fn pop<C: Handle>(&mut self, table: &Table<C>) {
        self.pop_front();
        if self.stale > 0 {
            self.trim(table);
        }
    }

    fn shrink(&mut self) {
        let capacity = self.runs.capacity();
        if capacity > KEPT_RUNS && self.runs.len() * 4 < capacity {
            self.runs.shrink_to(KEPT_RUNS.max(self.runs.len() * 2));
        }
    }

    fn memory_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
    }
}

#[derive(Debug)]
struct Level {
    priority: u8,
    line: Line,
    /// Classic queues: what came back. Mostly older than the line, for that has gone on.
    requeued: BTreeSet<Place>,
}

/// From where the next message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Returned,
    Requeued(usize),
    Line(usize),
}

/// The next message of the queue or of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) place: Place,
    source: Source,
}

#[derive(Debug)]
pub(super) struct Ready {
    returned: Line,
    /// From the highest; at most 256, made when first used.
    levels: Vec<Level>,
}

impl Ready {
    pub(super) fn new() -> Self {
        Self {
            returned: Line::new(State::Returned),
            levels: Vec::new(),
        }
    }

    #[inline]
    fn level(&mut self, priority: u8) -> &mut Level {
        match self.levels.first() {
            Some(level) if level.priority == priority => &mut self.levels[0],
            _ => self.other_level(priority),
        }
    }

    fn other_level(&mut self, priority: u8) -> &mut Level {
        let found = self
            .levels
            .iter()
            .position(|level| level.priority <= priority);
        let at = found.unwrap_or(self.levels.len());
        if self
            .levels
            .get(at)
            .is_none_or(|level| level.priority != priority)
        {
            let level = Level {
                priority,
                line: Line::new(State::Ready),
                requeued: BTreeSet::new(),
            };
            self.levels.insert(at, level);
        }
        &mut self.levels[at]
    }

    /// A message for the first time; its place is the latest of all.
    pub(super) fn push(&mut self, priority: u8, place: Place) {
        self.level(priority).line.push(place);
    }

    /// A message that goes back to its old place.
    pub(super) fn requeue(&mut self, priority: u8, place: Place) {
        self.level(priority).requeued.insert(place);
    }

    /// A message that goes in front of all levels, behind those that were returned before.
    pub(super) fn give_back(&mut self, place: Place) {
        self.returned.push(place);
    }

    /// The next message.
    pub(super) fn head(&self) -> Option<Head> {
        if let Some(place) = self.returned.front() {
            return Some(Head {
                place,
                source: Source::Returned,
            });
        }
        self.levels
            .iter()
            .enumerate()
            .find_map(|(at, level)| level.head(at))
    }

    /// The heads of returns and of each level: the only ones that expire.
    pub(super) fn heads(&self) -> impl Iterator<Item = Head> {
        let returned = self.returned.front().map(|place| Head {
            place,
            source: Source::Returned,
        });
        let levels = self.levels.iter().enumerate();
        returned
            .into_iter()
            .chain(levels.filter_map(|(at, level)| level.head(at)))
    }

    /// Takes a head out, whatever its message is by then.
    pub(super) fn take<C: Handle>(&mut self, head: Head, table: &Table<C>) {
        match head.source {
            Source::Returned => self.returned.pop(table),
            Source::Requeued(at) => {
                self.levels[at].requeued.pop_first();
            }
            Source::Line(at) => self.levels[at].line.pop(table),
        }
    }

    /// A ready message leaves out of turn. `state` is what it was; the table knows it no more
    /// as that.
    pub(super) fn leave<C: Handle>(
        &mut self,
        state: State,
        priority: u8,
        place: Place,
        table: &Table<C>,
    ) {
        match state {
            State::Ready => self.level(priority).line.leave(table),
            State::Returned => self.returned.leave(table),
            State::Requeued => {
                self.level(priority).requeued.remove(&place);
            }
            State::Delayed | State::Held(_) | State::Dead(_) => {}
        }
    }

    pub(super) fn returned(&self) -> u64 {
        self.returned.len()
    }

    /// Ready messages of each level that has any, from the highest; returned ones are apart.
    pub(super) fn by_priority(&self) -> impl Iterator<Item = (u8, u64)> {
        let counted = self.levels.iter().map(|level| {
            (
                level.priority,
                level.line.len() + level.requeued.len() as u64,
            )
        });
        counted.filter(|(_, messages)| *messages > 0)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let lines = self.levels.iter().map(|level| {
            let requeued = level.requeued.len() * 2 * size_of::<Place>();
            level.line.memory_bytes() + requeued + size_of::<Level>()
        });
        lines.sum::<usize>() + self.returned.memory_bytes()
    }
}

impl Level {
    fn head(&self, at: usize) -> Option<Head> {
        let in_line = self.line.front();
        let Some(requeued) = self.requeued.first().copied() else {
            return Some(Head {
                place: in_line?,
                source: Source::Line(at),
            });
        };
        match in_line {
            // Only what was held again out of turn is younger than the line.
            Some(place) if place < requeued => Some(Head {
                place,
                source: Source::Line(at),
            }),
            _ => Some(Head {
                place: requeued,
                source: Source::Requeued(at),
            }),
        }
    }
}
