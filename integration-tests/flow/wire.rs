//! Levers and words: what is sent to whom, and what the log says.

use std::time::Duration;

use integration_tests::connection::PATIENCE;
use integration_tests::{
    BrokerProcess, Connection, ConsumerSpec, Login, Method, Properties, Publication, QueueSpec,
    SettingsFile, expect_soon, own_broker,
};

use crate::declare;

fn log_has(broker: &BrokerProcess, words: &str) {
    expect_soon(words, &true, || broker.stderr_tail().contains(words));
}

#[test]
fn the_log_speaks_in_qpids_words() {
    own_broker(|| {
        let broker = BrokerProcess::start_with(&["log.level=info"]);
        let channel = Connection::open(broker.address()).channel(1);
        let spec = QueueSpec::durable("MyQueue")
            .argument("x-qpid-capacity", 1_000)
            .argument("x-qpid-flow-resume-capacity", 800);
        channel.declare(&spec);
        for _ in 0..4 {
            channel.put("MyQueue", &"x".repeat(400));
        }
        log_has(
            &broker,
            "[vh(/)/qu(MyQueue)] QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000",
        );
        log_has(
            &broker,
            "/)/ch:1] CHN-1005 : Flow Control Enforced (Queue MyQueue)",
        );
        channel.purge("MyQueue");
        log_has(
            &broker,
            "[vh(/)/qu(MyQueue)] QUE-1004 : Underfull : Size : 0 bytes, Resume Capacity : 800",
        );
        log_has(&broker, "/)/ch:1] CHN-1006 : Flow Control Removed");
    });
}

fn aware(awareness: bool) -> Login {
    let login = Login::default();
    let capabilities = login.capabilities.with("channel_flow_aware", awareness);
    Login {
        capabilities,
        ..Login::default()
    }
}

#[test]
fn channel_flow_goes_to_clients_that_say_they_obey_it_and_to_no_other() {
    own_broker(|| {
        let broker = BrokerProcess::start();
        let control = Connection::open(broker.address()).channel(1);
        declare(&control, "q", 1, 0);
        let obedient = Connection::open_as(broker.address(), &aware(true)).channel(1);
        let other = Connection::open(broker.address()).channel(1);
        // Whoever publishes to the overfull queue is held at the first message.
        control.put("q", "x");
        control.put("q", "x");
        control.sync();
        obedient.put("q", "x");
        other.put("q", "x");
        let (flow, _) = obedient.wait_for(&["channel.flow"]);
        assert!(!flow.bit(0));
        obedient.send(&Method::new("channel.flow-ok", vec![false.into()]));
        other.connection().expect_quiet();
        // What was held comes in when the first ones are gone.
        let mut got = 0;
        while got < 4 {
            got += usize::from(control.take("q").is_some());
        }
        let (flow, _) = obedient.wait_for(&["channel.flow"]);
        assert!(flow.bit(0));
        obedient.send(&Method::new("channel.flow-ok", vec![true.into()]));
        obedient.sync();
        other.sync();
    });
}

#[test]
fn no_answer_to_channel_flow_and_a_wrong_one_change_nothing() {
    own_broker(|| {
        let broker = BrokerProcess::start();
        let control = Connection::open(broker.address()).channel(1);
        declare(&control, "q", 1, 0);
        control.put("q", "x");
        control.put("q", "x");
        control.sync();
        let silent = Connection::open_as(broker.address(), &aware(true)).channel(1);
        let wrong = Connection::open_as(broker.address(), &aware(true)).channel(1);
        for channel in [&silent, &wrong] {
            channel.put("q", "x");
            channel.wait_for(&["channel.flow"]);
        }
        wrong.send(&Method::new("channel.flow-ok", vec![true.into()]));
        // Both are held as before, and can be talked to.
        for channel in [&silent, &wrong] {
            channel.put("q", "x");
            channel.sync();
        }
        assert_eq!(control.ready("q"), 2);
        let mut got = 0;
        while got < 6 {
            got += usize::from(control.take("q").is_some());
        }
        for channel in [&silent, &wrong] {
            let (flow, _) = channel.wait_for(&["channel.flow"]);
            assert!(flow.bit(0));
            channel.sync();
        }
    });
}

#[test]
fn a_client_that_did_not_announce_it_is_never_told_that_it_is_blocked() {
    own_broker(|| {
        let broker = BrokerProcess::start_with(&["memory.high_watermark=0"]);
        let login = Login::without_capabilities();
        let deaf = Connection::open_as(broker.address(), &login).channel(1);
        let other = Connection::open(broker.address()).channel(1);
        deaf.declare(&QueueSpec::durable("q"));
        for channel in [&deaf, &other] {
            channel.put("q", "x");
        }
        other.connection().wait_for(0, &["connection.blocked"]);
        deaf.sync();
        deaf.connection().expect_quiet();
    });
}

#[test]
fn an_alarm_is_told_once_and_stops_those_who_only_publish() {
    own_broker(|| {
        let broker = BrokerProcess::start_with(&["memory.high_watermark=0"]);
        let publisher = Connection::open(broker.address()).channel(1);
        let both = Connection::open(broker.address()).channel(1);
        // Nobody is told before it publishes.
        publisher.declare(&QueueSpec::durable("q"));
        both.declare(&QueueSpec::durable("mine"));
        both.consume(&ConsumerSpec::of("mine"));
        for channel in [&publisher, &both] {
            channel.put("q", "x");
            channel.put("q", "x");
            let (blocked, _) = channel.connection().wait_for(0, &["connection.blocked"]);
            assert_eq!(blocked.text(0), "low on memory");
        }
        // Whoever consumes is heard.
        both.sync();
        assert_eq!(both.ready("q"), 0, "nothing comes in");
        // Whoever only publishes is read a little once a second: a call is answered all the same.
        publisher.sync();
    });
}

