//! A stream of a listener that serves TLS, or does not.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::Accept;
use tokio_rustls::server::TlsStream;

/// An accepted socket, as its protocol reads it.
pub struct ListenerStream(State);

enum State {
    Plain(TcpStream),
    Handshaking {
        accept: Box<Accept<TcpStream>>,
        end: Pin<Box<Sleep>>,
    },
    Tls(Box<TlsStream<TcpStream>>),
    Failed,
}

impl ListenerStream {
    /// Without TLS.
    pub fn plain(stream: TcpStream) -> Self {
        Self(State::Plain(stream))
    }

    pub(crate) fn handshaking(accept: Accept<TcpStream>, patience: Duration) -> Self {
        Self(State::Handshaking {
            accept: Box::new(accept),
            end: Box::pin(tokio::time::sleep(patience)),
        })
    }

    /// Goes on with the handshake, if there is one to be done.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let State::Handshaking { accept, end } = &mut self.0 else {
            return Poll::Ready(Ok(()));
        };
        let done = match Pin::new(accept).poll(context) {
            Poll::Ready(done) => done,
            Poll::Pending => {
                ready!(end.as_mut().poll(context));
                Err(io::ErrorKind::TimedOut.into())
            }
        };
        match done {
            Ok(stream) => {
                self.0 = State::Tls(Box::new(stream));
                Poll::Ready(Ok(()))
            }
            Err(error) => {
                self.0 = State::Failed;
                Poll::Ready(Err(error))
            }
        }
    }
}

impl AsyncRead for ListenerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_ready(context))?;
        match &mut self.0 {
            State::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            State::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
            State::Handshaking { .. } | State::Failed => not_connected(),
        }
    }
}

impl AsyncWrite for ListenerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(context))?;
        match &mut self.0 {
            State::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            State::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, bytes),
            State::Handshaking { .. } | State::Failed => not_connected(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_ready(context))?;
        match &mut self.0 {
            State::Plain(stream) => Pin::new(stream).poll_flush(context),
            State::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
            State::Handshaking { .. } | State::Failed => not_connected(),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            State::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            State::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            // Nothing was said yet that could be ended in order.
            State::Handshaking { .. } | State::Failed => Poll::Ready(Ok(())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(context))?;
        match &mut self.0 {
            State::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            State::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(context, slices),
            State::Handshaking { .. } | State::Failed => not_connected(),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

fn not_connected<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}
