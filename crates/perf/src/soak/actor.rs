//! A producer or a consumer of a soak: lives for a random while with random habits, ends in peace
//! or by dropping its socket, and begins anew.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::oracle::{MESSAGES_PER_PRODUCER_MAX, Oracle};
use crate::body::{Filler, RunMark, SizeDraw};
use crate::client::{ClientFault, ClientOptions, Connection};
use crate::clock::now_ns;
use crate::confirms::ConfirmWindow;
use crate::crew::{select_confirms, set_prefetch};
use crate::driver::{Driver, Outcome};
use crate::figures::{Counts, LiveCounts, Tally};
use crate::orders::{Order, Orders};
use crate::random::Random;
use crate::roles::Role;
use crate::roles::consumer::{Consumer, ConsumerPlan, Intake};
use crate::roles::publisher::{Answers, Publisher, PublisherPlan};
use crate::uri::Endpoint;
use crate::verify::Witness;

const CHANNEL: u16 = 1;
pub(super) const BODY_BYTES_MAX: usize = 20_000;
const LIFE_MS: (u64, u64) = (100, 3_000);
/// How long an ending in peace may take before the socket is dropped after all.
const PEACE_SECONDS_MAX: u64 = 20;
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
/// Percent of lives that end without a word.
const DROPPED_PERCENT: u64 = 40;
/// Different complaints of brokers that are kept.
const COMPLAINTS_MAX: usize = 16;

/// What all actors share.
pub(super) struct Stage {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) client: ClientOptions,
    pub(super) queues: Vec<String>,
    pub(super) mark: RunMark,
    pub(super) filler: Filler,
    pub(super) properties: Vec<u8>,
    pub(super) rate: f64,
    pub(super) oracle: Arc<Oracle>,
    pub(super) diary: Mutex<Diary>,
}

/// What happened so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Diary {
    pub(super) counts: Counts,
    pub(super) reordered: u64,
    pub(super) unanswered: u64,
    pub(super) lives: u64,
    pub(super) dropped_by_us: u64,
    /// Connections that the broker refused, closed or lost.
    pub(super) outages: u64,
    pub(super) complaints: Vec<String>,
}

impl Stage {
    pub(super) fn diary(&self) -> Diary {
        let diary = self.diary.lock().unwrap_or_else(PoisonError::into_inner);
        diary.clone()
    }

