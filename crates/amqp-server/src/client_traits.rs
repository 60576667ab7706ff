//! What a client can bear, read once from its client-properties.
//!
//! Knows the capabilities that change what the server sends and the few products that need
//! care. Must not know sessions or sockets.

use amqp::Table;

/// How a client wants to be treated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientTraits {
    /// Understands a connection.close that refuses its login.
    pub(crate) authentication_failure_close: bool,
    /// Wants connection.blocked and connection.unblocked; others break on them.
    pub(crate) connection_blocked: bool,
    /// Answers channel.flow with channel.flow instead of flow-ok.
    pub(crate) echoes_flow: bool,
    /// `product` as the client calls itself, for the log.
    pub(crate) product: Option<Box<str>>,
    /// `connection_name`, for the log.
    pub(crate) name: Option<Box<str>>,
}

impl ClientTraits {
    /// Reads what counts; a capability must be boolean true.
    pub(crate) fn of(client_properties: &Table) -> Self {
        let capabilities = client_properties
            .get("capabilities")
            .and_then(|v| v.as_table());
        let can = |name: &str| {
            capabilities
                .and_then(|table| table.get(name))
                .and_then(|v| v.as_bool())
                == Some(true)
        };
        let text = |key: &str| -> Option<Box<str>> {
            client_properties
                .get(key)
                .and_then(|v| v.as_str())
                .map(Into::into)
        };
        let product = text("product");
        // php-amqplib writes the wrong method; its echo is no wish of its own.
        let echoes_flow = product.as_deref() == Some("AMQPLib")
            && text("platform").is_some_and(|platform| platform.starts_with("PHP"));
        Self {
            authentication_failure_close: can("authentication_failure_close"),
            connection_blocked: can("connection.blocked"),
            echoes_flow,
            product,
            name: text("connection_name"),
        }
    }
}

#[cfg(test)]
mod tests {
    use amqp::Value;

    use super::*;

    fn properties(capability: Value) -> Table {
        let mut capabilities = Table::new();
        capabilities.push("connection.blocked", capability);
        let mut table = Table::new();
        table.push("product", Value::from("AMQPLib"));
        table.push("platform", Value::from("PHP"));
        table.push("capabilities", Value::Table(capabilities));
        table
    }

    #[test]
    fn a_capability_must_be_boolean_true() {
        assert!(ClientTraits::of(&properties(Value::Bool(true))).connection_blocked);
        assert!(!ClientTraits::of(&properties(Value::Bool(false))).connection_blocked);
        assert!(!ClientTraits::of(&properties(Value::I32(1))).connection_blocked);
        assert!(!ClientTraits::of(&Table::new()).connection_blocked);
    }

    #[test]
    fn php_amqplib_is_known_for_its_echo() {
        assert!(ClientTraits::of(&properties(Value::Bool(true))).echoes_flow);
        assert!(!ClientTraits::of(&Table::new()).echoes_flow);
    }
}
