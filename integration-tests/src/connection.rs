//! A raw AMQP connection over a blocking socket: sends exactly what it is told, right or wrong, and
//! shows exactly what came. Knows the handshake and how content is put together; every wait has an
//! end, and every failed expectation tells what was wanted and what came.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::channel::Channel;
pub use crate::login::{Login, Tune};
use crate::request::{self, Publication};
use crate::socket::Wire;
pub use crate::socket::{Content, Incoming};
use crate::wire::frame;
use crate::wire::method::id_of;
use crate::wire::{Method, Properties, Table};

/// How long a test waits for something that must come.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long nothing may come before a test believes that nothing comes.
pub const QUIET: Duration = Duration::from_millis(300);
/// The header that opens AMQP 0-9-1.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// What a close is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `channel.close`
    Channel,
    /// `connection.close`
    Connection,
}

/// A close that the broker sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    /// Channel or connection.
    pub scope: Scope,
    /// Reply code.
    pub code: u16,
    /// Reply text.
    pub text: String,
    /// Class and method at fault; 0 and 0 when none is.
    pub fault: (u16, u16),
}

impl Close {
    /// A channel closed because of the method `fault` (empty: no method).
    pub fn channel(code: u16, text: impl Into<String>, fault: &str) -> Close {
        Close {
            scope: Scope::Channel,
            code,
            text: text.into(),
            fault: fault_of(fault),
        }
    }

    /// A connection closed because of the method `fault` (empty: no method).
    pub fn connection(code: u16, text: impl Into<String>, fault: &str) -> Close {
        Close {
            scope: Scope::Connection,
            code,
            text: text.into(),
            fault: fault_of(fault),
        }
    }

    fn read(scope: Scope, method: &Method) -> Close {
        let narrow = |index| u16::try_from(method.number(index)).expect("These fields are shorts.");
        Close {
            scope,
            code: narrow(0),
            text: method.text(1),
            fault: (narrow(2), narrow(3)),
        }
    }
}

fn fault_of(name: &str) -> (u16, u16) {
    if name.is_empty() { (0, 0) } else { id_of(name) }
}

/// A handle to one connection; copies share the socket, the last one closes it.
#[derive(Clone, Debug)]
pub struct Connection {
    wire: Rc<RefCell<Wire>>,
}

impl Connection {
    /// Connects and says nothing.
    #[track_caller]
    pub fn dial(address: SocketAddr) -> Connection {
        Connection::try_dial(address).expect("The broker must accept connections.")
    }

    /// Connects and says nothing, if the broker listens.
    pub fn try_dial(address: SocketAddr) -> io::Result<Connection> {
        let wire = Wire::connect(address)?;
        Ok(Connection {
            wire: Rc::new(RefCell::new(wire)),
        })
    }

    /// Connects and goes through the whole handshake as guest.
    #[track_caller]
    pub fn open(address: SocketAddr) -> Connection {
        Connection::open_as(address, &Login::default())
    }

    /// Connects and goes through the whole handshake.
    #[track_caller]
    pub fn open_as(address: SocketAddr, login: &Login) -> Connection {
        let connection = Connection::dial(address);
        let tune = connection.log_in(login);
        let tune = Tune {
            channel_max: login.channel_max.unwrap_or(tune.channel_max),
            frame_max: login.frame_max.unwrap_or(tune.frame_max),
            heartbeat_s: login.heartbeat_s,
        };
        connection.send(0, &tune.accept());
        connection.wire_mut().frame_max = tune.frame_max as usize;
        connection.send(0, &open(&login.vhost));
        connection.wait_for(0, &["connection.open-ok"]);
        connection
    }

    /// Connects as guest and opens channel 1, if the broker serves within `limit`.
    pub fn try_open(address: SocketAddr, limit: Duration) -> Option<Connection> {
        let login = Login::default();
        let connection = Connection::try_dial(address).ok()?;
        let answer = |to: &str| connection.wait_within(0, &[to], limit).ok();
        connection.try_send_octets(&PROTOCOL_HEADER).ok()?;
        answer("connection.start")?;
        connection.try_send(0, &login.start_ok()).then_some(())?;
        let (tune, _) = answer("connection.tune")?;
        let tune = Tune::read(&tune);
        let accepted = Tune {
            heartbeat_s: login.heartbeat_s,
            ..tune
        };
        connection.try_send(0, &accepted.accept()).then_some(())?;
        connection.wire_mut().frame_max = accepted.frame_max as usize;
        connection.try_send(0, &open(&login.vhost)).then_some(())?;
        answer("connection.open-ok")?;
        connection.try_call(1, &request::channel_open(), limit)?;
        Some(connection)
    }

    /// Sends a method and waits for the one that answers it, if it comes.
    pub fn try_call(&self, channel: u16, method: &Method, limit: Duration) -> Option<Method> {
        self.try_send(channel, method).then_some(())?;
        let answer = format!("{}-ok", method.name);
        let came = self.wait_within(channel, &[&answer], limit);
        came.ok().map(|(method, _)| method)
    }

