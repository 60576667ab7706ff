//! A comparison for people: as columns on a terminal, or as Markdown.

use std::fmt::Write;

use super::ratios::{FigureComparison, Spread};
use super::{Comparison, ScenarioResult};

/// Columns that line up.
pub(crate) fn plain(comparison: &Comparison) -> String {
    let mut text = String::new();
    for result in &comparison.scenarios {
        let name = &result.name;
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{name}: {}\n  {}", result.about, result.flags);
        let rows = rows(result);
        let widths = widths(&rows);
        for row in &rows {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            text += format!("  {}", cells.join("   ")).trim_end();
            text.push('\n');
        }
        for note in notes(result) {
            text += &format!("  {note}\n");
        }
        text.push('\n');
    }
    text
}

/// One table for each scenario, ratios first.
pub(crate) fn markdown(comparison: &Comparison) -> String {
    let mut text = String::new();
    for result in &comparison.scenarios {
        let name = &result.name;
        let _infallible = writeln!(text, "### {name}\n\n{}: `{}`\n", result.about, result.flags);
        let rows = rows(result);
        for (number, row) in rows.iter().enumerate() {
            text += &format!("| {} |\n", row.join(" | "));
            if number == 0 {
                let rule: Vec<&str> = row.iter().map(|_| "---").collect();
                text += &format!("| {} |\n", rule.join(" | "));
            }
        }
        text.push('\n');
        for note in notes(result) {
            text += &format!("- {note}\n");
        }
        text.push('\n');
    }
    text
}

fn rows(result: &ScenarioResult) -> Vec<Vec<String>> {
    let first = result.targets.first().map_or("", |target| &target.name);
    let mut head = vec!["figure: median (min to max)".to_owned()];
    let others = result.targets.iter().skip(1);
    head.extend(others.map(|other| format!("{first} ÷ {}", other.name)));
    head.extend(result.targets.iter().map(|target| {
        if target.broker.is_empty() {
            target.name.clone()
        } else {
            format!("{} ({})", target.name, target.broker)
        }
    }));
    let figures = result.figures.iter().map(row);
    std::iter::once(head).chain(figures).collect()
}

fn row(figure: &FigureComparison) -> Vec<String> {
    let mut row = vec![format!("{} {}", figure.figure, figure.unit)];
    row.extend(figure.ratios.iter().map(|ratio| cell(*ratio)));
    row.extend(figure.targets.iter().map(|spread| cell(*spread)));
    row
}

fn cell(spread: Option<Spread>) -> String {
    match spread {
        None => "–".to_owned(),
        Some(Spread { median, min, max }) => {
            format!("{} ({} to {})", short(median), short(min), short(max))
        }
    }
}

/// Three digits or more, thousands set apart.
fn short(number: f64) -> String {
    if number.abs() < 100.0 {
        let digits = if number.abs() < 10.0 { 2 } else { 1 };
        return format!("{number:.digits$}");
    }
    let whole = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect()
}

/// What the columns do not show: refusals, crashes, findings.
fn notes(result: &ScenarioResult) -> Vec<String> {
    let mut notes = Vec::new();
    for target in &result.targets {
        for (reason, times) in target.failures() {
            let (name, rounds) = (&target.name, target.rounds.len());
            notes.push(format!(
                "{name} failed in {times} of {rounds} rounds: {reason}"
            ));
        }
        let found = |round: &&super::Round| {
            let report = round.report.as_ref();
            report.is_some_and(|report| report.has_findings())
        };
        let findings = target.rounds.iter().filter(found).count();
        if findings > 0 {
            notes.push(format!(
                "{} lost, duplicated, reordered or changed messages in {findings} rounds",
                target.name
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::{Round, TargetResult};
    use super::*;

    fn comparison() -> Comparison {
        let spread = |median: f64| {
            Some(Spread {
                median,
                min: median / 2.0,
                max: median * 2.0,
            })
        };
        let target = |name: &str, failure: Option<&str>| TargetResult {
            name: name.to_owned(),
            broker: "B 1".to_owned(),
            rounds: vec![Round {
                report: None,
                failure: failure.map(str::to_owned),
            }],
        };
        Comparison {
            rounds: 1,
            targets: vec!["a".to_owned(), "b".to_owned()],
            scenarios: vec![ScenarioResult {
                name: "s".to_owned(),
                about: "about".to_owned(),
                flags: "--time 1".to_owned(),
                targets: vec![target("a", None), target("b", Some("it fell over"))],
                figures: vec![FigureComparison {
                    figure: "published",
                    unit: "/s",
                    targets: vec![spread(1_234_567.0), None],
                    ratios: vec![spread(2.5)],
                }],
            }],
        }
    }

    #[test]
    fn ratios_come_first_and_failures_are_named() {
        let text = markdown(&comparison());
        let row = "| published /s | 2.50 (1.25 to 5.00) | 1,234,567 (617,284 to 2,469,134) | – |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("a ÷ b"), "{text}");
        assert!(
            text.contains("b failed in 1 of 1 rounds: it fell over"),
            "{text}"
        );
        assert!(comparison().has_failures());
    }

    #[test]
    fn plain_columns_line_up() {
        let text = plain(&comparison());
        let lines: Vec<&str> = text.lines().collect();
        let column = |line: &str, what: &str| line.find(what).map(|at| line[..at].chars().count());
        assert_eq!(column(lines[2], "a ÷ b"), column(lines[3], "2.50"));
    }

    #[test]
    fn numbers_keep_three_digits_and_set_thousands_apart() {
        assert_eq!(
            [0.1234, 12.34, 99.99, 123.4, 1_234_567.8, -1_234.0].map(short),
            ["0.12", "12.3", "100.0", "123", "1,234,568", "-1,234"]
        );
    }
}
