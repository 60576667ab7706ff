//! Which lever is pulled for which client: flow, an unread socket, a notice.

use broker::{Broker, BrokerOptions, Signal};
use broker_core::flow::{Levers, LibraryWord, UserWord, When};
use broker_core::{UserName, VhostName};

use super::{declare, flow_of, options, publish, until};
use crate::client::{Client, open_with};

fn small_park(dir: &std::path::Path) -> BrokerOptions {
    let mut options = options(dir);
    options.flow.bounds.memory_bytes = 200;
    options
}

fn blocked(reason: &str) -> Signal {
    Signal::Blocked(reason.into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_obedient_client_is_asked_to_pause_and_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut client = Client::connect_as(&broker, "RabbitMQ", "Java");
    declare(&mut client, "q", "durable", 1, 0).await;
    publish(&mut client, "q", 0, 2);
    let flow = |active| Signal::Flow { channel: 1, active };
    assert_eq!(client.session.signal().await, flow(false));
    assert!(broker.held_channels()[0].hold().unwrap().flow_sent);
    client.drain("q").await;
    assert_eq!(client.session.signal().await, flow(true));
    assert_eq!(broker.flow_counts().flow_frames, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_only_publishes_is_not_read_while_too_much_is_parked() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(small_park(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "durable", 1, 0).await;
    publish(&mut client, "q", 0, 5);
    assert!(!client.session.is_held(), "little is parked");
    publish(&mut client, "q", 5, 30);
    assert!(client.session.is_held());
    assert_eq!(client.session.signal().await, blocked("Queue q"));
    let mut other = Client::connect(&broker);
    let mut got = 0;
    while got < 35 {
        got += other.drain("q").await.len();
    }
    client.session.released().await;
    assert_eq!(client.session.signal().await, Signal::Unblocked);
    assert!(!client.session.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_consumes_is_always_read() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(small_park(dir.path())).await;
    let mut client = Client::connect(&broker);
    declare(&mut client, "q", "durable", 1, 0).await;
    declare(&mut client, "other", "durable", 9, 0).await;
    publish(&mut client, "q", 0, 40);
    assert!(client.session.is_held());
    // It begins to consume: it is read from then on.
    client.consume("other", "c", false).await;
    client.session.released().await;
    assert!(!client.session.is_held());
    publish(&mut client, "q", 40, 10);
    assert!(!client.session.is_held());
    assert!(
        broker.parked_bytes().1 > 0,
        "what memory has no room for waits on disk"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lapin_that_consumes_is_never_told_that_it_is_blocked() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(small_park(dir.path())).await;
    let mut client = Client::connect_as(&broker, "lapin", "rust");
    declare(&mut client, "q", "durable", 1, 0).await;
    client.consume("q", "c", false).await;
    publish(&mut client, "q", 0, 40);
    let view = broker.held_channels()[0].clone();
    assert!(!view.connection().is_blocked());
    assert!(broker.flow_counts().readings_stopped > 0);
    assert_eq!(broker.flow_counts().flow_frames, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_stops_publishers_and_its_end_lets_everything_in() {
    for kind in super::KINDS {
        let dir = tempfile::tempdir().unwrap();
        let broker = open_with(options(dir.path())).await;
        let mut publisher = Client::connect(&broker);
        let mut consumer = Client::connect(&broker);
        publisher.declare("q", kind != "transient", &[]).await;
        consumer.consume("q", "c", true).await;
        publisher.channel.confirm_select().unwrap();
        broker.set_memory_limit(Some(0));
        assert!(broker.alarms().memory && !broker.alarms().disk);
        assert!(!publisher.session.is_held(), "it has not published yet");
        publish(&mut publisher, "q", 0, 3);
        publish(&mut consumer, "q", 3, 3);
        assert_eq!(publisher.session.signal().await, blocked("low on memory"));
        assert_eq!(consumer.session.signal().await, blocked("low on memory"));
        assert!(publisher.session.is_held());
        assert!(!consumer.session.is_held(), "its acks must be heard");
        assert_eq!(flow_of(&broker, "q").parked_messages, 6, "{kind}");
        broker.set_disk_free_limit(u64::MAX);
        assert!(broker.alarms().disk);
        broker.set_memory_limit(None);
        assert!(publisher.session.is_held(), "one alarm still lasts");
        broker.set_disk_free_limit(0);
        assert_eq!(publisher.session.signal().await, Signal::Unblocked);
        publisher.session.released().await;
        publisher.confirmed(3).await;
        let got = super::bodies(&consumer.left(6).await);
        assert_eq!(got.len(), 6, "{kind}: {got:?}");
        until("all are let go", || broker.held_channels().is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_stops_a_publisher_whose_messages_have_no_route() {
    let dir = tempfile::tempdir().unwrap();
    let broker = open_with(options(dir.path())).await;
    let mut publisher = Client::connect(&broker);
    broker.set_memory_limit(Some(0));
    publish(&mut publisher, "nowhere", 0, 1);
    assert_eq!(publisher.session.signal().await, blocked("low on memory"));
    assert!(publisher.session.is_held());
    broker.set_memory_limit(None);
    assert_eq!(publisher.session.signal().await, Signal::Unblocked);
    publisher.session.released().await;
}

/// The built-in table does not know this library; the operator does.
fn knowing_ours() -> Levers {
    Levers {
        libraries: vec![LibraryWord {
            product: "ours".to_owned(),
            obeys_flow: Some(true),
            ..LibraryWord::default()
        }],
        ..Levers::default()
    }
}

/// Clients that are held by an overfull queue, each with one channel.
struct Held(Vec<Client>);

impl Held {
    /// Whether one more client of that library, held at its first publish, is asked to pause.
    async fn asks_one_more(&mut self, broker: &Broker) -> bool {
        let frames = broker.flow_counts().flow_frames;
        let mut client = Client::connect_as(broker, "ours", "any");
        publish(&mut client, "q", 0, 1);
        self.0.push(client);
        until("the channel is held", || {
            broker.held_channels().len() == self.0.len()
        })
        .await;
        broker.flow_counts().flow_frames > frames
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_words_decide_about_connections_that_come_after_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.levers = knowing_ours();
    let broker = open_with(options).await;
    let mut filler = Client::connect(&broker);
    declare(&mut filler, "q", "durable", 1, 0).await;
    publish(&mut filler, "q", 0, 2);
    until("the queue is overfull", || {
        broker.held_channels().len() == 1
    })
    .await;
    let mut held = Held(vec![filler]);
    assert!(held.asks_one_more(&broker).await, "the table: it obeys");

    let mut levers = knowing_ours();
    levers.vhosts.insert(VhostName::new("/"), When::Never);
    broker.set_levers(levers.clone());
    assert!(!held.asks_one_more(&broker).await, "the vhost's word");

    let user = |channel_flow| UserWord {
        channel_flow: Some(channel_flow),
        ..UserWord::default()
    };
    let guest = UserName::new("guest");
    levers.users.insert(guest.clone(), user(When::Auto));
    broker.set_levers(levers.clone());
    assert!(held.asks_one_more(&broker).await, "the user's word");

    levers.users.insert(guest, user(When::Never));
    broker.set_levers(levers);
    assert!(!held.asks_one_more(&broker).await, "the user's new word");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_connection_that_was_asked_to_pause_is_told_to_go_on_whatever_was_said_since() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.levers = knowing_ours();
    let broker = open_with(options).await;
    let mut client = Client::connect_as(&broker, "ours", "any");
    declare(&mut client, "q", "durable", 1, 0).await;
    publish(&mut client, "q", 0, 2);
    let flow = |active| Signal::Flow { channel: 1, active };
    assert_eq!(client.session.signal().await, flow(false));
    broker.set_levers(Levers {
        channel_flow: When::Never,
        ..Levers::default()
    });
    client.drain("q").await;
    assert_eq!(client.session.signal().await, flow(true));
}
