//! Hours of ordinary disorder: producers and consumers come and go, some without a word, messages
//! go back, and an oracle accounts for every one of them.
//!
//! The broker may be restarted or killed meanwhile: actors come back, and what was confirmed must
//! still arrive.

mod actor;
mod oracle;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::arguments::property_block;
use crate::body::{Filler, RunMark};
use crate::client::{ClientFault, ServerIdentity};
use crate::clock::{NS_PER_SECOND, now_ns, seconds_between, seconds_to_ns};
use crate::course::Second;
use crate::figures::{Counts, rate};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::options::SoakOptions;
use crate::process;
use crate::progress::Progress;
use crate::random::Random;
use crate::topology::{Control, QueueDeclaration};
use actor::{BODY_BYTES_MAX, Diary, Stage};
use oracle::{Judgement, Oracle};

const TICK: Duration = Duration::from_millis(100);
/// How long the clean-up waits for a broker that is just away.
const CLEAN_UP_TRIES: u32 = 50;

/// Everything a soak found out.
#[derive(Debug, Serialize)]
pub(crate) struct SoakReport {
    pub(crate) seed: u64,
    pub(crate) seconds: f64,
    #[serde(flatten)]
    pub(crate) judgement: Judgement,
    /// Out of order at one consumer, not counting redeliveries.
    pub(crate) reordered: u64,
    pub(crate) corrupted: u64,
    pub(crate) published: u64,
    pub(crate) confirmed: u64,
    pub(crate) refused: u64,
    /// Published without a word of the broker when the connection ended.
    pub(crate) unanswered: u64,
    pub(crate) consumed: u64,
    pub(crate) distinct: u64,
    pub(crate) redelivered: u64,
    pub(crate) requeued: u64,
    /// Producers and consumers that came and went.
    pub(crate) lives: u64,
    pub(crate) dropped_by_us: u64,
    /// Connections that the broker refused, closed or lost.
    pub(crate) outages: u64,
    pub(crate) complaints: Vec<String>,
    pub(crate) broker: ServerIdentity,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) disk_bytes: Option<u64>,
    pub(crate) machine: Machine,
}

impl SoakReport {
    pub(crate) fn is_clean(&self) -> bool {
        self.judgement.is_clean() && self.reordered + self.corrupted == 0
    }

    /// Lines for standard output.
    pub(crate) fn text(&self) -> String {
        let judgement = &self.judgement;
        let mut text = format!(
            "soak of {:.0} s on {} {}, seed {}\n\
             published {}   confirmed {}   refused {}   unanswered {}\n\
             consumed {}   distinct {}   redelivered {}   requeued {}\n\
             lives {}   dropped by us {}   outages {}\n\
             lost {}   delivered after a certain ack {}   again without the mark {}   \
             invented {}   reordered {}   changed {}\n",
            self.seconds,
            self.broker.product,
            self.broker.version,
            self.seed,
            self.published,
            self.confirmed,
            self.refused,
            self.unanswered,
            self.consumed,
            self.distinct,
            self.redelivered,
            self.requeued,
            self.lives,
            self.dropped_by_us,
            self.outages,
            judgement.lost,
            judgement.settled_again,
            judgement.unmarked_again,
            judgement.invented,
            self.reordered,
            self.corrupted,
        );
        for line in judgement.examples.iter().chain(&self.complaints) {
            text += &format!("  {line}\n");
        }
        text
    }
}

