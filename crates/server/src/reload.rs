//! Files that are read again: by HUP, over HTTP, and when they change. Each kind is judged whole
//! and put into force whole, or not at all.
//!
//! What can change while the broker runs does so for clients that come from then on. Of the rest
//! is said that it waits for the next start.

mod watched;

use std::path::{Path, PathBuf};

use amqp_server::LiveOptions;
use auth::Authenticator;
use broker::Broker;
use broker::observe::FilesEvent;
use broker_core::Refusal;
use broker_core::metadata::MetadataChange;
use broker_core::policy::{PolicyOrigin, PolicyScope};
use management::ReloadRequests;
use settings::{Fingerprint, Loaded, PolicyFiles, Settings, SettingsError, Sources};
use tls::TlsAcceptor;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::logging::LogLevel;
use crate::{first_run, notify, wiring};
use watched::Watched;

/// Beginnings of the keys whose new value counts at once.
const LIVE: [&str; 30] = [
    "auth.mechanisms",
    "auth.loopback_users",
    "auth.anonymous_",
    "auth.failure_delay",
    "disk.free_limit",
    "flow.channel_flow",
    "flow.blocked_notice",
    "flow.clients",
    "flow.users",
    "flow.vhosts",
    "limits.frame_max",
    "limits.channel_max",
    "limits.heartbeat",
    "limits.max_connections",
    "limits.handshake_timeout",
    "log.level",
    "memory.high_watermark",
    "policies.path",
    "quorum.consumer_timeout",
    "quorum.dead_letter_strategy",
    "quorum.delayed_retry",
    "quorum.delivery_limit",
    "quorum.expire_anywhere",
    "quorum.poison_loop_returns",
    "tls.certificate",
    "tls.private_key",
    "tls.client_",
    "tls.minimum_version",
    "tls.cipher_suites",
    "shutdown.drain_timeout",
];

fn is_live(key: &str) -> bool {
    LIVE.iter().any(|start| key.starts_with(start))
}

/// The parts of a running broker that take new settings.
pub(crate) struct Parts {
    pub(crate) level: LogLevel,
    pub(crate) authenticator: Authenticator,
    pub(crate) amqp: LiveOptions,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) broker: Broker,
}

/// The files in force, and where they come from.
pub(crate) struct Reload<'a> {
    sources: &'a Sources,
    settings: Settings,
    parts: Parts,
    requests: ReloadRequests,
    configuration: Watched,
    certificates: Watched,
    policies: Watched,
    /// Policies that wait for a virtual host to be created, and the version of the metadata in
    /// which it was missing.
    waiting: Option<(PolicyFiles, u64)>,
}

