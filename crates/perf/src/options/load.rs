//! The flags that describe a load. A scenario of `compare` is made of the same flags.

use clap::{Args, ValueEnum};

use crate::arguments::{ArgumentFault, JsonTable, Property};
use crate::body::{BodySizes, IDENTITY_BYTES, PRODUCERS_MAX};
use crate::confirms::CONFIRM_WINDOW_MAX;

/// The longest name of a queue or an exchange, in bytes.
const NAME_BYTES_MAX: usize = 255;
const QUEUES_MAX: u32 = 100_000;
const CONSUMERS_MAX: u32 = 100_000;

/// A load without messages: the same round over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Churn {
    /// Open a connection and a channel, close both.
    Connect,
    /// Declare a queue, delete it.
    Declare,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct LoadOptions {
    /// The queue; declared if it does not exist, and deleted again. With --queues, %d in it
    /// stands for the number.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "sluicemq-perf",
        help_heading = "Queues"
    )]
    pub(crate) queue: String,
    /// Use so many queues, numbered from 1.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(QUEUES_MAX)), help_heading = "Queues")]
    pub(crate) queues: u32,
    /// Arguments of the declaration.
    #[arg(long, value_name = "JSON", help_heading = "Queues")]
    pub(crate) queue_args: Option<JsonTable>,
    /// classic, quorum or stream: short for x-queue-type among the arguments.
    #[arg(long, value_name = "TYPE", help_heading = "Queues")]
    pub(crate) queue_type: Option<String>,
    /// Declare queues that do not outlive the broker.
    #[arg(long, help_heading = "Queues")]
    pub(crate) transient_queues: bool,
    /// Publish to this exchange, to which every queue is bound, so that each gets every message;
    /// else to the queues by the default exchange.
    #[arg(long, value_name = "NAME", help_heading = "Queues")]
    pub(crate) exchange: Option<String>,
    /// direct, fanout, topic, headers or another the broker knows.
    #[arg(
        long,
        value_name = "TYPE",
        default_value = "direct",
        requires = "exchange",
        help_heading = "Queues"
    )]
    pub(crate) exchange_type: String,
    /// Arguments of the exchange.
    #[arg(
        long,
        value_name = "JSON",
        requires = "exchange",
        help_heading = "Queues"
    )]
    pub(crate) exchange_args: Option<JsonTable>,
    /// The key that messages bear on the exchange.
    #[arg(
        long,
        value_name = "KEY",
        default_value = "perf",
        requires = "exchange",
        help_heading = "Queues"
    )]
    pub(crate) routing_key: String,
    /// The key that queues are bound with; the routing key when absent.
    #[arg(
        long,
        value_name = "KEY",
        requires = "exchange",
        help_heading = "Queues"
    )]
    pub(crate) binding_key: Option<String>,
    /// Arguments of the bindings.
    #[arg(
        long,
        value_name = "JSON",
        requires = "exchange",
        help_heading = "Queues"
    )]
    pub(crate) binding_args: Option<JsonTable>,
    /// Delete nothing at the end.
    #[arg(long, help_heading = "Queues")]
    pub(crate) keep: bool,

    /// Publish from so many channels; queues are shared out among them.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Producers"
    )]
    pub(crate) producers: u32,
    /// Producers that share a connection.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2_047), help_heading = "Producers")]
    pub(crate) producers_per_connection: u32,
    /// Connections that each producer publishes on at the same time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000), conflicts_with = "producers_per_connection", help_heading = "Producers")]
    pub(crate) connections_per_producer: u32,
    /// Bytes of a body: 16, or 16,1024 for a list taken in turn, or 16..1024 for a random range.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1024",
        help_heading = "Producers"
    )]
    pub(crate) size: BodySizes,
    /// Fill bodies with random bytes.
    #[arg(long, help_heading = "Producers")]
    pub(crate) random_bytes: bool,
    /// Mark messages persistent.
    #[arg(long, help_heading = "Producers")]
    pub(crate) persistent: bool,
    /// Ask for unroutable messages back.
    #[arg(long, help_heading = "Producers")]
    pub(crate) mandatory: bool,
    /// A property of every message, e.g. priority=5; several times for several.
    #[arg(
        long = "property",
        value_name = "NAME=VALUE",
        help_heading = "Producers"
    )]
    pub(crate) properties: Vec<Property>,
    /// Headers of every message.
    #[arg(long, value_name = "JSON", help_heading = "Producers")]
    pub(crate) headers: Option<JsonTable>,
    /// Ask for confirms, and wait when so many are outstanding; 0 asks for none.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=i64::from(CONFIRM_WINDOW_MAX)), help_heading = "Producers")]
    pub(crate) confirm_window: u32,
    /// Wait for each confirm before the next publish: short for --confirm-window 1.
    #[arg(long, conflicts_with = "confirm_window", help_heading = "Producers")]
    pub(crate) confirm_per_publish: bool,
    /// Publish in transactions of so many messages; 0 in none.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=i64::from(crate::roles::TRANSACTION_MESSAGES_MAX)), help_heading = "Producers")]
    pub(crate) tx: u32,
    /// Publishes per write to the socket, at most. One is what an ordinary client does.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Producers")]
    pub(crate) write_batch: u32,
    /// Messages a second of each producer; as fast as possible when absent.
    #[arg(long, value_name = "N", help_heading = "Producers")]
    pub(crate) rate: Option<f64>,

    /// Consume on so many channels; queues are shared out among them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=i64::from(CONSUMERS_MAX)), help_heading = "Consumers")]
    pub(crate) consumers: u32,
    /// Consumers that share a connection.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2_047), help_heading = "Consumers")]
    pub(crate) consumers_per_connection: u32,
    /// Acknowledge every N deliveries, all at once; 0 is auto-ack.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        help_heading = "Consumers"
    )]
    pub(crate) ack_every: u32,
    /// Deliveries that may be unacknowledged; 0 sets no limit.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=65_535), help_heading = "Consumers")]
    pub(crate) prefetch: u32,
    /// Poll with basic.get instead of subscribing.
    #[arg(long, help_heading = "Consumers")]
    pub(crate) poll: bool,
    /// Pause after a poll that found nothing.
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 10.0,
        requires = "poll",
        help_heading = "Consumers"
    )]
    pub(crate) poll_pause: f64,
    /// Messages a second of each consumer, at most.
    #[arg(long, value_name = "N", help_heading = "Consumers")]
    pub(crate) consume_rate: Option<f64>,
    /// Work on each message for so long before it is acknowledged.
    #[arg(
        long,
        value_name = "MICROSECONDS",
        default_value_t = 0,
        help_heading = "Consumers"
    )]
    pub(crate) think: u64,
    /// Send every Nth first delivery back to its queue; 0 none.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Consumers"
    )]
    pub(crate) requeue_every: u32,
    /// Send those back that come again, too, so that they go round for ever.
    #[arg(long, requires = "requeue_every", help_heading = "Consumers")]
    pub(crate) requeue_again: bool,
    /// Never settle every Nth delivery of each consumer, the first one to begin with; 0 none. They count
    /// towards --prefetch.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Consumers"
    )]
    pub(crate) stuck_every: u64,
    /// Settle each message only when so many more have come: what stays unacknowledged.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Consumers"
    )]
    pub(crate) lag: u32,
    /// Only so many consumers, the last ones, keep to --consume-rate and --think; all when absent.
    #[arg(long, value_name = "N", help_heading = "Consumers")]
    pub(crate) slow_consumers: Option<u32>,

    /// Stop after so many messages, all producers together (without producers: consumed).
    #[arg(long, value_name = "N", help_heading = "Course")]
    pub(crate) messages: Option<u64>,
    /// Stop publishing after so long. Without --messages and --time the load goes on until
    /// interrupted.
    #[arg(long, value_name = "SECONDS", help_heading = "Course")]
    pub(crate) time: Option<f64>,
    /// Start consuming once so many messages were published.
    #[arg(long, value_name = "N", help_heading = "Course")]
    pub(crate) consume_after: Option<u64>,
    /// Start consuming so long after publishing.
    #[arg(
        long,
        value_name = "SECONDS",
        conflicts_with = "consume_after",
        help_heading = "Course"
    )]
    pub(crate) consume_delay: Option<f64>,
    /// Start publishing so long after consuming.
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["consume_after", "consume_delay"], help_heading = "Course")]
    pub(crate) publish_delay: Option<f64>,
    /// After publishing, wait for what is still to be consumed, so long at most; with --verify
    /// without limit while messages arrive.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30.0,
        help_heading = "Course"
    )]
    pub(crate) drain: f64,
    /// Give up waiting when nothing arrived for so long.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5.0,
        help_heading = "Course"
    )]
    pub(crate) idle: f64,
    /// Compare every body, and fail if a message was lost, duplicated, reordered or changed.
    #[arg(long, help_heading = "Course")]
    pub(crate) verify: bool,
    /// Instead of messages: open connections, or declare queues, over and over, --producers at a
    /// time.
    #[arg(long, value_name = "KIND", help_heading = "Course")]
    pub(crate) churn: Option<Churn>,
}

