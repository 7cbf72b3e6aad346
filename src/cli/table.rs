//! Aligned columns for people, without lines between them.
//!
//! # Why a crate
//! Names may have wide characters, and a column must have the displayed width, not the length. Only
//! the arrangement of the crate is used: no colours, no terminal.

use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Width};

use crate::logging::clean;

/// Characters between columns.
const GAP: u16 = 3;

/// Longest cell in characters. Documents have the full text.
const LONGEST_CELL: usize = 500;

/// A table printed in parts. Later parts have at least the column widths of earlier ones.
#[derive(Debug)]
pub(super) struct Table {
    head: Option<Vec<String>>,
    widths: Vec<u16>,
}

impl Table {
    /// Makes a table with these column titles.
    pub(super) fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Self {
        let head: Vec<String> = head.into_iter().map(Into::into).collect();
        Self { widths: vec![0; head.len()], head: Some(head) }
    }

    /// Formats rows as lines, the first time with the titles. Cells may come from outside, and are
    /// put on one line.
    pub(super) fn part(&mut self, rows: impl IntoIterator<Item = Vec<String>>) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if let Some(head) = self.head.take() {
            table.add_row(head);
        }
        table.add_rows(rows.into_iter().map(|cells| Row::from(cells.iter().map(|it| cell(it)))));
        if table.is_empty() {
            return String::new();
        }
        let content = table.column_max_content_widths();
        for (column, width) in table.column_iter_mut().zip(&mut self.widths) {
            column.set_padding((0, GAP));
            *width = (*width).max(content[column.index].saturating_add(GAP));
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*width)));
        }
        table.trim_fmt() + "\n"
    }
}

/// Cleans a cell and limits its length. An empty cell is shown as `-`, so that columns can be
/// counted.
fn cell(text: &str) -> String {
    let text = clean(text);
    match text.char_indices().nth(LONGEST_CELL) {
        _ if text.is_empty() => "-".to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|&cell| cell.to_owned()).collect()
    }

    #[test]
    fn columns_stay_aligned_across_parts_and_wide_characters() {
        let mut table = Table::new(["NAME", "STATE"]);
        expect![[r#"
            NAME         STATE
            大小         Open
            a-long-one   Closed
        "#]]
        .assert_eq(&table.part([row(&["大小", "Open"]), row(&["a-long-one", "Closed"])]));
        expect![[r#"
            b            Open
            -            \u{1b}[2J\n
        "#]]
        .assert_eq(&table.part([row(&["b", "Open"]), row(&["", "\u{1b}[2J\n"])]));
        assert_eq!(table.part([]), "");
    }

    #[test]
    fn a_long_cell_is_cut() {
        let shown = Table::new(["A"]).part([row(&["ü".repeat(9_999).as_str()])]);
        assert_eq!(shown.chars().filter(|c| *c == 'ü').count(), LONGEST_CELL);
    }
}
