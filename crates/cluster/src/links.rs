//! Talking to the other nodes: frames for all groups, calls with answers, messages of the broker.
//!
//! Knows nodes, groups as stream numbers, and bytes. How frames travel is a [`Transport`]'s business:
//! TCP in the broker, a modelled network in the simulator.

mod frame;
mod handshake;
mod numbers;
mod tcp;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use storage::StreamId;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub(crate) use self::frame::{Frame, Kind};
pub use self::handshake::Secret;
pub use self::numbers::CallNumbers;
pub use self::tcp::{LinkError, TcpOptions, TcpTransport};
use crate::group::NodeId;

/// Calls to other nodes that have no answer yet. Each group has a few for each member.
const CALLS_MAX: usize = 100_000;

/// Carries frames. Frames to one node arrive in order or not at all, unless the transport says
/// otherwise; none arrives twice.
pub trait Transport: Send + Sync {
    /// Takes a frame; false when the node cannot be reached or too much waits for it.
    fn send(&self, to: NodeId, frame: Bytes) -> bool;
    /// Whether frames to the node have a chance at the moment.
    fn is_up(&self, to: NodeId) -> bool;
    /// The other nodes that there are.
    fn nodes(&self) -> Vec<NodeId> {
        Vec::new()
    }
    /// Bytes that wait for the node.
    fn waiting_bytes(&self, to: NodeId) -> usize {
        let _ = to;
        0
    }
}

/// What the broker hears from other nodes.
pub trait Service: Send + Sync {
    /// A message. The next one of this node waits until this returns.
    fn message(&self, from: NodeId, message: Bytes);
    /// The node can be reached.
    fn up(&self, node: NodeId);
    /// The link to the node broke: messages may be lost in both directions.
    fn down(&self, node: NodeId);
}

/// A replica group as the links see it.
pub(crate) trait Inbound: Send + Sync {
    fn receive(&self, from: NodeId, frame: Frame);
    fn down(&self, node: NodeId);
}

/// This node's end of all links.
pub struct Links {
    node: NodeId,
    transport: OnceLock<Arc<dyn Transport>>,
    groups: RwLock<HashMap<StreamId, Weak<dyn Inbound>>>,
    calls: Mutex<HashMap<u64, oneshot::Sender<Bytes>>>,
    service: OnceLock<Weak<dyn Service>>,
    numbers: CallNumbers,
    runtime: Handle,
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// The other node did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("node {} cannot be reached", .0.0)]
pub struct Unreachable(pub NodeId);

impl Links {
    /// Must be called within a tokio runtime, which carries out what arrives.
    pub fn new(node: NodeId) -> Arc<Self> {
        Arc::new(Self {
            node,
            transport: OnceLock::new(),
            groups: RwLock::default(),
            calls: Mutex::default(),
            service: OnceLock::new(),
            numbers: CallNumbers::default(),
            runtime: Handle::current(),
        })
    }

    /// Connects the transport, once.
    pub fn connect(&self, transport: Arc<dyn Transport>) {
        let connected = self.transport.set(transport);
        debug_assert!(connected.is_ok(), "links are connected once");
    }

    /// Who gets messages, once.
    pub fn serve(&self, service: Weak<dyn Service>) {
        let set = self.service.set(service);
        debug_assert!(set.is_ok(), "links serve one broker");
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    pub(crate) fn other_nodes(&self) -> Vec<NodeId> {
        let transport = self.transport.get();
        transport.map_or_else(Vec::new, |transport| transport.nodes())
    }

    /// Whether frames to the node have a chance at the moment.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.transport.get().is_some_and(|to| to.is_up(node))
    }

    /// Bytes that wait for the node.
    pub fn waiting_bytes(&self, node: NodeId) -> usize {
        let transport = self.transport.get();
        transport.map_or(0, |transport| transport.waiting_bytes(node))
    }

    /// Sends a message to the service of another node; false when it cannot leave.
    pub fn message(&self, to: NodeId, message: &[u8]) -> bool {
        self.send(to, Kind::Message, StreamId(0), 0, message)
    }

    /// A frame has arrived.
    pub fn receive(&self, from: NodeId, bytes: Bytes) {
        let frame = match Frame::parse(bytes) {
            Some(frame) => frame,
            None => {
                tracing::error!(node = from.0, "a frame from another node cannot be read");
                return;
            }
        };
        match frame.kind {
            Kind::Reply => {
                if let Some(call) = self.calls.lock().remove(&frame.number) {
                    // Whoever called may have given up.
                    let _ = call.send(frame.body);
                }
            }
            Kind::Message => {
                if let Some(service) = self.service.get().and_then(Weak::upgrade) {
                    service.message(from, frame.body);
                }
            }
            _ => {
                let group = self.groups.read().get(&frame.group).and_then(Weak::upgrade);
                if let Some(group) = group {
                    group.receive(from, frame);
                }
            }
        }
    }

    /// The link to a node is there.
    pub fn went_up(&self, node: NodeId) {
        if let Some(service) = self.service.get().and_then(Weak::upgrade) {
            service.up(node);
        }
    }

    /// The link to a node broke.
    pub fn went_down(&self, node: NodeId) {
        let groups: Vec<_> = self.groups.read().values().cloned().collect();
        for group in groups.iter().filter_map(Weak::upgrade) {
            group.down(node);
        }
        if let Some(service) = self.service.get().and_then(Weak::upgrade) {
            service.down(node);
        }
    }

    /// The other end has hung up on its way to this node: what it said last may be lost, and what
    /// this node keeps for it is void.
    pub(crate) fn incoming_ended(&self, node: NodeId) {
        self.went_down(node);
        if self.is_up(node) {
            self.went_up(node);
        }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn register(&self, group: StreamId, inbound: Weak<dyn Inbound>) {
        self.groups.write().insert(group, inbound);
    }

    pub(crate) fn send(
        &self,
        to: NodeId,
        kind: Kind,
        group: StreamId,
        number: u64,
        body: &[u8],
    ) -> bool {
        let Some(transport) = self.transport.get() else {
            return false;
        };
        transport.send(to, Frame::write(kind, group, number, body))
    }

    /// A number that no call of this node has or had.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.draw()
    }

    /// Sends a frame and waits for the reply, for ever: the caller sets the limit.
    pub(crate) async fn call(
        &self,
        to: NodeId,
        kind: Kind,
        group: StreamId,
        body: &[u8],
    ) -> Result<Bytes, Unreachable> {
        let (number, answer) = self.expect(to)?;
        if !self.send(to, kind, group, number.0, body) {
            return Err(Unreachable(to));
        }
        answer.await.map_err(|_| Unreachable(to))
    }

    /// A call whose frames the caller sends itself.
    pub(crate) fn expect(
        &self,
        to: NodeId,
    ) -> Result<(Call<'_>, oneshot::Receiver<Bytes>), Unreachable> {
        let number = self.number();
        let (reply, answer) = oneshot::channel();
        let mut calls = self.calls.lock();
        if calls.len() >= CALLS_MAX {
            return Err(Unreachable(to));
        }
        calls.insert(number, reply);
        Ok((Call(number, self), answer))
    }
}

/// The number of a call; it is forgotten when this is dropped.
pub(crate) struct Call<'a>(pub(crate) u64, &'a Links);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.1.calls.lock().remove(&self.0);
    }
}
