//! Carries a run through its course: hands the clock and the counts to the rule book, its orders
//! to the connections, and takes a sample every second.

mod steps;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::client::ClientFault;
use crate::clock::{NS_PER_SECOND, now_ns, seconds_between};
use crate::crew::Crew;
use crate::driver::Outcome;
use crate::figures::{Counts, rate};
use crate::interrupt::Interrupt;
use crate::orders::{Order, Orders};
use crate::process::{self, ProcessSample};
use crate::progress::Progress;

use steps::Steps;
pub(crate) use steps::{Drain, Schedule};

/// How often the rule book is asked, for few and for many connections.
const STEP_EVERY: Duration = Duration::from_millis(5);
const STEP_EVERY_CROWDED: Duration = Duration::from_millis(25);
const CROWD: usize = 200;
/// Seconds that are kept one by one in the report.
const SECONDS_MAX: usize = 100_000;

/// The broker's process and folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) pid: Option<u32>,
    pub(crate) data_dir: Option<PathBuf>,
}

/// One second of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Second {
    /// Since publishing began.
    pub(crate) at_seconds: f64,
    pub(crate) publish_rate: f64,
    pub(crate) confirm_rate: f64,
    pub(crate) consume_rate: f64,
    /// Rounds of a churn.
    pub(crate) churn_rate: f64,
    /// Of one core; only with --pid.
    pub(crate) broker_cpu_percent: Option<f64>,
    pub(crate) broker_rss_bytes: Option<u64>,
    /// Published so far.
    pub(crate) published: u64,
    /// Messages that queues hold, those that are out and not acknowledged among them.
    pub(crate) live_messages: u64,
    /// The broker's folder; only with --data-dir.
    pub(crate) disk_bytes: Option<u64>,
}

/// What a course leaves behind.
pub(crate) struct CourseRecord {
    pub(crate) publish_began_ns: u64,
    pub(crate) consume_began_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) seconds: Vec<Second>,
    pub(crate) drain: Drain,
    pub(crate) stalled: bool,
    pub(crate) outcomes: Vec<Outcome>,
    /// The first fault of any connection.
    pub(crate) fault: Option<ClientFault>,
    pub(crate) broker: Option<(ProcessSample, ProcessSample)>,
    /// The most of all samples, which are a second apart.
    pub(crate) broker_rss_peak_bytes: u64,
    pub(crate) tool: Option<(ProcessSample, ProcessSample)>,
}

struct Course<'a> {
    crew: Crew,
    orders: watch::Sender<Orders>,
    steps: Steps,
    watched: &'a Watched,
    progress: &'a mut Progress,
    record: CourseRecord,
    last_second: (u64, Counts, Option<ProcessSample>),
    /// How many queues get each message.
    copies: u64,
}

/// Runs the crew until it is done.
pub(crate) async fn run(
    crew: Crew,
    orders: watch::Sender<Orders>,
    schedule: Schedule,
    watched: &Watched,
    interrupt: &mut Interrupt,
    progress: &mut Progress,
) -> CourseRecord {
    let start_ns = now_ns();
    let broker = sample(watched);
    let tool = process::sample_self().ok();
    let copies = schedule.copies;
    let mut course = Course {
        copies,
        crew,
        orders,
        steps: Steps::new(schedule, start_ns),
        watched,
        progress,
        record: CourseRecord {
            publish_began_ns: start_ns,
            consume_began_ns: start_ns,
            ended_ns: start_ns,
            seconds: Vec::new(),
            drain: Drain::Interrupted,
            stalled: false,
            outcomes: Vec::new(),
            fault: None,
            broker: broker.zip(broker),
            broker_rss_peak_bytes: broker.map_or(0, |broker| broker.rss_bytes),
            tool: tool.zip(tool),
        },
        last_second: (start_ns, Counts::default(), broker),
    };
    course.carry_through(interrupt).await;
    course.record
}

