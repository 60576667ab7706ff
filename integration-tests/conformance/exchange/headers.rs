//! Where a headers exchange sends a message.

use integration_tests::request::queue_bind;
use integration_tests::{Close, Properties, Publication, Table, Trial, Value, conformance};

use super::{exchange, queue};

/// A table of headers.
fn headers<const N: usize>(fields: [(&str, Value); N]) -> Table {
    fields
        .into_iter()
        .fold(Table::default(), |table, (key, value)| {
            table.with(key, value)
        })
}

/// Whether a message with `message` headers comes to a queue bound with `binding` arguments.
#[track_caller]
fn check(trial: &Trial, binding: &Table, message: Option<Table>, wanted: bool) {
    let (channel, exchange) = exchange(trial, "headers");
    let queue = queue(trial, &channel, "headers");
    channel.bind_with(&queue, &exchange, "", binding);
    let properties = Properties {
        headers: message.clone(),
        ..Properties::default()
    };
    let publication = Publication::new(&exchange, "any", "body").with(properties);
    assert!(channel.publish_confirmed(&publication));
    let came = channel.take(&queue).is_some();
    assert_eq!(came, wanted, "binding {binding:?}, message {message:?}");
}

// amqp 3.1.3.4: all is what x-match means by itself.
#[test]
fn without_x_match_all_headers_must_match() {
    conformance(|trial| {
        let binding = headers([("a", 1.into()), ("b", "two".into())]);
        check(trial, &binding, Some(headers([("a", 1.into())])), false);
    });
}

// amqp 3.1.3.4: all
#[test]
fn all_matches_when_every_header_does() {
    conformance(|trial| {
        let binding = headers([
            ("x-match", "all".into()),
            ("a", 1.into()),
            ("b", "two".into()),
        ]);
        let message = headers([("b", "two".into()), ("a", 1.into()), ("c", true.into())]);
        check(trial, &binding, Some(message), true);
    });
}

// amqp 3.1.3.4: any
#[test]
fn any_matches_when_one_header_does() {
    conformance(|trial| {
        let binding = headers([
            ("x-match", "any".into()),
            ("a", 1.into()),
            ("b", "two".into()),
        ]);
        check(
            trial,
            &binding,
            Some(headers([("a", 2.into()), ("b", "two".into())])),
            true,
        );
    });
}

// amqp 3.1.3.4: any
#[test]
fn any_does_not_match_when_no_header_does() {
    conformance(|trial| {
        let binding = headers([
            ("x-match", "any".into()),
            ("a", 1.into()),
            ("b", "two".into()),
        ]);
        check(
            trial,
            &binding,
            Some(headers([("a", 2.into()), ("b", "three".into())])),
            false,
        );
    });
}

// rabbitmq: without arguments all matches everything.
#[test]
fn an_empty_binding_matches_every_message() {
    conformance(|trial| {
        check(trial, &Table::default(), None, true);
    });
}

// rabbitmq: without arguments any matches nothing.
#[test]
fn an_empty_any_binding_matches_nothing() {
    conformance(|trial| {
        check(
            trial,
            &headers([("x-match", "any".into())]),
            Some(headers([("a", 1.into())])),
            false,
        );
    });
}

// amqp 3.1.3.4: a void value asks for the header's presence.
#[test]
fn a_void_value_matches_any_value() {
    conformance(|trial| {
        let binding = headers([("x-match", "all".into()), ("a", Value::Void)]);
        check(
            trial,
            &binding,
            Some(headers([("a", "whatever".into())])),
            true,
        );
    });
}

// amqp 3.1.3.4: a void value asks for the header's presence.
#[test]
fn a_void_value_does_not_match_a_missing_header() {
    conformance(|trial| {
        let binding = headers([("x-match", "all".into()), ("a", Value::Void)]);
        check(
            trial,
            &binding,
            Some(headers([("b", "whatever".into())])),
            false,
        );
    });
}

// rabbitmq: integers are compared by value, whatever their width.
#[test]
fn integers_of_different_widths_are_equal() {
    conformance(|trial| {
        let binding = headers([("a", Value::I8(1))]);
        check(trial, &binding, Some(headers([("a", Value::I64(1))])), true);
    });
}

// rabbitmq: a number is not a text.
#[test]
fn a_number_does_not_equal_its_text() {
    conformance(|trial| {
        check(
            trial,
            &headers([("a", 1.into())]),
            Some(headers([("a", "1".into())])),
            false,
        );
    });
}

// rabbitmq: an integer is not a floating point number.
#[test]
fn an_integer_does_not_equal_a_float() {
    conformance(|trial| {
        check(
            trial,
            &headers([("a", 1.into())]),
            Some(headers([("a", 1.0.into())])),
            false,
        );
    });
}

// rabbitmq: names that begin with x- take no part.
#[test]
fn headers_with_an_x_are_overlooked() {
    conformance(|trial| {
        let binding = headers([
            ("x-match", "all".into()),
            ("x-a", 1.into()),
            ("b", 2.into()),
        ]);
        check(trial, &binding, Some(headers([("b", 2.into())])), true);
    });
}

// rabbitmq: unless they are asked for.
#[test]
fn all_with_x_looks_at_headers_with_an_x() {
    conformance(|trial| {
        let binding = headers([
            ("x-match", "all-with-x".into()),
            ("x-a", 1.into()),
            ("b", 2.into()),
        ]);
        check(trial, &binding, Some(headers([("b", 2.into())])), false);
    });
}

// rabbitmq: unless they are asked for.
#[test]
fn any_with_x_looks_at_headers_with_an_x() {
    conformance(|trial| {
        let binding = headers([
            ("x-match", "any-with-x".into()),
            ("x-a", 1.into()),
            ("b", 2.into()),
        ]);
        check(trial, &binding, Some(headers([("x-a", 1.into())])), true);
    });
}

// rabbitmq: a timestamp equals the same timestamp.
#[test]
fn a_timestamp_equals_the_same_timestamp() {
    conformance(|trial| {
        let at = Value::Timestamp(1_700_000_000);
        check(
            trial,
            &headers([("at", at.clone())]),
            Some(headers([("at", at)])),
            true,
        );
    });
}

// rabbitmq: text of x-match
#[test]
fn an_unknown_x_match_closes_the_channel_with_406() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "headers");
        let queue = queue(trial, &channel, "headers");
        let arguments = headers([("x-match", "bogus".into())]);
        let text = "PRECONDITION_FAILED - Invalid x-match field value <<\"bogus\">>; expected \
                    all, any, all-with-x, or any-with-x";
        let close = channel.refused(&queue_bind(&queue, &exchange, "", &arguments));
        assert_eq!(close, Close::channel(406, text, "queue.bind"));
    });
}

// rabbitmq: text of x-match
#[test]
fn an_x_match_that_is_no_text_closes_the_channel_with_406() {
    conformance(|trial| {
        let (channel, exchange) = exchange(trial, "headers");
        let queue = queue(trial, &channel, "headers");
        let arguments = headers([("x-match", 1.into())]);
        let text = "PRECONDITION_FAILED - Invalid x-match field type signedint (value 1); \
                    expected longstr";
        let close = channel.refused(&queue_bind(&queue, &exchange, "", &arguments));
        assert_eq!(close, Close::channel(406, text, "queue.bind"));
    });
}