    fn write(&self, write: impl FnOnce(&mut Diary)) {
        write(&mut self.diary.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn complain(&self, fault: &ClientFault) {
        let complaint = fault.to_string();
        self.write(|diary| {
            diary.outages += 1;
            if diary.complaints.len() < COMPLAINTS_MAX && !diary.complaints.contains(&complaint) {
                diary.complaints.push(complaint);
            }
        });
    }
}

/// How a life goes on the outside.
#[derive(Clone, Copy, Debug)]
struct Life {
    length: Duration,
    dropped: bool,
    write_batch: u32,
}

impl Life {
    fn draw(random: &mut Random) -> Self {
        Self {
            length: Duration::from_millis(random.between(LIFE_MS.0, LIFE_MS.1)),
            dropped: random.chance(DROPPED_PERCENT),
            write_batch: random.between(1, 32) as u32,
        }
    }
}

/// Publishes life after life until it is over.
pub(super) async fn produce(
    stage: Arc<Stage>,
    producer: u16,
    mut random: Random,
    mut over: watch::Receiver<bool>,
) {
    let queue = stage.queues[usize::from(producer) % stage.queues.len()].clone();
    let mut next_sequence = 0;
    while !*over.borrow() && next_sequence < MESSAGES_PER_PRODUCER_MAX {
        let life = Life::draw(&mut random);
        let window = [1, 10, 100, 1_000][random.between(0, 3) as usize];
        let largest = [64, 1_024, BODY_BYTES_MAX][random.between(0, 2) as usize];
        let sizes = crate::body::BodySizes::Range {
            low: 16,
            high: largest,
        };
        let plan = |frame_bytes_max| PublisherPlan {
            channel: CHANNEL,
            producer,
            mark: stage.mark,
            first_sequence: next_sequence,
            quota: Some(MESSAGES_PER_PRODUCER_MAX - next_sequence),
            answers: Answers::Confirms(ConfirmWindow::new(window)),
            rate: Some(stage.rate),
            rate_offset_ns: 0,
            sizes: SizeDraw::new(sizes, Random::seeded(random.next_u64())),
            filler: stage.filler.clone(),
            targets: vec![(String::new(), queue.clone())],
            mandatory: false,
            properties: stage.properties.clone(),
            frame_bytes_max,
        };
        let prepared = async {
            let mut connection = connect(&stage, usize::from(producer)).await?;
            select_confirms(&mut connection, CHANNEL).await?;
            Ok(connection)
        };
        match prepared.await {
            Err(fault) => pause_after(&stage, &fault, &mut over).await,
            Ok(connection) => {
                let publisher = Publisher::new(plan(connection.frame_bytes_max));
                let role = Role::Publisher(Box::new(publisher));
                let outcome = live(&stage, connection, role, life, &mut over).await;
                next_sequence += outcome.tally.counts.published;
            }
        }
    }
}

/// Consumes life after life until it is over.
pub(super) async fn consume(
    stage: Arc<Stage>,
    number: usize,
    mut random: Random,
    mut over: watch::Receiver<bool>,
) {
    while !*over.borrow() {
        let life = Life::draw(&mut random);
        let prefetch = random.between(1, 500);
        let requeue_every = [0, 3, 10][random.between(0, 2) as usize];
        let service_ns = [0, 0, 50_000][random.between(0, 2) as usize];
        // The number decides in the first round, so that no queue is left without a consumer.
        let queue = (number as u64 + random.between(0, 1)) % stage.queues.len() as u64;
        let habits = Habits {
            queue: queue as u32,
            prefetch: prefetch as u16,
            ack_every: random.between(1, prefetch) as u32,
            requeue_every,
            service_ns,
        };
        match subscribe(&stage, number, habits).await {
            Err(fault) => pause_after(&stage, &fault, &mut over).await,
            Ok((connection, role)) => {
                live(&stage, connection, role, life, &mut over).await;
            }
        }
    }
}

/// Consumes one queue, keeping everything, until it is over.
pub(super) async fn drain(stage: Arc<Stage>, queue: u32, mut over: watch::Receiver<bool>) {
    let habits = Habits {
        queue,
        prefetch: 200,
        ack_every: 1,
        requeue_every: 0,
        service_ns: 0,
    };
    let life = Life {
        length: Duration::from_secs(24 * 3_600),
        dropped: false,
        write_batch: 1,
    };
    while !*over.borrow() {
        match subscribe(&stage, queue as usize, habits).await {
            Err(fault) => pause_after(&stage, &fault, &mut over).await,
            Ok((connection, role)) => {
                live(&stage, connection, role, life, &mut over).await;
            }
        }
    }
}

/// How a consumer behaves.
#[derive(Clone, Copy, Debug)]
struct Habits {
    queue: u32,
    prefetch: u16,
    ack_every: u32,
    requeue_every: u32,
    service_ns: u64,
}

async fn subscribe(
    stage: &Arc<Stage>,
    number: usize,
    habits: Habits,
) -> Result<(Connection, Role), ClientFault> {
    let mut connection = connect(stage, number).await?;
    set_prefetch(&mut connection, CHANNEL, habits.prefetch).await?;
    let name = stage.queues[habits.queue as usize].clone();
    let consumer = Consumer::new(ConsumerPlan {
        channel: CHANNEL,
        mark: stage.mark,
        queues: vec![(habits.queue, name)],
        intake: Intake::Push,
        ack_every: habits.ack_every,
        requeue_every: habits.requeue_every,
        requeue_again: false,
        stuck_every: 0,
        lag: 0,
        service_ns: habits.service_ns,
        filler: Some(stage.filler.clone()),
        witness: Arc::clone(&stage.oracle) as Arc<dyn Witness>,
    });
    Ok((connection, Role::Consumer(Box::new(consumer))))
}

async fn connect(stage: &Stage, number: usize) -> Result<Connection, ClientFault> {
    let endpoint = &stage.endpoints[number % stage.endpoints.len()];
    let mut connection = Connection::open(endpoint, &stage.client).await?;
    connection.open_channel(CHANNEL).await?;
    Ok(connection)
}

/// A broker that is away may come back: that is part of a soak.
async fn pause_after(stage: &Stage, fault: &ClientFault, over: &mut watch::Receiver<bool>) {
    stage.complain(fault);
    wait_until_over(over, RECONNECT_PAUSE).await;
}

async fn wait_until_over(over: &mut watch::Receiver<bool>, at_most: Duration) {
    // Either way the caller goes on; a vanished sender means that it is over.
    let _over_or_elapsed = tokio::time::timeout(at_most, over.wait_for(|over| *over)).await;
}

/// One life: from the first publish or delivery to the end, whichever way.
async fn live(
    stage: &Stage,
    connection: Connection,
    role: Role,
    life: Life,
    over: &mut watch::Receiver<bool>,
) -> Outcome {
    let going = Order::Go { since_ns: now_ns() };
    let (orders, listener) = watch::channel(Orders {
        publish: going,
        consume: going,
        abandon: false,
    });
    let driver = Driver::new(
        connection,
        vec![role],
        life.write_batch,
        listener,
        Tally::for_connections(usize::MAX),
        Arc::new(LiveCounts::default()),
    );
    let driving = driver.run();
    tokio::pin!(driving);
    let ended = tokio::select! {
        outcome = &mut driving => Some(outcome),
        () = wait_until_over(over, life.length) => None,
    };
    let outcome = match ended {
        Some(outcome) => outcome,
        None => {
            orders.send_modify(|orders| {
                orders.publish = Order::Stop;
                orders.consume = Order::Stop;
                orders.abandon = life.dropped;
            });
            let peace = Duration::from_secs(PEACE_SECONDS_MAX);
            match tokio::time::timeout(peace, &mut driving).await {
                Ok(outcome) => outcome,
                Err(_elapsed) => {
                    orders.send_modify(|orders| orders.abandon = true);
                    driving.await
                }
            }
        }
    };
    note(stage, &outcome, life);
    outcome
}

fn note(stage: &Stage, outcome: &Outcome, life: Life) {
    for record in &outcome.published {
        stage.oracle.published(record);
    }
    if let Some(fault) = &outcome.fault {
        stage.complain(fault);
    }
    let unanswered: u64 = outcome.published.iter().map(|its| its.unanswered).sum();
    stage.write(|diary| {
        diary.counts.add(&outcome.tally.counts);
        diary.reordered += outcome.reordered;
        diary.unanswered += unanswered;
        diary.lives += 1;
        diary.dropped_by_us += u64::from(life.dropped && outcome.fault.is_none());
    });
}
