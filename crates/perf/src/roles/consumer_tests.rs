//! A consumer without a socket: what it answers to deliveries, and what it counts.

use std::sync::Mutex;

use amqp::{BasicDeliver, BasicGetOk, FrameDecoder, FrameKind, OtherMethod};

use super::*;
use crate::body::{Identity, STAMP_BYTES, Stamp};
use crate::figures::Tally;
use crate::orders::Orders;
use crate::random::Random;

/// Remembers what it was told.
#[derive(Default)]
struct Notes {
    kept: Mutex<Vec<u64>>,
    settled: Mutex<Vec<u64>>,
}

impl Witness for Notes {
    fn note(&self, kept: &[Sighting]) -> u64 {
        let sequences = kept.iter().map(|sighting| sighting.sequence);
        self.kept.lock().unwrap().extend(sequences);
        kept.len() as u64
    }

    fn wants_certainty(&self) -> bool {
        true
    }

    fn settled(&self, kept: &[Sighting]) {
        let sequences = kept.iter().map(|sighting| sighting.sequence);
        self.settled.lock().unwrap().extend(sequences);
    }
}

struct Bench {
    consumer: Consumer,
    notes: Arc<Notes>,
    orders: Orders,
    tally: Tally,
    out: Vec<u8>,
}

fn mark() -> RunMark {
    RunMark::draw(&mut Random::seeded(1))
}

impl Bench {
    /// A consumer that consumes already; what it sent so far is forgotten.
    fn consuming(change: impl FnOnce(&mut ConsumerPlan)) -> Self {
        let notes = Arc::new(Notes::default());
        let mut plan = ConsumerPlan {
            channel: 1,
            mark: mark(),
            queues: vec![(0, "q".to_owned())],
            intake: Intake::Push,
            ack_every: 1,
            requeue_every: 0,
            requeue_again: false,
            stuck_every: 0,
            lag: 0,
            service_ns: 0,
            filler: Some(Filler::new(64, None)),
            witness: Arc::clone(&notes) as Arc<dyn Witness>,
        };
        change(&mut plan);
        let subscriptions = plan.queues.len();
        let polls = plan.intake != Intake::Push;
        let mut bench = Self {
            consumer: Consumer::new(plan),
            notes,
            orders: Orders {
                consume: Order::Go { since_ns: 0 },
                ..Orders::wait()
            },
            tally: Tally::for_connections(1),
            out: Vec::new(),
        };
        bench.pump(0);
        if !polls {
            for _ in 0..subscriptions {
                bench.hear(0, consume_ok()).unwrap();
            }
        }
        bench
    }

    fn with_turn<R>(
        &mut self,
        now_ns: u64,
        act: impl FnOnce(&mut Consumer, &mut Turn<'_>) -> R,
    ) -> R {
        let mut turn = Turn {
            now_ns,
            orders: self.orders,
            blocked: false,
            publishes_left: 0,
            out: &mut self.out,
            tally: &mut self.tally,
        };
        act(&mut self.consumer, &mut turn)
    }

    fn pump(&mut self, now_ns: u64) -> Vec<Method<'static>> {
        self.with_turn(now_ns, Consumer::pump);
        self.sent()
    }

    /// The methods sent since the last look.
    fn sent(&mut self) -> Vec<Method<'static>> {
        let decoder = FrameDecoder::new(0);
        let bytes = std::mem::take(&mut self.out);
        let mut rest = bytes.as_slice();
        let mut methods = Vec::new();
        while let Some((frame, consumed)) = decoder.next(rest).unwrap() {
            assert_eq!(frame.kind, FrameKind::Method);
            methods.push(match Method::decode(frame.payload).unwrap() {
                Method::BasicAck(ack) => Method::BasicAck(ack),
                Method::BasicNack(nack) => Method::BasicNack(nack),
                Method::Other(other) => Method::Other(other),
                other => panic!("a consumer sent {other:?}"),
            });
            rest = &rest[consumed..];
        }
        methods
    }

    fn hear(&mut self, now_ns: u64, method: Method<'_>) -> Result<(), ClientFault> {
        self.with_turn(now_ns, |consumer, turn| consumer.on_method(method, turn))
    }

    fn deliver(&mut self, tag: u64, redelivered: bool, body: &[u8]) {
        let deliver = BasicDeliver {
            consumer_tag: "0",
            delivery_tag: tag,
            redelivered,
            exchange: "",
            routing_key: "q",
        };
        self.hear(tag, Method::BasicDeliver(deliver)).unwrap();
        self.content(tag, body);
    }

    fn content(&mut self, now_ns: u64, body: &[u8]) {
        self.with_turn(now_ns, |consumer, turn| {
            consumer.on_header(body.len() as u64, turn);
            for piece in body.chunks(24) {
                consumer.on_body(piece, turn);
            }
            consumer.end_turn(turn);
        });
    }

    fn kept(&self) -> Vec<u64> {
        self.notes.kept.lock().unwrap().clone()
    }
}

