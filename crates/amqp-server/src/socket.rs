//! Listening sockets and the options of accepted ones. Knows no AMQP.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Opens a listening socket. Port 0 lets the system choose.
///
/// # Errors
/// What the system says: the address is in use, not ours, or not allowed.
pub(crate) fn listen(address: SocketAddr, backlog: i32) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restarted broker takes its port back while old connections still linger.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `[::]` serves both families, whatever the system's default is.
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// Sets an accepted socket up: small frames leave at once, and a peer whose machine vanished is
/// found out by the system even where heartbeats are off.
pub(crate) fn prepare(stream: &tokio::net::TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_keepalive(true)
}

/// Whether waiting helps after a failed accept: the process or the system is out of something.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
