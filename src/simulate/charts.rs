//! The charts of a report, as SVG.
//!
//! A value is valid from its sample to the next, so lines are drawn as steps. The colours are those
//! of Okabe and Ito, which colour-blind people can distinguish. Text widths are estimated without a
//! font, so margins are generous.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::amount::{ResourceKind, ratio};
use super::report::{Report, SeriesColumns};

const WIDTH: u32 = 1000;
const PLOT_HEIGHT: u32 = 330;
const TITLE_HEIGHT: u32 = 34;
const LEGEND_ROW_HEIGHT: u32 = 22;
/// Width of the labels left of the plot. Titles and legends begin there too.
const LEFT: i32 = 76;
/// Longest label of a legend in characters. Longer ones lose their beginning, because paths differ
/// at their ends.
const LEGEND_CHARACTERS: usize = 40;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(228, 228, 228);
/// Okabe and Ito's palette without black, and without yellow, which is faint on white.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
/// Most leaves in a chart: those with the largest peaks. The JSON has all.
const SHOWN_LEAVES: usize = COLOURS.len();

/// Drawing failed. Since the output is in memory, this is an error in the drawing code.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw `{chart}`: {reason}")]
pub(crate) struct ChartError {
    chart: &'static str,
    reason: String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Result of drawing. Writing to memory cannot fail.
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

pub(crate) struct Chart {
    pub(crate) file: &'static str,
    /// Title, also the alternative text.
    pub(crate) title: &'static str,
    pub(crate) svg: String,
}

/// Draws all charts of a report.
pub(crate) fn charts(report: &Report) -> Result<Vec<Chart>, ChartError> {
    let series = &report.series;
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
    .map(|plot| plot.draw(report))
    .collect()
}

fn utilisation(report: &Report) -> Vec<PlotLine> {
    let used = |kind: &ResourceKind| {
        let capacity = report.trace.capacity[kind.name()];
        let allocated = report.series.allocated[kind.name()].iter();
        line(kind.title(), allocated.map(move |&held| 100.0 * ratio(held, capacity)))
    };
    ResourceKind::SHOWN.iter().map(used).collect()
}

fn queue_shares(series: &SeriesColumns) -> Vec<PlotLine> {
    let peak = |shares: &[f64]| shares.iter().copied().fold(0.0, f64::max);
    let mut leaves: Vec<_> =
        series.queues.iter().map(|(path, columns)| (path, &columns.dominant_share)).collect();
    // The sort is stable: leaves with equal peaks stay in the order of their paths.
    leaves.sort_by(|(_, a), (_, b)| peak(b).total_cmp(&peak(a)));
    leaves.truncate(SHOWN_LEAVES);
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
    leaves.truncate(SHOWN_LEAVES);
    let lines = leaves.into_iter();
    lines.map(|(path, shares)| line(path, shares.iter().map(|share| 100.0 * share))).collect()
}

fn fragmentation(series: &SeriesColumns) -> Vec<PlotLine> {
    let measured = |kind: &ResourceKind| {
        let measured = series.fragmentation[kind.name()].iter();
        line(kind.title(), measured.map(|share| 100.0 * share))
    };
    [ResourceKind::Vcore, ResourceKind::Gpu].iter().map(measured).collect()
}

struct PlotLine {
    label: String,
    /// The values, one per sample.
    values: Vec<f64>,
}

fn line(label: &str, values: impl Iterator<Item = f64>) -> PlotLine {
    PlotLine { label: label.to_owned(), values: values.collect() }
}

#[derive(Clone, Copy)]
enum Axis {
    Percent(&'static str),
    Count(&'static str),
}

struct Plot {
    file: &'static str,
    title: &'static str,
    y: Axis,
    lines: Vec<PlotLine>,
}

impl Plot {
    fn draw(self, report: &Report) -> Result<Chart, ChartError> {
        let mut svg = String::new();
        let legend = Legend::of(&self.lines);
        let height = legend.bottom() + PLOT_HEIGHT;
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let drawn = self.draw_on(&root, &legend, report).map_err(|error| error.to_string());
        drop(root);
        drawn.map_err(|reason| ChartError { chart: self.file, reason })?;
        Ok(Chart { file: self.file, title: self.title, svg })
    }

    fn draw_on(&self, root: &Area<'_>, legend: &Legend, report: &Report) -> Drawn {
        root.fill(&WHITE)?;
        root.draw(&Text::new(self.title, (LEFT, 10), (FONT, 22).into_font().color(&INK)))?;
        legend.draw_on(root)?;
        let time = TimeAxis::over(report);
        let top = self.top();
        let (_, below) = root.split_vertically(legend.bottom());
        let mut chart = ChartBuilder::on(&below)
            .margin(12)
            .margin_right(24)
            .x_label_area_size(44)
            .y_label_area_size(LEFT - 12)
            .build_cartesian_2d(0.0..time.length, 0.0..top)?;
        let (y_title, unit) = match self.y {
            Axis::Percent(title) => (title, " %"),
            Axis::Count(title) => (title, ""),
        };
        let digits = usize::from(top < 5.0);
        chart
            .configure_mesh()
            .x_desc(time.title)
            .y_desc(y_title)
            .axis_desc_style((FONT, 15, &INK))
            .label_style((FONT, 14, &INK))
            .x_labels(13)
            .y_labels(6)
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| format!("{value:.digits$}{unit}"))
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS) {
            let steps = steps(&time, &report.series.time, &line.values);
            chart.draw_series(LineSeries::new(steps, colour.stroke_width(2)))?;
        }
        root.present()
    }

