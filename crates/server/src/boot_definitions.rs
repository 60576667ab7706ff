//! The file of definitions that a broker shall hold when it starts.
//!
//! Its hash is kept as a parameter of the cluster, so that a file that was imported is not
//! imported again over what was changed since.

use std::fmt::Write;
use std::path::Path;

use broker::Broker;
use broker_core::Refusal;
use broker_core::definitions::Definitions;
use broker_core::metadata::MetadataChange;
use broker_core::term::Term;
use settings::{Place, Problem, SettingsError};
use sha2::{Digest, Sha256};

// rabbitmq: definitions, skip_if_unchanged
const HASH_PARAMETER: &str = "imported_definition_hash_value";

/// Why the file is not imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DefinitionsError {
    /// The file has faults.
    #[error("{0}")]
    File(#[from] SettingsError),
    /// The rules refuse something in it.
    #[error("{path}: {refusal}; correct it, or take `definitions.path` away")]
    Refused {
        /// The file.
        path: String,
        /// What they say.
        refusal: Box<Refusal>,
    },
}

/// Imports a file, unless it was imported already and `skip_if_unchanged`. Answers whether it was
/// imported now.
pub(crate) async fn import(
    broker: &Broker,
    path: &Path,
    skip_if_unchanged: bool,
) -> Result<bool, DefinitionsError> {
    let (definitions, hash) = read(path)?;
    if skip_if_unchanged && stored_hash(broker).as_deref() == Some(hash.as_str()) {
        tracing::info!(file = %path.display(), "definitions are unchanged and not imported again");
        return Ok(false);
    }
    let refused = |refusal| DefinitionsError::Refused {
        path: path.display().to_string(),
        refusal: Box::new(refusal),
    };
    let groups = broker.group_count();
    let changes = definitions.changes(&broker.metadata(), Default::default(), groups);
    let changes = changes.map_err(refused)?;
    let count = changes.len();
    let skipped = broker.import(changes).await.map_err(refused)?;
    let remember = MetadataChange::SetGlobalParameter {
        name: HASH_PARAMETER.into(),
        value: Term::text(&hash),
    };
    broker.apply(&remember).await.map_err(refused)?;
    tracing::info!(
        file = %path.display(), changes = count, skipped_queues = skipped.len(),
        "definitions imported"
    );
    Ok(true)
}

/// Whether the file is one of definitions.
pub(crate) fn check(path: &Path) -> Result<(), DefinitionsError> {
    read(path)?;
    Ok(())
}

fn read(path: &Path) -> Result<(Definitions, String), SettingsError> {
    let octets =
        std::fs::read(path).map_err(|error| SettingsError::unreadable(path, error.to_string()))?;
    let hash = Sha256::digest(&octets)
        .iter()
        .fold(String::new(), |mut hash, octet| {
            // Writing to a string cannot fail.
            let _ = write!(hash, "{octet:02x}");
            hash
        });
    let is_json = octets.trim_ascii_start().starts_with(b"{");
    let definitions = if is_json {
        serde_json::from_slice(&octets).map_err(|error| {
            let place = Place {
                line: error.line(),
                column: error.column(),
            };
            let why = error.to_string();
            SettingsError::at(path, place, Problem::Refused { why })
        })?
    } else {
        settings::read_structured(path)?
    };
    Ok((definitions, hash))
}

fn stored_hash(broker: &Broker) -> Option<String> {
    let metadata = broker.metadata();
    metadata
        .global_parameters()
        .find(|(name, _)| *name == HASH_PARAMETER)
        .and_then(|(_, value)| value.as_text().map(str::to_owned))
}
