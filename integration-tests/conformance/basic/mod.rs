//! Class basic.

mod get;
