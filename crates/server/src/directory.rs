//! The broker's metadata as the directory of users that logins are checked against.

use auth::{UserDirectory, UserRecord};
use broker::Broker;
use broker_core::UserName;

/// Looks users up in the broker's metadata.
pub(crate) struct MetadataDirectory(pub(crate) Broker);

impl UserDirectory for MetadataDirectory {
    fn user(&self, name: &str) -> Option<UserRecord> {
        let metadata = self.0.metadata();
        let record = metadata.user(&UserName::new(name))?;
        Some(UserRecord {
            password_hash: record.password_hash.clone(),
            hashing_algorithm: record.hashing_algorithm.clone(),
            tags: record.tags.clone(),
        })
    }
}
