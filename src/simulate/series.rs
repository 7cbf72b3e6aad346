//! The state of the cluster over virtual time, thinned as it grows.
//!
//! A sample is taken after every instant at which something happened. Time is cut into equal
//! slices and the last sample of each slice is kept; when there are more than [`MOST`], the slices
//! become twice as wide. What is kept depends on virtual time alone, so that one history always
//! gives one series. Values hold from one sample to the next; a peak within a slice may be lost,
//! which is why the totals count peaks on their own.

use super::amount::Amount;

/// The most samples that are kept.
const MOST: usize = 2000;

/// The cluster at one instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Virtual time on the clock of the trace, in milliseconds.
    pub(crate) at: i64,
    pub(crate) allocated: Amount,
    pub(crate) running: usize,
    pub(crate) pending: Amount,
    pub(crate) n_pending: usize,
    /// How even what the leaves have of what they are owed is (`fairness`); none while nobody waits.
    pub(crate) jain: Option<f64>,
    /// By path.
    pub(crate) leaves: Vec<LeafSample>,
    /// How many pods were evicted so far.
    pub(crate) n_evicted: usize,
    /// By kind: the share of what is free that the trace's pods cannot use (`fragmentation`).
    pub(crate) fragmentation: [f64; 3],
}

/// A leaf queue at one instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeafSample {
    pub(crate) path: String,
    /// What its pods hold.
    pub(crate) held: Amount,
    /// What it holds as a share of what it is owed, of the resource of which that is most; none where
    /// it is owed nothing.
    pub(crate) of_owed: Option<f64>,
    /// The part that it has of what it wants and is owed, at most 1; none where it wants nothing that
    /// it is owed.
    pub(crate) served: Option<f64>,
    /// Something of it waits.
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
    fn a_long_series_stays_short_and_keeps_the_last_of_each_slice() {
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
