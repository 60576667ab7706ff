//! The calls of one group to its other members, over the links.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, RemoteError, ReplicationClosed, StreamingError,
    Unreachable as NotReachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, Snapshot};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use storage::StreamId;
use tokio::sync::mpsc;

use super::types::{Chunks, SnapshotMeta, TypeConfig, Vote};
use crate::group::NodeId;
use crate::links::{Kind, Links};

/// Chunks of a snapshot that are read ahead of the link.
const CHUNKS_AHEAD: usize = 4;
/// How long to wait when the link takes no more.
const LINK_FULL_PAUSE: Duration = Duration::from_millis(20);
/// How long a member may take to install what it was sent. A link may have lost the end of it.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// How soon a member that cannot be reached is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(200);

#[derive(Clone)]
pub(super) struct Network {
    pub(super) links: Arc<Links>,
    pub(super) stream: StreamId,
}

/// The way to one member.
pub(super) struct Member {
    links: Arc<Links>,
    stream: StreamId,
    to: NodeId,
}

/// A piece of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SnapshotPiece {
    Begin {
        vote: Vote,
        meta: SnapshotMeta,
    },
    /// Numbered from 0: a link may lose or swap frames, and half a state is none.
    Chunk {
        number: u64,
        bytes: Bytes,
    },
    End {
        chunks: u64,
    },
}

type CallError<E> = RPCError<u64, EmptyNode, RaftError<u64, E>>;

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Member;

    async fn new_client(&mut self, target: u64, _node: &EmptyNode) -> Member {
        Member {
            links: Arc::clone(&self.links),
            stream: self.stream,
            to: NodeId(target),
        }
    }
}

impl Member {
    async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        kind: Kind,
        question: &Q,
    ) -> Result<A, CallError<openraft::error::Infallible>> {
        let body = postcard::to_stdvec(question).map_err(|error| NetworkError::new(&error))?;
        let answer = self.links.call(self.to, kind, self.stream, &body).await;
        let answer = answer.map_err(|error| NotReachable::new(&error))?;
        let answer: Result<A, RaftError<u64>> =
            postcard::from_bytes(&answer).map_err(|error| NetworkError::new(&error))?;
        answer.map_err(|error| RPCError::RemoteError(RemoteError::new(self.to.0, error)))
    }

    async fn push(&self, number: u64, piece: &SnapshotPiece) -> Result<(), StreamError> {
        let body = postcard::to_stdvec(piece).map_err(|error| NetworkError::new(&error))?;
        while !self
            .links
            .send(self.to, Kind::Snapshot, self.stream, number, &body)
        {
            if !self.links.is_up(self.to) {
                return Err(NotReachable::new(&crate::links::Unreachable(self.to)).into());
            }
            tokio::time::sleep(LINK_FULL_PAUSE).await;
        }
        Ok(())
    }

    async fn stream(
        &self,
        vote: Vote,
        snapshot: Snapshot<TypeConfig>,
    ) -> Result<SnapshotResponse<u64>, StreamError> {
        let Snapshot { meta, snapshot } = snapshot;
        let Chunks::Live(source) = *snapshot else {
            return Err(NetworkError::new(&crate::links::Unreachable(self.to)).into());
        };
        let unreachable = |error: crate::links::Unreachable| NotReachable::new(&error);
        let (call, answer) = self.links.expect(self.to).map_err(unreachable)?;
        self.push(call.0, &SnapshotPiece::Begin { vote, meta })
            .await?;
        let (sender, mut chunks) = mpsc::channel(CHUNKS_AHEAD);
        let reading = tokio::task::spawn_blocking(move || {
            source.read(&mut |chunk| sender.blocking_send(chunk).is_ok())
        });
        let mut number = 0;
        while let Some(bytes) = chunks.recv().await {
            self.push(call.0, &SnapshotPiece::Chunk { number, bytes })
                .await?;
            number += 1;
        }
        let read = reading.await.map_err(|error| NetworkError::new(&error))?;
        read.map_err(|why| NetworkError::new(&std::io::Error::other(why)))?;
        self.push(call.0, &SnapshotPiece::End { chunks: number })
            .await?;
        let answer = tokio::time::timeout(ANSWER_TIME_MAX, answer)
            .await
            .map_err(|error| NetworkError::new(&error))?
            .map_err(|error| NetworkError::new(&error))?;
        let answer: Option<SnapshotResponse<u64>> =
            postcard::from_bytes(&answer).map_err(|error| NetworkError::new(&error))?;
        answer.ok_or_else(|| NotReachable::new(&crate::links::Unreachable(self.to)).into())
    }
}

type StreamError = StreamingError<TypeConfig, Fatal<u64>>;

impl RaftNetwork<TypeConfig> for Member {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, CallError<openraft::error::Infallible>> {
        self.call(Kind::Append, &request).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        _option: RPCOption,
    ) -> Result<VoteResponse<u64>, CallError<openraft::error::Infallible>> {
        self.call(Kind::Vote, &request).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<TypeConfig>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamError> {
        tokio::select! {
            closed = cancel => Err(closed.into()),
            sent = self.stream(vote, snapshot) => sent,
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(RETRY_AFTER))
    }
}
