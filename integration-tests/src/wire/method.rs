//! Methods of AMQP 0-9-1 with RabbitMQ's extensions, driven by one table of names and fields.
//! Knows how arguments are laid out, not what they mean.

use super::reader::{Malformed, Reader};
use super::value::{Table, put_long_string, put_short_string};

/// One argument of a method.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// One bit; neighbours share octets.
    Bit(bool),
    /// 8 bits.
    Octet(u8),
    /// 16 bits.
    Short(u16),
    /// 32 bits.
    Long(u32),
    /// 64 bits.
    LongLong(u64),
    /// At most 255 octets.
    ShortString(Vec<u8>),
    /// At most 4 GiB.
    LongString(Vec<u8>),
    /// A field table.
    Table(Table),
}

/// A method with its arguments in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Method {
    /// `class.method`, as in the specification.
    pub name: &'static str,
    /// The arguments, in the order of the specification.
    pub arguments: Vec<Argument>,
}

/// Name, class, method and fields: `b` bit, `B` octet, `H` short, `I` long, `Q` long long,
/// `s` short string, `S` long string, `F` table.
const METHODS: &[(&str, u16, u16, &str)] = &[
    ("connection.start", 10, 10, "BBFSS"),
    ("connection.start-ok", 10, 11, "FsSs"),
    ("connection.secure", 10, 20, "S"),
    ("connection.secure-ok", 10, 21, "S"),
    ("connection.tune", 10, 30, "HIH"),
    ("connection.tune-ok", 10, 31, "HIH"),
    ("connection.open", 10, 40, "ssb"),
    ("connection.open-ok", 10, 41, "s"),
    ("connection.close", 10, 50, "HsHH"),
    ("connection.close-ok", 10, 51, ""),
    ("connection.blocked", 10, 60, "s"),
    ("connection.unblocked", 10, 61, ""),
    ("connection.update-secret", 10, 70, "Ss"),
    ("connection.update-secret-ok", 10, 71, ""),
    ("channel.open", 20, 10, "s"),
    ("channel.open-ok", 20, 11, "S"),
    ("channel.flow", 20, 20, "b"),
    ("channel.flow-ok", 20, 21, "b"),
    ("channel.close", 20, 40, "HsHH"),
    ("channel.close-ok", 20, 41, ""),
    ("access.request", 30, 10, "sbbbbb"),
    ("access.request-ok", 30, 11, "H"),
    ("exchange.declare", 40, 10, "HssbbbbbF"),
    ("exchange.declare-ok", 40, 11, ""),
    ("exchange.delete", 40, 20, "Hsbb"),
    ("exchange.delete-ok", 40, 21, ""),
    ("exchange.bind", 40, 30, "HsssbF"),
    ("exchange.bind-ok", 40, 31, ""),
    ("exchange.unbind", 40, 40, "HsssbF"),
    ("exchange.unbind-ok", 40, 51, ""),
    ("queue.declare", 50, 10, "HsbbbbbF"),
    ("queue.declare-ok", 50, 11, "sII"),
    ("queue.bind", 50, 20, "HsssbF"),
    ("queue.bind-ok", 50, 21, ""),
    ("queue.purge", 50, 30, "Hsb"),
    ("queue.purge-ok", 50, 31, "I"),
    ("queue.delete", 50, 40, "Hsbbb"),
    ("queue.delete-ok", 50, 41, "I"),
    ("queue.unbind", 50, 50, "HsssF"),
    ("queue.unbind-ok", 50, 51, ""),
    ("basic.qos", 60, 10, "IHb"),
    ("basic.qos-ok", 60, 11, ""),
    ("basic.consume", 60, 20, "HssbbbbF"),
    ("basic.consume-ok", 60, 21, "s"),
    ("basic.cancel", 60, 30, "sb"),
    ("basic.cancel-ok", 60, 31, "s"),
    ("basic.publish", 60, 40, "Hssbb"),
    ("basic.return", 60, 50, "Hsss"),
    ("basic.deliver", 60, 60, "sQbss"),
    ("basic.get", 60, 70, "Hsb"),
    ("basic.get-ok", 60, 71, "QbssI"),
    ("basic.get-empty", 60, 72, "s"),
    ("basic.ack", 60, 80, "Qb"),
    ("basic.reject", 60, 90, "Qb"),
    ("basic.recover-async", 60, 100, "b"),
    ("basic.recover", 60, 110, "b"),
    ("basic.recover-ok", 60, 111, ""),
    ("basic.nack", 60, 120, "Qbb"),
    ("confirm.select", 85, 10, "b"),
    ("confirm.select-ok", 85, 11, ""),
    ("tx.select", 90, 10, ""),
    ("tx.select-ok", 90, 11, ""),
    ("tx.commit", 90, 20, ""),
    ("tx.commit-ok", 90, 21, ""),
    ("tx.rollback", 90, 30, ""),
    ("tx.rollback-ok", 90, 31, ""),
];

