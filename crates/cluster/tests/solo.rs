//! The group of one and its staging: order, batching, unlogged commands, refusals, failures.
#![allow(clippy::unwrap_used)]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cluster::{
    Abandoned, BATCH_BYTES, BATCH_COMMANDS, Batch, GroupStatus, IN_FLIGHT_EAGER,
    IN_FLIGHT_FULL_MAX, MemberChange, MemberError, NodeId, ProposeError, ReplicaGroup, Role,
};
use storage::StreamId;
use support::{Node, command, numbers, wait_until};

#[test]
fn commands_are_applied_in_order_with_their_contexts() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let member = node.group(1);
    for number in 1..=1000 {
        member.stage(number);
    }
    wait_until("all is applied", || member.machine.numbers().len() == 1000);
    assert_eq!(member.machine.numbers(), (1..=1000).collect::<Vec<_>>());
    assert_eq!(member.machine.contexts(), (1..=1000).collect::<Vec<_>>());
    let indexes: Vec<u64> = member
        .machine
        .applied
        .lock()
        .iter()
        .map(|entry| entry.index)
        .collect();
    assert_eq!(indexes, (1..=indexes.len() as u64).collect::<Vec<_>>());
    wait_until("nothing is in flight", || member.group.in_flight() == 0);
    node.stop();
}

#[test]
fn the_log_continues_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let member = node.group(1);
    for number in 1..=3 {
        member.stage(number);
        wait_until("it is applied", || {
            member.machine.numbers().len() == number as usize
        });
    }
    node.stop();
    drop(member);

    let node = Node::start(dir.path());
    let found: Vec<_> = node
        .replayed
        .iter()
        .map(|record| (record.stream, record.index, numbers(record.payload.clone())))
        .collect();
    let expected: Vec<_> = (1..=3)
        .map(|number| (StreamId(1), number, vec![number]))
        .collect();
    assert_eq!(found, expected);
    let member = node.group(1);
    assert_eq!(member.group.status().applied_index, 3);
    member.stage(4);
    wait_until("it is applied", || {
        !member.machine.applied.lock().is_empty()
    });
    assert_eq!(member.machine.applied.lock()[0].index, 4);
    node.stop();
}

#[test]
fn a_busy_group_gathers_what_an_idle_one_takes_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let member = node.group(1);
    member.machine.close_gate();
    for number in 0..IN_FLIGHT_EAGER as u64 {
        member.stage(number);
        assert_eq!(
            member.group.status().last_index,
            number + 1,
            "proposed at once"
        );
    }
    for number in 0..100 {
        member.stage(100 + number);
    }
    assert_eq!(
        member.group.status().last_index,
        IN_FLIGHT_EAGER as u64,
        "the rest gathers"
    );
    assert!(member.staging.has_room());
    member.machine.open_gate();
    wait_until("all is applied", || {
        member.machine.numbers().len() == IN_FLIGHT_EAGER + 100
    });
    let applied = member.machine.applied.lock();
    assert_eq!(applied.len(), IN_FLIGHT_EAGER + 1);
    assert_eq!(
        applied[IN_FLIGHT_EAGER].numbers,
        (100..200).collect::<Vec<_>>()
    );
    drop(applied);
    node.stop();
}

#[test]
fn full_batches_go_while_others_are_in_flight_up_to_a_bound_that_shows() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let member = node.group(1);
    member.machine.close_gate();
    for number in 0..IN_FLIGHT_EAGER as u64 {
        member.stage(number);
    }
    // By bytes.
    member.stage_filled(10, BATCH_BYTES, true);
    assert_eq!(member.group.in_flight(), IN_FLIGHT_EAGER + 1);
    // By commands, all under one lock.
    let mut staged = member.staging.begin();
    for number in 0..BATCH_COMMANDS as u64 + 1 {
        staged.command(true, None, |buffer| command(buffer, number, 0));
    }
    drop(staged);
    assert_eq!(member.group.in_flight(), IN_FLIGHT_EAGER + 2);
    let full = (IN_FLIGHT_FULL_MAX - IN_FLIGHT_EAGER - 2) as u64;
    for number in 0..full {
        member.stage_filled(number, BATCH_BYTES, true);
    }
    assert_eq!(member.group.in_flight(), IN_FLIGHT_FULL_MAX);
    assert!(member.staging.has_room());
    member.stage_filled(7, BATCH_BYTES, true);
    member.stage(8);
    assert_eq!(member.group.in_flight(), IN_FLIGHT_FULL_MAX);
    assert!(!member.staging.has_room());
    member.machine.open_gate();
    let expected = IN_FLIGHT_EAGER + 1 + BATCH_COMMANDS + 1 + full as usize + 2;
    wait_until("all is applied", || {
        member.machine.numbers().len() == expected
    });
    assert_eq!(member.machine.numbers()[expected - 2..], [7, 8]);
    wait_until("there is room", || member.staging.has_room());
    node.stop();
}

