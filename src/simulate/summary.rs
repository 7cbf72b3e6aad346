//! The tables of a trace's report, for its page and for the summary on the terminal.

use super::amount::ResourceKind;
use super::report::Report;
use crate::replay::charts::Chart;
use crate::replay::compare::Comparison;
use crate::replay::numbers::{amount_seconds, duration, percent, title};
use crate::replay::page::{SummaryTable, head, page, text_of};
use crate::replay::waits::Waits;

/// Returns the text of `index.html`, which shows the charts of the same folder.
pub(crate) fn index_html(report: &Report, charts: &[Chart]) -> String {
    let trace = &report.trace;
    let introduction = format!(
        "{} pods on {} nodes, seed {}. All numbers are in <a href=\"report.json\">report.json</a>.",
        trace.pods, trace.nodes, report.seed
    );
    page("Simulation report", &introduction, &tables(report), charts)
}

/// Returns the summary that is printed at the end.
pub(crate) fn summary(report: &Report) -> String {
    text_of(&tables(report))
}

/// Returns the text of a comparison's `index.html`, with links to both reports.
pub(crate) fn comparison_html(comparison: &Comparison) -> String {
    let introduction = "The reports are <a href=\"a/index.html\">a</a> and \
                        <a href=\"b/index.html\">b</a>. All numbers are in \
                        <a href=\"compare.json\">compare.json</a>.";
    page("Comparison of two simulations", introduction, &comparison.tables(), &[])
}

/// Returns the summary of a comparison that is printed at the end.
pub(crate) fn comparison_summary(comparison: &Comparison) -> String {
    text_of(&comparison.tables())
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
    SummaryTable { head: head(&["Totals", ""]), rows, n_texts: 1 }
}

fn utilisation(report: &Report) -> SummaryTable {
    let row = |kind: &ResourceKind| {
        let (mean, peak) = (&report.totals.mean_utilisation, &report.totals.peak_utilisation);
        vec![title(kind.name()).to_owned(), percent(mean[kind.name()]), percent(peak[kind.name()])]
    };
    SummaryTable {
        head: head(&["Utilisation", "mean", "peak"]),
        rows: ResourceKind::SHOWN.iter().map(row).collect(),
        n_texts: 1,
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
    SummaryTable { head: head(&columns), rows, n_texts: 1 }
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
    SummaryTable { head: head(&columns), rows: rows.collect(), n_texts: 3 }
}

fn waste(report: &Report) -> SummaryTable {
    let row = |kind: ResourceKind| {
        let wasted = amount_seconds(kind.name(), report.evictions.wasted[kind.name()]);
        let share = percent(report.evictions.wasted_share[kind.name()]);
        vec![title(kind.name()).to_owned(), wasted, share]
    };
    let head = head(&["Wasted", "lost to evictions", "of all used"]);
    SummaryTable { head, rows: ResourceKind::SHOWN.map(row).to_vec(), n_texts: 1 }
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
    SummaryTable { head: head(&columns), rows, n_texts: 1 }
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
    let head = std::iter::once("Served".to_owned()).chain(until).collect();
    SummaryTable { head, rows, n_texts: 1 }
}
