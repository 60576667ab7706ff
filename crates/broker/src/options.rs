//! What the shell tells the node when it opens.

use std::path::PathBuf;

use broker_core::metadata::{Defaults, Metadata};

/// How a node runs. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Where everything durable lies.
    pub data_dir: PathBuf,
    /// Sizes of the journal and the segments.
    pub storage: storage::Options,
    /// Replica groups that quorum queues are spread over; at least 1. May grow between starts.
    pub groups: u32,
    /// Threads that apply committed entries; at least 1.
    pub commit_threads: usize,
    /// What queues go by when neither argument nor policy says anything.
    pub defaults: Defaults,
}

impl BrokerOptions {
    /// The defaults of a node whose data lies in this directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            storage: storage::Options::default(),
            groups: 8,
            commit_threads: 1,
            defaults: Defaults::default(),
        }
    }

    pub(crate) fn fresh_metadata(&self) -> Metadata {
        Metadata::new(self.defaults)
    }
}
