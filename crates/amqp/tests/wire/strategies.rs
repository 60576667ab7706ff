//! How random values, tables, properties and methods are made.

use amqp::{ByteString, ShortString, Table, Value};
use proptest::collection::vec;
use proptest::prelude::*;

/// Short strings that need not be text.
pub(crate) fn key() -> impl Strategy<Value = ShortString> {
    prop_oneof![
        "[a-z.\\-]{0,12}".prop_map(ShortString::from),
        vec(any::<u8>(), 0..=255).prop_map(|bytes| ShortString::new(bytes).expect("fits")),
    ]
}

/// Any value, nested a few levels.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            vec((key(), inner), 0..6).prop_map(|e| Value::Table(e.into_iter().collect())),
        ]
    })
}

/// Any table, duplicate keys included.
pub(crate) fn table() -> impl Strategy<Value = Table> {
    vec((key(), value()), 0..8).prop_map(|entries| entries.into_iter().collect())
}

/// Values that compare equal to themselves in the oracle, too: no NaN.
pub(crate) fn plain_value() -> impl Strategy<Value = Value> {
    plain_leaf().prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Array),
            plain_entries(inner).prop_map(Value::Table),
        ]
    })
}

/// Tables that the oracle can represent: text keys, sorted, no duplicates.
pub(crate) fn plain_table() -> impl Strategy<Value = Table> {
    plain_entries(plain_value())
}

fn plain_entries(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Table> {
    vec(("[a-z€-]{0,12}", value), 0..6).prop_map(|entries| {
        let mut table: Table = entries.into_iter().collect();
        table.sort();
        table
    })
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        plain_leaf(),
        any::<u32>().prop_map(|bits| Value::F32(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Value::F64(f64::from_bits(bits))),
    ]
}

fn plain_leaf() -> impl Strategy<Value = Value> {
    let bytes = || vec(any::<u8>(), 0..40).prop_map(ByteString::new);
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<u8>().prop_map(Value::U8),
        any::<i16>().prop_map(Value::I16),
        any::<u16>().prop_map(Value::U16),
        any::<i32>().prop_map(Value::I32),
        any::<u32>().prop_map(Value::U32),
        any::<i64>().prop_map(Value::I64),
        (-1e30f32..1e30).prop_map(Value::F32),
        (-1e300f64..1e300).prop_map(Value::F64),
        (any::<u8>(), any::<u32>()).prop_map(|(scale, value)| Value::Decimal { scale, value }),
        any::<u64>().prop_map(Value::Timestamp),
        bytes().prop_map(Value::LongString),
        ".{0,20}".prop_map(Value::from),
        bytes().prop_map(Value::ByteArray),
        Just(Value::Void),
    ]
}
