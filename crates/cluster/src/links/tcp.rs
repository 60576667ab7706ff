//! Frames over TCP: one connection for each pair of nodes and direction, written by the one that
//! dialled. What waits goes out in one write.
//!
//! ```text
//! on the wire = (length u32 · frame)*
//! ```

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{self, Instant};

use super::handshake::{self, Secret, VERSIONS};
use super::{Links, Transport};
use crate::group::NodeId;

/// Bytes that wait for one node. Full when it reads nothing for a while: then frames are dropped,
/// which replication makes up for.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Longest frame: a batch at its largest, and then some.
const FRAME_BYTES_MAX: usize = 256 << 20;
const READ_BYTES: usize = 256 << 10;
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);
const REDIAL_AFTER_MIN: Duration = Duration::from_millis(50);
const REDIAL_AFTER_MAX: Duration = Duration::from_secs(1);
/// How often an idle link says that it lives, and how long silence may last.
const BEAT_EVERY: Duration = Duration::from_millis(500);
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Why a link does not come about.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The network.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Something else than a node answers.
    #[error("the other end is not a node of this kind")]
    NotANode,
    /// The nodes' secrets differ.
    #[error("the cluster secret differs: cluster.secret must be the same on every node")]
    Secret,
    /// Two nodes share an address, or a number.
    #[error("node {} was expected there, node {} answers", expected.0, found.0)]
    WrongNode {
        /// Who should be there.
        expected: NodeId,
        /// Who is.
        found: NodeId,
    },
    /// The programs are too far apart.
    #[error("the other node speaks versions {min} to {max} of the cluster protocol")]
    Version {
        /// Its oldest.
        min: u16,
        /// Its newest.
        max: u16,
    },
    /// The handshake took too long.
    #[error("the other node does not answer")]
    TimedOut,
}

/// Where the other nodes are and how to be one of them.
#[derive(Debug, Clone)]
pub struct TcpOptions {
    /// The other nodes, by address (`host:port`).
    pub peers: Vec<(NodeId, String)>,
    /// The cluster's secret.
    pub secret: Secret,
}

/// The links of a node.
pub struct TcpTransport {
    peers: HashMap<NodeId, Arc<Peer>>,
}

/// The way out to one node.
struct Peer {
    node: NodeId,
    address: String,
    waiting: Mutex<Waiting>,
    arrived: Notify,
    up: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    frames: Vec<Bytes>,
    bytes: usize,
}

impl fmt::Debug for TcpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpTransport")
            .field("peers", &self.peers.len())
            .finish()
    }
}

impl TcpTransport {
    /// Serves the listener and keeps a link to every other node, as long as `links` lives.
    pub fn start(links: &Arc<Links>, listener: TcpListener, options: TcpOptions) -> Arc<Self> {
        let TcpOptions { peers, secret } = options;
        let peers: HashMap<NodeId, Arc<Peer>> = peers
            .into_iter()
            .filter(|(node, _)| *node != links.node())
            .map(|(node, address)| (node, Arc::new(Peer::new(node, address))))
            .collect();
        for peer in peers.values() {
            tokio::spawn(keep_link(
                Arc::downgrade(links),
                Arc::clone(peer),
                secret.clone(),
            ));
        }
        tokio::spawn(listen(Arc::downgrade(links), listener, secret));
        let transport = Arc::new(Self { peers });
        links.connect(Arc::clone(&transport) as Arc<dyn Transport>);
        transport
    }
}

impl Transport for TcpTransport {
    fn send(&self, to: NodeId, frame: Bytes) -> bool {
        self.peers.get(&to).is_some_and(|peer| peer.push(frame))
    }

    fn is_up(&self, to: NodeId) -> bool {
        self.peers
            .get(&to)
            .is_some_and(|peer| peer.up.load(Ordering::Acquire))
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.peers.keys().copied().collect()
    }

    fn waiting_bytes(&self, to: NodeId) -> usize {
        self.peers
            .get(&to)
            .map_or(0, |peer| peer.waiting.lock().bytes)
    }
}

impl Peer {
    fn new(node: NodeId, address: String) -> Self {
        Self {
            node,
            address,
            waiting: Mutex::default(),
            arrived: Notify::new(),
            up: AtomicBool::new(false),
        }
    }

    fn push(&self, frame: Bytes) -> bool {
        let mut waiting = self.waiting.lock();
        // Under the lock, so that nothing is left behind from before a link broke.
        if !self.up.load(Ordering::Acquire) || waiting.bytes > WAITING_BYTES_MAX {
            return false;
        }
        waiting.bytes += frame.len();
        waiting.frames.push(frame);
        drop(waiting);
        self.arrived.notify_one();
        true
    }

    fn set_up(&self, up: bool) {
        let mut waiting = self.waiting.lock();
        *waiting = Waiting::default();
        self.up.store(up, Ordering::Release);
    }

    /// Takes all that waits, as one piece for the wire.
    fn take(&self, out: &mut BytesMut) {
        let mut waiting = self.waiting.lock();
        let frames = mem::take(&mut waiting.frames);
        waiting.bytes = 0;
        drop(waiting);
        for frame in frames {
            out.extend_from_slice(&(frame.len() as u32).to_le_bytes());
            out.extend_from_slice(&frame);
        }
    }
}

