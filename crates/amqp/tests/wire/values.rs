//! Values and tables: nothing is lost on the wire or in JSON, and bounds hold.

use amqp::{ShortString, TABLE_DEPTH_MAX, Table, TableError, Value};
use proptest::prelude::*;

use crate::strategies::table;

/// A block whose tables (`F`) or arrays (`A`) are nested so deep, itself included.
fn nested(levels: usize, letter: u8) -> Vec<u8> {
    let mut block = Vec::new();
    for level in 1..levels {
        let keyed = letter == b'F' || level == levels - 1;
        let mut outer = if keyed { vec![1, b'k'] } else { Vec::new() };
        outer.push(letter);
        outer.extend_from_slice(&(block.len() as u32).to_be_bytes());
        outer.extend_from_slice(&block);
        block = outer;
    }
    block
}

proptest! {
    #[test]
    fn a_table_survives_the_wire(table in table()) {
        let mut block = Vec::new();
        table.encode(&mut block);
        prop_assert_eq!(Table::check(&block), Ok(()));
        prop_assert_eq!(Table::decode(&block), Ok(table.clone()));
        let mut prefixed = Vec::new();
        table.encode_prefixed(&mut prefixed);
        prefixed.extend_from_slice(b"more");
        prop_assert_eq!(Table::decode_prefixed(&prefixed), Ok((table, block.len() + 4)));
    }

    #[test]
    fn a_table_survives_json(table in table()) {
        let json = serde_json::to_string(&table).expect("writes");
        prop_assert_eq!(serde_json::from_str::<Table>(&json).expect("reads"), table);
    }
}

#[test]
fn tables_and_arrays_are_read_down_to_the_bound_and_no_deeper() {
    for letter in [b'F', b'A'] {
        let deepest = nested(TABLE_DEPTH_MAX, letter);
        assert!(Table::decode(&deepest).is_ok());
        assert_eq!(Table::check(&deepest), Ok(()));
        for levels in [TABLE_DEPTH_MAX + 1, 10_000] {
            let block = nested(levels, letter);
            assert_eq!(Table::decode(&block), Err(TableError::TooDeep), "{levels}");
            assert_eq!(Table::check(&block), Err(TableError::TooDeep), "{levels}");
        }
    }
}

#[test]
fn the_deepest_table_can_be_read_back_from_json_within_a_document() {
    let deepest = Table::decode(&nested(TABLE_DEPTH_MAX, b'F')).expect("within the bound");
    let levels_around = 20;
    let (open, close) = ("[".repeat(levels_around), "]".repeat(levels_around));
    let json = serde_json::to_string(&deepest).expect("writes");
    let document = format!("{open}{json}{close}");
    let mut value: serde_json::Value = serde_json::from_str(&document).expect("reads");
    for _ in 0..levels_around {
        value = value[0].take();
    }
    assert_eq!(
        serde_json::from_value::<Table>(value).expect("reads"),
        deepest
    );
}

#[test]
fn an_unsigned_long_is_read_as_signed_and_sent_as_such() {
    let block = b"\x01kL\xff\xff\xff\xff\xff\xff\xff\xfe";
    let table = Table::decode(block).expect("a table");
    assert_eq!(table.get("k"), Some(&Value::I64(-2)));
    let mut encoded = Vec::new();
    table.encode(&mut encoded);
    assert_eq!(encoded, b"\x01kl\xff\xff\xff\xff\xff\xff\xff\xfe");
}

#[test]
fn letters_that_rabbitmq_does_not_know_are_refused() {
    for type_octet in 0..=255u8 {
        let known = b"tbBsuIilLfdDTSxAFV".contains(&type_octet);
        let block = [1, b'k', type_octet, 0, 0, 0, 0, 0, 0, 0, 0];
        let unknown = Table::decode(&block) == Err(TableError::UnknownType { type_octet });
        assert_ne!(known, unknown, "{type_octet}");
    }
}

#[test]
fn a_length_that_is_not_backed_by_bytes_is_refused() {
    for letter in *b"SxAF" {
        let block = [1, b'k', letter, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
        assert_eq!(Table::decode(&block), Err(TableError::Truncated));
    }
}

#[test]
fn the_first_of_duplicate_keys_answers_and_sorting_keeps_it() {
    let mut table: Table = [("z", 1i32), ("a", 2), ("a", 3)].into_iter().collect();
    assert_eq!((table.len(), table.get("a")), (3, Some(&Value::I32(2))));
    table.sort();
    let expected: Table = [("a", 2i32), ("z", 1)].into_iter().collect();
    assert_eq!(table, expected);
}

#[test]
fn insert_replaces_or_appends_and_remove_takes_every_duplicate() {
    let mut table = Table::new();
    assert_eq!(table.insert("a", 1i32), None);
    assert_eq!(table.insert("a", "x"), Some(Value::I32(1)));
    table.push("a", true);
    assert_eq!(table.len(), 2);
    assert_eq!(table.remove("a"), Some(Value::from("x")));
    assert!(table.is_empty());
    assert_eq!(table.remove("a"), None);
}

#[test]
fn integers_of_every_width_are_numbers_and_nothing_else_is() {
    let numbers = [
        Value::I8(-1),
        Value::I16(-1),
        Value::I32(-1),
        Value::I64(-1),
    ];
    assert!(numbers.iter().all(|value| value.as_i64() == Some(-1)));
    let numbers = [Value::U8(7), Value::U16(7), Value::U32(7)];
    assert!(numbers.iter().all(|value| value.as_i64() == Some(7)));
    let others = [
        Value::Timestamp(7),
        Value::F64(7.0),
        Value::from("7"),
        Value::Bool(true),
    ];
    assert!(others.iter().all(|value| value.as_i64().is_none()));
}

#[test]
fn a_short_string_holds_255_bytes() {
    assert!(ShortString::new([b'x'; 255]).is_ok());
    assert!(ShortString::new([b'x'; 256]).is_err());
    assert_eq!(
        ShortString::from("€".repeat(86).as_str()).as_str(),
        Some("€".repeat(85).as_str())
    );
    assert!(serde_json::from_str::<ShortString>(&format!("\"{}\"", "x".repeat(256))).is_err());
}
