//! CC and BCC: more routing keys in the headers.

use integration_tests::{Channel, Close, Properties, Publication, Trial, Value, conformance};

use super::{exchange, queue};

/// Three queues bound under their own names to a direct exchange.
fn three(trial: &Trial) -> (Channel, String, [String; 3]) {
    let (channel, exchange) = exchange(trial, "direct");
    let queues = ["to", "cc", "bcc"].map(|stem| queue(trial, &channel, stem));
    queues
        .iter()
        .for_each(|queue| channel.bind(queue, &exchange, queue));
    (channel, exchange, queues)
}

/// A header that lists keys.
fn keys(keys: &[&str]) -> Value {
    Value::Array(keys.iter().map(|key| Value::from(*key)).collect())
}

// rabbitmq: sender-selected distribution
#[test]
fn cc_and_bcc_get_copies_and_only_bcc_is_hidden() {
    conformance(|trial| {
        let (channel, exchange, [to, cc, bcc]) = three(trial);
        let properties = Properties::default()
            .header("CC", keys(&[&cc]))
            .header("BCC", keys(&[&bcc]));
        let publication = Publication::new(&exchange, &to, "body").with(properties);
        assert!(channel.publish_confirmed(&publication));
        for queue in [&to, &cc, &bcc] {
            let delivery = channel.get_soon(queue);
            assert_eq!(delivery.routing_key, to);
            assert_eq!(delivery.properties.get("CC"), Some(&keys(&[&cc])));
            assert_eq!(delivery.properties.get("BCC"), None);
        }
    });
}

// rabbitmq: one copy a queue
#[test]
fn a_queue_named_twice_gets_one_copy() {
    conformance(|trial| {
        let (channel, exchange, [to, cc, _]) = three(trial);
        let properties = Properties::default().header("CC", keys(&[&cc, &to, &cc]));
        let publication = Publication::new(&exchange, &to, "body").with(properties);
        assert!(channel.publish_confirmed(&publication));
        assert_eq!(channel.take_all(&to), ["body"]);
        assert_eq!(channel.take_all(&cc), ["body"]);
    });
}

// rabbitmq: CC works with the default exchange.
#[test]
fn the_default_exchange_copies_too() {
    conformance(|trial| {
        let (channel, _, [to, cc, _]) = three(trial);
        let properties = Properties::default().header("CC", keys(&[&cc]));
        let publication = Publication::to_queue(&to, "body").with(properties);
        assert!(channel.publish_confirmed(&publication));
        assert_eq!(channel.take_all(&cc), ["body"]);
    });
}

// rabbitmq: text
#[test]
fn a_cc_header_that_is_no_array_closes_the_channel_with_406() {
    conformance(|trial| {
        let (channel, exchange, [to, cc, _]) = three(trial);
        let properties = Properties::default().header("CC", cc.as_str());
        channel.publish(&Publication::new(&exchange, &to, "body").with(properties));
        let text = "PRECONDITION_FAILED - invalid message: \
                    {unacceptable_type_in_header,\"CC\",longstr}";
        assert_eq!(
            channel.expect_close(),
            Close::channel(406, text, "basic.publish")
        );
    });
}

// rabbitmq: elements that are no text are skipped.
#[test]
fn elements_that_are_no_text_are_skipped() {
    conformance(|trial| {
        let (channel, exchange, [to, cc, _]) = three(trial);
        let elements = Value::Array(vec![Value::I32(5), Value::from(cc.as_str())]);
        let properties = Properties::default().header("CC", elements);
        let publication = Publication::new(&exchange, &to, "body").with(properties);
        assert!(channel.publish_confirmed(&publication));
        assert_eq!(channel.take_all(&cc), ["body"]);
    });
}

// rabbitmq: a message that comes back has lost its blind copies.
#[test]
fn a_returned_message_does_not_show_its_blind_copies() {
    conformance(|trial| {
        let (channel, exchange, _) = three(trial);
        let properties = Properties::default()
            .header("CC", keys(&["nowhere"]))
            .header("BCC", keys(&["no place"]));
        let publication = Publication::new(&exchange, "none", "body").with(properties);
        channel.publish(&publication.mandatory());
        let returned = channel.expect_return().properties;
        assert_eq!(returned.get("CC"), Some(&keys(&["nowhere"])));
        assert_eq!(returned.get("BCC"), None);
    });
}
