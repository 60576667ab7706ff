//! Why a node does not start.

use std::path::PathBuf;

use storage::StorageError;

/// Start-up failed; nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data directory could not be made.
    #[error("cannot create the data directory {}: {source}", path.display())]
    CreateDataDir {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The stored metadata cannot be read.
    #[error("the stored metadata cannot be read: {0}")]
    Metadata(Box<dyn std::error::Error + Send + Sync>),
    /// The stored metadata was written by another release.
    #[error("the stored metadata has format {found}, this release reads format 1")]
    MetadataFormat {
        /// The format it names.
        found: u32,
    },
    /// A stored batch or checkpoint cannot be read.
    #[error("the stored state of {what} cannot be read")]
    Unreadable {
        /// Whose state it is.
        what: String,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// Storage refuses or fails.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl OpenError {
    pub(crate) fn metadata(error: serde_json::Error) -> Self {
        Self::Metadata(Box::new(error))
    }
}
