//! Makes plans for equal asks, one after another, on one survey.
//!
//! # Why one survey for many
//! Thousands of asks of a queue may claim their guarantee at the same moment. The victims and nodes
//! of one plan are removed from the survey ([`Planner::commit`]), and the next plan is made on the
//! rest. The result is that of plans on fresh surveys one by one, as long as nothing else changes
//! in between.
//!
//! # Invariants
//! * A draft that is dropped leaves every number unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::chosen::Chosen;
use super::demand::Demand;
use super::hierarchy::Hierarchy;
use super::plan::{Place, Plan};
use super::rows::{Row, Rows, UNSET, add, is_nothing, shortfall, subtract};
use super::solution::{Goal, Ranking, Solution};
use super::survey::{
    Candidate, NONE, Survey, SurveyedApplication, SurveyedGroup, SurveyedNode, index,
};
use crate::asks::preemption::NoPreemption;
use crate::values::ids::{AllocationId, NodeSlot};

/// The maximum number of steps of all exact searches of a plan together. The remaining nodes of the
/// plan are judged by the two orders of `choose` alone.
const STEPS: u32 = 500_000;

/// The maximum number of nodes of a plan for which victims on other nodes are searched for, if more
/// than a few candidates could free capacity in a queue above the preemptor that has too little.
const WIDE: u32 = 32;

/// Makes plans for one preemptor and for others like it.
#[derive(Debug)]
pub struct Planner {
    pub(super) tree: Hierarchy,
    pub(super) preemptor: Demand,
    pub(super) demand: Rows,
    pub(super) total: Row,
    pub(super) applications: Vec<SurveyedApplication>,
    pub(super) groups: Vec<SurveyedGroup>,
    pub(super) candidates: Vec<Candidate>,
    pub(super) sizes: Rows,
    pub(super) nodes: Vec<SurveyedNode>,
    pub(super) rooms: Rows,
    /// For each candidate, whether it is taken, tentatively or for good.
    pub(super) gone: Vec<bool>,
    /// For each application, the number of its taken candidates that count as evictions.
    pub(super) taken: Vec<u32>,
    /// For each group, the number of its taken members.
    pub(super) lost: Vec<u32>,
    /// The leaves with candidates, each with the total amount and the number of its candidates.
    leaves: Vec<(usize, Row, u32)>,
    /// For each queue, whether its candidates may be taken now.
    pub(super) is_open: Vec<bool>,
    /// Whether a suitable node is reserved by an ask for which victims are being evicted.
    pub(super) is_any_nominated: bool,
    pub(super) ranking: Option<Ranking>,
    pub(super) steps_left: u32,
    /// Victims for every node with enough capacity if queues have too little room; found once for
    /// each member.
    pub(super) elsewhere: Elsewhere,
    pub(super) wide_left: u32,
    by_id: FxHashMap<AllocationId, u32>,
}

/// Victims on any node that free enough in queues.
#[derive(Clone, Debug)]
pub(super) enum Elsewhere {
    /// No search for them was made yet.
    Unknown,
    /// The result of the search; `None` if all candidates are not enough.
    Known(Option<Vec<u32>>),
}

/// A plan that is being made: the places found so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) places: Vec<(usize, Solution)>,
    pub(super) mates: Vec<(usize, NodeSlot)>,
}

impl Planner {
    pub(super) fn new(survey: Survey, candidates: Vec<Candidate>, sizes: Rows) -> Self {
        let Survey {
            tree,
            preemptor,
            demand,
            total,
            applications,
            groups,
            nodes,
            rooms,
            is_any_nominated,
            ..
        } = survey;
        let mut leaves: Vec<(usize, Row, u32)> = Vec::new();
        for (at, candidate) in candidates.iter().enumerate() {
            let (leaf, size) = (candidate.leaf as usize, sizes.row(at));
            match leaves.iter_mut().find(|(known, ..)| *known == leaf) {
                Some((_, sum, count)) => {
                    add(sum, size);
                    *count += 1;
                }
                None => leaves.push((leaf, Row::from_slice(size), 1)),
            }
        }
        Self {
            gone: vec![false; candidates.len()],
            taken: vec![0; applications.len()],
            lost: vec![0; groups.len()],
            is_open: vec![false; tree.len()],
            leaves,
            is_any_nominated,
            ranking: None,
            steps_left: STEPS,
            elsewhere: Elsewhere::Unknown,
            wide_left: WIDE,
            by_id: FxHashMap::default(),
            tree,
            preemptor,
            demand,
            total,
            applications,
            groups,
            candidates,
            sizes,
            nodes,
            rooms,
        }
    }