#[test]
fn unlogged_commands_keep_their_place_and_touch_no_disk() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let member = node.group(1);
    member.stage_filled(1, 0, false);
    wait_until("it is applied", || member.machine.numbers() == [1]);
    assert_eq!(node.journal.status().records, 0);
    assert!(!member.machine.applied.lock()[0].logged);
    member.stage(2);
    member.stage_filled(3, 0, false);
    let mut staged = member.staging.begin();
    staged.command(false, Some(4), |buffer| command(buffer, 4, 0));
    staged.command(true, Some(5), |buffer| command(buffer, 5, 0));
    drop(staged);
    wait_until("all is applied", || member.machine.numbers().len() == 5);
    assert_eq!(member.machine.numbers(), [1, 2, 3, 4, 5]);
    let last_index = member.group.status().last_index;
    node.stop();
    // One with any logged command is written whole.
    let node = Node::start(dir.path());
    let logged: Vec<u64> = node
        .replayed
        .iter()
        .flat_map(|record| numbers(record.payload.clone()))
        .collect();
    assert!(
        logged.ends_with(&[4, 5]) && logged.contains(&2) && !logged.contains(&1),
        "{logged:?}"
    );
    assert_eq!(node.journal.last_index(StreamId(1)), last_index);
    node.stop();
}

#[test]
fn a_group_of_one_refuses_changes_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let group = node.group(1).group;
    let (this, other) = (NodeId(1), NodeId(2));
    assert_eq!(
        group.change_members(MemberChange::Add(this)),
        Err(MemberError::AlreadyMember(this))
    );
    assert_eq!(
        group.change_members(MemberChange::Add(other)),
        Err(MemberError::NotReplicated(other))
    );
    assert_eq!(
        group.change_members(MemberChange::Remove(this)),
        Err(MemberError::LastMember(this))
    );
    assert_eq!(
        group.change_members(MemberChange::Remove(other)),
        Err(MemberError::NotAMember(other))
    );
    assert_eq!(group.transfer_leader(this), Ok(()));
    assert_eq!(
        group.transfer_leader(other),
        Err(MemberError::NotAMember(other))
    );
    let expected = GroupStatus {
        role: Role::Leader,
        leader: Some(this),
        term: 0,
        votes: true,
        members: vec![this],
        last_index: 0,
        applied_index: 0,
    };
    assert_eq!(group.status(), expected);
    node.stop();
}

#[test]
fn a_batch_that_no_record_can_hold_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let member = node.group(1);
    let payload = vec![0; (32 << 20) + 1].into();
    let refused = member.group.propose(Batch {
        payload,
        contexts: vec![9],
        logged: true,
    });
    match refused {
        Err(ProposeError::TooLarge {
            bytes,
            bytes_max,
            batch,
        }) => {
            assert_eq!((bytes, bytes_max), ((32 << 20) + 1, 32 << 20));
            assert_eq!(batch.contexts, [9]);
        }
        other => panic!("{other:?}"),
    }
    member.stage_filled(1, (32 << 20) + 1, true);
    assert_eq!(member.refused.lock()[0].0, [1]);
    // The group goes on.
    member.stage(2);
    wait_until("it is applied", || member.machine.numbers() == [2]);
    node.stop();
}

#[test]
fn after_a_failed_sync_everything_in_flight_is_abandoned_and_later_batches_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let member = node.group(1);
    member.stage(1);
    wait_until("it is applied", || member.machine.numbers() == [1]);
    node.strike
        .store(true, std::sync::atomic::Ordering::Release);
    for number in 2..=10 {
        member.stage(number);
    }
    wait_until("the node is told", || node.stopped.lock().is_some());
    assert!(
        node.stopped
            .lock()
            .as_ref()
            .unwrap()
            .contains("the disk is on strike")
    );
    wait_until("all contexts are back", || {
        let abandoned = member.machine.abandoned.lock();
        let refused = member.refused.lock();
        let contexts = abandoned.iter().map(|(contexts, _)| contexts.len());
        contexts.sum::<usize>()
            + refused
                .iter()
                .map(|(contexts, _)| contexts.len())
                .sum::<usize>()
            == 9
    });
    assert!(
        member
            .machine
            .abandoned
            .lock()
            .iter()
            .all(|(_, why)| *why == Abandoned::Poisoned)
    );
    member.stage(11);
    assert_eq!(member.refused.lock().last().unwrap().0, [11]);
    assert_eq!(member.machine.numbers(), [1], "nothing unsynced is applied");
    assert_eq!(member.group.in_flight(), 0);
    assert!(node.storage.shutdown().is_err());
    node.commits.shutdown();
}

