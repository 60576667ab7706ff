//! The socket of a raw connection: octets in, whole methods with their content out.
//! Knows frames and how content is put together; what methods mean is the connection's business.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::connection::PATIENCE;
use crate::wire::frame::{self, Frame};
use crate::wire::{Method, Properties, Reader, Table};

/// Largest read from the socket at once.
const READ_BYTES: usize = 64 * 1024;
/// Octets of a frame until another size was agreed on.
const FRAME_BYTES_UNTUNED: usize = 131_072;

/// What the broker sent, in whole methods.
#[allow(
    clippy::large_enum_variant,
    reason = "one at a time, and nearly always the large one"
)]
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// A method, with its content if it has one.
    Method {
        /// The channel.
        channel: u16,
        /// The method.
        method: Method,
        /// Properties and body.
        content: Option<Content>,
    },
    /// A heartbeat.
    Heartbeat,
    /// The socket ended, closed or reset.
    Gone,
}

/// Properties and body of a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    /// The properties.
    pub properties: Properties,
    /// The body.
    pub body: Vec<u8>,
    /// Sizes of the body frames that it came in.
    pub frame_bytes: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
    pub(crate) inbox: VecDeque<Incoming>,
    unfinished: HashMap<u16, Unfinished>,
    pub(crate) gone: bool,
    pub(crate) frame_max: usize,
    pub(crate) server_properties: Table,
}

/// A method whose content is still coming.
#[derive(Debug)]
struct Unfinished {
    method: Method,
    body_bytes: Option<u64>,
    content: Content,
}

impl Wire {
    /// Connects; nothing is said yet.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Wire> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Wire {
            stream,
            buffer: Vec::new(),
            inbox: VecDeque::new(),
            unfinished: HashMap::new(),
            gone: false,
            frame_max: FRAME_BYTES_UNTUNED,
            server_properties: Table::default(),
        })
    }

    /// What comes next from the socket; `None` when nothing does until the deadline.
    pub(crate) fn read(&mut self, deadline: Instant) -> Option<Incoming> {
        loop {
            while let Some((frame, length)) = frame::cut(&self.buffer) {
                self.buffer.drain(..length);
                if let Some(incoming) = self.assemble(frame) {
                    return Some(incoming);
                }
            }
            if self.gone {
                return Some(Incoming::Gone);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            let left = left.max(Duration::from_millis(1));
            self.stream
                .set_read_timeout(Some(left))
                .expect("A positive time is a valid one.");
            let mut chunk = [0; READ_BYTES];
            match self.stream.read(&mut chunk) {
                Ok(0) => self.gone = true,
                Ok(length) => self.buffer.extend(&chunk[..length]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return None,
                    io::ErrorKind::Interrupted => {}
                    _ => self.gone = true,
                },
            }
        }
    }

    /// A whole method, heartbeat or content; `None` while content is still coming.
    fn assemble(&mut self, frame: Frame) -> Option<Incoming> {
        let channel = frame.channel;
        match frame.kind {
            frame::HEARTBEAT => return Some(Incoming::Heartbeat),
            frame::METHOD => {
                let method = Method::decode(&frame.payload);
                let method = method.unwrap_or_else(|fault| panic!("{fault}"));
                if !matches!(
                    method.name,
                    "basic.deliver" | "basic.get-ok" | "basic.return"
                ) {
                    return Some(Incoming::Method {
                        channel,
                        method,
                        content: None,
                    });
                }
                let content = Content::default();
                let unfinished = Unfinished {
                    method,
                    body_bytes: None,
                    content,
                };
                let before = self.unfinished.insert(channel, unfinished);
                assert!(
                    before.is_none(),
                    "a method came inside the content of {before:?}"
                );
                return None;
            }
            _ => {}
        }
        let unfinished = self.unfinished.get_mut(&channel);
        let unfinished = unfinished.expect("The broker sends content only behind its method.");
        if frame.kind == frame::HEADER {
            let mut reader = Reader::new(&frame.payload);
            let head = (reader.short(), reader.short());
            assert_eq!(
                head,
                (Ok(60), Ok(0)),
                "class and weight of a content header"
            );
            unfinished.body_bytes = Some(reader.long_long().expect("A header names its size."));
            let properties = Properties::decode(&mut reader);
            unfinished.content.properties = properties.unwrap_or_else(|fault| panic!("{fault}"));
        } else {
            unfinished
                .content
                .frame_bytes
                .push(frame.payload.len() + frame::ENVELOPE_BYTES);
            unfinished.content.body.extend(frame.payload);
        }
        let whole = unfinished.body_bytes?;
        let here = unfinished.content.body.len() as u64;
        assert!(
            here <= whole,
            "the broker announced a body of {whole} octets and sent {here}"
        );
        if here < whole {
            return None;
        }
        let Unfinished {
            method, content, ..
        } = self.unfinished.remove(&channel)?;
        Some(Incoming::Method {
            channel,
            method,
            content: Some(content),
        })
    }
}
