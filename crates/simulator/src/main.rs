//! Runs seeds by hand: `simulator FIRST COUNT [NODES] [STEPS]`. A failure prints its seed.

use std::process::ExitCode;

use simulator::{Faults, run};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let mut next = |default: u64| match arguments.next() {
        Some(Ok(number)) => Some(number),
        None => Some(default),
        Some(Err(_)) => None,
    };
    let (Some(first), Some(count), Some(nodes), Some(steps)) =
        (next(1), next(1000), next(3), next(150))
    else {
        eprintln!("usage: simulator [FIRST] [COUNT] [NODES] [STEPS]");
        return ExitCode::from(2);
    };
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_writer(std::io::stderr)
            .init();
    }
    let steps = u32::try_from(steps).unwrap_or(u32::MAX);
    let faults = Faults { nodes, steps };
    let (mut failed, mut confirmed, mut crashes, mut cuts) = (0, 0, 0, 0);
    for seed in first..first.saturating_add(count) {
        match run(seed, faults) {
            Ok(outcome) => {
                confirmed += outcome.confirmed;
                crashes += outcome.crashes;
                cuts += outcome.cuts;
            }
            Err(violation) => {
                failed += 1;
                println!("seed {seed}: {violation}");
            }
        }
    }
    println!(
        "{count} seeds: {failed} failed; {confirmed} confirmed proposals, {crashes} crashes, {cuts} cuts"
    );
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
