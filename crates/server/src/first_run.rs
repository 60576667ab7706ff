//! What a broker needs before it serves: the defaults of the settings, and, if it is empty, one
//! administrator and one virtual host.
//!
//! Where a user exists none is created: whoever deleted guest does not want it back. Only a user
//! that the environment names is always made.

use std::path::Path;

use auth::{FirstUser, HashedPassword, HashingAlgorithm};
use broker::Broker;
use broker_core::metadata::{Defaults, MetadataChange, VhostRecord};
use broker_core::settings::QuorumDefaults;
use broker_core::{Refusal, UserName, VhostName};

/// Matches every name.
const EVERYTHING: &str = ".*";

/// Most users that the log names at the start.
const USERS_TOLD_MAX: usize = 20;

/// Creates the first user and virtual host if there is no user yet, or if the environment names a
/// user that is missing. Then says which users there are, and where they came from.
pub(crate) async fn populate(
    broker: &Broker,
    first: &FirstUser,
    imported: Option<&Path>,
) -> Result<(), Refusal> {
    let (has_users, has_first) = {
        let metadata = broker.metadata();
        let has_users = metadata.users().next().is_some();
        (
            has_users,
            metadata.user(&UserName::new(&first.user)).is_some(),
        )
    };
    let made = !has_users || (first.is_explicit && !has_first);
    if made {
        let has_vhost = broker
            .metadata()
            .vhost(&VhostName::new(&first.vhost))
            .is_ok();
        let [vhost, user, permission] = changes(first);
        if !has_vhost {
            broker.apply(&vhost).await?;
        }
        // The user comes last: a start that is killed in between is made good by the next one.
        broker.apply(&user).await?;
        broker.apply(&permission).await?;
        tracing::info!(
            user = first.user,
            vhost = first.vhost,
            "created the first user and vhost"
        );
    }
    tell_users(broker, first, made, imported);
    Ok(())
}

fn tell_users(broker: &Broker, first: &FirstUser, made: bool, imported: Option<&Path>) {
    let metadata = broker.metadata();
    for (name, record) in metadata.users().take(USERS_TOLD_MAX) {
        let from = match imported {
            _ if made && name.as_str() == first.user => first.origin().to_owned(),
            Some(path) => format!("the data folder or {}", path.display()),
            None => "the data folder".to_owned(),
        };
        let tags = record.tags.join(",");
        tracing::info!(user = %name, tags, from, "user");
    }
    let count = metadata.users().count();
    if count > USERS_TOLD_MAX {
        tracing::info!(users = count, "there are more users than are listed here");
    }
}

/// Puts the settings' word on quorum queues in the place of the stored one: it may have been
/// changed since the last run.
pub(crate) async fn settle_defaults(
    broker: &Broker,
    quorum: QuorumDefaults,
) -> Result<(), Refusal> {
    let stored = *broker.metadata().defaults();
    if stored.quorum == quorum {
        return Ok(());
    }
    let defaults = Defaults { quorum, ..stored };
    broker
        .apply(&MetadataChange::SetDefaults { defaults })
        .await
        .map(|_| ())
}

fn changes(first: &FirstUser) -> [MetadataChange; 3] {
    let user = UserName::new(&first.user);
    let vhost = VhostName::new(&first.vhost);
    let algorithm = HashingAlgorithm::default();
    let hash = HashedPassword::new(algorithm, first.password.as_bytes());
    [
        MetadataChange::PutVhost {
            vhost: vhost.clone(),
            record: VhostRecord::default(),
        },
        MetadataChange::PutUser {
            user: user.clone(),
            password_hash: hash.to_string().into(),
            hashing_algorithm: algorithm.name().into(),
            tags: vec!["administrator".into()],
        },
        MetadataChange::SetPermission {
            user,
            vhost,
            configure: EVERYTHING.into(),
            write: EVERYTHING.into(),
            read: EVERYTHING.into(),
        },
    ]
}
