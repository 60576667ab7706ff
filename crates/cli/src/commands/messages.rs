//! Single messages: published, taken, looked at.

use std::io::Read;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, ValueEnum};
use management_api::{Client, api_path, encoded};
use serde_json::{Map, Value, json};

use crate::arguments::{json_object, key_value};
use crate::failure::{DATA, Failure, Result};
use crate::kinds::exchange_in_path;
use crate::output::{Format, cell};
use crate::shell::{Shell, print};

/// Publishes a message.
#[derive(Args, Debug)]
pub(crate) struct Publish {
    /// The body; read from standard input when it is `-` or missing.
    payload: Option<String>,
    #[arg(
        long = "payload",
        hide = true,
        conflicts_with = "payload",
        id = "payload_option"
    )]
    payload_option: Option<String>,
    /// The exchange; the default one when not given.
    #[arg(short = 'x', long, default_value = "")]
    exchange: String,
    /// The routing key; a queue's name with the default exchange.
    #[arg(short, long, alias = "routing-key", default_value = "")]
    key: String,
    /// A property by its AMQP name, such as delivery_mode=2 or message_id=a.
    #[arg(long = "property", value_name = "NAME=VALUE")]
    properties: Vec<String>,
    /// All properties as a JSON object.
    #[arg(long = "properties", value_name = "JSON")]
    properties_json: Option<String>,
    /// A header.
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// Publishes it so many times.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Is content when no queue takes it.
    #[arg(long)]
    may_be_lost: bool,
}

impl Publish {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let body = json!({
            "properties": self.properties()?,
            "routing_key": self.key,
            "payload": BASE64_STANDARD.encode(self.payload()?),
            "payload_encoding": "base64",
        });
        let exchange = exchange_in_path(&self.exchange);
        let path = api_path(["exchanges", shell.vhost(), exchange, "publish"]);
        let client = shell.client()?;
        let bar = crate::progress::bar(self.count, "published", shell.quiet() || self.count < 2);
        for _ in 0..self.count {
            let answer = client
                .post(&path, &body)
                .map_err(|error| Failure::from(error).while_doing("publish"))?;
            if answer["routed"] != json!(true) && !self.may_be_lost {
                return Err(self.unroutable());
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        shell.say(format!("published {}", self.count));
        Ok(())
    }

    fn unroutable(&self) -> Failure {
        let (exchange, key) = (&self.exchange, &self.key);
        Failure::new(DATA, "no queue took the message")
            .why(format!(
                "exchange '{exchange}' has no route for key '{key}'"
            ))
            .next(format!(
                "sluicectl route --exchange '{exchange}' --key '{key}'"
            ))
    }

    fn properties(&self) -> Result<Map<String, Value>> {
        let mut properties = match &self.properties_json {
            None => Map::new(),
            Some(text) => json_object(text)?,
        };
        for pair in &self.properties {
            let (name, value) = key_value(pair)?;
            properties.insert(name, value);
        }
        if !self.headers.is_empty() {
            let mut headers = Map::new();
            for pair in &self.headers {
                let (name, value) = key_value(pair)?;
                headers.insert(name, value);
            }
            properties.insert("headers".into(), headers.into());
        }
        Ok(properties)
    }

    fn payload(&self) -> Result<Vec<u8>> {
        let given = self.payload.as_deref().or(self.payload_option.as_deref());
        match given {
            Some(text) if text != "-" => Ok(text.as_bytes().to_vec()),
            _ => {
                let mut bytes = Vec::new();
                std::io::stdin().read_to_end(&mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

/// What becomes of messages after they were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AckMode {
    /// They go back.
    #[value(alias = "ack_requeue_true")]
    Requeue,
    /// They are gone.
    #[value(alias = "ack_requeue_false")]
    Ack,
    /// They go back as failures, which count.
    #[value(alias = "reject_requeue_true")]
    Reject,
    /// They are dead-lettered or dropped.
    #[value(alias = "reject_requeue_false")]
    Discard,
}

impl AckMode {
    fn name(self) -> &'static str {
        match self {
            Self::Requeue => "ack_requeue_true",
            Self::Ack => "ack_requeue_false",
            Self::Reject => "reject_requeue_true",
            Self::Discard => "reject_requeue_false",
        }
    }
}

/// Takes messages out of a queue and puts them back, unless told otherwise.
#[derive(Args, Debug)]
pub(crate) struct Get {
    #[arg(required_unless_present = "queue_option")]
    queue: Option<String>,
    #[arg(
        long = "queue",
        hide = true,
        conflicts_with = "queue",
        id = "queue_option"
    )]
    queue_option: Option<String>,
    /// Most messages.
    #[arg(short, long, visible_short_alias = 'n', default_value_t = 1)]
    count: u64,
    /// What becomes of them.
    #[arg(long, value_enum, default_value = "requeue", alias = "ack-mode")]
    ack: AckMode,
}

impl Get {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let queue = self.queue.as_deref().or(self.queue_option.as_deref());
        let queue = queue.unwrap_or_default();
        let got = take(shell.client()?, shell.vhost(), queue, self.count, self.ack)?;
        show_messages(shell, &got)
    }
}

fn take(
    client: &Client,
    vhost: &str,
    queue: &str,
    count: u64,
    mode: AckMode,
) -> Result<Vec<Value>> {
    let path = api_path(["queues", vhost, queue, "get"]);
    let body = json!({"count": count, "ackmode": mode.name(), "encoding": "auto"});
    let got = client
        .post(&path, &body)
        .map_err(|error| Failure::from(error).while_doing(&format!("get from queue '{queue}'")))?;
    match got {
        Value::Array(messages) => Ok(messages),
        _ => Ok(Vec::new()),
    }
}

/// Takes messages out of a queue for good.
#[derive(Args, Debug)]
pub(crate) struct Consume {
    queue: String,
    /// Stops after so many; goes on for ever when it is 0.
    #[arg(short, long, visible_short_alias = 'n', default_value_t = 0)]
    count: u64,
    /// Ends when the queue is empty.
    #[arg(long)]
    until_empty: bool,
}

/// Messages of one request: what was taken is lost when the program is killed before it prints.
const CONSUME_BATCH: u64 = 1;
/// Pause before an empty queue is asked again.
const CONSUME_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

impl Consume {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let mut taken = 0;
        while self.count == 0 || taken < self.count {
            let got = take(
                shell.client()?,
                shell.vhost(),
                &self.queue,
                CONSUME_BATCH,
                AckMode::Ack,
            )?;
            taken += got.len() as u64;
            if !got.is_empty() {
                show_messages(shell, &got)?;
            } else if self.until_empty {
                break;
            } else {
                std::thread::sleep(CONSUME_PAUSE);
            }
        }
        Ok(())
    }
}

