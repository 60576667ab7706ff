//! What a message costs in the queue machine: enqueue, dispatch and settle in batches of 64.
//!
//! Each line is one whole life of a message, so the figure to compare with the budget of 100 ns
//! is time per element. Content is a number, which shows the machine alone, or a counted
//! reference, whose counting adds four atomic operations to a life.

use std::hint::black_box;
use std::sync::Arc;

use broker_core::names::ConsumerTag;
use broker_core::queue::{
    Consumer, ConsumerId, DispatchBudget, Effect, Effects, Entry, EntryId, Handle, HolderId,
    QueueMachine, ReturnCause, Settlement,
};
use broker_core::settings::{QueueKind, QueueSettings, QuorumDefaults};
use broker_core::time::Timestamp;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const BATCH: u64 = 64;

/// A counted reference, as a message in memory has it; it is never put down.
#[derive(Clone)]
struct Shared {
    _bytes: Arc<[u8]>,
    _at: u32,
}

impl Handle for Shared {
    type AtRest = u32;

    fn at_rest(&self) -> Option<u32> {
        None
    }

    fn taken_up(at: u32) -> Self {
        Self {
            _bytes: Arc::default(),
            _at: at,
        }
    }
}

struct Load<C: Handle> {
    queue: QueueMachine<C>,
    content: C,
    out: Effects<C>,
    held: Vec<EntryId>,
    next_id: u64,
    now: Timestamp,
}

impl<C: Handle> Load<C> {
    fn new(content: C, kind: QueueKind, no_ack: bool, prefetch: u16, depth: u64) -> Self {
        let settings = QueueSettings::of_kind(kind, &QuorumDefaults::default());
        let now = Timestamp(1);
        let mut load = Self {
            queue: QueueMachine::new(kind, &settings, now),
            content,
            out: Vec::new(),
            held: Vec::new(),
            next_id: 1,
            now,
        };
        let mut consumer = Consumer::new(ConsumerId(1), HolderId(1), ConsumerTag::new("c"));
        (consumer.no_ack, consumer.prefetch) = (no_ack, prefetch);
        for _ in 0..depth / BATCH {
            load.enqueue();
        }
        load.queue
            .add_consumer(now, consumer, &mut load.out)
            .expect("the first consumer");
        load
    }

    fn enqueue(&mut self) {
        self.now = Timestamp(self.now.0 + 1);
        for position in 0..BATCH {
            let id = EntryId(self.next_id << 16 | position);
            let content = self.content.clone();
            self.queue
                .enqueue(self.now, Entry::new(id, content, 16), &mut self.out);
        }
        self.next_id += 1;
    }

    fn dispatch(&mut self) {
        let mut budget = DispatchBudget {
            messages: BATCH as u32,
            bytes: u64::MAX,
        };
        self.queue.dispatch(self.now, &mut budget, &mut self.out);
    }

    /// Does what a driver does with effects, cheaply: notes what is held, drops contents.
    fn perform(&mut self) {
        for effect in self.out.drain(..) {
            match effect {
                Effect::Deliver(delivery) if !delivery.no_ack => self.held.push(delivery.entry),
                effect => drop(black_box(effect)),
            }
        }
    }

    fn settle(&mut self, how: Settlement) {
        let (holder, now) = (HolderId(1), self.now);
        self.queue
            .settle(now, holder, &self.held, how, &mut self.out);
        self.held.clear();
    }

    fn round(&mut self) {
        self.enqueue();
        self.dispatch();
        self.perform();
        self.settle(Settlement::Ack);
        self.perform();
    }

    /// Acks one by one, each with a call of its own.
    fn round_of_single_acks(&mut self) {
        self.enqueue();
        self.dispatch();
        self.perform();
        for id in std::mem::take(&mut self.held) {
            self.queue
                .settle(self.now, HolderId(1), &[id], Settlement::Ack, &mut self.out);
        }
        self.perform();
    }

    /// Everything comes back and is delivered again.
    fn requeue(&mut self) {
        self.dispatch();
        self.perform();
        self.settle(Settlement::Requeue(ReturnCause::Nack));
        self.perform();
    }
}

fn lives(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queue");
    group.throughput(Throughput::Elements(BATCH));
    for kind in [QueueKind::Classic, QueueKind::Quorum] {
        let named = |case: &str| BenchmarkId::new(kind.name(), case);
        let cases = [
            ("ack", false, 0),
            ("no_ack", true, 0),
            ("ack, 1 M deep", false, 1 << 20),
        ];
        for (case, no_ack, depth) in cases {
            let mut load = Load::new(7_u64, kind, no_ack, 1000, depth);
            group.bench_function(named(case), |bencher| bencher.iter(|| load.round()));
        }
        let content = Shared {
            _bytes: Arc::from(vec![0; 1024]),
            _at: 0,
        };
        let mut load = Load::new(content, kind, false, 1000, 0);
        let shared = named("ack, counted content");
        group.bench_function(shared, |bencher| bencher.iter(|| load.round()));

        let mut load = Load::new(7_u64, kind, false, 1000, 0);
        let single = named("ack one by one");
        group.bench_function(single, |bencher| {
            bencher.iter(|| load.round_of_single_acks())
        });

        let settings = QueueSettings {
            delivery_limit: None,
            ..QueueSettings::of_kind(kind, &QuorumDefaults::default())
        };
        let mut load = Load::new(7_u64, kind, false, 1000, 1024);
        load.queue.reconfigure(load.now, &settings, &mut load.out);
        group.bench_function(named("requeue"), |bencher| bencher.iter(|| load.requeue()));
    }
    group.finish();
}

/// A million unacked deliveries with deadlines: what they take, and what a late one costs.
fn deadlines(criterion: &mut Criterion) {
    let deliver_all = || {
        let mut load = Load::new(7_u64, QueueKind::Classic, false, 0, 0);
        let settings = QueueSettings {
            consumer_timeout_ms: Some(1000),
            ..Default::default()
        };
        load.queue.reconfigure(load.now, &settings, &mut load.out);
        for _ in 0..(1 << 20) / BATCH {
            load.enqueue();
            load.now = Timestamp(1);
            load.dispatch();
            load.perform();
        }
        load
    };
    let load = deliver_all();
    let (bytes, unacked) = (load.queue.memory_bytes(), load.queue.counts().unacked);
    println!(
        "deadlines: {unacked} unacked take {} bytes each",
        bytes as u64 / unacked
    );
    let mut group = criterion.benchmark_group("deadlines");
    group.throughput(Throughput::Elements(u64::from(
        broker_core::queue::WORK_PER_CALL_MAX,
    )));
    let mut load = deliver_all();
    let late = Timestamp(1_000_000);
    group.bench_function("4096 late of 1 M unacked", |bencher| {
        bencher.iter(|| {
            if load.queue.counts().unacked == 0 {
                load = deliver_all();
            }
            load.queue.on_deadline(late, &mut load.out);
            load.out.clear();
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(2))
        .sample_size(30);
    targets = lives, deadlines
}
criterion_main!(benches);
