//! The test of a plan right before it is carried out.
//!
//! # Why
//! While the RM answers the questions, other changes happen: victims end, asks are placed, queues
//! are configured again. So the whole plan is tested again, on fresh facts, in the step that
//! carries it out. No allocation is preempted for a stale plan.
//!
//! # Sparing again
//! A victim that is not needed any more is spared. A victim that the RM was not asked about may
//! always be spared. Of the victims that it was asked about, only the last ones in order may be,
//! because its answer is about this order; and none of them if the RM added victims: it may know of
//! further conditions.

use super::demand::Judge;
use super::plan::{Place, Plan};
use super::planner::{Draft, Planner};
use super::rows::Row;
use super::solution::{Goal, Solution};
use super::survey::NONE;
use crate::asks::preemption::{NoPreemption, Stale};
use crate::values::ids::AllocationId;

impl Planner {
    /// Tests a plan on this planner, which was made from fresh facts for the same preemptor.
    /// Returns the plan to be carried out: the same, or a smaller one.
    ///
    /// # Errors
    /// The condition that no longer holds: the plan has to be made again.
    pub fn recheck(&mut self, plan: &Plan, judge: &dyn Judge) -> Result<Plan, Stale> {
        self.begin().map_err(|why| match why {
            NoPreemption::BeyondGuarantee | NoPreemption::NoGuarantee => Stale::Guarantee,
            _ => Stale::Victim,
        })?;
        let mut draft = Draft::default();
        for place in &plan.places {
            match self.recheck_place(place, &draft, judge) {
                Ok(solution) => self.settle(&mut draft, place.member, solution),
                Err(stale) => {
                    self.drop_draft(draft);
                    return Err(stale);
                }
            }
        }
        self.complete(draft).map_err(|_| Stale::NotNeeded)
    }

    fn recheck_place(
        &mut self,
        place: &Place,
        draft: &Draft,
        judge: &dyn Judge,
    ) -> Result<Solution, Stale> {
        let node = self.nodes.iter().position(|node| node.slot == place.node && !node.is_out);
        let node = super::survey::index(node.ok_or(Stale::Node)?);
        let mut goal = self.goal(place.member, draft);
        // Whether the plan is still useful without victims is tested at the end.
        goal.may_be_empty = true;
        let order = self.find_all(&place.order)?;
        let more = self.find_all(&place.more)?;
        let weight = super::score::Weight::default();
        let mut solution = Solution { node, order, more, weight, is_answered: place.is_answered };
        self.works(&solution, &goal, judge)?;
        self.spare_again(&mut solution, &goal, judge);
        solution.weight = self.weigh(&solution.order, &solution.more);
        Ok(solution)
    }

    fn find_all(&mut self, ids: &[AllocationId]) -> Result<Vec<u32>, Stale> {
        ids.iter().map(|id| self.find(*id).ok_or(Stale::Victim)).collect()
    }

    /// Whether the solution is allowed and enough.
    fn works(&mut self, solution: &Solution, goal: &Goal, judge: &dyn Judge) -> Result<(), Stale> {
        let is_whole = solution.order.iter().chain(&solution.more).all(|at| {
            let of = &self.applications[self.candidates[*at as usize].application as usize];
            !of.goes_as_one || of.together.iter().all(|at| solution.order.contains(at))
        });
        if !is_whole {
            return Err(Stale::Victim);
        }
        if !self.take_solution(solution) {
            return Err(Stale::Guarantee);
        }
        let mut room = Row::from_slice(self.rooms.row(solution.node as usize));
        let mut gone = Vec::new();
        for at in solution.order.iter().chain(&solution.more) {
            let candidate = &self.candidates[*at as usize];
            gone.push(candidate.id);
            if candidate.node != NONE && candidate.node == solution.node {
                super::rows::add(&mut room, self.sizes.row(*at as usize));
            }
        }
        let bears = !goal.is_last || self.tree.have_room(&self.total);
        self.give_back_solution(solution);
        let wanted =
            goal.wanted.iter().zip(&room).all(|(wanted, room)| *wanted <= 0 || wanted <= room);
        if !wanted || !bears {
            return Err(Stale::Room);
        }
        let suits = self.suits(judge, solution.node, goal, &gone);
        if suits { Ok(()) } else { Err(Stale::Node) }
    }

    fn spare_again(&mut self, solution: &mut Solution, goal: &Goal, judge: &dyn Judge) {
        let mut at = solution.order.len();
        while at > 0 {
            at -= 1;
            let Some(&spared) = solution.order.get(at) else { continue };
            if !self.may_be_spared(solution, spared) {
                continue;
            }
            let application =
                &self.applications[self.candidates[spared as usize].application as usize];
            let with =
                if application.goes_as_one { application.together.clone() } else { vec![spared] };
            let mut fewer = solution.clone();
            fewer.order.retain(|at| !with.contains(at));
            if self.works(&fewer, goal, judge).is_ok() {
                *solution = fewer;
            }
        }
    }

    fn may_be_spared(&self, solution: &Solution, spared: u32) -> bool {
        let listed = self.listed(solution);
        let is_listed = listed.contains(&spared);
        !solution.is_answered
            || !is_listed
            || (solution.more.is_empty() && listed.last() == Some(&spared))
    }
}
