//! How a redeclaration is compared with what exists, and in which words a difference is told.
//!
//! Numbers are compared by value, whatever their width, and texts by their octets; everything else
//! by type and value. A void stands for no argument where there is one, and differs from none.

use amqp::Value;

use super::show_value;
use crate::refusal::{DeclareDifference, Refusal, Resource, Result};

/// Compares a flag of a declaration.
pub(crate) fn compare_flag(
    key: &str,
    received: bool,
    current: bool,
    resource: impl FnOnce() -> Resource,
) -> Result<()> {
    compare_text(key, bool_name(received), bool_name(current), resource)
}

fn bool_name(flag: bool) -> &'static str {
    if flag { "true" } else { "false" }
}

/// Compares a word of a declaration, such as a type.
pub(crate) fn compare_text(
    key: &str,
    received: &str,
    current: &str,
    resource: impl FnOnce() -> Resource,
) -> Result<()> {
    if received == current {
        return Ok(());
    }
    let difference = DeclareDifference::Both {
        received: received.into(),
        current: current.into(),
    };
    Err(Refusal::InequivalentArgument {
        key: key.into(),
        resource: resource(),
        difference,
    })
}

/// Compares an argument of a declaration.
pub(crate) fn compare_value(
    key: &str,
    received: Option<&Value>,
    current: Option<&Value>,
    resource: impl FnOnce() -> Resource,
) -> Result<()> {
    let difference = match (received, current) {
        (None, None) => return Ok(()),
        (Some(received), Some(current)) if is_same_argument(received, current) => return Ok(()),
        (Some(Value::Void), Some(current)) => DeclareDifference::VoidReceived {
            current: show_value(current).into(),
        },
        (Some(received), Some(Value::Void)) => DeclareDifference::VoidCurrent {
            received: show_value(received).into(),
        },
        (Some(received), Some(current)) => DeclareDifference::Both {
            received: show_value(received).into(),
            current: show_value(current).into(),
        },
        (Some(received), None) => DeclareDifference::OnlyReceived {
            value: show_value(received).into(),
            type_name: received.type_name().into(),
        },
        (None, Some(current)) => DeclareDifference::OnlyCurrent {
            value: show_value(current).into(),
            type_name: current.type_name().into(),
        },
    };
    Err(Refusal::InequivalentArgument {
        key: key.into(),
        resource: resource(),
        difference,
    })
}

/// Whether two argument values count as the same.
pub(crate) fn is_same_argument(one: &Value, other: &Value) -> bool {
    if let (Some(one), Some(other)) = (one.as_i64(), other.as_i64()) {
        return one == other;
    }
    if let (Some(one), Some(other)) = (one.as_bytes(), other.as_bytes()) {
        return one == other;
    }
    one == other
}
