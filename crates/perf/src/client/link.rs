//! A socket to a broker, plain or under TLS, as one type.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::ClientFault;
use crate::uri::Endpoint;

const CONNECT_SECONDS_MAX: u64 = 10;

/// Whom to believe under TLS, and who we are there.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    not(feature = "tls"),
    expect(dead_code, reason = "flags are understood by every build")
)]
pub(crate) struct TlsTrust {
    /// Certificates that may sign the broker's; the system's when absent.
    pub(crate) authorities: Option<PathBuf>,
    /// Believe any certificate.
    pub(crate) insecure: bool,
    /// Our certificate chain and key, for brokers that ask.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

pub(crate) enum Link {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

impl Link {
    pub(crate) async fn open(endpoint: &Endpoint, trust: &TlsTrust) -> Result<Self, ClientFault> {
        let unreachable = |source| ClientFault::Unreachable {
            endpoint: endpoint.to_string(),
            source,
        };
        let connect = TcpStream::connect((endpoint.host.as_str(), endpoint.port));
        let socket = tokio::time::timeout(Duration::from_secs(CONNECT_SECONDS_MAX), connect)
            .await
            .map_err(|_elapsed| unreachable(io::ErrorKind::TimedOut.into()))?
            .map_err(unreachable)?;
        // A publish must not wait for the acknowledgement of the one before it.
        socket.set_nodelay(true)?;
        if endpoint.tls {
            return Self::under_tls(socket, endpoint, trust).await;
        }
        Ok(Self::Plain(socket))
    }

    #[cfg(feature = "tls")]
    async fn under_tls(
        socket: TcpStream,
        endpoint: &Endpoint,
        trust: &TlsTrust,
    ) -> Result<Self, ClientFault> {
        let stream = super::tls::connect(socket, &endpoint.host, trust).await?;
        Ok(Self::Tls(Box::new(stream)))
    }

    #[cfg(not(feature = "tls"))]
    async fn under_tls(_: TcpStream, _: &Endpoint, _: &TlsTrust) -> Result<Self, ClientFault> {
        Err(ClientFault::Tls(
            "this build has no TLS; build it with the feature `tls`".to_owned(),
        ))
    }

    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(bytes);
        let polled = match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
        };
        polled.map_ok(|()| buffer.filled().len())
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }
}
