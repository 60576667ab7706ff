//! SASL mechanisms as pure functions: a response's bytes to what the client claims to be.
//!
//! Each mechanism here needs one response and no challenge.

use amqp::{Table, Value};

/// A way to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// `ANONYMOUS`: no name, no password.
    Anonymous,
    /// `AMQPLAIN`: name and password in a field table, older than SASL's PLAIN.
    AmqPlain,
    /// `PLAIN`: name and password behind zero octets.
    // rfc 4616
    Plain,
    /// `EXTERNAL`: the name in the client's TLS certificate, which was checked before.
    // rfc 4422, appendix A
    External,
}

/// What a client says about itself; nothing of it is checked.
#[derive(Clone, PartialEq, Eq)]
pub enum Claim {
    /// A user with a password. Either may be empty, and need not be UTF-8.
    Password {
        /// The name.
        user: Vec<u8>,
        /// The password.
        password: Vec<u8>,
    },
    /// Nobody in particular.
    Nobody,
    /// Whom its certificate names.
    Certificate,
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Password { user, .. } => {
                let user = String::from_utf8_lossy(user);
                f.debug_struct("Password")
                    .field("user", &user)
                    .finish_non_exhaustive()
            }
            Self::Nobody => f.write_str("Nobody"),
            Self::Certificate => f.write_str("Certificate"),
        }
    }
}

/// A response that does not have the mechanism's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// PLAIN: not a zero octet, a name, a zero octet and a password.
    #[error("a PLAIN response is a zero octet, the name, a zero octet and the password")]
    Plain,
    /// AMQPLAIN: not the entries of a field table.
    #[error("an AMQPLAIN response is a field table without its length")]
    NoTable,
    /// AMQPLAIN: a field is missing or no string.
    #[error("an AMQPLAIN response has the string fields LOGIN and PASSWORD")]
    NoField,
}

impl Mechanism {
    /// Every mechanism, in the order in which they are offered.
    pub const ALL: [Self; 4] = [Self::Anonymous, Self::AmqPlain, Self::Plain, Self::External];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "ANONYMOUS",
            Self::AmqPlain => "AMQPLAIN",
            Self::Plain => "PLAIN",
            Self::External => "EXTERNAL",
        }
    }

    /// The mechanism of this name, written exactly so.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|mechanism| mechanism.name() == name)
    }

    /// Reads a client's response.
    ///
    /// # Errors
    /// [`Malformed`] if it does not have the mechanism's form.
    pub fn read(self, response: &[u8]) -> Result<Claim, Malformed> {
        match self {
            // rabbitmq: whatever an anonymous client says is not looked at
            Self::Anonymous => Ok(Claim::Nobody),
            // rabbitmq: the response of EXTERNAL is not looked at
            Self::External => Ok(Claim::Certificate),
            Self::AmqPlain => read_amqplain(response),
            Self::Plain => read_plain(response),
        }
    }
}

/// rabbitmq: an authorization identity before the first zero octet, or a third zero octet, is an
/// error although the RFC has a place for the former.
fn read_plain(response: &[u8]) -> Result<Claim, Malformed> {
    let mut parts = response.split(|octet| *octet == 0);
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some([]), Some(user), Some(password), None) => Ok(Claim::Password {
            user: user.to_vec(),
            password: password.to_vec(),
        }),
        _ => Err(Malformed::Plain),
    }
}

