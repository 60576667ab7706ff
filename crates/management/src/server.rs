//! The HTTP listeners: bound, bounded and served until told to stop.

use std::io;
use std::net::SocketAddr;

use auth::Authenticator;
use axum::ServiceExt;
use axum::extract::Request;
use axum::middleware;
use broker::Broker;
use tls::TlsAcceptor;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::Layer;

use crate::bounded_listener::BoundedListener;
use crate::options::{ListenerInfo, ManagementOptions};
use crate::paths;
use crate::prometheus;
use crate::routes;
use crate::state::Api;

/// The HTTP side of a broker. Cheap to clone.
#[derive(Clone)]
pub struct Management {
    api: Api,
}

impl Management {
    /// Over a running broker; nothing is served yet.
    pub fn new(broker: Broker, authenticator: Authenticator, options: ManagementOptions) -> Self {
        Self {
            api: Api::new(broker, authenticator, options),
        }
    }

    /// Listens for the HTTP API. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The address is taken, not allowed or not there.
    pub fn bind_api(&self, address: SocketAddr) -> io::Result<HttpServer> {
        self.api.sample();
        self.bind(address, routes::api(self.api.clone()), None)
    }

    /// As [`Management::bind_api`], over TLS.
    ///
    /// # Errors
    /// The address is taken, not allowed or not there.
    pub fn bind_api_tls(&self, address: SocketAddr, tls: TlsAcceptor) -> io::Result<HttpServer> {
        self.api.sample();
        self.bind(address, routes::api(self.api.clone()), Some(tls))
    }

    /// Listens for scrapers of metrics and for health probes. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// The address is taken, not allowed or not there.
    pub fn bind_metrics(&self, address: SocketAddr) -> io::Result<HttpServer> {
        self.api.sample();
        self.bind(address, prometheus::paths(self.api.clone()), None)
    }

    fn bind(
        &self,
        address: SocketAddr,
        router: axum::Router,
        tls: Option<TlsAcceptor>,
    ) -> io::Result<HttpServer> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        Ok(HttpServer {
            listener,
            router,
            tls,
            connections_max: self.api.options().connections_max,
        })
    }

    /// Certificates that a health check is to look at.
    pub fn watch_certificates(&self, tls: TlsAcceptor) {
        self.api.watch_certificates(tls);
    }

    /// Tells which listeners are open, for overview and health checks; once, when all are.
    pub fn announce(&self, listeners: Vec<ListenerInfo>) {
        self.api.announce(listeners);
    }
}

/// A bound HTTP listener.
pub struct HttpServer {
    listener: TcpListener,
    router: axum::Router,
    tls: Option<TlsAcceptor>,
    connections_max: usize,
}

impl HttpServer {
    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is told to stop; requests under way are answered first.
    ///
    /// # Errors
    /// The listener broke.
    pub async fn serve(self, shutdown: CancellationToken) -> io::Result<()> {
        let listener = BoundedListener::new(self.listener, self.tls, self.connections_max);
        // Answers that last for ever end with the listener.
        let router = self.router.layer(axum::Extension(shutdown.clone()));
        let service = middleware::map_request(paths::normalise).layer(router);
        let make_service =
            ServiceExt::<Request>::into_make_service_with_connect_info::<Peer>(service);
        axum::serve(listener, make_service)
            .with_graceful_shutdown(async move { shutdown.cancelled().await })
            .await
    }
}

/// The client's address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl axum::extract::connect_info::Connected<axum::serve::IncomingStream<'_, BoundedListener>>
    for Peer
{
    fn connect_info(stream: axum::serve::IncomingStream<'_, BoundedListener>) -> Self {
        Peer(*stream.remote_addr())
    }
}
