//! The same loads on several brokers in turn: A, B, A, B, each round with fresh queues.
//!
//! A broker that refuses a scenario or dies under it stays in the result, with its reason.

mod ratios;
mod table;

use std::time::Duration;

use serde::Serialize;

use crate::client::ClientOptions;
use crate::clock::NS_PER_SECOND;
use crate::interrupt::Interrupt;
use crate::options::CompareOptions;
use crate::progress::Progress;
use crate::random::Random;
use crate::report::RunReport;
use crate::run::run;
use crate::scenario::{Scenario, ScenarioFault};

pub(crate) use table::{markdown, plain};

/// Everything a comparison found out.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) rounds: u32,
    pub(crate) targets: Vec<String>,
    pub(crate) scenarios: Vec<ScenarioResult>,
}

/// One scenario on all targets.
#[derive(Debug, Serialize)]
pub(crate) struct ScenarioResult {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) flags: String,
    /// In the order of the targets.
    pub(crate) targets: Vec<TargetResult>,
    pub(crate) figures: Vec<ratios::FigureComparison>,
}

/// One target's rounds.
#[derive(Debug, Serialize)]
pub(crate) struct TargetResult {
    pub(crate) name: String,
    pub(crate) broker: String,
    pub(crate) rounds: Vec<Round>,
}

/// One run: its report, or why there is none; a run that broke off has both.
#[derive(Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) report: Option<RunReport>,
    pub(crate) failure: Option<String>,
}

impl TargetResult {
    /// The reports of rounds that were carried through.
    pub(crate) fn whole_rounds(&self) -> Vec<Option<&RunReport>> {
        let whole = |round: &'_ Round| round.failure.is_none();
        self.rounds
            .iter()
            .map(|round| round.report.as_ref().filter(|_| whole(round)))
            .collect()
    }

    /// Each different reason why rounds failed, and how many did.
    pub(crate) fn failures(&self) -> Vec<(String, usize)> {
        let mut failures: Vec<(String, usize)> = Vec::new();
        for reason in self
            .rounds
            .iter()
            .filter_map(|round| round.failure.as_ref())
        {
            match failures.iter_mut().find(|(known, _)| known == reason) {
                Some((_, times)) => *times += 1,
                None => failures.push((reason.clone(), 1)),
            }
        }
        failures
    }
}

impl Comparison {
    pub(crate) fn has_failures(&self) -> bool {
        let results = self.scenarios.iter().flat_map(|result| &result.targets);
        results
            .flat_map(|target| &target.rounds)
            .any(|round| round.failure.is_some())
    }
}

/// Runs every scenario on every target.
///
/// # Errors
/// A scenario is unknown or ill-formed; found before anything is run.
pub(crate) async fn compare(
    options: &CompareOptions,
    interrupt: &mut Interrupt,
    progress: &mut Progress,
) -> Result<Comparison, ScenarioFault> {
    let scenarios: Vec<Scenario> = options
        .scenarios
        .iter()
        .map(|name| Ok(Scenario::find(name)?.lasting(options.time)))
        .collect::<Result<_, ScenarioFault>>()?;
    let client = options.broker.client();
    let mut results = Vec::new();
    for scenario in scenarios {
        if interrupt.came() {
            break;
        }
        let result = compare_one(options, &client, scenario, interrupt, progress).await;
        results.push(result);
    }
    Ok(Comparison {
        rounds: options.rounds,
        targets: options
            .targets
            .iter()
            .map(|target| target.name.clone())
            .collect(),
        scenarios: results,
    })
}

async fn compare_one(
    options: &CompareOptions,
    client: &ClientOptions,
    scenario: Scenario,
    interrupt: &mut Interrupt,
    progress: &mut Progress,
) -> ScenarioResult {
    let mut results: Vec<TargetResult> = options
        .targets
        .iter()
        .map(|target| TargetResult {
            name: target.name.clone(),
            broker: String::new(),
            rounds: Vec::new(),
        })
        .collect();
    let mut random = Random::from_time();
    for round in 1..=options.rounds {
        for (target, result) in options.targets.iter().zip(&mut results) {
            // What was measured so far is still worth a table.
            if interrupt.came() {
                break;
            }
            let name = &scenario.name;
            progress.label(format!(
                "{name} {} {round}/{}  ",
                target.name, options.rounds
            ));
            let mark = random.next_u64();
            let spec = scenario.against(target, client.clone(), options.broker.threads, mark);
            let ran = run(&spec, interrupt, progress).await;
            result.take(ran, progress);
            pause(options.pause).await;
        }
    }
    progress.label("");
    let figures = ratios::compare(&results);
    ScenarioResult {
        name: scenario.name,
        about: scenario.about,
        flags: scenario.flags,
        targets: results,
        figures,
    }
}

impl TargetResult {
    fn take(&mut self, ran: Result<RunReport, crate::run::RunFault>, progress: &mut Progress) {
        let round = match ran {
            Ok(report) => {
                let identity = &report.broker.identity;
                self.broker = format!("{} {}", identity.product, identity.version);
                let failure = report.fault.clone();
                Round {
                    report: Some(report),
                    failure,
                }
            }
            Err(fault) => Round {
                report: None,
                failure: Some(fault.to_string()),
            },
        };
        if let Some(failure) = &round.failure {
            progress.say(&format!("{}: {failure}", self.name));
        }
        self.rounds.push(round);
    }
}

async fn pause(seconds: f64) {
    let ns = (seconds.max(0.0) * NS_PER_SECOND as f64) as u64;
    tokio::time::sleep(Duration::from_nanos(ns)).await;
}
