//! Broker addresses: `amqp://user:password@host:port/vhost`, and `amqps:` for TLS.
//!
//! Knows the text only; opening a socket is `link`'s. A password is never displayed.

use std::fmt;
use std::str::FromStr;

const PORT: u16 = 5672;
const PORT_TLS: u16 = 5671;

/// Where a broker listens and who we say we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) vhost: String,
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UriFault {
    #[error("an address begins with amqp:// or amqps://, not with {0:?}")]
    Scheme(String),
    #[error("the address has no host")]
    NoHost,
    #[error("{0:?} is no port")]
    Port(String),
    #[error("%{0} is no percent code, or the text it makes is not UTF-8")]
    Percent(String),
    #[error("{0:?} is no option of an address")]
    Query(String),
    #[error("the vhost may hold no further slash; write %2F for one in its name")]
    Path,
}

impl FromStr for Endpoint {
    type Err = UriFault;

    fn from_str(text: &str) -> Result<Self, UriFault> {
        let (tls, rest) = if let Some(rest) = text.strip_prefix("amqp://") {
            (false, rest)
        } else if let Some(rest) = text.strip_prefix("amqps://") {
            (true, rest)
        } else {
            let scheme = text.split("//").next().unwrap_or_default();
            return Err(UriFault::Scheme(scheme.to_owned()));
        };
        if let Some((_, query)) = rest.split_once('?') {
            return Err(UriFault::Query(query.to_owned()));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = match authority.rsplit_once('@') {
            Some((login, address)) => (Some(login), address),
            None => (None, authority),
        };
        let (user, password) = match login {
            Some(login) => split_login(login)?,
            None => ("guest".to_owned(), "guest".to_owned()),
        };
        let (host, port) = split_address(address)?;
        Ok(Self {
            tls,
            host,
            port: port.unwrap_or(if tls { PORT_TLS } else { PORT }),
            user,
            password,
            vhost: vhost_of(path)?,
        })
    }
}

/// Without the password, which would end up in logs and reports.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "amqps" } else { "amqp" };
        let (open, close) = if self.host.contains(':') {
            ("[", "]")
        } else {
            ("", "")
        };
        let (host, port) = (&self.host, self.port);
        write!(f, "{scheme}://{open}{host}{close}:{port}")?;
        if self.vhost != "/" {
            write!(f, "/{}", self.vhost.replace('/', "%2F"))?;
        }
        Ok(())
    }
}

fn split_login(login: &str) -> Result<(String, String), UriFault> {
    let (user, password) = login.split_once(':').unwrap_or((login, "guest"));
    Ok((percent_decoded(user)?, percent_decoded(password)?))
}

fn split_address(address: &str) -> Result<(String, Option<u16>), UriFault> {
    let (host, port) = match address.strip_prefix('[') {
        Some(bracketed) => {
            let (host, behind) = bracketed.split_once(']').ok_or(UriFault::NoHost)?;
            (host, behind.strip_prefix(':'))
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    if host.is_empty() {
        return Err(UriFault::NoHost);
    }
    let port = port
        .map(|port| port.parse().map_err(|_| UriFault::Port(port.to_owned())))
        .transpose()?;
    Ok((percent_decoded(host)?, port))
}

// A missing and an empty path both mean the default vhost: a vhost with an empty name is not
// worth losing the habit of a closing slash for.
fn vhost_of(path: &str) -> Result<String, UriFault> {
    if path.is_empty() {
        return Ok("/".to_owned());
    }
    if path.contains('/') {
        return Err(UriFault::Path);
    }
    percent_decoded(path)
}

fn percent_decoded(text: &str) -> Result<String, UriFault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, behind)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.as_bytes());
        let code = behind.get(..2).unwrap_or(behind);
        let octet = u8::from_str_radix(code, 16)
            .ok()
            .filter(|_| code.len() == 2)
            .ok_or_else(|| UriFault::Percent(code.to_owned()))?;
        bytes.push(octet);
        rest = &behind[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).map_err(|_| UriFault::Percent(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Endpoint, UriFault> {
        text.parse()
    }

    #[test]
    fn what_is_left_out_gets_the_usual_defaults() {
        let endpoint = parse("amqp://broker").unwrap();
        let expected = Endpoint {
            tls: false,
            host: "broker".to_owned(),
            port: 5672,
            user: "guest".to_owned(),
            password: "guest".to_owned(),
            vhost: "/".to_owned(),
        };
        assert_eq!(endpoint, expected);
        assert_eq!(parse("amqp://broker/").unwrap(), expected);
        assert_eq!(parse("amqps://broker").unwrap().port, 5671);
    }

    #[test]
    fn every_part_can_be_given_and_percent_codes_are_undone() {
        let endpoint = parse("amqps://a%40b:p%3Aq@[::1]:7000/x%2Fy").unwrap();
        assert!(endpoint.tls);
        assert_eq!(endpoint.host, "::1");
        assert_eq!(endpoint.port, 7000);
        assert_eq!(endpoint.user, "a@b");
        assert_eq!(endpoint.password, "p:q");
        assert_eq!(endpoint.vhost, "x/y");
    }

    #[test]
    fn the_displayed_address_hides_the_password() {
        let text = parse("amqp://u:secret@[::1]:7000/x%2Fy")
            .unwrap()
            .to_string();
        assert_eq!(text, "amqp://[::1]:7000/x%2Fy");
        assert_eq!(parse("amqp://h").unwrap().to_string(), "amqp://h:5672");
    }

    #[test]
    fn each_bad_part_is_named() {
        assert_eq!(parse("http://h"), Err(UriFault::Scheme("http:".to_owned())));
        assert_eq!(parse("amqp://:5672"), Err(UriFault::NoHost));
        assert_eq!(parse("amqp://[::1"), Err(UriFault::NoHost));
        assert_eq!(
            parse("amqp://h:99999"),
            Err(UriFault::Port("99999".to_owned()))
        );
        assert_eq!(
            parse("amqp://a%4:b@h"),
            Err(UriFault::Percent("4".to_owned()))
        );
        assert_eq!(
            parse("amqp://a%zz:b@h"),
            Err(UriFault::Percent("zz".to_owned()))
        );
        assert_eq!(
            parse("amqp://h?heartbeat=1"),
            Err(UriFault::Query("heartbeat=1".to_owned()))
        );
        assert_eq!(parse("amqp://h/a/b"), Err(UriFault::Path));
    }
}
