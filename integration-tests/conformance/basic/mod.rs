//! Class basic: publishing, consuming, getting, settling.

mod ack;
mod cancel;
mod consume;
mod get;
mod prefetch;
mod publish;
mod recover;
mod reply_to;
mod requeue;

use integration_tests::{Channel, QueueSpec, Trial};

/// The two types that keep messages; most rules hold for both.
const BOTH: [&str; 2] = ["classic", "quorum"];

/// A durable queue of type `kind` that holds `texts`, and a channel to use it by.
fn filled(trial: &Trial, kind: &str, texts: &[&str]) -> (Channel, String) {
    let channel = trial.channel();
    let queue = trial.queue(kind);
    channel.declare(&QueueSpec::durable(&queue).argument("x-queue-type", kind));
    channel.put_all(&queue, texts);
    (channel, queue)
}