/// Class and method number of a method by name.
///
/// # Panics
/// When there is no such method.
pub fn id_of(name: &str) -> (u16, u16) {
    let known = METHODS.iter().find(|(known, ..)| *known == name);
    known
        .map(|(_, class, method, _)| (*class, *method))
        .expect("A test names methods that exist.")
}

impl Method {
    /// A method by name; the arguments must fit its fields.
    ///
    /// # Panics
    /// When there is no such method or the arguments are others than it has.
    pub fn new(name: &str, arguments: Vec<Argument>) -> Method {
        let known = METHODS.iter().find(|(known, ..)| *known == name);
        let (name, _, _, fields) = known.expect("A test names methods that exist.");
        let given: String = arguments.iter().map(Argument::letter).collect();
        assert_eq!(&given, fields, "arguments of {name}");
        Method { name, arguments }
    }

    /// Class and method number.
    pub fn id(&self) -> (u16, u16) {
        id_of(self.name)
    }

    /// The payload of the method frame.
    pub fn encode(&self) -> Vec<u8> {
        let (class, method) = self.id();
        let mut out = Vec::new();
        out.extend(class.to_be_bytes());
        out.extend(method.to_be_bytes());
        let mut bits = Bits::default();
        for argument in &self.arguments {
            if let Argument::Bit(bit) = argument {
                bits.push(*bit);
                continue;
            }
            bits.flush(&mut out);
            match argument {
                Argument::Bit(_) => {}
                Argument::Octet(n) => out.push(*n),
                Argument::Short(n) => out.extend(n.to_be_bytes()),
                Argument::Long(n) => out.extend(n.to_be_bytes()),
                Argument::LongLong(n) => out.extend(n.to_be_bytes()),
                Argument::ShortString(octets) => put_short_string(&mut out, octets),
                Argument::LongString(octets) => put_long_string(&mut out, octets),
                Argument::Table(table) => table.encode(&mut out),
            }
        }
        bits.flush(&mut out);
        out
    }

    /// Reads the payload of a method frame.
    pub fn decode(payload: &[u8]) -> Result<Method, Malformed> {
        let mut reader = Reader::new(payload);
        let id = (reader.short()?, reader.short()?);
        let known = METHODS
            .iter()
            .find(|(_, class, method, _)| (*class, *method) == id);
        let Some((name, _, _, fields)) = known else {
            return Err(Malformed(format!("method {}/{} is unknown", id.0, id.1)));
        };
        let mut arguments = Vec::with_capacity(fields.len());
        let mut bits: Option<(u8, u8)> = None;
        for field in fields.chars() {
            if field != 'b' {
                bits = None;
            }
            arguments.push(match field {
                'b' => {
                    let (octet, next) = match bits {
                        Some((octet, next)) => (octet, next),
                        None => (reader.octet()?, 0),
                    };
                    bits = Some((octet, next + 1));
                    Argument::Bit(octet & (1 << next) != 0)
                }
                'B' => Argument::Octet(reader.octet()?),
                'H' => Argument::Short(reader.short()?),
                'I' => Argument::Long(reader.long()?),
                'Q' => Argument::LongLong(reader.long_long()?),
                's' => Argument::ShortString(reader.short_string()?.to_vec()),
                'S' => Argument::LongString(reader.long_string()?.to_vec()),
                _ => Argument::Table(Table::decode(&mut reader)?),
            });
        }
        if !reader.is_empty() {
            return Err(Malformed(format!(
                "{} octets follow {name}",
                reader.rest().len()
            )));
        }
        Ok(Method { name, arguments })
    }

    /// The text of the string argument at `index`.
    ///
    /// # Panics
    /// When there is no string there.
    #[track_caller]
    pub fn text(&self, index: usize) -> String {
        match &self.arguments[index] {
            Argument::ShortString(octets) | Argument::LongString(octets) => {
                String::from_utf8_lossy(octets).into_owned()
            }
            other => panic!(
                "argument {index} of {}: expected a string, came {other:?}",
                self.name
            ),
        }
    }

