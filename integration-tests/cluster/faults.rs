//! What happens to clusters: nodes die, stand still, are cut off from each other, stop and come back,
//! all under load. Each test is one kind of it; what must hold is in `invariants`.

use std::thread::sleep;

use crate::clients::{LINES, line};
use crate::scene::{FAULT, Scene, turns};
use crate::trio::NODES;

/// Plays a scenario on one node after the other, at least so many times, or says that this machine
/// cannot.
fn play(turns_min: u64, mut turn: impl FnMut(&mut Scene, u64)) {
    let Some(mut scene) = Scene::begin() else {
        return;
    };
    for number in 0..turns_min.max(turns()) {
        turn(&mut scene, number % NODES + 1);
    }
    scene.end();
}

#[test]
fn nodes_are_killed_in_turn() {
    play(3, |scene, node| {
        scene.fault(|trio| {
            trio.kill(node);
            sleep(FAULT);
            trio.restart(&[node]);
        });
    });
}

#[test]
fn a_node_comes_back_with_an_empty_disk() {
    play(1, |scene, node| {
        scene.fault(|trio| {
            trio.lose_disk(node);
            trio.restart(&[node]);
            trio.expect_voters((0..LINES).map(line));
        });
    });
}

#[test]
fn nodes_stand_still_in_turn() {
    play(2, |scene, node| {
        scene.fault(|trio| {
            trio.node(node).pause();
            sleep(FAULT);
            trio.node(node).resume();
        });
    });
}

#[test]
fn each_node_is_cut_off_from_the_others() {
    play(1, |scene, node| {
        scene.fault_alone(node, |trio| {
            others(node).for_each(|other| trio.net().part(node, other));
            sleep(FAULT);
        });
    });
}

#[test]
fn a_node_hears_nobody_and_is_heard() {
    play(1, |scene, node| {
        scene.fault_alone(node, |trio| {
            others(node).for_each(|other| trio.net().cut(other, node));
            sleep(FAULT);
        });
    });
}

#[test]
fn a_node_hears_everybody_and_is_not_heard() {
    play(1, |scene, node| {
        scene.fault_alone(node, |trio| {
            others(node).for_each(|other| trio.net().cut(node, other));
            sleep(FAULT);
        });
    });
}

#[test]
fn two_nodes_see_the_third_only() {
    play(1, |scene, node| {
        scene.fault(|trio| {
            trio.net().part(node, node % NODES + 1);
            sleep(FAULT);
            trio.net().heal();
        });
    });
}

#[test]
fn all_nodes_are_alone() {
    play(1, |scene, _| {
        scene.fault_alone(1, |trio| {
            for node in 1..=NODES {
                trio.net().part(node, node % NODES + 1);
            }
            sleep(FAULT);
        });
    });
}

#[test]
fn all_nodes_are_killed_at_once() {
    play(1, |scene, _| {
        scene.fault(|trio| {
            (1..=NODES).for_each(|node| trio.kill(node));
            trio.restart(&[1, 2, 3]);
        });
    });
}

#[test]
fn nodes_are_restarted_in_turn() {
    play(3, |scene, node| {
        scene.fault(|trio| trio.stop_and_start(node));
    });
}

#[test]
fn the_network_is_slow_and_loses_frames() {
    play(1, |scene, _| {
        scene.fault(|trio| {
            for node in 1..=NODES {
                trio.net().weather(node, 50, 20);
            }
            sleep(FAULT);
            trio.net().heal();
        });
    });
}

fn others(node: u64) -> impl Iterator<Item = u64> {
    (1..=NODES).filter(move |other| *other != node)
}
