//! The answer as a folder: a page with charts, and all numbers.

use std::path::Path;

use super::answer::{Answer, ShareRow, SideTotals};
use crate::replay::charts::{Axis, Chart, ChartError, MOST_LINES, Plot, TimeAxis, line};
use crate::replay::compare::{Comparison, Figure, Unit};
use crate::replay::folder::{make_writable, write_files};
use crate::replay::page::{escaped, page};

/// Writes `answer.json`, `compare.json`, `index.html` and its charts into a folder, which is made if
/// it is not there.
pub fn write(answer: &Answer, folder: &Path) -> anyhow::Result<()> {
    make_writable(folder)?;
    write_files(&files(answer)?, folder)
}

/// Returns names and texts of the files.
pub(super) fn files(answer: &Answer) -> anyhow::Result<Vec<(&'static str, String)>> {
    let [a, b] = [0, 1].map(|side| figures(answer, side));
    let comparison = Comparison::of(a, b);
    let charts = charts(answer)?;
    let lines: Vec<_> = answer.lines().iter().map(|line| escaped(line)).collect();
    let introduction = format!(
        "{}<br>\nAll numbers are in <a href=\"answer.json\">answer.json</a> and \
         <a href=\"compare.json\">compare.json</a>; a is without the change, b with it.",
        lines.join("<br>\n")
    );
    let mut tables = answer.tables();
    tables.extend(comparison.tables());
    let html = page("What if", &introduction, &tables, &charts);
    let mut files = vec![
        ("answer.json", answer.to_json()?),
        ("compare.json", comparison.to_json()?),
        ("index.html", html),
    ];
    files.extend(charts.into_iter().map(|chart| (chart.file, chart.svg)));
    Ok(files)
}

/// Returns the figures of one replay.
fn figures(answer: &Answer, side: usize) -> Vec<Figure> {
    let SideTotals { at_once, started, evicted, waiting, .. } = [answer.a, answer.b][side];
    let count = |name: &str, value: f64| Figure {
        section: "Totals",
        name: name.to_owned(),
        unit: Unit::Count,
        value,
    };
    let mut figures = vec![
        count("started at once", at_once as f64),
        count("started", started as f64),
        count("evicted", evicted as f64),
        count("waiting at the end", waiting as f64),
    ];
    for (section, rows) in [("Queues", &answer.queues), ("Users", &answer.users)] {
        for ShareRow { name, a, b } in rows {
            let share = [a, b][side];
            let figure = |what: &str, unit, value| Figure {
                section,
                name: format!("{name}: {what}"),
                unit,
                value,
            };
            figures.extend([
                figure("share", Unit::Share, share.mean),
                figure("started", Unit::Count, share.started as f64),
                figure("median wait", Unit::Seconds, share.wait_median),
                figure("p95 of waits", Unit::Seconds, share.wait_p95),
                figure("evicted", Unit::Count, share.evicted as f64),
            ]);
        }
    }
    figures
}

/// Draws the shares of the queues that have the most in either replay.
fn charts(answer: &Answer) -> Result<Vec<Chart>, ChartError> {
    let series = &answer.series;
    let time = TimeAxis::since("the snapshot", 0.0, answer.horizon, &series.time);
    let mut largest: Vec<_> = answer.queues.iter().collect();
    largest.sort_by(|one, other| {
        let most = |row: &ShareRow| row.a.mean.max(row.b.mean);
        most(other).total_cmp(&most(one)).then_with(|| one.name.cmp(&other.name))
    });
    let plot = |file, title, of: &std::collections::BTreeMap<String, Vec<f64>>| {
        let lines = largest.iter().take(MOST_LINES).map(|row| {
            let none = vec![0.0; series.time.len()];
            let shares = of.get(&row.name).unwrap_or(&none);
            line(&row.name, shares.iter().map(|share| 100.0 * share))
        });
        let y = Axis::Percent("largest share of any resource");
        Plot { file, title, y, lines: lines.collect() }.draw(&time)
    };
    Ok(vec![
        plot("queue-shares-a.svg", "Share of each leaf queue, without the change", &series.a)?,
        plot("queue-shares-b.svg", "Share of each leaf queue, with the change", &series.b)?,
    ])
}
