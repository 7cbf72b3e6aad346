//! What happens if nothing is changed: one replay from an image, and its report.

use std::path::Path;
use std::sync::Arc;

use monoceros_actors::image::ResourceManagerImage;
use monoceros_actors::rfc3339;
use serde::Serialize;

use super::answer::{Asked, Gathered, NeverRow, Series, Share, SideTotals};
use super::summary::{durations_line, never, span};
use super::{Options, WhatIfError, check, course, join, milliseconds, spawn};
use crate::replay::charts::{Axis, MOST_LINES, Plot, TimeAxis, line};
use crate::replay::folder::{make_writable, write_files};
use crate::replay::numbers::{duration, percent};
use crate::replay::page::{SummaryTable, head, page, text_of};

/// Version of the format, raised when its readers have to change.
const FORMAT: u32 = 1;
/// The most queues and users in a table.
const ROWS: usize = 20;

/// What happens from a snapshot on. Times are seconds after the snapshot.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ahead {
    format: u32,
    /// The resource manager.
    rm: String,
    /// The time of the snapshot, ns since the epoch.
    at: i64,
    /// How far the replay went, in seconds.
    horizon: f64,
    totals: SideTotals,
    queues: Vec<Row>,
    users: Vec<Row>,
    /// Requests that wait at the end.
    waiting: Vec<NeverRow>,
    series: Series,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    name: String,
    #[serde(flatten)]
    share: Share,
}

/// Goes on from an image without changes. Blocks until the horizon is reached.
pub fn ahead(image: &ResourceManagerImage, options: &Options) -> Result<Ahead, WhatIfError> {
    check(options)?;
    let history = join(spawn(image.clone(), None, course(image, options, 0)?))?;
    let asked = Asked {
        rm: image.configuration.rm_id.clone(),
        at_ns: image.at_ns(),
        horizon: milliseconds(options.horizon),
        changes: Vec::new(),
    };
    let history = Arc::new(history);
    let answer = Gathered::new(asked, Arc::clone(&history), history).answer();
    let rows = |rows: Vec<super::answer::ShareRow>| {
        rows.into_iter().map(|row| Row { name: row.name, share: row.a }).collect()
    };
    Ok(Ahead {
        format: FORMAT,
        rm: answer.rm,
        at: answer.at,
        horizon: answer.horizon,
        totals: answer.a,
        queues: rows(answer.queues),
        users: rows(answer.users),
        waiting: answer.never,
        series: answer.series,
    })
}

impl Ahead {
    /// The report as text.
    pub fn text(&self) -> String {
        let SideTotals { at_once, started, evicted, waiting, .. } = self.totals;
        let lines = [
            format!("from the snapshot of {}, {} ahead", rfc3339(self.at), span(self.horizon)),
            format!("started: {started}, {at_once} of them at once; evicted: {evicted}"),
            format!("waiting at the end: {waiting}"),
            durations_line(&self.totals),
        ];
        lines.join("\n") + "\n\n" + text_of(&self.tables()).trim_end() + "\n"
    }

    fn tables(&self) -> Vec<SummaryTable> {
        let shares = |of: &str, rows: &[Row]| {
            let row = |Row { name, share }: &Row| {
                let mut fields = vec![name.clone(), percent(share.mean)];
                fields.extend([share.started, share.evicted].map(|count| count.to_string()));
                fields.extend([share.wait_median, share.wait_p95].map(duration));
                fields
            };
            let columns = [of, "share", "started", "evicted", "median wait", "p95"];
            let rows = rows.iter().take(ROWS).map(row).collect();
            SummaryTable { head: head(&columns), rows, n_texts: 1 }
        };
        let mut tables = vec![shares("Queue", &self.queues), shares("User", &self.users)];
        if !self.waiting.is_empty() {
            tables.push(never(&self.waiting));
        }
        tables
    }

    /// Writes `report.json`, `index.html` and its chart into a folder, which is made if it is not
    /// there.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        make_writable(folder)?;
        let time = TimeAxis::since("the snapshot", 0.0, self.horizon, &self.series.time);
        let lines = self.series.a.iter().take(MOST_LINES);
        let lines = lines.map(|(queue, of)| line(queue, of.iter().map(|share| 100.0 * share)));
        let chart = Plot {
            file: "queue-shares.svg",
            title: "Share of each leaf queue",
            y: Axis::Percent("largest share of any resource"),
            lines: lines.collect(),
        };
        let chart = chart.draw(&time)?;
        let introduction = format!(
            "From the snapshot of {}. All numbers are in <a href=\"report.json\">report.json</a>.",
            rfc3339(self.at)
        );
        let charts = [chart];
        let html = page("From a snapshot on", &introduction, &self.tables(), &charts);
        let json = serde_json::to_string_pretty(self)? + "\n";
        let [chart] = charts;
        let files = vec![("report.json", json), ("index.html", html), (chart.file, chart.svg)];
        write_files(&files, folder)
    }
}
