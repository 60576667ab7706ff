//! Accepts sockets and gives each a task; ends them all on shutdown within bounded time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::Authenticator;
use broker::{Broker, TlsDetails};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use tls::{Accepted, CertificateName, TlsAcceptor};

use crate::connection::{ClientTls, Context, Endpoint, serve_connection};
use crate::options::LiveOptions;
use crate::socket;

/// Pause after an accept that failed for want of descriptors or memory; accepting again at once
/// would only burn the processor.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(200);

/// What a server over TLS needs.
#[derive(Clone)]
pub struct TlsDoor {
    /// Does the handshakes.
    pub acceptor: TlsAcceptor,
    /// Which name of a client's certificate the user's name is.
    pub login_from: CertificateName,
}

/// A listening AMQP 0-9-1 server.
pub struct AmqpServer {
    listener: std::net::TcpListener,
    host: Arc<Host>,
}

/// What all connections of a server share.
struct Host {
    broker: Broker,
    authenticator: Authenticator,
    options: LiveOptions,
    tls: Option<TlsDoor>,
}

impl Host {
    fn context(&self, tls: Option<ClientTls>) -> Arc<Context> {
        Arc::new(Context {
            broker: self.broker.clone(),
            authenticator: self.authenticator.clone(),
            options: self.options.now(),
            tls,
        })
    }
}

impl AmqpServer {
    /// Opens the listening socket; nothing is accepted before [`AmqpServer::serve`].
    /// Port 0 lets the system choose, see [`AmqpServer::local_addr`].
    ///
    /// # Errors
    /// What the system says about the address.
    pub fn bind(
        address: SocketAddr,
        broker: Broker,
        authenticator: Authenticator,
        options: impl Into<LiveOptions>,
    ) -> io::Result<Self> {
        let options = options.into();
        let listener = socket::listen(address, options.now().backlog)?;
        Ok(Self {
            listener,
            host: Arc::new(Host {
                broker,
                authenticator,
                options,
                tls: None,
            }),
        })
    }

    /// As [`AmqpServer::bind`], over TLS.
    ///
    /// # Errors
    /// What the system says about the address.
    pub fn bind_tls(
        address: SocketAddr,
        broker: Broker,
        authenticator: Authenticator,
        options: impl Into<LiveOptions>,
        door: TlsDoor,
    ) -> io::Result<Self> {
        let options = options.into();
        let listener = socket::listen(address, options.now().backlog)?;
        Ok(Self {
            listener,
            host: Arc::new(Host {
                broker,
                authenticator,
                options,
                tls: Some(door),
            }),
        })
    }

    /// The address that clients reach.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` is cancelled; then closes the listener, tells every connection
    /// (320) and returns when all have ended, at the latest after
    /// [`AmqpServerOptions::shutdown_grace`](crate::AmqpServerOptions::shutdown_grace).
    ///
    /// # Errors
    /// The listening socket could not be handed to the runtime.
    pub async fn serve(self, shutdown: CancellationToken) -> io::Result<()> {
        let listener = TcpListener::from_std(self.listener)?;
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        admit(&mut connections, &self.host, stream, peer, &shutdown);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accept failed");
                        if socket::is_shortage(&error) {
                            tokio::time::sleep(SHORTAGE_PAUSE).await;
                        }
                    }
                },
                Some(ended) = connections.join_next(), if !connections.is_empty() => report(ended),
            }
        }
        drop(listener);
        end_all(connections, self.host.options.now().shutdown_grace).await;
        Ok(())
    }
}

fn admit(
    connections: &mut JoinSet<()>,
    host: &Arc<Host>,
    stream: TcpStream,
    peer: SocketAddr,
    shutdown: &CancellationToken,
) {
    let connections_max = host.options.now().connections_max;
    if connections.len() >= connections_max {
        tracing::warn!(%peer, limit = connections_max, "connection table full");
        return;
    }
    let local = match socket::prepare(&stream).and_then(|()| stream.local_addr()) {
        Ok(local) => local,
        Err(error) => {
            tracing::debug!(%peer, %error, "socket failed before the handshake");
            return;
        }
    };
    let endpoint = Endpoint { peer, local };
    let (host, shutdown) = (Arc::clone(host), shutdown.clone());
    match host.tls.clone() {
        Some(door) => {
            connections.spawn(serve_encrypted(stream, door, endpoint, host, shutdown));
        }
        None => {
            let (reader, writer) = stream.into_split();
            let context = host.context(None);
            connections.spawn(serve_connection(
                reader, writer, endpoint, context, shutdown,
            ));
        }
    }
}

/// Does the TLS handshake, which has the time that a login has, then serves the connection.
async fn serve_encrypted(
    stream: TcpStream,
    door: TlsDoor,
    endpoint: Endpoint,
    host: Arc<Host>,
    shutdown: CancellationToken,
) {
    let patience = host.options.now().handshake_timeout;
    let accepted = tokio::select! {
        () = shutdown.cancelled() => return,
        accepted = tokio::time::timeout(patience, door.acceptor.accept(stream)) => accepted,
    };
    let accepted = match accepted {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(error)) => {
            tracing::info!(peer = %endpoint.peer, %error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            tracing::info!(peer = %endpoint.peer, "TLS handshake timed out");
            return;
        }
    };
    let context = host.context(Some(client_tls(&accepted, door.login_from)));
    let (reader, writer) = tokio::io::split(accepted.stream);
    serve_connection(reader, writer, endpoint, context, shutdown).await;
}

fn client_tls(accepted: &Accepted, login_from: CertificateName) -> ClientTls {
    let shown = accepted.certificate.as_ref();
    ClientTls {
        details: TlsDetails {
            protocol: accepted.protocol.clone(),
            cipher_suite: accepted.cipher_suite.clone(),
            subject: shown.map(|certificate| certificate.subject.clone()),
            issuer: shown.map(|certificate| certificate.issuer.clone()),
            validity: shown.map(|certificate| certificate.validity.clone()),
            serial_number: shown.map(|certificate| certificate.serial_number.clone()),
        },
        has_certificate: shown.is_some(),
        certificate_name: shown.and_then(|certificate| certificate.name(login_from)),
    }
}

async fn end_all(mut connections: JoinSet<()>, grace: Duration) {
    let all_ended = async {
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    };
    if tokio::time::timeout(grace, all_ended).await.is_err() {
        tracing::warn!("connections did not end in time and are dropped");
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        // A broken connection task takes nothing else with it.
        tracing::error!(%error, "connection task failed");
    }
}
