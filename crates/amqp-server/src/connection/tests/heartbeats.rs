//! Signs of life, both ways, on a clock that only tests move.

use std::time::Duration;

use tokio::time::Instant;

use super::client::{Said, capabilities, frame};
use super::*;

/// An open connection with this heartbeat, on a paused clock.
async fn open_with(world: &World, heartbeat_s: u16) -> (Client, JoinHandle<()>) {
    let (mut client, served) = world.connect();
    client
        .log_in("PLAIN", b"\0guest\0guest", &capabilities())
        .await;
    client.tune_ok(10, 8192, heartbeat_s).await;
    client.open_vhost("/").await;
    client.method(0).await;
    tokio::time::pause();
    (client, served)
}

#[tokio::test]
async fn a_silent_server_says_so_twice_an_interval() {
    let world = World::new().await;
    let (mut client, _) = open_with(&world, 10).await;
    let start = Instant::now();
    for beat in 1..=4_u32 {
        client.send(&frame(8, 0, b"")).await;
        assert_eq!(client.listen().await, Said::Heartbeat);
        let due = Duration::from_secs(5) * beat;
        let late = start.elapsed().saturating_sub(due);
        assert!(
            start.elapsed() >= due && late < Duration::from_secs(1),
            "beat {beat}: {late:?}"
        );
    }
}

#[tokio::test]
async fn a_silent_client_is_dropped_after_two_intervals() {
    let world = World::new().await;
    let (mut client, served) = open_with(&world, 1).await;
    let start = Instant::now();
    loop {
        match client.listen().await {
            Said::Heartbeat => {}
            Said::End => break,
            other => panic!("nothing is said before the drop, not even {other:?}"),
        }
    }
    let passed = start.elapsed();
    assert!(
        passed >= Duration::from_secs(2) && passed <= Duration::from_secs(4),
        "{passed:?}"
    );
    served.await.expect("the task ends by itself");
}

#[tokio::test]
async fn any_bytes_keep_a_connection() {
    let world = World::new().await;
    let (mut client, served) = open_with(&world, 1).await;
    // Less than a frame each time, so nothing but the bytes themselves can count.
    let declare = frame(1, 0, &[0, 10, 0, 70, 0, 0, 0, 0, 0]);
    for octet in &declare[..declare.len() - 1] {
        tokio::time::sleep(Duration::from_millis(900)).await;
        client.send(&[*octet]).await;
    }
    assert!(!served.is_finished());
}

#[tokio::test]
async fn without_heartbeats_silence_is_no_fault() {
    let world = World::new().await;
    let (_client, served) = open_with(&world, 0).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!served.is_finished());
}
