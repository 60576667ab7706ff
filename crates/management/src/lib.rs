//! The HTTP API, its health checks and the metrics of a running broker.
//!
//! Speaks RabbitMQ's paths, shapes and errors (`management-api` holds the shapes) and puts every
//! change through the broker's one door. Must not know frames, storage or settings files; the
//! shell says what to listen on.

mod access;
mod apart;
mod body;
mod bounded_listener;
mod error;
mod internal_client;
mod list;
mod options;
mod paths;
mod process;
mod prometheus;
mod reload;
mod routes;
mod segments;
mod server;
mod show;
mod state;
mod statistics;
mod time;
mod verdict;

pub use options::{ListenerInfo, ManagementOptions};
pub use reload::{ReloadDoor, ReloadRequests, reload_door};
pub use server::{HttpServer, Management};