impl Course<'_> {
    async fn carry_through(&mut self, interrupt: &mut Interrupt) {
        let period = if self.crew.size() > CROWD {
            STEP_EVERY_CROWDED
        } else {
            STEP_EVERY
        };
        let mut tick = tokio::time::interval(period);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sampled_end = false;
        loop {
            tokio::select! {
                biased;
                ended = self.crew.tasks.join_next() => match ended {
                    None => break,
                    Some(Ok(outcome)) => self.take(outcome),
                    Some(Err(_aborted)) => {}
                },
                () = interrupt.wait() => self.steps.interrupt(now_ns()),
                _ = tick.tick() => {}
            }
            self.step();
            if self.steps.is_finishing() && !sampled_end {
                sampled_end = true;
                self.sample_end();
            }
        }
        if !sampled_end {
            self.sample_end();
        }
        self.record.drain = self.steps.drain().unwrap_or(Drain::Interrupted);
        self.record.stalled = self.steps.stalled();
        self.progress.end();
    }

    fn take(&mut self, mut outcome: Outcome) {
        if let Some(fault) = outcome.fault.take() {
            // The others would wait for ever for what this connection does no longer.
            self.record.fault.get_or_insert(fault);
            self.orders.send_modify(|orders| orders.abandon = true);
        }
        self.record.outcomes.push(outcome);
    }

    fn step(&mut self) {
        let now_ns = now_ns();
        let counts = self.crew.counts();
        let before = *self.orders.borrow();
        let mut orders = self.steps.step(now_ns, &counts);
        orders.abandon |= self.record.fault.is_some();
        if orders != before {
            if before.publish == Order::Wait {
                self.record.publish_began_ns = now_ns;
                self.last_second = (now_ns, counts, sample(self.watched));
            }
            if before.consume == Order::Wait {
                self.record.consume_began_ns = now_ns;
            }
            self.orders.send_replace(orders);
        }
        if now_ns.saturating_sub(self.last_second.0) >= NS_PER_SECOND {
            self.sample_second(now_ns, counts);
        }
    }

    fn sample_second(&mut self, now_ns: u64, counts: Counts) {
        let (before_ns, before, broker_before) = self.last_second;
        let broker = self.sample_broker();
        let per_second =
            |now: u64, before: u64| rate(now.saturating_sub(before), before_ns, now_ns);
        let cpu_percent = broker.zip(broker_before).map(|(now, before)| {
            let seconds = seconds_between(before_ns, now_ns);
            ((now.cpu_seconds - before.cpu_seconds) / seconds * 100.0).round()
        });
        let second = Second {
            at_seconds: (seconds_between(self.record.publish_began_ns, now_ns) * 10.0).round()
                / 10.0,
            publish_rate: per_second(counts.published, before.published),
            confirm_rate: per_second(counts.confirmed, before.confirmed),
            consume_rate: per_second(counts.consumed, before.consumed),
            churn_rate: per_second(counts.churned, before.churned),
            broker_cpu_percent: cpu_percent,
            broker_rss_bytes: broker.map(|broker| broker.rss_bytes),
            published: counts.published,
            live_messages: self.live_messages(&counts),
            disk_bytes: (self.watched.data_dir.as_ref())
                .and_then(|folder| process::folder_bytes(folder).ok()),
        };
        self.progress.second(&second, &counts);
        if self.record.seconds.len() < SECONDS_MAX {
            self.record.seconds.push(second);
        }
        self.last_second = (now_ns, counts, broker);
    }

    fn live_messages(&self, counts: &Counts) -> u64 {
        let refused = counts.nacked + counts.returned;
        let routed = counts.published.saturating_sub(refused) * self.copies;
        routed.saturating_sub(counts.acknowledged)
    }

    fn sample_broker(&mut self) -> Option<ProcessSample> {
        let broker = sample(self.watched);
        let rss_bytes = broker.map_or(0, |broker| broker.rss_bytes);
        let peak_bytes = &mut self.record.broker_rss_peak_bytes;
        *peak_bytes = rss_bytes.max(*peak_bytes);
        broker
    }

    fn sample_end(&mut self) {
        self.record.ended_ns = now_ns();
        let broker = self.sample_broker();
        if let (Some((_, end)), Some(now)) = (&mut self.record.broker, broker) {
            *end = now;
        }
        if let (Some((_, end)), Ok(now)) = (&mut self.record.tool, process::sample_self()) {
            *end = now;
        }
    }
}

/// The broker's process, if one was named and lives.
fn sample(watched: &Watched) -> Option<ProcessSample> {
    watched.pid.and_then(|pid| process::sample(pid).ok())
}
