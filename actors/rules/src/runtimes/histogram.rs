//! A histogram of run times, some of which are only known to be *at least* so long.
//!
//! # Why our own
//! A quantile of runs of which some were cut off needs both kinds in the same buckets, with weights
//! that decay. Sketches that are kept elsewhere count whole numbers of one kind.
//!
//! # Invariants
//! * Buckets are strictly ascending by their mark, and each has a weight above zero.
//! * A bucket is 9 % wide, so its middle is within 4.5 % of every run time in it.

use std::time::Duration;

/// The number of buckets for each factor of two.
const PER_OCTAVE: u8 = 8;
/// The number of factors of two from the first second on. Run times of 2^26 s (two years) and more
/// share the last bucket.
const OCTAVES: u8 = 26;
/// The mark of the last bucket. That of the first, for less than a second, is 0.
pub(super) const LAST: u8 = 1 + OCTAVES * PER_OCTAVE;
/// The lower ends of the second to the last bucket of an octave: the powers of 2^(1/8), times 2^20.
const EIGHTHS: [u64; 7] =
    [1_143_480, 1_246_974, 1_359_835, 1_482_910, 1_617_125, 1_763_488, 1_923_097];

/// The knowledge of the length of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLength {
    /// The run ended by itself: its length is known.
    Whole,
    /// The run was cut off, or its begin is unknown: it would have lasted, or has lasted, longer.
    AtLeast,
}

/// Run times between two marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bucket {
    pub(super) mark: u8,
    /// The weight of runs that ended by themselves.
    pub(super) ended: f64,
    /// The weight of runs that lasted at least so long.
    pub(super) at_least: f64,
}

impl Bucket {
    fn weight(&self) -> f64 {
        self.ended + self.at_least
    }
}

/// Run times, counted by their length.
///
/// ```
/// use std::time::Duration;
/// use monoceros_rules::runtimes::{Histogram, RunLength};
///
/// let mut histogram = Histogram::default();
/// for hours in [1, 1, 8] {
///     histogram.add(Duration::from_secs(3_600 * hours), RunLength::Whole, 1.0);
/// }
/// let hours = |part, age: u64| {
///     let age = Duration::from_secs(3_600 * age);
///     histogram.quantile(part, age).map(|lasts| lasts.as_secs_f64() / 3_600.0)
/// };
/// assert!((0.95..1.05).contains(&hours(0.5, 0).unwrap()));
/// assert!((7.6..8.4).contains(&hours(0.5, 2).unwrap()), "after two hours it is the long one");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    buckets: Vec<Bucket>,
}

impl Histogram {
    /// Builds a histogram from buckets, which are in order.
    pub(super) fn of(buckets: Vec<Bucket>) -> Self {
        debug_assert!(buckets.is_sorted_by(|one, next| one.mark < next.mark));
        Self { buckets }
    }

    /// The buckets, in order.
    pub(super) fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Counts a run with this weight.
    pub fn add(&mut self, lasted: Duration, length: RunLength, weight: f64) {
        self.add_at(mark_of(lasted), length, weight);
    }

    /// Counts a run in the bucket with this mark.
    pub(super) fn add_at(&mut self, mark: u8, length: RunLength, weight: f64) {
        let at = self.buckets.partition_point(|bucket| bucket.mark < mark);
        if self.buckets.get(at).is_none_or(|bucket| bucket.mark != mark) {
            self.buckets.insert(at, Bucket { mark, ended: 0.0, at_least: 0.0 });
        }
        let bucket = &mut self.buckets[at];
        match length {
            RunLength::Whole => bucket.ended += weight,
            RunLength::AtLeast => bucket.at_least += weight,
        }
    }

    /// Multiplies all weights by this factor. Buckets whose weight becomes zero go.
    pub(super) fn scale(&mut self, factor: f64) {
        for bucket in &mut self.buckets {
            bucket.ended *= factor;
            bucket.at_least *= factor;
        }
        self.buckets.retain(|bucket| bucket.weight() > 0.0);
    }

    /// The weight of all runs.
    pub fn weight(&self) -> f64 {
        self.buckets.iter().map(Bucket::weight).sum()
    }

    /// The weight of the runs that ended by themselves.
    pub fn ended(&self) -> f64 {
        self.buckets.iter().map(|bucket| bucket.ended).sum()
    }

    /// Returns the run time within which this part (0 to 1) of those runs ends that last at least
    /// as long as `age`. `None` if that is unknown: so many of them were cut off before.
    pub fn quantile(&self, part: f64, age: Duration) -> Option<Duration> {
        let from = self.buckets.partition_point(|bucket| bucket.mark < mark_of(age));
        let mut go_on = 1.0;
        for at in from..self.buckets.len() {
            let bucket = self.buckets[at];
            if bucket.ended <= 0.0 {
                continue;
            }
            // Runs of this bucket that were cut off count as if they had been cut off at its end.
            let at_risk: f64 = self.buckets[at..].iter().map(Bucket::weight).sum();
            go_on *= 1.0 - bucket.ended / at_risk;
            if go_on <= 1.0 - part {
                return Some(middle(bucket.mark).max(age));
            }
        }
        None
    }
}

