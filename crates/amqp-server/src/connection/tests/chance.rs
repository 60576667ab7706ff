//! What clients say by chance: no connection panics, every answer is well formed, every
//! connection comes to its end, and nobody else notices.

#[path = "../../../fuzz/script.rs"]
mod script;

use amqp::protocol::AMQPClass;
use amqp::protocol::connection::AMQPMethod;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;

use super::World;
use super::client::{Said, connection_close};

/// Says it all on an open connection, listens until the connection is closed, and answers how
/// much the server said.
async fn say(world: &World, data: &[u8]) -> usize {
    let (mut client, served) = world.connect();
    client.handshake().await;
    client.send(&script::octets(data)).await;
    client.say(0, connection_close()).await;
    // Completes any frame that was begun, and completes it wrong.
    client.send(&vec![0; client.frame_max as usize + 8]).await;
    // Listening checks that all answers are frames, methods and whole contents.
    let mut count = 0;
    loop {
        match client.listen().await {
            Said::End | Said::Method(0, AMQPClass::Connection(AMQPMethod::Close(_))) => break,
            _ => count += 1,
        }
    }
    drop(client);
    served.await.expect("a connection that does not panic");
    count
}

/// Somebody else is served as if nothing had happened.
async fn look_after(world: &World) {
    let mut bystander = world.open_channel().await;
    bystander.declare(1, "bystander").await;
    bystander.publish(1, "bystander", b"still here").await;
    let got = bystander.get(1, "bystander").await;
    assert!(matches!(got, Said::GetOk { body, .. } if body == b"still here"));
    bystander.close().await;
}

#[test]
fn whatever_a_client_says_harms_nobody() {
    let runtime = Runtime::new().expect("a runtime");
    let world = runtime.block_on(World::new());
    let mut runner = TestRunner::new(Config::with_cases(200));
    let scripts = vec(any::<u8>(), 0..400);
    let outcome = runner.run(&scripts, |data| {
        runtime.block_on(async {
            say(&world, &data).await;
            look_after(&world).await;
        });
        Ok(())
    });
    outcome.expect("no script does harm");
}

#[test]
fn the_committed_scripts_are_answered_and_harm_nobody() {
    let runtime = Runtime::new().expect("a runtime");
    let world = runtime.block_on(World::new());
    let folder = format!("{}/fuzz/corpus/connection", env!("CARGO_MANIFEST_DIR"));
    let mut n_scripts = 0;
    let mut n_answers = 0;
    for entry in std::fs::read_dir(folder).expect("the folder exists") {
        let data = std::fs::read(entry.expect("an entry").path()).expect("a file");
        n_answers += runtime.block_on(say(&world, &data));
        n_scripts += 1;
    }
    runtime.block_on(look_after(&world));
    assert!(n_scripts >= 8, "{n_scripts} scripts");
    // Scripts that are refused at their first frame would find nothing.
    assert!(n_answers >= 4 * n_scripts, "{n_answers} answers");
}
