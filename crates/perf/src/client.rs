//! The tool's own AMQP client: one connection, driven by its owner.
//!
//! `link` opens the socket, `handshake` shakes hands, `connection` moves bytes and asks questions.
//! Nothing here knows producers, consumers or figures.

mod connection;
mod fault;
mod handshake;
mod link;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use connection::{Connection, WRITE_BYTES_MAX, acknowledge_close, closing_fault};
pub(crate) use fault::ClientFault;
pub(crate) use handshake::{ClientOptions, ServerIdentity};
pub(crate) use link::TlsTrust;
