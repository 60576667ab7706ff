//! A whole cluster in one thread: the code of `cluster` on modelled links, disks and time, driven by
//! one seed.
//!
//! Knows `cluster` from outside only. The network loses, delays, reorders and cuts; disks forget what
//! was not synced when a node crashes; time is tokio's paused clock. What a run must keep to is in
//! `oracle`.

mod disk;
mod machine;
mod network;
mod oracle;
mod run;

pub use oracle::Violation;
pub use run::{Faults, Outcome, run};
