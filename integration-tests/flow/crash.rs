//! kill -9 while messages wait for their queue.

use integration_tests::{BrokerProcess, Connection, own_broker};

use crate::declare;

#[test]
fn a_crash_keeps_what_was_confirmed_and_promises_nothing_that_waited() {
    own_broker(|| {
        let mut broker = BrokerProcess::start();
        let channel = Connection::open(broker.address()).channel(1);
        declare(&channel, "q", 10, 5);
        channel.confirm_select();
        for number in 0..100 {
            channel.put("q", &number.to_string());
        }
        let (mut confirmed, mut open) = (0, true);
        // The eleventh tips the queue; the others wait.
        while open {
            let (ack, _) = channel.wait_for(&["basic.ack"]);
            confirmed = confirmed.max(ack.number(0));
            open = confirmed < 11;
        }
        assert_eq!(confirmed, 11);
        broker.kill9();
        broker.restart();
        let channel = Connection::open(broker.address()).channel(1);
        let texts: Vec<String> = (0..11).map(|number| number.to_string()).collect();
        assert_eq!(channel.take_all("q"), texts);
        let parked = std::fs::read_dir(broker.data_dir()).expect("The directory is there.");
        let names: Vec<_> = parked
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        assert!(
            names.iter().all(|name| !name.starts_with(".tmp")),
            "{names:?}"
        );
    });
}
