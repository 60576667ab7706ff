//! What a client asks for, as methods ready to send: one function or description a request.
//! Knows the arguments' order and their usual values; nothing of sockets or answers.

use crate::wire::{Method, Properties, Table};

/// RabbitMQ ignores the access ticket that many methods still carry.
const TICKET: u16 = 0;

macro_rules! method {
    ($name:literal $(, $argument:expr)* $(,)?) => {
        Method::new($name, vec![$($argument.into()),*])
    };
}

/// A queue as `queue.declare` describes it.
#[derive(Clone, Debug, Default)]
pub struct QueueSpec {
    name: String,
    passive: bool,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    arguments: Table,
}

impl QueueSpec {
    /// A durable queue whose type nobody names.
    pub fn durable(name: &str) -> QueueSpec {
        QueueSpec {
            name: name.to_owned(),
            durable: true,
            ..QueueSpec::default()
        }
    }

    /// A queue that need not survive a restart.
    pub fn transient(name: &str) -> QueueSpec {
        QueueSpec {
            name: name.to_owned(),
            ..QueueSpec::default()
        }
    }

    /// A durable quorum queue.
    pub fn quorum(name: &str) -> QueueSpec {
        QueueSpec::durable(name).argument("x-queue-type", "quorum")
    }

    /// Only asks whether the queue exists.
    pub fn passive(name: &str) -> QueueSpec {
        QueueSpec {
            name: name.to_owned(),
            passive: true,
            ..QueueSpec::default()
        }
    }

    /// For the declaring connection alone.
    #[must_use]
    pub fn exclusive(mut self) -> QueueSpec {
        self.exclusive = true;
        self
    }

    /// Deleted with its last consumer.
    #[must_use]
    pub fn auto_delete(mut self) -> QueueSpec {
        self.auto_delete = true;
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, key: &str, value: impl Into<crate::wire::Value>) -> QueueSpec {
        self.arguments = self.arguments.with(key, value);
        self
    }
}

/// `queue.declare`
pub fn queue_declare(spec: &QueueSpec) -> Method {
    queue_declare_method(spec, false)
}

/// `queue.declare` that wants no answer.
pub fn queue_declare_nowait(spec: &QueueSpec) -> Method {
    queue_declare_method(spec, true)
}

fn queue_declare_method(spec: &QueueSpec, nowait: bool) -> Method {
    method!(
        "queue.declare",
        TICKET,
        spec.name.as_str(),
        spec.passive,
        spec.durable,
        spec.exclusive,
        spec.auto_delete,
        nowait,
        &spec.arguments,
    )
}

/// `queue.bind`
pub fn queue_bind(queue: &str, exchange: &str, binding_key: &str, arguments: &Table) -> Method {
    method!(
        "queue.bind",
        TICKET,
        queue,
        exchange,
        binding_key,
        false,
        arguments
    )
}

/// `queue.unbind`
pub fn queue_unbind(queue: &str, exchange: &str, binding_key: &str, arguments: &Table) -> Method {
    method!(
        "queue.unbind",
        TICKET,
        queue,
        exchange,
        binding_key,
        arguments
    )
}

/// `queue.purge`
pub fn queue_purge(queue: &str) -> Method {
    method!("queue.purge", TICKET, queue, false)
}

/// `queue.delete` without conditions.
pub fn queue_delete(queue: &str) -> Method {
    method!("queue.delete", TICKET, queue, false, false, false)
}

/// `queue.delete` only when nobody consumes from it.
pub fn queue_delete_if_unused(queue: &str) -> Method {
    method!("queue.delete", TICKET, queue, true, false, false)
}

/// `queue.delete` only when no message is ready in it.
pub fn queue_delete_if_empty(queue: &str) -> Method {
    method!("queue.delete", TICKET, queue, false, true, false)
}

/// An exchange as `exchange.declare` describes it.
#[derive(Clone, Debug, Default)]
pub struct ExchangeSpec {
    name: String,
    kind: String,
    passive: bool,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Table,
}

impl ExchangeSpec {
    /// A durable exchange of type `kind`.
    pub fn durable(name: &str, kind: &str) -> ExchangeSpec {
        ExchangeSpec {
            durable: true,
            ..ExchangeSpec::transient(name, kind)
        }
    }

    /// An exchange that need not survive a restart.
    pub fn transient(name: &str, kind: &str) -> ExchangeSpec {
        ExchangeSpec {
            name: name.to_owned(),
            kind: kind.to_owned(),
            ..ExchangeSpec::default()
        }
    }

    /// Only asks whether the exchange exists.
    pub fn passive(name: &str, kind: &str) -> ExchangeSpec {
        ExchangeSpec {
            passive: true,
            ..ExchangeSpec::transient(name, kind)
        }
    }

    /// Takes messages from other exchanges only.
    #[must_use]
    pub fn internal(mut self) -> ExchangeSpec {
        self.internal = true;
        self
    }

    /// Deleted with its last binding.
    #[must_use]
    pub fn auto_delete(mut self) -> ExchangeSpec {
        self.auto_delete = true;
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, key: &str, value: impl Into<crate::wire::Value>) -> ExchangeSpec {
        self.arguments = self.arguments.with(key, value);
        self
    }
}

/// `exchange.declare`
pub fn exchange_declare(spec: &ExchangeSpec) -> Method {
    method!(
        "exchange.declare",
        TICKET,
        spec.name.as_str(),
        spec.kind.as_str(),
        spec.passive,
        spec.durable,
        spec.auto_delete,
        spec.internal,
        false,
        &spec.arguments,
    )
}

/// `exchange.delete` without conditions.
pub fn exchange_delete(exchange: &str) -> Method {
    method!("exchange.delete", TICKET, exchange, false, false)
}

