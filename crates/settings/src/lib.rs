//! What the operator wrote: YAML files, environment variables and options into typed values.
//!
//! One call, [`load()`], lays the sources over the built-in defaults and answers with [`Settings`]
//! or with every fault it found, each with its place, the key's path and what to do next. This
//! crate knows no running broker: `server` turns settings into the options of each crate.
//! Policy files will be read here, too; only this crate reads YAML.

mod check;
mod error;
mod key_path;
mod keys;
mod layer;
mod load;
mod overlay;
mod scalar;
mod sections;
mod yaml;

pub use error::{Fault, Origin, Place, Problem, SettingsError};
pub use load::{
    Assignment, CONF_D_FILES_MAX, FILE_BYTES_MAX, Loaded, Sources, VARIABLE_PREFIX, load,
};
pub use overlay::Changed;
pub use scalar::{
    ByteSize, Cap, DeliveryLimitCounts, Listen, LogFormat, Port, ScalarError, Secret, Span,
    Timeout, TimeoutAction, Watermark,
};
pub use sections::{
    Auth, Disk, Limits, Listeners, Log, Memory, Node, Policies, Quorum, Settings, Shutdown, Storage,
};

#[cfg(test)]
mod tests;
