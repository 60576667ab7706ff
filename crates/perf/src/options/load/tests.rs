//! Flags as users write them, and what is refused.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    load: LoadOptions,
}

fn parse(flags: &str) -> Result<LoadOptions, clap::Error> {
    let words = std::iter::once("perf").chain(flags.split_whitespace());
    Flags::try_parse_from(words).map(|flags| flags.load)
}

fn fault(flags: &str) -> OptionFault {
    parse(flags).unwrap().check().unwrap_err()
}

#[test]
fn the_defaults_are_a_load_that_can_be_run() {
    let load = parse("").unwrap();
    assert_eq!(load.check(), Ok(()));
    assert_eq!(load.queue_names(), ["sluicemq-perf"]);
    assert_eq!((load.producers, load.consumers, load.window()), (1, 1, 0));
}

#[test]
fn the_flags_that_scripts_rely_on_are_understood() {
    let load = parse(
        "--queue q --queue-args {\"x-queue-type\":\"quorum\"} --producers 2 --consumers 3 \
         --size 16 --persistent --confirm-window 100 --ack-every 10 --prefetch 50 \
         --write-batch 8 --messages 1000",
    )
    .unwrap();
    assert_eq!(load.check(), Ok(()));
    assert_eq!(
        (load.window(), load.ack_every, load.prefetch),
        (100, 10, 50)
    );
    assert!(load.persistent);
    assert!(parse("--time 1.5").is_ok());
}

#[test]
fn numbered_queues_take_their_number_from_the_pattern() {
    let names = |flags| parse(flags).unwrap().queue_names();
    assert_eq!(
        names("--queues 3"),
        ["sluicemq-perf-1", "sluicemq-perf-2", "sluicemq-perf-3"]
    );
    assert_eq!(names("--queue a%db --queues 2"), ["a1b", "a2b"]);
    assert_eq!(names("--queue a%d"), ["a1"]);
}

#[test]
fn what_cannot_be_carried_out_is_refused() {
    assert_eq!(fault("--rate 0"), OptionFault::NotPositive("rate"));
    assert_eq!(fault("--rate nan"), OptionFault::NotPositive("rate"));
    assert_eq!(fault("--messages 0"), OptionFault::NotPositive("messages"));
    assert_eq!(
        fault("--producers 0 --consumers 0"),
        OptionFault::NothingToDo
    );
    assert_eq!(
        fault("--confirm-window 5 --tx 5"),
        OptionFault::ConfirmsAndTransactions
    );
    assert_eq!(
        fault("--ack-every 20 --prefetch 10"),
        OptionFault::AckBeyondPrefetch {
            ack_every: 20,
            prefetch: 10
        }
    );
    assert_eq!(fault("--verify --size 7"), OptionFault::TooSmallToVerify);
    assert_eq!(
        fault("--verify --producers 0"),
        OptionFault::NothingToVerify
    );
    assert_eq!(fault("--producers 20000"), OptionFault::TooManyProducers);
    assert_eq!(
        fault("--queue-type classic --queue-args {\"x-queue-type\":\"quorum\"}"),
        OptionFault::TwoQueueTypes
    );
    assert_eq!(
        fault("--consume-after 9 --messages 5"),
        OptionFault::ConsumeNever {
            after: 9,
            messages: 5
        }
    );
    let name = "n".repeat(256);
    assert_eq!(
        fault(&format!("--queue {name}")),
        OptionFault::NameTooLong(name)
    );
}

#[test]
fn ill_formed_values_are_refused_with_the_flags_name() {
    for (flags, named) in [
        ("--size 1k", "--size"),
        ("--queue-args []", "--queue-args"),
        ("--property priority", "--property"),
        ("--prefetch 70000", "--prefetch"),
        ("--exchange-type fanout", "--exchange"),
        ("--churn sometimes", "--churn"),
    ] {
        let message = parse(flags).err().map(|fault| fault.to_string());
        let message = message.unwrap_or_else(|| panic!("{flags} was taken"));
        assert!(message.contains(named), "{flags}: {message}");
    }
}

#[test]
fn messages_that_are_held_back_need_acks_and_room() {
    assert!(matches!(
        fault("--lag 1000"),
        OptionFault::LagBeyondPrefetch { lag: 1_000, .. }
    ));
    assert_eq!(
        fault("--lag 10 --ack-every 0 --prefetch 0"),
        OptionFault::HeldWithoutAcks
    );
    let load = parse("--lag 10 --stuck-every 5 --prefetch 0").unwrap();
    assert_eq!(load.check(), Ok(()));
}
