//! The order in which nodes are evaluated.
//!
//! # Why lazily
//! Of hundreds of nodes that may be used, one is needed, or ten if the RM is asked. So each node
//! has a *bound*: the least weight that its victims can have, and the lowest index of a victim in a
//! set of that weight, from the sizes and priorities of its candidates alone. Nodes are evaluated
//! in order of their bounds. As soon as no bound is below the best solution found, that solution is
//! the best of all, and the other nodes need not be evaluated. Bounds are kept from plan to plan:
//! only a node on which a candidate was taken gets a new one. Restrictions by queues can only make
//! a plan more expensive, so a bound stays valid.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::demand::Judge;
use super::planner::Planner;
use super::rows::{Row, is_nothing, shortfall, subtract};
use super::score::{Weight, gang_bit};
use super::solution::{Goal, Rank, Ranking, Solution};
use super::survey::NONE;

/// Every union of the bits of [`score`](super::score), smallest first.
const KINDS: [u8; 8] = [0, 1, 4, 5, 8, 9, 12, 13];

/// Solutions, one after another, the best first; of equal solutions, the one on the first node by
/// id.
#[derive(Debug, Default)]
pub(super) struct Emission {
    found: BTreeMap<(Rank, u32), Solution>,
    after: Option<(Rank, u32)>,
}

impl Emission {
    /// Returns the next solution. No candidate may be taken or given back between two calls.
    pub(super) fn next(
        &mut self,
        planner: &mut Planner,
        judge: &dyn Judge,
        goal: &Goal,
    ) -> Option<Solution> {
        planner.rank(goal, judge.searches_victims());
        loop {
            let bound = planner.next_bound(self.after);
            let found = self.found.keys().next().copied();
            if let Some(found) = found.filter(|found| bound.is_none_or(|bound| *found <= bound)) {
                return self.found.remove(&found);
            }
            let bound = bound?;
            self.after = Some(bound);
            if let Some(solution) = planner.evaluate(bound.1, goal, judge) {
                self.found.insert((solution.rank(), bound.1), solution);
            }
        }
    }
}

impl Planner {
    /// Computes the bounds for this goal, unless they exist.
    fn rank(&mut self, goal: &Goal, searches_victims: bool) {
        let may_be_empty = goal.may_be_empty || searches_victims;
        let holds = |it: &Ranking| it.wanted == goal.wanted && it.may_be_empty == may_be_empty;
        if self.ranking.as_ref().is_some_and(holds) {
            return;
        }
        let mut ranking = Ranking {
            wanted: goal.wanted.clone(),
            may_be_empty,
            keys: vec![None; self.nodes.len()],
            order: BTreeSet::new(),
        };
        for node in 0..super::survey::index(self.nodes.len()) {
            ranking.set(node, self.bound(node, &ranking));
        }
        self.ranking = Some(ranking);
    }

    /// Computes new bounds for this node and the nodes of these candidates.
    pub(super) fn rank_again(&mut self, node: u32, order: &[u32]) {
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

    fn next_bound(&self, after: Option<(Rank, u32)>) -> Option<(Rank, u32)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let order = &self.ranking.as_ref()?.order;
        order.range((after.map_or(Unbounded, Excluded), Unbounded)).next().copied()
    }

    /// Returns the least weight that victims on a node can have, and the lowest index of the first
    /// victim. `None` if all candidates on the node are not enough.
    fn bound(&self, node: u32, ranking: &Ranking) -> Option<Rank> {
        let entry = &self.nodes[node as usize];
        if entry.is_out {
            return None;
        }
        let mut short = shortfall(&ranking.wanted, self.rooms.row(node as usize));
        if is_nothing(&short) {
            return ranking.may_be_empty.then_some(Rank::default());
        }
        let mut victims: SmallVec<[(u8, u32); 16]> = SmallVec::new();
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
            victims.push((candidate.bits | of_gang, at));
        }
        if is_nothing(&short) {
            return Some(Rank::default());
        }
        let is_enough = |free: &dyn Fn(usize) -> i128| {
            short.iter().enumerate().all(|(k, short)| *short <= 0 || free(k) >= i128::from(*short))
        };
        let size = |at: u32, k: usize| i128::from(self.sizes.row(at as usize)[k]);
        // Each figure is the least that a set can have among the sets that are least in all figures
        // before it.
        let bits = KINDS.into_iter().find(|kinds| {
            let of = victims.iter().filter(|(bits, _)| bits & !kinds == 0);
            is_enough(&|k| of.clone().map(|(_, at)| size(*at, k)).sum())
        })?;
        victims.retain(|(of, _)| *of & !bits == 0);
        let priority_of = |(_, at): &(u8, u32)| self.candidates[*at as usize].priority;
        victims.sort_by_key(priority_of);
        let mut free: SmallVec<[i128; 4]> = SmallVec::from_elem(0, short.len());
        let enough = victims.iter().find(|(_, at)| {
            free.iter_mut().enumerate().for_each(|(k, free)| *free += size(*at, k));
            is_enough(&|k| free[k])
        })?;
        let priority = priority_of(enough);
        victims.retain(|it| priority_of(it) <= priority);
        let places = victims.iter().map(|(_, at)| *at);
        let alone = places.clone().filter(|at| is_enough(&|k| size(*at, k))).min();
        let (least, first) = match alone {
            Some(first) => (1, first),
            None => (self.least_victims(&short, &places).max(2), places.min()?),
        };
        let weight = Weight { bits, priority, victims: least, ..Weight::default() };
        Some((weight, first))
    }

    /// Returns the least number of these victims that frees the shortage.
    fn least_victims(&self, short: &Row, victims: &(impl Iterator<Item = u32> + Clone)) -> u32 {
        let least = (0..short.len()).filter(|k| short[*k] > 0).map(|k| {
            let sizes = victims.clone().map(|at| self.sizes.row(at as usize)[k]);
            let mut sizes: SmallVec<[i64; 16]> = sizes.collect();
            sizes.sort_unstable_by(|left, right| right.cmp(left));
            let mut left = short[k];
            let enough = sizes.iter().position(|size| {
                left = left.saturating_sub(*size);
                left <= 0
            });
            enough.map_or(sizes.len(), |at| at + 1)
        });
        super::survey::index(least.max().unwrap_or(0))
    }
}
