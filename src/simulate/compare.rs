//! Comparison of two replays of one trace with different queue configurations.
//!
//! Every single number of a report is a row: its value under each configuration, and the
//! difference. A figure that only one report has, such as one of its own queue, has no difference.

use serde::Serialize;

use super::amount::ResourceKind;
use super::page::{SummaryTable, amount_seconds, duration};
use super::report::{Report, Waits, rounded};

/// Version of the format of `compare.json`, raised when its readers have to change.
const FORMAT: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Count,
    Seconds,
    Share,
    /// An amount of this resource × seconds.
    AmountSeconds(ResourceKind),
}

struct Figure {
    section: &'static str,
    name: String,
    unit: Unit,
    value: f64,
}

/// The content of `compare.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    format: u32,
    figures: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    section: &'static str,
    figure: String,
    unit: &'static str,
    #[serde(skip)]
    shown: Unit,
    a: Option<f64>,
    b: Option<f64>,
    /// b minus a.
    difference: Option<f64>,
}

impl Comparison {
    pub(crate) fn of(a: &Report, b: &Report) -> Self {
        let (of_a, mut of_b) = (figures(a), figures(b));
        let mut rows = Vec::with_capacity(of_a.len());
        let row = |figure: Figure, a: Option<f64>, b: Option<f64>| Row {
            section: figure.section,
            figure: figure.name,
            unit: figure.unit.name(),
            shown: figure.unit,
            a,
            b,
            difference: a.zip(b).map(|(a, b)| rounded(b - a)),
        };
        for figure in of_a {
            let is_it =
                |other: &Figure| (other.section, &other.name) == (figure.section, &figure.name);
            let same = of_b.iter().position(is_it).map(|at| of_b.remove(at).value);
            let value = Some(figure.value);
            rows.push(row(figure, value, same));
        }
        for figure in of_b {
            let value = Some(figure.value);
            // Inserts the row after those of its section.
            let after = rows.iter().rposition(|row| row.section == figure.section);
            let place = after.map_or(rows.len(), |at| at + 1);
            rows.insert(place, row(figure, None, value));
        }
        Self { format: FORMAT, figures: rows }
    }

    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }

    /// Makes a table per section.
    pub(crate) fn tables(&self) -> Vec<SummaryTable> {
        let sections = self.figures.chunk_by(|a, b| a.section == b.section);
        let table = |rows: &[Row]| SummaryTable {
            head: [rows[0].section, "a", "b", "difference"].map(str::to_owned).to_vec(),
            rows: rows.iter().map(Row::shown).collect(),
        };
        sections.map(table).collect()
    }
}

impl Row {
    fn shown(&self) -> Vec<String> {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |it| self.shown.shown(it));
        let difference = match self.difference {
            Some(0.0) => "=".to_owned(),
            Some(difference) if difference > 0.0 => format!("+{}", self.shown.shown(difference)),
            Some(difference) => format!("-{}", self.shown.shown(-difference)),
            None => "-".to_owned(),
        };
        vec![self.figure.clone(), shown(self.a), shown(self.b), difference]
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Seconds => "seconds",
            Self::Share => "share",
            Self::AmountSeconds(_) => "amount_seconds",
        }
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::Count => format!("{value:.0}"),
            Self::Seconds => duration(value),
            Self::Share => format!("{:.2} %", 100.0 * value),
            Self::AmountSeconds(kind) => amount_seconds(kind, value),
        }
    }
}

/// Returns the single numbers of a report, in order.
fn figures(report: &Report) -> Vec<Figure> {
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
        (format!("{}, mean", kind.title()), Unit::Share, mean)
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
        let (name, title) = (kind.name(), kind.title());
        rows.push((format!("{title} wasted"), Unit::AmountSeconds(kind), evictions.wasted[name]));
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
