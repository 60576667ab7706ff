//! The engine without a socket: sessions and channels called directly, what leaves collected.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod client;
mod disk;
mod durability;
mod flow;
mod messages;
mod quorum;
mod tenants;