    /// The number at `index`, whatever its width.
    ///
    /// # Panics
    /// When there is no number there.
    #[track_caller]
    pub fn number(&self, index: usize) -> u64 {
        match &self.arguments[index] {
            Argument::Octet(n) => u64::from(*n),
            Argument::Short(n) => u64::from(*n),
            Argument::Long(n) => u64::from(*n),
            Argument::LongLong(n) => *n,
            other => panic!(
                "argument {index} of {}: expected a number, came {other:?}",
                self.name
            ),
        }
    }

    /// The bit at `index`.
    ///
    /// # Panics
    /// When there is no bit there.
    #[track_caller]
    pub fn bit(&self, index: usize) -> bool {
        match &self.arguments[index] {
            Argument::Bit(bit) => *bit,
            other => panic!(
                "argument {index} of {}: expected a bit, came {other:?}",
                self.name
            ),
        }
    }

    /// The table at `index`.
    ///
    /// # Panics
    /// When there is no table there.
    #[track_caller]
    pub fn table(&self, index: usize) -> &Table {
        match &self.arguments[index] {
            Argument::Table(table) => table,
            other => panic!(
                "argument {index} of {}: expected a table, came {other:?}",
                self.name
            ),
        }
    }
}

/// Bits waiting for their octet.
#[derive(Default)]
struct Bits {
    octet: u8,
    count: u8,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        self.octet |= u8::from(bit) << self.count;
        self.count += 1;
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        if self.count > 0 {
            out.push(self.octet);
        }
        *self = Bits::default();
    }
}

impl Argument {
    fn letter(&self) -> char {
        match self {
            Argument::Bit(_) => 'b',
            Argument::Octet(_) => 'B',
            Argument::Short(_) => 'H',
            Argument::Long(_) => 'I',
            Argument::LongLong(_) => 'Q',
            Argument::ShortString(_) => 's',
            Argument::LongString(_) => 'S',
            Argument::Table(_) => 'F',
        }
    }
}

impl From<bool> for Argument {
    fn from(bit: bool) -> Argument {
        Argument::Bit(bit)
    }
}

impl From<u8> for Argument {
    fn from(n: u8) -> Argument {
        Argument::Octet(n)
    }
}

impl From<u16> for Argument {
    fn from(n: u16) -> Argument {
        Argument::Short(n)
    }
}

impl From<u32> for Argument {
    fn from(n: u32) -> Argument {
        Argument::Long(n)
    }
}

impl From<u64> for Argument {
    fn from(n: u64) -> Argument {
        Argument::LongLong(n)
    }
}

/// Text is a short string; long strings are spelled out.
impl From<&str> for Argument {
    fn from(text: &str) -> Argument {
        Argument::ShortString(text.as_bytes().to_vec())
    }
}

impl From<&Table> for Argument {
    fn from(table: &Table) -> Argument {
        Argument::Table(table.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments of every kind that a method's fields ask for, bits alternating.
    fn sample(fields: &str) -> Vec<Argument> {
        let argument = |(index, field): (usize, char)| match field {
            'b' => Argument::Bit(index % 2 == 0),
            'B' => Argument::Octet(7),
            'H' => Argument::Short(0x1234),
            'I' => Argument::Long(0x1234_5678),
            'Q' => Argument::LongLong(u64::MAX - 1),
            's' => Argument::ShortString(b"short".to_vec()),
            'S' => Argument::LongString(vec![0; 300]),
            _ => Argument::Table(Table::default().with("key", 5)),
        };
        fields.chars().enumerate().map(argument).collect()
    }

    #[test]
    fn every_method_is_read_as_it_was_written() {
        for (name, _, _, fields) in METHODS {
            let method = Method::new(name, sample(fields));
            assert_eq!(Method::decode(&method.encode()), Ok(method));
        }
    }

    #[test]
    fn bits_share_octets_from_the_lowest_on() {
        let bits = vec![5u64.into(), true.into(), false.into()];
        let nack = Method::new("basic.nack", bits).encode();
        assert_eq!(nack, [0, 60, 0, 120, 0, 0, 0, 0, 0, 0, 0, 5, 1]);
        let publish = vec![
            0u16.into(),
            "".into(),
            "k".into(),
            false.into(),
            true.into(),
        ];
        let publish = Method::new("basic.publish", publish).encode();
        assert_eq!(publish, [0, 60, 0, 40, 0, 0, 0, 1, b'k', 2]);
    }

    #[test]
    fn octets_behind_the_arguments_are_noticed() {
        let mut octets = Method::new("tx.select", vec![]).encode();
        octets.push(0);
        assert!(Method::decode(&octets).is_err());
    }
}
