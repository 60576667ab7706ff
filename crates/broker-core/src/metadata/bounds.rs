//! How much the topology may hold. Each bound is far beyond what one cluster is used for and keeps
//! a client, or a script, from filling the memory.
//!
//! Sum at all bounds, at about 400 B a queue, 500 B an exchange and 300 B a binding: 1.7 GB.

/// Most vhosts, whatever the operator's own limit is.
pub const VHOSTS_MAX: usize = 100_000;

/// Most users.
pub const USERS_MAX: usize = 100_000;

/// Most queues.
pub const QUEUES_MAX: usize = 1_000_000;

/// Most exchanges, the standard ones of each vhost included.
pub const EXCHANGES_MAX: usize = 1_000_000;

/// Most bindings.
pub const BINDINGS_MAX: usize = 3_000_000;

/// Most runtime parameters of a vhost, and most global ones.
pub const PARAMETERS_MAX: usize = 10_000;