/// `exchange.delete` only when nothing is bound to it.
pub fn exchange_delete_if_unused(exchange: &str) -> Method {
    method!("exchange.delete", TICKET, exchange, true, false)
}

/// `exchange.bind`: messages of `source` go on to `destination`.
pub fn exchange_bind(destination: &str, source: &str, binding_key: &str) -> Method {
    method!(
        "exchange.bind",
        TICKET,
        destination,
        source,
        binding_key,
        false,
        &Table::default()
    )
}

/// `exchange.unbind`
pub fn exchange_unbind(destination: &str, source: &str, binding_key: &str) -> Method {
    method!(
        "exchange.unbind",
        TICKET,
        destination,
        source,
        binding_key,
        false,
        &Table::default()
    )
}

/// A consumer as `basic.consume` describes it.
#[derive(Clone, Debug, Default)]
pub struct ConsumerSpec {
    queue: String,
    tag: String,
    no_local: bool,
    no_ack: bool,
    exclusive: bool,
    arguments: Table,
}

impl ConsumerSpec {
    /// Consumes from `queue` with acknowledgements; the broker chooses the tag.
    pub fn of(queue: &str) -> ConsumerSpec {
        ConsumerSpec {
            queue: queue.to_owned(),
            ..ConsumerSpec::default()
        }
    }

    /// Chooses the consumer tag.
    #[must_use]
    pub fn tag(mut self, tag: &str) -> ConsumerSpec {
        self.tag = tag.to_owned();
        self
    }

    /// Deliveries count as settled when sent.
    #[must_use]
    pub fn no_ack(mut self) -> ConsumerSpec {
        self.no_ack = true;
        self
    }

    /// Asks not to get what this connection published.
    #[must_use]
    pub fn no_local(mut self) -> ConsumerSpec {
        self.no_local = true;
        self
    }

    /// Wants the queue for itself.
    #[must_use]
    pub fn exclusive(mut self) -> ConsumerSpec {
        self.exclusive = true;
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, key: &str, value: impl Into<crate::wire::Value>) -> ConsumerSpec {
        self.arguments = self.arguments.with(key, value);
        self
    }
}

/// `basic.consume`
pub fn basic_consume(spec: &ConsumerSpec) -> Method {
    method!(
        "basic.consume",
        TICKET,
        spec.queue.as_str(),
        spec.tag.as_str(),
        spec.no_local,
        spec.no_ack,
        spec.exclusive,
        false,
        &spec.arguments,
    )
}

/// `basic.cancel`
pub fn basic_cancel(tag: &str) -> Method {
    method!("basic.cancel", tag, false)
}

/// `basic.qos` for each consumer that starts later on the channel.
pub fn basic_qos(prefetch: u16) -> Method {
    method!("basic.qos", 0u32, prefetch, false)
}

/// `basic.get`
pub fn basic_get(queue: &str, no_ack: bool) -> Method {
    method!("basic.get", TICKET, queue, no_ack)
}

/// `basic.ack`
pub fn basic_ack(delivery_tag: u64, multiple: bool) -> Method {
    method!("basic.ack", delivery_tag, multiple)
}

/// `basic.nack`
pub fn basic_nack(delivery_tag: u64, multiple: bool, requeue: bool) -> Method {
    method!("basic.nack", delivery_tag, multiple, requeue)
}

/// `basic.reject`
pub fn basic_reject(delivery_tag: u64, requeue: bool) -> Method {
    method!("basic.reject", delivery_tag, requeue)
}

/// `basic.recover`
pub fn basic_recover(requeue: bool) -> Method {
    method!("basic.recover", requeue)
}

/// `confirm.select`
pub fn confirm_select() -> Method {
    method!("confirm.select", false)
}

/// `channel.open`
pub fn channel_open() -> Method {
    method!("channel.open", "")
}

/// `channel.close`
pub fn channel_close() -> Method {
    method!("channel.close", 200u16, "done", 0u16, 0u16)
}

/// `channel.flow`
pub fn channel_flow(active: bool) -> Method {
    method!("channel.flow", active)
}

/// `connection.close`
pub fn connection_close() -> Method {
    method!("connection.close", 200u16, "done", 0u16, 0u16)
}

/// `basic.publish` alone, without its content.
pub fn basic_publish(publication: &Publication) -> Method {
    method!(
        "basic.publish",
        TICKET,
        publication.exchange.as_str(),
        publication.routing_key.as_str(),
        publication.mandatory,
        publication.immediate,
    )
}

/// A message to publish.
#[derive(Clone, Debug, Default)]
pub struct Publication {
    /// The exchange.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// Return it when no queue takes it.
    pub mandatory: bool,
    /// A flag that RabbitMQ refuses.
    pub immediate: bool,
    /// The properties.
    pub properties: Properties,
    /// The body.
    pub body: Vec<u8>,
}

impl Publication {
    /// A message to `exchange` under `routing_key`.
    pub fn new(exchange: &str, routing_key: &str, body: impl AsRef<[u8]>) -> Publication {
        Publication {
            exchange: exchange.to_owned(),
            routing_key: routing_key.to_owned(),
            body: body.as_ref().to_vec(),
            ..Publication::default()
        }
    }

    /// A message to one queue by the default exchange.
    pub fn to_queue(queue: &str, body: impl AsRef<[u8]>) -> Publication {
        Publication::new("", queue, body)
    }

    /// Wants it back when no queue takes it.
    #[must_use]
    pub fn mandatory(mut self) -> Publication {
        self.mandatory = true;
        self
    }

    /// Sets all properties.
    #[must_use]
    pub fn with(mut self, properties: Properties) -> Publication {
        self.properties = properties;
        self
    }
}
