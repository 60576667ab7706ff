//! Lists of any kind, once or again and again.

use std::time::Duration;

use clap::Args;
use management_api::encoded;
use serde_json::Value;

use crate::failure::Result;
use crate::kinds::Kind;
use crate::output::Format;
use crate::shell::{Shell, watch};

/// Most items of a page that the API gives.
const PAGE_MAX: usize = 500;

/// Lists objects of a kind.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// What to list.
    #[arg(value_enum)]
    kind: Kind,
    /// Only names that this regular expression finds.
    #[arg(long, value_name = "REGEX")]
    name: Option<String>,
    /// Field to sort by.
    #[arg(long, value_name = "FIELD")]
    sort: Option<String>,
    /// Sorts the other way round.
    #[arg(long)]
    reverse: bool,
    /// Shows no more than so many.
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// Shows the list again every so many seconds.
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    watch: Option<f64>,
}

/// A pause between two looks, at least a tenth of a second.
pub(super) fn pause(seconds: Option<f64>) -> Option<Duration> {
    seconds.map(|seconds| Duration::from_secs_f64(seconds.clamp(0.1, 86_400.0)))
}

impl List {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        watch(pause(self.watch), || {
            let rows = self.fetch(shell)?;
            shell.rows(&rows, self.kind.columns(), self.kind.name_field())
        })
    }

    fn fetch(&self, shell: &Shell) -> Result<Vec<Value>> {
        let client = shell.client()?;
        let node = match self.kind {
            Kind::AuthAttempts => node(shell)?,
            _ => String::new(),
        };
        let path = self.kind.path(shell.vhost_named(), &node);
        let is_page = self.kind.is_paged() && (self.limit.is_some() || self.name.is_some());
        let mut rows = match client.get(&self.with_query(shell, path, is_page))? {
            Value::Array(rows) => rows,
            mut object => {
                let key = if self.kind == Kind::Listeners {
                    "listeners"
                } else {
                    "items"
                };
                match object[key].take() {
                    Value::Array(rows) => rows,
                    _ => Vec::new(),
                }
            }
        };
        if !is_page {
            self.sift(&mut rows)?;
        }
        if let Some(limit) = self.limit {
            rows.truncate(limit);
        }
        Ok(rows)
    }

    fn with_query(&self, shell: &Shell, path: String, is_page: bool) -> String {
        let mut query = Vec::new();
        if is_page {
            let size = self.limit.unwrap_or(PAGE_MAX).clamp(1, PAGE_MAX);
            query.push(format!("page=1&page_size={size}"));
            if let Some(name) = &self.name {
                query.push(format!("name={}&use_regex=true", encoded(name)));
            }
        }
        if let Some(sort) = &self.sort {
            query.push(format!("sort={}", encoded(sort)));
        }
        if self.reverse {
            query.push("sort_reverse=true".into());
        }
        // Fewer fields are fewer bytes; nested ones and JSON as a whole come complete.
        let fields = shell.columns(self.kind.columns());
        let is_narrow =
            shell.has_columns() || matches!(shell.format(), Format::Table | Format::Csv);
        if self.kind == Kind::Queues && is_narrow {
            let mut fields: Vec<_> = fields.into_iter().map(|column| column.field).collect();
            fields.push(self.kind.name_field().into());
            query.push(format!("columns={}", encoded(&fields.join(","))));
        }
        match query.is_empty() {
            true => path,
            false => format!("{path}?{}", query.join("&")),
        }
    }

    /// What the server did not filter.
    fn sift(&self, rows: &mut Vec<Value>) -> Result<()> {
        let Some(pattern) = &self.name else {
            return Ok(());
        };
        let regex = pattern_of(pattern)?;
        let field = self.kind.name_field();
        rows.retain(|row| {
            let name = row[field].as_str().unwrap_or_default();
            regex.is_match(name).unwrap_or(false)
        });
        Ok(())
    }
}

/// A regular expression that a person typed.
pub(super) fn pattern_of(pattern: &str) -> Result<fancy_regex::Regex> {
    fancy_regex::Regex::new(pattern).map_err(|error| {
        crate::failure::Failure::usage(format!("'{pattern}' is no regular expression"))
            .why(error.to_string())
    })
}

/// The node that answers.
pub(crate) fn node(shell: &Shell) -> Result<String> {
    let overview = shell.client()?.get("/api/overview")?;
    Ok(overview["node"].as_str().unwrap_or_default().to_owned())
}