/// Soaks a broker.
///
/// # Errors
/// The broker cannot be reached at the beginning, or refuses the queues.
pub(crate) async fn soak(
    options: &SoakOptions,
    interrupt: &mut Interrupt,
    progress: &mut Progress,
) -> Result<SoakReport, ClientFault> {
    let machine = Machine::look();
    let mut random = Random::from_time();
    let seed = options.seed.unwrap_or_else(|| random.next_u64() >> 16);
    // The mark must be this soak's own even when the choices are an earlier one's.
    let mark = RunMark::draw(&mut random);
    let client = options.broker.client();
    let mut control = Control::open(&options.uris[0], &client).await?;
    let identity = control.server().clone();
    let name = |number: u32| {
        format!(
            "sluicemq-perf-soak-{:08x}-{number}",
            random_half(seed, mark)
        )
    };
    let queues: Vec<String> = (1..=options.queues).map(name).collect();
    for queue in &queues {
        control.ensure_queue(queue, &declaration(options)).await?;
    }
    control.close().await;
    let stage = Arc::new(Stage {
        endpoints: options.uris.clone(),
        client,
        queues,
        mark,
        filler: Filler::new(BODY_BYTES_MAX, None),
        properties: property_block(true, &[], None).unwrap_or_default(),
        rate: options.rate.max(0.001),
        oracle: Arc::new(Oracle::new(options.producers as usize)),
        diary: Mutex::default(),
    });
    let began_ns = now_ns();
    disorder(options, &stage, seed, interrupt, progress).await;
    final_drain(options, &stage, interrupt, progress).await;
    let report = report(options, &stage, seed, began_ns, identity, machine);
    if !options.keep {
        clean_up(&stage, progress).await;
    }
    Ok(report)
}

fn random_half(seed: u64, mark: RunMark) -> u32 {
    let identity = crate::body::Identity {
        mark,
        producer: 0,
        sequence: 0,
    };
    Random::seeded(seed ^ identity.word() ^ now_ns()).next_u64() as u32
}

// The limit on deliveries is off: a message that comes back often is the purpose, not a fault.
fn declaration(options: &SoakOptions) -> QueueDeclaration {
    let mut arguments = amqp::Table::new();
    arguments.insert("x-queue-type", options.queue_type.as_str());
    if options.queue_type == "quorum" {
        arguments.insert("x-delivery-limit", -1_i64);
    }
    QueueDeclaration {
        durable: true,
        arguments,
    }
}

async fn disorder(
    options: &SoakOptions,
    stage: &Arc<Stage>,
    seed: u64,
    interrupt: &mut Interrupt,
    progress: &mut Progress,
) {
    let mut choices = Random::seeded(seed);
    let (over, listener) = watch::channel(false);
    let mut actors = JoinSet::new();
    for producer in 0..options.producers as u16 {
        let random = Random::seeded(choices.next_u64());
        actors.spawn(actor::produce(
            Arc::clone(stage),
            producer,
            random,
            listener.clone(),
        ));
    }
    for number in 0..options.consumers as usize {
        let random = Random::seeded(choices.next_u64());
        actors.spawn(actor::consume(
            Arc::clone(stage),
            number,
            random,
            listener.clone(),
        ));
    }
    let end_ns = now_ns().saturating_add(seconds_to_ns(options.time));
    let mut watcher = Watcher::new(options, progress);
    while now_ns() < end_ns && !interrupt.came() {
        tokio::select! {
            () = interrupt.wait() => {}
            () = tokio::time::sleep(TICK) => watcher.look(stage),
        }
    }
    over.send_replace(true);
    while actors.join_next().await.is_some() {}
}

/// Lets everything that was confirmed arrive.
async fn final_drain(
    options: &SoakOptions,
    stage: &Arc<Stage>,
    interrupt: &mut Interrupt,
    progress: &mut Progress,
) {
    let (over, listener) = watch::channel(false);
    let mut drains = JoinSet::new();
    for queue in 0..options.queues {
        drains.spawn(actor::drain(Arc::clone(stage), queue, listener.clone()));
    }
    let idle_ns_max = seconds_to_ns(options.idle);
    let mut missing = stage.oracle.missing();
    progress.say(&format!("draining: {missing} confirmed messages to come"));
    let mut moved_ns = now_ns();
    while missing > 0 && now_ns().saturating_sub(moved_ns) < idle_ns_max {
        tokio::select! {
            () = interrupt.wait() => break,
            () = tokio::time::sleep(TICK) => {}
        }
        let now_missing = stage.oracle.missing();
        if now_missing != missing {
            (missing, moved_ns) = (now_missing, now_ns());
        }
    }
    // One more moment: what comes twice comes now.
    tokio::time::sleep(TICK * 3).await;
    over.send_replace(true);
    while drains.join_next().await.is_some() {}
}

