//! Where a listener waits for connections: `5672`, `127.0.0.1:5673`, `[::]:5672`, `off`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use super::{ScalarError, serde_as_text};

/// A listener's place, or that there is none.
///
/// Read: `PORT` or `:PORT` (every interface), `IP:PORT`, `[IPv6]:PORT`, `localhost:PORT` (the
/// IPv4 loopback address), `off`. Port 0 lets the system choose a free port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listen {
    /// No listener.
    Off,
    /// On every interface: IPv6 and IPv4 where the system has both, IPv4 alone where it has not.
    Everywhere(Port),
    /// On one address.
    At(SocketAddr),
}

/// A TCP port; 0 means "any free one".
pub type Port = u16;

impl Listen {
    pub(crate) const EXPECTED: &'static str = "a place to listen: a port such as 5672, an address \
         with a port such as 127.0.0.1:5672 or [::1]:5672, or off";
}

impl FromStr for Listen {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        let fault = || ScalarError::new(text, Self::EXPECTED);
        if text == "off" {
            return Ok(Self::Off);
        }
        let port_text = text.strip_prefix(':').unwrap_or(text);
        if port_text.bytes().all(|b| b.is_ascii_digit()) {
            return port(port_text)
                .map(Self::Everywhere)
                .map_err(|hint| fault().hint(hint));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self::At(address));
        }
        if let Some(port_text) = text.strip_prefix("localhost:") {
            let at = |port| Self::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
            return port(port_text).map(at).map_err(|hint| fault().hint(hint));
        }
        Err(match address_hint(text) {
            Some(hint) => fault().hint(hint),
            None => fault(),
        })
    }
}

fn port(text: &str) -> Result<Port, &'static str> {
    if text.len() > 1 && text.starts_with('0') {
        return Err("a port does not start with 0");
    }
    text.parse()
        .map_err(|_| "a port is a whole number from 0 to 65535")
}

fn address_hint(text: &str) -> Option<String> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        let with_port = SocketAddr::new(ip, 5672);
        return Some(format!("the port is missing, as in {with_port}"));
    }
    let (host, port_text) = text.rsplit_once(':')?;
    if port_text.is_empty() || !port_text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if host == "*" {
        return Some(format!("every interface is written {port_text} alone"));
    }
    Some("host names are not looked up: write the interface's IP address".to_owned())
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Everywhere(port) => write!(f, "{port}"),
            Self::At(address) => write!(f, "{address}"),
        }
    }
}

serde_as_text!(Listen);
