//! Arguments, headers and properties as the command line writes them: JSON and `name=value`.

use std::str::FromStr;

use amqp::{PropertiesBuilder, SHORT_STRING_BYTES_MAX, Table, Value};
use serde_json::Value as Json;

/// Why a text is no table or no property.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentFault {
    #[error("not a JSON object such as {{\"x-max-length\":10}}: {0}")]
    NotAnObject(String),
    #[error("the key {0:?} has more than {SHORT_STRING_BYTES_MAX} bytes")]
    KeyTooLong(String),
    #[error("{0} is too large for an argument")]
    Number(String),
    #[error("{0:?} is no property; write name=value, for instance priority=5")]
    NotAProperty(String),
    #[error("there is no property {0:?}; there are {PROPERTY_NAMES}")]
    UnknownProperty(String),
    #[error("property {name} cannot be {value:?}")]
    PropertyValue { name: String, value: String },
}

/// A JSON object as an AMQP table. Integers become signed 64-bit numbers, which is what brokers
/// take for every numeric argument.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JsonTable {
    pub(crate) table: Table,
    text: String,
}

impl FromStr for JsonTable {
    type Err = ArgumentFault;

    fn from_str(text: &str) -> Result<Self, ArgumentFault> {
        let object: serde_json::Map<String, Json> = serde_json::from_str(text)
            .map_err(|fault| ArgumentFault::NotAnObject(fault.to_string()))?;
        Ok(Self {
            table: table(&object)?,
            text: text.to_owned(),
        })
    }
}

/// As it was written.
impl std::fmt::Display for JsonTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

fn table(object: &serde_json::Map<String, Json>) -> Result<Table, ArgumentFault> {
    let mut table = Table::new();
    for (key, json) in object {
        if key.len() > SHORT_STRING_BYTES_MAX {
            return Err(ArgumentFault::KeyTooLong(key.clone()));
        }
        table.insert(key.as_str(), value(json)?);
    }
    Ok(table)
}

fn value(json: &Json) -> Result<Value, ArgumentFault> {
    Ok(match json {
        Json::Null => Value::Void,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match (number.as_i64(), number.is_f64()) {
            (Some(integer), _) => Value::I64(integer),
            (None, true) => Value::F64(number.as_f64().unwrap_or_default()),
            (None, false) => return Err(ArgumentFault::Number(number.to_string())),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::Array(items.iter().map(value).collect::<Result<_, _>>()?),
        Json::Object(object) => Value::Table(table(object)?),
    })
}

const PROPERTY_NAMES: &str = "content-type, content-encoding, priority, correlation-id, \
    reply-to, expiration, message-id, timestamp, type, user-id, app-id";

/// One property of every message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Property {
    name: String,
    value: String,
}

impl FromStr for Property {
    type Err = ArgumentFault;

    fn from_str(text: &str) -> Result<Self, ArgumentFault> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| ArgumentFault::NotAProperty(text.to_owned()))?;
        let property = Self {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        // Says at once what would only fail when the first message is made.
        property.set(PropertiesBuilder::new())?;
        Ok(property)
    }
}

impl Property {
    fn set<'a>(&self, to: PropertiesBuilder<'a>) -> Result<PropertiesBuilder<'a>, ArgumentFault> {
        let bad_value = || ArgumentFault::PropertyValue {
            name: self.name.clone(),
            value: self.value.clone(),
        };
        if self.value.len() > SHORT_STRING_BYTES_MAX {
            return Err(bad_value());
        }
        let text = self.value.as_str();
        Ok(match self.name.as_str() {
            "content-type" => to.content_type(text),
            "content-encoding" => to.content_encoding(text),
            "priority" => to.priority(text.parse().map_err(|_| bad_value())?),
            "correlation-id" => to.correlation_id(text),
            "reply-to" => to.reply_to(text),
            "expiration" => to.expiration(text),
            "message-id" => to.message_id(text),
            "timestamp" => to.timestamp(text.parse().map_err(|_| bad_value())?),
            "type" => to.type_(text),
            "user-id" => to.user_id(text),
            "app-id" => to.app_id(text),
            _ => return Err(ArgumentFault::UnknownProperty(self.name.clone())),
        })
    }
}

/// The property block of every message.
pub(crate) fn property_block(
    persistent: bool,
    properties: &[Property],
    headers: Option<&JsonTable>,
) -> Result<Vec<u8>, ArgumentFault> {
    let mut builder = PropertiesBuilder::new();
    if persistent {
        builder = builder.delivery_mode(2);
    }
    for property in properties {
        builder = property.set(builder)?;
    }
    if let Some(headers) = headers {
        builder = builder.headers(&headers.table);
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use amqp::Properties;

    use super::*;

    #[test]
    fn json_types_become_the_types_brokers_take() {
        let json: JsonTable = r#"{"n":5,"s":"x","b":true,"f":1.5,"v":null,"a":[1],"t":{"k":"v"}}"#
            .parse()
            .unwrap();
        let get = |key: &str| json.table.get(key).unwrap().clone();
        assert_eq!(get("n"), Value::I64(5));
        assert_eq!(get("s"), Value::from("x"));
        assert_eq!(get("b"), Value::Bool(true));
        assert_eq!(get("f"), Value::F64(1.5));
        assert_eq!(get("v"), Value::Void);
        assert_eq!(get("a"), Value::Array(vec![Value::I64(1)]));
        assert_eq!(get("t").as_table().unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_object_is_refused_with_an_example() {
        let fault = "[1]".parse::<JsonTable>().unwrap_err();
        assert!(fault.to_string().contains("x-max-length"), "{fault}");
        let fault = r#"{"n":18446744073709551615}"#.parse::<JsonTable>();
        let number = "18446744073709551615".to_owned();
        assert_eq!(fault.unwrap_err(), ArgumentFault::Number(number));
    }

    #[test]
    fn properties_and_headers_end_up_in_the_block() {
        let properties: Vec<Property> = ["priority=5", "expiration=100", "type=a=b"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let headers: JsonTable = r#"{"h":1}"#.parse().unwrap();
        let block = property_block(true, &properties, Some(&headers)).unwrap();
        let parsed = Properties::parse(&block).unwrap();
        assert_eq!(parsed.delivery_mode(), Some(2));
        assert_eq!(parsed.priority(), Some(5));
        assert_eq!(parsed.expiration(), Some(&b"100"[..]));
        assert_eq!(parsed.type_(), Some(&b"a=b"[..]));
        assert_eq!(parsed.header("h"), Some(Value::I64(1)));
    }

    #[test]
    fn unknown_and_impossible_properties_are_named() {
        let fault = |text: &str| text.parse::<Property>().unwrap_err().to_string();
        assert!(fault("priority").contains("name=value"));
        assert!(fault("colour=red").contains("\"colour\""));
        assert!(fault("priority=300").contains("\"300\""));
    }
}
