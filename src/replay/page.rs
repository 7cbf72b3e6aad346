//! Output for people: tables, as text for the terminal, and in a page with charts.
//!
//! The page has no scripts and loads nothing from the network, so its folder can be sent to a
//! colleague and still opens in years.

use std::fmt::Write;

use super::charts::Chart;

const STYLE: &str = "body{font:16px/1.5 sans-serif;color:#282828;background:#fff;max-width:1020px;\
                     margin:2em auto;padding:0 1em}table{border-collapse:collapse;margin:1em 0}\
                     th,td{padding:.25em .9em;border-bottom:1px solid #e4e4e4;text-align:left}\
                     td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
                     img{width:100%;height:auto;margin:.6em 0}";

/// Returns the text of a page. `introduction` is HTML, a paragraph below the title. The images of the
/// charts are in the folder of the page.
pub(crate) fn page(
    title: &str,
    introduction: &str,
    tables: &[SummaryTable],
    charts: &[Chart],
) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n\
         <p>{introduction}</p>\n"
    );
    for table in tables {
        push_table(&mut html, table);
    }
    for chart in charts {
        let (file, title) = (chart.file, chart.title);
        push(&mut html, format_args!("<img src=\"{file}\" alt=\"{title} over virtual time\">\n"));
    }
    html.push_str("</html>\n");
    html
}

/// Formats tables with an empty line after each.
pub(crate) fn text_of(tables: &[SummaryTable]) -> String {
    tables.iter().map(|table| table.to_text() + "\n").collect()
}

/// A table whose first columns are texts, of which the first names the row. The others are figures.
pub(crate) struct SummaryTable {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// The number of columns that are texts, at least one.
    pub(crate) n_texts: usize,
}

/// Makes the head of a table.
pub(crate) fn head(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

impl SummaryTable {
    /// Pads columns to their widest field, texts at the left and figures at the right.
    fn to_text(&self) -> String {
        let lines: Vec<&Vec<String>> = std::iter::once(&self.head).chain(&self.rows).collect();
        let width = |column: usize| {
            lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        for line in lines {
            let mut row = String::new();
            for (at, (field, &width)) in line.iter().zip(&widths).enumerate() {
                let gap = if at == 0 { "" } else { "  " };
                if at < self.n_texts {
                    push(&mut row, format_args!("{gap}{field:<width$}"));
                } else {
                    push(&mut row, format_args!("{gap}{field:>width$}"));
                }
            }
            text.push_str(row.trim_end());
            text.push('\n');
        }
        text
    }
}

fn push_table(html: &mut String, table: &SummaryTable) {
    html.push_str("<table>\n<tr>");
    for (at, field) in table.head.iter().enumerate() {
        let class = if at < table.n_texts { "" } else { " class=\"n\"" };
        push(html, format_args!("<th{class}>{}</th>", escaped(field)));
    }
    html.push_str("</tr>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for (at, field) in row.iter().enumerate() {
            let class = if at < table.n_texts { "" } else { " class=\"n\"" };
            push(html, format_args!("<td{class}>{}</td>", escaped(field)));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</table>\n");
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    // Writing to a text cannot fail.
    let _ = text.write_fmt(more);
}

/// Escapes a text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_text_table_line_up() {
        let rows = vec![
            vec!["root.be".to_owned(), "7".to_owned()],
            vec!["a".to_owned(), "1234".to_owned()],
        ];
        let mut table = SummaryTable { head: head(&["Queue", "pods"]), rows, n_texts: 1 };
        assert_eq!(table.to_text(), "Queue    pods\nroot.be     7\na        1234\n");
        table.n_texts = 2;
        assert_eq!(table.to_text(), "Queue    pods\nroot.be  7\na        1234\n");
    }

    #[test]
    fn queue_names_cannot_break_the_page() {
        assert_eq!(escaped("a<b&\"c\""), "a&lt;b&amp;&quot;c&quot;");
    }
}
