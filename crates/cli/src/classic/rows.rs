//! Rows as the older tools print them: separated by tabs, or in the format asked for.

use serde_json::{Map, Value};

use crate::failure::{Failure, Result, USAGE};
use crate::output::{Table, at};
use crate::shell::print;

use super::asked::Asked;

/// A column's name for the tool, and where its value is in the API's answer.
pub(super) type Field = (&'static str, &'static str);

/// The columns asked for, else the usual ones.
pub(super) fn chosen<'a>(
    asked: &Asked,
    known: &'a [Field],
    usual: &[&str],
) -> Result<Vec<&'a Field>> {
    let words = asked.arguments().iter();
    let mut names: Vec<&str> = words.flat_map(|word| word.split([',', ' '])).collect();
    names.retain(|name| !name.is_empty());
    if names.is_empty() {
        names = usual.to_vec();
    }
    let find = |name: &str| known.iter().find(|(known, _)| *known == name);
    let unknown: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| find(name).is_none())
        .collect();
    if !unknown.is_empty() {
        let keys = unknown.join(", ");
        let what = format!("Error (argument validation): Info key(s) {keys} are not supported");
        let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        return Err(Failure::new(USAGE, what).next(format!("choose from: {}", known.join(" "))));
    }
    Ok(names.into_iter().filter_map(find).collect())
}

/// Prints rows of these columns.
pub(super) fn show(asked: &Asked, rows: &[Value], fields: &[&Field]) -> Result<()> {
    print(&text(asked, rows, fields)?);
    Ok(())
}

fn text(asked: &Asked, rows: &[Value], fields: &[&Field]) -> Result<String> {
    let with_heads = !asked.has("silent") && !asked.has("no-table-headers");
    let heads = || fields.iter().map(|(name, _)| (*name).to_owned());
    let cells = |row: &Value| -> Vec<String> {
        fields
            .iter()
            .map(|(_, field)| plain(at(row, field)))
            .collect()
    };
    Ok(match asked.option("formatter").unwrap_or("table") {
        "json" => json(rows, fields),
        "json_stream" => objects(rows, fields)
            .map(|row| row.to_string() + "\n")
            .collect(),
        "csv" => {
            let mut lines = vec![heads().collect::<Vec<_>>().join(",")];
            let quoted = |cell: String| format!("\"{}\"", cell.replace('"', "\"\""));
            lines.extend(rows.iter().map(|row| {
                let cells = cells(row).into_iter().map(quoted);
                cells.collect::<Vec<_>>().join(",")
            }));
            lines.join("\n") + "\n"
        }
        "pretty_table" => {
            let mut table = Table::new(heads());
            rows.iter().for_each(|row| table.push(cells(row)));
            table.to_string()
        }
        "table" => {
            let mut text = String::new();
            if with_heads && !rows.is_empty() {
                text.push_str(&heads().collect::<Vec<_>>().join("\t"));
                text.push('\n');
            }
            for row in rows {
                text.push_str(&cells(row).join("\t"));
                text.push('\n');
            }
            text
        }
        other => {
            return Err(
                Failure::new(USAGE, format!("formatter '{other}' is not known"))
                    .next("--formatter table, json, json_stream, csv or pretty_table"),
            );
        }
    })
}

fn objects<'a>(rows: &'a [Value], fields: &'a [&Field]) -> impl Iterator<Item = Value> + 'a {
    rows.iter().map(|row| {
        let values = fields.iter().map(|(name, field)| {
            (
                (*name).to_owned(),
                at(row, field).cloned().unwrap_or_default(),
            )
        });
        Value::Object(values.collect::<Map<_, _>>())
    })
}

// rabbitmq: the brackets and each object on lines of their own
fn json(rows: &[Value], fields: &[&Field]) -> String {
    let objects: Vec<String> = objects(rows, fields).map(|row| row.to_string()).collect();
    format!("[\n{}\n]\n", objects.join("\n,"))
}

/// A value as these tools write it: lists and tables in Erlang's clothes.
pub(super) fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => {
            let items: Vec<_> = items.iter().map(|item| plain(Some(item))).collect();
            format!("[{}]", items.join(", "))
        }
        Some(Value::Object(fields)) => {
            let pairs: Vec<_> = fields
                .iter()
                .map(|(key, value)| match value {
                    Value::String(text) => format!("{{\"{key}\",\"{text}\"}}"),
                    other => format!("{{\"{key}\",{}}}", plain(Some(other))),
                })
                .collect();
            format!("[{}]", pairs.join(","))
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let asked = Asked::parse(&words).expect("a command line");
        let rows = [
            json!({"name": "a", "messages": 1, "arguments": {"x-queue-type": "quorum", "x-n": 5}}),
            json!({"name": "b", "messages": 0, "arguments": {}}),
        ];
        let known = [
            ("name", "name"),
            ("messages", "messages"),
            ("arguments", "arguments"),
        ];
        let fields = chosen(&asked, &known, &["name", "messages"]).expect("columns");
        text(&asked, &rows, &fields).expect("text")
    }

    #[test]
    fn rows_are_separated_by_tabs_below_their_heads() {
        assert_eq!(shown("x list_queues"), "name\tmessages\na\t1\nb\t0\n");
        assert_eq!(shown("x list_queues -s name"), "a\nb\n");
    }

    #[test]
    fn arguments_look_as_erlang_prints_them() {
        assert_eq!(
            shown("x list_queues --no-table-headers arguments"),
            "[{\"x-n\",5},{\"x-queue-type\",\"quorum\"}]\n[]\n"
        );
    }

    #[test]
    fn json_is_an_array_of_the_columns() {
        assert_eq!(
            shown("x list_queues --formatter json"),
            "[\n{\"messages\":1,\"name\":\"a\"}\n,{\"messages\":0,\"name\":\"b\"}\n]\n"
        );
    }

    #[test]
    fn unknown_columns_are_a_fault_of_usage() {
        let asked =
            Asked::parse(&["x".into(), "list_queues".into(), "bogus".into()]).expect("words");
        let refused = chosen(&asked, &[("name", "name")], &["name"]).expect_err("unknown");
        assert_eq!(refused.code, USAGE);
        assert!(
            refused
                .to_string()
                .contains("Info key(s) bogus are not supported")
        );
    }
}
