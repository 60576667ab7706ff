//! Aligned columns: numbers to the right, all else to the left, nothing drawn between them.

use std::fmt;

/// A table being filled.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Option<Vec<String>>,
    rows: Vec<Vec<String>>,
    columns: usize,
}

/// Blanks between columns.
const GAP: &str = "  ";

impl Table {
    pub(crate) fn new(heads: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let heads: Vec<String> = heads.into_iter().map(Into::into).collect();
        Self {
            columns: heads.len(),
            heads: Some(heads),
            rows: Vec::new(),
        }
    }

    /// A table of so many columns without a head.
    pub(crate) fn headless(columns: usize) -> Self {
        Self {
            heads: None,
            rows: Vec::new(),
            columns,
        }
    }

    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        let one_line = |cell: String| cell.replace(['\n', '\r', '\t'], " ");
        let cells = cells.into_iter().map(Into::into).map(one_line);
        self.rows.push(cells.collect());
    }

    fn cell(row: &[String], column: usize) -> &str {
        row.get(column).map_or("", String::as_str)
    }

    /// A column of numbers stands to the right.
    fn is_numeric(&self, column: usize) -> bool {
        let mut seen = false;
        for row in &self.rows {
            let cell = Self::cell(row, column);
            if cell.is_empty() {
                continue;
            }
            if cell.parse::<f64>().is_err() {
                return false;
            }
            seen = true;
        }
        seen && self.heads.is_some()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || self.heads.iter().chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns)
            .map(|column| {
                let of = |row: &Vec<String>| Self::cell(row, column).chars().count();
                lines().map(of).max().unwrap_or_default()
            })
            .collect();
        let numeric: Vec<bool> = (0..self.columns).map(|c| self.is_numeric(c)).collect();
        for row in lines() {
            let mut line = String::new();
            for (column, (width, numeric)) in widths.iter().zip(&numeric).enumerate() {
                let cell = Self::cell(row, column);
                if column > 0 {
                    line.push_str(GAP);
                }
                let blanks = " ".repeat(width - cell.chars().count());
                match numeric {
                    true => line.extend([blanks.as_str(), cell]),
                    false => line.extend([cell, blanks.as_str()]),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
