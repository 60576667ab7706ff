//! One run from end to end: declare, connect, carry through, clean up, report.

use std::sync::Arc;

use tokio::sync::watch;

use crate::arguments::property_block;
use crate::body::{Filler, IDENTITY_BYTES, RunMark};
use crate::churn::ChurnPlan;
use crate::client::{ClientFault, ClientOptions, ServerIdentity};
use crate::course::{self, CourseRecord, Schedule, Watched};
use crate::crew::{Crew, Materials};
use crate::figures::Tally;
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::options::{LoadOptions, OptionFault};
use crate::orders::Orders;
use crate::plan::Plan;
use crate::process;
use crate::progress::Progress;
use crate::random::Random;
use crate::report::{BrokerFigures, Evidence, RunReport};
use crate::syncs::SyncCounter;
use crate::topology::{Control, Topology};
use crate::uri::Endpoint;
use crate::verify::{Findings, Ledgers, Published};

/// What to run against whom.
#[derive(Clone, Debug)]
pub(crate) struct RunSpec {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) client: ClientOptions,
    pub(crate) watched: Watched,
    pub(crate) load: LoadOptions,
    /// The flags, for the report.
    pub(crate) flags: String,
    pub(crate) threads: u32,
}

/// Why a run did not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunFault {
    #[error(transparent)]
    Options(#[from] OptionFault),
    #[error("--pid {0}: there is no such process")]
    NoProcess(u32),
    #[error("--data-dir {path}: {source}")]
    NoFolder {
        path: String,
        source: std::io::Error,
    },
    #[error(transparent)]
    Client(#[from] ClientFault),
    #[error("interrupted before the load began")]
    Interrupted,
}

/// Runs a load and reports. A load that breaks off under way gives a report with its fault.
///
/// # Errors
/// The load could not begin.
pub(crate) async fn run(
    spec: &RunSpec,
    interrupt: &mut Interrupt,
    progress: &mut Progress,
) -> Result<RunReport, RunFault> {
    spec.load.check()?;
    let machine = Machine::look();
    let disk_bytes_before = check_watched(&spec.watched)?;
    let plan = Plan::of(&spec.load);
    let (identity, topology) = tokio::select! {
        declared = declare(spec, &plan) => declared?,
        () = interrupt.wait() => return Err(RunFault::Interrupted),
    };
    let syncs = spec.watched.pid.map(SyncCounter::start);
    let ran = match spec.load.churn {
        Some(kind) => {
            let churn = ChurnPlan::of(kind, &spec.load, &spec.endpoints, &spec.client);
            Ok(carry_churn(spec, churn, interrupt, progress).await)
        }
        None => carry_messages(spec, &plan, interrupt, progress).await,
    };
    // Folder and syncs are measured before the clean-up.
    let (fsyncs, fsyncs_unknown) = counted(syncs);
    let disk_bytes = folder_bytes(&spec.watched);
    let cleaned = clean_up(spec, &topology).await;
    let ran = ran?;
    if let Err(fault) = cleaned {
        progress.say(&format!("could not clean up: {fault}"));
    }
    let broker = BrokerFigures {
        uris: spec.endpoints.iter().map(Endpoint::to_string).collect(),
        identity,
        disk_bytes_before,
        disk_bytes,
        fsyncs,
        fsyncs_unknown,
        ..BrokerFigures::default()
    };
    Ok(ran.report(spec, &plan, broker, machine))
}

/// A load that was carried through, as far as it went.
struct Ran {
    record: CourseRecord,
    findings: Findings,
    connections: usize,
}

async fn declare(spec: &RunSpec, plan: &Plan) -> Result<(ServerIdentity, Topology), ClientFault> {
    let mut control = Control::open(&spec.endpoints[0], &spec.client).await?;
    let topology = if spec.load.churn.is_some() {
        Topology::default()
    } else {
        Topology::declare(&mut control, &spec.load, &plan.queues).await?
    };
    let identity = control.server().clone();
    control.close().await;
    Ok((identity, topology))
}

async fn clean_up(spec: &RunSpec, topology: &Topology) -> Result<(), ClientFault> {
    if spec.load.keep || topology.is_empty() {
        return Ok(());
    }
    let mut control = Control::open(&spec.endpoints[0], &spec.client).await?;
    let deleted = topology.delete(&mut control).await;
    control.close().await;
    deleted
}

async fn carry_churn(
    spec: &RunSpec,
    churn: ChurnPlan,
    interrupt: &mut Interrupt,
    progress: &mut Progress,
) -> Ran {
    let (orders, listeners) = watch::channel(Orders::wait());
    let crew = churn.start(&listeners);
    let connections = crew.size();
    let schedule = Schedule::of(&spec.load, connections, 0, 1);
    let record = course::run(crew, orders, schedule, &spec.watched, interrupt, progress).await;
    Ran {
        record,
        findings: Findings::default(),
        connections,
    }
}

async fn carry_messages(
    spec: &RunSpec,
    plan: &Plan,
    interrupt: &mut Interrupt,
    progress: &mut Progress,
) -> Result<Ran, RunFault> {
    let ledgers = Arc::new(Ledgers::new(&plan.shares));
    let (orders, listeners) = watch::channel(Orders::wait());
    let materials = materials(spec, plan, &ledgers)?;
    let crew = tokio::select! {
        assembled = Crew::assemble(Arc::new(materials), &listeners) => assembled?,
        () = interrupt.wait() => return Err(RunFault::Interrupted),
    };
    let connections = crew.size();
    let (producers, consumers) = (plan.producers.len(), plan.consumers.len());
    let schedule = Schedule::of(&spec.load, producers, consumers, plan.copies);
    let mut record = course::run(crew, orders, schedule, &spec.watched, interrupt, progress).await;
    let findings = if unverifiable(&spec.load).is_none() {
        ledgers.findings(&published(&mut record, producers))
    } else {
        Findings::default()
    };
    Ok(Ran {
        record,
        findings,
        connections,
    })
}

fn materials(spec: &RunSpec, plan: &Plan, ledgers: &Arc<Ledgers>) -> Result<Materials, RunFault> {
    let load = &spec.load;
    let mut random = Random::from_time();
    let filler_random = load.random_bytes.then_some(&mut random);
    let filler = Filler::new(load.size.largest(), filler_random);
    let properties = property_block(load.persistent, &load.properties, load.headers.as_ref())
        .map_err(OptionFault::from)?;
    Ok(Materials {
        endpoints: spec.endpoints.clone(),
        client: spec.client.clone(),
        load: load.clone(),
        plan: plan.clone(),
        mark: RunMark::draw(&mut random),
        filler,
        properties,
        witness: Arc::clone(ledgers) as Arc<dyn crate::verify::Witness>,
    })
}

/// What each producer published, by its number.
fn published(record: &mut CourseRecord, producers: usize) -> Vec<Published> {
    let mut published: Vec<Published> = (0..producers).map(|_| Published::default()).collect();
    for outcome in &mut record.outcomes {
        for its in &mut outcome.published {
            if let Some(place) = published.get_mut(usize::from(its.producer)) {
                *place = std::mem::take(&mut its.published);
            }
        }
    }
    published
}

/// Why sequence numbers cannot tell anything, if they cannot.
fn unverifiable(load: &LoadOptions) -> Option<&'static str> {
    if load.churn.is_some() {
        return Some("no messages");
    }
    if load.producers == 0 || load.consumers == 0 {
        return Some("producers and consumers are not both in this run");
    }
    (load.size.smallest() < IDENTITY_BYTES).then_some("bodies are too small for a sequence number")
}

