//! Where a message would go.

use clap::Args;
use management_api::api_path;
use serde_json::{Value, json};

use crate::arguments::key_value;
use crate::failure::{Failure, Result};
use crate::kinds::exchange_in_path;
use crate::shell::Shell;

/// Tells which queues a message would reach, and why.
#[derive(Args, Debug)]
pub(crate) struct Route {
    /// The exchange; the default one when not given.
    #[arg(short = 'x', long, default_value = "")]
    exchange: String,
    /// The routing key.
    #[arg(short, long, default_value = "", alias = "routing-key")]
    key: String,
    /// A header.
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
}

impl Route {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let headers: serde_json::Map<String, Value> = self
            .headers
            .iter()
            .map(|pair| key_value(pair))
            .collect::<Result<_>>()?;
        let exchange = exchange_in_path(&self.exchange);
        let path = api_path(["exchanges", shell.vhost(), exchange, "route"]);
        let body = json!({"routing_key": self.key, "headers": headers});
        let answer = shell.client()?.post(&path, &body).map_err(|error| {
            Failure::from(error)
                .while_doing("find the route")
                .next("sluicectl list exchanges")
        })?;
        let rows = answer["queues"].as_array().cloned().unwrap_or_default();
        if rows.is_empty() {
            shell.say("no queue would take the message");
        }
        shell.rows(&rows, &[("QUEUE", "queue"), ("WHY", "why")], "queue")
    }
}
