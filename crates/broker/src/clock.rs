//! The one place of this crate that reads the clock; the rules get time as an argument.

use std::time::{SystemTime, UNIX_EPOCH};

use broker_core::Timestamp;

/// Microseconds since the epoch; zero for a clock before it. For rates, which divide a second.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}

/// Milliseconds since the epoch; zero for a clock before it.
pub(crate) fn now() -> Timestamp {
    let millis = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
    Timestamp(millis)
}
