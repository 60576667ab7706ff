//! What takes room on the broker's disk, and which message of which consumer keeps it there.

use clap::Args;
use management_api::encoded;
use serde_json::{Value, json};

use crate::failure::Result;
use crate::output::{Table, bytes, cell};
use crate::shell::{Shell, watch};

use super::list::pause;

/// What takes room on the disk, and what keeps it there.
#[derive(Args, Debug)]
pub(crate) struct Disk {
    /// Only this queue.
    queue: Option<String>,
    /// Segments to name, those with the most dead bytes first.
    #[arg(short = 'n', long, default_value_t = 10)]
    count: usize,
    /// Shows it again every so many seconds.
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    watch: Option<f64>,
}

impl Disk {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        watch(pause(self.watch), || self.look(shell))
    }

    fn look(&self, shell: &Shell) -> Result<()> {
        let client = shell.client()?;
        let Some(queue) = &self.queue else {
            let disk = client.get("/api/disk")?;
            return shell.answer(&disk, || self.text_of_all(&disk));
        };
        let vhost = encoded(shell.vhost());
        let disk = client.get(&format!("/api/queues/{vhost}/{}/disk", encoded(queue)))?;
        let alone = std::slice::from_ref(&disk);
        shell.answer(&disk, || self.text_of_queues(alone))
    }

    fn text_of_all(&self, disk: &Value) -> String {
        let queues = disk["queues"].as_array().map_or(&[][..], Vec::as_slice);
        let mut text = summary(disk);
        if !queues.is_empty() {
            text.push('\n');
            text.push_str(&self.text_of_queues(queues));
        }
        text
    }

    fn text_of_queues(&self, queues: &[Value]) -> String {
        let mut table = Table::new([
            "VHOST", "QUEUE", "LIVE", "DEAD", "JOURNAL", "PAGED", "SEGMENTS",
        ]);
        for queue in queues {
            let size = |key: &str| bytes(number(queue, key));
            let segments = match queue["recovered"] == json!(false) {
                true => "not looked into yet".to_owned(),
                false => cell(queue.get("segments")),
            };
            table.push([
                cell(queue.get("vhost")),
                cell(queue.get("queue")),
                size("live_bytes"),
                size("dead_bytes"),
                size("journal_bytes"),
                size("paged_bytes"),
                segments,
            ]);
        }
        let pinned = self.pinned(queues);
        match pinned.is_empty() {
            true => table.to_string(),
            false => format!("{table}\n{pinned}"),
        }
    }

    /// Which message keeps each segment, those with the most dead bytes of all queues first.
    fn pinned(&self, queues: &[Value]) -> String {
        let pins_of = |queue: &'_ Value| queue["pinned_by"].as_array().cloned().unwrap_or_default();
        let mut pins: Vec<(&Value, Value)> = queues
            .iter()
            .flat_map(|queue| pins_of(queue).into_iter().map(move |pin| (queue, pin)))
            .collect();
        if pins.is_empty() {
            return String::new();
        }
        pins.sort_by_key(|(_, pin)| std::cmp::Reverse(number(pin, "dead_bytes")));
        let more = pins.len().saturating_sub(self.count);
        pins.truncate(self.count);
        let mut table = Table::new([
            "QUEUE",
            "SEGMENT",
            "LIVE",
            "DEAD",
            "OLDEST IN IT",
            "PUBLISHED",
            "IS",
            "HELD BY",
            "SINCE",
        ]);
        for (queue, pin) in &pins {
            table.push([
                cell(queue.get("queue")),
                cell(pin.get("segment")),
                bytes(number(pin, "live_bytes")),
                bytes(number(pin, "dead_bytes")),
                cell(pin.get("entry")),
                cell(pin.get("published")),
                cell(pin.get("state")),
                holder(pin),
                cell(pin.get("held_since")),
            ]);
        }
        let mut text = table.to_string();
        if more > 0 {
            text.push_str(&format!("and {more} more segments\n"));
        }
        text
    }
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_default()
}

