//! From a listener's setting to a bound socket, and the words when that fails.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use settings::Listen;

/// A listener that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("`{key}`: cannot listen on {address}: {why}; {next}")]
pub(crate) struct ListenError {
    key: &'static str,
    address: SocketAddr,
    why: String,
    next: String,
}

/// Binds the listener of a key with `bind`; `None` if it is off.
///
/// "Every interface" is tried on IPv6, which serves IPv4 clients as well; on a system without
/// IPv6 it is IPv4.
pub(crate) fn bind<T>(
    key: &'static str,
    listen: Listen,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> Result<Option<T>, ListenError> {
    let (address, bound) = match listen {
        Listen::Off => return Ok(None),
        Listen::At(address) => (address, bind(address)),
        Listen::Everywhere(port) => {
            let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
            match bind(six) {
                Err(error) if lacks_ipv6(&error) => {
                    let four = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
                    (four, bind(four))
                }
                other => (six, other),
            }
        }
    };
    bound
        .map(Some)
        .map_err(|error| ListenError::new(key, address, &error))
}

/// The number behind "address family not supported by protocol", which the standard library has
/// no name for.
const ADDRESS_FAMILY_NOT_SUPPORTED: i32 = 97;

fn lacks_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(ADDRESS_FAMILY_NOT_SUPPORTED)
}

impl ListenError {
    fn new(key: &'static str, address: SocketAddr, error: &io::Error) -> Self {
        let (why, next) = match error.kind() {
            io::ErrorKind::AddrInUse => (
                "another program has the port".to_owned(),
                format!("stop it, or choose another port with --set {key}=PORT (0: a free one)"),
            ),
            io::ErrorKind::PermissionDenied => (
                "the system does not let this user have the port".to_owned(),
                format!("choose one above 1023 with --set {key}=PORT"),
            ),
            io::ErrorKind::AddrNotAvailable => (
                "no interface of this machine has the address".to_owned(),
                format!(
                    "write one that it has, or --set {key}={} for all",
                    address.port()
                ),
            ),
            _ => (error.to_string(), format!("check `{key}`")),
        };
        Self {
            key,
            address,
            why,
            next,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const KEY: &str = "listeners.amqp";

    fn listen(text: &str) -> Listen {
        text.parse().expect("a place to listen")
    }

    #[test]
    fn off_binds_nothing() {
        let bound = bind(KEY, Listen::Off, |_| -> io::Result<()> {
            panic!("nothing to bind")
        });
        assert!(matches!(bound, Ok(None)));
    }

    #[test]
    fn port_zero_finds_a_free_port() {
        let bound = bind(KEY, listen("127.0.0.1:0"), TcpListener::bind).expect("a free port");
        assert_ne!(
            bound.expect("not off").local_addr().expect("bound").port(),
            0
        );
    }

    #[test]
    fn a_port_that_is_taken_is_told_with_what_to_do() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = taken.local_addr().expect("bound");
        let error = bind(KEY, Listen::At(address), TcpListener::bind).expect_err("taken");
        assert_eq!(
            error.to_string(),
            format!(
                "`listeners.amqp`: cannot listen on {address}: another program has the port; \
                 stop it, or choose another port with --set listeners.amqp=PORT (0: a free one)"
            )
        );
    }

    #[test]
    fn an_address_of_another_machine_is_told_with_what_to_do() {
        let error = bind(KEY, listen("192.0.2.1:5672"), TcpListener::bind).expect_err("not ours");
        assert_eq!(
            error.to_string(),
            "`listeners.amqp`: cannot listen on 192.0.2.1:5672: no interface of this machine has \
             the address; write one that it has, or --set listeners.amqp=5672 for all"
        );
    }

    #[test]
    fn every_interface_falls_back_to_ipv4_where_there_is_no_ipv6() {
        let only_four = |address: SocketAddr| match address {
            SocketAddr::V6(_) => Err(io::Error::from_raw_os_error(ADDRESS_FAMILY_NOT_SUPPORTED)),
            SocketAddr::V4(four) => Ok(four),
        };
        let bound = bind(KEY, listen("5672"), only_four).expect("IPv4 is there");
        assert_eq!(bound.expect("not off").to_string(), "0.0.0.0:5672");
    }

    #[test]
    fn every_interface_does_not_hide_a_taken_port_behind_the_fallback() {
        let taken = |_| -> io::Result<()> { Err(io::ErrorKind::AddrInUse.into()) };
        let error = bind(KEY, listen("5672"), taken).expect_err("taken");
        assert!(
            error.to_string().contains("cannot listen on [::]:5672"),
            "{error}"
        );
    }
}
