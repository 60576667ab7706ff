//! Message properties between JSON and the wire, by AMQP's names.

use amqp::{Properties, PropertiesBuilder, Table};
use broker_core::term::Term;
use serde_json::{Map, Value, json};

use crate::body::to_term;
use crate::error::{ApiError, Result};
use crate::show;

/// The property block that a JSON object stands for. Names that AMQP does not have are passed
/// over.
// rabbitmq: publish
pub(super) fn encode(properties: Option<&Value>) -> Result<Vec<u8>> {
    let nothing = Map::new();
    let fields = match properties {
        None => &nothing,
        Some(Value::Object(fields)) => fields,
        // An empty block as RabbitMQ itself writes it.
        Some(Value::Array(elements)) if elements.is_empty() => &nothing,
        Some(other) => return Err(ApiError::bad_request(json!(["not_object", other]))),
    };
    let mut builder = PropertiesBuilder::new();
    for (name, value) in fields {
        builder = match name.as_str() {
            "content_type" => builder.content_type(text(name, value)?),
            "content_encoding" => builder.content_encoding(text(name, value)?),
            "headers" => builder.headers(&headers(value)?),
            "delivery_mode" => builder.delivery_mode(octet(name, value)?),
            "priority" => builder.priority(octet(name, value)?),
            "correlation_id" => builder.correlation_id(text(name, value)?),
            "reply_to" => builder.reply_to(text(name, value)?),
            "expiration" => builder.expiration(text(name, value)?),
            "message_id" => builder.message_id(text(name, value)?),
            "timestamp" => builder.timestamp(number(name, value)?),
            "type" => builder.type_(text(name, value)?),
            "user_id" => builder.user_id(text(name, value)?),
            "app_id" => builder.app_id(text(name, value)?),
            "cluster_id" => builder.cluster_id(text(name, value)?),
            _ => builder,
        };
    }
    Ok(builder.build())
}

fn text(name: &str, value: &Value) -> Result<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return Err(ApiError::bad_request(json!(["not_string", name, other]))),
    };
    if text.len() > amqp::SHORT_STRING_BYTES_MAX {
        return Err(ApiError::bad_request(json!(["too_long", name])));
    }
    Ok(text)
}

fn number(name: &str, value: &Value) -> Result<u64> {
    let number = match value {
        Value::String(digits) => digits.parse().ok(),
        other => other.as_u64(),
    };
    number.ok_or_else(|| ApiError::bad_request(json!(["not_integer", name, value])))
}

fn octet(name: &str, value: &Value) -> Result<u8> {
    let number = number(name, value)?;
    u8::try_from(number).map_err(|_| ApiError::bad_request(json!(["not_octet", name, value])))
}

fn headers(value: &Value) -> Result<Table> {
    if has_null(value) {
        return Err(ApiError::bad_request("null_not_allowed"));
    }
    match to_term(value)? {
        headers @ Term::Map(_) => Ok(headers.to_table()),
        Term::List(elements) if elements.is_empty() => Ok(Table::default()),
        _ => Err(ApiError::bad_request(json!([
            "not_object",
            "headers",
            value
        ]))),
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

/// A property block as JSON; an empty one is an empty array.
// rabbitmq: get
pub(super) fn shown(block: &[u8]) -> Value {
    let properties = Properties::trusted(block);
    let text = |octets: &[u8]| json!(String::from_utf8_lossy(octets));
    let mut shown = Map::new();
    let texts = [
        ("content_type", properties.content_type()),
        ("content_encoding", properties.content_encoding()),
        ("correlation_id", properties.correlation_id()),
        ("reply_to", properties.reply_to()),
        ("expiration", properties.expiration()),
        ("message_id", properties.message_id()),
        ("type", properties.type_()),
        ("user_id", properties.user_id()),
        ("app_id", properties.app_id()),
        ("cluster_id", properties.cluster_id()),
    ];
    for (name, octets) in texts {
        if let Some(octets) = octets {
            shown.insert(name.to_owned(), text(octets));
        }
    }
    let numbers = [
        ("delivery_mode", properties.delivery_mode().map(u64::from)),
        ("priority", properties.priority().map(u64::from)),
        ("timestamp", properties.timestamp()),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            shown.insert(name.to_owned(), json!(number));
        }
    }
    if let Ok(Some(headers)) = properties.headers() {
        shown.insert("headers".to_owned(), show::table(&headers));
    }
    if shown.is_empty() {
        json!([])
    } else {
        Value::Object(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_goes_through_and_comes_back() {
        let properties = json!({
            "content_type": "text/plain",
            "content_encoding": "gzip",
            "headers": {"a": 1, "b": 1.5, "c": "x", "d": true, "e": ["y"], "f": {"g": 2}},
            "delivery_mode": 2,
            "priority": 3,
            "correlation_id": "c",
            "reply_to": "r",
            "expiration": "60000",
            "message_id": "m",
            "timestamp": 5,
            "type": "t",
            "user_id": "u",
            "app_id": "a",
            "cluster_id": "k",
        });
        let block = encode(Some(&properties)).expect("a block");
        assert_eq!(shown(&block), properties);
    }

    #[test]
    fn no_property_is_an_empty_array() {
        let block = encode(Some(&json!({}))).expect("a block");
        assert_eq!(shown(&block), json!([]));
    }

    #[test]
    fn null_in_headers_and_values_of_the_wrong_type_are_refused() {
        let null = json!({"headers": {"a": [null]}});
        assert_eq!(
            encode(Some(&null)),
            Err(ApiError::bad_request("null_not_allowed"))
        );
        for wrong in [
            json!({"priority": 256}),
            json!({"type": {}}),
            json!({"timestamp": -1}),
        ] {
            assert!(encode(Some(&wrong)).is_err(), "{wrong}");
        }
    }
}
