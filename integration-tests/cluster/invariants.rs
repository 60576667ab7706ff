//! What must hold whatever happens to the nodes, one file each. Each judges a history and answers what
//! is wrong.

pub(crate) mod confirmed_is_not_lost;
pub(crate) mod minority_confirms_nothing;
pub(crate) mod order_is_kept;
pub(crate) mod settled_stays_settled;

/// Faults that are told one by one; more would drown the first.
pub(crate) const TOLD_MAX: usize = 10;
