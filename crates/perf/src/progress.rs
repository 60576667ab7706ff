//! What the user sees while a load runs: one line that changes on a terminal, plain lines
//! elsewhere. Goes to standard error, so that results stay alone on standard output.

use std::io::{IsTerminal, Write};

use crate::course::Second;
use crate::figures::Counts;

const MEBIBYTE: f64 = 1_048_576.0;

#[derive(Debug)]
pub(crate) struct Progress {
    label: String,
    form: Form,
    line_open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    ChangingLine,
    PlainLines,
}

impl Progress {
    pub(crate) fn to_stderr() -> Self {
        let form = if std::io::stderr().is_terminal() {
            Form::ChangingLine
        } else {
            Form::PlainLines
        };
        Self {
            label: String::new(),
            form,
            line_open: false,
        }
    }

    /// What stands in front of each line from here on.
    pub(crate) fn label(&mut self, label: impl Into<String>) {
        self.label = label.into();
    }

    pub(crate) fn second(&mut self, second: &Second, counts: &Counts) {
        let line = line(&self.label, second, counts);
        let mut stderr = std::io::stderr().lock();
        // Nobody reading the progress is no reason to end the run.
        let _unread = match self.form {
            Form::ChangingLine => {
                self.line_open = true;
                write!(stderr, "\r\x1b[K{line}").and_then(|()| stderr.flush())
            }
            Form::PlainLines => writeln!(stderr, "{line}"),
        };
    }

    /// A whole line of its own.
    pub(crate) fn say(&mut self, text: &str) {
        self.end();
        let _unread = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// Ends a line that would change on.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.line_open) {
            let _unread = writeln!(std::io::stderr().lock());
        }
    }
}

fn line(label: &str, second: &Second, counts: &Counts) -> String {
    let mut line = format!("{label}{:6.1} s", second.at_seconds);
    if counts.churned > 0 {
        line += &format!("  {:.0} rounds/s", second.churn_rate);
        return line + &broker_part(second);
    }
    line += &format!("  published {:.0}/s", second.publish_rate);
    if counts.confirmed + counts.nacked > 0 {
        let open = counts
            .published
            .saturating_sub(counts.confirmed + counts.nacked);
        line += &format!("  confirmed {:.0}/s ({open} open)", second.confirm_rate);
    }
    line += &format!("  consumed {:.0}/s", second.consume_rate);
    for (name, count) in [
        ("refused", counts.nacked),
        ("returned", counts.returned),
        ("requeued", counts.requeued),
        ("holds", counts.holds),
    ] {
        if count > 0 {
            line += &format!("  {name} {count}");
        }
    }
    line + &broker_part(second)
}

fn broker_part(second: &Second) -> String {
    match (second.broker_cpu_percent, second.broker_rss_bytes) {
        (Some(cpu), Some(rss)) => {
            format!("  broker {cpu:.0} % CPU, {:.0} MiB", rss as f64 / MEBIBYTE)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second() -> Second {
        Second {
            at_seconds: 3.0,
            publish_rate: 100.0,
            confirm_rate: 90.0,
            consume_rate: 80.0,
            churn_rate: 0.0,
            broker_cpu_percent: None,
            broker_rss_bytes: None,
            published: 0,
            live_messages: 0,
            disk_bytes: None,
        }
    }

    #[test]
    fn a_line_says_what_happens_and_leaves_out_what_does_not() {
        let counts = Counts {
            published: 10,
            ..Counts::default()
        };
        let line = line("a: ", &second(), &counts);
        assert_eq!(line, "a:    3.0 s  published 100/s  consumed 80/s");
    }

    #[test]
    fn confirms_holds_and_the_broker_are_told_when_there_are_any() {
        let counts = Counts {
            published: 10,
            confirmed: 7,
            holds: 2,
            ..Counts::default()
        };
        let second = Second {
            broker_cpu_percent: Some(50.0),
            broker_rss_bytes: Some(10 << 20),
            ..second()
        };
        let line = line("", &second, &counts);
        assert!(line.contains("confirmed 90/s (3 open)"), "{line}");
        assert!(line.contains("holds 2"), "{line}");
        assert!(line.ends_with("broker 50 % CPU, 10 MiB"), "{line}");
    }

    #[test]
    fn a_churn_counts_rounds() {
        let counts = Counts {
            churned: 5,
            ..Counts::default()
        };
        let second = Second {
            churn_rate: 5.0,
            ..second()
        };
        assert_eq!(line("", &second, &counts), "   3.0 s  5 rounds/s");
    }
}
