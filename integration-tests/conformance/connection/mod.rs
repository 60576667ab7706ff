//! Class connection: header, handshake, log-in, tuning, heartbeats, frames and the end.

mod close;
mod content;
mod frames;
mod handshake;
mod heartbeat;
mod login;
mod state;
mod tables;
mod tune;
