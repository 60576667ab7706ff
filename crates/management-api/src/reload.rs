//! Files that the broker reads again while it runs: what became of them, and what they would do.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What became of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadStatus {
    /// The configuration.
    pub configuration: FilesStatus,
    /// Policy files.
    pub policies: FilesStatus,
    /// Keys whose new value counts at the next start only.
    pub restart_needed: Vec<String>,
}

/// What became of one kind of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesStatus {
    /// The files that are in force, in the order in which they count.
    pub files: Vec<String>,
    /// How often files were put into force.
    pub loads: u64,
    /// How often they were refused.
    pub failures: u64,
    /// What is wrong with the files as they are; empty if they are in force.
    pub faults: Vec<String>,
}

impl FilesStatus {
    /// Whether the files as they are are in force.
    pub fn is_good(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Policies of files, as they are given to the broker for a look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyFileBody {
    /// Policies and operator policies: vhost, scope, policy.
    #[serde(default)]
    pub policies: Vec<Value>,
    /// Defaults of virtual hosts: vhost, definition.
    #[serde(default)]
    pub defaults: Vec<Value>,
}
