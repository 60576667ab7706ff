//! Places, ids, and that memory follows what is live.

use super::*;

fn message(content: u64) -> Message<u64> {
    Message::new(content, 1, 0, None)
}

fn filled(n: u64) -> (Table<u64>, Vec<Place>) {
    let mut table = Table::new();
    // Ids with gaps, as the log gives them.
    let places = (0..n)
        .map(|i| table.push(EntryId(i * 3 + 1), message(i)))
        .collect();
    (table, places)
}

#[test]
fn finds_each_message_by_place_and_by_id() {
    let (mut table, places) = filled(1000);
    for i in [999, 0, 500, 127, 128, 129, 1] {
        let place = table.find(EntryId(i * 3 + 1));
        assert_eq!(place, Some(places[i as usize]));
        assert_eq!(table.get(places[i as usize]).map(|m| m.content), Some(i));
        assert_eq!(table.find(EntryId(i * 3)), None);
    }
}

#[test]
fn a_stuck_message_keeps_little_more_than_itself() {
    let (mut table, places) = filled(1);
    let stuck = places[0];
    let mut last = stuck;
    for i in 1..100_000 {
        let place = table.push(EntryId(i * 3 + 1), message(i));
        if last != stuck {
            table.remove(last);
        }
        last = place;
    }
    assert_eq!(table.len(), 2);
    assert_eq!(table.get(stuck).map(|m| m.content), Some(0));
    assert_eq!(table.find(EntryId(1)), Some(stuck));
    assert!(
        table.memory_bytes() < 12_000,
        "{} bytes",
        table.memory_bytes()
    );
}

#[test]
fn one_survivor_in_each_hundred_costs_a_bounded_number_of_bytes() {
    let (mut table, places) = filled(100_000);
    for (i, place) in places.iter().enumerate() {
        if i % 100 != 0 {
            table.remove(*place);
        }
    }
    assert_eq!(table.len(), 1000);
    assert!(
        table.memory_bytes() < 1000 * 300,
        "{} bytes",
        table.memory_bytes()
    );
    let ids: Vec<u64> = table.iter_from(EntryId(0)).map(|(id, _)| id.0).collect();
    let expected: Vec<u64> = (0..1000).map(|i| i * 300 + 1).collect();
    assert_eq!(ids, expected);
    let late: Vec<u64> = table
        .iter_from(EntryId(299_000))
        .map(|(id, _)| id.0)
        .collect();
    assert_eq!(late, [299_101, 299_401, 299_701]);
}

#[test]
fn an_emptied_table_gives_its_memory_back_and_goes_on() {
    let (mut table, places) = filled(10_000);
    for place in places.iter().rev() {
        assert!(table.remove(*place).is_some());
        assert!(table.remove(*place).is_none());
    }
    assert_eq!(table.len(), 0);
    assert!(
        table.memory_bytes() < 2_000,
        "{} bytes",
        table.memory_bytes()
    );
    for i in 0..300 {
        let place = table.push(EntryId(100_000 + i), message(i));
        assert_eq!(table.find(EntryId(100_000 + i)), Some(place));
        assert_eq!(
            table.remove(place).map(|(id, m)| (id.0, m.content)),
            Some((100_000 + i, i))
        );
    }
    assert!(!table.takes(EntryId(100_299)));
}
