//! A producer without a socket: what it appends, and how it takes the broker's answers.

use amqp::{BasicReturn, FrameDecoder, FrameKind, OtherMethod};

use super::*;
use crate::figures::Tally;
use crate::orders::Orders;
use crate::random::Random;

/// A producer and the world around it.
struct Bench {
    publisher: Publisher,
    orders: Orders,
    blocked: bool,
    tally: Tally,
    out: Vec<u8>,
}

fn plan(answers: Answers) -> PublisherPlan {
    PublisherPlan {
        channel: 1,
        producer: 3,
        mark: RunMark::draw(&mut Random::seeded(1)),
        first_sequence: 0,
        quota: None,
        answers,
        rate: None,
        rate_offset_ns: 0,
        sizes: SizeDraw::new("16".parse().unwrap(), Random::seeded(1)),
        filler: Filler::new(16, None),
        targets: vec![(String::new(), "q".to_owned())],
        mandatory: false,
        properties: amqp::PropertiesBuilder::new().build(),
        frame_bytes_max: 4_096,
    }
}

impl Bench {
    fn new(plan: PublisherPlan) -> Self {
        Self {
            publisher: Publisher::new(plan),
            orders: Orders {
                publish: Order::Go { since_ns: 0 },
                ..Orders::wait()
            },
            blocked: false,
            tally: Tally::for_connections(1),
            out: Vec::new(),
        }
    }

    fn with_turn<R>(
        &mut self,
        now_ns: u64,
        batch: u32,
        act: impl FnOnce(&mut Publisher, &mut Turn<'_>) -> R,
    ) -> R {
        let mut turn = Turn {
            now_ns,
            orders: self.orders,
            blocked: self.blocked,
            publishes_left: batch,
            out: &mut self.out,
            tally: &mut self.tally,
        };
        act(&mut self.publisher, &mut turn)
    }

    /// Pumps once and answers what was appended.
    fn pump(&mut self, now_ns: u64, batch: u32) -> Vec<String> {
        self.with_turn(now_ns, batch, Publisher::pump);
        let sent = names(&self.out);
        self.out.clear();
        sent
    }

    fn hear(&mut self, now_ns: u64, method: Method<'_>) -> Result<(), ClientFault> {
        self.with_turn(now_ns, 0, |publisher, turn| {
            publisher.on_method(method, turn)
        })
    }
}

/// The methods among the frames.
fn names(frames: &[u8]) -> Vec<String> {
    let decoder = FrameDecoder::new(0);
    let mut rest = frames;
    let mut names = Vec::new();
    while let Some((frame, consumed)) = decoder.next(rest).unwrap() {
        if frame.kind == FrameKind::Method {
            names.push(match Method::decode(frame.payload).unwrap() {
                Method::BasicPublish(publish) => publish.routing_key.to_owned(),
                Method::Other(other) => format!("{:?}", other.call),
                other => format!("{other:?}"),
            });
        }
        rest = &rest[consumed..];
    }
    names
}

fn other(call: AMQPClass) -> Method<'static> {
    Method::Other(Box::new(OtherMethod {
        call,
        table: amqp::Table::new(),
    }))
}

fn close_ok() -> Method<'static> {
    other(AMQPClass::Channel(channel::AMQPMethod::CloseOk(
        channel::CloseOk {},
    )))
}

fn ack(delivery_tag: u64, multiple: bool) -> Method<'static> {
    Method::BasicAck(BasicAck {
        delivery_tag,
        multiple,
    })
}

fn confirms(window: u32) -> Answers {
    Answers::Confirms(ConfirmWindow::new(window))
}

#[test]
fn nothing_is_published_before_the_order() {
    let mut bench = Bench::new(plan(Answers::None));
    bench.orders.publish = Order::Wait;
    assert!(bench.pump(1, 10).is_empty());
}

#[test]
fn a_write_carries_as_many_publishes_as_allowed() {
    let mut bench = Bench::new(plan(Answers::None));
    assert_eq!(bench.pump(1, 3), ["q", "q", "q"]);
    assert_eq!(bench.pump(1, 1), ["q"]);
    assert_eq!(bench.tally.counts.published, 4);
    assert_eq!(bench.tally.counts.published_bytes, 64);
}

#[test]
fn a_full_window_waits_for_confirms_and_times_them() {
    let mut bench = Bench::new(plan(confirms(2)));
    assert_eq!(bench.pump(1_000, 10).len(), 2);
    assert!(bench.pump(2_000, 10).is_empty());
    bench.hear(5_000, ack(2, true)).unwrap();
    assert_eq!(bench.tally.counts.confirmed, 2);
    assert_eq!(bench.pump(6_000, 10).len(), 2);
    let latency = bench.tally.confirm_latency.percentiles().unwrap();
    assert!((latency.max - 4.0).abs() < 0.1, "{latency:?}");
}

#[test]
fn a_quota_ends_with_a_closed_channel_after_the_last_confirm() {
    let mut bench = Bench::new(PublisherPlan {
        quota: Some(2),
        ..plan(confirms(10))
    });
    assert_eq!(bench.pump(1, 10).len(), 2);
    bench.hear(2, ack(1, false)).unwrap();
    assert!(bench.pump(3, 10).is_empty(), "one confirm is outstanding");
    bench.hear(4, ack(2, false)).unwrap();
    assert!(bench.pump(5, 10)[0].contains("Close"));
    assert!(!bench.publisher.is_done());
    bench.hear(6, close_ok()).unwrap();
    assert!(bench.publisher.is_done());
    assert_eq!(bench.tally.counts.producers_done, 1);
    let record = bench.publisher.into_record();
    assert_eq!((record.published.count, record.unanswered), (2, 0));
}

