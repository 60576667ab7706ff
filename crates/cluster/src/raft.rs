//! Replica groups of several members: openraft behind the door of `group`.
//!
//! Knows openraft, the log on our journal and the links to other members; not what a batch means.
//! Nothing of openraft is seen outside of this module.

mod adapter;
mod control;
mod election;
mod group;
mod inbound;
mod log;
mod network;
mod newcomer;
mod outside;
mod pending;
mod replay;
mod types;

pub use group::{RaftGroup, RaftTimes};
pub use log::{LogDisk, LogDone, LogNotes, control_stream};
pub use replay::{LogFault, ReplayedLog};
