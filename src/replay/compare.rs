//! Comparison of two replays that differ in one thing, such as the queue configuration.
//!
//! Every single number of a replay is a [`Figure`] and becomes a row: its value in each replay, and
//! the difference. A figure that only one replay has, such as one of its own queue, has no
//! difference. Figures are the same if section and name are.

use serde::Serialize;

use super::numbers::{amount_seconds, duration, rounded};
use super::page::SummaryTable;

/// Version of the format of `compare.json`, raised when its readers have to change.
const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Count,
    Seconds,
    Share,
    /// An amount of the resource with this name, in the scheduler's unit × seconds.
    AmountSeconds(String),
}

/// A single number of a replay.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// The table that it is in. Figures of one section are neighbours.
    pub(crate) section: &'static str,
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) value: f64,
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
    /// Compares the figures of two replays. Rows are in the order of `of_a`. Figures of `of_b` alone
    /// come last in their section.
    pub(crate) fn of(of_a: Vec<Figure>, mut of_b: Vec<Figure>) -> Self {
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
            n_texts: 1,
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
    fn name(&self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Seconds => "seconds",
            Self::Share => "share",
            Self::AmountSeconds(_) => "amount_seconds",
        }
    }

    fn shown(&self, value: f64) -> String {
        match self {
            Self::Count => format!("{value:.0}"),
            Self::Seconds => duration(value),
            Self::Share => format!("{:.2} %", 100.0 * value),
            Self::AmountSeconds(resource) => amount_seconds(resource, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(section: &'static str, rows: &[(&str, &str, f64)]) -> Vec<Figure> {
        let figure = |(name, resource, value): &(&str, &str, f64)| Figure {
            section,
            name: (*name).to_owned(),
            unit: Unit::AmountSeconds((*resource).to_owned()),
            value: *value,
        };
        rows.iter().map(figure).collect()
    }

    #[test]
    fn a_comparison_takes_figures_of_any_resource() {
        let disk = ("disk used", "ephemeral-storage", 3600.0 * f64::from(1 << 30));
        let a = figures("Used", &[disk, ("licences used", "example.com/licence", 5400.0)]);
        let mut b = figures("Used", &[("licences used", "example.com/licence", 1800.0)]);
        b.extend(figures("Wasted", &[("cards wasted", "nvidia.com/gpu", 7200.0)]));
        b.extend(figures("Used", &[("pages used", "hugepages-2Mi", 0.0)]));
        let comparison = Comparison::of(a, b);

        let tables = comparison.tables();
        let [used, wasted] = &tables[..] else { panic!("{comparison:?}") };
        assert_eq!(used.head, ["Used", "a", "b", "difference"]);
        assert_eq!(
            used.rows,
            [
                ["disk used", "1.00 GiB h", "-", "-"],
                [
                    "licences used",
                    "1.50 example.com/licence h",
                    "0.50 example.com/licence h",
                    "-1.00 example.com/licence h",
                ],
                ["pages used", "-", "0.00 GiB h", "-"],
            ]
        );
        assert_eq!(wasted.head[0], "Wasted");
        assert_eq!(wasted.rows, [["cards wasted", "-", "2.00 nvidia.com/gpu h", "-"]]);

        let json: serde_json::Value = serde_json::from_str(&comparison.to_json().unwrap()).unwrap();
        let row = &json["figures"][1];
        assert_eq!(row["unit"], "amount_seconds");
        assert_eq!([&row["a"], &row["b"], &row["difference"]], [5400.0, 1800.0, -3600.0]);
    }
}