fn report(
    options: &SoakOptions,
    stage: &Stage,
    seed: u64,
    began_ns: u64,
    broker: ServerIdentity,
    machine: Machine,
) -> SoakReport {
    let Diary {
        counts,
        reordered,
        unanswered,
        lives,
        dropped_by_us,
        outages,
        complaints,
    } = stage.diary();
    let sample = options.broker.pid.and_then(|pid| process::sample(pid).ok());
    let folder = options.broker.data_dir.as_ref();
    SoakReport {
        seed,
        seconds: crate::report::round(seconds_between(began_ns, now_ns()), 1),
        judgement: stage.oracle.judge(),
        reordered,
        corrupted: counts.corrupted,
        published: counts.published,
        confirmed: counts.confirmed,
        refused: counts.nacked,
        unanswered,
        consumed: counts.consumed,
        distinct: counts.distinct,
        redelivered: counts.redelivered,
        requeued: counts.requeued,
        lives,
        dropped_by_us,
        outages,
        complaints,
        broker,
        rss_bytes: sample.map(|sample| sample.rss_bytes),
        disk_bytes: folder.and_then(|folder| process::folder_bytes(folder).ok()),
        machine,
    }
}

async fn clean_up(stage: &Stage, progress: &mut Progress) {
    let mut last = None;
    for _ in 0..CLEAN_UP_TRIES {
        match delete_queues(stage).await {
            Ok(()) => return,
            Err(fault) => last = Some(fault),
        }
        tokio::time::sleep(TICK * 2).await;
    }
    if let Some(fault) = last {
        progress.say(&format!("could not clean up: {fault}"));
    }
}

async fn delete_queues(stage: &Stage) -> Result<(), ClientFault> {
    let mut control = Control::open(&stage.endpoints[0], &stage.client).await?;
    for queue in &stage.queues {
        control.delete_queue(queue).await?;
    }
    control.close().await;
    Ok(())
}

/// Prints what the ended lives did, once a second.
struct Watcher<'a> {
    progress: &'a mut Progress,
    pid: Option<u32>,
    began_ns: u64,
    last_ns: u64,
    last: Counts,
}

impl<'a> Watcher<'a> {
    fn new(options: &SoakOptions, progress: &'a mut Progress) -> Self {
        let now_ns = now_ns();
        Self {
            progress,
            pid: options.broker.pid,
            began_ns: now_ns,
            last_ns: now_ns,
            last: Counts::default(),
        }
    }

    fn look(&mut self, stage: &Stage) {
        let now_ns = now_ns();
        if now_ns.saturating_sub(self.last_ns) < NS_PER_SECOND {
            return;
        }
        let counts = stage.diary().counts;
        let per_second = |now: u64, before: u64| rate(now - before, self.last_ns, now_ns);
        let sample = self.pid.and_then(|pid| process::sample(pid).ok());
        let second = Second {
            at_seconds: seconds_between(self.began_ns, now_ns),
            publish_rate: per_second(counts.published, self.last.published),
            confirm_rate: per_second(counts.confirmed, self.last.confirmed),
            consume_rate: per_second(counts.consumed, self.last.consumed),
            churn_rate: 0.0,
            broker_cpu_percent: None,
            broker_rss_bytes: sample.map(|sample| sample.rss_bytes),
            published: counts.published,
            live_messages: counts.published.saturating_sub(counts.acknowledged),
            disk_bytes: None,
        };
        self.progress.second(&second, &counts);
        (self.last_ns, self.last) = (now_ns, counts);
    }
}
