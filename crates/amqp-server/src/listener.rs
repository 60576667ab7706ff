//! Accepts sockets and gives each a task; ends them all on shutdown within bounded time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::Authenticator;
use broker::Broker;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::connection::{Context, Endpoint, serve_connection};
use crate::options::AmqpServerOptions;
use crate::socket;

/// Pause after an accept that failed for want of descriptors or memory; accepting again at once
/// would only burn the processor.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(200);

/// A listening AMQP 0-9-1 server.
pub struct AmqpServer {
    listener: std::net::TcpListener,
    context: Arc<Context>,
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
        options: AmqpServerOptions,
    ) -> io::Result<Self> {
        let context = Context::new(broker, authenticator, options);
        let listener = socket::listen(address, context.options.backlog)?;
        Ok(Self {
            listener,
            context: Arc::new(context),
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
    /// [`AmqpServerOptions::shutdown_grace`].
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
                        admit(&mut connections, &self.context, stream, peer, &shutdown);
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
        end_all(connections, self.context.options.shutdown_grace).await;
        Ok(())
    }
}

fn admit(
    connections: &mut JoinSet<()>,
    context: &Arc<Context>,
    stream: TcpStream,
    peer: SocketAddr,
    shutdown: &CancellationToken,
) {
    if connections.len() >= context.options.connections_max {
        tracing::warn!(%peer, limit = context.options.connections_max, "connection table full");
        return;
    }
    let local = match socket::prepare(&stream).and_then(|()| stream.local_addr()) {
        Ok(local) => local,
        Err(error) => {
            tracing::debug!(%peer, %error, "socket failed before the handshake");
            return;
        }
    };
    let (reader, writer) = stream.into_split();
    let endpoint = Endpoint { peer, local };
    let context = Arc::clone(context);
    connections.spawn(serve_connection(
        reader,
        writer,
        endpoint,
        context,
        shutdown.clone(),
    ));
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
