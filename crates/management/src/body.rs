//! Request bodies: JSON objects whose fields are read one by one, with RabbitMQ's errors.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use broker_core::term::Term;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{ApiError, Result};

/// A JSON object, whatever the content type says; an empty body counts as `{}`.
#[derive(Debug, Default)]
pub(crate) struct Body(pub(crate) Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self> {
        let bytes =
            Bytes::from_request(request, state)
                .await
                .map_err(|rejection| match rejection.status() {
                    // rabbitmq: rabbit_mgmt_util:accept_body
                    StatusCode::PAYLOAD_TOO_LARGE => {
                        ApiError::bad_request("Exceeded HTTP request body size limit")
                    }
                    _ => ApiError::bad_request(rejection.body_text()),
                })?;
        Self::parse(&bytes)
    }
}

impl Body {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            _ => Err(ApiError::bad_request("not_json")),
        }
    }

    /// The value of a field; `null` is none.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Refuses a body that lacks one of these, naming all that it lacks.
    pub(crate) fn require(&self, keys: &[&str]) -> Result<()> {
        let missing: Vec<_> = keys
            .iter()
            .copied()
            .filter(|key| !self.0.contains_key(*key))
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(ApiError::missing(&missing))
        }
    }

    /// A truth value, also as a word; false when it is missing.
    // rabbitmq: management accepts "true" and "false"
    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(word)) if word == "true" => Ok(true),
            Some(Value::String(word)) if word == "false" => Ok(false),
            Some(other) => Err(ApiError::bad_request(Value::from(vec![
                "not_boolean".into(),
                other.clone(),
            ]))),
        }
    }

    /// A string.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(not_text(other)),
        }
    }

    /// A string that [`Body::require`] has seen; a number is taken by its digits.
    pub(crate) fn required_text(&self, key: &str) -> Result<String> {
        match self.0.get(key) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(other) => Err(not_text(other)),
            None => Err(ApiError::missing(&[key])),
        }
    }

    /// A value for the rules; `None` when it is missing.
    pub(crate) fn term(&self, key: &str) -> Result<Option<Term>> {
        self.0.get(key).map(to_term).transpose()
    }

    /// Arguments of a declaration; an empty list counts as an empty object, as some languages write it.
    pub(crate) fn arguments(&self) -> Result<amqp::Table> {
        match self.get("arguments") {
            None => Ok(amqp::Table::default()),
            Some(Value::Array(items)) if items.is_empty() => Ok(amqp::Table::default()),
            Some(object @ Value::Object(_)) => Ok(to_term(object)?.to_table()),
            Some(other) => Err(ApiError::bad_request(Value::from(vec![
                "not_object".into(),
                other.clone(),
            ]))),
        }
    }
}

fn not_text(value: &Value) -> ApiError {
    ApiError::bad_request(Value::from(vec!["not_string".into(), value.clone()]))
}

/// A JSON value as the rules take it.
pub(crate) fn to_term(value: &Value) -> Result<Term> {
    Term::deserialize(value).map_err(|error| ApiError::bad_request(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_body_is_an_empty_object() {
        assert!(Body::parse(b" \n").is_ok_and(|body| body.0.is_empty()));
    }

    #[test]
    fn anything_but_an_object_is_not_json() {
        for bytes in [&b"[]"[..], b"{\"durable\": tru", b"5", b"\xff"] {
            assert_eq!(
                Body::parse(bytes).map(|_| ()),
                Err(ApiError::bad_request("not_json"))
            );
        }
    }

    #[test]
    fn every_missing_field_is_named() {
        let body = Body::parse(br#"{"configure":"x"}"#).expect("an object");
        let refused = body.require(&["configure", "write", "read"]);
        let reason = "[{key_missing,write},{key_missing,read}]";
        assert_eq!(refused, Err(ApiError::bad_request(reason)));
    }

    #[test]
    fn words_count_as_truth_values_and_others_do_not() {
        let body = Body::parse(br#"{"a":"true","b":false,"c":"yes"}"#).expect("an object");
        assert_eq!(
            (body.flag("a"), body.flag("b"), body.flag("d")),
            (Ok(true), Ok(false), Ok(false))
        );
        assert!(body.flag("c").is_err());
    }
}
