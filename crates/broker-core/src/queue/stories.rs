//! The rules of queues as stories. Each test is one rule of the reference.

mod consumers;
mod dead_letters;
mod delayed_retry;
mod delivery_limit;
mod expiry;
mod limits;
mod order;
mod poison;
mod recovery;
mod single_active;
mod timeouts;
