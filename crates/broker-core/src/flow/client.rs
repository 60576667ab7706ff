//! What a client can bear: whether it obeys `channel.flow`, and whether `connection.blocked` stops
//! its acks.
//!
//! Libraries that do not obey `channel.flow` ignore it at best; others lose their connection over
//! it, so an unknown client is never sent one. Tried with each library that is named here.

use amqp::Table;

/// Products that stop publishing on `channel.flow(false)` and go on with everything else.
/// The second word is the beginning of the platform; empty fits any.
const OBEYS_FLOW: &[(&str, &str)] = &[
    ("RabbitMQ", "Java"),
    ("RabbitMQ", ".NET"),
    ("RabbitMQ", "Erlang"),
    ("rmqcpp", ""),
    ("Qpid JMS", ""),
    ("qpid", "Java"),
];

/// Products whose whole writer stops at `connection.blocked`, acks and heartbeats included.
const STOPS_ACKS_WHEN_BLOCKED: &[&str] = &["lapin"];

/// When a lever is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// With clients that are known to bear it.
    #[default]
    Auto,
    /// With every client.
    Always,
    /// With none.
    Never,
}

impl When {
    /// The choice of this word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(When::Auto),
            "always" => Some(When::Always),
            "never" => Some(When::Never),
            _ => None,
        }
    }

    fn unless(self, known: bool) -> bool {
        match self {
            When::Auto => known,
            When::Always => true,
            When::Never => false,
        }
    }
}

/// How a client is to be held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientFlow {
    /// It stops publishing on `channel.flow(false)`.
    pub obeys_flow: bool,
    /// It announced that it understands `connection.blocked`.
    pub hears_blocked: bool,
    /// `connection.blocked` stops its acks as well.
    pub stops_acks: bool,
}

impl ClientFlow {
    /// Reads the client's own description. The capability `channel_flow_aware` wins over what is
    /// known of the product; `channel_flow` and `blocked_notice` are the operator's word.
    pub fn of(client_properties: &Table, channel_flow: When, blocked_notice: When) -> Self {
        let text = |key| client_properties.get(key).and_then(|value| value.as_str());
        let product = text("product").unwrap_or_default();
        let platform = text("platform").unwrap_or_default();
        let capability = |name| {
            let capabilities = client_properties.get("capabilities")?.as_table()?;
            capabilities.get(name)?.as_bool()
        };
        let known = OBEYS_FLOW
            .iter()
            .any(|(name, on)| product == *name && platform.starts_with(on));
        let obeys = capability("channel_flow_aware").unwrap_or(known);
        let hears = capability("connection.blocked") == Some(true);
        Self {
            obeys_flow: channel_flow.unless(obeys),
            // Without the capability a notice breaks clients: even "always" keeps to it.
            hears_blocked: hears && blocked_notice != When::Never,
            stops_acks: blocked_notice != When::Always
                && STOPS_ACKS_WHEN_BLOCKED.contains(&product),
        }
    }

    /// Whether `connection.blocked` may be said now.
    pub fn may_hear_blocked(&self, consumes: bool) -> bool {
        self.hears_blocked && !(self.stops_acks && consumes)
    }
}

#[cfg(test)]
mod tests {
    use amqp::Value;

    use super::*;

    fn client(product: &str, platform: &str, capabilities: &[(&str, bool)]) -> Table {
        let mut announced = Table::new();
        for (name, value) in capabilities {
            announced.push(*name, Value::Bool(*value));
        }
        let mut table = Table::new();
        table.push("product", Value::from(product));
        table.push("platform", Value::from(platform));
        table.push("capabilities", Value::Table(announced));
        table
    }

    fn auto(properties: &Table) -> ClientFlow {
        ClientFlow::of(properties, When::Auto, When::Auto)
    }

    #[test]
    fn flow_is_only_for_clients_that_are_known_to_obey_it() {
        for (product, platform, obeys) in [
            ("RabbitMQ", "Java", true),
            ("RabbitMQ", ".NET 8.0", true),
            ("RabbitMQ", "Erlang", true),
            ("AMQP 0.9.1 Client", "golang", false),
            ("amqplib", "Node.JS v20", false),
            ("Bunny", "ruby", false),
            ("lapin", "rust", false),
            ("Pika Python Client Library", "Python", false),
            ("my program", "", false),
        ] {
            let client = auto(&client(product, platform, &[]));
            assert_eq!(client.obeys_flow, obeys, "{product}");
        }
        assert!(!auto(&Table::new()).obeys_flow);
    }

    #[test]
    fn a_capability_wins_over_the_product_and_the_operator_over_both() {
        let aware = client("my program", "", &[("channel_flow_aware", true)]);
        assert!(auto(&aware).obeys_flow);
        assert!(!ClientFlow::of(&aware, When::Never, When::Auto).obeys_flow);
        let unaware = client("RabbitMQ", "Java", &[("channel_flow_aware", false)]);
        assert!(!auto(&unaware).obeys_flow);
        assert!(ClientFlow::of(&unaware, When::Always, When::Auto).obeys_flow);
    }

    #[test]
    fn blocked_needs_the_capability_and_spares_lapin_that_consumes() {
        let can: &[(&str, bool)] = &[("connection.blocked", true)];
        assert!(!auto(&client("rabbitmq-c", "C", &[])).may_hear_blocked(false));
        assert!(auto(&client("AMQPLib", "PHP", can)).may_hear_blocked(true));
        let lapin = auto(&client("lapin", "rust", can));
        assert!(lapin.may_hear_blocked(false));
        assert!(!lapin.may_hear_blocked(true));
        let never = ClientFlow::of(&client("Bunny", "", can), When::Auto, When::Never);
        assert!(!never.may_hear_blocked(false));
    }
}
