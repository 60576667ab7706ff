//! The busiest queues, again and again.

use clap::{Args, ValueEnum};
use management_api::encoded;
use serde_json::Value;

use crate::failure::Result;
use crate::shell::{Shell, watch};

use super::list::pause;

/// What makes a queue the busiest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Messages ready.
    Ready,
    /// Messages handed out.
    Unacked,
    /// Messages published a second.
    In,
    /// Messages delivered a second.
    Out,
    /// Bytes of messages.
    Bytes,
}

impl By {
    fn field(self) -> &'static str {
        match self {
            Self::Ready => "messages_ready",
            Self::Unacked => "messages_unacknowledged",
            Self::In => "message_stats.publish_details.rate",
            Self::Out => "message_stats.deliver_get_details.rate",
            Self::Bytes => "message_bytes",
        }
    }
}

/// The busiest queues, again and again.
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// What counts.
    #[arg(long, value_enum, default_value = "ready")]
    by: By,
    /// Queues to show.
    #[arg(short = 'n', long, default_value_t = 20)]
    count: usize,
    /// Seconds between two looks.
    #[arg(short, long, default_value_t = 2.0)]
    every: f64,
    /// Looks once.
    #[arg(long)]
    once: bool,
}

impl Top {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let every = if self.once {
            None
        } else {
            pause(Some(self.every))
        };
        watch(every, || self.look(shell))
    }

    fn look(&self, shell: &Shell) -> Result<()> {
        let list = crate::kinds::Kind::Queues.path(shell.vhost_named(), "");
        let size = self.count.clamp(1, 500);
        let sort = encoded(self.by.field());
        let path = format!("{list}?page=1&page_size={size}&sort={sort}&sort_reverse=true");
        let page = shell.client()?.get(&path)?;
        let rows: Vec<Value> = page["items"].as_array().cloned().unwrap_or_default();
        let usual = [
            ("VHOST", "vhost"),
            ("NAME", "name"),
            ("READY", "messages_ready"),
            ("UNACKED", "messages_unacknowledged"),
            ("BYTES", "message_bytes"),
            ("IN/S", "message_stats.publish_details.rate"),
            ("OUT/S", "message_stats.deliver_get_details.rate"),
            ("ACK/S", "message_stats.ack_details.rate"),
            ("CONSUMERS", "consumers"),
        ];
        shell.rows(&rows, &usual, "name")
    }
}
