//! The single numbers of a trace's report, which a comparison sets side by side.

use super::amount::ResourceKind;
use super::report::Report;
use crate::replay::compare::{Figure, Unit};
use crate::replay::numbers::title;
use crate::replay::waits::Waits;

/// Returns the single numbers of a report, in order.
pub(crate) fn figures(report: &Report) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut section = |section: &'static str, rows: Vec<(String, Unit, f64)>| {
        let figure = |(name, unit, value)| Figure { section, name, unit, value };
        figures.extend(rows.into_iter().map(figure));
    };
    let totals = &report.totals;
    let count = |name: &str, count: usize| (name.to_owned(), Unit::Count, count as f64);
    section(
        "Pods",
        vec![
            count("pods", totals.pods),
            count("placed", totals.placed),
            count("never placed", totals.never_placed),
            count("completed", totals.completed),
            count("withdrawn", totals.withdrawn),
            count("still waiting at the end", totals.unplaced),
            count("rejected", totals.rejected),
            count("never placed again", totals.preempted),
            count("most pending at once", totals.most_pending),
            ("makespan".to_owned(), Unit::Seconds, totals.makespan),
        ],
    );
    let mut waits_of_all = waits("all", &totals.wait);
    for queue in &report.queues {
        waits_of_all.extend(waits(&queue.queue, &queue.wait));
    }
    section("Waits", waits_of_all);
    let mean = |kind: &ResourceKind| {
        let mean = totals.mean_utilisation[kind.name()];
        (format!("{}, mean", title(kind.name())), Unit::Share, mean)
    };
    section("Utilisation", ResourceKind::SHOWN.iter().map(mean).collect());
    section("Evictions", evictions(report));
    section("Fairness", fairness(report));
    figures
}

fn waits(of: &str, waits: &Waits) -> Vec<(String, Unit, f64)> {
    let rows =
        [("mean", waits.mean), ("p50", waits.p50), ("p95", waits.p95), ("longest", waits.max)];
    rows.into_iter().map(|(name, wait)| (format!("{of}, {name}"), Unit::Seconds, wait)).collect()
}

fn evictions(report: &Report) -> Vec<(String, Unit, f64)> {
    let evictions = &report.evictions;
    let mut rows = vec![("evictions".to_owned(), Unit::Count, evictions.count as f64)];
    for row in &evictions.by_grounds {
        let gains = row.for_queue.as_deref().map_or(String::new(), |queue| format!(" of {queue}"));
        let name = format!("  {}: {}{gains}", row.queue, row.grounds);
        rows.push((name, Unit::Count, row.count as f64));
    }
    for kind in ResourceKind::SHOWN {
        let (name, title) = (kind.name(), title(kind.name()));
        let unit = Unit::AmountSeconds(name.to_owned());
        rows.push((format!("{title} wasted"), unit, evictions.wasted[name]));
        rows.push((
            format!("{title} wasted, of all used"),
            Unit::Share,
            evictions.wasted_share[name],
        ));
    }
    rows
}

fn fairness(report: &Report) -> Vec<(String, Unit, f64)> {
    let fairness = &report.fairness;
    let mut rows = vec![
        ("Jain's index while pods waited".to_owned(), Unit::Share, fairness.jain),
        ("least Jain's index".to_owned(), Unit::Share, fairness.least_jain),
        ("time in which pods waited".to_owned(), Unit::Seconds, fairness.waited),
    ];
    for queue in &fairness.queues {
        let path = &queue.queue;
        rows.push((format!("{path}, had of what it is owed"), Unit::Share, queue.of_owed));
        if let Some(served) = queue.served {
            rows.push((format!("{path}, served while it wanted"), Unit::Share, served));
        }
        rows.push((format!("{path}, short while it waited"), Unit::Seconds, queue.short));
    }
    rows
}
