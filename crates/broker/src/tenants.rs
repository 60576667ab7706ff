//! Limits of users and vhosts while they are used: what is counted, and how fast connections come.
//!
//! Which limits there are is known to the metadata; here is counted, and only where a limit asks
//! for it.

pub(crate) mod in_hand;

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use broker_core::metadata::TenantCounts;
use broker_core::rate::RateGate;
use broker_core::refusal::{Tenant, TenantThing};
use broker_core::{Refusal, UserName, VhostName};
use parking_lot::Mutex;

use crate::bounds::{CONNECTION_RATES_MAX, PUBLISH_RATES_MAX};
use crate::broker::Broker;
use crate::clock;
use crate::holder::Holder;
use crate::node::Node;
use crate::session::SessionShared;

/// Longest wait of a connection that comes too soon; later ones are refused.
const CONNECTION_WAIT_MS_MAX: u64 = 5_000;

impl Node {
    /// Whether the session may open one more channel.
    pub(crate) fn check_channel_limit(&self, session: &SessionShared) -> Result<(), Refusal> {
        let (user, vhost) = (&session.options.user, &session.options.vhost);
        if !self.metadata.read().limits_channels(user, vhost) {
            return Ok(());
        }
        let open = self.tenant_counts(session, |other| other.channels.lock().len());
        self.metadata.read().check_channel(user, vhost, open)
    }

    /// Whether the session may start one more consumer.
    pub(crate) fn check_consumer_limit(&self, session: &SessionShared) -> Result<(), Refusal> {
        let (user, vhost) = (&session.options.user, &session.options.vhost);
        if !self.metadata.read().limits_consumers(user, vhost) {
            return Ok(());
        }
        let running = self.tenant_counts(session, |other| {
            let holders = other.channels.lock().clone();
            holders.iter().map(|holder| self.consumers_of(holder)).sum()
        });
        self.metadata.read().check_consumer(user, vhost, running)
    }

    fn consumers_of(&self, holder: &Holder) -> usize {
        let queues = holder.deliveries.lock().queues.clone();
        let queues = queues.into_iter().filter_map(|id| self.queue(id));
        queues
            .map(|queue| {
                queue.with_state(|state| {
                    let consumers = state.machine.consumers();
                    consumers
                        .filter(|view| view.consumer.holder == holder.id)
                        .count()
                })
            })
            .sum()
    }

    /// Sums up what the sessions of a session's user, and those in its vhost, have.
    fn tenant_counts(
        &self,
        session: &SessionShared,
        count: impl Fn(&SessionShared) -> usize,
    ) -> TenantCounts {
        let mut counts = TenantCounts::default();
        for other in &self.sessions {
            let is_users = other.options.user == session.options.user;
            let is_vhosts = other.options.vhost == session.options.vhost;
            if is_users || is_vhosts {
                let has = count(other.value()) as u64;
                counts.by_user += if is_users { has } else { 0 };
                counts.in_vhost += if is_vhosts { has } else { 0 };
            }
        }
        counts
    }
}

/// How fast connections come, for each user and vhost with a limit.
#[derive(Debug, Default)]
pub(crate) struct ConnectionRates(Mutex<HashMap<Tenant, RateGate>>);

impl ConnectionRates {
    /// Takes a place at the gate of one tenant.
    fn enter(&self, tenant: &Tenant, per_second: u64) -> Result<Duration, Refusal> {
        let refused = || Refusal::TenantLimit {
            what: TenantThing::ConnectionRate,
            holder: tenant.clone(),
            limit: per_second,
        };
        let per_second = NonZeroU64::new(per_second).ok_or_else(refused)?;
        let now_us = clock::now_us();
        let mut gates = self.0.lock();
        if gates.len() >= CONNECTION_RATES_MAX {
            gates.retain(|_, gate| !gate.is_at_rest(now_us));
        }
        let gate = gates.entry(tenant.clone()).or_default();
        let wait_us = gate.enter(now_us, per_second, CONNECTION_WAIT_MS_MAX * 1_000);
        wait_us.map(Duration::from_micros).ok_or_else(refused)
    }
}

/// Longest time that one message can make its publishers wait, in microseconds: one that is much
/// larger than the bytes of a second must not stop them for hours.
const PUBLISH_WAIT_US_MAX: u64 = 60_000_000;

