//! Permission records are set and taken away. What they allow is `permission`'s knowledge.

use super::event::MetadataEvent;
use super::record::{PermissionRecord, TopicPermissionRecord};
use super::{Metadata, UserPermissions};
use crate::names::{ExchangeName, UserName, VhostName};
use crate::pattern::Pattern;
use crate::refusal::{Refusal, Result};

/// The variables of topic patterns.
const USERNAME_VARIABLE: &str = "{username}";
const VHOST_VARIABLE: &str = "{vhost}";

impl Metadata {
    /// The permissions of all users, by user, then vhost.
    pub fn permissions(&self) -> impl Iterator<Item = (&UserName, &VhostName, &PermissionRecord)> {
        self.permissions.iter().flat_map(|(user, vhosts)| {
            vhosts
                .iter()
                .filter_map(move |(vhost, held)| Some((user, vhost, held.record.as_ref()?)))
        })
    }

    /// The topic permissions of all users, by user, then vhost, then exchange.
    pub fn topic_permissions(
        &self,
    ) -> impl Iterator<Item = (&UserName, &VhostName, &ExchangeName, &TopicPermissionRecord)> {
        self.permissions.iter().flat_map(|(user, vhosts)| {
            vhosts.iter().flat_map(move |(vhost, held)| {
                held.topics
                    .iter()
                    .map(move |(exchange, record)| (user, vhost, exchange, record))
            })
        })
    }

    /// What a user may do in a vhost.
    pub fn permission(&self, user: &UserName, vhost: &VhostName) -> Option<&PermissionRecord> {
        self.permissions.get(user)?.get(vhost)?.record.as_ref()
    }

    /// What a user may do with the keys of an exchange.
    pub fn topic_permission(
        &self,
        user: &UserName,
        vhost: &VhostName,
        exchange: &str,
    ) -> Option<&TopicPermissionRecord> {
        self.permissions.get(user)?.get(vhost)?.topics.get(exchange)
    }

    pub(super) fn check_user_and_vhost(&self, user: &UserName, vhost: &VhostName) -> Result<()> {
        if self.users.contains_key(user) && self.vhosts.contains_key(vhost) {
            return Ok(());
        }
        Err(Refusal::VhostOrUserNotFound {
            vhost: vhost.clone(),
            user: user.clone(),
        })
    }

    pub(super) fn parse_permission(
        &self,
        user: &UserName,
        vhost: &VhostName,
        configure: &str,
        write: &str,
        read: &str,
    ) -> Result<PermissionRecord> {
        self.check_user_and_vhost(user, vhost)?;
        Ok(PermissionRecord {
            configure: compile(configure)?,
            write: compile(write)?,
            read: compile(read)?,
        })
    }

    pub(super) fn set_permission(
        &mut self,
        user: &UserName,
        vhost: &VhostName,
        record: PermissionRecord,
        events: &mut Vec<MetadataEvent>,
    ) {
        let created = self
            .permissions_mut(user, vhost)
            .record
            .replace(record)
            .is_none();
        self.permission_version += 1;
        events.push(MetadataEvent::PermissionSet {
            user: user.clone(),
            vhost: vhost.clone(),
            created,
        });
    }

    pub(super) fn clear_permission(
        &mut self,
        user: &UserName,
        vhost: &VhostName,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        self.check_user_and_vhost(user, vhost)?;
        let had = self.permissions_mut(user, vhost).record.take().is_some();
        self.drop_empty_permissions(user, vhost);
        if had {
            self.permission_version += 1;
            events.push(MetadataEvent::PermissionCleared {
                user: user.clone(),
                vhost: vhost.clone(),
            });
        }
        Ok(())
    }

    pub(super) fn parse_topic_permission(
        &self,
        user: &UserName,
        vhost: &VhostName,
        write: &str,
        read: &str,
    ) -> Result<TopicPermissionRecord> {
        self.check_user_and_vhost(user, vhost)?;
        Ok(TopicPermissionRecord {
            write: compile_topic(write, user, vhost)?,
            read: compile_topic(read, user, vhost)?,
        })
    }

    pub(super) fn set_topic_permission(
        &mut self,
        user: &UserName,
        vhost: &VhostName,
        exchange: &ExchangeName,
        record: TopicPermissionRecord,
        events: &mut Vec<MetadataEvent>,
    ) {
        let topics = &mut self.permissions_mut(user, vhost).topics;
        let created = topics.insert(exchange.clone(), record).is_none();
        self.permission_version += 1;
        events.push(MetadataEvent::TopicPermissionSet {
            user: user.clone(),
            vhost: vhost.clone(),
            exchange: exchange.clone(),
            created,
        });
    }

    pub(super) fn clear_topic_permission(
        &mut self,
        user: &UserName,
        vhost: &VhostName,
        exchange: Option<&ExchangeName>,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        self.check_user_and_vhost(user, vhost)?;
        let topics = &mut self.permissions_mut(user, vhost).topics;
        let gone: Vec<ExchangeName> = topics
            .keys()
            .filter(|name| exchange.is_none_or(|exchange| exchange == *name))
            .cloned()
            .collect();
        topics.retain(|name, _| !gone.contains(name));
        self.drop_empty_permissions(user, vhost);
        self.permission_version += u64::from(!gone.is_empty());
        events.extend(
            gone.into_iter()
                .map(|exchange| MetadataEvent::TopicPermissionCleared {
                    user: user.clone(),
                    vhost: vhost.clone(),
                    exchange,
                }),
        );
        Ok(())
    }

    fn permissions_mut(&mut self, user: &UserName, vhost: &VhostName) -> &mut UserPermissions {
        self.permissions
            .entry(user.clone())
            .or_default()
            .entry(vhost.clone())
            .or_default()
    }

    fn drop_empty_permissions(&mut self, user: &UserName, vhost: &VhostName) {
        let Some(vhosts) = self.permissions.get_mut(user) else {
            return;
        };
        let is_empty = |held: &UserPermissions| held.record.is_none() && held.topics.is_empty();
        if vhosts.get(vhost).is_some_and(is_empty) {
            vhosts.remove(vhost);
        }
        if vhosts.is_empty() {
            self.permissions.remove(user);
        }
    }
}

fn compile(text: &str) -> Result<Pattern> {
    Pattern::compile_permission(text).map_err(|fault| Refusal::InvalidPattern {
        pattern: text.into(),
        problem: fault.problem,
    })
}

/// The variables stand for the text of the record's own user and vhost, never for an expression
/// that hides in a name.
// rabbitmq docs: access control, topic authorisation variables
fn compile_topic(text: &str, user: &UserName, vhost: &VhostName) -> Result<Pattern> {
    let pattern = compile(text)?;
    if !text.contains(USERNAME_VARIABLE) && !text.contains(VHOST_VARIABLE) {
        return Ok(pattern);
    }
    let expanded = text
        .replace(USERNAME_VARIABLE, &escaped(user.as_str()))
        .replace(VHOST_VARIABLE, &escaped(vhost.as_str()));
    pattern
        .with_program_of(&expanded)
        .map_err(|fault| Refusal::InvalidPattern {
            pattern: text.into(),
            problem: fault.problem,
        })
}

fn escaped(text: &str) -> String {
    // Braces of a name must not become a variable of the next replacement.
    fancy_regex::escape(text).into_owned()
}
