//! Draws charts over virtual time, as SVG.
//!
//! A value is valid from its sample to the next, so lines are drawn as steps. The colours are those
//! of Okabe and Ito, which colour-blind people can distinguish. Text widths are estimated without a
//! font, so margins are generous.

use plotters::coord::Shift;
use plotters::prelude::*;

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
/// Most lines in a chart, each with a colour of its own.
pub(crate) const MOST_LINES: usize = COLOURS.len();

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

pub(crate) struct PlotLine {
    label: String,
    /// The values, one per sample.
    values: Vec<f64>,
}

pub(crate) fn line(label: &str, values: impl Iterator<Item = f64>) -> PlotLine {
    PlotLine { label: label.to_owned(), values: values.collect() }
}

/// The values' axis, with its title.
#[derive(Clone, Copy)]
pub(crate) enum Axis {
    Percent(&'static str),
    Count(&'static str),
}

/// What a chart shows.
pub(crate) struct Plot {
    pub(crate) file: &'static str,
    pub(crate) title: &'static str,
    pub(crate) y: Axis,
    /// At most [`MOST_LINES`]. Further ones are not drawn.
    pub(crate) lines: Vec<PlotLine>,
}

impl Plot {
    pub(crate) fn draw(self, time: &TimeAxis<'_>) -> Result<Chart, ChartError> {
        let mut svg = String::new();
        let legend = Legend::of(&self.lines);
        let height = legend.bottom() + PLOT_HEIGHT;
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let drawn = self.draw_on(&root, &legend, time).map_err(|error| error.to_string());
        drop(root);
        drawn.map_err(|reason| ChartError { chart: self.file, reason })?;
        Ok(Chart { file: self.file, title: self.title, svg })
    }

    fn draw_on(&self, root: &Area<'_>, legend: &Legend, time: &TimeAxis<'_>) -> Drawn {
        root.fill(&WHITE)?;
        root.draw(&Text::new(self.title, (LEFT, 10), (FONT, 22).into_font().color(&INK)))?;
        legend.draw_on(root)?;
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
            .x_desc(time.title.as_str())
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
            let steps = steps(time, &line.values);
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

/// The times of the samples of all charts, shown in a unit that gives few digits.
pub(crate) struct TimeAxis<'a> {
    title: String,
    /// The time at the left end and the length of the unit, in seconds.
    start: f64,
    unit: f64,
    /// The length of the axis, in units.
    length: f64,
    times: &'a [f64],
}

impl<'a> TimeAxis<'a> {
    /// Makes an axis of `length` seconds that begins at `start`, the time of `event`. The samples
    /// have `times`, in seconds on the same clock.
    pub(crate) fn since(event: &str, start: f64, length: f64, times: &'a [f64]) -> Self {
        let (name, unit) = match length {
            seconds if seconds > 4.0 * 86_400.0 => ("days", 86_400.0),
            seconds if seconds > 3.0 * 3600.0 => ("hours", 3600.0),
            _ => ("minutes", 60.0),
        };
        let title = format!("{name} since {event}");
        Self { title, start, unit, length: (length / unit).max(1.0), times }
    }

    fn place(&self, time: f64) -> f64 {
        (time - self.start) / self.unit
    }
}

/// Draws each value from its time to that of the next one.
fn steps<'a>(axis: &'a TimeAxis<'_>, values: &'a [f64]) -> impl Iterator<Item = (f64, f64)> + 'a {
    let before = values.first().into_iter().chain(values);
    axis.times.iter().zip(before.zip(values)).flat_map(|(&time, (&before, &value))| {
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
        let axis = TimeAxis::since("the start", 100.0, 600.0, &[100.0, 220.0]);
        let points: Vec<_> = steps(&axis, &[3.0, 1.0]).collect();
        assert_eq!(points, [(0.0, 3.0), (0.0, 3.0), (2.0, 3.0), (2.0, 1.0)]);
        assert_eq!((axis.title.as_str(), axis.length), ("minutes since the start", 10.0));
    }
}
