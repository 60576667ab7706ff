//! One run of a broker: opened, listening, ready, until it is told to stop; then drained.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use amqp_server::{AmqpServer, LiveOptions, TlsDoor};
use auth::{Authenticator, FirstUser};
use broker::Broker;
use management::{HttpServer, Management, ReloadDoor};
use settings::{Loaded, Settings, Sources, Understood};
use tls::TlsAcceptor;
use tokio::time::MissedTickBehavior;

use crate::directory::MetadataDirectory;
use crate::failure::Failure;
use crate::logging::LogLevel;
use crate::reload::{Parts, Reload};
use crate::serving::{Addresses, Serving};
use crate::signals::{Drained, Signals, Wish, drain};
use crate::{boot_definitions, first_run, listen, notify, wiring};

const AMQP: &str = "listeners.amqp";
const AMQPS: &str = "listeners.amqps";
const MANAGEMENT: &str = "listeners.management";
const MANAGEMENT_TLS: &str = "listeners.management_tls";
const CLUSTER: &str = "listeners.cluster";
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
    let settings = &loaded.settings;
    let broker = tokio::select! {
        opened = open(settings) => opened?,
        // Recovery may take long, and may be broken off: it changes nothing that is confirmed.
        () = signals.stop() => return Ok(()),
    };
    let mut serving = Serving::default();
    let (door, requests) = management::reload_door();
    let begun = begin(&loaded, &broker, first_user, door, level).await;
    let started = match begun {
        Ok((begun, parts)) => {
            let mut reload = Reload::new(sources, &loaded, parts, requests);
            reload.begin().await.map(|()| (begun, reload))
        }
        Err(failure) => Err(failure),
    };
    let (begun, mut reload) = match started {
        Ok(started) => started,
        Err(failure) => {
            stop(serving, &broker).await?;
            return Err(failure);
        }
    };
    let addresses = begun.serve(&mut serving);
    eprintln!("{addresses}");
    notify::ready();
    let cause = until_stop(&mut serving, &broker, &mut reload, &mut signals).await;
    tracing::info!("stopping");
    notify::stopping();
    let patience = reload.settings().shutdown.drain_timeout.as_duration();
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
    let mut options = wiring::broker_options(settings);
    options.cluster = cluster(settings)?;
    if options.cluster.is_some() {
        // The entries of a replicated log stay in memory until their file is flushed.
        options.storage.journal_bytes_kept = 0;
    }
    let data_dir = options.data_dir.clone();
    let opened = Broker::open(options).await;
    opened.map_err(|why| Failure::Open { data_dir, why })
}

