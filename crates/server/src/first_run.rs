//! What a broker needs before it serves: the defaults of the settings, and, if it is empty, one
//! administrator and one virtual host.
//!
//! Where a user exists none is created: whoever deleted guest does not want it back.

use auth::{FirstUser, HashedPassword, HashingAlgorithm};
use broker::Broker;
use broker_core::metadata::{Defaults, MetadataChange, VhostRecord};
use broker_core::settings::QuorumDefaults;
use broker_core::{Refusal, UserName, VhostName};

/// Matches every name.
const EVERYTHING: &str = ".*";

/// Creates the first user and virtual host if there is no user yet.
pub(crate) async fn populate(broker: &Broker, first: &FirstUser) -> Result<(), Refusal> {
    let has_users = broker.metadata().users().next().is_some();
    if has_users {
        return Ok(());
    }
    // The user comes last: a start that is killed in between is made good by the next one.
    for change in changes(first) {
        broker.apply(&change).await?;
    }
    tracing::info!(
        user = first.user,
        vhost = first.vhost,
        "created the first user and vhost"
    );
    Ok(())
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
