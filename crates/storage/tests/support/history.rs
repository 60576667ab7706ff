//! Random work for an owner of stores, and what it should have come to.

use bytes::Bytes;
use storage::StoreId;

use super::Dice;
use super::shelf::{Command, model};

/// Everything that was ever asked for, whichever part of it survived so far.
#[derive(Debug)]
pub struct History {
    /// Commands by index; index 1 is the first.
    pub log: Vec<Vec<Command>>,
    stores: u64,
    next_id: u64,
    live: Vec<(StoreId, u64)>,
}

impl History {
    pub fn new(stores: u64) -> Self {
        Self {
            stores,
            log: Vec::new(),
            next_id: 1,
            live: Vec::new(),
        }
    }

    pub fn next_batch(&mut self, dice: &mut Dice) -> Vec<Command> {
        (0..=dice.below(6))
            .map(|_| self.next_command(dice))
            .collect()
    }

    fn next_command(&mut self, dice: &mut Dice) -> Command {
        // Some of what is put is never settled, so that it has to be moved.
        if !self.live.is_empty() && !dice.chance(3) {
            let chosen = dice.below(self.live.len() as u64) as usize;
            let (store, id) = self.live.swap_remove(chosen);
            return Command::Settle { store, id };
        }
        let store = StoreId(dice.below(self.stores));
        let id = self.next_id;
        self.next_id += 1;
        if !dice.chance(5) {
            self.live.push((store, id));
        }
        let len = if dice.chance(40) {
            12_000
        } else {
            dice.below(300)
        };
        Command::Put {
            store,
            id,
            body: Bytes::from(vec![id as u8; len as usize]),
        }
    }

    /// What did not survive the crash never happened.
    pub fn cut(&mut self, durable: u64, last_index: u64) {
        self.log.truncate(durable as usize);
        self.log.resize(last_index as usize, Vec::new());
        self.live = model(&self.log, durable)
            .keys()
            .map(|(store, id)| (StoreId(*store), *id))
            .collect();
    }
}
