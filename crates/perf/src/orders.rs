//! What the run tells its connections: when to begin, when to stop.

/// To all producers, or to all consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Everything is set up; wait.
    Wait,
    Go {
        /// The moment of the order, monotonic nanoseconds: rate limits count from it.
        since_ns: u64,
    },
    /// Publish no more, or settle what was received; then close.
    Stop,
}

/// The orders in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) publish: Order,
    pub(crate) consume: Order,
    /// Leave everything as it is and drop the socket.
    pub(crate) abandon: bool,
}

impl Orders {
    pub(crate) const fn wait() -> Self {
        Self {
            publish: Order::Wait,
            consume: Order::Wait,
            abandon: false,
        }
    }
}
