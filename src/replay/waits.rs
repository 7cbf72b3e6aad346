//! How long asks or pods waited until their start.

use serde::Serialize;

use super::numbers::{rounded, seconds};

/// Waits in seconds, of asks or pods that started. A percentile is the smallest wait that at least
/// this percentage of them does not exceed (nearest rank).
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Waits {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Waits {
    /// Summarises waits in milliseconds. Zero if there are none.
    pub(crate) fn of(mut waits: Vec<i64>) -> Self {
        waits.sort_unstable();
        let Some(&longest) = waits.last() else { return Self::default() };
        let sum: i128 = waits.iter().copied().map(i128::from).sum();
        Self {
            mean: rounded(sum as f64 / waits.len() as f64 / 1000.0),
            p50: seconds(nearest_rank(&waits, 50)),
            p95: seconds(nearest_rank(&waits, 95)),
            p99: seconds(nearest_rank(&waits, 99)),
            max: seconds(longest),
        }
    }
}

/// Returns a percentile of `sorted`, which is not empty; `percent` is from 1 to 100.
fn nearest_rank(sorted: &[i64], percent: usize) -> i64 {
    sorted[(sorted.len() * percent).div_ceil(100) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_the_nearest_rank() {
        let waits: Vec<i64> = (1..=10).collect();
        let ranks = [1, 50, 95, 99, 100].map(|percent| nearest_rank(&waits, percent));
        assert_eq!(ranks, [1, 5, 10, 10, 10]);
        assert_eq!(nearest_rank(&[7], 50), 7);
    }

    #[test]
    fn without_a_started_pod_all_waits_are_zero() {
        assert_eq!(Waits::of(Vec::new()), Waits::default());
    }
}