    /// Returns the reason why no node may be used.
    pub(super) fn no_node(&self) -> NoPreemption {
        if self.is_any_nominated { NoPreemption::NodesAreNominated } else { NoPreemption::NoNode }
    }

    /// Applies a plan that is carried out: its victims are evicted, and its places are the
    /// preemptor's. The next plan is made for another ask like this one.
    pub fn commit(&mut self, plan: &Plan) {
        self.index_ids();
        let is_placed = plan.victims.is_empty();
        let mut touched: Vec<u32> = Vec::new();
        let nothing = Row::from_elem(0, self.total.len());
        // By node: the amount of victims, and the amount of the members placed there.
        let mut of_gang: BTreeMap<u32, (Row, Row)> = BTreeMap::new();
        for id in plan.victims.iter().chain(&plan.holds) {
            let Some(&at) = self.by_id.get(id) else { continue };
            let size = Row::from_slice(self.sizes.row(at as usize));
            let candidate = &self.candidates[at as usize];
            let (leaf, node) = (candidate.leaf as usize, candidate.node);
            self.tree.take(leaf, &size);
            if candidate.is_hold {
                self.tree.end(leaf, &size);
            }
            let of = self.leaves.iter_mut().find(|(known, ..)| *known == leaf);
            if let Some((_, sum, count)) = of {
                subtract(sum, &size);
                *count -= 1;
            }
            self.count(at, true);
            if node == NONE {
                continue;
            }
            touched.push(node);
            if self.candidates[at as usize].is_hold {
                add(self.rooms.row_mut(node as usize), &size);
            } else {
                let both = || (nothing.clone(), nothing.clone());
                add(&mut of_gang.entry(node).or_insert_with(both).0, &size);
            }
        }
        for place in &plan.places {
            let Some(node) = self.nodes.iter().position(|node| node.slot == place.node) else {
                continue;
            };
            if self.preemptor.is_gang || is_placed {
                let both = || (nothing.clone(), nothing.clone());
                let wanted = &mut of_gang.entry(index(node)).or_insert_with(both).1;
                add(wanted, self.demand.row(place.member));
            } else {
                self.nodes[node].is_out = true;
                self.is_any_nominated = true;
            }
            touched.push(index(node));
        }
        for (node, (leaving, wanted)) in of_gang {
            // The capacity of victims is not available to others yet.
            subtract(self.rooms.row_mut(node as usize), &shortfall(&wanted, &leaving));
        }
        if is_placed {
            self.tree.place(&self.total.clone());
        } else {
            self.tree.nominate(&self.total.clone());
        }
        for node in touched {
            self.rank_again(node, &[]);
        }
    }

    /// Finds out which leaves may lose candidates now, since an earlier plan may have changed that.
    pub(super) fn begin(&mut self) -> Result<(), NoPreemption> {
        (self.steps_left, self.wide_left, self.elsewhere) = (STEPS, WIDE, Elsewhere::Unknown);
        let fence = self.tree.fence(&self.total);
        if fence == self.preemptor.queue {
            return Err(NoPreemption::AtItsFence { queue: Arc::clone(self.tree.name(fence)) });
        }
        let mut is_any_open = false;
        for (leaf, _, count) in &self.leaves {
            let is_open = *count > 0
                && self.tree.is_within(*leaf, fence)
                && self.tree.is_above_some_guarantee(*leaf);
            self.is_open[*leaf] = is_open;
            is_any_open |= is_open;
        }
        if !self.tree.fits_guarantee(&self.total)
            && (self.preemptor.is_gang || !self.could_fit_guarantee())
        {
            return Err(NoPreemption::BeyondGuarantee);
        }
        if is_any_open { Ok(()) } else { Err(NoPreemption::NoCandidates) }
    }

