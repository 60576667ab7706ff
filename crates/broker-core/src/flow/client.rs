//! What a client can bear: whether it obeys `channel.flow`, and whether `connection.blocked` stops
//! its acks.
//!
//! Libraries that do not obey `channel.flow` ignore it at best; others lose their connection over
//! it, so an unknown client is never sent one. Tried with each library that is named here; the
//! operator may know more ([`Levers`]).

use amqp::Table;

use super::levers::Levers;
use crate::{UserName, VhostName};

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
    /// Judges a client by its own description. The capability `channel_flow_aware` wins over what
    /// is known of the product; what the operator says of everybody, a user or a vhost, over both.
    pub fn of(
        client_properties: &Table,
        levers: &Levers,
        user: &UserName,
        vhost: &VhostName,
    ) -> Self {
        let text = |key| client_properties.get(key).and_then(|value| value.as_str());
        let product = text("product").unwrap_or_default();
        let platform = text("platform").unwrap_or_default();
        let capability = |name| {
            let capabilities = client_properties.get("capabilities")?.as_table()?;
            capabilities.get(name)?.as_bool()
        };
        let obeys = capability("channel_flow_aware")
            .or_else(|| levers.of_library(product, platform, |word| word.obeys_flow))
            .unwrap_or_else(|| obeys_flow(product, platform));
        let stops_acks = levers
            .of_library(product, platform, |word| word.stops_acks)
            .unwrap_or_else(|| STOPS_ACKS_WHEN_BLOCKED.contains(&product));
        let notice = levers.blocked_notice(user);
        Self {
            obeys_flow: levers.channel_flow(user, vhost).unless(obeys),
            // Without the capability a notice breaks clients: even "always" keeps to it.
            hears_blocked: capability("connection.blocked") == Some(true) && notice != When::Never,
            stops_acks: stops_acks && notice != When::Always,
        }
    }

    /// Whether `connection.blocked` may be said now.
    pub fn may_hear_blocked(&self, consumes: bool) -> bool {
        self.hears_blocked && !(self.stops_acks && consumes)
    }
}

/// What the built-in table says.
fn obeys_flow(product: &str, platform: &str) -> bool {
    OBEYS_FLOW
        .iter()
        .any(|(name, on)| product == *name && platform.starts_with(on))
}

#[cfg(test)]
mod tests {
    use amqp::Value;

    use super::super::levers::{LibraryWord, UserWord};
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

    fn judged(properties: &Table, levers: &Levers) -> ClientFlow {
        ClientFlow::of(
            properties,
            levers,
            &UserName::new("batch"),
            &VhostName::new("bulk"),
        )
    }

    fn auto(properties: &Table) -> ClientFlow {
        judged(properties, &Levers::default())
    }

    fn flow(channel_flow: When) -> Levers {
        Levers {
            channel_flow,
            ..Levers::default()
        }
    }

    fn notice(blocked_notice: When) -> Levers {
        Levers {
            blocked_notice,
            ..Levers::default()
        }
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
        assert!(!judged(&aware, &flow(When::Never)).obeys_flow);
        let unaware = client("RabbitMQ", "Java", &[("channel_flow_aware", false)]);
        assert!(!auto(&unaware).obeys_flow);
        assert!(judged(&unaware, &flow(When::Always)).obeys_flow);
    }

    #[test]
    fn blocked_needs_the_capability_and_spares_lapin_that_consumes() {
        let can: &[(&str, bool)] = &[("connection.blocked", true)];
        assert!(!auto(&client("rabbitmq-c", "C", &[])).may_hear_blocked(false));
        assert!(auto(&client("AMQPLib", "PHP", can)).may_hear_blocked(true));
        let lapin = auto(&client("lapin", "rust", can));
        assert!(lapin.may_hear_blocked(false));
        assert!(!lapin.may_hear_blocked(true));
        let never = judged(&client("Bunny", "", can), &notice(When::Never));
        assert!(!never.may_hear_blocked(false));
    }

