//! Definitions: written to a file, read from one, and compared with a file.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

use clap::Subcommand;
use management_api::api_path;
use serde_json::{Value, json};

use crate::failure::{DATA, Failure, Result};
use crate::output::{Format, cell};
use crate::progress;
use crate::shell::{Shell, print};

/// Exports, imports and compares definitions.
#[derive(Debug, Subcommand)]
pub(crate) enum Definitions {
    /// Writes definitions to a file, or to standard output.
    Export {
        /// The file; `.yaml` or `.yml` is written as YAML.
        #[arg(alias = "file", default_value = "-")]
        file: String,
    },
    /// Reads definitions from a file, or from standard input.
    Import {
        /// JSON or YAML.
        #[arg(default_value = "-")]
        file: String,
        /// Changes nothing; shows what would change.
        #[arg(long)]
        dry_run: bool,
    },
    /// Shows how the broker differs from a file; exit code 65 when it does.
    Diff {
        /// JSON or YAML.
        file: String,
    },
}

impl Definitions {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        match self {
            Self::Export { file } => export(shell, file),
            Self::Import {
                file,
                dry_run: true,
            } => diff(shell, file).map(|_| ()),
            Self::Import { file, .. } => import(shell, file),
            Self::Diff { file } => match diff(shell, file)? {
                0 => Ok(()),
                differences => Err(Failure::new(DATA, format!("{differences} differences"))
                    .next(format!("sluicectl definitions import {file}"))),
            },
        }
    }
}

fn path(shell: &Shell) -> String {
    match shell.vhost_named() {
        Some(vhost) => api_path(["definitions", vhost]),
        None => api_path(["definitions"]),
    }
}

pub(crate) fn export(shell: &Shell, file: &str) -> Result<()> {
    let definitions = shell.client()?.get(&path(shell))?;
    let is_yaml = file.ends_with(".yaml")
        || file.ends_with(".yml")
        || (file == "-" && shell.format() == Format::Yaml);
    let format = if is_yaml { Format::Yaml } else { Format::Json };
    let text = crate::output::object(&definitions, format)?;
    if file == "-" {
        print(&text);
        return Ok(());
    }
    fs::write(file, text).map_err(|error| {
        Failure::new(DATA, format!("cannot write {file}")).why(error.to_string())
    })?;
    shell.say(format!("{file}: {}", counted(&definitions)));
    Ok(())
}

pub(crate) fn import(shell: &Shell, file: &str) -> Result<()> {
    let definitions = read(file)?;
    let sign = progress::waiting(
        &format!("importing {}", counted(&definitions)),
        shell.quiet(),
    );
    let imported = shell.client()?.post(&path(shell), &definitions);
    sign.finish_and_clear();
    imported.map_err(|error| {
        Failure::from(error)
            .while_doing(&format!("import {file}"))
            .next(format!("sluicectl definitions diff {file}"))
    })?;
    shell.say(format!("imported {}", counted(&definitions)));
    Ok(())
}

fn read(file: &str) -> Result<Value> {
    let cannot = |error: std::io::Error| {
        Failure::new(DATA, format!("cannot read {file}")).why(error.to_string())
    };
    let text = match file {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(cannot)?;
            text
        }
        file => fs::read_to_string(file).map_err(cannot)?,
    };
    // JSON is YAML, too; its own parser is quicker and speaks of JSON when it fails.
    let is_json = text.trim_start().starts_with('{');
    let parsed: Result<Value, String> = match is_json {
        true => serde_json::from_str(&text).map_err(|error| error.to_string()),
        false => serde_yaml::from_str(&text).map_err(|error| error.to_string()),
    };
    match parsed {
        Ok(definitions) if definitions.is_object() => Ok(definitions),
        Ok(_) => Err(Failure::new(DATA, format!("{file} holds no definitions"))
            .why("it must be an object with lists such as queues and exchanges")
            .next("sluicectl definitions export shows the form")),
        Err(why) => Err(Failure::new(DATA, format!("{file} cannot be read")).why(why)),
    }
}

/// The lists of definitions, with the fields that tell their items apart.
const LISTS: [(&str, &[&str]); 11] = [
    ("vhosts", &["name"]),
    ("users", &["name"]),
    ("permissions", &["vhost", "user"]),
    ("topic_permissions", &["vhost", "user", "exchange"]),
    ("parameters", &["vhost", "component", "name"]),
    ("global_parameters", &["name"]),
    ("policies", &["vhost", "name"]),
    ("operator_policies", &["vhost", "name"]),
    ("exchanges", &["vhost", "name"]),
    ("queues", &["vhost", "name"]),
    (
        "bindings",
        &[
            "vhost",
            "source",
            "destination_type",
            "destination",
            "routing_key",
            "arguments",
        ],
    ),
];

