//! Held channels and the queues that hold them.

use broker::observe::{self, ChannelView};
use broker_core::flow::{CapacityLimits, Stage};
use management_api::{ChannelHold, HeldBy, HeldChannel, QueueFlow};

use crate::time::now_ms;

/// Held channels that one queue names.
const HELD_CHANNELS_MAX: usize = 100;

/// A queue's standing; `None` when there is nothing to say about it.
pub(crate) fn queue_flow(flow: &observe::QueueFlow) -> Option<QueueFlow> {
    let has_limit = flow.limits.is_some() || flow.memory_limit_bytes.is_some();
    if !has_limit && !flow.over_memory_share && flow.held_channels.is_empty() {
        return None;
    }
    let now_ms = now_ms();
    let limit = |of: fn(&CapacityLimits) -> u64| {
        let bytes = flow.limits.as_ref().map(of);
        bytes.filter(|limit| *limit != u64::MAX)
    };
    let mut held: Vec<HeldChannel> = flow.held_channels.iter().map(held_channel).collect();
    held.sort_by_key(|held| std::cmp::Reverse(held.hold.as_ref().map(|hold| hold.held_ms)));
    let held_channels_total = held.len();
    held.truncate(HELD_CHANNELS_MAX);
    let since = flow.overfull_since_ms;
    Some(QueueFlow {
        overfull: since.is_some(),
        overfull_ms: since.map(|since| now_ms.saturating_sub(since)),
        overfull_total: flow.overfull_total,
        overfull_ms_total: flow.overfull_ms_total,
        capacity_bytes: limit(CapacityLimits::capacity_bytes),
        flow_resume_capacity_bytes: limit(CapacityLimits::resume_bytes),
        capacity_messages: limit(CapacityLimits::capacity_messages),
        flow_resume_messages: limit(CapacityLimits::resume_messages),
        memory_limit_bytes: flow.memory_limit_bytes,
        memory_high_water_bytes: flow.memory_high_water_bytes,
        over_memory_share: flow.over_memory_share,
        resident_bytes: flow.resident_bytes,
        paged_messages: flow.paged_messages,
        parked_messages: flow.parked_messages,
        parked_bytes: flow.parked_bytes,
        held_channels: held,
        held_channels_total,
    })
}

fn held_channel(held: &observe::HeldChannel) -> HeldChannel {
    HeldChannel {
        name: held.channel.name(),
        user: held.channel.connection().user().to_string(),
        parked_messages: held.parked_messages,
        parked_bytes: held.parked_bytes,
        hold: channel_hold(&held.channel),
    }
}

/// What a channel waits for; `None` when nothing holds it.
pub(crate) fn channel_hold(channel: &ChannelView) -> Option<ChannelHold> {
    let hold = channel.hold()?;
    let now_ms = now_ms();
    let held_by = hold.held_by.iter().map(|by| HeldBy {
        queue: by.queue.to_string(),
        vhost: by.vhost.to_string(),
        cause: by.cause.clone(),
        held_ms: now_ms.saturating_sub(by.since_ms),
    });
    let levers = [
        (hold.flow_sent, "channel.flow"),
        (hold.confirms_withheld, "confirms-withheld"),
        (hold.blocked_sent, "connection.blocked"),
        (hold.reading_stopped, "socket-not-read"),
    ];
    let levers = levers.into_iter().filter(|(is_used, _)| *is_used);
    Some(ChannelHold {
        stage: match hold.stage {
            Stage::Open | Stage::Held => "held",
            Stage::Pressed => "pressed",
            Stage::Rejecting => "rejecting",
        }
        .to_owned(),
        held_ms: now_ms.saturating_sub(hold.since_ms),
        held_by: held_by.collect(),
        parked_messages: hold.parked_messages,
        parked_bytes: hold.parked_bytes,
        spilled_bytes: hold.spilled_bytes,
        levers: levers.map(|(_, lever)| lever.to_owned()).collect(),
    })
}