/// Flags that cannot be carried out together, or numbers that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OptionFault {
    #[error("--{0} must be more than 0")]
    NotPositive(&'static str),
    #[error("--confirm-window and --tx exclude each other: a channel has confirms or transactions")]
    ConfirmsAndTransactions,
    #[error(
        "--ack-every {ack_every} is more than --prefetch {prefetch}: the consumer would wait for \
         deliveries that the broker holds back for its acks"
    )]
    AckBeyondPrefetch { ack_every: u32, prefetch: u32 },
    #[error(
        "--lag {lag} and --ack-every {ack_every} are more than --prefetch {prefetch}: nothing more \
         would come before something is acknowledged"
    )]
    LagBeyondPrefetch {
        lag: u32,
        ack_every: u32,
        prefetch: u32,
    },
    #[error("--stuck-every and --lag need acknowledgements: --ack-every must be more than 0")]
    HeldWithoutAcks,
    #[error("--verify needs bodies of at least {IDENTITY_BYTES} bytes, for their sequence number")]
    TooSmallToVerify,
    #[error("--verify needs at least one producer and one consumer in the same run")]
    NothingToVerify,
    #[error("nothing to do: no producers and no consumers")]
    NothingToDo,
    #[error("at most {PRODUCERS_MAX} producers (times connections per producer) can be told apart")]
    TooManyProducers,
    #[error("the name {0:?} is longer than {NAME_BYTES_MAX} bytes")]
    NameTooLong(String),
    #[error("--queue-type and x-queue-type among --queue-args name different types")]
    TwoQueueTypes,
    #[error("--consume-after {after} can never be reached: only {messages} messages are published")]
    ConsumeNever { after: u64, messages: u64 },
    #[error(transparent)]
    Argument(#[from] ArgumentFault),
}

