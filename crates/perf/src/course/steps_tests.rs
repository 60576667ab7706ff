//! Courses told as stories: counts go in, orders come out.

use super::*;

fn schedule() -> Schedule {
    Schedule {
        producers: 1,
        consumers: 1,
        messages: None,
        time_ns: None,
        consume_after: None,
        consume_delay_ns: None,
        publish_delay_ns: 0,
        drain_ns_max: 1_000,
        idle_ns_max: 100,
        verify: false,
        identified: true,
        copies: 1,
    }
}

fn counts(published: u64, distinct: u64) -> Counts {
    Counts {
        published,
        distinct,
        consumed: distinct,
        consumers_ready: 1,
        ..Counts::default()
    }
}

fn done(published: u64, distinct: u64) -> Counts {
    Counts {
        producers_done: 1,
        ..counts(published, distinct)
    }
}

fn going(order: Order) -> bool {
    matches!(order, Order::Go { .. })
}

#[test]
fn producers_wait_until_consumers_stand() {
    let mut steps = Steps::new(schedule(), 0);
    let orders = steps.step(1, &Counts::default());
    assert!(going(orders.consume) && !going(orders.publish));
    assert!(going(steps.step(2, &counts(0, 0)).publish));
}

#[test]
fn time_stops_publishing_and_the_last_arrival_ends_the_run() {
    let mut steps = Steps::new(
        Schedule {
            time_ns: Some(50),
            ..schedule()
        },
        0,
    );
    steps.step(0, &counts(0, 0));
    assert!(going(steps.step(49, &counts(10, 5)).publish));
    assert_eq!(steps.step(51, &counts(10, 5)).publish, Order::Stop);
    assert_eq!(
        steps.step(60, &done(10, 9)).consume,
        Order::Go { since_ns: 0 }
    );
    assert_eq!(
        steps.step(61, &done(10, 9)).consume,
        Order::Go { since_ns: 0 }
    );
    let orders = steps.step(62, &done(10, 10));
    assert_eq!((orders.publish, orders.consume), (Order::Stop, Order::Stop));
    assert_eq!(steps.drain(), Some(Drain::Complete));
}

#[test]
fn refused_and_returned_messages_are_not_waited_for() {
    let mut steps = Steps::new(schedule(), 0);
    steps.step(0, &counts(0, 0));
    let counts = Counts {
        nacked: 2,
        returned: 1,
        ..done(10, 7)
    };
    steps.step(1, &counts);
    steps.step(2, &counts);
    assert_eq!(steps.drain(), Some(Drain::Complete));
}

#[test]
fn every_copy_of_a_fan_out_is_waited_for() {
    let mut steps = Steps::new(
        Schedule {
            copies: 3,
            ..schedule()
        },
        0,
    );
    steps.step(0, &counts(0, 0));
    steps.step(1, &done(10, 29));
    steps.step(2, &done(10, 29));
    assert_eq!(steps.drain(), None);
    steps.step(3, &done(10, 30));
    assert_eq!(steps.drain(), Some(Drain::Complete));
}

#[test]
fn silence_ends_the_drain_and_slow_arrival_is_cut_short() {
    let mut silent = Steps::new(schedule(), 0);
    silent.step(0, &counts(0, 0));
    silent.step(1, &done(10, 4));
    silent.step(100, &done(10, 4));
    assert_eq!(silent.drain(), None);
    silent.step(102, &done(10, 4));
    assert_eq!(silent.drain(), Some(Drain::Idle));

    let mut slow = Steps::new(schedule(), 0);
    slow.step(0, &counts(0, 0));
    for arrived in 0..=21 {
        slow.step(1 + arrived * 50, &done(100, arrived));
    }
    assert_eq!(slow.drain(), Some(Drain::CutShort));
}

#[test]
fn a_verified_run_is_not_cut_short_and_listens_for_duplicates() {
    let mut steps = Steps::new(
        Schedule {
            verify: true,
            ..schedule()
        },
        0,
    );
    steps.step(0, &counts(0, 0));
    for arrived in 0..=100 {
        steps.step(1 + arrived * 50, &done(100, arrived));
    }
    assert_eq!(steps.drain(), None);
    steps.step(5_001 + LATE_DUPLICATE_NS, &done(100, 100));
    assert_eq!(steps.drain(), Some(Drain::Complete));
}

