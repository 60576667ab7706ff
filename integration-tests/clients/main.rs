//! Placeholder.
fn _x() {}