    /// Header, start and start-ok, up to the broker's tune.
    #[track_caller]
    pub fn log_in(&self, login: &Login) -> Tune {
        self.start();
        self.send(0, &login.start_ok());
        self.expect_tune()
    }

    /// Sends the protocol header and takes connection.start.
    #[track_caller]
    pub fn start(&self) -> Method {
        self.send_octets(&PROTOCOL_HEADER);
        let (start, _) = self.wait_for(0, &["connection.start"]);
        self.wire_mut().server_properties = start.table(2).clone();
        start
    }

    /// Takes connection.tune.
    #[track_caller]
    pub fn expect_tune(&self) -> Tune {
        let (tune, _) = self.wait_for(0, &["connection.tune"]);
        Tune::read(&tune)
    }

    /// What the broker said about itself.
    pub fn server_properties(&self) -> Table {
        self.wire().server_properties.clone()
    }

    /// The agreed size of a whole frame.
    pub fn frame_max(&self) -> usize {
        self.wire().frame_max
    }

    /// Opens channel `number`.
    #[track_caller]
    pub fn channel(&self, number: u16) -> Channel {
        self.send(number, &request::channel_open());
        self.wait_for(number, &["channel.open-ok"]);
        self.unopened_channel(number)
    }

    /// A channel that nobody opened, for tests of just that.
    pub fn unopened_channel(&self, number: u16) -> Channel {
        Channel::new(self.clone(), number)
    }

    /// Sends a method.
    #[track_caller]
    pub fn send(&self, channel: u16, method: &Method) {
        self.send_octets(&frame::frame(frame::METHOD, channel, &method.encode()));
    }

    /// Sends octets as they are.
    #[track_caller]
    pub fn send_octets(&self, octets: &[u8]) {
        self.try_send_octets(octets)
            .expect("The broker must keep the socket open for this.");
    }

    /// Sends octets as they are; an ended socket is an answer, not a failure.
    pub fn try_send_octets(&self, octets: &[u8]) -> io::Result<()> {
        self.wire_mut().stream.write_all(octets)
    }

    /// Sends a method; whether the socket took it.
    pub fn try_send(&self, channel: u16, method: &Method) -> bool {
        let octets = frame::frame(frame::METHOD, channel, &method.encode());
        self.try_send_octets(&octets).is_ok()
    }

    /// The socket itself, for floods that have no time for whole methods; what was received and
    /// not looked at is lost.
    ///
    /// # Panics
    /// When other handles to the connection are still there.
    #[track_caller]
    pub fn into_stream(self) -> TcpStream {
        let wire = Rc::try_unwrap(self.wire).expect("No channel may be left.");
        wire.into_inner().stream
    }

    /// Sends a message, its body cut at the agreed frame size.
    #[track_caller]
    pub fn publish(&self, channel: u16, publication: &Publication) {
        let octets = publish_octets(channel, publication, self.frame_max());
        self.send_octets(&octets);
    }

    /// What came next, within `limit`; what is set aside comes first.
    #[track_caller]
    pub fn receive(&self, limit: Duration) -> Option<Incoming> {
        if let Some(incoming) = self.wire_mut().inbox.pop_front() {
            return Some(incoming);
        }
        self.wire_mut().read(Instant::now() + limit)
    }

    /// Waits for one of `names` on `channel`; all else stays for later.
    ///
    /// # Panics
    /// When a close or the end of the socket comes instead, or nothing in time.
    #[track_caller]
    pub fn wait_for(&self, channel: u16, names: &[&str]) -> (Method, Option<Content>) {
        match self.wait_within(channel, names, PATIENCE) {
            Ok(came) => came,
            Err(instead) => panic!("expected {names:?} on channel {channel}; came: {instead}"),
        }
    }

    /// Like `wait_for`, with an end of its own and an answer for every outcome.
    #[track_caller]
    pub fn wait_within(
        &self,
        channel: u16,
        names: &[&str],
        limit: Duration,
    ) -> Result<(Method, Option<Content>), Instead> {
        let deadline = Instant::now() + limit;
        let mut passed = VecDeque::new();
        let outcome = loop {
            let next = self.wire_mut().inbox.pop_front();
            let Some(incoming) = next.or_else(|| self.wire_mut().read(deadline)) else {
                break Err(Instead::Nothing(names_of(&passed)));
            };
            match &incoming {
                Incoming::Method {
                    channel: on,
                    method,
                    content,
                } => {
                    if *on == channel && names.contains(&method.name) {
                        break Ok((method.clone(), content.clone()));
                    }
                    if let Some(close) = self.answer_close(*on, channel, method) {
                        break Err(Instead::Closed(close));
                    }
                }
                Incoming::Gone => break Err(Instead::Gone(names_of(&passed))),
                Incoming::Heartbeat => {}
            }
            passed.push_back(incoming);
        };
        let mut wire = self.wire_mut();
        passed.append(&mut wire.inbox);
        wire.inbox = passed;
        outcome
    }

