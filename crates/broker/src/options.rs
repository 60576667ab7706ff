//! What the shell tells the node when it opens.

use std::path::PathBuf;

use broker_core::flow::Levers;
use broker_core::metadata::{Defaults, Metadata};

use crate::flow::FlowOptions;

/// How a node runs. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// What the node is called in traces.
    pub name: String,
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
    /// How publishers are held.
    pub flow: FlowOptions,
    /// Which levers hold which clients, until `Broker::set_levers`.
    pub levers: Levers,
    /// The cluster that the node is part of, if any.
    pub cluster: Option<crate::replication::ClusterOptions>,
}

impl BrokerOptions {
    /// The defaults of a node whose data lies in this directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            name: "sluicemq@localhost".to_owned(),
            data_dir: data_dir.into(),
            storage: storage::Options::default(),
            groups: 8,
            commit_threads: 1,
            defaults: Defaults::default(),
            flow: FlowOptions::default(),
            levers: Levers::default(),
            cluster: None,
        }
    }

    pub(crate) fn fresh_metadata(&self) -> Metadata {
        Metadata::new(self.defaults)
    }
}
