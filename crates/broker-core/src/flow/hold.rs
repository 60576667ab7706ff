//! A publishing channel that is made to wait: by what, since when, how much of its own is parked,
//! and which lever is in use.
//!
//! Open → Held (something holds it) → Pressed (more is parked than memory is for) → Rejecting (it
//! waited too long, or nothing more fits). It is Open again only when nothing holds it.
// Qpid Broker-J: a channel is released when the last of its blocking entities lets go

use smallvec::SmallVec;

use crate::time::{Millis, Timestamp};

/// How much a channel may have parked, and when it is spoken about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldBounds {
    /// Parked bytes in memory.
    pub memory_bytes: u64,
    /// Parked bytes on disk.
    pub spill_bytes: u64,
    /// Time between two lines about a held channel.
    pub notify_ms: u64,
    /// Time after `channel.flow(false)` in which publishes come without blame.
    pub grace_ms: u64,
}

impl Default for HoldBounds {
    fn default() -> Self {
        Self {
            memory_bytes: super::PARK_MEMORY_DEFAULT_BYTES,
            spill_bytes: super::PARK_SPILL_DEFAULT_BYTES,
            notify_ms: super::HOLD_NOTIFY_DEFAULT_MS,
            grace_ms: super::FLOW_GRACE_DEFAULT_MS,
        }
    }
}

/// Where a channel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing holds it.
    Open,
    /// Messages for what holds it are parked.
    Held,
    /// So much is parked that its socket is not read, or that what comes goes to disk.
    Pressed,
    /// New messages for what holds it are refused.
    Rejecting,
}

/// Where a message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In memory.
    Memory,
    /// On disk.
    Disk,
    /// It cannot wait: refuse it.
    Nowhere,
}

/// What is to be done for a held channel, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEffect<C> {
    /// Tell that this holds the channel.
    Enforced(C),
    /// Tell that nothing holds it any more.
    Removed,
    /// Send `channel.flow`.
    Flow(bool),
    /// Stop reading if the connection only publishes, and say `connection.blocked`.
    Press,
    /// Take that back.
    Ease,
    /// Tell that it has waited for so long.
    Delayed {
        /// Whole seconds since it is held.
        seconds: u64,
    },
    /// The client was asked to pause, said that it would, and went on.
    Ignored,
}

/// The effects of one call.
pub type HoldEffects<C> = SmallVec<[HoldEffect<C>; 4]>;

#[derive(Clone, Copy, Debug)]
struct Holding<C> {
    cause: C,
    since: Timestamp,
    rejects: bool,
}

/// A channel's standing towards flow control. `C` names what can hold it.
#[derive(Debug)]
pub struct ChannelHold<C> {
    bounds: HoldBounds,
    holdings: SmallVec<[Holding<C>; 2]>,
    /// The client stops publishing when it is asked to.
    obeys_flow: bool,
    /// `channel.flow(false)` is out since then.
    asked_at: Option<Timestamp>,
    since: Timestamp,
    lines: u64,
    pressed: bool,
    parked: u64,
    memory_bytes: u64,
    spilled_bytes: u64,
}

impl<C: Copy + PartialEq> ChannelHold<C> {
    /// A channel that nothing holds.
    pub fn new(bounds: HoldBounds, obeys_flow: bool) -> Self {
        Self {
            bounds,
            holdings: SmallVec::new(),
            obeys_flow,
            asked_at: None,
            since: Timestamp::default(),
            lines: 0,
            pressed: false,
            parked: 0,
            memory_bytes: 0,
            spilled_bytes: 0,
        }
    }

    /// Where it stands.
    pub fn stage(&self) -> Stage {
        if self.holdings.iter().any(|holding| holding.rejects) {
            Stage::Rejecting
        } else if self.pressed {
            Stage::Pressed
        } else if self.holdings.is_empty() {
            Stage::Open
        } else {
            Stage::Held
        }
    }

    /// What holds it, and since when, in that order.
    pub fn causes(&self) -> impl Iterator<Item = (C, Timestamp)> {
        self.holdings
            .iter()
            .map(|holding| (holding.cause, holding.since))
    }

    /// Since when it is held.
    pub fn since(&self) -> Option<Timestamp> {
        (!self.holdings.is_empty()).then_some(self.since)
    }

    /// Messages that are parked.
    pub fn parked_messages(&self) -> u64 {
        self.parked
    }

