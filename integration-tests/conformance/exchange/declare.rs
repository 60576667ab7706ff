//! exchange.declare

use integration_tests::request::exchange_declare;
use integration_tests::{Close, ExchangeSpec, Trial, conformance};

/// The close that answers a declare.
fn refused(trial: &Trial, spec: &ExchangeSpec) -> Close {
    trial.channel().refused(&exchange_declare(spec))
}

/// The close of a channel because of exchange.declare.
fn close(code: u16, text: impl Into<String>) -> Close {
    Close::channel(code, text, "exchange.declare")
}

/// The close that says that `what` differs from the exchange that is there.
fn inequivalent(exchange: &str, what: &str, received: &str, current: &str) -> Close {
    let text = format!(
        "PRECONDITION_FAILED - inequivalent arg '{what}' for exchange '{exchange}' in vhost '/': \
         received '{received}' but current is '{current}'"
    );
    close(406, text)
}

// amqp 1.6.2.1
#[test]
fn declaring_again_with_the_same_properties_is_fine() {
    conformance(|trial| {
        let channel = trial.channel();
        let exchange = trial.exchange("same");
        for _ in 0..2 {
            channel.declare_exchange(&ExchangeSpec::durable(&exchange, "topic"));
        }
    });
}

// amqp 1.6.2.1, rabbitmq: text
#[test]
fn another_type_closes_the_channel_with_406() {
    conformance(|trial| {
        let exchange = trial.exchange("type");
        trial
            .channel()
            .declare_exchange(&ExchangeSpec::durable(&exchange, "direct"));
        let close = refused(trial, &ExchangeSpec::durable(&exchange, "fanout"));
        assert_eq!(close, inequivalent(&exchange, "type", "fanout", "direct"));
    });
}

// amqp 1.6.2.1, rabbitmq: text
#[test]
fn another_durability_closes_the_channel_with_406() {
    conformance(|trial| {
        let exchange = trial.exchange("durable");
        trial
            .channel()
            .declare_exchange(&ExchangeSpec::durable(&exchange, "direct"));
        let close = refused(trial, &ExchangeSpec::transient(&exchange, "direct"));
        assert_eq!(close, inequivalent(&exchange, "durable", "false", "true"));
    });
}

// amqp 1.6.2.1, rabbitmq: text
#[test]
fn another_auto_delete_closes_the_channel_with_406() {
    conformance(|trial| {
        let exchange = trial.exchange("auto");
        trial
            .channel()
            .declare_exchange(&ExchangeSpec::durable(&exchange, "direct"));
        let close = refused(
            trial,
            &ExchangeSpec::durable(&exchange, "direct").auto_delete(),
        );
        assert_eq!(
            close,
            inequivalent(&exchange, "auto_delete", "true", "false")
        );
    });
}

// amqp 1.6.2.1, rabbitmq: text
#[test]
fn another_internal_flag_closes_the_channel_with_406() {
    conformance(|trial| {
        let exchange = trial.exchange("internal");
        trial
            .channel()
            .declare_exchange(&ExchangeSpec::durable(&exchange, "direct"));
        let close = refused(
            trial,
            &ExchangeSpec::durable(&exchange, "direct").internal(),
        );
        assert_eq!(close, inequivalent(&exchange, "internal", "true", "false"));
    });
}

// rabbitmq: arguments that mean nothing are not compared.
#[test]
fn unknown_arguments_are_not_compared() {
    conformance(|trial| {
        let channel = trial.channel();
        let exchange = trial.exchange("argument");
        let spec = ExchangeSpec::durable(&exchange, "direct");
        channel.declare_exchange(&spec.clone().argument("x-mine", 1));
        channel.declare_exchange(&spec.argument("x-mine", 2));
    });
}

// amqp 1.6.2.1, rabbitmq: 406 instead of the specification's 503
#[test]
fn an_unknown_type_closes_the_channel_with_406() {
    conformance(|trial| {
        let close = refused(trial, &ExchangeSpec::durable(&trial.name("odd"), "bogus"));
        let text = "PRECONDITION_FAILED - unknown exchange type 'bogus'";
        assert_eq!(close, self::close(406, text));
    });
}

