//! What the driver gives with each message: where it is.
//!
//! A deep queue is mostly messages that wait and that nothing has happened to. Their handles can be
//! put down in few bytes, and with them whole chunks of the table. Knows nothing of what a handle says.

use std::fmt::Debug;

/// Where a message is, as the driver knows it; the machine only passes it on.
pub trait Handle: Clone {
    /// The same in few bytes, for a message that waits for long.
    type AtRest: Copy + Debug;

    /// Puts it down, if it is one that can be: then it must not own anything.
    fn at_rest(&self) -> Option<Self::AtRest>;

    /// Takes it up again.
    fn taken_up(rest: Self::AtRest) -> Self;
}

/// A number says it all itself.
impl Handle for u64 {
    type AtRest = u64;

    fn at_rest(&self) -> Option<u64> {
        Some(*self)
    }

    fn taken_up(rest: u64) -> u64 {
        rest
    }
}

/// Texts are never put down: tests that speak in them see messages that always own something.
#[cfg(test)]
impl Handle for String {
    type AtRest = std::convert::Infallible;

    fn at_rest(&self) -> Option<Self::AtRest> {
        None
    }

    fn taken_up(rest: Self::AtRest) -> Self {
        match rest {}
    }
}
