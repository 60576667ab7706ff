//! Seeded runs of a cluster under faults; a failure names its seed, which `cargo run -p simulator`
//! takes.

use simulator::{Faults, run};

fn play(seeds: std::ops::Range<u64>, faults: Faults) {
    let (mut confirmed, mut crashes, mut cuts) = (0, 0, 0);
    for seed in seeds {
        match run(seed, faults) {
            Ok(outcome) => {
                confirmed += outcome.confirmed;
                crashes += outcome.crashes;
                cuts += outcome.cuts;
            }
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    // A model in which nothing happens would prove nothing.
    assert!(
        confirmed > 0 && crashes > 0 && cuts > 0,
        "{confirmed} confirmed, {crashes} crashes, {cuts} cuts"
    );
}

#[test]
fn three_members_keep_one_history_and_lose_nothing_confirmed() {
    play(1..121, Faults::default());
}

#[test]
fn five_members_keep_one_history_and_lose_nothing_confirmed() {
    let faults = Faults {
        nodes: 5,
        steps: 100,
    };
    play(1000..1060, faults);
}
