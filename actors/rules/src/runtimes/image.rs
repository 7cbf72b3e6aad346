//! Run times as plain data: for a file, for readers, and for a process that begins with what another
//! one has measured.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::class::RowKey;
use super::histogram::{Bucket, Histogram, LAST};

/// The decimal places of a weight that is written, as a factor: a run weighs that little after 20
/// half-lives. What is less is left out.
const PLACES: f64 = 1e6;

/// The run times of a partition at one time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "WrittenImage", try_from = "WrittenImage")]
pub struct RunTimesImage {
    at_ns: i64,
    /// The rows. A run that ended at the time of the image weighs 1.
    rows: Vec<(Arc<RowKey>, Histogram)>,
}

/// A copy of a row, as it was at one time.
#[derive(Clone, Debug)]
pub struct CopiedRow {
    pub(super) place: usize,
    pub(super) key: Arc<RowKey>,
    pub(super) histogram: Histogram,
    /// The weight of a run that ended at that time.
    pub(super) unit: f64,
    pub(super) at_ns: i64,
}

/// A row as it is written. A run that ended at the time of the image weighs 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowLine {
    /// The name of the row.
    #[serde(flatten)]
    key: RowKey,
    /// Buckets in order: the mark, the weight of runs that ended by themselves, and of those that
    /// lasted at least so long.
    runs: Vec<(u8, f64, f64)>,
}

/// The serialized form of run times.
#[derive(Serialize, Deserialize)]
struct WrittenImage {
    at_ns: i64,
    rows: Vec<RowLine>,
}

impl From<RunTimesImage> for WrittenImage {
    fn from(image: RunTimesImage) -> Self {
        Self { at_ns: image.at_ns, rows: image.lines().collect() }
    }
}

impl TryFrom<WrittenImage> for RunTimesImage {
    type Error = RowFault;

    fn try_from(WrittenImage { at_ns, rows }: WrittenImage) -> Result<Self, RowFault> {
        let mut image = Self::new(at_ns);
        rows.into_iter().try_for_each(|line| image.push(line))?;
        Ok(image)
    }
}

/// Why a written row cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// The fields of its name do not belong together.
    #[error("a row has a queue, then a user, then a stem and a shape, or the first of them")]
    Name,
    /// The buckets are not in order, or do not exist.
    #[error("the marks of `runs` do not ascend, or one is above {LAST}")]
    Marks,
    /// A weight is negative or no number.
    #[error("a weight in `runs` is below zero or too large")]
    Weight,
}

impl CopiedRow {
    /// The place behind which the next row is copied.
    pub fn place(&self) -> usize {
        self.place
    }
}

impl RunTimesImage {
    /// Begins an image without rows, of this time, ns since the epoch.
    pub fn new(at_ns: i64) -> Self {
        Self { at_ns, rows: Vec::new() }
    }

    /// Builds an image of copied rows. Its time is that of the last copy.
    pub fn of(rows: Vec<CopiedRow>) -> Self {
        let mut image = Self::new(rows.iter().map(|row| row.at_ns).max().unwrap_or_default());
        image.rows = rows
            .into_iter()
            .map(|CopiedRow { key, mut histogram, unit, .. }| {
                histogram.scale(1.0 / unit);
                (key, histogram)
            })
            .collect();
        image
    }

    /// Adds a row that was read.
    pub fn push(&mut self, line: RowLine) -> Result<(), RowFault> {
        let RowLine { key, runs } = line;
        if !key.is_whole() {
            return Err(RowFault::Name);
        }
        let is_ascending = runs.is_sorted_by(|(one, ..), (next, ..)| one < next);
        if !is_ascending || runs.last().is_some_and(|(mark, ..)| *mark > LAST) {
            return Err(RowFault::Marks);
        }
        let is_weight = |weight: f64| (0.0..1e300).contains(&weight);
        if !runs.iter().all(|(_, ended, at_least)| is_weight(*ended) && is_weight(*at_least)) {
            return Err(RowFault::Weight);
        }
        let bucket = |(mark, ended, at_least)| Bucket { mark, ended, at_least };
        let histogram = Histogram::of(runs.into_iter().map(bucket).collect());
        self.rows.push((Arc::new(key), histogram));
        Ok(())
    }

    /// Returns the rows to be written.
    pub fn lines(&self) -> impl Iterator<Item = RowLine> + '_ {
        let written = |weight: f64| (weight * PLACES).round() / PLACES;
        self.rows.iter().filter_map(move |(key, histogram)| {
            let buckets = histogram.buckets().iter();
            let runs = buckets.map(|it| (it.mark, written(it.ended), written(it.at_least)));
            let runs: Vec<_> = runs.filter(|(_, ended, at_least)| ended + at_least > 0.0).collect();
            (!runs.is_empty()).then(|| RowLine { key: RowKey::clone(key), runs })
        })
    }

    /// The time of the image, ns since the epoch.
    pub fn at_ns(&self) -> i64 {
        self.at_ns
    }

    /// The rows, in no order.
    pub(super) fn rows(&self) -> &[(Arc<RowKey>, Histogram)] {
        &self.rows
    }
}
