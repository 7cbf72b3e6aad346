//! Output for people: a page with the charts, and the summary on the terminal.
//!
//! The page has no scripts and loads nothing from the network, so its folder can be sent to a
//! colleague and still opens in years.

use std::fmt::Write;

use super::amount::ResourceKind;
use super::charts::Chart;
use super::compare::Comparison;
use super::numbers::{amount_seconds, duration, percent, title};
use super::report::{Report, Waits};

const STYLE: &str = "body{font:16px/1.5 sans-serif;color:#282828;background:#fff;max-width:1020px;\
                     margin:2em auto;padding:0 1em}table{border-collapse:collapse;margin:1em 0}\
                     th,td{padding:.25em .9em;border-bottom:1px solid #e4e4e4;text-align:left}\
                     td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
                     img{width:100%;height:auto;margin:.6em 0}";

/// Returns the text of `index.html`, which shows the charts of the same folder.
pub(crate) fn index_html(report: &Report, charts: &[Chart]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <title>Simulation report</title>\n<style>{STYLE}</style>\n<h1>Simulation report</h1>\n"
    );
    let trace = &report.trace;
    push(
        &mut html,
        format_args!(
            "<p>{} pods on {} nodes, seed {}. All numbers are in <a href=\"report.json\">\
             report.json</a>.</p>\n",
            trace.pods, trace.nodes, report.seed
        ),
    );
    for table in tables(report) {
        push_table(&mut html, &table);
    }
    for chart in charts {
        let (file, title) = (chart.file, chart.title);
        push(&mut html, format_args!("<img src=\"{file}\" alt=\"{title} over virtual time\">\n"));
    }
    html.push_str("</html>\n");
    html
}

/// Returns the summary that is printed at the end.
pub(crate) fn summary(report: &Report) -> String {
    text_of(&tables(report))
}

/// Returns the text of a comparison's `index.html`, with links to both reports.
pub(crate) fn comparison_html(comparison: &Comparison) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <title>Comparison of two simulations</title>\n<style>{STYLE}</style>\n\
         <h1>Comparison of two simulations</h1>\n\
         <p>The reports are <a href=\"a/index.html\">a</a> and <a href=\"b/index.html\">b</a>. All \
         numbers are in <a href=\"compare.json\">compare.json</a>.</p>\n"
    );
    for table in comparison.tables() {
        push_table(&mut html, &table);
    }
    html.push_str("</html>\n");
    html
}

/// Returns the summary of a comparison that is printed at the end.
pub(crate) fn comparison_summary(comparison: &Comparison) -> String {
    text_of(&comparison.tables())
}

/// Formats tables with an empty line after each.
fn text_of(tables: &[SummaryTable]) -> String {
    tables.iter().map(|table| table.to_text() + "\n").collect()
}

/// A table whose first column names the row. The others are figures.
pub(crate) struct SummaryTable {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

fn tables(report: &Report) -> Vec<SummaryTable> {
    let mut tables = vec![totals(report), utilisation(report), queues(report)];
    if report.evictions.count > 0 {
        tables.extend([evictions(report), waste(report)]);
    }
    tables.extend([fairness(report), fairness_over_time(report)]);
    tables
}

fn totals(report: &Report) -> SummaryTable {
    let totals = &report.totals;
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        row("pods", totals.pods.to_string()),
        row("placed", totals.placed.to_string()),
        row("never placed", totals.never_placed.to_string()),
    ];
    let reasons = [
        ("  withdrawn in time", totals.withdrawn),
        ("  still waiting at the end", totals.unplaced),
        ("  rejected", totals.rejected),
        ("preemptions", usize::try_from(totals.preemptions).unwrap_or(usize::MAX)),
        ("  never placed again", totals.preempted),
    ];
    let reasons = reasons.iter().filter(|(_, count)| *count > 0);
    rows.extend(reasons.map(|(name, count)| row(name, count.to_string())));
    rows.push(row("most pending at once", totals.most_pending.to_string()));
    rows.push(row("makespan", duration(totals.makespan)));
    SummaryTable { head: head(&["Totals", ""]), rows }
}

fn utilisation(report: &Report) -> SummaryTable {
    let row = |kind: &ResourceKind| {
        let (mean, peak) = (&report.totals.mean_utilisation, &report.totals.peak_utilisation);
        vec![title(kind.name()).to_owned(), percent(mean[kind.name()]), percent(peak[kind.name()])]
    };
    SummaryTable {
        head: head(&["Utilisation", "mean", "peak"]),
        rows: ResourceKind::SHOWN.iter().map(row).collect(),
    }
}