fn read_amqplain(response: &[u8]) -> Result<Claim, Malformed> {
    let table = Table::decode(response).map_err(|_| Malformed::NoTable)?;
    let field = |name: &str| match table.get(name) {
        Some(Value::LongString(octets) | Value::ByteArray(octets)) => {
            Ok(octets.as_bytes().to_vec())
        }
        _ => Err(Malformed::NoField),
    };
    Ok(Claim::Password {
        user: field("LOGIN")?,
        password: field("PASSWORD")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(user: &[u8], password: &[u8]) -> Result<Claim, Malformed> {
        Ok(Claim::Password {
            user: user.to_vec(),
            password: password.to_vec(),
        })
    }

    #[test]
    fn plain_is_two_texts_behind_zero_octets() {
        let read = |response: &[u8]| Mechanism::Plain.read(response);
        assert_eq!(read(b"\0guest\0secret"), claim(b"guest", b"secret"));
        assert_eq!(read(b"\0guest\0"), claim(b"guest", b""));
        assert_eq!(read(b"\0\0secret"), claim(b"", b"secret"));
        assert_eq!(read(b"\0\0"), claim(b"", b""));
        assert_eq!(read(b"\0\xff\0\xfe"), claim(b"\xff", b"\xfe"));
    }

    #[test]
    fn plain_in_any_other_form_is_malformed() {
        let responses: [&[u8]; 7] = [
            b"",
            b"\0",
            b"guest",
            b"\0guest",
            b"guest\0secret",
            b"other\0guest\0secret",
            b"\0guest\0secret\0",
        ];
        for response in responses {
            assert_eq!(
                Mechanism::Plain.read(response),
                Err(Malformed::Plain),
                "{response:?}"
            );
        }
    }

    /// One table entry, by hand: name, type octet, length, octets.
    fn entry(name: &str, letter: u8, octets: &[u8]) -> Vec<u8> {
        let length = u32::try_from(octets.len()).expect("short").to_be_bytes();
        let name_length = u8::try_from(name.len()).expect("short");
        [&[name_length], name.as_bytes(), &[letter], &length, octets].concat()
    }

    #[test]
    fn amqplain_is_a_table_without_its_length() {
        for letter in [b'S', b'x'] {
            let response = [
                entry("LOGIN", letter, b"guest"),
                entry("PASSWORD", letter, b"s\0t"),
            ]
            .concat();
            assert_eq!(
                Mechanism::AmqPlain.read(&response),
                claim(b"guest", b"s\0t")
            );
        }
    }

    #[test]
    fn amqplain_takes_fields_in_any_order_and_ignores_others() {
        let response = [
            entry("PASSWORD", b'S', b""),
            entry("X", b'S', b"y"),
            entry("LOGIN", b'S', b"u"),
        ];
        assert_eq!(
            Mechanism::AmqPlain.read(&response.concat()),
            claim(b"u", b"")
        );
    }

    #[test]
    fn amqplain_without_a_field_or_with_another_type_is_malformed() {
        let login = entry("LOGIN", b'S', b"guest");
        let lower = [login.clone(), entry("password", b'S', b"x")].concat();
        let number = [login.clone(), b"\x08PASSWORDI\0\0\0\x07".to_vec()].concat();
        for response in [Vec::new(), login, lower, number] {
            assert_eq!(Mechanism::AmqPlain.read(&response), Err(Malformed::NoField));
        }
    }

    #[test]
    fn amqplain_that_is_no_table_is_malformed() {
        let good = [
            entry("LOGIN", b'S', b"guest"),
            entry("PASSWORD", b'S', b"x"),
        ]
        .concat();
        let with_length = [&29u32.to_be_bytes(), good.as_slice()].concat();
        let cut = good[..good.len() - 1].to_vec();
        let huge = b"\x05LOGINS\xff\xff\xff\xffguest".to_vec();
        for response in [with_length, cut, huge, b"\0guest\0guest".to_vec()] {
            assert_eq!(Mechanism::AmqPlain.read(&response), Err(Malformed::NoTable));
        }
    }

    #[test]
    fn anonymous_does_not_look_at_the_response() {
        for response in [&b""[..], b"\0guest\0guest", b"\xff"] {
            assert_eq!(Mechanism::Anonymous.read(response), Ok(Claim::Nobody));
        }
    }

    #[test]
    fn names_are_written_exactly() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::by_name(mechanism.name()), Some(mechanism));
        }
        for name in ["", "plain", "PLAIN ", "RABBIT-CR-DEMO"] {
            assert_eq!(Mechanism::by_name(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_password_does_not_print_in_a_dump() {
        let claim = Mechanism::Plain
            .read(b"\0guest\0hunter2")
            .expect("well formed");
        assert_eq!(format!("{claim:?}"), "Password { user: \"guest\", .. }");
    }
}
