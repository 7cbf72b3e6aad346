//! The choice of victims for one member of the preemptor on one node.
//!
//! # The best set, if it can be found
//! With up to 16 candidates on a node, every set that could be the best is examined. Sets are
//! compared by the kinds of victims, then by the most important victim, then by the number of
//! victims, then by the first victim in order. Sets that cannot become better than the best so far
//! are not extended. With more candidates, two orders are tried: the least important first; and the
//! largest first among those that are no more important than the first order needs. In each, the
//! candidates that are not needed are spared, and the better result counts.
//!
//! # If queues have too little room
//! Capacity on the node is not enough: the maximum of every queue on the preemptor's path has to
//! hold the preemptor, too. Nearly always the victims on the node free enough in the queues. If
//! they do not, candidates on any node are chosen, and again only as many as needed.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::bounds::{Item, Rest, rest};
use super::demand::{Judge, Trial};
use super::planner::{Elsewhere, Planner};
use super::rows::{Row, is_nothing, shortfall, subtract};
use super::score::Weight;
use super::solution::{Goal, Solution};
use crate::values::ids::AllocationId;

/// The maximum number of candidates for which the best set is found.
const EXACT: usize = 16;

/// A search for the best set.
struct Search<'a> {
    goal: &'a Goal,
    judge: &'a dyn Judge,
    node: u32,
    items: &'a [Item],
    /// For each item, the amounts that it and the items behind it can free.
    rest: Vec<Rest>,
    needs_queues: bool,
    chosen: Vec<usize>,
    bound: Weight,
    best: Option<Vec<usize>>,
}

impl Planner {
    /// Returns the victims that are needed so that the member can run on the node. `None` if all
    /// candidates that may be taken are not enough.
    pub(super) fn evaluate(
        &mut self,
        node: u32,
        goal: &Goal,
        judge: &dyn Judge,
    ) -> Option<Solution> {
        if self.nodes[node as usize].is_out {
            return None;
        }
        let could_suit = if judge.searches_victims() {
            judge.could_suit(goal.member, self.nodes[node as usize].slot)
        } else {
            self.suits(judge, node, goal, &[])
        };
        if !could_suit {
            return None;
        }
        let short = shortfall(&goal.wanted, self.rooms.row(node as usize));
        let is_fit = is_nothing(&short) && self.suits(judge, node, goal, &[]);
        let chosen = if is_fit {
            Vec::new()
        } else {
            let on_node = self.items(&self.nodes[node as usize].candidates, node, judge);
            self.choose(node, goal, judge, &on_node, &short, false)?
        };
        if !goal.is_last || self.bear_with(&chosen) {
            let is_answer = goal.may_be_empty || !chosen.is_empty();
            return is_answer.then(|| self.solution(node, chosen));
        }
        let is_like_others = is_fit && !judge.searches_victims();
        let known = if is_like_others { self.elsewhere.clone() } else { Elsewhere::Unknown };
        let chosen = match known {
            Elsewhere::Known(chosen) => chosen,
            Elsewhere::Unknown => {
                let chosen = self.choose_anywhere(node, goal, judge, &short);
                if is_like_others {
                    self.elsewhere = Elsewhere::Known(chosen.clone());
                }
                chosen
            }
        };
        let chosen = chosen?;
        Some(self.solution(node, chosen))
    }

    /// Returns victims on this and on other nodes, so that the maxima of the queues hold the
    /// preemptor, too.
    fn choose_anywhere(
        &mut self,
        node: u32,
        goal: &Goal,
        judge: &dyn Judge,
        short: &Row,
    ) -> Option<Vec<u32>> {
        let needs_node = !is_nothing(short) || judge.searches_victims();
        let helps = |at: &u32| {
            let candidate = &self.candidates[*at as usize];
            let size = self.sizes.row(*at as usize);
            (needs_node && candidate.node == node)
                || self.tree.helps_room(candidate.leaf as usize, size, &self.total)
        };
        let pool: Vec<u32> =
            (0..super::survey::index(self.candidates.len())).filter(helps).collect();
        let pool = self.items(&pool, node, judge);
        if pool.len() > EXACT {
            self.wide_left = self.wide_left.checked_sub(1)?;
        }
        self.choose(node, goal, judge, &pool, short, true)
    }