/// A rate that a channel's publishes are charged to, with all others of its holder.
pub(crate) struct Pace {
    what: TenantThing,
    holder: Tenant,
    per_second: NonZeroU64,
    gate: Arc<Mutex<RateGate>>,
}

impl Pace {
    /// Charges a publish; answers until when its connection has to wait.
    fn charge(&self, now_us: u64, body_bytes: usize) -> Option<Paced> {
        let amount = match self.what {
            TenantThing::PublishBytesRate => body_bytes as u64,
            _ => 1,
        };
        let mut gate = self.gate.lock();
        let wait_us = gate.charge(now_us, self.per_second, amount, PUBLISH_WAIT_US_MAX);
        (wait_us > 0).then(|| Paced {
            until_us: now_us + wait_us,
            why: Refusal::TenantLimit {
                what: self.what,
                holder: self.holder.clone(),
                limit: self.per_second.get(),
            },
        })
    }
}

/// A connection waits, since somebody published as much as a limit allows.
#[derive(Clone, Debug)]
pub(crate) struct Paced {
    /// Until then, in microseconds since the epoch.
    until_us: u64,
    /// The limit, as a refusal would name it.
    why: Refusal,
}

impl Paced {
    /// How much longer it waits, and why; `None` if it need not any more.
    pub(crate) fn left(&self) -> Option<(Duration, Refusal)> {
        let left_us = self.until_us.checked_sub(clock::now_us())?;
        Some((Duration::from_micros(left_us.max(1)), self.why.clone()))
    }
}

/// Charges a publish to all its paces; the longest wait becomes the session's.
pub(crate) fn charge(paces: &[Pace], session: &SessionShared, body_bytes: usize) {
    if paces.is_empty() {
        return;
    }
    let now_us = clock::now_us();
    let waits = paces
        .iter()
        .filter_map(|pace| pace.charge(now_us, body_bytes));
    if let Some(longest) = waits.max_by_key(|paced| paced.until_us) {
        session.pace(longest);
    }
}

/// How much is published, for each user and vhost with a limit.
#[derive(Debug, Default)]
pub(crate) struct PublishRates(Mutex<HashMap<(TenantThing, Tenant), SharedGate>>);

/// A rate that all channels of its holder are charged to.
type SharedGate = Arc<Mutex<RateGate>>;

impl PublishRates {
    fn gate(&self, what: TenantThing, holder: &Tenant) -> SharedGate {
        let mut gates = self.0.lock();
        if gates.len() >= PUBLISH_RATES_MAX {
            let now_us = clock::now_us();
            gates.retain(|_, gate| Arc::strong_count(gate) > 1 || !gate.lock().is_at_rest(now_us));
        }
        gates.entry((what, holder.clone())).or_default().clone()
    }
}

impl Node {
    /// The rates that publishes of a user into a vhost are charged to.
    ///
    /// # Errors
    /// A limit of 0.
    pub(crate) fn paces(&self, user: &UserName, vhost: &VhostName) -> Result<Vec<Pace>, Refusal> {
        let rates: Vec<_> = self.metadata.read().publish_rates(user, vhost).collect();
        let pace = |(what, holder, limit)| match NonZeroU64::new(limit) {
            Some(per_second) => Ok(Pace {
                what,
                per_second,
                gate: self.publish_rates.gate(what, &holder),
                holder,
            }),
            None => Err(Refusal::TenantLimit {
                what,
                holder,
                limit,
            }),
        };
        rates.into_iter().map(pace).collect()
    }
}

impl Broker {
    /// How long a connection of this user to this vhost must wait until it is opened, so that no
    /// more are opened in a second than the limits allow.
    ///
    /// # Errors
    /// It would wait for longer than clients do.
    pub fn connection_delay(
        &self,
        user: &UserName,
        vhost: &VhostName,
    ) -> Result<Duration, Refusal> {
        let node = self.node();
        let rates: Vec<_> = node.metadata.read().connection_rates(user, vhost).collect();
        rates
            .iter()
            .try_fold(Duration::ZERO, |longest, (tenant, per_second)| {
                Ok(longest.max(node.connection_rates.enter(tenant, *per_second)?))
            })
    }
}
