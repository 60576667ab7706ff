//! Alternate exchanges: a second chance for messages without a route.

use integration_tests::{Channel, ExchangeSpec, Publication, Trial, conformance};

use super::{queue, send};

/// A direct exchange with a fanout exchange as its alternate, and a queue bound to the latter.
fn pair(trial: &Trial) -> (Channel, String, String, String) {
    let channel = trial.channel();
    let (main, alternate) = (trial.exchange("main"), trial.exchange("alternate"));
    let spec = ExchangeSpec::durable(&main, "direct").argument("alternate-exchange", &alternate);
    channel.declare_exchange(&spec);
    channel.declare_exchange(&ExchangeSpec::durable(&alternate, "fanout"));
    let caught = queue(trial, &channel, "caught");
    channel.bind(&caught, &alternate, "");
    (channel, main, alternate, caught)
}

// rabbitmq: alternate-exchange
#[test]
fn a_message_without_a_route_goes_to_the_alternate_exchange() {
    conformance(|trial| {
        let (channel, main, _, caught) = pair(trial);
        send(&channel, &main, "nowhere");
        let delivery = channel.get_soon(&caught);
        assert_eq!(
            (delivery.exchange, delivery.routing_key),
            (main, "nowhere".to_owned())
        );
    });
}

// rabbitmq: alternate-exchange
#[test]
fn a_message_with_a_route_does_not_go_to_the_alternate_exchange() {
    conformance(|trial| {
        let (channel, main, _, caught) = pair(trial);
        let wanted = queue(trial, &channel, "wanted");
        channel.bind(&wanted, &main, "k");
        send(&channel, &main, "k");
        assert_eq!(channel.take_all(&wanted), ["k"]);
        assert_eq!(channel.take_all(&caught), [""; 0]);
    });
}

// rabbitmq: what the alternate exchange takes is routed.
#[test]
fn a_mandatory_message_that_the_alternate_exchange_takes_is_not_returned() {
    conformance(|trial| {
        let (channel, main, _, caught) = pair(trial);
        let publication = Publication::new(&main, "nowhere", "body").mandatory();
        assert!(channel.publish_confirmed(&publication));
        channel.connection().expect_quiet();
        assert_eq!(channel.take_all(&caught), ["body"]);
    });
}

// rabbitmq: if the alternate exchange finds nothing either, the message is unroutable.
#[test]
fn a_mandatory_message_that_nobody_takes_is_returned() {
    conformance(|trial| {
        let (channel, main, alternate, caught) = pair(trial);
        channel.unbind(&caught, &alternate, "");
        channel.publish(&Publication::new(&main, "nowhere", "body").mandatory());
        assert_eq!(channel.expect_return().exchange, main);
    });
}

// rabbitmq: the alternate exchange need not exist.
#[test]
fn a_missing_alternate_exchange_is_none() {
    conformance(|trial| {
        let channel = trial.channel();
        let main = trial.exchange("main");
        let missing = trial.name("missing");
        let spec = ExchangeSpec::durable(&main, "direct").argument("alternate-exchange", &missing);
        channel.declare_exchange(&spec);
        channel.publish(&Publication::new(&main, "nowhere", "body").mandatory());
        assert_eq!(channel.expect_return().text, "NO_ROUTE");
    });
}

// rabbitmq: alternates of alternates, each exchange once
#[test]
fn a_ring_of_alternate_exchanges_ends() {
    conformance(|trial| {
        let channel = trial.channel();
        let (one, two) = (trial.exchange("one"), trial.exchange("two"));
        for (name, alternate) in [(&one, &two), (&two, &one)] {
            let spec =
                ExchangeSpec::durable(name, "direct").argument("alternate-exchange", alternate);
            channel.declare_exchange(&spec);
        }
        channel.publish(&Publication::new(&one, "nowhere", "body").mandatory());
        assert_eq!(channel.expect_return().exchange, one);
    });
}
