//! Lists: filtered by name, sorted, cut into pages and columns as the query asks.
//!
//! A row is turned into JSON only when it is shown or when the list is sorted by one of its
//! fields, so that a page of many queues stays cheap.

use std::cmp::Ordering;
use std::ops::RangeBounds;

use axum::Json;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use fancy_regex::Regex;
use management_api::Page;
use serde_json::{Map, Value};

use crate::error::{ApiError, Result};

/// Items of a page when the query does not say.
const PAGE_SIZE_DEFAULT: usize = 100;
/// Most items of a page.
// rabbitmq: pagination
const PAGE_SIZE_MAX: usize = 500;

/// The query of a GET.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListQuery(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for ListQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let query = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        match query {
            Ok(Query(pairs)) => Ok(Self(pairs)),
            Err(rejection) => Err(ApiError::bad_request(rejection.body_text())),
        }
    }
}

impl ListQuery {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some("true")
    }

    /// Answers with the rows, which come in their natural order.
    pub(crate) fn answer<T>(
        &self,
        rows: Vec<T>,
        name: impl Fn(&T) -> &str,
        show: impl Fn(&T) -> Value,
    ) -> Result<Response> {
        self.answer_keyed(rows, name, show, |_, _| None)
    }

    /// As [`ListQuery::answer`], where `key` tells some fields without showing the row: lists
    /// sorted by those show no more rows than they answer.
    pub(crate) fn answer_keyed<T>(
        &self,
        rows: Vec<T>,
        name: impl Fn(&T) -> &str,
        show: impl Fn(&T) -> Value,
        key: impl Fn(&T, &str) -> Option<Value>,
    ) -> Result<Response> {
        let Some(paging) = Paging::parse(self)? else {
            let sorted = self.sorted(rows, &show, &key);
            return Ok(Json(self.shown(sorted, .., show)).into_response());
        };
        let total = rows.len();
        let filter = self.filter();
        let is_wanted = |row: &T| filter.matches(name(row));
        let rows: Vec<T> = rows.into_iter().filter(is_wanted).collect();
        let filtered = rows.len();
        let range = paging.range(filtered, total)?;
        let items = self.shown(self.sorted(rows, &show, &key), range, show);
        let page = Page {
            filtered_count: filtered,
            item_count: items.len(),
            items,
            page: paging.page,
            page_count: filtered.div_ceil(paging.size),
            page_size: paging.size,
            total_count: total,
        };
        Ok(Json(page).into_response())
    }

    /// As [`ListQuery::answer`], for lists that RabbitMQ never cuts into pages.
    // rabbitmq: bindings, permissions, policies, parameters, consumers
    pub(crate) fn answer_whole<T>(&self, rows: Vec<T>, show: impl Fn(&T) -> Value) -> Response {
        let sorted = self.sorted(rows, &show, &|_, _| None);
        Json(self.shown(sorted, .., show)).into_response()
    }

    /// Answers with one object.
    pub(crate) fn answer_one(&self, object: Value) -> Response {
        Json(self.columns().of(object)).into_response()
    }

    /// The wanted columns of a range of rows.
    fn shown<T>(
        &self,
        sorted: Sorted<T>,
        range: impl RangeBounds<usize>,
        show: impl Fn(&T) -> Value,
    ) -> Vec<Value> {
        let columns = self.columns();
        match sorted {
            Sorted::Rows(mut rows) => rows
                .drain(range)
                .map(|row| columns.of(show(&row)))
                .collect(),
            Sorted::Shown(mut rows) => rows.drain(range).map(|row| columns.of(row)).collect(),
        }
    }

    fn sorted<T>(
        &self,
        mut rows: Vec<T>,
        show: &impl Fn(&T) -> Value,
        key: &impl Fn(&T, &str) -> Option<Value>,
    ) -> Sorted<T> {
        let reverse = self.is_true("sort_reverse");
        let Some(field) = self.get("sort").filter(|field| !field.is_empty()) else {
            if reverse {
                rows.reverse();
            }
            return Sorted::Rows(rows);
        };
        if rows.first().is_some_and(|row| key(row, field).is_some()) {
            let mut keyed: Vec<_> = rows
                .into_iter()
                .map(|row| (key(&row, field), row))
                .collect();
            keyed.sort_by(|(one, _), (other, _)| compare(one.as_ref(), other.as_ref()));
            let mut rows: Vec<T> = keyed.into_iter().map(|(_, row)| row).collect();
            if reverse {
                rows.reverse();
            }
            return Sorted::Rows(rows);
        }
        let mut shown: Vec<Value> = rows.iter().map(show).collect();
        let path: Vec<&str> = field.split('.').collect();
        shown.sort_by(|one, other| compare(at(one, &path), at(other, &path)));
        if reverse {
            shown.reverse();
        }
        Sorted::Shown(shown)
    }

    fn filter(&self) -> Filter {
        match self.get("name").filter(|name| !name.is_empty()) {
            None => Filter::All,
            // rabbitmq: a broken expression matches nothing
            Some(pattern) if self.is_true("use_regex") => Regex::new(pattern)
                .map_or(Filter::Nothing, |regex| Filter::Matching(Box::new(regex))),
            Some(part) => Filter::Containing(part.to_owned()),
        }
    }

    fn columns(&self) -> Columns {
        let listed = self.get("columns").filter(|columns| !columns.is_empty());
        Columns(listed.map(|columns| columns.split(',').map(str::to_owned).collect()))
    }
}

