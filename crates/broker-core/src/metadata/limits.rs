//! Limits of vhosts and users: how they are set, and when one is reached.
//!
//! A negative number is no limit, 0 allows nothing. Limits are looked at when something is made
//! or opened; what exists stays.

use super::Metadata;
use super::event::MetadataEvent;
use super::record::Limits;
use crate::names::{UserName, VhostName};
use crate::refusal::{LimitFault, Refusal, Result, Tenant, TenantThing};
use crate::term::Term;

pub(super) const MAX_QUEUES: &str = "max-queues";
const MAX_CONNECTIONS: &str = "max-connections";
const MAX_CHANNELS: &str = "max-channels";
const MAX_CONSUMERS: &str = "max-consumers";
const MAX_UNACKED: &str = "max-unacked";
const MAX_MESSAGE_SIZE: &str = "max-message-size";
const MAX_CONNECTION_RATE: &str = "max-connection-rate";
const MAX_PUBLISH_RATE: &str = "max-publish-rate";
const MAX_PUBLISH_BYTES_RATE: &str = "max-publish-bytes-rate";
const MAX_MEMORY: &str = "max-memory";

/// Those after the first two are this broker's own.
const VHOST_LIMITS: [&str; 10] = [
    MAX_CONNECTIONS,
    MAX_QUEUES,
    MAX_CHANNELS,
    MAX_CONSUMERS,
    MAX_UNACKED,
    MAX_MESSAGE_SIZE,
    MAX_CONNECTION_RATE,
    MAX_PUBLISH_RATE,
    MAX_PUBLISH_BYTES_RATE,
    MAX_MEMORY,
];

/// Those after the first two are this broker's own.
const USER_LIMITS: [&str; 9] = [
    MAX_CONNECTIONS,
    MAX_CHANNELS,
    MAX_QUEUES,
    MAX_CONSUMERS,
    MAX_UNACKED,
    MAX_MESSAGE_SIZE,
    MAX_CONNECTION_RATE,
    MAX_PUBLISH_RATE,
    MAX_PUBLISH_BYTES_RATE,
];

/// How many of a thing there are already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantCounts {
    /// In the vhost.
    pub in_vhost: u64,
    /// Of the user, in all vhosts.
    pub by_user: u64,
}

/// The bound that a limit sets, if it sets one.
pub(super) fn bound(limits: &Limits, name: &str) -> Option<u64> {
    limits
        .get(name)
        .and_then(|limit| u64::try_from(*limit).ok())
}

pub(super) fn parse_vhost_limits(limits: &Term) -> Result<Limits> {
    parse_all(limits, &VHOST_LIMITS)
}

pub(super) fn parse_vhost_limit(name: &str, value: &Term) -> Result<i64> {
    parse_one(name, value, &VHOST_LIMITS)
}

pub(super) fn parse_user_limits(limits: &Term) -> Result<Limits> {
    parse_all(limits, &USER_LIMITS)
}

pub(super) fn parse_user_limit(name: &str, value: &Term) -> Result<i64> {
    parse_one(name, value, &USER_LIMITS)
}

/// A map of limits. Older definitions hold an empty list instead of an empty map.
fn parse_all(limits: &Term, known: &[&str]) -> Result<Limits> {
    let entries: &[(Box<str>, Term)] = match limits {
        Term::Map(entries) => entries,
        _ => &[],
    };
    entries
        .iter()
        .map(|(name, value)| Ok((name.clone(), parse_one(name, value, known)?)))
        .collect()
}

fn parse_one(name: &str, value: &Term, known: &[&str]) -> Result<i64> {
    if !known.contains(&name) {
        let why = LimitFault::Unknown(vec![(name.into(), value.clone())]);
        return Err(Refusal::InvalidLimit { why });
    }
    value.as_integer().ok_or_else(|| Refusal::InvalidLimit {
        why: LimitFault::NotInteger {
            name: name.into(),
            value: value.clone(),
        },
    })
}

impl Metadata {
    pub(super) fn set_vhost_limits(
        &mut self,
        vhost: &VhostName,
        limits: &Term,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let current = &mut self.vhost_mut(vhost)?.limits;
        let wanted = parse_vhost_limits(limits)?;
        if *current != wanted {
            *current = wanted;
            events.push(MetadataEvent::VhostLimitsChanged {
                vhost: vhost.clone(),
            });
        }
        Ok(())
    }

