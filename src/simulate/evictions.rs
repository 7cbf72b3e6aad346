//! Evicted pods: their machines, the grounds, and the work that was lost.

use std::collections::BTreeMap;

use super::amount::{Amount, ResourceKind};
use super::history::History;
use super::trace::Trace;
use crate::replay::grounds::Grounds;

#[derive(Clone, Debug)]
pub(crate) struct Eviction {
    /// When the pod exited, in milliseconds on the clock of the trace.
    pub(crate) at: i64,
    pub(crate) pod: usize,
    pub(crate) machine: usize,
    pub(crate) grounds: Grounds,
    /// The time that the pod ran on its machine, and the part of it that was lost, in milliseconds.
    pub(crate) ran: i64,
    pub(crate) lost: i64,
}

/// Amounts × milliseconds, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work([i128; 3]);

impl Work {
    pub(crate) fn add(&mut self, amount: &Amount, milliseconds: i64) {
        for kind in ResourceKind::ALL {
            self.0[kind as usize] += i128::from(amount[kind]) * i128::from(milliseconds);
        }
    }

    /// Returns the lost amount × seconds.
    pub(crate) fn of(&self, kind: ResourceKind) -> f64 {
        self.0[kind as usize] as f64 / 1000.0
    }

    /// Returns the lost work as a share of `whole`, in amount × milliseconds. 0 if `whole` is 0.
    pub(crate) fn share(&self, kind: ResourceKind, whole: i128) -> f64 {
        if whole == 0 { 0.0 } else { self.0[kind as usize] as f64 / whole as f64 }
    }
}

/// Number of evictions, and the lost work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) evictions: usize,
    pub(crate) wasted: Work,
}

/// Returns all losses, and the losses by queue and grounds.
pub(crate) fn losses(
    trace: &Trace,
    history: &History,
) -> (Losses, BTreeMap<(String, Grounds), Losses>) {
    let (mut all, mut apart) = (Losses::default(), BTreeMap::new());
    for eviction in &history.evictions {
        let ask = &trace.pods[eviction.pod].ask;
        let queue = history.pods[eviction.pod].queue.clone();
        let row: &mut Losses = apart.entry((queue, eviction.grounds.clone())).or_default();
        for losses in [&mut all, row] {
            losses.evictions += 1;
            losses.wasted.add(ask, eviction.lost);
        }
    }
    (all, apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted_in_amounts_times_seconds() {
        let mut work = Work::default();
        work.add(&Amount::new(0, 500, 2000), 1500);
        assert!((work.of(ResourceKind::Vcore) - 3000.0).abs() < 1e-9);
        assert!((work.share(ResourceKind::Gpu, 1_500_000) - 0.5).abs() < 1e-9);
        assert!(work.share(ResourceKind::Memory, 0).abs() < 1e-9);
    }
}
