//! Class queue: declaring, deleting, purging, and what arguments make of a queue.

mod arguments;
mod dead_letter;
mod declare;
mod delete;
mod equivalence;
mod expiry;
mod limits;
mod priority;
mod quorum;
mod single_active;

use integration_tests::{Channel, QueueSpec, Trial};

/// The two types that keep messages; most rules hold for both.
const BOTH: [&str; 2] = ["classic", "quorum"];

/// A durable queue of type `kind` with more arguments, and a channel to use it by.
fn queue_of(
    trial: &Trial,
    kind: &str,
    describe: impl FnOnce(QueueSpec) -> QueueSpec,
) -> (Channel, String) {
    let channel = trial.channel();
    let queue = trial.queue(kind);
    let spec = QueueSpec::durable(&queue).argument("x-queue-type", kind);
    channel.declare(&describe(spec));
    (channel, queue)
}
