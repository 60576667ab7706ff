//! What routing takes from a message.

use amqp::{PropertiesBuilder, Table, Value};

use super::*;

fn headers(name: &str, value: Value) -> Table {
    [(name, value)].into_iter().collect()
}

#[test]
fn carbon_copies_are_the_strings_of_two_arrays() {
    let mut table = headers(
        "CC",
        Value::Array(vec!["a".into(), Value::I32(5), "b".into()]),
    );
    table.insert("BCC", Value::Array(vec!["c".into()]));
    let keys: Vec<&[u8]> = carbon_copy_keys(&table).unwrap().into_vec();
    assert_eq!(keys, [&b"a"[..], b"b", b"c"]);
    assert_eq!(bcc_keys(&table).unwrap().into_vec(), [&b"c"[..]]);
    assert!(carbon_copy_keys(&Table::new()).unwrap().is_empty());
}

#[test]
fn carbon_copies_that_are_no_array_are_refused() {
    let refusal = carbon_copy_keys(&headers("CC", "a".into())).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "invalid message: {unacceptable_type_in_header,\"CC\",longstr}"
    );
    let refusal = carbon_copy_keys(&headers("BCC", Value::Bool(true))).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "invalid message: {unacceptable_type_in_header,\"BCC\",bool}"
    );
}

#[test]
fn a_lazy_message_shows_its_properties() {
    let raw = PropertiesBuilder::new()
        .headers(&headers("h", Value::I32(1)))
        .message_id("m")
        .correlation_id("c")
        .timestamp(7)
        .build();
    let message = LazyMessage::new(amqp::Properties::parse(&raw).unwrap());
    assert_eq!(message.headers().unwrap().get("h"), Some(&Value::I32(1)));
    assert_eq!(message.message_id(), Some(&b"m"[..]));
    assert_eq!(message.correlation_id(), Some(&b"c"[..]));
    assert_eq!(message.timestamp(), Some(7));
    assert_eq!(LazyMessage::new(amqp::Properties::empty()).headers(), None);
}
