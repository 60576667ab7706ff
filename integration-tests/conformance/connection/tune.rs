//! What client and broker agree on before the connection opens.

use integration_tests::connection::Tune;
use integration_tests::request::channel_open;
use integration_tests::{Close, Connection, Login, Publication, QueueSpec, Trial, conformance};

/// Sends a tune-ok that the broker must not take, and hears why.
#[track_caller]
fn refuses(trial: &Trial, change: impl Fn(Tune) -> Tune, why: &str) {
    let connection = Connection::dial(trial.address());
    let tune = connection.log_in(&Login::default());
    connection.send(0, &change(tune).accept());
    let text = format!("NOT_ALLOWED - negotiated {why}");
    let close = connection.expect_close(0);
    assert_eq!(close, Close::connection(530, text, "connection.tune-ok"));
}

// rabbitmq: the defaults offered
#[test]
fn tune_offers_rabbitmqs_defaults() {
    conformance(|trial| {
        let connection = Connection::dial(trial.address());
        let tune = connection.log_in(&Login::default());
        let wanted = Tune {
            channel_max: 2047,
            frame_max: 131_072,
            heartbeat_s: 60,
        };
        assert_eq!(tune, wanted);
    });
}

// amqp 4.2.3: the least frame_max is 4096.
#[test]
fn a_frame_max_below_4096_closes_with_530() {
    conformance(|trial| {
        let why = "frame_max = 4095 is lower than the minimum allowed value (4096)";
        refuses(
            trial,
            |tune| Tune {
                frame_max: 4095,
                ..tune
            },
            why,
        );
    });
}

// amqp 1.4.2.6
#[test]
fn a_frame_max_above_the_offer_closes_with_530() {
    conformance(|trial| {
        let why = "frame_max = 131073 is higher than the maximum allowed value (131072)";
        refuses(
            trial,
            |tune| Tune {
                frame_max: 131_073,
                ..tune
            },
            why,
        );
    });
}

// rabbitmq: no limit is more than the offer.
#[test]
fn a_frame_max_without_limit_closes_with_530() {
    conformance(|trial| {
        let why = "frame_max = 0 (no limit) is higher than the maximum allowed value (131072)";
        refuses(
            trial,
            |tune| Tune {
                frame_max: 0,
                ..tune
            },
            why,
        );
    });
}

// rabbitmq: no limit is more than the offer.
#[test]
fn a_channel_max_without_limit_closes_with_530() {
    conformance(|trial| {
        let why = "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)";
        refuses(
            trial,
            |tune| Tune {
                channel_max: 0,
                ..tune
            },
            why,
        );
    });
}

// amqp 1.4.2.6
#[test]
fn a_channel_max_above_the_offer_closes_with_530() {
    conformance(|trial| {
        let why = "channel_max = 2048 is higher than the maximum allowed value (2047)";
        refuses(
            trial,
            |tune| Tune {
                channel_max: 2048,
                ..tune
            },
            why,
        );
    });
}

// amqp 4.2.3: frames of 4096 octets are enough for everything.
#[test]
fn a_connection_of_the_least_frame_size_works() {
    conformance(|trial| passes_a_body_in_frames_of(trial, 4096));
}

// rabbitmq: frames of 8192 octets are enough for everything.
#[test]
fn a_connection_of_a_small_frame_size_works() {
    conformance(|trial| passes_a_body_in_frames_of(trial, 8192));
}

/// Passes a body larger than a frame, both ways.
#[track_caller]
fn passes_a_body_in_frames_of(trial: &Trial, frame_max: u32) {
    let login = Login {
        frame_max: Some(frame_max),
        ..Login::default()
    };
    let channel = trial.connect_as(&login).channel(1);
    let queue = trial.queue("small");
    channel.declare(&QueueSpec::durable(&queue));
    let body = vec![9u8; 10_000];
    assert!(channel.publish_confirmed(&Publication::to_queue(&queue, &body)));
    let delivery = channel.get_soon(&queue);
    assert!(delivery.body == body, "expected the body as published");
    assert_eq!(
        delivery.frame_bytes.iter().max(),
        Some(&(frame_max as usize))
    );
}

// rabbitmq: the limit is on channels open at once, not on their numbers.
#[test]
fn channel_max_limits_how_many_channels_are_open_at_once() {
    conformance(|trial| {
        let login = Login {
            channel_max: Some(2),
            ..Login::default()
        };
        let connection = trial.connect_as(&login);
        connection.channel(1).close();
        connection.channel(65_535);
        connection.channel(40_000);
        connection.send(3, &channel_open());
        let text = "NOT_ALLOWED - number of channels opened (2) has reached the negotiated \
                    channel_max (2)";
        assert_eq!(connection.expect_close(0), Close::connection(530, text, ""));
    });
}

// amqp 4.2.3: a body is cut at the agreed frame size, envelope included.
#[test]
fn deliveries_are_cut_at_the_agreed_frame_size() {
    conformance(|trial| {
        let login = Login {
            frame_max: Some(8192),
            ..Login::default()
        };
        let channel = trial.connect_as(&login).channel(1);
        let queue = trial.queue("cut");
        channel.declare(&QueueSpec::durable(&queue));
        let body: Vec<u8> = (0..20_000u32).map(|n| n.to_be_bytes()[3]).collect();
        assert!(channel.publish_confirmed(&Publication::to_queue(&queue, &body)));
        let delivery = channel.get_soon(&queue);
        assert!(delivery.body == body, "expected the body as published");
        assert_eq!(
            delivery.frame_bytes,
            [8192, 8192, 20_000 - 2 * (8192 - 8) + 8]
        );
    });
}

// amqp 4.2.3: each side keeps to the one size that both agreed on.
#[test]
fn a_message_passes_between_connections_of_different_frame_sizes() {
    conformance(|trial| {
        let queue = trial.queue("sizes");
        let wide = trial.channel();
        wide.declare(&QueueSpec::durable(&queue));
        let body = vec![7u8; 100_000];
        assert!(wide.publish_confirmed(&Publication::to_queue(&queue, &body)));
        let login = Login {
            frame_max: Some(10_000),
            ..Login::default()
        };
        let narrow = trial.connect_as(&login).channel(1);
        let delivery = narrow.get_soon(&queue);
        assert!(delivery.body == body, "expected the body as published");
        let longest = delivery.frame_bytes.iter().max();
        assert_eq!(longest, Some(&10_000));
    });
}

// rabbitmq: a publisher may cut its body wherever it likes.
#[test]
fn a_body_may_come_in_frames_of_one_octet() {
    conformance(|trial| {
        let channel = trial.channel();
        let queue = trial.queue("crumbs");
        channel.declare(&QueueSpec::durable(&queue));
        let publication = Publication::to_queue(&queue, "crumbs");
        let octets = integration_tests::connection::publish_octets(1, &publication, 9);
        channel.connection().send_octets(&octets);
        assert_eq!(channel.get_soon(&queue).text(), "crumbs");
    });
}
