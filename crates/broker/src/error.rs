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
    /// The operator's fault: queues live in groups that would not be there.
    #[error(
        "`quorum.groups` is {configured}, but stored queues are spread over at least {needed} groups; it may \
         grow between starts, not shrink: set it to {needed} or more"
    )]
    FewerGroups {
        /// What the options say.
        configured: u32,
        /// What the stored queues need.
        needed: u32,
    },
    /// The log of a replica group does not fit together.
    #[error(transparent)]
    Log(#[from] cluster::LogFault),
    /// A replica group does not start.
    #[error("the replica group of stream {stream} does not start: {why}")]
    Group {
        /// The group's stream in the journal.
        stream: u32,
        /// What is wrong.
        why: String,
    },
    /// The data is a cluster's, the configuration is not.
    #[error("the data directory belongs to a node of a cluster: set cluster.nodes as it was")]
    Clustered,
    /// The configuration is a cluster's, the data is not.
    #[error(
        "the data directory belongs to a node without a cluster, which cannot become one of several: \
         start this node with an empty directory, and import definitions"
    )]
    NotClustered,
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