#[test]
fn consumers_can_wait_for_a_number_of_messages() {
    let mut steps = Steps::new(
        Schedule {
            consume_after: Some(5),
            ..schedule()
        },
        0,
    );
    let published = |published| Counts {
        published,
        ..Counts::default()
    };
    assert!(going(steps.step(1, &published(0)).publish));
    assert!(!going(steps.step(2, &published(4)).consume));
    assert!(going(steps.step(3, &published(5)).consume));
}

#[test]
fn consumers_that_never_got_their_number_start_when_publishing_ends() {
    let mut steps = Steps::new(
        Schedule {
            consume_after: Some(1_000),
            ..schedule()
        },
        0,
    );
    steps.step(1, &Counts::default());
    let ended = Counts {
        published: 4,
        producers_done: 1,
        ..Counts::default()
    };
    assert!(!going(steps.step(2, &ended).consume));
    assert!(going(steps.step(3, &ended).consume));
    steps.step(50, &ended);
    assert_eq!(steps.drain(), None, "they have just begun");
}

#[test]
fn delays_hold_back_either_side() {
    let mut late_consumers = Steps::new(
        Schedule {
            consume_delay_ns: Some(10),
            ..schedule()
        },
        0,
    );
    assert!(!going(late_consumers.step(9, &Counts::default()).consume));
    assert!(going(late_consumers.step(10, &Counts::default()).consume));
    let mut late_producers = Steps::new(
        Schedule {
            publish_delay_ns: 10,
            ..schedule()
        },
        0,
    );
    assert!(!going(late_producers.step(9, &counts(0, 0)).publish));
    assert!(going(late_producers.step(10, &counts(0, 0)).publish));
}

#[test]
fn without_producers_the_run_ends_by_number_or_time() {
    let consuming = Schedule {
        producers: 0,
        messages: Some(10),
        time_ns: Some(1_000),
        ..schedule()
    };
    let mut by_number = Steps::new(consuming.clone(), 0);
    by_number.step(0, &counts(0, 0));
    by_number.step(1, &counts(0, 9));
    assert_eq!(by_number.drain(), None);
    by_number.step(2, &counts(0, 10));
    assert_eq!(by_number.drain(), Some(Drain::NotAwaited));
    let mut by_time = Steps::new(consuming, 0);
    by_time.step(0, &counts(0, 0));
    by_time.step(1_000, &counts(0, 3));
    assert_eq!(by_time.drain(), Some(Drain::NotAwaited));
}

#[test]
fn an_interruption_stops_publishing_and_a_second_one_everything() {
    let mut steps = Steps::new(schedule(), 0);
    steps.step(0, &counts(0, 0));
    steps.interrupt(5);
    assert_eq!(steps.step(6, &counts(9, 3)).publish, Order::Stop);
    steps.interrupt(7);
    assert!(steps.step(8, &counts(9, 3)).abandon);
}

#[test]
fn answers_that_never_come_end_the_run_as_stalled() {
    let mut steps = Steps::new(
        Schedule {
            time_ns: Some(10),
            ..schedule()
        },
        0,
    );
    steps.step(0, &counts(0, 0));
    steps.step(11, &counts(9, 3));
    steps.step(1_000, &counts(9, 3));
    assert!(!steps.stalled());
    assert!(steps.step(1_012, &counts(9, 3)).abandon);
    assert!(steps.stalled());
}

#[test]
fn a_broker_that_stops_moving_altogether_is_given_up() {
    let mut steps = Steps::new(
        Schedule {
            messages: Some(100),
            ..schedule()
        },
        0,
    );
    steps.step(0, &counts(0, 0));
    steps.step(1, &counts(9, 3));
    assert!(!steps.step(STALL_NS_MAX, &counts(9, 3)).abandon);
    assert!(steps.step(STALL_NS_MAX + 2, &counts(9, 3)).abandon);
    assert!(steps.stalled());
}