#[test]
fn a_machine_that_panics_stops_the_node_and_gets_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let member = node.group(1);
    *member.machine.on_apply.lock() = Some(Box::new(|_| panic!("a bug in the machine")));
    member.stage(1);
    wait_until("the node is told", || node.stopped.lock().is_some());
    assert!(node.stopped.lock().as_ref().unwrap().contains("panicked"));
    let refused = member.group.propose(Batch {
        payload: vec![1].into(),
        contexts: vec![2],
        logged: true,
    });
    assert!(
        matches!(refused, Err(ProposeError::Stopped { .. })),
        "{refused:?}"
    );
    node.stop();
}

#[test]
fn half_a_command_is_never_proposed() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let member = node.group(1);
    let built = catch_unwind(AssertUnwindSafe(|| {
        let mut staged = member.staging.begin();
        staged.command(true, Some(1), |buffer| command(buffer, 1, 0));
        staged.command(true, Some(2), |buffer| {
            buffer.extend_from_slice(&[1, 2, 3]);
            panic!("in the middle of a command");
        });
    }));
    assert!(built.is_err());
    member.stage(3);
    wait_until("the whole ones are applied", || {
        member.machine.numbers() == [1, 3]
    });
    assert_eq!(member.machine.contexts(), [1, 3]);
    node.stop();
}

#[test]
fn a_machine_may_stage_while_it_applies() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let (source, target) = (node.group(1), node.group(2));
    let staging = Arc::clone(&target.staging);
    *source.machine.on_apply.lock() = Some(Box::new(move |applied| {
        for number in &applied.numbers {
            staging.stage(true, None, |buffer| command(buffer, *number, 0));
        }
    }));
    for number in 1..=500 {
        source.stage(number);
    }
    wait_until("all has moved on", || target.machine.numbers().len() == 500);
    assert_eq!(target.machine.numbers(), (1..=500).collect::<Vec<_>>());
    node.stop();
    // The machine holds the other group's staging.
    *source.machine.on_apply.lock() = None;
}

#[test]
fn storage_is_told_that_a_file_is_applied_only_when_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let member = node.group(1);
    assert!(
        node.commits.applied(&[(StreamId(77), 5)]),
        "a stream without a group"
    );
    assert!(!node.commits.applied(&[(StreamId(1), 1)]));
    member.machine.close_gate();
    member.stage(1);
    wait_until("it is durable", || node.journal.status().records == 1);
    assert!(
        !node.commits.applied(&[(StreamId(1), 1)]),
        "durable, but not applied"
    );
    member.machine.open_gate();
    wait_until("it is applied", || {
        node.commits.applied(&[(StreamId(1), 1), (StreamId(77), 5)])
    });
    node.stop();
}

#[test]
fn many_threads_and_groups_lose_nothing_and_keep_each_order() {
    const COMMANDS: u64 = 5_000;
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let members = [node.group(1), node.group(2), node.group(3)];
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let members = &members;
            scope.spawn(move || {
                for number in 0..COMMANDS {
                    let member = &members[(number % 3) as usize];
                    let id = thread << 32 | number;
                    member.stage_filled(id, 50, number % 7 != 0);
                }
            });
        }
    });
    let done = || {
        members
            .iter()
            .map(|member| member.machine.contexts().len())
            .sum::<usize>()
    };
    wait_until("all is applied", || done() == 4 * COMMANDS as usize);
    for member in &members {
        let contexts = member.machine.contexts();
        assert_eq!(contexts, member.machine.numbers());
        for thread in 0..4 {
            let of_thread: Vec<u64> = contexts
                .iter()
                .copied()
                .filter(|id| id >> 32 == thread)
                .collect();
            assert!(of_thread.is_sorted());
        }
        assert!(member.refused.lock().is_empty());
    }
    node.stop();
}

#[test]
fn a_stopped_node_refuses_and_abandons_nothing_that_was_durable() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path());
    let member = node.group(1);
    for number in 1..=200 {
        member.stage(number);
    }
    let staged = member.group.status().last_index;
    node.storage.shutdown().unwrap();
    node.commits.shutdown();
    // Everything that was proposed is applied; what was still gathering is refused.
    let applied = member.machine.numbers();
    let refused: Vec<u64> = member
        .refused
        .lock()
        .iter()
        .flat_map(|(contexts, _)| contexts.clone())
        .collect();
    assert!(member.machine.applied.lock().len() as u64 >= staged);
    assert_eq!([applied, refused].concat(), (1..=200).collect::<Vec<_>>());
    assert!(member.machine.abandoned.lock().is_empty());
}
