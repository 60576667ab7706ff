//! AMQP 0-9-1 for clients: sockets, handshake, heartbeats, frames to channel calls and back.
//!
//! Knows the codec (`amqp`), the engine's `Session` and `Channel` (`broker`), refusals and names
//! (`broker-core`) and logins (`auth`). Must not know storage, the cluster or HTTP. What a method
//! means is decided by the broker; here is decided what the protocol allows at this moment, and
//! in which words the client hears about it.

mod ending;
mod fault;
mod options;
mod reply;

mod listener;
mod socket;

mod connection;
mod handshake;
mod heartbeat;
mod linger;

mod assembler;
mod channel_table;
mod client_traits;
mod dispatch;
mod input;
mod serving;

mod out_buffer;
mod outbox;
mod writer;

pub use listener::{AmqpServer, TlsDoor};
pub use options::{
    AmqpServerOptions, FRAME_SIZE_CEILING, FRAME_SIZE_MIN, LiveOptions, MESSAGE_SIZE_CEILING,
    ServerIdentity,
};