/// Rows in the order asked for.
enum Sorted<T> {
    Rows(Vec<T>),
    /// Shown already, since they were sorted by what they show.
    Shown(Vec<Value>),
}

enum Filter {
    All,
    Nothing,
    Containing(String),
    Matching(Box<Regex>),
}

impl Filter {
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::Containing(part) => name.contains(part.as_str()),
            // An expression that gives up on a name has not found it.
            Self::Matching(regex) => regex.is_match(name).unwrap_or(false),
        }
    }
}

/// Which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Paging {
    page: usize,
    size: usize,
}

impl Paging {
    /// `None` without a page.
    fn parse(query: &ListQuery) -> Result<Option<Self>> {
        let Some(page) = query.get("page") else {
            return Ok(None);
        };
        let asked = query.get("page_size");
        let size = asked.map_or(Ok(PAGE_SIZE_DEFAULT), str::parse);
        let (Ok(page), Ok(size)) = (page.parse::<usize>(), size) else {
            return Err(ApiError::bad_request("Pagination parameters are invalid"));
        };
        if page == 0 || size == 0 || size > PAGE_SIZE_MAX {
            let asked = asked.unwrap_or("undefined");
            let reason =
                format!("Invalid pagination parameters: page number {page}, page size {asked}");
            return Err(ApiError::Refused {
                error: "invalid_pagination_parameters",
                reason: reason.into(),
            });
        }
        Ok(Some(Self { page, size }))
    }

    fn range(self, filtered: usize, total: usize) -> Result<std::ops::Range<usize>> {
        let start = (self.page - 1).saturating_mul(self.size);
        if start >= filtered.max(1) {
            let Self { page, size } = self;
            let reason = format!("Page out of range, page: {page} page size: {size}, len: {total}");
            return Err(ApiError::Refused {
                error: "page_out_of_range",
                reason: reason.into(),
            });
        }
        Ok(start..(start + self.size).min(filtered))
    }
}

/// The fields to show; `None` is all.
struct Columns(Option<Vec<String>>);

impl Columns {
    fn of(&self, object: Value) -> Value {
        let Some(columns) = &self.0 else {
            return object;
        };
        let mut shown = Map::new();
        for column in columns {
            let path: Vec<&str> = column.split('.').collect();
            if let Some(value) = at(&object, &path) {
                put(&mut shown, &path, value.clone());
            }
        }
        Value::Object(shown)
    }
}

fn put(object: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [last] => {
            object.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let inner = object
                .entry(*first)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// Missing values first, then truth values, numbers and strings.
fn compare(one: Option<&Value>, other: Option<&Value>) -> Ordering {
    let rank = |value: Option<&Value>| match value {
        None | Some(Value::Null) => 0,
        Some(Value::Bool(_)) => 1,
        Some(Value::Number(_)) => 2,
        Some(Value::String(_)) => 3,
        Some(_) => 4,
    };
    match (one, other) {
        (Some(Value::Bool(one)), Some(Value::Bool(other))) => one.cmp(other),
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            let float = |number: &serde_json::Number| number.as_f64().unwrap_or_default();
            float(one).total_cmp(&float(other))
        }
        (Some(Value::String(one)), Some(Value::String(other))) => one.cmp(other),
        _ => rank(one).cmp(&rank(other)),
    }
}

#[cfg(test)]
mod tests;