impl<'a> Reload<'a> {
    /// Starts from the settings that the broker was started with.
    pub(crate) fn new(
        sources: &'a Sources,
        loaded: &Loaded,
        parts: Parts,
        requests: ReloadRequests,
    ) -> Self {
        let settings = loaded.settings.clone();
        requests.tell(|status| {
            status.configuration.files = shown(&loaded.files);
            status.configuration.loads = 1;
        });
        Self {
            sources,
            configuration: Watched::new(configuration_print(sources)),
            certificates: Watched::new(certificates_print(&settings)),
            policies: Watched::new(policies_print(&settings)),
            settings,
            parts,
            requests,
            waiting: None,
        }
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A request for a reload. Cancelling the wait loses nothing.
    pub(crate) async fn requested(&mut self) -> oneshot::Sender<()> {
        self.requests.next().await
    }

    /// Puts the policy files into force for the first time.
    ///
    /// # Errors
    /// They have faults: a broker that begins without its policies would drop what they keep.
    pub(crate) async fn begin(&mut self) -> Result<(), Failure> {
        match read_policies(self.settings.policies.path.clone()).await {
            Ok(files) => {
                self.apply_policies(files).await;
                Ok(())
            }
            Err(error) => Err(Failure::Policies(error)),
        }
    }

    /// Reads everything again.
    pub(crate) async fn again(&mut self) {
        notify::reloading();
        self.configuration.settle(configuration_print(self.sources));
        self.read_configuration();
        self.certificates.settle(certificates_print(&self.settings));
        self.read_certificates();
        self.policies.settle(policies_print(&self.settings));
        self.read_policies().await;
        notify::ready();
    }

    /// Looks whether files have changed, and reads those that have.
    pub(crate) async fn look(&mut self) {
        if self
            .configuration
            .changed(configuration_print(self.sources))
        {
            self.read_configuration();
        }
        if self
            .certificates
            .changed(certificates_print(&self.settings))
        {
            self.read_certificates();
        }
        if self.policies.changed(policies_print(&self.settings)) {
            self.read_policies().await;
        } else if let Some((files, version)) = self.waiting.take() {
            let now = self.parts.broker.metadata().version();
            match now == version {
                true => self.waiting = Some((files, version)),
                false => self.apply_policies(files).await,
            }
        }
    }

    fn read_configuration(&mut self) {
        match settings::load(self.sources) {
            Ok(loaded) => self.put_into_force(loaded),
            Err(error) => self.refuse_configuration(error.faults.iter().map(ToString::to_string)),
        }
    }

    fn refuse_configuration(&self, faults: impl Iterator<Item = String>) {
        let faults: Vec<String> = faults.collect();
        for fault in &faults {
            tracing::error!(fault, "the configuration is not reloaded");
        }
        self.parts
            .broker
            .tell_files(FilesEvent::ConfigurationRefused, &faults.join("; "));
        self.requests.tell(|status| {
            status.configuration.failures += 1;
            status.configuration.faults = faults;
        });
    }

    fn put_into_force(&mut self, loaded: Loaded) {
        let differing = settings::differing_keys(&self.settings, &loaded.settings);
        let (live, restart): (Vec<String>, Vec<String>) =
            differing.into_iter().partition(|key| is_live(key));
        let wanted = live_only(&self.settings, &loaded.settings);
        // All that can fail comes before anything changes.
        if let Some(acceptor) = &self.parts.tls
            && let Some(options) = wiring::tls_options(&wanted)
            && let Err(error) = acceptor.reload(&options)
        {
            return self.refuse_configuration(std::iter::once(error.to_string()));
        }
        if let Err(error) = self.parts.level.set(&wanted.log.level) {
            return self.refuse_configuration(std::iter::once(error.to_string()));
        }
        self.parts
            .authenticator
            .set_policy(wiring::auth_policy(&wanted));
        self.parts.amqp.set(wiring::amqp_options(&wanted));
        self.settle_defaults(&wanted);
        self.set_alarm_limits(&wanted);
        self.parts.broker.set_levers(wiring::levers(&wanted));
        self.settings = wanted;
        tracing::info!(
            log_level = self.settings.log.level,
            changed = live.join(", "),
            "configuration reloaded"
        );
        self.parts
            .broker
            .tell_files(FilesEvent::ConfigurationReloaded, &live.join(", "));
        if !restart.is_empty() {
            tracing::warn!(
                keys = restart.join(", "),
                "other settings have changed, too; they take effect at the next start"
            );
        }
        self.requests.tell(|status| {
            status.configuration.files = shown(&loaded.files);
            status.configuration.loads += 1;
            status.configuration.faults.clear();
            status.restart_needed = restart;
        });
    }

    /// Alarms go by the new limits at once.
    fn set_alarm_limits(&self, wanted: &Settings) {
        let limits = wiring::flow_options(wanted, broker::memory_limit_bytes());
        let broker = &self.parts.broker;
        if wanted.memory != self.settings.memory {
            broker.set_memory_limit(limits.memory_limit_bytes);
        }
        if wanted.disk != self.settings.disk {
            broker.set_disk_free_limit(limits.disk_free_limit_bytes);
        }
    }

    /// Queues go by the new defaults as soon as they are logged; nobody needs to wait for it.
    fn settle_defaults(&self, wanted: &Settings) {
        let broker = self.parts.broker.clone();
        let quorum = wiring::quorum_defaults(wanted);
        tokio::spawn(async move {
            if let Err(refusal) = first_run::settle_defaults(&broker, quorum).await {
                tracing::error!(%refusal, "the defaults of quorum queues are not changed");
            }
        });
    }

    fn read_certificates(&self) {
        let (Some(acceptor), Some(options)) =
            (&self.parts.tls, wiring::tls_options(&self.settings))
        else {
            return;
        };
        match acceptor.reload(&options) {
            Ok(()) => {
                tracing::info!("certificates reloaded");
                self.parts
                    .broker
                    .tell_files(FilesEvent::CertificatesReloaded, "");
            }
            Err(error) => {
                tracing::error!(%error, "the certificates are not reloaded");
                self.parts
                    .broker
                    .tell_files(FilesEvent::CertificatesRefused, &error.to_string());
                self.requests.tell(|status| {
                    status.configuration.failures += 1;
                });
            }
        }
    }

    async fn read_policies(&mut self) {
        match read_policies(self.settings.policies.path.clone()).await {
            Ok(files) => self.apply_policies(files).await,
            Err(error) => {
                let faults: Vec<String> = error.faults.iter().map(ToString::to_string).collect();
                for fault in &faults {
                    tracing::error!(fault, "the policy files are not put into force");
                }
                self.waiting = None;
                self.refuse_policies(faults);
            }
        }
    }

    fn refuse_policies(&self, faults: Vec<String>) {
        self.parts
            .broker
            .tell_files(FilesEvent::PoliciesRefused, &faults.join("; "));
        self.requests.tell(|status| {
            status.policies.failures += 1;
            status.policies.faults = faults;
        });
    }

    async fn apply_policies(&mut self, files: PolicyFiles) {
        self.waiting = None;
        let broker = &self.parts.broker;
        if files.policies.is_empty() && files.defaults.is_empty() && !holds_file_policies(broker) {
            return self.tell_policies(&files);
        }
        let version = broker.metadata().version();
        let change = MetadataChange::ReplaceFilePolicies {
            policies: files.policies.clone(),
            defaults: files.defaults.clone(),
        };
        match broker.apply(&change).await {
            Ok(outcome) => {
                tracing::info!(
                    policies = files.policies.len(),
                    changes = outcome.events.len(),
                    "policy files are in force"
                );
                self.tell_policies(&files);
            }
            Err(refusal) => {
                let fault = match &refusal {
                    Refusal::VhostNotFound { vhost } => format!(
                        "the policy files name the virtual host {:?}, which does not exist; they \
                         are put into force when it is created",
                        vhost.as_str()
                    ),
                    other => other.to_string(),
                };
                tracing::error!(fault, "the policy files are not put into force");
                self.refuse_policies(vec![fault]);
                if matches!(refusal, Refusal::VhostNotFound { .. }) {
                    self.waiting = Some((files, version));
                }
            }
        }
    }

    fn tell_policies(&self, files: &PolicyFiles) {
        let files_shown = shown(&files.files).join(", ");
        self.parts
            .broker
            .tell_files(FilesEvent::PoliciesReloaded, &files_shown);
        self.requests.tell(|status| {
            status.policies.files = shown(&files.files);
            status.policies.loads += 1;
            status.policies.faults.clear();
        });
    }
}

/// The settings with what cannot change while the broker runs as it was.
fn live_only(old: &Settings, new: &Settings) -> Settings {
    let mut live = new.clone();
    live.node = old.node.clone();
    live.listeners = old.listeners.clone();
    live.definitions = old.definitions.clone();
    live.storage = old.storage.clone();
    live.memory.producer_percent = old.memory.producer_percent;
    live.flow = settings::Flow {
        channel_flow: new.flow.channel_flow,
        blocked_notice: new.flow.blocked_notice,
        clients: new.flow.clients.clone(),
        users: new.flow.users.clone(),
        vhosts: new.flow.vhosts.clone(),
        ..old.flow.clone()
    };
    live.log.format = old.log.format;
    live.quorum.groups = old.quorum.groups;
    live.limits.max_message_size = old.limits.max_message_size;
    live.auth.default_user.clone_from(&old.auth.default_user);
    live.auth
        .default_password
        .clone_from(&old.auth.default_password);
    live.auth.default_vhost.clone_from(&old.auth.default_vhost);
    live.tls.login_from = old.tls.login_from;
    live.tls.login_san_type = old.tls.login_san_type;
    live.tls.login_san_index = old.tls.login_san_index;
    live
}

fn shown(files: &[PathBuf]) -> Vec<String> {
    files
        .iter()
        .map(|file| file.display().to_string())
        .collect()
}

/// A network folder may keep a reader waiting: not on a thread that serves connections.
async fn read_policies(path: Option<PathBuf>) -> Result<PolicyFiles, SettingsError> {
    let Some(path) = path else {
        return Ok(PolicyFiles::default());
    };
    let reading = tokio::task::spawn_blocking(move || settings::load_policies(&path));
    reading.await.unwrap_or_else(|broken| {
        Err(SettingsError::unreadable(
            Path::new("policies.path"),
            broken.to_string(),
        ))
    })
}

fn holds_file_policies(broker: &Broker) -> bool {
    let metadata = broker.metadata();
    let mut vhosts = metadata.vhosts();
    vhosts.any(|vhost| {
        let scopes = [PolicyScope::User, PolicyScope::Operator];
        let mut policies = scopes
            .into_iter()
            .flat_map(|scope| vhost.policies(scope).iter());
        policies.any(|policy| policy.origin == PolicyOrigin::File)
            || vhost.defaults_origin() == PolicyOrigin::File
    })
}

fn configuration_print(sources: &Sources) -> Fingerprint {
    match &sources.file {
        Some(file) => Fingerprint::of_configuration(file),
        None => Fingerprint::default(),
    }
}

fn certificates_print(settings: &Settings) -> Fingerprint {
    match wiring::tls_options(settings) {
        Some(options) => Fingerprint::of_files(options.files()),
        None => Fingerprint::default(),
    }
}

fn policies_print(settings: &Settings) -> Fingerprint {
    match &settings.policies.path {
        Some(path) => Fingerprint::of_policies(path),
        None => Fingerprint::default(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
