//! Flow control from outside: what clients see of an overfull queue and of an alarm, that memory
//! stays bounded whatever they ignore, and that a crash keeps what was confirmed and nothing else.

mod bounded;
mod crash;
mod wire;

use integration_tests::{Channel, QueueSpec};

/// A queue that holds its publishers above so many messages.
fn declare(channel: &Channel, name: &str, capacity: i32, resume: i32) {
    let spec = QueueSpec::quorum(name)
        .argument("x-capacity-messages", capacity)
        .argument("x-flow-resume-messages", resume);
    channel.declare(&spec);
}