    /// Returns the top of the value axis: slightly above the highest value, or 100 % if that
    /// exceeds 50 %.
    fn top(&self) -> f64 {
        let values = self.lines.iter().flat_map(|line| line.values.iter().copied());
        let highest = values.fold(0.0, f64::max);
        match self.y {
            Axis::Percent(_) if highest > 50.0 => 100.0,
            Axis::Percent(_) => (highest * 1.1).max(1.0),
            Axis::Count(_) => (highest * 1.1).max(5.0),
        }
    }
}

/// The legend, above the plot so that it hides nothing.
struct Legend {
    /// Label and position of each line, in the order of the lines.
    entries: Vec<(String, (i32, i32))>,
    rows: u32,
}

impl Legend {
    fn of(lines: &[PlotLine]) -> Self {
        let (mut x, mut row) = (LEFT, 0);
        let mut entries = Vec::new();
        for line in lines {
            let label = shortened(&line.label);
            let characters = u32::try_from(label.chars().count()).unwrap_or(u32::MAX / 16);
            // Mark, gaps, and a generous width for a character of 14 pixels.
            let width = (44 + 8 * characters).cast_signed();
            if x > LEFT && x + width > WIDTH.cast_signed() {
                (x, row) = (LEFT, row + 1);
            }
            entries.push((label, (x, (TITLE_HEIGHT + row * LEGEND_ROW_HEIGHT).cast_signed())));
            x += width;
        }
        Self { entries, rows: row + 1 }
    }

    fn bottom(&self) -> u32 {
        TITLE_HEIGHT + self.rows * LEGEND_ROW_HEIGHT
    }

    fn draw_on(&self, root: &Area<'_>) -> Drawn {
        for ((label, (x, y)), colour) in self.entries.iter().zip(COLOURS) {
            let mark = [(*x, y + 4), (x + 20, y + 8)];
            root.draw(&Rectangle::new(mark, colour.filled()))?;
            root.draw(&Text::new(
                label.as_str(),
                (x + 28, y + 1),
                (FONT, 14).into_font().color(&INK),
            ))?;
        }
        Ok(())
    }
}

fn shortened(label: &str) -> String {
    let excess = label.chars().count().saturating_sub(LEGEND_CHARACTERS);
    if excess == 0 {
        return label.to_owned();
    }
    let end: String = label.chars().skip(excess + 1).collect();
    format!("…{end}")
}

/// Virtual time since the start of the trace, in a unit that gives few digits.
struct TimeAxis {
    title: &'static str,
    /// Start of the trace and length of the unit, in seconds.
    start: f64,
    unit: f64,
    length: f64,
}

impl TimeAxis {
    fn over(report: &Report) -> Self {
        let (start, makespan) = (report.trace.start, report.totals.makespan);
        let (title, unit) = match makespan {
            seconds if seconds > 4.0 * 86_400.0 => ("days since the first pod", 86_400.0),
            seconds if seconds > 3.0 * 3600.0 => ("hours since the first pod", 3600.0),
            _ => ("minutes since the first pod", 60.0),
        };
        Self { title, start, unit, length: (makespan / unit).max(1.0) }
    }

    fn place(&self, time: f64) -> f64 {
        (time - self.start) / self.unit
    }
}

/// Draws each value from its time to that of the next one.
fn steps<'a>(
    axis: &'a TimeAxis,
    times: &'a [f64],
    values: &'a [f64],
) -> impl Iterator<Item = (f64, f64)> + 'a {
    let before = values.first().into_iter().chain(values);
    times.iter().zip(before.zip(values)).flat_map(|(&time, (&before, &value))| {
        let x = axis.place(time);
        [(x, before), (x, value)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legends_wrap_and_keep_the_ends_of_labels() {
        let lines: Vec<_> = (0..6)
            .map(|at| line(&format!("{}leaf{at}", "root.".repeat(10)), [].into_iter()))
            .collect();
        let legend = Legend::of(&lines);
        assert_eq!(legend.rows, 3);
        for (at, (label, (x, y))) in legend.entries.iter().enumerate() {
            assert!(label.starts_with('…') && label.ends_with(&format!("leaf{at}")), "{label}");
            assert!((0..600).contains(x) && *y < legend.bottom().cast_signed());
        }
    }

    #[test]
    fn lines_are_steps_between_samples() {
        let axis = TimeAxis { title: "", start: 100.0, unit: 10.0, length: 5.0 };
        let points: Vec<_> = steps(&axis, &[100.0, 120.0], &[3.0, 1.0]).collect();
        assert_eq!(points, [(0.0, 3.0), (0.0, 3.0), (2.0, 3.0), (2.0, 1.0)]);
    }
}