impl Ran {
    fn report(
        self,
        spec: &RunSpec,
        plan: &Plan,
        broker: BrokerFigures,
        machine: Machine,
    ) -> RunReport {
        let mut tally = Tally::for_connections(self.connections);
        let mut reordered = 0;
        let mut unanswered = 0;
        for outcome in &self.record.outcomes {
            tally.merge(&outcome.tally);
            reordered += outcome.reordered;
            unanswered += outcome
                .published
                .iter()
                .map(|its| its.unanswered)
                .sum::<u64>();
        }
        RunReport::of(Evidence {
            record: &self.record,
            tally: &tally,
            reordered,
            unanswered,
            findings: self.findings,
            queues: &plan.queues,
            unverifiable: unverifiable(&spec.load),
            copies: plan.copies,
            broker,
            machine,
            threads: spec.threads,
            options: spec.flags.clone(),
            connections: self.connections,
        })
    }
}

/// Checks that what is to be watched is there; answers the folder's size.
fn check_watched(watched: &Watched) -> Result<Option<u64>, RunFault> {
    if let Some(pid) = watched.pid {
        process::sample(pid).map_err(|_| RunFault::NoProcess(pid))?;
    }
    let Some(folder) = &watched.data_dir else {
        return Ok(None);
    };
    let bytes = process::folder_bytes(folder).map_err(|source| RunFault::NoFolder {
        path: folder.display().to_string(),
        source,
    })?;
    Ok(Some(bytes))
}

/// The syncs of the broker, or why nobody knows.
fn counted(syncs: Option<Result<SyncCounter, String>>) -> (Option<u64>, Option<String>) {
    match syncs {
        None => (None, Some("no --pid to watch".to_owned())),
        Some(Err(why)) => (None, Some(why)),
        Some(Ok(counter)) => match counter.count() {
            Some(count) => (Some(count), None),
            None => (None, Some("the kernel's tracing went away".to_owned())),
        },
    }
}

fn folder_bytes(watched: &Watched) -> Option<u64> {
    let folder = watched.data_dir.as_ref()?;
    process::folder_bytes(folder).ok()
}