impl LoadOptions {
    /// How many confirms may be outstanding; 0 without confirms.
    pub(crate) fn window(&self) -> u32 {
        if self.confirm_per_publish {
            1
        } else {
            self.confirm_window
        }
    }

    /// Channels that publish.
    pub(crate) fn publishing_channels(&self) -> u32 {
        self.producers.saturating_mul(self.connections_per_producer)
    }

    /// The names of the queues.
    pub(crate) fn queue_names(&self) -> Vec<String> {
        if self.queues == 1 && !self.queue.contains("%d") {
            return vec![self.queue.clone()];
        }
        let pattern = if self.queue.contains("%d") {
            self.queue.clone()
        } else {
            format!("{}-%d", self.queue)
        };
        (1..=self.queues)
            .map(|number| pattern.replace("%d", &number.to_string()))
            .collect()
    }

    /// Checks what the flags' own types cannot.
    pub(crate) fn check(&self) -> Result<(), OptionFault> {
        self.check_numbers()?;
        if self.producers == 0 && (self.consumers == 0 || self.churn.is_some()) {
            return Err(OptionFault::NothingToDo);
        }
        if self.publishing_channels() > PRODUCERS_MAX {
            return Err(OptionFault::TooManyProducers);
        }
        if self.window() > 0 && self.tx > 0 {
            return Err(OptionFault::ConfirmsAndTransactions);
        }
        let (ack_every, prefetch) = (self.ack_every, self.prefetch);
        if prefetch > 0 && ack_every > prefetch && !self.poll {
            return Err(OptionFault::AckBeyondPrefetch {
                ack_every,
                prefetch,
            });
        }
        if self.stuck_every > 0 || self.lag > 0 {
            if ack_every == 0 {
                return Err(OptionFault::HeldWithoutAcks);
            }
            let lag = self.lag;
            if prefetch > 0 && !self.poll && lag.saturating_add(ack_every) > prefetch {
                return Err(OptionFault::LagBeyondPrefetch {
                    lag,
                    ack_every,
                    prefetch,
                });
            }
        }
        self.check_verification()?;
        self.check_names()?;
        match (self.consume_after, self.messages) {
            (Some(after), Some(messages)) if after > messages => {
                Err(OptionFault::ConsumeNever { after, messages })
            }
            _ => Ok(()),
        }
    }

    fn check_numbers(&self) -> Result<(), OptionFault> {
        let positive = [
            ("rate", self.rate),
            ("consume-rate", self.consume_rate),
            ("time", self.time),
            ("messages", self.messages.map(|messages| messages as f64)),
        ];
        for (name, number) in positive {
            if number.is_some_and(|number| !number.is_finite() || number <= 0.0) {
                return Err(OptionFault::NotPositive(name));
            }
        }
        Ok(())
    }

    fn check_verification(&self) -> Result<(), OptionFault> {
        if !self.verify {
            return Ok(());
        }
        if self.size.smallest() < IDENTITY_BYTES {
            return Err(OptionFault::TooSmallToVerify);
        }
        if self.producers == 0 || self.consumers == 0 || self.churn.is_some() {
            return Err(OptionFault::NothingToVerify);
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), OptionFault> {
        let keys = [
            self.exchange.as_ref(),
            Some(&self.routing_key),
            self.binding_key.as_ref(),
        ];
        let queue_names = self.queue_names();
        let longest = queue_names.iter().max_by_key(|name| name.len());
        for name in keys.into_iter().chain([longest]).flatten() {
            if name.len() > NAME_BYTES_MAX {
                return Err(OptionFault::NameTooLong(name.clone()));
            }
        }
        let argument = self
            .queue_args
            .as_ref()
            .and_then(|arguments| arguments.table.get("x-queue-type"));
        match (&self.queue_type, argument) {
            (Some(flag), Some(argument)) if argument.as_str() != Some(flag) => {
                Err(OptionFault::TwoQueueTypes)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
