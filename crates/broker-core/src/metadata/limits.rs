//! Limits of vhosts and users: how they are set, and when one is reached.
//!
//! A negative number is no limit, 0 allows nothing. Limits are looked at when something is made
//! or opened; what exists stays.

use super::Metadata;
use super::event::MetadataEvent;
use super::record::Limits;
use crate::names::{UserName, VhostName};
use crate::refusal::{LimitFault, Refusal, Result};
use crate::term::Term;

pub(super) const MAX_QUEUES: &str = "max-queues";
const MAX_CONNECTIONS: &str = "max-connections";
const MAX_CHANNELS: &str = "max-channels";

const VHOST_LIMITS: [&str; 2] = [MAX_CONNECTIONS, MAX_QUEUES];
const USER_LIMITS: [&str; 2] = [MAX_CONNECTIONS, MAX_CHANNELS];

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
        if self.permission(user, vhost).is_none() {
            return Err(Refusal::VhostAccessRefused {
                vhost: vhost.clone(),
                user: user.clone(),
            });
        }
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

    /// Whether a user may open one more channel. The count is of open ones on all connections.
    ///
    /// # Errors
    /// `UserChannelLimit`.
    pub fn check_channel(&self, user: &UserName, open_by_user: u64) -> Result<()> {
        match self.user_bound(user, MAX_CHANNELS) {
            Some(limit) if open_by_user >= limit => Err(Refusal::UserChannelLimit {
                user: user.clone(),
                limit,
            }),
            _ => Ok(()),
        }
    }

    fn user_bound(&self, user: &UserName, name: &str) -> Option<u64> {
        self.users
            .get(user)
            .and_then(|user| bound(&user.limits, name))
    }
}