/// Returns the mark of the bucket of a run time.
pub(super) fn mark_of(lasted: Duration) -> u8 {
    let milliseconds = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX);
    let Some(octave) = (milliseconds / 1_000).checked_ilog2() else { return 0 };
    let octave = u8::try_from(octave).unwrap_or(OCTAVES);
    if octave >= OCTAVES {
        return LAST;
    }
    // The run time in units of the octave's begin: 2^20 to 2^21.
    let place = (milliseconds << 20) / (1_000 << octave);
    let passed = (1..).zip(EIGHTHS).take_while(|(_, from)| *from <= place);
    1 + octave * PER_OCTAVE + passed.last().map_or(0, |(eighth, _)| eighth)
}

/// Returns the run time that stands for all of a bucket.
pub(super) fn middle(mark: u8) -> Duration {
    match mark {
        0 => Duration::from_millis(500),
        LAST.. => Duration::from_secs(1 << OCTAVES),
        _ => {
            let octaves = (f64::from(mark - 1) + 0.5) / f64::from(PER_OCTAVE);
            Duration::from_secs_f64(octaves.exp2())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The product-limit estimator over single runs, by its definition.
    fn naive(runs: &[(Duration, RunLength)], part: f64, age: Duration) -> Option<Duration> {
        let mut marks: Vec<u8> = runs.iter().map(|(lasted, _)| mark_of(*lasted)).collect();
        marks.retain(|mark| *mark >= mark_of(age));
        marks.sort_unstable();
        marks.dedup();
        let mut go_on = 1.0;
        for mark in marks {
            let at_risk = runs.iter().filter(|(lasted, _)| mark_of(*lasted) >= mark).count();
            let here = |run: &&(Duration, RunLength)| mark_of(run.0) == mark;
            let ended = runs.iter().filter(here).filter(|run| run.1 == RunLength::Whole).count();
            go_on *= 1.0 - ended as f64 / at_risk as f64;
            if ended > 0 && go_on <= 1.0 - part {
                return Some(middle(mark).max(age));
            }
        }
        None
    }

    fn run() -> impl Strategy<Value = (Duration, RunLength)> {
        let length = prop_oneof![Just(RunLength::Whole), Just(RunLength::AtLeast)];
        (0..400_000_u64, length).prop_map(|(ms, length)| (Duration::from_millis(ms), length))
    }

    proptest! {
        #[test]
        fn what_was_preempted_counts_as_at_least_so_long(
            runs in prop::collection::vec(run(), 0..40),
            part in 0.01..0.99_f64,
            age in 0..200_000_u64,
        ) {
            let mut histogram = Histogram::default();
            for (lasted, length) in &runs {
                histogram.add(*lasted, *length, 1.0);
            }
            for age in [Duration::ZERO, Duration::from_millis(age)] {
                prop_assert_eq!(histogram.quantile(part, age), naive(&runs, part, age));
            }
            let ended = runs.iter().filter(|(_, length)| *length == RunLength::Whole).count();
            prop_assert!((histogram.ended() - ended as f64).abs() < 1e-9);
            prop_assert!((histogram.weight() - runs.len() as f64).abs() < 1e-9);
        }

        #[test]
        fn the_middle_of_a_bucket_is_near_all_of_it(ms in 1_000..10_000_000_000_u64) {
            let lasted = Duration::from_millis(ms);
            let ratio = middle(mark_of(lasted)).as_secs_f64() / lasted.as_secs_f64();
            prop_assert!((0.955..1.046).contains(&ratio), "{} for {:?}", ratio, lasted);
        }
    }

    #[test]
    fn marks_ascend_from_less_than_a_second_to_years() {
        let mark = |ms| mark_of(Duration::from_millis(ms));
        assert_eq!([0, 999, 1_000, 1_090, 1_091, 2_000].map(mark), [0, 0, 1, 1, 2, 9]);
        let of_seconds = |seconds| mark_of(Duration::from_secs(seconds));
        assert_eq!([(1 << 26) - 1, 1 << 26, u64::MAX].map(of_seconds), [LAST - 1, LAST, LAST]);
        assert_eq!(middle(LAST), Duration::from_secs(1 << 26));
    }

    #[test]
    fn a_quantile_beyond_what_ended_is_unknown() {
        let mut histogram = Histogram::default();
        let hour = Duration::from_secs(3_600);
        histogram.add(hour, RunLength::Whole, 1.0);
        histogram.add(2 * hour, RunLength::AtLeast, 1.0);
        assert!(histogram.quantile(0.5, Duration::ZERO).is_some());
        assert_eq!(histogram.quantile(0.51, Duration::ZERO), None);
        assert_eq!(histogram.quantile(0.01, 2 * hour), None);
        assert_eq!(Histogram::default().quantile(0.5, Duration::ZERO), None);
    }
}
