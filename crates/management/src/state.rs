//! What every handler shares.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock, Weak};
use std::time::Duration;

use auth::{Authenticator, FailureBrake};
use broker::Broker;
use broker_core::metadata::{MetadataChange, Outcome};
use parking_lot::Mutex;

use tls::TlsAcceptor;

use crate::error::Result;
use crate::options::{ListenerInfo, ManagementOptions};
use crate::reload::ReloadDoor;
use crate::statistics::{self, Statistics};
use crate::time::now_ms;

/// The state of the HTTP side. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api(Arc<Inner>);

struct Inner {
    broker: Broker,
    authenticator: Authenticator,
    options: ManagementOptions,
    listeners: OnceLock<Vec<ListenerInfo>>,
    /// What the listeners over TLS show.
    certificates: OnceLock<TlsAcceptor>,
    auth_attempts: Attempts,
    failure_brake: Mutex<FailureBrake>,
    started_at_ms: u64,
    statistics: Mutex<Statistics>,
    sampling: Once,
}

/// The state without keeping it alive.
pub(crate) struct WeakApi(Weak<Inner>);

impl WeakApi {
    pub(crate) fn upgrade(&self) -> Option<Api> {
        self.0.upgrade().map(Api)
    }
}

impl Api {
    pub(crate) fn new(
        broker: Broker,
        authenticator: Authenticator,
        options: ManagementOptions,
    ) -> Self {
        Self(Arc::new(Inner {
            broker,
            authenticator,
            options,
            listeners: OnceLock::new(),
            certificates: OnceLock::new(),
            auth_attempts: Attempts::default(),
            failure_brake: Mutex::default(),
            started_at_ms: now_ms(),
            statistics: Mutex::default(),
            sampling: Once::new(),
        }))
    }

    pub(crate) fn broker(&self) -> &Broker {
        &self.0.broker
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.0.authenticator
    }

    pub(crate) fn options(&self) -> &ManagementOptions {
        &self.0.options
    }

    pub(crate) fn reload_door(&self) -> Option<&ReloadDoor> {
        self.0.options.reload.as_ref()
    }

    pub(crate) fn node(&self) -> &str {
        &self.0.options.node
    }

    /// The name of a node of the cluster.
    pub(crate) fn node_name(&self, number: u64) -> String {
        let name = self.0.options.cluster.get(&number).cloned();
        name.unwrap_or_else(|| format!("node {number}"))
    }

    /// The number of a node of the cluster.
    pub(crate) fn node_number(&self, name: &str) -> Option<u64> {
        let mut nodes = self.0.options.cluster.iter();
        nodes
            .find(|(_, own)| *own == name)
            .map(|(number, _)| *number)
    }

    pub(crate) fn statistics(&self) -> &Mutex<Statistics> {
        &self.0.statistics
    }

    /// When a certificate of ours runs out, in seconds since the epoch.
    pub(crate) fn certificate_expires_at_s(&self) -> Option<u64> {
        self.0.certificates.get()?.expires_at_s()
    }

    pub(crate) fn watch_certificates(&self, tls: TlsAcceptor) {
        // There is one for all listeners.
        let _ = self.0.certificates.set(tls);
    }

    /// Begins to sample, once; within a tokio runtime.
    pub(crate) fn sample(&self) {
        let weak = WeakApi(Arc::downgrade(&self.0));
        self.0.sampling.call_once(|| {
            tokio::spawn(statistics::run(weak));
        });
    }

    /// How long the answer to a failed login from this address shall wait.
    pub(crate) fn after_failure(&self, address: IpAddr) -> Duration {
        let delay = self.0.options.login_failure_delay;
        self.0.failure_brake.lock().failed(address, now_ms(), delay)
    }

    /// Logins over HTTP.
    pub(crate) fn auth_attempts(&self) -> &Attempts {
        &self.0.auth_attempts
    }

    pub(crate) fn announce(&self, listeners: Vec<ListenerInfo>) {
        if self.0.listeners.set(listeners).is_err() {
            tracing::warn!("listeners were announced twice; the first word stands");
        }
    }

    pub(crate) fn listeners(&self) -> &[ListenerInfo] {
        self.0.listeners.get().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn uptime_ms(&self) -> u64 {
        now_ms().saturating_sub(self.0.started_at_ms)
    }

    /// Puts a change through the broker's one door.
    pub(crate) async fn apply(&self, change: MetadataChange) -> Result<Outcome> {
        Ok(self.broker().apply(&change).await?)
    }

    /// The cluster's name: an operator's word, else the node's name.
    pub(crate) fn cluster_name(&self) -> String {
        let metadata = self.broker().metadata();
        let stored = metadata
            .global_parameters()
            .find(|(name, _)| *name == CLUSTER_NAME)
            .and_then(|(_, value)| value.as_text());
        stored.unwrap_or(self.node()).to_owned()
    }
}

/// Global parameter that holds the cluster's name.
pub(crate) const CLUSTER_NAME: &str = "cluster_name";

/// Counts logins.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl Attempts {
    pub(crate) fn succeeded(&self) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Let in, and refused.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.succeeded.load(Ordering::Relaxed),
            self.failed.load(Ordering::Relaxed),
        )
    }

    pub(crate) fn reset(&self) {
        self.succeeded.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
    }
}