async fn keep_link(links: Weak<Links>, peer: Arc<Peer>, secret: Secret) {
    let mut pause = REDIAL_AFTER_MIN;
    let mut told = String::new();
    loop {
        let Some(me) = links.upgrade().map(|links| links.node()) else {
            return;
        };
        match dial(&peer, me, &secret).await {
            Ok(stream) => {
                told.clear();
                pause = REDIAL_AFTER_MIN;
                tracing::info!(node = peer.node.0, address = peer.address, "link is up");
                write_link(&links, &peer, stream).await;
                tracing::warn!(node = peer.node.0, address = peer.address, "link is down");
            }
            Err(error) => {
                let why = error.to_string();
                if why != told {
                    tracing::warn!(node = peer.node.0, address = peer.address, why, "no link");
                    told = why;
                }
            }
        }
        time::sleep(pause).await;
        pause = (pause * 2).min(REDIAL_AFTER_MAX);
    }
}

async fn dial(peer: &Peer, me: NodeId, secret: &Secret) -> Result<TcpStream, LinkError> {
    let dialing = async {
        let mut stream = TcpStream::connect(&peer.address).await?;
        stream.set_nodelay(true)?;
        let version = handshake::dial(&mut stream, me, peer.node, secret, VERSIONS).await?;
        tracing::debug!(
            node = peer.node.0,
            version,
            "a version of the frames is agreed on"
        );
        Ok(stream)
    };
    let dialed = time::timeout(HANDSHAKE_TIME_MAX, dialing).await;
    dialed.unwrap_or(Err(LinkError::TimedOut))
}

/// Writes frames until the link breaks. The other end answers each beat: silence is a broken link.
async fn write_link(links: &Weak<Links>, peer: &Arc<Peer>, stream: TcpStream) {
    peer.set_up(true);
    if let Some(links) = links.upgrade() {
        links.went_up(peer.node);
    }
    let (mut read, mut write) = stream.into_split();
    let echo = async {
        let mut beat = [0; 1];
        loop {
            match time::timeout(SILENCE_MAX, read.read(&mut beat)).await {
                Ok(Ok(count)) if count > 0 => {}
                _ => return,
            }
        }
    };
    let writing = async {
        let mut out = BytesMut::new();
        loop {
            let arrived = peer.arrived.notified();
            peer.take(&mut out);
            if out.is_empty() {
                if time::timeout(BEAT_EVERY, arrived).await.is_ok() {
                    continue;
                }
                // A frame of no bytes is a beat.
                out.extend_from_slice(&0u32.to_le_bytes());
            }
            if write.write_all(&out).await.is_err() || links.strong_count() == 0 {
                return;
            }
            out.clear();
        }
    };
    tokio::select! {
        () = echo => {}
        () = writing => {}
    }
    peer.set_up(false);
    if let Some(links) = links.upgrade() {
        links.went_down(peer.node);
    }
}

async fn listen(links: Weak<Links>, listener: TcpListener, secret: Secret) {
    loop {
        if links.strong_count() == 0 {
            return;
        }
        match time::timeout(Duration::from_secs(1), listener.accept()).await {
            Ok(Ok((stream, address))) => {
                let (links, secret) = (links.clone(), secret.clone());
                tokio::spawn(async move {
                    if let Err(error) = serve(links, stream, &secret).await {
                        tracing::warn!(%address, %error, "a link from another node ended");
                    }
                });
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "no link can be accepted");
                time::sleep(REDIAL_AFTER_MIN).await;
            }
            Err(_) => {}
        }
    }
}

/// Reads the frames of one node until it hangs up.
async fn serve(
    links: Weak<Links>,
    mut stream: TcpStream,
    secret: &Secret,
) -> Result<(), LinkError> {
    let Some(me) = links.upgrade().map(|links| links.node()) else {
        return Ok(());
    };
    stream.set_nodelay(true)?;
    let accepting = handshake::accept(&mut stream, me, secret, VERSIONS);
    let from = time::timeout(HANDSHAKE_TIME_MAX, accepting)
        .await
        .unwrap_or(Err(LinkError::TimedOut))?;
    let _incoming = Incoming {
        links: links.clone(),
        from,
    };
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    let mut echoed = Instant::now();
    loop {
        buffer.reserve(READ_BYTES);
        let read = time::timeout(SILENCE_MAX, stream.read_buf(&mut buffer))
            .await
            .map_err(|_| LinkError::TimedOut)??;
        if read == 0 {
            return Ok(());
        }
        let Some(links) = links.upgrade() else {
            return Ok(());
        };
        while let Some(frame) = next_frame(&mut buffer)? {
            if !frame.is_empty() {
                links.receive(from, frame);
            }
        }
        // Whatever arrives shows life; a busy link sends no beats.
        if echoed.elapsed() >= BEAT_EVERY / 2 {
            stream.write_all(&[1]).await?;
            echoed = Instant::now();
        }
    }
}

/// A link that another node has opened; tells when it ends.
struct Incoming {
    links: Weak<Links>,
    from: NodeId,
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(links) = self.links.upgrade() {
            links.incoming_ended(self.from);
        }
    }
}

fn next_frame(buffer: &mut BytesMut) -> Result<Option<Bytes>, LinkError> {
    let Some(len) = buffer.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = u32::from_le_bytes(*len) as usize;
    if len > FRAME_BYTES_MAX {
        return Err(LinkError::NotANode);
    }
    if buffer.len() < 4 + len {
        return Ok(None);
    }
    buffer.advance(4);
    Ok(Some(buffer.split_to(len).freeze()))
}
