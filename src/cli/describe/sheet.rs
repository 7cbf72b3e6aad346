//! The description of an item: lines, then tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use monoceros_actors::readable;
use monoceros_proto::si::v1 as si;

use crate::cli::amounts::{Amounts, age, amounts, moment};
use crate::cli::table::Table;
use crate::clock::now_ns;
use crate::logging::clean;

/// Most rows of a table.
pub(super) const MOST_ROWS: usize = 200;

/// The description of an item: lines of a title and a value, then tables.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    lines: Vec<(&'static str, String)>,
    tables: String,
}

impl Sheet {
    /// Adds a line, unless the value is empty.
    pub(super) fn line(&mut self, title: &'static str, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.lines.push((title, value));
        }
    }

    /// Adds a time and its age, unless the time is not set.
    pub(super) fn time(&mut self, title: &'static str, at_ns: i64) {
        if at_ns > 0 {
            self.line(title, format!("{} ({} ago)", moment(at_ns), age(at_ns, now_ns())));
        }
    }

    /// Adds a table, unless it has no rows.
    pub(super) fn table<const N: usize>(
        &mut self,
        title: &str,
        head: [&str; N],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) {
        let mut rows: Vec<_> = rows.into_iter().collect();
        if rows.is_empty() {
            return;
        }
        let n_more = rows.len().saturating_sub(MOST_ROWS);
        rows.truncate(MOST_ROWS);
        let _ = writeln!(self.tables, "{title}:");
        for line in Table::new(head).part(rows).lines() {
            let _ = writeln!(self.tables, "  {line}");
        }
        if n_more > 0 {
            let _ = writeln!(self.tables, "  … and {n_more} more");
        }
    }

    pub(super) fn shown(&self) -> String {
        let width = self.lines.iter().map(|(title, _)| title.len()).max().unwrap_or_default() + 1;
        let mut text = String::new();
        for (title, value) in &self.lines {
            let title = format!("{title}:");
            let _ = writeln!(text, "{title:<width$}  {}", clean(value));
        }
        text + &self.tables
    }

    /// Adds a table of amounts, with one row per type.
    pub(super) fn by_type<const N: usize, const M: usize>(
        &mut self,
        head: [&str; N],
        columns: [&Option<si::Resource>; M],
    ) {
        let columns = columns.map(|column| amounts(column.as_ref()));
        let named: BTreeSet<&String> = columns.iter().flat_map(|column| column.keys()).collect();
        let row = |name: &String| {
            let cell = |column: &Amounts| {
                column.get(name).map(|value| readable::short(name, *value)).unwrap_or_default()
            };
            [name.clone()].into_iter().chain(columns.iter().map(cell)).collect()
        };
        self.table("Amounts", head, named.into_iter().map(row));
    }
}

/// Returns the rows of a table of names and values, sorted.
pub(super) fn sorted<'m>(
    map: impl IntoIterator<Item = (&'m String, &'m String)>,
) -> impl Iterator<Item = Vec<String>> {
    let mut rows: Vec<_> =
        map.into_iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
    rows.sort();
    rows.into_iter()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_sheet_has_lines_then_tables_without_empty_ones() {
        let mut sheet = Sheet::default();
        sheet.line("Node", "n1");
        sheet.line("Rack", "");
        sheet.time("Started", 0);
        sheet.line("Reserved by", "a\nb");
        sheet.table("Nothing", ["A"], []);
        sheet.table("Things", ["A", "B"], [vec!["x".to_owned(), String::new()]]);
        expect![[r#"
            Node:         n1
            Reserved by:  a\nb
            Things:
              A   B
              x   -
        "#]]
        .assert_eq(&sheet.shown());
    }

    #[test]
    fn a_long_table_states_how_many_rows_are_omitted() {
        let mut sheet = Sheet::default();
        sheet.table("Things", ["A"], (0..MOST_ROWS + 3).map(|n| vec![n.to_string()]));
        let shown = sheet.shown();
        assert!(shown.ends_with("  199\n  … and 3 more\n"), "{shown}");
    }
}
