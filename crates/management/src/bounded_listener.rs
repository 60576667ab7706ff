//! A listener whose connections are bounded in number, and each in the time it may be silent.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tls::{ListenerStream, TlsAcceptor};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// Silence after which a connection gives its place to others. Longer than any request takes.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// Longest time of a TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Accepts no more than so many connections at a time; others wait in the system's backlog.
pub(crate) struct BoundedListener {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    permits: Arc<Semaphore>,
}

impl BoundedListener {
    pub(crate) fn new(
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        connections_max: usize,
    ) -> Self {
        Self {
            listener,
            tls,
            permits: Arc::new(Semaphore::new(connections_max)),
        }
    }
}

impl Listener for BoundedListener {
    type Io = BoundedStream<ListenerStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        // Answers are small and written whole.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "an HTTP connection is served without TCP_NODELAY");
        }
        let stream = match &self.tls {
            Some(acceptor) => acceptor.accept_lazily(stream, HANDSHAKE_MAX),
            None => ListenerStream::plain(stream),
        };
        (BoundedStream::new(stream, permit), peer)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that gives its place back when it ends, or when it was silent for too long.
pub(crate) struct BoundedStream<S> {
    stream: S,
    silence: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl<S> BoundedStream<S> {
    fn new(stream: S, permit: OwnedSemaphorePermit) -> Self {
        let silence = Box::pin(tokio::time::sleep(SILENCE_MAX));
        Self {
            stream,
            silence,
            _permit: permit,
        }
    }

    fn heard(&mut self) {
        self.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(read) => {
                self.heard();
                Poll::Ready(read)
            }
            Poll::Pending if self.silence.as_mut().poll(context).is_ready() => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.heard();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.heard();
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use tokio::net::TcpStream;

    use super::*;

    async fn stream() -> (
        BoundedStream<tokio::io::DuplexStream>,
        tokio::io::DuplexStream,
    ) {
        let (near, far) = tokio::io::duplex(64);
        let permits = Arc::new(Semaphore::new(1));
        let permit = permits.acquire_owned().await.expect("a permit");
        (BoundedStream::new(near, permit), far)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_silent_for_too_long_ends() {
        let (mut near, _far) = stream().await;
        let error = near.read_u8().await.expect_err("the end");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn every_octet_gives_more_time() {
        let (mut near, mut far) = stream().await;
        let begun = Instant::now();
        for _ in 0..3 {
            tokio::time::advance(SILENCE_MAX - Duration::from_secs(1)).await;
            far.write_u8(7).await.expect("room");
            assert_eq!(near.read_u8().await.expect("an octet"), 7);
        }
        assert!(begun.elapsed() > SILENCE_MAX);
    }

    #[tokio::test]
    async fn no_more_connections_are_accepted_than_there_are_places() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut bounded = BoundedListener::new(listener, None, 1);
        let _one = TcpStream::connect(address).await.expect("a connection");
        let _other = TcpStream::connect(address).await.expect("a connection");
        let (first, _) = bounded.accept().await;
        assert_eq!(bounded.permits.available_permits(), 0);
        drop(first);
        assert_eq!(bounded.permits.available_permits(), 1);
        bounded.accept().await;
    }
}