/// Bound listeners that serve nobody yet.
struct Begun {
    addresses: Addresses,
    amqp: Vec<(&'static str, AmqpServer)>,
    http: Vec<(&'static str, HttpServer)>,
}

impl Begun {
    /// Lets clients in.
    fn serve(self, serving: &mut Serving) -> Addresses {
        for (key, server) in self.amqp {
            serving.add(key, |shutdown| server.serve(shutdown));
        }
        for (key, server) in self.http {
            serving.add(key, |shutdown| server.serve(shutdown));
        }
        self.addresses
    }
}

/// What makes the node a part of a cluster: its place among the others, and the socket for them.
fn cluster(settings: &Settings) -> Result<Option<broker::ClusterOptions>, Failure> {
    if settings.cluster.nodes.is_empty() {
        return Ok(None);
    }
    let listener = listen::bind(CLUSTER, settings.listeners.cluster, TcpListener::bind)?;
    Ok(listener.map(|listener| wiring::cluster_options(settings, listener)))
}

/// Prepares the broker for its first client and opens the listeners.
async fn begin(
    loaded: &Loaded,
    broker: &Broker,
    first_user: &FirstUser,
    door: ReloadDoor,
    level: LogLevel,
) -> Result<(Begun, Parts), Failure> {
    let settings = &loaded.settings;
    prepare(settings, broker, first_user).await?;
    let directory = Arc::new(MetadataDirectory(broker.clone()));
    let authenticator = Authenticator::new(wiring::auth_policy(settings), directory);
    let options = LiveOptions::from(wiring::amqp_options(settings));
    let tls = match wiring::tls_options(settings) {
        Some(options) => Some(TlsAcceptor::load(&options)?),
        None => None,
    };
    let management = Management::new(
        broker.clone(),
        authenticator.clone(),
        wiring::management_options(settings, &loaded.files, door),
    );
    let parts = Parts {
        level,
        authenticator,
        amqp: options,
        tls,
        broker: broker.clone(),
    };
    let begun = bind(settings, &parts, &management)?;
    management.announce(wiring::listener_infos(&begun.addresses));
    Ok((begun, parts))
}

async fn prepare(
    settings: &Settings,
    broker: &Broker,
    first_user: &FirstUser,
) -> Result<(), Failure> {
    let quorum = wiring::quorum_defaults(settings);
    first_run::settle_defaults(broker, quorum)
        .await
        .map_err(Failure::Prepare)?;
    let definitions = &settings.definitions;
    let imported = match &definitions.path {
        Some(path) => boot_definitions::import(broker, path, definitions.skip_if_unchanged)
            .await?
            .then_some(path.as_path()),
        None => None,
    };
    first_run::populate(broker, first_user, imported)
        .await
        .map_err(Failure::Prepare)
}

fn bind(settings: &Settings, parts: &Parts, management: &Management) -> Result<Begun, Failure> {
    let listeners = &settings.listeners;
    let mut begun = Begun {
        addresses: Addresses::default(),
        amqp: Vec::new(),
        http: Vec::new(),
    };
    let bound = listen::bind(AMQP, listeners.amqp, |address| {
        let (broker, authenticator) = (parts.broker.clone(), parts.authenticator.clone());
        AmqpServer::bind(address, broker, authenticator, parts.amqp.clone())
    })?;
    if let Some(server) = bound {
        begun.addresses.amqp = server.local_addr().ok();
        begun.amqp.push((AMQP, server));
    }
    let bound = listen::bind(MANAGEMENT, listeners.management, |address| {
        management.bind_api(address)
    })?;
    if let Some(server) = bound {
        begun.addresses.management = server.local_addr().ok();
        begun.http.push((MANAGEMENT, server));
    }
    let bound = listen::bind(METRICS, listeners.metrics, |address| {
        management.bind_metrics(address)
    })?;
    if let Some(server) = bound {
        begun.addresses.metrics = server.local_addr().ok();
        begun.http.push((METRICS, server));
    }
    if let Some(acceptor) = &parts.tls {
        management.watch_certificates(acceptor.clone());
        bind_tls(settings, parts, management, acceptor, &mut begun)?;
    }
    Ok(begun)
}

fn bind_tls(
    settings: &Settings,
    parts: &Parts,
    management: &Management,
    acceptor: &TlsAcceptor,
    begun: &mut Begun,
) -> Result<(), Failure> {
    let listeners = &settings.listeners;
    let door = TlsDoor {
        acceptor: acceptor.clone(),
        login_from: wiring::login_from(settings),
    };
    let bound = listen::bind(AMQPS, listeners.amqps, |address| {
        let (broker, authenticator) = (parts.broker.clone(), parts.authenticator.clone());
        let options = parts.amqp.clone();
        AmqpServer::bind_tls(address, broker, authenticator, options, door.clone())
    })?;
    if let Some(server) = bound {
        begun.addresses.amqps = server.local_addr().ok();
        begun.amqp.push((AMQPS, server));
    }
    let bound = listen::bind(MANAGEMENT_TLS, listeners.management_tls, |address| {
        management.bind_api_tls(address, acceptor.clone())
    })?;
    if let Some(server) = bound {
        begun.addresses.management_tls = server.local_addr().ok();
        begun.http.push((MANAGEMENT_TLS, server));
    }
    Ok(())
}

/// Time between two looks at the files: with two looks that must agree, a change is in force well
/// within a second. A look costs a few calls of the system.
const LOOK: Duration = Duration::from_millis(250);

/// Serves until something ends it; says what, unless it was the operator.
async fn until_stop(
    serving: &mut Serving,
    broker: &Broker,
    reload: &mut Reload<'_>,
    signals: &mut Signals,
) -> Option<Failure> {
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            wish = signals.next() => match wish {
                Wish::Reload => reload.again().await,
                Wish::Stop => return None,
            },
            asked = reload.requested() => {
                reload.again().await;
                // Whoever asked may have hung up.
                let _ = asked.send(());
            }
            _ = looks.tick() => reload.look().await,
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
    }
    tell_rabbitmq(loaded);
}

/// What became of RabbitMQ's settings: one line for the file, one for each setting that is lost.
fn tell_rabbitmq(loaded: &Loaded) {
    let lines = &loaded.rabbitmq_conf;
    let unknown = lines
        .iter()
        .filter(|line| line.understood == Understood::Unknown);
    for conf in unknown {
        tracing::warn!(
            line = conf.line,
            name = conf.name,
            "a setting of rabbitmq.conf means nothing here"
        );
    }
    if !lines.is_empty() {
        let taken = lines
            .iter()
            .filter(|line| matches!(line.understood, Understood::As(_)));
        let taken = taken.count();
        tracing::info!(
            settings = lines.len(),
            taken,
            "rabbitmq.conf read; check-config tells what became of each setting"
        );
    }
    if !loaded.unknown_variables.is_empty() {
        let names = loaded.unknown_variables.join(", ");
        tracing::warn!(names, "environment variables that mean nothing here");
    }
}
