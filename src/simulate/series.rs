//! Samples of the cluster's state over virtual time, thinned as they grow.
//!
//! A sample is taken after every event. Time is divided into equal slices and the last sample of
//! each slice is kept. If there are more than [`MOST`], the slices are doubled in width. The
//! selection depends on virtual time alone, so that one history always gives one series. A value is
//! valid from its sample to the next. A peak within a slice may be lost, so the totals count peaks
//! separately.

use super::amount::Amount;

/// Most samples that are kept.
const MOST: usize = 2000;

/// The state of the cluster at one time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Virtual time on the clock of the trace, in milliseconds.
    pub(crate) at: i64,
    pub(crate) allocated: Amount,
    pub(crate) running: usize,
    pub(crate) pending: Amount,
    pub(crate) n_pending: usize,
    /// Jain's index of how well the leaves are served (`fairness`). `None` while no pod is pending.
    pub(crate) jain: Option<f64>,
    /// The state of each leaf, by path.
    pub(crate) leaves: Vec<LeafSample>,
    /// Number of evictions up to this time.
    pub(crate) n_evicted: usize,
    /// The share of free amounts that the pods of the trace cannot use, by kind (`fragmentation`).
    pub(crate) fragmentation: [f64; 3],
}

/// The state of a leaf queue at one time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeafSample {
    pub(crate) path: String,
    /// Amount held by its pods.
    pub(crate) held: Amount,
    /// The largest share of its entitlement to any resource that the leaf holds. `None` if it is
    /// entitled to nothing.
    pub(crate) of_owed: Option<f64>,
    /// The share of its due that the leaf holds, at most 1 (`fairness`). `None` if it wants nothing
    /// to which it is entitled.
    pub(crate) served: Option<f64>,
    /// Whether any of its pods is pending.
    pub(crate) waits: bool,
}

/// Samples in order of time.
#[derive(Debug)]
pub(crate) struct Series {
    samples: Vec<Sample>,
    /// Width of a slice, in milliseconds.
    width: i64,
}

impl Default for Series {
    fn default() -> Self {
        Self { samples: Vec::new(), width: 1000 }
    }
}

impl Series {
    /// Adds a sample that is not older than the last one.
    pub(crate) fn push(&mut self, sample: Sample) {
        match self.samples.last_mut() {
            Some(last) if last.at / self.width == sample.at / self.width => *last = sample,
            _ => self.samples.push(sample),
        }
        while self.samples.len() > MOST {
            self.width *= 2;
            let width = self.width;
            self.samples.dedup_by(|later, earlier| {
                let same = later.at / width == earlier.at / width;
                if same {
                    std::mem::swap(later, earlier);
                }
                same
            });
        }
    }

    pub(crate) fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: i64) -> Sample {
        let n_pending = usize::try_from(at).unwrap();
        let (allocated, pending) = (Amount::default(), Amount::default());
        Sample {
            at,
            allocated,
            running: 0,
            pending,
            n_pending,
            jain: None,
            leaves: Vec::new(),
            n_evicted: 0,
            fragmentation: [0.0; 3],
        }
    }

    #[test]
    fn of_one_second_the_last_sample_stays() {
        let mut series = Series::default();
        for at in [0, 1000, 1400, 1999, 2000] {
            series.push(sample(at));
        }
        let kept: Vec<_> = series.samples().iter().map(|sample| sample.at).collect();
        assert_eq!(kept, [0, 1999, 2000]);
    }

    #[test]
    fn a_long_series_keeps_the_last_of_each_slice() {
        let mut series = Series::default();
        for second in 0..10_000 {
            series.push(sample(second * 1000));
        }
        assert_eq!(series.width, 8000);
        let kept: Vec<_> = series.samples().iter().map(|sample| sample.at).collect();
        assert_eq!(kept.len(), 1250);
        assert_eq!(kept[..3], [7000, 15_000, 23_000]);
        assert_eq!(kept.last(), Some(&9_999_000));
        assert!(series.samples().iter().all(|s| s.n_pending == usize::try_from(s.at).unwrap()));
    }
}