fn counted(definitions: &Value) -> String {
    let counts: Vec<_> = LISTS
        .iter()
        .filter_map(|(list, _)| {
            let count = definitions[*list].as_array()?.len();
            (count > 0).then(|| format!("{count} {}", list.replace('_', " ")))
        })
        .collect();
    match counts.is_empty() {
        true => "nothing".into(),
        false => counts.join(", "),
    }
}

/// Shows the differences; answers how many there are.
fn diff(shell: &Shell, file: &str) -> Result<usize> {
    let theirs = read(file)?;
    let ours = shell.client()?.get(&path(shell))?;
    let differences = differences(&ours, &theirs);
    match shell.format() {
        Format::Table => print(&differences.iter().map(Difference::line).collect::<String>()),
        _ => {
            let rows: Vec<Value> = differences.iter().map(Difference::json).collect();
            shell.rows(
                &rows,
                &[("CHANGE", "change"), ("LIST", "list"), ("ITEM", "item")],
                "item",
            )?;
        }
    }
    if differences.is_empty() {
        shell.say("no differences");
    }
    Ok(differences.len())
}

/// An item that the broker and the file do not have alike.
#[derive(Debug, PartialEq)]
struct Difference {
    /// `+` the file adds it, `~` the file changes it, `-` the broker has it alone.
    sign: char,
    list: &'static str,
    item: String,
    fields: Vec<(String, Value, Value)>,
}

impl Difference {
    fn line(&self) -> String {
        let mut text = format!("{} {} {}\n", self.sign, self.list, self.item);
        for (field, ours, theirs) in &self.fields {
            let (ours, theirs) = (cell(Some(ours)), cell(Some(theirs)));
            text.push_str(&format!("    {field}: {ours} -> {theirs}\n"));
        }
        text
    }

    fn json(&self) -> Value {
        let change = match self.sign {
            '+' => "add",
            '~' => "change",
            _ => "only-here",
        };
        json!({"change": change, "list": self.list, "item": self.item, "fields": self.fields})
    }
}

fn differences(ours: &Value, theirs: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    for (list, keys) in LISTS {
        // A list that the file does not have says nothing about what the broker has.
        let Some(their_items) = theirs[list].as_array() else {
            continue;
        };
        let mut left = by_key(ours[list].as_array(), keys);
        for (item, their) in by_key(Some(their_items), keys) {
            match left.remove(&item) {
                None => found.push(Difference {
                    sign: '+',
                    list,
                    item,
                    fields: Vec::new(),
                }),
                Some(our) => {
                    let fields = changed(our, their);
                    if !fields.is_empty() {
                        found.push(Difference {
                            sign: '~',
                            list,
                            item,
                            fields,
                        });
                    }
                }
            }
        }
        found.extend(left.into_keys().map(|item| Difference {
            sign: '-',
            list,
            item,
            fields: Vec::new(),
        }));
    }
    found
}

fn by_key<'a>(items: Option<&'a Vec<Value>>, keys: &[&str]) -> BTreeMap<String, &'a Value> {
    let name = |item: &Value| {
        let parts: Vec<_> = keys.iter().map(|key| cell(item.get(key))).collect();
        parts.join(" ").trim_end().to_owned()
    };
    let items = items.into_iter().flatten();
    items.map(|item| (name(item), item)).collect()
}

/// Fields that the file gives and the broker has otherwise.
fn changed(ours: &Value, theirs: &Value) -> Vec<(String, Value, Value)> {
    let fields = theirs.as_object().into_iter().flatten();
    fields
        .filter(|(key, their)| ours.get(key.as_str()) != Some(*their))
        .map(|(key, their)| {
            let our = ours.get(key.as_str()).cloned().unwrap_or_default();
            (key.clone(), our, their.clone())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_changed_and_only_here_is_told_apart() {
        let ours = json!({
            "queues": [{"vhost": "/", "name": "a", "durable": true}, {"vhost": "/", "name": "old"}],
            "users": [{"name": "guest"}],
        });
        let theirs = json!({
            "queues": [{"vhost": "/", "name": "a", "durable": false}, {"vhost": "/", "name": "new"}],
        });
        let shown: String = differences(&ours, &theirs)
            .iter()
            .map(Difference::line)
            .collect();
        insta::assert_snapshot!(shown, @r"
        ~ queues / a
            durable: yes -> no
        + queues / new
        - queues / old
        ");
    }
}
