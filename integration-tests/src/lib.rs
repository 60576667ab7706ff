//! The test kit: a broker as a child process, a raw AMQP client for exact octets, and the scene that
//! a conformance test plays in.
//! It looks at the broker from outside only: no crate of the broker is used here, its codec least
//! of all, so that the tests and the broker cannot share a mistake.

pub mod broker_process;
pub mod channel;
pub mod connection;
pub mod differences;
pub mod http;
pub mod login;
pub mod request;
pub mod socket;
pub mod trial;
pub mod wire;

pub use broker_process::{BrokerProcess, SettingsFile};
pub use channel::{Channel, Declared, Delivery, Return, expect_soon};
pub use connection::{Close, Connection};
pub use login::Login;
pub use request::{ConsumerSpec, ExchangeSpec, Publication, QueueSpec};
pub use trial::{Trial, conformance, own_broker, say};
pub use wire::{Method, PERSISTENT, Properties, TRANSIENT, Table, Value};