#[test]
fn a_held_client_is_not_given_up_for_its_silence() {
    own_broker(|| {
        let broker = BrokerProcess::start_with(&["flow.park_memory=1KiB"]);
        let control = Connection::open(broker.address()).channel(1);
        declare(&control, "q", 1, 0);
        let login = Login {
            heartbeat_s: 1,
            ..Login::default()
        };
        let held = Connection::open_as(broker.address(), &login).channel(1);
        for _ in 0..20 {
            held.put("q", &"x".repeat(200));
        }
        held.connection().wait_for(0, &["connection.blocked"]);
        // Without flow control a client as silent as this is given up after three seconds.
        std::thread::sleep(Duration::from_secs(4));
        let mut got = 0;
        while got < 20 {
            got += usize::from(control.take("q").is_some());
        }
        held.connection().wait_for(0, &["connection.unblocked"]);
        held.sync();
    });
}

#[test]
fn what_waits_too_long_is_nacked_or_costs_the_channel_and_nothing_else() {
    own_broker(|| {
        let broker = BrokerProcess::start_with(&["flow.hold_timeout=300ms"]);
        let connection = Connection::open(broker.address());
        let (plain, confirming, consumer) = (
            connection.channel(1),
            connection.channel(2),
            connection.channel(3),
        );
        declare(&consumer, "q", 1, 0);
        consumer.declare(&QueueSpec::durable("mine"));
        consumer.consume(&ConsumerSpec::of("mine"));
        confirming.confirm_select();
        for _ in 0..4 {
            confirming.put("q", "x");
        }
        let outcomes = confirming.outcomes();
        assert_eq!(outcomes, [(1, true), (2, true), (3, false), (4, false)]);
        plain.put("q", "x");
        let close = plain.expect_close();
        assert_eq!(close.code, 406);
        assert!(
            close
                .text
                .ends_with("flow control of queue 'q' in vhost '/' ignored or timed out"),
            "{}",
            close.text
        );
        // The consumer on the same connection lives.
        confirming.put("mine", "still there");
        assert_eq!(consumer.expect_texts(1), ["still there"]);
        let full = Publication::to_queue("q", "x").mandatory();
        confirming.publish(&full);
        let returned = confirming.expect_return();
        assert_eq!(
            (returned.code, returned.text.as_str()),
            (311, "queue 'q' full")
        );
    });
}

#[test]
fn a_commit_is_answered_when_the_queue_has_room() {
    own_broker(|| {
        let broker = BrokerProcess::start();
        let connection = Connection::open(broker.address());
        let (channel, other) = (connection.channel(1), connection.channel(2));
        declare(&channel, "q", 1, 0);
        channel.call(&Method::new("tx.select", Vec::new()));
        for _ in 0..4 {
            channel.put("q", "x");
        }
        channel.send(&Method::new("tx.commit", Vec::new()));
        // The same connection takes what is in the way.
        other.consume(&ConsumerSpec::of("q").no_ack());
        assert_eq!(other.expect_texts(4).len(), 4);
        channel
            .connection()
            .wait_within(1, &["tx.commit-ok"], PATIENCE)
            .expect("The commit must be answered.");
    });
}

#[test]
fn a_direct_reply_of_a_held_channel_is_not_held() {
    own_broker(|| {
        let broker = BrokerProcess::start_with(&["log.level=info"]);
        let requester = Connection::open(broker.address()).channel(1);
        declare(&requester, "full", 1, 0);
        requester.declare(&QueueSpec::durable("requests"));
        requester.consume(&ConsumerSpec::of("amq.rabbitmq.reply-to").no_ack());
        let wants_reply = Properties {
            reply_to: Some("amq.rabbitmq.reply-to".to_owned()),
            ..Properties::default()
        };
        let request = Publication::to_queue("requests", "question").with(wants_reply);
        requester.publish(&request);
        let responder = Connection::open(broker.address()).channel(1);
        let reply_to = responder.get_soon("requests").properties.reply_to;
        let reply_to = reply_to.expect("The request names its reply address.");
        for _ in 0..3 {
            responder.put("full", "x");
        }
        log_has(&broker, "Flow Control Enforced (Queue full)");
        responder.put(&reply_to, "answer");
        assert_eq!(requester.expect_delivery().text(), "answer");
    });
}

#[test]
fn limits_of_memory_and_disk_change_while_the_broker_runs() {
    own_broker(|| {
        let settings = SettingsFile::new("");
        let broker = settings.start_broker(&["log.level=info"]);
        let publisher = Connection::open(broker.address()).channel(1);
        publisher.declare(&QueueSpec::durable("q"));
        for (text, reason) in [
            ("memory: {high_watermark: 0}", "low on memory"),
            ("disk: {free_limit: 1000TiB}", "low on disk"),
        ] {
            settings.write(text);
            log_has(&broker, &format!("{} alarm: publishers wait", &reason[7..]));
            publisher.put("q", "x");
            let (blocked, _) = publisher.connection().wait_for(0, &["connection.blocked"]);
            assert_eq!(blocked.text(0), reason);
            settings.write("");
            publisher
                .connection()
                .wait_for(0, &["connection.unblocked"]);
            publisher.sync();
        }
        publisher.expect_ready("q", 2);
    });
}