fn other(call: AMQPClass) -> Method<'static> {
    Method::Other(Box::new(OtherMethod {
        call,
        table: amqp::Table::new(),
    }))
}

fn consume_ok() -> Method<'static> {
    let ok = basic::ConsumeOk {
        consumer_tag: "0".into(),
    };
    other(AMQPClass::Basic(basic::AMQPMethod::ConsumeOk(ok)))
}

fn close_ok() -> Method<'static> {
    other(AMQPClass::Channel(channel::AMQPMethod::CloseOk(
        channel::CloseOk {},
    )))
}

fn body(sequence: u64, bytes: usize) -> Vec<u8> {
    let mut body = Filler::new(bytes, None).bytes().to_vec();
    let identity = Identity {
        mark: mark(),
        producer: 0,
        sequence,
    };
    body[..STAMP_BYTES].copy_from_slice(&Stamp::bytes(identity, 0));
    body
}

fn ack(delivery_tag: u64, multiple: bool) -> Method<'static> {
    Method::BasicAck(BasicAck {
        delivery_tag,
        multiple,
    })
}

#[test]
fn every_delivery_is_acknowledged_noted_and_timed() {
    let mut bench = Bench::consuming(|_| {});
    bench.deliver(1, false, &body(0, 16));
    bench.deliver(2, false, &body(1, 60));
    assert_eq!(bench.sent(), [ack(1, false), ack(2, false)]);
    assert_eq!(bench.kept(), [0, 1]);
    let counts = bench.tally.counts;
    assert_eq!((counts.consumed, counts.distinct), (2, 2));
    assert_eq!((counts.foreign, counts.corrupted), (0, 0));
    assert!(bench.tally.latency.percentiles().is_some());
}

#[test]
fn acks_for_several_come_together_and_the_rest_at_the_end() {
    let mut bench = Bench::consuming(|plan| plan.ack_every = 2);
    for tag in 1..=3 {
        bench.deliver(tag, false, &body(tag, 16));
    }
    assert_eq!(bench.sent(), [ack(2, true)]);
    bench.orders.consume = Order::Stop;
    let sent = bench.pump(9);
    assert_eq!(sent[0], ack(3, false));
    assert!(format!("{:?}", sent[1]).contains("Close"));
}

#[test]
fn with_auto_ack_nothing_is_acknowledged() {
    let mut bench = Bench::consuming(|plan| plan.ack_every = 0);
    bench.deliver(1, false, &body(0, 16));
    assert!(bench.sent().is_empty());
    assert_eq!(bench.kept(), [0]);
}

#[test]
fn deliveries_sent_back_are_kept_when_they_return() {
    let mut bench = Bench::consuming(|plan| plan.requeue_every = 2);
    for tag in 1..=2 {
        bench.deliver(tag, false, &body(tag, 16));
    }
    bench.deliver(3, true, &body(2, 16));
    let nack = BasicNack {
        delivery_tag: 2,
        multiple: false,
        requeue: true,
    };
    let expected = [ack(1, false), Method::BasicNack(nack), ack(3, false)];
    assert_eq!(bench.sent(), expected);
    assert_eq!(bench.kept(), [1, 2]);
    let counts = bench.tally.counts;
    assert_eq!((counts.requeued, counts.redelivered), (1, 1));
}

#[test]
fn a_changed_body_is_corrupted_and_another_runs_message_is_foreign() {
    let mut bench = Bench::consuming(|_| {});
    let mut changed = body(0, 40);
    changed[30] ^= 1;
    bench.deliver(1, false, &changed);
    bench.deliver(2, false, &[0; 20]);
    bench.deliver(3, false, b"tiny");
    let counts = bench.tally.counts;
    assert_eq!((counts.corrupted, counts.foreign), (1, 1));
    assert_eq!(counts.consumed, 3);
}

#[test]
fn a_delivery_out_of_order_is_counted_unless_it_is_redelivered() {
    let mut bench = Bench::consuming(|_| {});
    bench.deliver(1, false, &body(5, 16));
    bench.deliver(2, true, &body(3, 16));
    assert_eq!(bench.consumer.reordered(), 0);
    bench.deliver(3, false, &body(4, 16));
    assert_eq!(bench.consumer.reordered(), 1);
}

#[test]
fn a_slow_consumer_acknowledges_one_by_one_and_asks_to_be_woken() {
    let mut bench = Bench::consuming(|plan| plan.service_ns = 100);
    bench.deliver(1, false, &body(0, 16));
    bench.deliver(2, false, &body(1, 16));
    assert!(bench.sent().is_empty());
    assert_eq!(bench.with_turn(50, Consumer::pump), Some(101));
    assert_eq!(bench.pump(101), [ack(1, false)]);
    assert_eq!(bench.pump(201), [ack(2, false)]);
    assert_eq!(bench.kept(), [0, 1]);
}

