//! What the operator wrote: YAML files, environment variables and options into typed values.
//!
//! One call, [`load()`], lays the sources over the built-in defaults and answers with [`Settings`]
//! or with every fault it found, each with its place, the key's path and what to do next. This
//! crate knows no running broker: `server` turns settings into the options of each crate.
//! Policy files are read here, too: of the rules this crate knows those of policies, so that a
//! file can be judged before a broker sees it. Only this crate reads YAML.

mod check;
mod error;
mod explain;
mod key_path;
mod keys;
mod layer;
mod load;
mod overlay;
mod policy_files;
mod rabbitmq_conf;
mod scalar;
mod sections;
mod watch;
mod yaml;

pub use error::{Fault, Origin, Place, Problem, SettingsError};
pub use explain::{Explanation, explain, key_names};
pub use load::{
    Assignment, CONF_D_FILES_MAX, FILE_BYTES_MAX, Loaded, Sources, VARIABLE_PREFIX, load,
    read_structured,
};
pub use overlay::{Changed, differing_keys};
pub use policy_files::{PolicyFiles, load_policies};
pub use rabbitmq_conf::{ConfLine, Understood};
pub use scalar::{
    ByteSize, Cap, ClientCertificates, DeadLetterStrategy, DelayedRetry, DeliveryLimitCounts,
    Lever, Listen, LogFormat, LoginFrom, Port, SanType, ScalarError, Secret, Span, Timeout,
    TimeoutAction, TlsVersion, Watermark,
};
pub use sections::{
    Auth, Definitions, Disk, Flow, FlowClient, FlowUser, FlowVhost, Limits, Listeners, Log, Memory,
    Node, Policies, Quorum, Settings, Shutdown, Storage, Tls,
};
pub use watch::Fingerprint;

#[cfg(test)]
mod tests;
