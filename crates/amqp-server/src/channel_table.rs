//! The channels of one connection, by number, with the states that the close handshake needs.
//!
//! Knows which channel is open, which waits for close-ok and which were touched in this turn.
//! Must not know methods or frames.

use broker::Channel;
use rustc_hash::FxHashMap;

use crate::assembler::Assembly;

/// A channel number in use.
pub(crate) enum Slot {
    /// Open and working.
    Open(Box<OpenChannel>),
    /// We closed it; everything but close and close-ok is ignored.
    Closing,
    /// Our close and the client's crossed and ours was answered by its close. Its close-ok may
    /// still come, or not: clients differ. The number may be opened again at once.
    Crossed,
}

/// An open channel.
pub(crate) struct OpenChannel {
    /// The broker's side.
    pub(crate) channel: Channel,
    /// A publish whose content is under way.
    pub(crate) assembly: Option<Assembly>,
    /// Something was done on it since the last end of turn.
    pub(crate) touched: bool,
    /// A close-ok of the number's former life may come and means nothing.
    pub(crate) late_close_ok: bool,
    /// What we sent of channel.flow and the client has not answered.
    pub(crate) flows_asked: FlowsAsked,
}

/// Flows of ours without an answer: a queue may turn faster than a client answers, and some clients
/// never do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowsAsked {
    pauses: u32,
    resumes: u32,
}

impl FlowsAsked {
    /// One more was sent.
    pub(crate) fn ask(&mut self, active: bool) {
        let count = self.of(active);
        *count = count.saturating_add(1);
    }

    /// An answer came; it may say the opposite of what was asked. Answers false when none was due.
    pub(crate) fn answer(&mut self, active: bool) -> bool {
        self.echo(active) || self.echo(!active)
    }

    /// The same came back. Answers false when it was not sent.
    pub(crate) fn echo(&mut self, active: bool) -> bool {
        let count = self.of(active);
        let was_asked = *count > 0;
        *count = count.saturating_sub(1);
        was_asked
    }

    fn of(&mut self, active: bool) -> &mut u32 {
        match active {
            true => &mut self.resumes,
            false => &mut self.pauses,
        }
    }
}

/// All channels of a connection. Bounds: `channel_max` counted slots, 65,535 crossed ones.
pub(crate) struct ChannelTable {
    slots: FxHashMap<u16, Slot>,
    /// Slots that are open or wait for close-ok.
    counted: usize,
    channel_max: u16,
    touched: Vec<u16>,
}

impl ChannelTable {
    pub(crate) fn new(channel_max: u16) -> Self {
        Self {
            slots: FxHashMap::default(),
            counted: 0,
            channel_max,
            touched: Vec::new(),
        }
    }

    /// The negotiated number of channels open at once.
    pub(crate) fn channel_max(&self) -> u16 {
        self.channel_max
    }

    /// Whether one more would be too many. Numbers do not matter, only how many there are.
    // rabbitmq: channel_max limits the count, not the ids
    pub(crate) fn is_full(&self) -> bool {
        self.counted >= usize::from(self.channel_max)
    }

    pub(crate) fn slot(&mut self, number: u16) -> Option<&mut Slot> {
        self.slots.get_mut(&number)
    }

    /// The channel if it is open.
    pub(crate) fn open(&mut self, number: u16) -> Option<&mut OpenChannel> {
        match self.slots.get_mut(&number) {
            Some(Slot::Open(open)) => Some(open),
            _ => None,
        }
    }

    /// Puts a fresh channel into its slot. The caller has seen that it is free and not full.
    pub(crate) fn insert(&mut self, number: u16, channel: Channel) {
        let late_close_ok = matches!(self.slots.get(&number), Some(Slot::Crossed));
        let open = OpenChannel {
            channel,
            assembly: None,
            touched: false,
            late_close_ok,
            flows_asked: FlowsAsked::default(),
        };
        self.slots.insert(number, Slot::Open(Box::new(open)));
        self.counted += 1;
    }

    /// Takes an open channel out, leaving its slot waiting for close-ok.
    pub(crate) fn begin_close(&mut self, number: u16) -> Option<OpenChannel> {
        match self.slots.get_mut(&number) {
            Some(slot @ Slot::Open(_)) => match std::mem::replace(slot, Slot::Closing) {
                Slot::Open(open) => Some(*open),
                Slot::Closing | Slot::Crossed => None,
            },
            _ => None,
        }
    }

    /// The client's close met ours.
    pub(crate) fn cross(&mut self, number: u16) {
        if let Some(slot @ Slot::Closing) = self.slots.get_mut(&number) {
            *slot = Slot::Crossed;
            self.counted -= 1;
        }
    }

    /// The number is free again.
    pub(crate) fn remove(&mut self, number: u16) -> Option<OpenChannel> {
        match self.slots.remove(&number)? {
            Slot::Open(open) => {
                self.counted -= 1;
                Some(*open)
            }
            Slot::Closing => {
                self.counted -= 1;
                None
            }
            Slot::Crossed => None,
        }
    }

    /// Remembers that the channel has work to finish at the end of the turn, and answers it.
    pub(crate) fn touch(&mut self, number: u16) -> Option<&mut OpenChannel> {
        match self.slots.get_mut(&number) {
            Some(Slot::Open(open)) => {
                if !open.touched {
                    open.touched = true;
                    self.touched.push(number);
                }
                Some(open)
            }
            _ => None,
        }
    }

    /// Ends the turn of every touched channel, in the order of their first touch.
    pub(crate) fn end_turn(&mut self) {
        for number in self.touched.drain(..) {
            if let Some(Slot::Open(open)) = self.slots.get_mut(&number)
                && std::mem::take(&mut open.touched)
            {
                open.channel.end_turn();
            }
        }
    }

    /// All open channels.
    pub(crate) fn all_open(&mut self) -> impl Iterator<Item = &mut OpenChannel> {
        self.slots.values_mut().filter_map(|slot| match slot {
            Slot::Open(open) => Some(&mut **open),
            Slot::Closing | Slot::Crossed => None,
        })
    }

    /// Takes all open channels out; the table is empty afterwards.
    pub(crate) fn take_all(&mut self) -> Vec<OpenChannel> {
        self.touched.clear();
        self.counted = 0;
        let slots = std::mem::take(&mut self.slots);
        slots
            .into_values()
            .filter_map(|slot| match slot {
                Slot::Open(open) => Some(*open),
                Slot::Closing | Slot::Crossed => None,
            })
            .collect()
    }
}
