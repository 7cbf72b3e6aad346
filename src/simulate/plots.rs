//! The charts of a trace's report.

use super::amount::{ResourceKind, ratio};
use super::report::{Report, SeriesColumns};
use crate::replay::charts::{Axis, Chart, ChartError, MOST_LINES, Plot, PlotLine, TimeAxis, line};
use crate::replay::numbers::title;

/// Draws all charts of a report.
pub(crate) fn charts(report: &Report) -> Result<Vec<Chart>, ChartError> {
    let series = &report.series;
    let (start, makespan) = (report.trace.start, report.totals.makespan);
    let time = TimeAxis::since("the first pod", start, makespan, &series.time);
    [
        Plot {
            file: "utilisation.svg",
            title: "Utilisation",
            y: Axis::Percent("share of capacity allocated"),
            lines: utilisation(report),
        },
        Plot {
            file: "pending.svg",
            title: "Pods that wait and run",
            y: Axis::Count("pods"),
            lines: vec![
                line("pending", series.pending_pods.iter().map(|&count| count as f64)),
                line("running", series.running_pods.iter().map(|&count| count as f64)),
            ],
        },
        Plot {
            file: "queue-shares.svg",
            title: "Dominant share of each leaf queue",
            y: Axis::Percent("largest share of any resource"),
            lines: queue_shares(series),
        },
        Plot {
            file: "fragmentation.svg",
            title: "Fragmentation",
            y: Axis::Percent("free amount a random pod cannot use"),
            lines: fragmentation(series),
        },
        Plot {
            file: "fairness.svg",
            title: "How well each leaf queue is served",
            y: Axis::Percent("part of what it wants and is owed"),
            lines: fairness(series),
        },
    ]
    .into_iter()
    .map(|plot| plot.draw(&time))
    .collect()
}

fn utilisation(report: &Report) -> Vec<PlotLine> {
    let used = |kind: &ResourceKind| {
        let capacity = report.trace.capacity[kind.name()];
        let allocated = report.series.allocated[kind.name()].iter();
        line(title(kind.name()), allocated.map(move |&held| 100.0 * ratio(held, capacity)))
    };
    ResourceKind::SHOWN.iter().map(used).collect()
}

/// Draws the leaves with the largest peaks. The JSON has all.
fn queue_shares(series: &SeriesColumns) -> Vec<PlotLine> {
    let peak = |shares: &[f64]| shares.iter().copied().fold(0.0, f64::max);
    let mut leaves: Vec<_> =
        series.queues.iter().map(|(path, columns)| (path, &columns.dominant_share)).collect();
    // The sort is stable: leaves with equal peaks stay in the order of their paths.
    leaves.sort_by(|(_, a), (_, b)| peak(b).total_cmp(&peak(a)));
    leaves.truncate(MOST_LINES);
    leaves
        .into_iter()
        .map(|(path, shares)| line(path, shares.iter().map(|share| 100.0 * share)))
        .collect()
}

/// Draws the leaves with the lowest values. A leaf that wants nothing counts as fully served.
fn fairness(series: &SeriesColumns) -> Vec<PlotLine> {
    let whole = |shares: &[Option<f64>]| -> Vec<f64> {
        shares.iter().map(|share| share.unwrap_or(1.0)).collect()
    };
    let least = |shares: &[f64]| shares.iter().copied().fold(1.0, f64::min);
    let mut leaves: Vec<_> =
        series.queues.iter().map(|(path, columns)| (path, whole(&columns.served))).collect();
    // The sort is stable: leaves with equal minima stay in the order of their paths.
    leaves.sort_by(|(_, a), (_, b)| least(a).total_cmp(&least(b)));
    leaves.truncate(MOST_LINES);
    let lines = leaves.into_iter();
    lines.map(|(path, shares)| line(path, shares.iter().map(|share| 100.0 * share))).collect()
}

fn fragmentation(series: &SeriesColumns) -> Vec<PlotLine> {
    let measured = |kind: &ResourceKind| {
        let measured = series.fragmentation[kind.name()].iter();
        line(title(kind.name()), measured.map(|share| 100.0 * share))
    };
    [ResourceKind::Vcore, ResourceKind::Gpu].iter().map(measured).collect()
}