fn queues(report: &Report) -> SummaryTable {
    let row = |name: &str, pods: usize, placed: usize, wait: &Waits| {
        let mut row = vec![name.to_owned(), pods.to_string(), placed.to_string()];
        row.extend([wait.mean, wait.p50, wait.p95, wait.p99, wait.max].map(duration));
        row
    };
    let mut rows: Vec<_> =
        report.queues.iter().map(|of| row(&of.queue, of.pods, of.placed, &of.wait)).collect();
    let totals = &report.totals;
    rows.push(row("all", totals.pods, totals.placed, &totals.wait));
    let columns = ["Queue", "pods", "placed", "mean wait", "p50", "p95", "p99", "longest"];
    SummaryTable { head: head(&columns), rows }
}

fn evictions(report: &Report) -> SummaryTable {
    let rows = report.evictions.by_grounds.iter().map(|row| {
        let gains = row.for_queue.as_deref().unwrap_or("-");
        let mut fields = vec![row.queue.clone(), row.grounds.clone(), gains.to_owned()];
        fields.push(row.count.to_string());
        fields.extend(
            ResourceKind::SHOWN.map(|kind| amount_seconds(kind.name(), row.wasted[kind.name()])),
        );
        fields
    });
    let columns = ["Evicted from", "grounds", "for", "pods", "CPU wasted", "memory", "GPU"];
    SummaryTable { head: head(&columns), rows: rows.collect() }
}

fn waste(report: &Report) -> SummaryTable {
    let row = |kind: ResourceKind| {
        let wasted = amount_seconds(kind.name(), report.evictions.wasted[kind.name()]);
        let share = percent(report.evictions.wasted_share[kind.name()]);
        vec![title(kind.name()).to_owned(), wasted, share]
    };
    let head = head(&["Wasted", "lost to evictions", "of all used"]);
    SummaryTable { head, rows: ResourceKind::SHOWN.map(row).to_vec() }
}

fn fairness(report: &Report) -> SummaryTable {
    let fairness = &report.fairness;
    let mut rows: Vec<_> = fairness
        .queues
        .iter()
        .map(|of| {
            let served = of.served.map_or("-".to_owned(), percent);
            vec![of.queue.clone(), percent(of.of_owed), served, duration(of.short)]
        })
        .collect();
    let row =
        |name: &str, value: String| vec![name.to_owned(), String::new(), value, String::new()];
    rows.push(row("Jain's index while pods waited", percent(fairness.jain)));
    rows.push(row("  the least", percent(fairness.least_jain)));
    let columns = ["Fairness", "had of what it is owed", "served while it wanted", "short for"];
    SummaryTable { head: head(&columns), rows }
}

fn fairness_over_time(report: &Report) -> SummaryTable {
    let table = &report.fairness.over_time;
    let start = report.trace.start;
    let until = table.until.iter().map(|until| format!("to {}", duration(until - start)));
    let row = |name: &str, shares: &[Option<f64>]| {
        let shares = shares.iter().map(|share| share.map_or("-".to_owned(), percent));
        std::iter::once(name.to_owned()).chain(shares).collect()
    };
    let mut rows: Vec<Vec<String>> =
        table.served.iter().map(|(queue, shares)| row(queue, shares)).collect();
    rows.push(row("Jain's index", &table.jain));
    SummaryTable { head: std::iter::once("Served".to_owned()).chain(until).collect(), rows }
}

fn head(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

impl SummaryTable {
    /// Pads columns to their widest field, with figures aligned to the right.
    fn to_text(&self) -> String {
        let lines: Vec<&Vec<String>> = std::iter::once(&self.head).chain(&self.rows).collect();
        let width = |column: usize| {
            lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        for line in lines {
            let mut row = format!("{:<width$}", line[0], width = widths[0]);
            for (field, width) in line.iter().zip(&widths).skip(1) {
                push(&mut row, format_args!("  {field:>width$}"));
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
        let class = if at == 0 { "" } else { " class=\"n\"" };
        push(html, format_args!("<th{class}>{}</th>", escaped(field)));
    }
    html.push_str("</tr>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for (at, field) in row.iter().enumerate() {
            let class = if at == 0 { "" } else { " class=\"n\"" };
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

fn escaped(text: &str) -> String {
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
        let text = SummaryTable { head: head(&["Queue", "pods"]), rows }.to_text();
        assert_eq!(text, "Queue    pods\nroot.be     7\na        1234\n");
    }

    #[test]
    fn queue_names_cannot_break_the_page() {
        assert_eq!(escaped("a<b&\"c\""), "a&lt;b&amp;&quot;c&quot;");
    }
}