/// Looks at messages where they are.
#[derive(Args, Debug)]
pub(crate) struct Peek {
    queue: String,
    /// Passes over so many.
    #[arg(long, default_value_t = 0)]
    offset: u64,
    /// Most messages.
    #[arg(short, long, visible_short_alias = 'n', default_value_t = 10)]
    count: u64,
    /// Bytes of each body.
    #[arg(long, default_value_t = 200)]
    truncate: u64,
    /// Only those that are handed out, with who has them.
    #[arg(long)]
    unacked: bool,
    /// Only dead letters of this reason: rejected, expired, maxlen, delivery_limit.
    #[arg(long)]
    reason: Option<String>,
    /// Only messages with this header.
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
}

impl Peek {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let which = if self.unacked { "unacked" } else { "peek" };
        let mut path = format!(
            "{}?offset={}&count={}&truncate={}",
            api_path(["queues", shell.vhost(), &self.queue, which]),
            self.offset,
            self.count,
            self.truncate
        );
        if let Some(reason) = &self.reason {
            path.push_str(&format!("&reason={}", encoded(reason)));
        }
        for pair in &self.headers {
            path.push_str(&format!("&header={}", encoded(pair)));
        }
        let seen = shell.client()?.get(&path).map_err(|error| {
            Failure::from(error).while_doing(&format!("look into queue '{}'", self.queue))
        })?;
        let rows: Vec<Value> = seen.as_array().cloned().unwrap_or_default();
        let usual = [
            ("ENTRY", "entry"),
            ("STATE", "state"),
            ("BYTES", "message.payload_bytes"),
            ("EXCHANGE", "message.exchange"),
            ("KEY", "message.routing_key"),
            ("RETURNS", "delivery_count"),
            ("HOLDER", "consumer_tag"),
            ("BODY", "message.payload"),
        ];
        shell.rows(&rows, &usual, "entry")
    }
}

fn show_messages(shell: &Shell, messages: &[Value]) -> Result<()> {
    if shell.format() != Format::Table || shell.has_columns() {
        return shell.rows(messages, &[("PAYLOAD", "payload")], "payload");
    }
    if messages.is_empty() {
        shell.say("the queue is empty");
    }
    for message in messages {
        print(&text(message));
    }
    Ok(())
}

fn text(message: &Value) -> String {
    let field = |key: &str| cell(message.get(key));
    let mut lines = vec![format!(
        "exchange '{}'  key '{}'  {} bytes{}",
        field("exchange"),
        field("routing_key"),
        field("payload_bytes"),
        if message["redelivered"] == json!(true) {
            "  redelivered"
        } else {
            ""
        }
    )];
    if let Some(properties) = message["properties"].as_object() {
        let shown = properties
            .iter()
            .map(|(name, value)| format!("  {name}: {}", cell(Some(value))));
        lines.extend(shown);
    }
    lines.push(match field("payload_encoding").as_str() {
        "base64" => format!("(base64) {}", field("payload")),
        _ => field("payload"),
    });
    lines.join("\n") + "\n\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_from_its_way_to_its_body() {
        let message = json!({
            "exchange": "orders", "routing_key": "new.eu", "payload_bytes": 5, "redelivered": true,
            "properties": {"delivery_mode": 2, "headers": {"try": 1}},
            "payload": "hello", "payload_encoding": "string",
        });
        insta::assert_snapshot!(text(&message), @r"
        exchange 'orders'  key 'new.eu'  5 bytes  redelivered
          delivery_mode: 2
          headers: try=1
        hello
        ");
    }
}
