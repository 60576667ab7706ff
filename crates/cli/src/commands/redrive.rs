//! Moving messages between queues, and sending dead letters back to where they came from.
//!
//! The broker moves them, a part a request; each part is confirmed before it leaves its queue.

use clap::Args;
use management_api::{MessageFilter, MoveReport, MoveRequest, MoveTarget, api_path};
use serde_json::{Value, json};

use crate::arguments::key_value;
use crate::failure::{DATA, Failure, Result};
use crate::output::{Format, Table, cell};
use crate::progress;
use crate::shell::{Shell, print};

/// Which messages.
#[derive(Args, Debug)]
struct Selection {
    /// Only dead letters of this reason: rejected, expired, maxlen, delivery_limit.
    #[arg(long)]
    reason: Option<String>,
    /// Only dead letters that died in this queue.
    #[arg(long, value_name = "QUEUE")]
    died_in: Option<String>,
    /// Only messages with this header.
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// Only those that died, or were published, at least so many seconds ago.
    #[arg(long, value_name = "SECONDS")]
    older_than: Option<u64>,
    /// Only those that died, or were published, at most so many seconds ago.
    #[arg(long, value_name = "SECONDS")]
    newer_than: Option<u64>,
    /// Moves no more than so many.
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Moves no more than so many a second.
    #[arg(long, value_name = "PER SECOND")]
    rate: Option<f64>,
    /// Moves nothing; tells what would move.
    #[arg(long)]
    dry_run: bool,
}

impl Selection {
    fn filter(&self) -> Result<MessageFilter> {
        let headers = self.headers.iter().map(|pair| key_value(pair));
        Ok(MessageFilter {
            reason: self.reason.clone(),
            died_in: self.died_in.clone(),
            headers: headers.collect::<Result<_>>()?,
            older_than_ms: self.older_than.map(|seconds| seconds.saturating_mul(1000)),
            newer_than_ms: self.newer_than.map(|seconds| seconds.saturating_mul(1000)),
        })
    }
}

/// Moves messages to another queue or exchange.
#[derive(Args, Debug)]
pub(crate) struct Move {
    /// The queue they leave.
    from: String,
    /// The queue they go to.
    #[arg(required_unless_present = "exchange", conflicts_with = "exchange")]
    to: Option<String>,
    /// The exchange they go to instead.
    #[arg(short = 'x', long)]
    exchange: Option<String>,
    /// The routing key there; their own when not given.
    #[arg(short, long)]
    key: Option<String>,
    #[command(flatten)]
    selection: Selection,
}

/// Sends dead letters back to where they came from.
#[derive(Args, Debug)]
pub(crate) struct Redrive {
    /// The queue of dead letters.
    queue: String,
    /// Sends them all to this queue instead of where each came from.
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    #[command(flatten)]
    selection: Selection,
}

impl Move {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let target = MoveTarget {
            queue: self.to.clone(),
            exchange: self.exchange.clone(),
            routing_key: self.key.clone(),
        };
        relocate(shell, &self.from, "move", Some(target), &self.selection)
    }
}

impl Redrive {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let target = self.to.clone().map(|queue| MoveTarget {
            queue: Some(queue),
            ..MoveTarget::default()
        });
        relocate(shell, &self.queue, "redrive", target, &self.selection)
    }
}

/// Asks for part after part until all messages were looked at.
fn relocate(
    shell: &Shell,
    queue: &str,
    verb: &str,
    to: Option<MoveTarget>,
    selection: &Selection,
) -> Result<()> {
    let client = shell.client()?;
    let failed = |error| Failure::from(error).while_doing(&format!("{verb} from queue '{queue}'"));
    let counts = client
        .get(&api_path(["queues", shell.vhost(), queue]))
        .map_err(failed)?;
    let total = counts["messages_ready"].as_u64().unwrap_or_default();
    let path = api_path(["queues", shell.vhost(), queue, verb]);
    let bar = progress::bar(total, "looked at", shell.quiet());
    let mut request = MoveRequest {
        to,
        filter: selection.filter()?,
        rate: selection.rate,
        dry_run: selection.dry_run,
        ..MoveRequest::default()
    };
    let mut sum = MoveReport::default();
    loop {
        request.after = sum.last_entry;
        request.limit = selection
            .limit
            .map(|limit| limit.saturating_sub(sum.matched));
        if request.limit == Some(0) {
            break;
        }
        let answer = client.post(&path, &json!(request)).map_err(failed)?;
        let part: MoveReport = serde_json::from_value(answer)?;
        bar.inc(part.examined);
        let more = part.more;
        add(&mut sum, part);
        if !more {
            break;
        }
    }
    bar.finish_and_clear();
    show(shell, &sum)
}

fn add(sum: &mut MoveReport, part: MoveReport) {
    sum.examined += part.examined;
    sum.matched += part.matched;
    sum.moved += part.moved;
    sum.refused += part.refused;
    sum.last_entry = part.last_entry.or(sum.last_entry);
    sum.dry_run = part.dry_run;
    sum.samples.extend(part.samples);
}

fn show(shell: &Shell, report: &MoveReport) -> Result<()> {
    let json = json!(report);
    if shell.format() == Format::Table {
        print(&text(report));
    } else {
        shell.object(&json)?;
    }
    if report.refused > 0 {
        return Err(Failure::new(
            DATA,
            format!("{} messages stay where they are", report.refused),
        )
        .why("no queue took them, or their target refused them")
        .next("look at them: sluicectl peek QUEUE; look at the target: sluicectl route …"));
    }
    Ok(())
}

fn text(report: &MoveReport) -> String {
    let mut text = String::new();
    if report.dry_run && !report.samples.is_empty() {
        let mut table = Table::new(["ENTRY", "REASON", "DIED IN", "TO EXCHANGE", "TO KEY"]);
        for sample in &report.samples {
            let value: Value = json!(sample);
            let fields = [
                "entry",
                "reason",
                "died_in",
                "to_exchange",
                "to_routing_key",
            ];
            table.push(fields.map(|field| cell(value.get(field))));
        }
        text.push_str(&table.to_string());
    }
    let MoveReport {
        examined,
        matched,
        moved,
        ..
    } = report;
    text.push_str(&match report.dry_run {
        true => format!("{matched} of {examined} messages would move\n"),
        false => format!("{moved} of {examined} messages moved\n"),
    });
    text
}

#[cfg(test)]
mod tests {
    use management_api::MoveSample;

    use super::*;

    #[test]
    fn a_dry_run_shows_where_messages_would_go() {
        let report = MoveReport {
            examined: 9,
            matched: 2,
            dry_run: true,
            samples: vec![MoveSample {
                entry: 7,
                reason: Some("rejected".into()),
                died_in: Some("orders".into()),
                to_exchange: "".into(),
                to_routing_key: "orders".into(),
            }],
            ..MoveReport::default()
        };
        insta::assert_snapshot!(text(&report), @r"
        ENTRY  REASON    DIED IN  TO EXCHANGE  TO KEY
            7  rejected  orders                orders
        2 of 9 messages would move
        ");
    }
}
