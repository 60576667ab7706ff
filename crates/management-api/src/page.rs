//! One page of a list.

use serde::{Deserialize, Serialize};

/// Answer to a list request with `page`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Page<T> {
    /// Items that the filter left.
    pub filtered_count: usize,
    /// Items of this page.
    pub item_count: usize,
    /// The page.
    pub items: Vec<T>,
    /// Its number, from 1.
    pub page: usize,
    /// How many there are.
    pub page_count: usize,
    /// Most items of a page.
    pub page_size: usize,
    /// Items before the filter.
    pub total_count: usize,
}