    fn solution(&mut self, node: u32, order: Vec<u32>) -> Solution {
        let weight = self.weigh(&order, &[]);
        Solution { node, order, more: Vec::new(), weight, is_answered: false }
    }

    /// Whether the maxima of the queues hold the preemptor once these candidates are evicted.
    fn bear_with(&mut self, order: &[u32]) -> bool {
        let is_taken = self.take_all(order);
        debug_assert!(is_taken, "what was chosen may be taken");
        let bear = self.tree.have_room(&self.total);
        self.give_back_all(order);
        bear
    }

    pub(super) fn suits(
        &self,
        judge: &dyn Judge,
        node: u32,
        goal: &Goal,
        gone: &[AllocationId],
    ) -> bool {
        let node = self.nodes[node as usize].slot;
        judge.suits(&Trial { member: goal.member, node, gone, mates: &goal.mates })
    }

    /// Returns the items that may be taken now, in order.
    fn items(&self, candidates: &[u32], node: u32, judge: &dyn Judge) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::with_capacity(candidates.len());
        let mut seen: SmallVec<[u32; 4]> = SmallVec::new();
        for &at in candidates {
            let candidate = &self.candidates[at as usize];
            let application = &self.applications[candidate.application as usize];
            if self.gone[at as usize]
                || application.is_out
                || !self.is_open[candidate.leaf as usize]
            {
                continue;
            }
            if !application.goes_as_one {
                let is_twin = !judge.searches_victims()
                    && items.last().is_some_and(|last| self.are_alike(last, at));
                items.push(self.item(SmallVec::from_slice(&[at]), node, is_twin));
            } else if !seen.contains(&candidate.application) {
                seen.push(candidate.application);
                items.push(self.item(SmallVec::from_slice(&application.together), node, false));
            }
        }
        items
    }

    fn item(&self, members: SmallVec<[u32; 2]>, node: u32, is_twin: bool) -> Item {
        let mut cover = Row::from_elem(0, self.total.len());
        let mut weight = Weight::default();
        for at in &members {
            let candidate = &self.candidates[*at as usize];
            if candidate.node == node {
                super::rows::add(&mut cover, self.sizes.row(*at as usize));
            }
            let own = Weight::of(candidate.bits, candidate.priority, candidate.is_hold);
            weight = weight.plus(own);
        }
        Item { members, cover, is_twin, weight }
    }

    fn are_alike(&self, last: &Item, at: u32) -> bool {
        let [before] = last.members[..] else { return false };
        let (left, right) = (&self.candidates[before as usize], &self.candidates[at as usize]);
        left.leaf == right.leaf
            && left.node == right.node
            && left.bits == right.bits
            && left.priority == right.priority
            && left.is_hold == right.is_hold
            && left.is_counted == right.is_counted
            && left.group == right.group
            && (left.application == right.application
                || [left, right].iter().all(|it| {
                    let application = &self.applications[it.application as usize];
                    application.allowance.is_none() && !application.goes_as_one
                }))
            && self.sizes.row(before as usize) == self.sizes.row(at as usize)
    }

    /// Returns the candidates to take, in order.
    fn choose(
        &mut self,
        node: u32,
        goal: &Goal,
        judge: &dyn Judge,
        items: &[Item],
        short: &Row,
        needs_queues: bool,
    ) -> Option<Vec<u32>> {
        let mut search = Search::new(node, goal, judge, items, needs_queues);
        let greedy = self.greedily(&mut search, short);
        let chosen = if items.len() <= EXACT && self.steps_left > 0 {
            search.bound = greedy.as_ref().map_or(WORST, |(weight, _)| *weight);
            search.rest = rest(items, goal.wanted.len());
            search.chosen.clear();
            self.follow(&mut search, 0, short, Weight::default());
            search.best.take().or(greedy.map(|(_, chosen)| chosen))
        } else {
            greedy.map(|(_, chosen)| chosen)
        };
        let flat = |chosen: Vec<usize>| {
            chosen.iter().flat_map(|at| items[*at].members.iter().copied()).collect()
        };
        chosen.map(flat)
    }

    /// Returns the better result of both orders.
    fn greedily(&mut self, search: &mut Search<'_>, short: &Row) -> Option<(Weight, Vec<usize>)> {
        let items = search.items;
        let kind = |item: &Item| {
            let of_gangs = item.members.iter().map(|at| self.bit_of_gang(*at));
            (item.weight.bits | of_gangs.fold(0, |all, bit| all | bit), item.weight.victims > 0)
        };
        let kinds: Vec<(u8, bool)> = items.iter().map(kind).collect();
        let mut least_first: Vec<usize> = (0..items.len()).collect();
        let mut by_cover = least_first.clone();
        least_first.sort_by_key(|at| (kinds[*at], items[*at].weight.priority, *at));
        let first = self.one_way(search, short, &least_first);
        let enough = first.as_ref().map_or(i64::MIN, |(weight, _)| weight.priority);
        by_cover.sort_by_cached_key(|at| {
            let item = &items[*at];
            let priority = item.weight.priority.max(enough);
            (kinds[*at], priority, Reverse(cover_share(&item.cover, short)), *at)
        });
        if by_cover == least_first {
            return first;
        }
        let second = self.one_way(search, short, &by_cover);
        match (first, second) {
            (Some(first), Some(second)) => Some(if second.0 < first.0 { second } else { first }),
            (first, second) => first.or(second),
        }
    }

    /// Takes in this order the items that help, until they are enough, and then spares those that
    /// are not needed.
    fn one_way(
        &mut self,
        search: &mut Search<'_>,
        short: &Row,
        order: &[usize],
    ) -> Option<(Weight, Vec<usize>)> {
        let mut left = short.clone();
        search.chosen.clear();
        let mut is_met = self.is_met(search, &left);
        for &at in order {
            if is_met {
                break;
            }
            let item = &search.items[at];
            if !self.helps(search, item, &left) || self.take_item(item).is_none() {
                continue;
            }
            subtract(&mut left, &item.cover);
            search.chosen.push(at);
            is_met = self.is_met(search, &left);
        }
        if is_met {
            self.spare(search, &mut left);
        }
        let chosen = std::mem::take(&mut search.chosen);
        for at in chosen.iter().rev() {
            self.give_back_all(&search.items[*at].members);
        }
        if !is_met {
            return None;
        }
        let order: Vec<u32> =
            chosen.iter().flat_map(|at| search.items[*at].members.iter().copied()).collect();
        Some((self.weigh(&order, &[]), chosen))
    }

    /// Gives back the chosen items that are not needed, the last ones first. All chosen items are
    /// taken when it is called.
    fn spare(&mut self, search: &mut Search<'_>, left: &mut Row) {
        for at in (0..search.chosen.len()).rev() {
            let spared = search.chosen[at];
            let mut without = left.clone();
            super::rows::add(&mut without, &search.items[spared].cover);
            if !is_nothing(&without) {
                continue;
            }
            // The items behind it are taken again, since the order in which items are taken
            // matters.
            let behind: Vec<usize> = search.chosen.drain(at..).collect();
            let members = |at: &usize| search.items[*at].members.iter().copied();
            let all: Vec<u32> = behind.iter().flat_map(members).collect();
            let fewer: Vec<u32> = behind[1..].iter().flat_map(members).collect();
            self.give_back_all(&all);
            search.chosen.extend(&behind[1..]);
            let is_taken = self.take_all(&fewer);
            if is_taken && self.is_met(search, &without) {
                *left = without;
                continue;
            }
            if is_taken {
                self.give_back_all(&fewer);
            }
            search.chosen.truncate(at);
            search.chosen.extend(&behind);
            let is_back = self.take_all(&all);
            debug_assert!(is_back, "they were taken in this order before");
        }
    }

    fn helps(&self, search: &Search<'_>, item: &Item, left: &Row) -> bool {
        super::rows::have_in_common(&item.cover, left)
            || (search.judge.searches_victims() && !is_nothing(&item.cover))
            || (search.needs_queues
                && item.members.iter().any(|at| {
                    let leaf = self.candidates[*at as usize].leaf as usize;
                    self.tree.helps_room(leaf, self.sizes.row(*at as usize), &self.total)
                }))
    }

    fn is_met(&self, search: &Search<'_>, left: &Row) -> bool {
        if !is_nothing(left) || (search.needs_queues && !self.tree.have_room(&self.total)) {
            return false;
        }
        if !search.judge.searches_victims() {
            return true;
        }
        let items = search.chosen.iter().flat_map(|at| &search.items[*at].members);
        let gone: Vec<_> = items.map(|at| self.candidates[*at as usize].id).collect();
        self.suits(search.judge, search.node, search.goal, &gone)
    }

    fn take_item(&mut self, item: &Item) -> Option<Weight> {
        let mut weight = item.weight;
        for (done, at) in item.members.iter().enumerate() {
            let Some(bits) = self.take(*at, true) else {
                self.give_back_all(&item.members[..done]);
                return None;
            };
            weight.bits |= bits;
        }
        Some(weight)
    }

    /// Examines all sets that begin with the chosen items and continue with items from `at` on.
    fn follow(&mut self, search: &mut Search<'_>, at: usize, left: &Row, weight: Weight) {
        if self.steps_left == 0 {
            return;
        }
        self.steps_left -= 1;
        if search.is_beaten(weight) {
            return;
        }
        if self.is_met(search, left) {
            search.bound = weight;
            search.best = Some(search.chosen.clone());
            return;
        }
        if at == search.items.len() || !search.may_become_best(at, left, weight) {
            return;
        }
        let item = &search.items[at];
        if let Some(more) = self.take_item(item) {
            let mut then = left.clone();
            subtract(&mut then, &item.cover);
            search.chosen.push(at);
            self.follow(search, at + 1, &then, weight.plus(more));
            search.chosen.pop();
            self.give_back_all(&search.items[at].members);
        }
        // Without this item, its twins are no better.
        let mut next = at + 1;
        while next < search.items.len() && search.items[next].is_twin {
            next += 1;
        }
        self.follow(search, next, left, weight);
    }
}