    pub(super) fn set_vhost_limit(
        &mut self,
        vhost: &VhostName,
        name: &str,
        value: &Term,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let limits = &mut self.vhost_mut(vhost)?.limits;
        limits.insert(name.into(), parse_vhost_limit(name, value)?);
        events.push(MetadataEvent::VhostLimitsChanged {
            vhost: vhost.clone(),
        });
        Ok(())
    }

    pub(super) fn clear_vhost_limit(
        &mut self,
        vhost: &VhostName,
        name: &str,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        if self.vhost_mut(vhost)?.limits.remove(name).is_some() {
            events.push(MetadataEvent::VhostLimitsChanged {
                vhost: vhost.clone(),
            });
        }
        Ok(())
    }

    pub(super) fn set_user_limits(
        &mut self,
        user: &UserName,
        limits: &Term,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let current = &mut self.user_mut(user)?.limits;
        let wanted = parse_user_limits(limits)?;
        if *current != wanted {
            *current = wanted;
            events.push(MetadataEvent::UserLimitsChanged { user: user.clone() });
        }
        Ok(())
    }

    pub(super) fn set_user_limit(
        &mut self,
        user: &UserName,
        name: &str,
        value: &Term,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let limits = &mut self.user_mut(user)?.limits;
        limits.insert(name.into(), parse_user_limit(name, value)?);
        events.push(MetadataEvent::UserLimitsChanged { user: user.clone() });
        Ok(())
    }

    pub(super) fn clear_user_limit(
        &mut self,
        user: &UserName,
        name: &str,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        if self.user_mut(user)?.limits.remove(name).is_some() {
            events.push(MetadataEvent::UserLimitsChanged { user: user.clone() });
        }
        Ok(())
    }

    /// Whether a user may use a vhost at all.
    ///
    /// # Errors
    /// `VhostAccessRefused`.
    pub fn check_vhost_access(&self, user: &UserName, vhost: &VhostName) -> Result<()> {
        match self.permission(user, vhost) {
            Some(_) => Ok(()),
            None => Err(Refusal::VhostAccessRefused {
                vhost: vhost.clone(),
                user: user.clone(),
            }),
        }
    }

    /// Whether a user may open one more connection to a vhost. The counts are of open ones.
    ///
    /// # Errors
    /// `VhostNotFound`, `VhostAccessRefused`, `VhostConnectionLimit`, `UserConnectionLimit`; in
    /// this order.
    // rabbitmq: connection.open
    pub fn check_connection(
        &self,
        user: &UserName,
        vhost: &VhostName,
        open_in_vhost: u64,
        open_by_user: u64,
    ) -> Result<()> {
        let found = self.vhost(vhost)?;
        self.check_vhost_access(user, vhost)?;
        if let Some(limit) = bound(&found.limits, MAX_CONNECTIONS)
            && open_in_vhost >= limit
        {
            let (vhost, user) = (vhost.clone(), user.clone());
            return Err(Refusal::VhostConnectionLimit { vhost, user, limit });
        }
        match self.user_bound(user, MAX_CONNECTIONS) {
            Some(limit) if open_by_user >= limit => Err(Refusal::UserConnectionLimit {
                user: user.clone(),
                limit,
            }),
            _ => Ok(()),
        }
    }

    /// Whether a user may open one more channel in a vhost. The counts are of open ones on all
    /// connections.
    ///
    /// # Errors
    /// `UserChannelLimit`, `TenantLimit`.
    pub fn check_channel(
        &self,
        user: &UserName,
        vhost: &VhostName,
        open: TenantCounts,
    ) -> Result<()> {
        if let Some(limit) = self.user_bound(user, MAX_CHANNELS)
            && open.by_user >= limit
        {
            let user = user.clone();
            return Err(Refusal::UserChannelLimit { user, limit });
        }
        match self.vhost_bound(vhost, MAX_CHANNELS) {
            Some(limit) if open.in_vhost >= limit => Err(Refusal::TenantLimit {
                what: TenantThing::Channel,
                holder: Tenant::Vhost(vhost.clone()),
                limit,
            }),
            _ => Ok(()),
        }
    }

    /// Whether a user may start one more consumer in a vhost. The counts are of those that run.
    ///
    /// # Errors
    /// `TenantLimit`.
    pub fn check_consumer(
        &self,
        user: &UserName,
        vhost: &VhostName,
        running: TenantCounts,
    ) -> Result<()> {
        self.check_tenant(
            TenantThing::Consumer,
            MAX_CONSUMERS,
            user,
            vhost,
            |holder, limit| match holder {
                Tenant::User(_) => running.by_user < limit,
                Tenant::Vhost(_) => running.in_vhost < limit,
            },
        )
    }

