//! Links that delay, lose, reorder and are cut, in one direction or both.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use cluster::{Links, NodeId, Transport};
use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::Instant;

/// Of a thousand frames, how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) lost_per_mille: u32,
    pub(crate) reordered_per_mille: u32,
    pub(crate) delay_ms_max: u64,
}

pub(crate) struct Network {
    state: Mutex<State>,
}

struct State {
    dice: StdRng,
    weather: Weather,
    /// Directions that carry nothing.
    cut: HashSet<(NodeId, NodeId)>,
    nodes: HashMap<NodeId, Weak<Links>>,
    /// When the last frame of a direction arrives, so that the next one is not earlier.
    busy: HashMap<(NodeId, NodeId), Instant>,
}

impl Network {
    pub(crate) fn new(dice: StdRng, weather: Weather) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                dice,
                weather,
                cut: HashSet::new(),
                nodes: HashMap::new(),
                busy: HashMap::new(),
            }),
        })
    }

    /// The node lives at these links from here on.
    pub(crate) fn join(self: &Arc<Self>, links: &Arc<Links>) {
        let node = links.node();
        self.state.lock().nodes.insert(node, Arc::downgrade(links));
        links.connect(Arc::new(End {
            network: Arc::clone(self),
            node,
        }));
    }

    /// The node is gone; what is under way to it is lost.
    pub(crate) fn leave(&self, node: NodeId) {
        let others: Vec<_> = {
            let mut state = self.state.lock();
            state.nodes.remove(&node);
            state.nodes.values().filter_map(Weak::upgrade).collect()
        };
        for other in others {
            other.went_down(node);
        }
    }

    pub(crate) fn cut(&self, from: NodeId, to: NodeId) {
        self.state.lock().cut.insert((from, to));
    }

    /// All links are whole and the weather is fine.
    pub(crate) fn heal(&self) {
        let mut state = self.state.lock();
        state.cut.clear();
        state.weather.lost_per_mille = 0;
    }

    fn send(self: &Arc<Self>, from: NodeId, to: NodeId, frame: Bytes) -> bool {
        let mut state = self.state.lock();
        if !state.nodes.contains_key(&to) {
            return false;
        }
        let Weather {
            lost_per_mille,
            reordered_per_mille,
            delay_ms_max,
        } = state.weather;
        let lost = state.dice.random_range(0..1000) < lost_per_mille;
        if lost || state.cut.contains(&(from, to)) {
            return true;
        }
        let delay = state.dice.random_range(0..=delay_ms_max);
        let mut at = Instant::now() + Duration::from_millis(delay);
        let busy = state.busy.get(&(from, to)).copied().unwrap_or(at);
        if state.dice.random_range(0..1000) >= reordered_per_mille {
            at = at.max(busy);
        }
        state.busy.insert((from, to), at.max(busy));
        drop(state);
        let network = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            let links = {
                let state = network.state.lock();
                let cut = state.cut.contains(&(from, to));
                let links = state.nodes.get(&to).filter(|_| !cut);
                links.and_then(Weak::upgrade)
            };
            if let Some(links) = links {
                links.receive(from, frame);
            }
        });
        true
    }
}

/// One node's end.
struct End {
    network: Arc<Network>,
    node: NodeId,
}

impl Transport for End {
    fn send(&self, to: NodeId, frame: Bytes) -> bool {
        self.network.send(self.node, to, frame)
    }

    fn is_up(&self, to: NodeId) -> bool {
        self.network.state.lock().nodes.contains_key(&to)
    }
}
