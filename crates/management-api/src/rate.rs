//! Counters with their rates.

use serde::{Deserialize, Serialize};

/// How fast a counter grows; the history only when it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rate {
    /// Per second, over the last interval.
    pub rate: f64,
    /// Mean of the samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avg: Option<f64>,
    /// Per second, over all samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avg_rate: Option<f64>,
    /// Newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Vec<Sample>>,
}

/// A counter at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// The value.
    pub sample: u64,
    /// Milliseconds since the epoch.
    pub timestamp: u64,
}

macro_rules! message_stats {
    ($($(#[$doc:meta])* $counter:ident $details:ident,)*) => {
        /// What happened to messages. A counter is absent where it does not apply, or before its
        /// first event.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default)]
        pub struct MessageStats {
            $(
                $(#[$doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $counter: Option<u64>,
                /// Its rate.
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $details: Option<Rate>,
            )*
        }
    };
}

message_stats! {
    /// Settled by consumers.
    ack ack_details,
    /// Confirmed to publishers.
    confirm confirm_details,
    /// Delivered to consumers that acknowledge.
    deliver deliver_details,
    /// Delivered and got, with and without acknowledgement.
    deliver_get deliver_get_details,
    /// Delivered to consumers that do not acknowledge.
    deliver_no_ack deliver_no_ack_details,
    /// Unroutable and dropped.
    drop_unroutable drop_unroutable_details,
    /// Got by `basic.get` with acknowledgement.
    get get_details,
    /// Answers `get-empty`.
    get_empty get_empty_details,
    /// Got by `basic.get` without acknowledgement.
    get_no_ack get_no_ack_details,
    /// Published.
    publish publish_details,
    /// Came into an exchange.
    publish_in publish_in_details,
    /// Left an exchange for a queue.
    publish_out publish_out_details,
    /// Delivered once more.
    redeliver redeliver_details,
    /// Unroutable and returned.
    return_unroutable return_unroutable_details,
    /// Read from segments.
    disk_reads disk_reads_details,
    /// Written to the journal.
    disk_writes disk_writes_details,
}
