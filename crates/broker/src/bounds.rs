//! Every bound of the running node, with the sum in the comments.

/// Signals that wait for one connection: one close per channel at most (2,047), one close of the
/// connection, and a few alarms.
pub(crate) const SIGNALS_MAX: usize = 2_100;

/// Bytes published and not yet applied, over all groups, above which publishers' sockets are not
/// read. One journal write of this size takes well under a second on an ordinary disk.
pub(crate) const STAGED_BYTES_MAX: usize = 64 << 20;

/// Deliveries and bytes of one dispatch slice: the queue's lock is held for no longer, and an
/// outbox overshoots its mark by no more than one slice.
pub(crate) const DISPATCH_SLICE: usize = 256;
/// See [`DISPATCH_SLICE`].
pub(crate) const DISPATCH_SLICE_BYTES: usize = 256 << 10;

/// Routes a channel remembers; the table is emptied when it is full.
pub(crate) const ROUTES_CACHED_MAX: usize = 1_024;

/// Bytes of publishes that one transaction may hold.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 256 << 20;
