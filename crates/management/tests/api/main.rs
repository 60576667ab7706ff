//! The HTTP API over a running broker, asked through a socket: one story a test.

mod access;
mod clients;
mod definitions;
mod disk;
mod events;
mod insight;
mod lists;
mod messages;
mod metrics;
mod support;
mod topology;
mod vhosts;