#[test]
fn polling_asks_each_queue_in_turn_and_pauses_after_an_empty_answer() {
    let mut bench = Bench::consuming(|plan| {
        plan.intake = Intake::Poll { pause_ns: 1_000 };
        plan.queues.push((1, "r".to_owned()));
    });
    assert!(bench.pump(1).is_empty(), "the first get is unanswered");
    let get_ok = BasicGetOk {
        delivery_tag: 1,
        redelivered: false,
        exchange: "",
        routing_key: "q",
        message_count: 0,
    };
    bench.hear(2, Method::BasicGetOk(get_ok)).unwrap();
    bench.content(2, &body(0, 16));
    let sent = format!("{:?}", bench.pump(3));
    assert!(
        sent.contains("BasicAck") && sent.contains("\"r\""),
        "{sent}"
    );
    let empty = basic::AMQPMethod::GetEmpty(basic::GetEmpty {});
    bench.hear(4, other(AMQPClass::Basic(empty))).unwrap();
    assert_eq!(bench.with_turn(5, Consumer::pump), Some(1_004));
    let sent = format!("{:?}", bench.pump(1_004));
    assert!(sent.contains("\"q\""), "{sent}");
    assert_eq!(bench.tally.counts.empty_gets, 1);
}

#[test]
fn acks_are_certain_once_the_channel_is_closed_in_peace() {
    let mut bench = Bench::consuming(|_| {});
    bench.deliver(1, false, &body(7, 16));
    bench.orders.consume = Order::Stop;
    bench.pump(2);
    assert!(bench.notes.settled.lock().unwrap().is_empty());
    bench.deliver(2, false, &body(8, 16));
    bench.hear(3, close_ok()).unwrap();
    assert_eq!(*bench.notes.settled.lock().unwrap(), [7]);
    assert_eq!(bench.kept(), [7], "what came after the close is not kept");
    assert!(bench.consumer.is_done());
}

#[test]
fn a_cancelled_consumer_is_a_fault_that_names_it() {
    let mut bench = Bench::consuming(|_| {});
    let cancel = basic::AMQPMethod::Cancel(basic::Cancel {
        consumer_tag: "0".into(),
        nowait: true,
    });
    let fault = bench.hear(1, other(AMQPClass::Basic(cancel))).unwrap_err();
    assert!(fault.to_string().contains("cancelled consumer \"0\""));
}

fn acks(bench: &mut Bench) -> Vec<(u64, bool)> {
    let sent = bench.sent().into_iter();
    let acks = sent.map(|method| match method {
        Method::BasicAck(ack) => (ack.delivery_tag, ack.multiple),
        other => panic!("expected acks; came {other:?}"),
    });
    acks.collect()
}

#[test]
fn every_nth_delivery_is_never_settled_and_no_ack_takes_it_along() {
    let mut bench = Bench::consuming(|plan| (plan.stuck_every, plan.ack_every) = (3, 2));
    for tag in 1..=7 {
        bench.deliver(tag, false, &body(tag, 40));
    }
    // 1, 4 and 7 are stuck.
    let singly = [2, 3, 5, 6].map(|tag| (tag, false));
    assert_eq!(acks(&mut bench), singly);
    assert_eq!(bench.tally.counts.acknowledged, 4);
    assert_eq!(bench.tally.counts.consumed, 7);
}

#[test]
fn a_consumer_that_lags_acks_what_is_far_behind_and_the_rest_at_the_end() {
    let mut bench = Bench::consuming(|plan| (plan.lag, plan.ack_every) = (3, 2));
    for tag in 1..=7 {
        bench.deliver(tag, false, &body(tag, 40));
    }
    assert_eq!(acks(&mut bench), [(2, true), (4, true)]);
    bench.orders.consume = Order::Stop;
    bench.with_turn(9, Consumer::pump);
    let sent = bench.sent();
    assert_eq!(sent.first(), Some(&ack(7, true)), "{sent:?}");
    assert_eq!(bench.tally.counts.acknowledged, 7);
}

#[test]
fn what_goes_round_for_ever_is_sent_back_each_time_it_comes() {
    let change = |plan: &mut ConsumerPlan| (plan.requeue_every, plan.requeue_again) = (1, true);
    let mut bench = Bench::consuming(change);
    for (tag, redelivered) in [(1, false), (2, true), (3, true)] {
        bench.deliver(tag, redelivered, &body(1, 40));
    }
    assert_eq!(bench.tally.counts.requeued, 3);
    assert_eq!(bench.tally.counts.consumed, 0);
}