    fn word(product: &str, platform: &str) -> LibraryWord {
        LibraryWord {
            product: product.to_owned(),
            platform: platform.to_owned(),
            ..LibraryWord::default()
        }
    }

    fn knowing(libraries: Vec<LibraryWord>) -> Levers {
        Levers {
            libraries,
            ..Levers::default()
        }
    }

    #[test]
    fn the_operator_extends_and_overrides_what_is_known_of_libraries() {
        let obeys = |product, platform, obeys| LibraryWord {
            obeys_flow: Some(obeys),
            ..word(product, platform)
        };
        let levers = knowing(vec![
            obeys("my library", "", true),
            obeys("RabbitMQ", "Java 8", false),
        ]);
        for (product, platform, expected) in [
            ("my library", "any", true),
            ("my library 2", "any", false),
            ("RabbitMQ", "Java 8u400", false),
            ("RabbitMQ", "Java 21", true),
        ] {
            let client = judged(&client(product, platform, &[]), &levers);
            assert_eq!(client.obeys_flow, expected, "{product} {platform}");
        }
        let unaware = client("my library", "", &[("channel_flow_aware", false)]);
        assert!(!judged(&unaware, &levers).obeys_flow, "it knows better");
    }

    #[test]
    fn of_several_words_about_a_library_the_first_that_says_something_counts() {
        let levers = knowing(vec![
            LibraryWord {
                obeys_flow: Some(true),
                ..word("lapin", "rust")
            },
            LibraryWord {
                obeys_flow: Some(false),
                stops_acks: Some(false),
                ..word("lapin", "")
            },
        ]);
        let can: &[(&str, bool)] = &[("connection.blocked", true)];
        let found = judged(&client("lapin", "rust", can), &levers);
        assert!(found.obeys_flow);
        assert!(found.may_hear_blocked(true), "the second one says it");
        let first_only = knowing(levers.libraries[..1].to_vec());
        let found = judged(&client("lapin", "rust", can), &first_only);
        assert!(!found.may_hear_blocked(true), "the built-in table says it");
    }

    #[test]
    fn a_users_word_wins_over_the_vhosts_and_the_vhosts_over_the_one_for_all() {
        let java = client("RabbitMQ", "Java", &[]);
        let mut levers = flow(When::Never);
        assert!(!judged(&java, &levers).obeys_flow);
        levers.vhosts.insert(VhostName::new("bulk"), When::Auto);
        assert!(judged(&java, &levers).obeys_flow, "the vhost's");
        let user = |channel_flow| UserWord {
            channel_flow,
            ..UserWord::default()
        };
        let batch = UserName::new("batch");
        levers.users.insert(batch.clone(), user(None));
        assert!(judged(&java, &levers).obeys_flow, "the user's is silent");
        levers.users.insert(batch, user(Some(When::Never)));
        assert!(!judged(&java, &levers).obeys_flow, "the user's");
        let other = ClientFlow::of(
            &java,
            &levers,
            &UserName::new("other"),
            &VhostName::new("bulk"),
        );
        assert!(other.obeys_flow, "another user's");
    }

    #[test]
    fn a_users_word_about_notices_wins_over_the_one_for_all() {
        let can: &[(&str, bool)] = &[("connection.blocked", true)];
        let lapin = client("lapin", "rust", can);
        let mut levers = notice(When::Never);
        assert!(!judged(&lapin, &levers).may_hear_blocked(false));
        let always = UserWord {
            blocked_notice: Some(When::Always),
            ..UserWord::default()
        };
        levers.users.insert(UserName::new("batch"), always);
        assert!(judged(&lapin, &levers).may_hear_blocked(true));
        let mute = client("lapin", "rust", &[]);
        assert!(!judged(&mute, &levers).may_hear_blocked(true));
    }
}
