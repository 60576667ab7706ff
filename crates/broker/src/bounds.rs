//! Every bound of the running node, with the sum in the comments.

/// Signals that wait for one connection: one close per channel at most (2,047), one close of the
/// connection, and a few alarms.
pub(crate) const SIGNALS_MAX: usize = 2_100;

/// Bytes published and not yet applied, over all groups, above which publishers' sockets are not
/// read. One journal write of this size takes well under a second on an ordinary disk.
pub(crate) const STAGED_BYTES_MAX: usize = 64 << 20;

/// Bytes that may be under way to queues without having been looked at when memory becomes tight: what
/// is staged, and the turns of as many connections as have one at a time. Only what checks the memory's
/// limit in debug builds needs it.
#[cfg(debug_assertions)]
pub(crate) const UNSEEN_BYTES_MAX: u64 = 2 * STAGED_BYTES_MAX as u64;

/// Deliveries and bytes of one dispatch slice: the queue's lock is held for no longer, and an
/// outbox overshoots its mark by no more than one slice.
pub(crate) const DISPATCH_SLICE: usize = 256;
/// See [`DISPATCH_SLICE`].
pub(crate) const DISPATCH_SLICE_BYTES: usize = 256 << 10;

/// Routes a channel remembers; the table is emptied when it is full.
pub(crate) const ROUTES_CACHED_MAX: usize = 1_024;

/// Bytes of publishes that one transaction may hold.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 256 << 20;

/// Users and vhosts whose connections in a second are remembered; those at rest are forgotten when
/// there are more.
pub(crate) const CONNECTION_RATES_MAX: usize = 10_000;

/// Consumers that wait for room in what their user or vhost has in hand; when there are more, those of
/// deleted queues are forgotten.
pub(crate) const WAITING_KEPT: usize = 1_024;

/// How long a client's call at a queue of another node waits for that node, or for a leader.
pub(crate) const REMOTE_CALL_MS_MAX: u64 = 15_000;

/// How long a change of the metadata waits for a majority of the nodes.
pub(crate) const METADATA_MS_MAX: u64 = 20_000;

/// Publish rates of users and vhosts that are remembered; those that no channel uses and that are
/// at rest are forgotten when there are more.
pub(crate) const PUBLISH_RATES_MAX: usize = 10_000;
