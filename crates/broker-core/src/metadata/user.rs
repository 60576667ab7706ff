//! Users come and go; passwords are known as hashes only.

use super::bounds::USERS_MAX;
use super::event::MetadataEvent;
use super::record::{Limits, UserRecord};
use super::{Metadata, User, check_name_length, check_room};
use crate::names::UserName;
use crate::refusal::{Refusal, Result};

impl Metadata {
    /// The users, by name.
    pub fn users(&self) -> impl Iterator<Item = (&UserName, &UserRecord)> {
        self.users.iter().map(|(name, user)| (name, &user.record))
    }

    /// A user.
    pub fn user(&self, user: &UserName) -> Option<&UserRecord> {
        self.users.get(user).map(|user| &user.record)
    }

    /// The limits of a user.
    pub fn user_limits(&self, user: &UserName) -> Option<&Limits> {
        self.users.get(user).map(|user| &user.limits)
    }

    pub(super) fn check_user(&self, user: &UserName) -> Result<()> {
        match self.users.contains_key(user) {
            true => Ok(()),
            false => Err(Refusal::UserNotFound { user: user.clone() }),
        }
    }

    pub(super) fn user_mut(&mut self, user: &UserName) -> Result<&mut User> {
        self.users
            .get_mut(user)
            .ok_or_else(|| Refusal::UserNotFound { user: user.clone() })
    }

    pub(super) fn check_put_user(&self, user: &UserName) -> Result<()> {
        if self.users.contains_key(user) {
            return Ok(());
        }
        check_name_length("user", user.as_str())?;
        check_room("user", self.users.len(), USERS_MAX)
    }

    pub(super) fn put_user(
        &mut self,
        user: &UserName,
        record: UserRecord,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        self.check_put_user(user)?;
        let created = !self.users.contains_key(user);
        self.users.entry(user.clone()).or_default().record = record;
        self.note_user_put(user, created, events);
        Ok(())
    }

    pub(super) fn set_password(
        &mut self,
        user: &UserName,
        password_hash: &str,
        hashing_algorithm: &str,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let record = &mut self.user_mut(user)?.record;
        record.password_hash = password_hash.into();
        record.hashing_algorithm = hashing_algorithm.into();
        self.note_user_put(user, false, events);
        Ok(())
    }

    pub(super) fn set_user_tags(
        &mut self,
        user: &UserName,
        tags: &[Box<str>],
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        self.user_mut(user)?.record.tags = tags.to_vec();
        self.note_user_put(user, false, events);
        Ok(())
    }

    fn note_user_put(&mut self, user: &UserName, created: bool, events: &mut Vec<MetadataEvent>) {
        self.permission_version += 1;
        events.push(MetadataEvent::UserPut {
            user: user.clone(),
            created,
        });
    }

    pub(super) fn delete_user(&mut self, user: &UserName, events: &mut Vec<MetadataEvent>) {
        if self.users.remove(user).is_none() {
            return;
        }
        self.permissions.remove(user);
        self.permission_version += 1;
        events.push(MetadataEvent::UserDeleted { user: user.clone() });
    }
}
