//! AMQP 0-9-1 on the wire, as the tests need it: exact, free to send nonsense, and independent of
//! the broker's own codec.

pub mod frame;
pub mod method;
pub mod properties;
pub mod reader;
pub mod value;

pub use method::{Argument, Method};
pub use properties::{PERSISTENT, Properties, TRANSIENT};
pub use reader::{Malformed, Reader};
pub use value::{Table, Value};
