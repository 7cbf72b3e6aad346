//! What queues and users hold over virtual time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use monoceros_actors::Resources;

/// The number of samples over the horizon.
pub(super) const SAMPLES: i64 = 240;

/// An amount by the number of each resource.
pub(super) type Amount = Vec<(usize, i64)>;

/// Whoever holds something: a queue, or a user.
#[derive(Clone, Debug, Default)]
struct Holder {
    /// The present amount, by the number of the resource.
    now: Vec<i64>,
    /// Amount × milliseconds until `since`.
    passed: Vec<f64>,
    since: i64,
    /// The largest share of any resource at each sample.
    samples: Vec<f64>,
}

/// The holdings of all queues and users.
#[derive(Debug)]
pub(super) struct Usage {
    names: HashMap<Arc<str>, usize>,
    /// The capacity, by the number of the resource.
    capacity: Vec<i64>,
    holders: BTreeMap<Whose, Holder>,
    horizon: i64,
    n_samples: i64,
}

/// A queue or a user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    Queue(Arc<str>),
    User(Arc<str>),
}

/// What somebody held over the horizon.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Held {
    /// The mean of the largest share of any resource.
    pub(super) mean: f64,
    /// The largest share of any resource at each sample.
    pub(super) samples: Vec<f64>,
}

impl Usage {
    /// Begins at time 0 with this capacity, for this many milliseconds.
    pub(super) fn new<'a>(capacity: impl Iterator<Item = &'a Resources>, horizon: i64) -> Self {
        let mut usage = Self {
            names: HashMap::new(),
            capacity: Vec::new(),
            holders: BTreeMap::new(),
            horizon: horizon.max(1),
            n_samples: 0,
        };
        for of_node in capacity {
            for (number, quantity) in usage.amount(of_node) {
                if usage.capacity.len() <= number {
                    usage.capacity.resize(number + 1, 0);
                }
                usage.capacity[number] = usage.capacity[number].saturating_add(quantity);
            }
        }
        usage
    }

    pub(super) fn amount(&mut self, resources: &Resources) -> Amount {
        let of = |(name, quantity): (Arc<str>, i64)| {
            let next = self.names.len();
            (*self.names.entry(name).or_insert(next), quantity)
        };
        resources.sorted().into_iter().map(of).collect()
    }

    /// Adds an amount to what somebody holds from `at` on, or takes it off (`times` is -1).
    pub(super) fn change(&mut self, at: i64, whose: Whose, amount: &Amount, times: i64) {
        let holder = self.holders.entry(whose).or_default();
        holder.pass(at);
        for &(number, quantity) in amount {
            if holder.now.len() <= number {
                holder.now.resize(number + 1, 0);
                holder.passed.resize(number + 1, 0.0);
            }
            holder.now[number] = holder.now[number].saturating_add(quantity.saturating_mul(times));
        }
    }

    /// Takes the samples until `at`, before anything changes at that time.
    pub(super) fn sample_until(&mut self, at: i64) {
        while self.n_samples < SAMPLES && self.time_of(self.n_samples) < at {
            self.n_samples += 1;
            let n_samples = usize::try_from(self.n_samples).unwrap_or_default();
            for holder in self.holders.values_mut() {
                let shares = shares(&self.capacity, holder.now.iter().map(|&held| held as f64));
                // One who held nothing before has no samples yet.
                holder.samples.resize(n_samples - 1, 0.0);
                holder.samples.push(shares);
            }
        }
    }

    /// Returns the time of a sample, in milliseconds.
    pub(super) fn time_of(&self, sample: i64) -> i64 {
        self.horizon * sample / SAMPLES
    }

    /// Ends at the horizon. Returns what everybody held.
    pub(super) fn finish(mut self) -> BTreeMap<Whose, Held> {
        let horizon = self.horizon;
        self.sample_until(horizon);
        let capacity = &self.capacity;
        let holders = self.holders.into_iter().map(|(whose, mut holder)| {
            holder.pass(horizon);
            let means = holder.passed.iter().map(|passed| passed / horizon as f64);
            (whose, Held { mean: shares(capacity, means), samples: holder.samples })
        });
        holders.collect()
    }
}

impl Holder {
    fn pass(&mut self, at: i64) {
        let passed = (at - self.since).max(0) as f64;
        for (sum, held) in self.passed.iter_mut().zip(&self.now) {
            *sum += *held as f64 * passed;
        }
        self.since = self.since.max(at);
    }
}

/// Returns the largest share of any resource that the cluster has.
fn shares(capacity: &[i64], held: impl Iterator<Item = f64>) -> f64 {
    let shares = held.zip(capacity).filter(|(_, of)| **of > 0).map(|(held, of)| held / *of as f64);
    shares.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_means_over_the_horizon() {
        let node = Resources::of(&[("vcore", 8), ("memory", 100)]);
        let mut usage = Usage::new([&node, &node].into_iter(), 1_000);
        let amount = usage.amount(&Resources::of(&[("vcore", 4), ("memory", 20)]));
        let queue = || Whose::Queue(Arc::from("root.a"));
        usage.change(0, queue(), &amount, 1);
        usage.sample_until(500);
        usage.change(500, queue(), &amount, 1);
        usage.sample_until(750);
        usage.change(750, queue(), &amount, -1);
        let held = &usage.finish()[&queue()];
        // A quarter of the cores for 500 ms, a half for 250, a quarter for 250.
        assert!((held.mean - 0.3125).abs() < 1e-9, "{held:?}");
        assert_eq!(held.samples.len(), 240);
        let shown = [0, 125, 239].map(|at| format!("{:.2}", held.samples[at]));
        assert_eq!(shown, ["0.25", "0.50", "0.25"]);
    }
}
