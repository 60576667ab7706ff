//! Changes of definitions, put through the one door in their order.

use broker_core::metadata::{Destination, MetadataChange};
use broker_core::{QueueName, Refusal, VhostName};

use crate::broker::Broker;

impl Broker {
    /// Applies the changes of definitions one after the other. Queues of a type that this broker
    /// has not are passed over with their bindings, so that definitions of a RabbitMQ cluster can
    /// be taken over without its streams; they are answered.
    ///
    /// # Errors
    /// The first refusal; what was changed before it stays.
    // rabbitmq: definitions import
    pub async fn import(
        &self,
        changes: Vec<MetadataChange>,
    ) -> Result<Vec<(VhostName, QueueName)>, Refusal> {
        let mut skipped: Vec<(VhostName, QueueName)> = Vec::new();
        for change in changes {
            if is_about(&change, &skipped) {
                continue;
            }
            match self.apply(&change).await {
                Ok(_) => {}
                Err(Refusal::QueueTypeNotImplemented {
                    queue_type,
                    queue,
                    vhost,
                }) => {
                    tracing::warn!(%vhost, %queue, queue_type, "an import passes over a queue");
                    skipped.push((vhost, queue));
                }
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(skipped)
    }
}

fn is_about(change: &MetadataChange, skipped: &[(VhostName, QueueName)]) -> bool {
    let MetadataChange::Bind {
        vhost,
        destination: Destination::Queue(queue),
        ..
    } = change
    else {
        return false;
    };
    skipped
        .iter()
        .any(|(of, name)| of == vhost && name == queue)
}