    /// Whether the ask would fit the guarantee if all candidates that may be taken were evicted.
    /// That matters if the preemptor's queue shares the guarantee with other queues.
    fn could_fit_guarantee(&mut self) -> bool {
        let open = |(leaf, ..): &&(usize, Row, u32)| self.is_open[*leaf];
        let taken: Vec<_> = self.leaves.iter().filter(open).cloned().collect();
        self.tree.grow(&self.total.clone());
        for (leaf, sum, _) in &taken {
            self.tree.take(*leaf, sum);
        }
        let remaining = self.tree.remaining(self.tree.preemptor());
        for (leaf, sum, _) in &taken {
            self.tree.give_back(*leaf, sum);
        }
        self.tree.shrink(&self.total.clone());
        let is_some = remaining.iter().any(|left| *left != UNSET);
        let is_enough =
            remaining.iter().zip(&self.total).all(|(left, wanted)| *wanted <= 0 || *left >= 0);
        is_some && is_enough
    }

    /// Returns the members in the order in which they are placed: the larger ones first, by their
    /// largest share of the total demand.
    pub(super) fn members(&self) -> Vec<usize> {
        let share = |member: &usize| {
            let row = self.demand.row(*member);
            let shares = row.iter().zip(&self.total).filter(|(_, total)| **total > 0);
            // Both are above zero; shares are compared in millionths.
            shares.map(|(own, total)| i128::from(*own) * 1_000_000 / i128::from(*total)).max()
        };
        let mut members: Vec<usize> = (0..self.preemptor.members.len()).collect();
        members.sort_by_key(|member| (std::cmp::Reverse(share(member)), *member));
        members
    }

    /// Returns the conditions for the next member.
    pub(super) fn goal(&self, member: usize, draft: &Draft) -> Goal {
        Goal {
            member,
            wanted: Row::from_slice(self.demand.row(member)),
            // The maxima of queues have to hold all members, or none is placed.
            is_last: draft.places.len() + 1 == self.preemptor.members.len(),
            may_be_empty: self.preemptor.is_gang || !self.preemptor.nodes_were_tried,
            mates: draft.mates.clone(),
        }
    }

    /// Places a member tentatively.
    pub(super) fn settle(&mut self, draft: &mut Draft, member: usize, solution: Solution) {
        let is_taken = self.take_solution(&solution);
        debug_assert!(is_taken, "a solution is allowed");
        let node = solution.node as usize;
        for at in solution.order.iter().chain(&solution.more) {
            let on = self.candidates[*at as usize].node;
            if on != NONE {
                add(self.rooms.row_mut(on as usize), self.sizes.row(*at as usize));
            }
        }
        let mut room = Row::from_slice(self.rooms.row(node));
        subtract(&mut room, self.demand.row(member));
        self.rooms.row_mut(node).copy_from_slice(&room);
        self.elsewhere = Elsewhere::Unknown;
        draft.mates.push((member, self.nodes[node].slot));
        self.rank_again(solution.node, &solution.order);
        draft.places.push((member, solution));
    }

    /// Undoes the draft.
    pub(super) fn drop_draft(&mut self, draft: Draft) {
        for (member, solution) in draft.places.into_iter().rev() {
            let node = solution.node as usize;
            let mut room = Row::from_slice(self.rooms.row(node));
            add(&mut room, self.demand.row(member));
            self.rooms.row_mut(node).copy_from_slice(&room);
            for at in solution.order.iter().chain(&solution.more) {
                let on = self.candidates[*at as usize].node;
                if on != NONE {
                    let size = Row::from_slice(self.sizes.row(*at as usize));
                    subtract(self.rooms.row_mut(on as usize), &size);
                }
            }
            self.give_back_solution(&solution);
            self.rank_again(solution.node, &solution.order);
        }
    }

