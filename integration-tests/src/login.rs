//! How a client logs in and what it agrees on: the values of start-ok, tune and tune-ok.
//! Knows no sockets.

use crate::wire::{Argument, Method, Table};

/// How to log in and what to agree on.
#[derive(Clone, Debug)]
pub struct Login {
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
    /// Virtual host.
    pub vhost: String,
    /// `frame_max` of tune-ok; `None` takes the broker's.
    pub frame_max: Option<u32>,
    /// `channel_max` of tune-ok; `None` takes the broker's.
    pub channel_max: Option<u16>,
    /// Heartbeat of tune-ok, seconds; tests send none by themselves.
    pub heartbeat_s: u16,
    /// The client's capabilities.
    pub capabilities: Table,
    /// The client's properties beside the capabilities.
    pub properties: Table,
}

impl Default for Login {
    fn default() -> Login {
        let capabilities = Table::default()
            .with("publisher_confirms", true)
            .with("exchange_exchange_bindings", true)
            .with("basic.nack", true)
            .with("consumer_cancel_notify", true)
            .with("connection.blocked", true)
            .with("authentication_failure_close", true);
        Login {
            user: "guest".to_owned(),
            password: "guest".to_owned(),
            vhost: "/".to_owned(),
            frame_max: None,
            channel_max: None,
            heartbeat_s: 0,
            capabilities,
            properties: Table::default().with("product", "SluiceMQ integration tests"),
        }
    }
}

impl Login {
    /// Somebody else.
    pub fn of(user: &str, password: &str) -> Login {
        Login {
            user: user.to_owned(),
            password: password.to_owned(),
            ..Login::default()
        }
    }

    /// The guest, in another vhost.
    pub fn in_vhost(vhost: &str) -> Login {
        Login {
            vhost: vhost.to_owned(),
            ..Login::default()
        }
    }

    /// A client that announces no capabilities at all.
    pub fn without_capabilities() -> Login {
        Login {
            capabilities: Table::default(),
            ..Login::default()
        }
    }

    /// The start-ok with mechanism PLAIN.
    pub fn start_ok(&self) -> Method {
        let response = format!("\0{}\0{}", self.user, self.password);
        self.start_ok_by("PLAIN", response.as_bytes())
    }

    /// A start-ok with any mechanism and response.
    pub fn start_ok_by(&self, mechanism: &str, response: &[u8]) -> Method {
        let mut properties = self.properties.clone();
        if !self.capabilities.0.is_empty() {
            properties = properties.with("capabilities", self.capabilities.clone());
        }
        let response = Argument::LongString(response.to_vec());
        Method::new(
            "connection.start-ok",
            vec![
                Argument::Table(properties),
                mechanism.into(),
                response,
                "en_US".into(),
            ],
        )
    }
}

/// What the broker offered in connection.tune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tune {
    /// Channels open at once.
    pub channel_max: u16,
    /// Octets of a whole frame.
    pub frame_max: u32,
    /// Seconds.
    pub heartbeat_s: u16,
}

impl Tune {
    pub(crate) fn read(tune: &Method) -> Tune {
        Tune {
            channel_max: u16::try_from(tune.number(0)).expect("A short."),
            frame_max: u32::try_from(tune.number(1)).expect("A long."),
            heartbeat_s: u16::try_from(tune.number(2)).expect("A short."),
        }
    }

    /// The tune-ok that says the same.
    pub fn accept(&self) -> Method {
        let (channels, frame) = (self.channel_max.into(), self.frame_max.into());
        Method::new(
            "connection.tune-ok",
            vec![channels, frame, self.heartbeat_s.into()],
        )
    }
}
