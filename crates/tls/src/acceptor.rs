//! Accepts TLS with a configuration that can be replaced while it runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

use crate::certificate::PeerCertificate;
use crate::load::{TlsError, TlsOptions};
use crate::stream::ListenerStream;

/// Accepts clients. Clones share one configuration.
#[derive(Clone)]
pub struct TlsAcceptor {
    config: Arc<ArcSwap<ServerConfig>>,
    /// When the first of our certificates runs out, in seconds since the epoch; 0 if none says so.
    expires_at_s: Arc<AtomicU64>,
}

/// A client after its handshake.
pub struct Accepted {
    /// The stream.
    pub stream: TlsStream<TcpStream>,
    /// `TLSv1.3`, `TLSv1.2`.
    pub protocol: String,
    /// The cipher suite's name.
    pub cipher_suite: String,
    /// The client's certificate, if it showed one. It was checked.
    pub certificate: Option<PeerCertificate>,
}

impl TlsAcceptor {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] for the first file or choice that cannot be used.
    pub fn load(options: &TlsOptions) -> Result<Self, TlsError> {
        let acceptor = Self {
            config: Arc::new(ArcSwap::new(options.load()?)),
            expires_at_s: Arc::default(),
        };
        acceptor.note_expiry(options)?;
        Ok(acceptor)
    }

    /// Reads the files again; connections that come now go by them. With an error all stays.
    ///
    /// # Errors
    /// As [`TlsAcceptor::load`].
    pub fn reload(&self, options: &TlsOptions) -> Result<(), TlsError> {
        let config = options.load()?;
        self.note_expiry(options)?;
        self.config.store(config);
        Ok(())
    }

    fn note_expiry(&self, options: &TlsOptions) -> Result<(), TlsError> {
        let expires_at_s = options.expires_at_s()?.unwrap_or(0);
        self.expires_at_s.store(expires_at_s, Ordering::Relaxed);
        Ok(())
    }

    /// When the first of our certificates runs out, in seconds since the epoch.
    pub fn expires_at_s(&self) -> Option<u64> {
        Some(self.expires_at_s.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Does the handshake with a client.
    ///
    /// # Errors
    /// The client does not speak TLS, shows a certificate that is not good, or left.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<Accepted> {
        let acceptor = tokio_rustls::TlsAcceptor::from(self.config.load_full());
        let stream = acceptor.accept(stream).await?;
        let (_, session) = stream.get_ref();
        let protocol = session
            .protocol_version()
            .and_then(|version| version.as_str())
            .unwrap_or("TLS");
        let cipher_suite = session.negotiated_cipher_suite();
        let shown = session.peer_certificates().and_then(<[_]>::first);
        Ok(Accepted {
            protocol: protocol.replacen("TLSv1_", "TLSv1.", 1),
            cipher_suite: cipher_suite
                .map(|suite| format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1))
                .unwrap_or_default(),
            certificate: shown.and_then(|der| PeerCertificate::from_der(der)),
            stream,
        })
    }

    /// A stream whose handshake is done when it is first read or written, so that a slow client
    /// keeps nobody else waiting.
    pub fn accept_lazily(&self, stream: TcpStream, patience: Duration) -> ListenerStream {
        let acceptor = tokio_rustls::TlsAcceptor::from(self.config.load_full());
        ListenerStream::handshaking(acceptor.accept(stream), patience)
    }
}
