//! Samples of a state over virtual time, thinned as they grow.
//!
//! A sample is taken after every event. Time is divided into equal slices and the last sample of
//! each slice is kept. If there are more than [`MOST`], the slices are doubled in width. The
//! selection depends on virtual time alone, so that one history always gives one series. A value is
//! valid from its sample to the next. A peak within a slice may be lost, so totals count peaks
//! separately.

/// Most samples that are kept.
const MOST: usize = 2000;

/// A state at one time.
pub(crate) trait Sampled {
    /// Virtual time on the clock of the replay, in milliseconds.
    fn at(&self) -> i64;
}

/// Samples in order of time.
#[derive(Debug)]
pub(crate) struct Series<S> {
    samples: Vec<S>,
    /// Width of a slice, in milliseconds.
    width: i64,
}

impl<S> Default for Series<S> {
    fn default() -> Self {
        Self { samples: Vec::new(), width: 1000 }
    }
}

impl<S: Sampled> Series<S> {
    /// Adds a sample that is not older than the last one.
    pub(crate) fn push(&mut self, sample: S) {
        match self.samples.last_mut() {
            Some(last) if last.at() / self.width == sample.at() / self.width => *last = sample,
            _ => self.samples.push(sample),
        }
        while self.samples.len() > MOST {
            self.width *= 2;
            let width = self.width;
            self.samples.dedup_by(|later, earlier| {
                let same = later.at() / width == earlier.at() / width;
                if same {
                    std::mem::swap(later, earlier);
                }
                same
            });
        }
    }

    pub(crate) fn samples(&self) -> &[S] {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time alone is the sample.
    impl Sampled for i64 {
        fn at(&self) -> i64 {
            *self
        }
    }

    #[test]
    fn of_one_second_the_last_sample_stays() {
        let mut series = Series::default();
        for at in [0, 1000, 1400, 1999, 2000] {
            series.push(at);
        }
        assert_eq!(series.samples(), [0, 1999, 2000]);
    }

    #[test]
    fn a_long_series_keeps_the_last_of_each_slice() {
        let mut series = Series::default();
        for second in 0..10_000 {
            series.push(second * 1000);
        }
        assert_eq!(series.width, 8000);
        let kept = series.samples();
        assert_eq!(kept.len(), 1250);
        assert_eq!(kept[..3], [7000, 15_000, 23_000]);
        assert_eq!(kept.last(), Some(&9_999_000));
    }
}
