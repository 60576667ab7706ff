//! What systemd is told (Type=notify): ready, reloading, stopping. Without it nobody is told.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const SOCKET: &str = "NOTIFY_SOCKET";

/// The broker serves.
pub(crate) fn ready() {
    tell("READY=1\n");
}

/// Files are read again.
pub(crate) fn reloading() {
    let micros = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = micros.tv_sec * 1_000_000 + micros.tv_nsec / 1_000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\n"));
}

/// The broker stops.
pub(crate) fn stopping() {
    tell("STOPPING=1\n");
}

fn tell(words: &str) {
    let Some(name) = std::env::var_os(SOCKET) else {
        return;
    };
    // sd_notify(3): a name that begins with @ is abstract
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&name),
    };
    let told = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(words.as_bytes(), &address));
    if let Err(error) = told {
        tracing::warn!(%error, "the service manager cannot be told of the broker's state");
    }
}
