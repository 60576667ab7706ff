//! One run of a broker: opened, listening, ready, until it is told to stop; then drained.

use std::net::SocketAddr;
use std::sync::Arc;

use amqp_server::AmqpServer;
use auth::{Authenticator, FirstUser};
use broker::Broker;
use settings::{Loaded, Settings, Sources};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::directory::MetadataDirectory;
use crate::failure::Failure;
use crate::logging::LogLevel;
use crate::reload::Reload;
use crate::signals::{Drained, Signals, Wish, drain};
use crate::{first_run, listen, wiring};

const AMQP: &str = "listeners.amqp";

/// Runs a broker until a signal, or a failure that it cannot live with, ends it.
pub(crate) async fn run(
    sources: &Sources,
    loaded: Loaded,
    first_user: &FirstUser,
    level: LogLevel,
) -> Result<(), Failure> {
    // Before anything is opened, so that no signal falls into a gap.
    let mut signals = Signals::catch().map_err(Failure::Signals)?;
    tell_settings(&loaded);
    let settings = loaded.settings;
    let broker = tokio::select! {
        opened = open(&settings) => opened?,
        // Recovery may take long, and may be broken off: it changes nothing that is confirmed.
        () = signals.stop() => return Ok(()),
    };
    let running = match listen(&settings, &broker, first_user).await {
        Ok(running) => running,
        Err(failure) => {
            close(&broker).await?;
            return Err(failure);
        }
    };
    eprintln!("{}", ready_line(running.amqp_address));

    let reload = Reload::new(sources, settings.clone(), level);
    let (running, cause) = until_stop(running, &broker, reload, &mut signals).await;
    tracing::info!("stopping");
    let work = stop(running, &broker);
    let patience = settings.shutdown.drain_timeout.as_duration();
    let ended = match drain(work, signals.stop(), patience).await {
        Drained::Wholly(ended) => ended,
        Drained::OutOfTime => Err(Failure::OutOfTime),
        Drained::Impatient => Err(Failure::Impatient),
    };
    tracing::info!("stopped");
    // What made it stop is worth more than what went wrong while it did.
    cause.map_or(ended, Err)
}

/// What serves.
struct Running {
    amqp_address: Option<SocketAddr>,
    amqp: Option<JoinHandle<std::io::Result<()>>>,
    shutdown: CancellationToken,
}

async fn open(settings: &Settings) -> Result<Broker, Failure> {
    let options = wiring::broker_options(settings);
    let data_dir = options.data_dir.clone();
    Broker::open(options)
        .await
        .map_err(|why| Failure::Open { data_dir, why })
}

async fn listen(
    settings: &Settings,
    broker: &Broker,
    first_user: &FirstUser,
) -> Result<Running, Failure> {
    let quorum = wiring::quorum_defaults(settings);
    first_run::settle_defaults(broker, quorum)
        .await
        .map_err(Failure::Prepare)?;
    first_run::populate(broker, first_user)
        .await
        .map_err(Failure::Prepare)?;
    let directory = Arc::new(MetadataDirectory(broker.clone()));
    let authenticator = Authenticator::new(wiring::auth_policy(settings), directory);
    let options = wiring::amqp_options(settings);
    let server = listen::bind(AMQP, settings.listeners.amqp, |address| {
        AmqpServer::bind(
            address,
            broker.clone(),
            authenticator.clone(),
            options.clone(),
        )
    })?;
    let amqp_address = server.as_ref().and_then(|server| server.local_addr().ok());
    let shutdown = CancellationToken::new();
    let amqp = server.map(|server| tokio::spawn(server.serve(shutdown.clone())));
    Ok(Running {
        amqp_address,
        amqp,
        shutdown,
    })
}

/// The line that scripts wait for.
fn ready_line(amqp: Option<SocketAddr>) -> String {
    let amqp = amqp.map_or("off".to_owned(), |address| address.to_string());
    format!("ready amqp={amqp} management=off metrics=off")
}

/// Serves until something ends it; says what, unless it was the operator.
async fn until_stop(
    mut running: Running,
    broker: &Broker,
    mut reload: Reload<'_>,
    signals: &mut Signals,
) -> (Running, Option<Failure>) {
    loop {
        tokio::select! {
            wish = signals.next() => match wish {
                Wish::Reload => reload.again(),
                Wish::Stop => return (running, None),
            },
            why = broker.failed() => return (running, Some(Failure::Storage(why))),
            why = end_of(&mut running.amqp) => {
                running.amqp = None;
                return (running, Some(Failure::Served { key: AMQP, why }));
            }
        }
    }
}

/// Waits for a listener that ends by itself; for ever if there is none.
async fn end_of(serving: &mut Option<JoinHandle<std::io::Result<()>>>) -> String {
    let Some(serving) = serving else {
        return std::future::pending().await;
    };
    match serving.await {
        Ok(Ok(())) => "it returned".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    }
}

/// Ends in order: listeners first, then connections (each is told 320), then the storage.
async fn stop(running: Running, broker: &Broker) -> Result<(), Failure> {
    running.shutdown.cancel();
    if let Some(amqp) = running.amqp
        && let Ok(Err(error)) | Err(error) = amqp.await.map_err(std::io::Error::other)
    {
        tracing::warn!(%error, "the AMQP listener did not end well");
    }
    close(broker).await
}

async fn close(broker: &Broker) -> Result<(), Failure> {
    broker.shutdown().await.map_err(Failure::Close)
}

fn tell_settings(loaded: &Loaded) {
    let data_dir = loaded.settings.node.data_dir.display();
    let node = wiring::node_name(&loaded.settings);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), node, %data_dir, "starting");
    for file in &loaded.files {
        tracing::info!(file = %file.display(), "configuration read");
    }
    for changed in &loaded.changed {
        let settings::Changed { key, value, origin } = changed;
        tracing::info!(key, value, %origin, "setting differs from its default");
        if wiring::asks_in_vain(&loaded.settings, key) {
            tracing::warn!(key, "this version does not act on the setting yet");
        }
    }
}