/// The consumer that holds a message, with its channel.
fn holder(pin: &Value) -> String {
    let (consumer, channel) = (pin["consumer_tag"].as_str(), pin["channel"].as_str());
    match (consumer, channel) {
        (Some(consumer), Some(channel)) => format!("{consumer} on {channel}"),
        (None, Some(channel)) => format!("a get on {channel}"),
        (Some(consumer), None) => consumer.to_owned(),
        (None, None) => String::new(),
    }
}

fn summary(disk: &Value) -> String {
    let mut table = Table::headless(2);
    let mut line = |head: &str, value: String| table.push([head.to_owned(), value]);
    for (head, key) in [
        ("journal", "journal_bytes"),
        ("segments", "segment_bytes"),
        ("paged out", "paged_bytes"),
        ("checkpoints", "checkpoint_bytes"),
    ] {
        line(head, bytes(number(disk, key)));
    }
    let held = match disk["publishers_held"] == json!(true) {
        true => ", PUBLISHERS ARE HELD",
        false => "",
    };
    let limit = bytes(number(disk, "free_limit_bytes"));
    let free = bytes(number(disk, "free_bytes"));
    line("free", format!("{free}, limit {limit}{held}"));
    let forecast = &disk["forecast"];
    if let Some(growth) = forecast["growth_bytes_per_s"].as_i64() {
        let sign = if growth < 0 { "-" } else { "" };
        let mut text = format!("{sign}{}/s", bytes(growth.unsigned_abs()));
        if let Some(full_in_s) = forecast["full_in_s"].as_u64() {
            let left = crate::output::duration_ms(full_in_s.saturating_mul(1000));
            text.push_str(&format!(", publishers are held in {left}"));
        }
        line("growth", text);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_comes_with_what_pins_it() {
        let disk = json!({
            "journal_bytes": 134_221_824, "segment_bytes": 18_874_368, "paged_bytes": 0,
            "checkpoint_bytes": 16, "free_bytes": 5_u64 << 30, "free_limit_bytes": 50_000_000,
            "publishers_held": false,
            "forecast": {"growth_bytes_per_s": 1_048_576, "full_in_s": 5_000, "watched_s": 60},
            "queues": [
                {"vhost": "/", "queue": "orders", "recovered": true, "segments": 2,
                 "live_bytes": 2_048, "dead_bytes": 18_000_000, "journal_bytes": 512, "paged_bytes": 0,
                 "pinned_by": [
                    {"segment": 1, "live_messages": 1, "live_bytes": 100, "dead_bytes": 10,
                     "entry": 7, "state": "ready"},
                    {"segment": 2, "live_messages": 3, "live_bytes": 300, "dead_bytes": 9_000_000,
                     "entry": 9, "published": "2026-01-01T00:00:00Z", "state": "unacked",
                     "channel": "1.2.3.4:5 -> 6.7.8.9:5672 (1)", "consumer_tag": "c1",
                     "held_since": "2026-01-02T00:00:00Z"}]},
                {"vhost": "/", "queue": "cold", "recovered": false, "segments": 1, "live_bytes": 0,
                 "dead_bytes": 0, "journal_bytes": 0, "paged_bytes": 0, "pinned_by": []}],
        });
        let shown = Disk {
            queue: None,
            count: 1,
            watch: None,
        };
        insta::assert_snapshot!(shown.text_of_all(&disk), @r"
        journal      128.0 MiB
        segments     18.0 MiB
        paged out    0 B
        checkpoints  16 B
        free         5.0 GiB, limit 47.7 MiB
        growth       1.0 MiB/s, publishers are held in 1 h 23 min

        VHOST  QUEUE   LIVE     DEAD      JOURNAL  PAGED  SEGMENTS
        /      orders  2.0 KiB  17.2 MiB  512 B    0 B    2
        /      cold    0 B      0 B       0 B      0 B    not looked into yet

        QUEUE   SEGMENT  LIVE   DEAD     OLDEST IN IT  PUBLISHED             IS       HELD BY                              SINCE
        orders        2  300 B  8.6 MiB             9  2026-01-01T00:00:00Z  unacked  c1 on 1.2.3.4:5 -> 6.7.8.9:5672 (1)  2026-01-02T00:00:00Z
        and 1 more segments
        ");
    }
}