    /// Parked bytes in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Parked bytes on disk.
    pub fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes
    }

    /// Whether `channel.flow(false)` is out.
    pub fn is_asked_to_pause(&self) -> bool {
        self.asked_at.is_some()
    }

    /// Something holds the channel from here on.
    pub fn hold(&mut self, now: Timestamp, cause: C) -> HoldEffects<C> {
        let mut out = HoldEffects::new();
        if self.holdings.iter().any(|holding| holding.cause == cause) {
            return out;
        }
        if self.holdings.is_empty() {
            self.since = now;
            self.lines = 0;
        }
        self.holdings.push(Holding {
            cause,
            since: now,
            rejects: false,
        });
        out.push(HoldEffect::Enforced(cause));
        if self.obeys_flow && self.asked_at.is_none() {
            self.asked_at = Some(now);
            out.push(HoldEffect::Flow(false));
        }
        out
    }

    /// Something lets go of the channel.
    pub fn release(&mut self, cause: C) -> HoldEffects<C> {
        let mut out = HoldEffects::new();
        let before = self.holdings.len();
        self.holdings.retain(|holding| holding.cause != cause);
        if self.holdings.len() == before || !self.holdings.is_empty() {
            return out;
        }
        self.wake(&mut out);
        self.ease(&mut out);
        out.push(HoldEffect::Removed);
        out
    }

    /// A publish came while the channel is held. A client that was asked to pause and goes on after
    /// the grace is not asked again.
    pub fn published(&mut self, now: Timestamp) -> HoldEffects<C> {
        let mut out = HoldEffects::new();
        let late = self
            .asked_at
            .is_some_and(|at| now.since(at) > Millis(self.bounds.grace_ms));
        if late && self.obeys_flow {
            self.obeys_flow = false;
            out.push(HoldEffect::Ignored);
        }
        out
    }

    /// Whether new messages for this cause are refused.
    pub fn rejects(&self, cause: C) -> bool {
        self.holdings
            .iter()
            .any(|holding| holding.cause == cause && holding.rejects)
    }

    /// Finds a place for a message of so many bytes. `memory` and `disk` say whether the node as a
    /// whole has room there.
    pub fn park(&mut self, bytes: u64, memory: bool, disk: bool) -> (Place, HoldEffects<C>) {
        let mut out = HoldEffects::new();
        if memory && self.memory_bytes + bytes <= self.bounds.memory_bytes {
            self.memory_bytes += bytes;
            self.parked += 1;
            return (Place::Memory, out);
        }
        if !disk || self.spilled_bytes + bytes > self.bounds.spill_bytes {
            self.reject_all(&mut out);
            return (Place::Nowhere, out);
        }
        self.spilled_bytes += bytes;
        self.parked += 1;
        if !self.pressed {
            self.pressed = true;
            out.push(HoldEffect::Press);
        }
        (Place::Disk, out)
    }

    /// A parked message waits no more.
    pub fn unpark(&mut self, bytes: u64, place: Place) -> HoldEffects<C> {
        let mut out = HoldEffects::new();
        let part = match place {
            Place::Memory => &mut self.memory_bytes,
            Place::Disk => &mut self.spilled_bytes,
            Place::Nowhere => return out,
        };
        debug_assert!(*part >= bytes, "more is taken out than is parked");
        *part = part.saturating_sub(bytes);
        self.parked = self.parked.saturating_sub(1);
        if self.memory_bytes + self.spilled_bytes < self.bounds.memory_bytes / 2 {
            self.ease(&mut out);
        }
        out
    }

    /// The channel has waited for this cause for too long: what comes for it is refused. An obedient
    /// client is woken first, so that it learns its fate.
    pub fn time_out(&mut self, cause: C) -> HoldEffects<C> {
        let mut out = HoldEffects::new();
        let holding = self.holdings.iter_mut().find(|held| held.cause == cause);
        if let Some(holding) = holding.filter(|holding| !holding.rejects) {
            holding.rejects = true;
            self.wake(&mut out);
            self.ease(&mut out);
        }
        out
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Timestamp) -> HoldEffects<C> {
        let mut out = HoldEffects::new();
        let Some(since) = self.since() else {
            return out;
        };
        let waited = now.since(since).0;
        let due = waited / self.bounds.notify_ms.max(1);
        if due > self.lines {
            self.lines = due;
            let seconds = due * self.bounds.notify_ms / 1_000;
            out.push(HoldEffect::Delayed { seconds });
        }
        out
    }

    fn reject_all(&mut self, out: &mut HoldEffects<C>) {
        for holding in &mut self.holdings {
            holding.rejects = true;
        }
        self.wake(out);
    }

    fn wake(&mut self, out: &mut HoldEffects<C>) {
        if self.asked_at.take().is_some() {
            out.push(HoldEffect::Flow(true));
        }
    }

    fn ease(&mut self, out: &mut HoldEffects<C>) {
        if std::mem::take(&mut self.pressed) {
            out.push(HoldEffect::Ease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: HoldBounds = HoldBounds {
        memory_bytes: 100,
        spill_bytes: 200,
        notify_ms: 5_000,
        grace_ms: 5_000,
    };

    fn obedient() -> ChannelHold<&'static str> {
        ChannelHold::new(BOUNDS, true)
    }

    fn other() -> ChannelHold<&'static str> {
        ChannelHold::new(BOUNDS, false)
    }

    #[test]
    fn a_channel_is_open_again_only_when_the_last_cause_lets_go() {
        let mut channel = obedient();
        let effects = channel.hold(Timestamp(0), "a");
        assert_eq!(
            effects[..],
            [HoldEffect::Enforced("a"), HoldEffect::Flow(false)]
        );
        // A second cause is told, flow is asked for once.
        let effects = channel.hold(Timestamp(1), "b");
        assert_eq!(effects[..], [HoldEffect::Enforced("b")]);
        assert!(channel.hold(Timestamp(1), "b").is_empty());
        assert!(channel.release("a").is_empty());
        assert_eq!(channel.stage(), Stage::Held);
        let effects = channel.release("b");
        assert_eq!(effects[..], [HoldEffect::Flow(true), HoldEffect::Removed]);
        assert_eq!(channel.stage(), Stage::Open);
        assert!(channel.release("b").is_empty());
    }

    #[test]
    fn a_client_that_does_not_obey_is_never_sent_a_flow() {
        let mut channel = other();
        let effects = channel.hold(Timestamp(0), "a");
        assert_eq!(effects[..], [HoldEffect::Enforced("a")]);
        assert_eq!(channel.release("a")[..], [HoldEffect::Removed]);
    }

    #[test]
    fn parked_bytes_go_to_disk_above_their_memory_and_are_refused_above_both() {
        let mut channel = other();
        channel.hold(Timestamp(0), "a");
        assert_eq!(channel.park(60, true, true).0, Place::Memory);
        let (place, effects) = channel.park(60, true, true);
        assert_eq!(
            (place, &effects[..]),
            (Place::Disk, &[HoldEffect::Press][..])
        );
        assert_eq!(channel.stage(), Stage::Pressed);
        assert_eq!(channel.park(140, true, true).0, Place::Disk);
        assert_eq!(channel.park(141, true, true).0, Place::Nowhere);
        assert!(channel.rejects("a"));
        assert_eq!(channel.stage(), Stage::Rejecting);
        // What is parked counts until it is taken out.
        assert_eq!(channel.parked_messages(), 3);
        assert!(channel.unpark(140, Place::Disk).is_empty());
        assert!(channel.unpark(60, Place::Disk).is_empty());
        // Under half of the memory part.
        assert_eq!(channel.unpark(60, Place::Memory)[..], [HoldEffect::Ease]);
    }

    #[test]
    fn nothing_goes_where_the_node_has_no_room() {
        let mut channel = other();
        channel.hold(Timestamp(0), "a");
        assert_eq!(channel.park(1, false, true).0, Place::Disk);
        assert_eq!(channel.park(1, false, false).0, Place::Nowhere);
    }

    #[test]
    fn after_the_time_out_an_obedient_client_is_woken_and_refused() {
        let mut channel = obedient();
        channel.hold(Timestamp(0), "a");
        assert_eq!(channel.time_out("a")[..], [HoldEffect::Flow(true)]);
        assert!(channel.time_out("a").is_empty());
        assert!(channel.rejects("a") && !channel.rejects("b"));
        assert_eq!(channel.release("a")[..], [HoldEffect::Removed]);
        assert_eq!(channel.stage(), Stage::Open);
    }

    #[test]
    fn publishes_within_the_grace_come_without_blame_and_later_ones_strike_the_client_off() {
        let mut channel = obedient();
        channel.hold(Timestamp(0), "a");
        assert!(channel.published(Timestamp(5_000)).is_empty());
        assert_eq!(
            channel.published(Timestamp(5_001))[..],
            [HoldEffect::Ignored]
        );
        assert!(channel.published(Timestamp(5_002)).is_empty());
        assert_eq!(
            channel.release("a")[..],
            [HoldEffect::Flow(true), HoldEffect::Removed]
        );
        // Not asked again.
        assert_eq!(
            channel.hold(Timestamp(9_000), "a")[..],
            [HoldEffect::Enforced("a")]
        );
    }

    #[test]
    fn a_held_channel_is_spoken_about_every_five_seconds() {
        let mut channel = other();
        assert!(channel.tick(Timestamp(9_000)).is_empty());
        channel.hold(Timestamp(0), "a");
        assert!(channel.tick(Timestamp(4_999)).is_empty());
        let at = |seconds| HoldEffect::Delayed { seconds };
        assert_eq!(channel.tick(Timestamp(5_100))[..], [at(5)]);
        assert!(channel.tick(Timestamp(5_600)).is_empty());
        assert_eq!(channel.tick(Timestamp(10_100))[..], [at(10)]);
    }
}