    /// Whether somebody limits the consumers of a user or of a vhost, so that they are worth
    /// counting.
    pub fn limits_consumers(&self, user: &UserName, vhost: &VhostName) -> bool {
        self.user_bound(user, MAX_CONSUMERS).is_some()
            || self.vhost_bound(vhost, MAX_CONSUMERS).is_some()
    }

    /// The same for channels.
    pub fn limits_channels(&self, user: &UserName, vhost: &VhostName) -> bool {
        self.user_bound(user, MAX_CHANNELS).is_some()
            || self.vhost_bound(vhost, MAX_CHANNELS).is_some()
    }

    /// Deliveries that a user may have unsettled, and those in a vhost, each with whose limit it is.
    pub fn unacked_limits(
        &self,
        user: &UserName,
        vhost: &VhostName,
    ) -> impl Iterator<Item = (Tenant, u64)> {
        self.tenant_bounds(MAX_UNACKED, user, vhost)
    }

    /// The same for one of them.
    pub fn unacked_limit(&self, tenant: &Tenant) -> Option<u64> {
        match tenant {
            Tenant::User(user) => self.user_bound(user, MAX_UNACKED),
            Tenant::Vhost(vhost) => self.vhost_bound(vhost, MAX_UNACKED),
        }
    }

    /// The largest message body that a user may publish into a vhost, in bytes, and whose limit
    /// that is.
    pub fn message_size_limit(&self, user: &UserName, vhost: &VhostName) -> Option<(Tenant, u64)> {
        self.tenant_bounds(MAX_MESSAGE_SIZE, user, vhost)
            .min_by_key(|(_, limit)| *limit)
    }

    /// Bytes in memory of messages that wait in the vhost's queues, above which its publishers are
    /// held.
    pub fn memory_limit(&self, vhost: &VhostName) -> Option<u64> {
        self.vhost_bound(vhost, MAX_MEMORY)
    }

    /// Connections that a user may open into a vhost in a second, each with whose limit it is.
    pub fn connection_rates(
        &self,
        user: &UserName,
        vhost: &VhostName,
    ) -> impl Iterator<Item = (Tenant, u64)> {
        self.tenant_bounds(MAX_CONNECTION_RATE, user, vhost)
    }

    /// Messages, and bytes of bodies, that a user may publish into a vhost in a second, each with
    /// whose limit it is. Who goes beyond is held; a limit of 0 refuses.
    pub fn publish_rates(
        &self,
        user: &UserName,
        vhost: &VhostName,
    ) -> impl Iterator<Item = (TenantThing, Tenant, u64)> {
        let limits = [
            (TenantThing::PublishRate, MAX_PUBLISH_RATE),
            (TenantThing::PublishBytesRate, MAX_PUBLISH_BYTES_RATE),
        ];
        limits.into_iter().flat_map(move |(what, name)| {
            let bounds = self.tenant_bounds(name, user, vhost);
            bounds.map(move |(holder, limit)| (what, holder, limit))
        })
    }

    fn check_tenant(
        &self,
        what: TenantThing,
        name: &str,
        user: &UserName,
        vhost: &VhostName,
        has_room: impl Fn(&Tenant, u64) -> bool,
    ) -> Result<()> {
        let full = self
            .tenant_bounds(name, user, vhost)
            .find(|(holder, limit)| !has_room(holder, *limit));
        full.map_or(Ok(()), |(holder, limit)| {
            Err(Refusal::TenantLimit {
                what,
                holder,
                limit,
            })
        })
    }

    fn tenant_bounds(
        &self,
        name: &str,
        user: &UserName,
        vhost: &VhostName,
    ) -> impl Iterator<Item = (Tenant, u64)> {
        let of_user = self.user_bound(user, name);
        let of_vhost = self.vhost_bound(vhost, name);
        let of_user = of_user.map(|limit| (Tenant::User(user.clone()), limit));
        let of_vhost = of_vhost.map(|limit| (Tenant::Vhost(vhost.clone()), limit));
        of_user.into_iter().chain(of_vhost)
    }

    fn vhost_bound(&self, vhost: &VhostName, name: &str) -> Option<u64> {
        self.vhosts
            .get(vhost)
            .and_then(|vhost| bound(&vhost.limits, name))
    }

    pub(super) fn user_bound(&self, user: &UserName, name: &str) -> Option<u64> {
        self.users
            .get(user)
            .and_then(|user| bound(&user.limits, name))
    }
}
