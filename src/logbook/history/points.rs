//! The answer to a request for a range of time: at most a number of points, each with the mean and
//! the largest of the samples that it stands for.

use std::sync::Arc;

use serde::Serialize;

use super::series::{Meaning, Series};
use super::store::{HistorySubject, Ledger, Store};

/// Most points of an answer.
pub const POINTS_MAX: u32 = 1_000;

/// A range of time. Times are in seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Begin. `None`: as far back as samples are kept.
    pub from: Option<i64>,
    /// End. `None`: the last sample.
    pub to: Option<i64>,
    /// Most points, from 1 to [`POINTS_MAX`].
    pub points: u32,
}

/// Amounts of one subject over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectHistory {
    /// Seconds between two samples.
    pub sample_seconds: u32,
    /// Seconds that a point stands for.
    pub point_seconds: u32,
    /// Begin of each point, in nanoseconds since the epoch.
    pub times: Vec<i64>,
    /// The amounts, each with as many values as there are times.
    pub amounts: Vec<AmountHistory>,
}

/// One amount over time. Values are `None` where the subject did not exist, or nothing is known of
/// it; of a maximum, also where there was none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AmountHistory {
    /// `used`, `waiting`, `guaranteed` or `maximum`.
    pub amount: &'static str,
    /// The resource type.
    pub resource: Arc<str>,
    /// Mean over the time of each point.
    pub mean: Vec<Option<i64>>,
    /// Largest amount in the time of each point.
    pub max: Vec<Option<i64>>,
}

impl Meaning {
    /// Returns its name in answers.
    fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Waiting => "waiting",
            Self::Guaranteed => "guaranteed",
            Self::Maximum => "maximum",
        }
    }
}

/// The samples of one amount that a point stands for.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    sum: i128,
    max: i64,
    n: u32,
}

impl Cell {
    fn add(&mut self, value: i64, n: u32) {
        self.max = if self.n == 0 { value } else { self.max.max(value) };
        self.sum += i128::from(value) * i128::from(n);
        self.n += n;
    }

    /// Returns the mean, rounded.
    fn mean(self) -> Option<i64> {
        let n = i128::from(self.n);
        let mean = (self.sum + n / 2).checked_div_euclid(n)?;
        i64::try_from(mean).ok()
    }

    fn max(self) -> Option<i64> {
        (self.n > 0).then_some(self.max)
    }
}

/// Ticks that are divided into points.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// First tick.
    from: u32,
    /// Tick after the last one.
    end: u32,
    /// Ticks of a point.
    width: u32,
}

impl Grid {
    /// Makes the grid of a range: samples of these ticks are kept.
    fn of(range: &Range, ledger: &Ledger, (first, last): (u32, u32)) -> Self {
        let tick = |second: i64| {
            u32::try_from(second.max(0) / i64::from(ledger.period)).unwrap_or(u32::MAX - 1)
        };
        let kept = first.max(last.saturating_sub(ledger.reach - 1));
        let from = range.from.map_or(kept, |from| tick(from).max(kept));
        let end = range.to.map_or(last, |to| tick(to).min(last)) + 1;
        let width = end.saturating_sub(from).div_ceil(range.points.max(1)).max(1);
        Self { from, end: end.max(from), width }
    }

    fn n_points(self) -> usize {
        (self.end - self.from).div_ceil(self.width) as usize
    }

    /// Calls `add` with the number of each point that the ticks from `begin` up to `end` touch, and
    /// how many of them it has.
    fn spread(self, begin: u32, end: u32, mut add: impl FnMut(usize, u32)) {
        let (mut at, end) = (begin.max(self.from), end.min(self.end));
        while at < end {
            let point = (at - self.from) / self.width;
            let next = end.min(self.from + (point + 1) * self.width);
            add(point as usize, next - at);
            at = next;
        }
    }
}

/// Reads a subject; an empty history if its partition has no sample yet. `None` if the samples have
/// nothing of it.
pub(super) fn read(
    store: &Store,
    kind: HistorySubject,
    (partition, name): (&str, &str),
    range: &Range,
) -> Option<SubjectHistory> {
    let ledger = store.ledger(kind);
    let Some(shelf) = ledger.shelf(partition) else {
        let (sample_seconds, point_seconds) = (ledger.period, ledger.period);
        let (times, amounts) = (Vec::new(), Vec::new());
        return Some(SubjectHistory { sample_seconds, point_seconds, times, amounts });
    };
    let series = shelf.series.get(name)?;
    let grid = Grid::of(range, ledger, (series.first(), shelf.sampled));
    let columns = cells(series, grid);
    let amounts = series.keys().iter().zip(columns).map(|((meaning, number), cells)| {
        // A limit is stored as one more, so that none can be zero.
        let less = i64::from(*meaning == Meaning::Maximum);
        let shown = |value: Option<i64>| value.map(|value| value - less);
        AmountHistory {
            amount: meaning.name(),
            resource: Arc::clone(store.names().name(*number)),
            mean: cells.iter().map(|cell| shown(cell.mean())).collect(),
            max: cells.iter().map(|cell| shown(cell.max())).collect(),
        }
    });
    let mut amounts: Vec<AmountHistory> = amounts.collect();
    amounts.sort_by(|a, b| (&a.resource, a.amount).cmp(&(&b.resource, b.amount)));
    let at = |point: u32| i64::from(grid.from + point * grid.width) * i64::from(ledger.period);
    Some(SubjectHistory {
        sample_seconds: ledger.period,
        point_seconds: grid.width * ledger.period,
        times: (0..).take(grid.n_points()).map(|point| at(point) * 1_000_000_000).collect(),
        amounts,
    })
}

