//! Names that the broker makes for queues and consumers.

use broker_core::{ConsumerTag, QueueName};
use rand::RngExt as _;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// 22 URL-safe characters: 132 random bits.
pub(crate) fn suffix() -> String {
    let mut rng = rand::rng();
    (0..22)
        .map(|_| char::from(ALPHABET[usize::from(rng.random::<u8>() & 63)]))
        .collect()
}

// rabbitmq: amq.gen- and 22 URL-safe base64 characters.
pub(crate) fn queue() -> QueueName {
    QueueName::new(format!("amq.gen-{}", suffix()))
}

// rabbitmq: amq.ctag- and 22 URL-safe base64 characters.
pub(crate) fn consumer_tag() -> ConsumerTag {
    ConsumerTag::new(format!("amq.ctag-{}", suffix()))
}