#[test]
fn refused_and_unanswered_publishes_need_not_arrive() {
    let mut bench = Bench::new(PublisherPlan {
        first_sequence: 100,
        ..plan(confirms(3))
    });
    bench.pump(1, 10);
    let nack = BasicNack {
        delivery_tag: 2,
        multiple: false,
        requeue: false,
    };
    bench.hear(2, Method::BasicNack(nack)).unwrap();
    bench.hear(2, ack(1, false)).unwrap();
    let record = bench.publisher.into_record();
    let exempt: Vec<u64> = (100..103)
        .filter(|sequence| record.published.exempt.contains(*sequence))
        .collect();
    assert_eq!(exempt, [101, 102]);
    assert_eq!(record.unanswered, 1);
}

#[test]
fn a_returned_message_is_known_by_its_body() {
    let mut bench = Bench::new(plan(confirms(10)));
    let mark = bench.publisher.identity.mark;
    bench.pump(1, 3);
    let returned = BasicReturn {
        reply_code: 312,
        reply_text: "NO_ROUTE",
        exchange: "",
        routing_key: "q",
    };
    bench.hear(2, Method::BasicReturn(returned)).unwrap();
    let identity = Identity {
        mark,
        producer: 3,
        sequence: 1,
    };
    bench.publisher.on_header();
    bench.publisher.on_body(&Stamp::bytes(identity, 1));
    let later_piece = Identity {
        sequence: 2,
        ..identity
    };
    bench.publisher.on_body(&Stamp::bytes(later_piece, 1));
    bench.hear(3, ack(3, true)).unwrap();
    assert_eq!(bench.tally.counts.returned, 1);
    let record = bench.publisher.into_record();
    assert!(record.published.exempt.contains(1));
    assert!(!record.published.exempt.contains(2), "no stamp of its own");
}

#[test]
fn a_rate_limit_publishes_on_the_grid_and_says_when_it_goes_on() {
    let mut bench = Bench::new(PublisherPlan {
        rate: Some(1_000.0),
        rate_offset_ns: 500_000,
        ..plan(Answers::None)
    });
    assert!(bench.pump(499_999, 10).is_empty());
    assert_eq!(bench.pump(500_000, 10).len(), 1);
    assert_eq!(bench.pump(2_600_000, 10).len(), 2);
    let wake_ns = bench.with_turn(2_600_000, 10, Publisher::pump);
    assert_eq!(wake_ns, Some(3_500_000));
}

#[test]
fn latency_of_a_late_publish_counts_from_when_it_was_due() {
    let mut bench = Bench::new(PublisherPlan {
        rate: Some(1_000.0),
        ..plan(confirms(1))
    });
    assert_eq!(bench.pump(0, 10).len(), 1);
    bench.hear(5_000_000, ack(1, false)).unwrap();
    assert_eq!(bench.pump(5_000_000, 10).len(), 1, "due at 1 ms");
    bench.hear(5_000_000, ack(2, false)).unwrap();
    let latency = bench.tally.confirm_latency.percentiles().unwrap();
    assert!((latency.p50 - 4_000.0).abs() < 10.0, "{latency:?}");
}

#[test]
fn channel_flow_is_answered_and_obeyed() {
    let mut bench = Bench::new(plan(Answers::None));
    let flow = |active| {
        other(AMQPClass::Channel(channel::AMQPMethod::Flow(
            channel::Flow { active },
        )))
    };
    bench.hear(1, flow(false)).unwrap();
    assert!(bench.pump(2, 10)[0].contains("FlowOk"));
    assert!(bench.pump(3, 10).is_empty());
    bench.hear(4, flow(true)).unwrap();
    assert_eq!(bench.pump(5, 1).len(), 2, "flow-ok and a publish");
    assert_eq!(bench.tally.counts.holds, 1);
}

#[test]
fn a_blocked_connection_publishes_nothing() {
    let mut bench = Bench::new(plan(Answers::None));
    bench.blocked = true;
    assert!(bench.pump(1, 10).is_empty());
}

#[test]
fn transactions_commit_when_full_and_at_the_end() {
    let mut bench = Bench::new(PublisherPlan {
        quota: Some(3),
        ..plan(Answers::Transactions(Transaction::new(2)))
    });
    let commit_ok = || other(AMQPClass::Tx(tx::AMQPMethod::CommitOk(tx::CommitOk {})));
    let sent = bench.pump(1, 10);
    assert_eq!(sent.len(), 3);
    assert!(sent[2].contains("Commit"));
    bench.hear(2, commit_ok()).unwrap();
    let sent = bench.pump(3, 10);
    assert!(sent[0] == "q" && sent[1].contains("Commit"), "{sent:?}");
    bench.hear(4, commit_ok()).unwrap();
    assert_eq!(bench.tally.counts.confirmed, 3);
    assert!(bench.pump(5, 10)[0].contains("Close"));
}

#[test]
fn several_targets_are_served_in_turn() {
    let targets = ["a", "b"].map(|key| (String::new(), key.to_owned()));
    let mut bench = Bench::new(PublisherPlan {
        targets: targets.to_vec(),
        ..plan(Answers::None)
    });
    assert_eq!(bench.pump(1, 3), ["a", "b", "a"]);
}

#[test]
fn a_confirm_that_was_not_asked_for_is_the_brokers_fault() {
    let mut bench = Bench::new(plan(Answers::None));
    assert!(matches!(
        bench.hear(1, ack(1, false)),
        Err(ClientFault::Unexpected { .. })
    ));
    let mut bench = Bench::new(plan(confirms(1)));
    assert!(matches!(
        bench.hear(1, ack(1, false)),
        Err(ClientFault::Confirm(_))
    ));
}
