//! Which nodes are looked at first.
//!
//! # Why lazily
//! Of hundreds of nodes that would do, one is needed, or ten where the RM is asked. So each node has a
//! *bound*: what its victims weigh at least, from the sizes of its candidates alone. Nodes are
//! evaluated in order of their bounds, and as soon as no bound is below what was found, the best is
//! known without a look at the others. Bounds stay from plan to plan: only a node at which something
//! was taken gets a new one. Whatever the queues forbid makes a plan dearer, so a bound stays true.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::choose::{Goal, Solution};
use super::demand::Judge;
use super::planner::Planner;
use super::rows::{Row, is_nothing, shortfall, subtract};
use super::score::{Weight, gang_bit};
use super::survey::NONE;

/// Every union of the bits of [`score`](super::score), smallest first.
const KINDS: [u8; 8] = [0, 1, 4, 5, 8, 9, 12, 13];

/// The bounds of all nodes for one size.
#[derive(Debug)]
pub(super) struct Ranking {
    wanted: Row,
    way: Way,
    may_be_empty: bool,
    keys: Vec<Option<u64>>,
    order: BTreeSet<(u64, u32)>,
}

/// What nodes are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// What is lost: the best first.
    Score,
    /// How many on the node would have to go: the order in which the RM is asked.
    Listed,
}

/// Solutions, one after another, the best first.
#[derive(Debug)]
pub(super) struct Emission {
    way: Way,
    found: BTreeMap<(u64, u32), Solution>,
    after: Option<(u64, u32)>,
}

impl Emission {
    /// Ordered by what is lost.
    pub(super) fn by_score() -> Self {
        Self { way: Way::Score, found: BTreeMap::new(), after: None }
    }

    /// Ordered as the RM is asked.
    pub(super) fn by_listed() -> Self {
        Self { way: Way::Listed, found: BTreeMap::new(), after: None }
    }

    /// The next one. Nothing may be taken or given back between two of them.
    pub(super) fn next(
        &mut self,
        planner: &mut Planner,
        judge: &dyn Judge,
        goal: &Goal,
    ) -> Option<Solution> {
        planner.rank(goal, self.way, judge.looks_at_victims());
        loop {
            let bound = planner.next_bound(self.after);
            let found = self.found.keys().next().copied();
            if let Some(found) = found.filter(|found| bound.is_none_or(|bound| *found <= bound)) {
                return self.found.remove(&found);
            }
            let bound = bound?;
            self.after = Some(bound);
            if let Some(solution) = planner.evaluate(bound.1, goal, judge) {
                let key = match self.way {
                    Way::Score => solution.weight.score(),
                    Way::Listed => planner.listed(&solution).len() as u64,
                };
                self.found.insert((key, bound.1), solution);
            }
        }
    }
}

impl Planner {
    /// Sees to it that there are bounds for this goal.
    fn rank(&mut self, goal: &Goal, way: Way, looks_at_victims: bool) {
        let may_be_empty = goal.may_be_empty || looks_at_victims;
        if self.ranking.as_ref().is_some_and(|it| {
            it.wanted == goal.wanted && it.way == way && it.may_be_empty == may_be_empty
        }) {
            return;
        }
        let mut ranking = Ranking {
            wanted: goal.wanted.clone(),
            way,
            may_be_empty,
            keys: vec![None; self.nodes.len()],
            order: BTreeSet::new(),
        };
        for node in 0..super::survey::index(self.nodes.len()) {
            ranking.set(node, self.bound(node, &ranking));
        }
        self.ranking = Some(ranking);
    }

    /// Finds new bounds where these were taken or settled.
    pub(super) fn rank_anew(&mut self, node: u32, order: &[u32]) {
        let Some(mut ranking) = self.ranking.take() else { return };
        let mut nodes: SmallVec<[u32; 4]> = SmallVec::from_slice(&[node]);
        nodes.extend(order.iter().map(|at| self.candidates[*at as usize].node));
        for node in nodes {
            if node != NONE {
                ranking.set(node, self.bound(node, &ranking));
            }
        }
        self.ranking = Some(ranking);
    }

    fn next_bound(&self, after: Option<(u64, u32)>) -> Option<(u64, u32)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let order = &self.ranking.as_ref()?.order;
        order.range((after.map_or(Unbounded, Excluded), Unbounded)).next().copied()
    }

    /// The least that the victims on a node may weigh; `None` where they are not enough anyway.
    fn bound(&self, node: u32, ranking: &Ranking) -> Option<u64> {
        let entry = &self.nodes[node as usize];
        if entry.is_out {
            return None;
        }
        let mut short = shortfall(&ranking.wanted, self.rooms.row(node as usize));
        if is_nothing(&short) {
            return ranking.may_be_empty.then_some(0);
        }
        let mut sizes: SmallVec<[(u8, u32); 16]> = SmallVec::new();
        for &at in &entry.candidates {
            let candidate = &self.candidates[at as usize];
            if self.gone[at as usize] || self.applications[candidate.application as usize].is_out {
                continue;
            }
            if candidate.is_hold {
                subtract(&mut short, self.sizes.row(at as usize));
                continue;
            }
            let of_gang = if candidate.group == NONE {
                0
            } else {
                let group = &self.groups[candidate.group as usize];
                gang_bit(group.real, group.min_members)
            };
            sizes.push((candidate.bits | of_gang, at));
        }
        if is_nothing(&short) {
            return Some(0);
        }
        let bits = KINDS.into_iter().find(|kinds| {
            (0..short.len()).all(|k| {
                let of = sizes.iter().filter(|(bits, _)| bits & !kinds == 0);
                let sum = of.map(|(_, at)| i128::from(self.sizes.row(*at as usize)[k]));
                short[k] <= 0 || sum.sum::<i128>() >= i128::from(short[k])
            })
        })?;
        let kinds = if ranking.way == Way::Score { bits } else { u8::MAX };
        let victims = (0..short.len()).map(|k| {
            if short[k] <= 0 {
                return 0;
            }
            let of = sizes.iter().filter(|(bits, _)| bits & !kinds == 0);
            let mut of: SmallVec<[i64; 16]> =
                of.map(|(_, at)| self.sizes.row(*at as usize)[k]).collect();
            of.sort_unstable_by(|left, right| right.cmp(left));
            let mut left = short[k];
            let enough = of.iter().position(|size| {
                left = left.saturating_sub(*size);
                left <= 0
            });
            enough.map_or(of.len(), |at| at + 1)
        });
        let victims = super::survey::index(victims.max().unwrap_or(0));
        Some(match ranking.way {
            Way::Score => Weight { bits, victims, holds: 0 }.score(),
            Way::Listed => u64::from(victims),
        })
    }
}

impl Ranking {
    fn set(&mut self, node: u32, key: Option<u64>) {
        let old = std::mem::replace(&mut self.keys[node as usize], key);
        if let Some(old) = old {
            self.order.remove(&(old, node));
        }
        if let Some(key) = key {
            self.order.insert((key, node));
        }
    }
}