    /// A close of the awaited channel or of the connection, answered as a client must.
    fn answer_close(&self, on: u16, awaited: u16, method: &Method) -> Option<Close> {
        let (scope, answer) = match method.name {
            "connection.close" => (Scope::Connection, "connection.close-ok"),
            "channel.close" if on == awaited => (Scope::Channel, "channel.close-ok"),
            _ => return None,
        };
        // The broker may have ended the socket right behind its close.
        let answer = Method::new(answer, vec![]);
        let _ = self.try_send_octets(&frame::frame(frame::METHOD, on, &answer.encode()));
        Some(Close::read(scope, method))
    }

    /// Waits until the broker closes `channel` or the connection.
    #[track_caller]
    pub fn expect_close(&self, channel: u16) -> Close {
        match self.wait_within(channel, &[], PATIENCE) {
            Err(Instead::Closed(close)) => close,
            Err(instead) => panic!("expected a close on channel {channel}; came: {instead}"),
            Ok(_) => unreachable!("No method was asked for."),
        }
    }

    /// Waits until the socket ends without a close method.
    #[track_caller]
    pub fn expect_gone(&self) {
        match self.wait_within(0, &[], PATIENCE) {
            Err(Instead::Gone(_)) => {}
            Err(instead) => panic!("expected the end of the socket; came: {instead}"),
            Ok(_) => unreachable!("No method was asked for."),
        }
    }

    /// Checks that no method comes for a while.
    #[track_caller]
    pub fn expect_quiet(&self) {
        match self.receive(QUIET) {
            None | Some(Incoming::Heartbeat) => {}
            Some(came) => panic!("expected nothing for {QUIET:?}; came: {came:?}"),
        }
    }

    /// The first raw octets that came, before they are taken for frames.
    #[track_caller]
    pub fn receive_octets(&self, count: usize) -> Vec<u8> {
        let mut octets = vec![0; count];
        let mut wire = self.wire_mut();
        wire.stream
            .set_read_timeout(Some(PATIENCE))
            .expect("A positive time is a valid one.");
        let read = wire.stream.read_exact(&mut octets);
        read.unwrap_or_else(|error| panic!("expected {count} octets; came: {error}"));
        octets
    }

    /// The orderly end.
    #[track_caller]
    pub fn close(&self) {
        self.send(0, &request::connection_close());
        self.wait_for(0, &["connection.close-ok"]);
    }

    /// Ends the socket with nothing said; other handles see it as gone.
    pub fn drop_socket(&self) {
        // A socket that the broker has ended already is as good.
        let _ = self.wire().stream.shutdown(std::net::Shutdown::Both);
    }

    fn wire(&self) -> Ref<'_, Wire> {
        self.wire.borrow()
    }

    fn wire_mut(&self) -> RefMut<'_, Wire> {
        self.wire.borrow_mut()
    }
}

/// What came instead of what was awaited.
#[derive(Clone, Debug, PartialEq)]
pub enum Instead {
    /// A close.
    Closed(Close),
    /// The end of the socket; before it, these.
    Gone(Vec<String>),
    /// Nothing in time; before that, these.
    Nothing(Vec<String>),
}

impl std::fmt::Display for Instead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Instead::Closed(close) => write!(f, "{close:?}"),
            Instead::Gone(before) => write!(f, "the end of the socket, after {before:?}"),
            Instead::Nothing(before) => write!(f, "nothing in time, after {before:?}"),
        }
    }
}

fn names_of(passed: &VecDeque<Incoming>) -> Vec<String> {
    let name = |incoming: &Incoming| match incoming {
        Incoming::Method {
            channel, method, ..
        } => format!("{} on {channel}", method.name),
        other => format!("{other:?}"),
    };
    passed.iter().map(name).collect()
}

/// `connection.open`
pub fn open(vhost: &str) -> Method {
    Method::new(
        "connection.open",
        vec![vhost.into(), "".into(), false.into()],
    )
}

/// A content header for class basic.
pub fn header_payload(body_bytes: u64, properties: &Properties) -> Vec<u8> {
    let mut payload = vec![0, 60, 0, 0];
    payload.extend(body_bytes.to_be_bytes());
    properties.encode(&mut payload);
    payload
}

/// All frames of a publish.
pub fn publish_octets(channel: u16, publication: &Publication, frame_max: usize) -> Vec<u8> {
    let method = request::basic_publish(publication).encode();
    let mut octets = frame::frame(frame::METHOD, channel, &method);
    let header = header_payload(publication.body.len() as u64, &publication.properties);
    octets.extend(frame::frame(frame::HEADER, channel, &header));
    for part in publication.body.chunks(frame_max - frame::ENVELOPE_BYTES) {
        octets.extend(frame::frame(frame::BODY, channel, part));
    }
    octets
}

/// The response of mechanism AMQPLAIN: a table without its length.
pub fn amqplain_response(user: &str, password: &str) -> Vec<u8> {
    let mut response = Vec::new();
    let fields = Table::default()
        .with("LOGIN", user)
        .with("PASSWORD", password);
    fields.encode_fields(&mut response);
    response
}