    /// Returns the plan after all members have places.
    pub(super) fn complete(&mut self, draft: Draft) -> Result<Plan, NoPreemption> {
        let mut plan = Plan::default();
        for (member, solution) in &draft.places {
            plan.weight = plan.weight.plus(solution.weight);
            let ids = |of: &[u32]| of.iter().map(|at| self.candidates[*at as usize].id).collect();
            plan.places.push(Place {
                member: *member,
                node: self.nodes[solution.node as usize].slot,
                cancels: self.nodes[solution.node as usize].gives_way,
                order: ids(&solution.order),
                more: ids(&solution.more),
                is_answered: solution.is_answered,
            });
            for at in solution.order.iter().chain(&solution.more) {
                let candidate = &self.candidates[*at as usize];
                let kind = if candidate.is_hold { &mut plan.holds } else { &mut plan.victims };
                kind.push(candidate.id);
                if !candidate.is_hold && candidate.node != NONE {
                    plan.chosen.push(self.chosen(candidate));
                }
                let loser = self.applications[candidate.application as usize].slot;
                if !plan.losers.contains(&loser) {
                    plan.losers.push(loser);
                }
            }
        }
        self.drop_draft(draft);
        let is_nothing = plan.victims.is_empty() && plan.holds.is_empty();
        if is_nothing { Err(NoPreemption::NotNeeded) } else { Ok(plan) }
    }

    /// Returns the choice of a victim with the next candidate: the first one in order on its node
    /// that could be taken and is not.
    fn chosen(&self, victim: &Candidate) -> Chosen {
        let on_node = self.nodes[victim.node as usize].candidates.iter();
        let mut on_node = on_node.map(|at| (*at as usize, &self.candidates[*at as usize]));
        let next = on_node.find(|(at, other)| {
            let is_out = self.applications[other.application as usize].is_out;
            !self.gone[*at] && !other.is_hold && !is_out && self.is_open[other.leaf as usize]
        });
        let next = next.map(|(_, other)| other);
        Chosen {
            victim: victim.id,
            next: next.map(|next| next.id),
            kinds: (victim.class.into(), next.map_or(0, |next| next.class.into())),
            priorities: (victim.priority, next.map_or(0, |next| next.priority)),
        }
    }

    /// Returns the victims of a solution that are on its node, in order, without those that the RM
    /// added.
    pub(super) fn listed(&self, solution: &Solution) -> Vec<u32> {
        let on_node = |at: &u32| {
            let candidate = &self.candidates[*at as usize];
            candidate.node == solution.node && !candidate.is_hold
        };
        solution.order.iter().copied().filter(on_node).collect()
    }

    /// Returns the index of an allocation among the candidates.
    pub(super) fn find(&mut self, id: AllocationId) -> Option<u32> {
        self.index_ids();
        self.by_id.get(&id).copied()
    }

    fn index_ids(&mut self) {
        if self.by_id.is_empty() {
            let ids = self.candidates.iter().enumerate();
            self.by_id = ids.map(|(at, candidate)| (candidate.id, index(at))).collect();
        }
    }
}

impl Survey {
    /// Ends the survey, and makes a planner from it.
    pub fn finish(mut self) -> Planner {
        let mut found = std::mem::take(&mut self.candidates);
        let mut may_go = vec![0; self.applications.len()];
        for (_, candidate, _) in &found {
            may_go[candidate.application as usize] += 1;
        }
        for (application, may_go) in self.applications.iter_mut().zip(may_go) {
            // If one allocation may not be taken, none of its application may.
            application.is_out |= application.goes_as_one && application.alive != may_go;
        }
        found.retain(|(_, it, _)| !self.applications[it.application as usize].is_out);
        for (order, candidate, _) in &mut found {
            let group = self.groups.get(candidate.group as usize);
            // The number of running members of each gang is known now.
            order.class += u8::from(group.is_some_and(|it| it.real <= it.min_members));
            candidate.class = order.class;
        }
        found.sort_by(|(left, ..), (right, ..)| left.cmp(right));
        let mut sizes = Rows::new(self.tree.columns().len());
        let mut candidates = Vec::with_capacity(found.len());
        for (at, (_, candidate, size)) in found.into_iter().enumerate() {
            if candidate.node != NONE && !is_nothing(&size) {
                self.nodes[candidate.node as usize].candidates.push(index(at));
            }
            let application = &mut self.applications[candidate.application as usize];
            if application.goes_as_one {
                application.together.push(index(at));
            }
            sizes.push(&size);
            candidates.push(candidate);
        }
        Planner::new(self, candidates, sizes)
    }
}