const WORST: Weight = Weight {
    bits: u8::MAX,
    priority: i64::MAX,
    victims: u32::MAX,
    held_priority: i64::MAX,
    holds: u32::MAX,
};

impl<'a> Search<'a> {
    fn new(
        node: u32,
        goal: &'a Goal,
        judge: &'a dyn Judge,
        items: &'a [Item],
        needs_queues: bool,
    ) -> Self {
        Self {
            goal,
            judge,
            node,
            items,
            rest: Vec::new(),
            needs_queues,
            chosen: Vec::new(),
            bound: WORST,
            best: None,
        }
    }

    /// Whether a set of this weight is no better than the best so far.
    fn is_beaten(&self, weight: Weight) -> bool {
        if self.best.is_some() { weight >= self.bound } else { weight > self.bound }
    }

    /// Whether items from `at` on can still make the best set: they free enough, are not too
    /// important, and not too many.
    fn may_become_best(&self, at: usize, left: &Row, weight: Weight) -> bool {
        let rest = &self.rest[at];
        let Some(least) = rest.least_priority(left) else { return false };
        let priority = weight.priority.max(least);
        let victims = weight.victims.saturating_add(rest.least_victims(left));
        !self.is_beaten(Weight { priority, victims, ..weight })
    }
}

/// Returns the share of a shortage that an amount covers: the sum over resources, each in
/// millionths.
pub(super) fn cover_share(cover: &[i64], short: &[i64]) -> i128 {
    let missing = cover.iter().zip(short).filter(|(_, short)| **short > 0);
    missing
        .map(|(cover, short)| i128::from((*cover).min(*short)) * 1_000_000 / i128::from(*short))
        .sum()
}
