//! Rows and objects as text: a table for people, the other formats for programs.
//!
//! Works on JSON as the API writes it, so a column is any field by its dotted name.

mod table;

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::failure::{Failure, Result, SOFTWARE};

pub(crate) use table::Table;

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns with a head.
    #[default]
    Table,
    /// The API's JSON, indented.
    Json,
    /// The same as YAML.
    Yaml,
    /// Comma-separated values with a head.
    Csv,
    /// One name a line.
    Name,
}

/// A column: its head, and the field it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) head: String,
    pub(crate) field: String,
}

impl Column {
    pub(crate) fn new(head: &str, field: &str) -> Self {
        Self {
            head: head.to_owned(),
            field: field.to_owned(),
        }
    }

    /// A column that a person named by its field.
    pub(crate) fn of_field(field: &str) -> Self {
        Self::new(&field.to_uppercase(), field)
    }
}

/// Writes rows; `name` is the field that tells them apart.
pub(crate) fn rows(
    rows: &[Value],
    columns: &[Column],
    name: &str,
    format: Format,
    chosen: bool,
) -> Result<String> {
    match format {
        Format::Table => {
            let mut table = Table::new(columns.iter().map(|column| column.head.clone()));
            for row in rows {
                table.push(columns.iter().map(|column| cell(at(row, &column.field))));
            }
            Ok(table.to_string())
        }
        Format::Csv => Ok(csv(rows, columns)),
        Format::Name => Ok(rows.iter().map(|row| cell(at(row, name)) + "\n").collect()),
        Format::Json if chosen => structured(&picked(rows, columns), Format::Json),
        Format::Yaml if chosen => structured(&picked(rows, columns), Format::Yaml),
        Format::Json | Format::Yaml => structured(&Value::Array(rows.to_vec()), format),
    }
}

/// Writes one object: a line for each field, or as a program reads it.
pub(crate) fn object(object: &Value, format: Format) -> Result<String> {
    match format {
        Format::Json | Format::Yaml => structured(object, format),
        Format::Name => Ok(cell(Some(&object["name"])) + "\n"),
        Format::Csv => {
            let columns: Vec<_> = object
                .as_object()
                .into_iter()
                .flat_map(Map::keys)
                .map(|key| Column::new(key, key))
                .collect();
            Ok(csv(std::slice::from_ref(object), &columns))
        }
        Format::Table => {
            let mut table = Table::headless(2);
            let fields: Vec<_> = object.as_object().into_iter().flatten().collect();
            for (key, value) in fields {
                table.push([key.clone(), cell(Some(value))]);
            }
            Ok(table.to_string())
        }
    }
}

fn structured(value: &Value, format: Format) -> Result<String> {
    let failed = |error: String| Failure::new(SOFTWARE, error);
    match format {
        Format::Yaml => serde_yaml::to_string(value).map_err(|error| failed(error.to_string())),
        _ => serde_json::to_string_pretty(value)
            .map(|text| text + "\n")
            .map_err(|error| failed(error.to_string())),
    }
}

fn picked(rows: &[Value], columns: &[Column]) -> Value {
    let pick = |row: &Value| {
        let fields = columns.iter().map(|column| {
            let value = at(row, &column.field).cloned().unwrap_or_default();
            (column.field.clone(), value)
        });
        Value::Object(fields.collect())
    };
    rows.iter().map(pick).collect()
}

// rfc 4180
fn csv(rows: &[Value], columns: &[Column]) -> String {
    let quoted = |text: String| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    };
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let mut text = line(
        columns
            .iter()
            .map(|column| quoted(column.field.clone()))
            .collect(),
    );
    for row in rows {
        let cells = columns
            .iter()
            .map(|column| quoted(cell(at(row, &column.field))));
        text.push_str(&line(cells.collect()));
    }
    text
}

/// A field by its dotted name; a name with dots in it is found too.
pub(crate) fn at<'a>(row: &'a Value, field: &str) -> Option<&'a Value> {
    if let Some(value) = row.get(field) {
        return Some(value);
    }
    field.split('.').try_fold(row, |value, key| value.get(key))
}

/// A value in a cell: texts bare, lists with commas, objects as `key=value`.
pub(crate) fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(true)) => "yes".into(),
        Some(Value::Bool(false)) => "no".into(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Array(items)) => {
            let items: Vec<_> = items.iter().map(|item| cell(Some(item))).collect();
            items.join(", ")
        }
        Some(Value::Object(fields)) => {
            let mut text = String::new();
            for (key, value) in fields {
                let gap = if text.is_empty() { "" } else { " " };
                let shown = match value {
                    Value::Object(_) => value.to_string(),
                    plain => cell(Some(plain)),
                };
                // Writing to a string cannot fail.
                let _ = write!(text, "{gap}{key}={shown}");
            }
            text
        }
    }
}

/// Bytes in the unit that a person reads best.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = count as f64;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ => format!("{scaled:.1} {}", UNITS[unit]),
    }
}

/// A duration in its two largest units.
pub(crate) fn duration_ms(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if ms < 1000 => format!("{ms} ms"),
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(format: Format) -> String {
        let list = [
            json!({"name": "a", "messages": 3, "arguments": {"x-queue-type": "quorum"}}),
            json!({"name": "b,\"c\"", "messages": 12_000, "arguments": {}}),
        ];
        let columns = ["name", "messages", "arguments.x-queue-type"].map(Column::of_field);
        rows(&list, &columns, "name", format, true).expect("text")
    }

    #[test]
    fn a_table_is_aligned_and_numbers_stand_to_the_right() {
        insta::assert_snapshot!(shown(Format::Table), @r#"
        NAME   MESSAGES  ARGUMENTS.X-QUEUE-TYPE
        a             3  quorum
        b,"c"     12000
        "#);
    }

    #[test]
    fn csv_quotes_what_would_be_read_wrongly() {
        insta::assert_snapshot!(shown(Format::Csv), @r#"
        name,messages,arguments.x-queue-type
        a,3,quorum
        "b,""c""",12000,
        "#);
    }

    #[test]
    fn json_holds_the_chosen_columns() {
        insta::assert_snapshot!(shown(Format::Json), @r#"
        [
          {
            "arguments.x-queue-type": "quorum",
            "messages": 3,
            "name": "a"
          },
          {
            "arguments.x-queue-type": null,
            "messages": 12000,
            "name": "b,\"c\""
          }
        ]
        "#);
    }

    #[test]
    fn yaml_and_names() {
        insta::assert_snapshot!(shown(Format::Yaml), @r#"
        - arguments.x-queue-type: quorum
          messages: 3
          name: a
        - arguments.x-queue-type: null
          messages: 12000
          name: b,"c"
        "#);
        assert_eq!(shown(Format::Name), "a\nb,\"c\"\n");
    }

    #[test]
    fn sizes_and_times_are_written_for_people() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(10 << 20), "10.0 MiB");
        assert_eq!(duration_ms(900), "900 ms");
        assert_eq!(duration_ms(61_000), "1 min 1 s");
        assert_eq!(duration_ms(90_000_000), "1 d 1 h");
    }
}
