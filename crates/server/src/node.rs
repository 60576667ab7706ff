//! One run of a broker: opened, listening, ready, until it is told to stop; then drained.

use std::path::PathBuf;
use std::sync::Arc;

use amqp_server::AmqpServer;
use auth::{Authenticator, FirstUser};
use broker::Broker;
use management::Management;
use settings::{Loaded, Settings, Sources};

use crate::directory::MetadataDirectory;
use crate::failure::Failure;
use crate::logging::LogLevel;
use crate::reload::Reload;
use crate::serving::{Addresses, Serving};
use crate::signals::{Drained, Signals, Wish, drain};
use crate::{first_run, listen, wiring};

const AMQP: &str = "listeners.amqp";
const MANAGEMENT: &str = "listeners.management";
const METRICS: &str = "listeners.metrics";

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
    let Loaded {
        settings,
        files: config_files,
        ..
    } = loaded;
    let broker = tokio::select! {
        opened = open(&settings) => opened?,
        // Recovery may take long, and may be broken off: it changes nothing that is confirmed.
        () = signals.stop() => return Ok(()),
    };
    let mut serving = Serving::default();
    match begin(&settings, &broker, &config_files, first_user, &mut serving).await {
        Ok(addresses) => eprintln!("{addresses}"),
        Err(failure) => {
            stop(serving, &broker).await?;
            return Err(failure);
        }
    }
    let reload = Reload::new(sources, settings.clone(), level);
    let cause = until_stop(&mut serving, &broker, reload, &mut signals).await;
    tracing::info!("stopping");
    let patience = settings.shutdown.drain_timeout.as_duration();
    let ended = match drain(stop(serving, &broker), signals.stop(), patience).await {
        Drained::Wholly(ended) => ended,
        Drained::OutOfTime => Err(Failure::OutOfTime),
        Drained::Impatient => Err(Failure::Impatient),
    };
    tracing::info!("stopped");
    // What made it stop is worth more than what went wrong while it did.
    cause.map_or(ended, Err)
}

async fn open(settings: &Settings) -> Result<Broker, Failure> {
    let options = wiring::broker_options(settings);
    let data_dir = options.data_dir.clone();
    let opened = Broker::open(options).await;
    opened.map_err(|why| Failure::Open { data_dir, why })
}

/// Prepares the broker for its first client and opens the listeners.
async fn begin(
    settings: &Settings,
    broker: &Broker,
    config_files: &[PathBuf],
    first_user: &FirstUser,
    serving: &mut Serving,
) -> Result<Addresses, Failure> {
    let quorum = wiring::quorum_defaults(settings);
    first_run::settle_defaults(broker, quorum)
        .await
        .map_err(Failure::Prepare)?;
    first_run::populate(broker, first_user)
        .await
        .map_err(Failure::Prepare)?;

    let directory = Arc::new(MetadataDirectory(broker.clone()));
    let authenticator = Authenticator::new(wiring::auth_policy(settings), directory);
    let mut addresses = Addresses::default();

    let options = wiring::amqp_options(settings);
    let bound = listen::bind(AMQP, settings.listeners.amqp, |address| {
        AmqpServer::bind(
            address,
            broker.clone(),
            authenticator.clone(),
            options.clone(),
        )
    })?;
    if let Some(server) = bound {
        addresses.amqp = server.local_addr().ok();
        serving.add(AMQP, |shutdown| server.serve(shutdown));
    }

    let management = Management::new(
        broker.clone(),
        authenticator,
        wiring::management_options(settings, config_files),
    );
    let bound = listen::bind(MANAGEMENT, settings.listeners.management, |address| {
        management.bind_api(address)
    })?;
    if let Some(server) = bound {
        addresses.management = server.local_addr().ok();
        serving.add(MANAGEMENT, |shutdown| server.serve(shutdown));
    }
    let bound = listen::bind(METRICS, settings.listeners.metrics, |address| {
        management.bind_metrics(address)
    })?;
    if let Some(server) = bound {
        addresses.metrics = server.local_addr().ok();
        serving.add(METRICS, |shutdown| server.serve(shutdown));
    }
    management.announce(wiring::listener_infos(&addresses));
    Ok(addresses)
}

/// Serves until something ends it; says what, unless it was the operator.
async fn until_stop(
    serving: &mut Serving,
    broker: &Broker,
    mut reload: Reload<'_>,
    signals: &mut Signals,
) -> Option<Failure> {
    loop {
        tokio::select! {
            wish = signals.next() => match wish {
                Wish::Reload => reload.again(),
                Wish::Stop => return None,
            },
            why = broker.failed() => return Some(Failure::Storage(why)),
            ended = serving.ended() => return Some(ended),
        }
    }
}

/// Ends in order: listeners and their connections (each is told 320), then the storage.
async fn stop(serving: Serving, broker: &Broker) -> Result<(), Failure> {
    serving.stop().await;
    broker.shutdown().await.map_err(Failure::Close)
}

fn tell_settings(loaded: &Loaded) {
    let data_dir = loaded.settings.node.data_dir.display();
    let node = wiring::node_name(&loaded.settings);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), node, %data_dir, "starting");
    for file in &loaded.files {
        tracing::info!(file = %file.display(), "configuration read");
    }
    for settings::Changed { key, value, origin } in &loaded.changed {
        tracing::info!(key, value, %origin, "setting differs from its default");
        if wiring::asks_in_vain(key) {
            tracing::warn!(key, "this version does not act on the setting yet");
        }
    }
}
