//! A table with aligned columns.

use console::{measure_text_width, pad_str, style, truncate_str};
use std::fmt::Write;

/// The space between two columns.
const GAP: &str = "  ";

/// Rows under a heading. Cells may contain colours.
#[derive(Clone, Debug, Default)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns an empty table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        Table { headings: headings.iter().map(|heading| heading.to_uppercase()).collect(), rows: Vec::new() }
    }

    /// Adds a row. Line breaks in cells become spaces.
    pub fn row(&mut self, cells: Vec<String>) {
        let one_line = |cell: String| cell.replace(['\n', '\r', '\t'], " ");
        self.rows.push(cells.into_iter().map(one_line).collect());
    }

    /// Reports whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table as lines. A line longer than `width` loses its end, so that each row stays one line.
    pub fn draw(&self, width: usize) -> String {
        let mut widths: Vec<usize> =
            self.headings.iter().map(|heading| measure_text_width(heading)).collect();
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                widths[column] = widths[column].max(measure_text_width(cell));
            }
        }
        let mut text = String::new();
        let headings: Vec<String> =
            self.headings.iter().map(|heading| style(heading).dim().to_string()).collect();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let is_last = column + 1 == row.len();
                if is_last {
                    line.push_str(cell);
                } else {
                    let cell = pad_str(cell, widths[column], console::Alignment::Left, None);
                    let _ = write!(line, "{cell}{GAP}");
                }
            }
            text.push_str(&truncate_str(line.trim_end(), width, "…"));
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_the_last_one_is_cut() {
        console::set_colors_enabled(false);
        let mut table = Table::new(&["name", "note"]);
        table.row(vec!["a".into(), "one\ntwo".into()]);
        table.row(vec!["größe".into(), "x".repeat(30)]);
        assert_eq!(table.draw(20), "NAME   NOTE\na      one two\ngröße  xxxxxxxxxxxx…\n");
    }
}