// amqp 1.6.2.1: names that begin with amq. are the broker's.
#[test]
fn a_reserved_name_closes_the_channel_with_403() {
    conformance(|trial| {
        let close = refused(trial, &ExchangeSpec::durable("amq.mine", "direct"));
        let text = "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'";
        assert_eq!(close, self::close(403, text));
    });
}

// amqp 1.6.2.1: the broker's own exchanges may be declared as they are.
#[test]
fn the_brokers_own_exchanges_are_there() {
    conformance(|trial| {
        let channel = trial.channel();
        for (name, kind) in [
            ("amq.direct", "direct"),
            ("amq.fanout", "fanout"),
            ("amq.topic", "topic"),
            ("amq.headers", "headers"),
            ("amq.match", "headers"),
        ] {
            channel.declare_exchange(&ExchangeSpec::durable(name, kind));
        }
    });
}

// rabbitmq: the default exchange is nobody's to declare.
#[test]
fn the_default_exchange_cannot_be_declared() {
    conformance(|trial| {
        let close = refused(trial, &ExchangeSpec::durable("", "direct"));
        let text = "ACCESS_REFUSED - operation not permitted on the default exchange";
        assert_eq!(close, self::close(403, text));
    });
}

// amqp 1.6.2.1: passive only asks.
#[test]
fn a_passive_declare_of_a_missing_exchange_closes_the_channel_with_404() {
    conformance(|trial| {
        let exchange = trial.name("missing");
        let close = refused(trial, &ExchangeSpec::passive(&exchange, "direct"));
        let text = format!("NOT_FOUND - no exchange '{exchange}' in vhost '/'");
        assert_eq!(close, self::close(404, text));
    });
}

// rabbitmq: passive compares nothing.
#[test]
fn a_passive_declare_does_not_compare() {
    conformance(|trial| {
        let channel = trial.channel();
        let exchange = trial.exchange("asked");
        channel.declare_exchange(&ExchangeSpec::durable(&exchange, "topic"));
        channel.declare_exchange(&ExchangeSpec::passive(&exchange, "fanout"));
    });
}

// rabbitmq: line ends are taken out of names.
#[test]
fn line_ends_are_taken_out_of_names() {
    conformance(|trial| {
        let channel = trial.channel();
        let exchange = trial.exchange("line");
        let broken = format!("\r\n{exchange}\n");
        channel.declare_exchange(&ExchangeSpec::durable(&broken, "direct"));
        channel.declare_exchange(&ExchangeSpec::passive(&exchange, "direct"));
    });
}

// rabbitmq: alternate-exchange is compared and must be text.
#[test]
fn an_alternate_exchange_that_is_no_text_closes_the_channel_with_406() {
    conformance(|trial| {
        let exchange = trial.exchange("alternate");
        let spec = ExchangeSpec::durable(&exchange, "direct").argument("alternate-exchange", 5);
        let text = format!(
            "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in \
             exchange '{exchange}' in vhost '/'"
        );
        assert_eq!(refused(trial, &spec), close(406, text));
    });
}

// amqp 1.6.2.1: names of 255 octets are the longest.
#[test]
fn a_name_of_255_octets_is_taken() {
    conformance(|trial| {
        let channel = trial.channel();
        let stem = "n".repeat(255 - trial.name("").len());
        let exchange = trial.exchange(&stem);
        assert_eq!(exchange.len(), 255);
        channel.declare_exchange(&ExchangeSpec::durable(&exchange, "direct"));
    });
}

// rabbitmq: text; a type with a dash stands in quotes of its own.
#[test]
fn another_type_than_a_plugins_is_refused_with_its_name_quoted_twice() {
    conformance(|trial| {
        let channel = trial.channel();
        let name = trial.exchange("hash");
        channel.declare_exchange(&ExchangeSpec::durable(&name, "x-modulus-hash"));
        let close = channel.refused(&exchange_declare(&ExchangeSpec::durable(&name, "topic")));
        let text = format!(
            "PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{name}' in vhost '/': \
             received 'topic' but current is ''x-modulus-hash''"
        );
        assert_eq!(close, Close::channel(406, text, "exchange.declare"));
    });
}