/// Returns the cells of each amount, in the order of the series' keys.
fn cells(series: &Series, grid: Grid) -> Vec<Vec<Cell>> {
    let keys = series.keys();
    let mut columns = vec![vec![Cell::default(); grid.n_points()]; keys.len()];
    let mut values = vec![0; keys.len()];
    let mut since = None;
    let mut fill = |since: Option<u32>, end: u32, values: &[i64]| {
        let Some(since) = since else { return };
        for ((column, value), (meaning, _)) in columns.iter_mut().zip(values).zip(keys) {
            if *meaning != Meaning::Maximum || *value != 0 {
                grid.spread(since, end, |point, n| column[point].add(*value, n));
            }
        }
    };
    series.replay(|tick, is_present, now| {
        fill(since, tick, &values);
        since = is_present.then_some(tick);
        values.copy_from_slice(now);
    });
    fill(since, u32::MAX, &values);
    columns
}

#[cfg(test)]
mod tests {
    use super::super::store::Row;
    use super::*;

    const ALL: Range = Range { from: None, to: None, points: 1_000 };

    fn row(amounts: &[(Meaning, &str, i64)]) -> Row {
        let amounts = amounts.iter().map(|(meaning, name, n)| (*meaning, Arc::from(*name), *n));
        Row { name: "root".to_owned(), amounts: amounts.collect() }
    }

    fn store(samples: &[(u32, i64)]) -> Store {
        let mut store = Store::new(1 << 20, 15);
        for (tick, used) in samples {
            let rows = [row(&[(Meaning::Used, "vcore", *used)])];
            store.sample(HistorySubject::Queue, "p", *tick, &rows);
        }
        store
    }

    fn used(store: &Store, range: &Range) -> (Vec<i64>, Vec<Option<i64>>, Vec<Option<i64>>) {
        let SubjectHistory { times, mut amounts, .. } =
            read(store, HistorySubject::Queue, ("p", "root"), range).unwrap();
        let used = amounts.remove(0);
        (times.iter().map(|at| at / 15_000_000_000).collect(), used.mean, used.max)
    }

    #[test]
    fn points_have_mean_and_maximum_of_their_samples() {
        let store = store(&[(100, 4), (101, 0), (102, 2), (103, 7), (104, 7)]);
        let each = [4, 0, 2, 7, 7].map(Some).to_vec();
        assert_eq!(used(&store, &ALL), (vec![100, 101, 102, 103, 104], each.clone(), each));
        let two = Range { points: 2, ..ALL };
        let (mean, max) = (vec![Some(2), Some(7)], vec![Some(4), Some(7)]);
        assert_eq!(used(&store, &two), (vec![100, 103], mean, max));
        let within = Range { from: Some(101 * 15), to: Some(102 * 15 + 14), points: 9 };
        assert_eq!(used(&store, &within).1, [Some(0), Some(2)]);
        let later = Range { from: Some(9_999 * 15), ..ALL };
        assert_eq!(used(&store, &later), (vec![], vec![], vec![]));
    }

    #[test]
    fn nothing_is_known_of_a_time_without_samples() {
        let store = store(&[(100, 4), (104, 5), (120, 6)]);
        let (times, mean, _) = used(&store, &ALL);
        let known = times.iter().zip(&mean).filter(|(_, mean)| mean.is_some());
        let known: Vec<i64> = known.map(|(tick, _)| *tick).collect();
        assert_eq!(known, [100, 104, 120]);
        assert_eq!(read(&store, HistorySubject::Queue, ("p", "root.a"), &ALL), None);
        let none = read(&store, HistorySubject::Node, ("p", "root"), &ALL).unwrap();
        assert_eq!((none.sample_seconds, none.times.len(), none.amounts.len()), (60, 0, 0));
    }

    #[test]
    fn a_maximum_of_zero_differs_from_none() {
        let mut store = Store::new(1 << 20, 15);
        let max = |max: i64| row(&[(Meaning::Used, "vcore", 1), (Meaning::Maximum, "vcore", max)]);
        store.sample(HistorySubject::Queue, "p", 1, &[max(0)]);
        store.sample(HistorySubject::Queue, "p", 2, &[row(&[(Meaning::Used, "vcore", 1)])]);
        store.sample(HistorySubject::Queue, "p", 3, &[max(8)]);
        let read = read(&store, HistorySubject::Queue, ("p", "root"), &ALL).unwrap();
        let amounts: Vec<_> =
            read.amounts.iter().map(|one| (one.amount, one.mean.clone())).collect();
        let maximum = ("maximum", vec![Some(0), None, Some(8)]);
        assert_eq!(amounts, [maximum, ("used", vec![Some(1); 3])]);
    }
}
