//! The questions to the RM: would the ask fit on the node if allocations left, in this order?
//!
//! # How it goes
//! For each member in turn the nodes that would do are asked about in groups of [`BATCH`], those that
//! lose least first. The answer to a question is how far in its list the RM had to go; it may know of
//! more than amounts. Of a group the answer by which least is lost counts, and no further group is
//! asked if those that go by it are no more important than those that would go on the next node. A
//! member that has no ask of its own is known to no RM and is asked about by nobody.
//!
//! A list begins with the victims that are needed by what is known here; behind them stands
//! whatever else may be taken on the node. What is held for members of gangs is in no list: the RM
//! does not know of it, and it is gone before anything else.
//!
//! Between two steps of an inquiry its planner holds what was decided so far; nothing else may be
//! planned on it until the inquiry is done. One that is given up is dropped with its planner.

use serde::{Deserialize, Serialize};

use super::demand::Judge;
use super::plan::Plan;
use super::planner::{Draft, Planner};
use super::ranking::Emission;
use super::solution::{Goal, Solution};
use crate::asks::preemption::NoPreemption;
use crate::values::ids::{AllocationId, NodeSlot};

/// The number of questions that are asked at a time.
pub const BATCH: usize = 10;

/// Would the member fit on the node if some allocations there were gone?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The member of the preemptor.
    pub member: usize,
    /// The node.
    pub node: NodeSlot,
    /// In which order they would go. Where there are none, this is an ordinary question whether the
    /// member may be placed.
    pub victims: Vec<AllocationId>,
    /// Up to which of them all go at least; -1: none has to.
    pub start_index: i32,
}

/// The answer of the RM to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The member fits once the victims up to this one are gone; -1: without any.
    Fits(i32),
    /// The member does not fit, or there was no answer.
    Refused,
}

/// The next step of an inquiry.
#[derive(Debug)]
pub enum Next {
    /// These are to be asked; the answers are handed to [`Inquiry::answer`].
    Ask(Vec<Question>),
    /// The inquiry is over.
    Done(Result<Plan, NoPreemption>),
}

/// A plan that is made with the RM.
#[derive(Debug)]
pub struct Inquiry {
    /// The members that have no place yet, the next one last.
    members: Vec<usize>,
    /// By member, whether the RM is asked.
    has_ask: Vec<bool>,
    draft: Draft,
    current: Option<Current>,
    why_not: NoPreemption,
}

/// The member for which a place is looked for.
#[derive(Debug)]
struct Current {
    goal: Goal,
    emission: Emission,
    /// The next solution, where it is known already.
    next: Option<Solution>,
    /// The solutions that are asked about, each with its list.
    open: Vec<(Solution, Vec<u32>)>,
    best: Option<Solution>,
}

impl Current {
    fn next(&mut self, planner: &mut Planner, judge: &dyn Judge) -> Option<Solution> {
        let next = self.next.take();
        next.or_else(|| self.emission.next(planner, judge, &self.goal))
    }

    /// Whether the best solution so far counts: those that would go on other nodes are as
    /// important.
    fn is_settled(&mut self, planner: &mut Planner, judge: &dyn Judge) -> bool {
        let Some(best) = self.best.as_ref().map(|best| best.weight.importance()) else {
            return false;
        };
        self.next = self.next(planner, judge);
        self.next.as_ref().is_none_or(|next| best <= next.weight.importance())
    }
}

impl Inquiry {
    /// Begins for all members of the planner's preemptor; `has_ask` says of which the RM knows.
    ///
    /// # Errors
    /// Why there is no plan, whatever the RM would say.
    pub fn begin(
        planner: &mut Planner,
        has_ask: impl Fn(usize) -> bool,
    ) -> Result<Self, NoPreemption> {
        planner.begin()?;
        let mut members = planner.members();
        members.reverse();
        Ok(Self {
            has_ask: (0..members.len()).map(has_ask).collect(),
            members,
            draft: Draft::default(),
            current: None,
            why_not: planner.no_node(),
        })
    }

    /// The next questions, or the end.
    pub fn next(&mut self, planner: &mut Planner, judge: &dyn Judge) -> Next {
        loop {
            let current = self.current.take().or_else(|| self.next_member(planner));
            let Some(mut current) = current else {
                return Next::Done(planner.complete(std::mem::take(&mut self.draft)));
            };
            let member = current.goal.member;
            if !self.has_ask[member] {
                current.best = current.next(planner, judge);
            } else if !current.is_settled(planner, judge) {
                while current.open.len() < BATCH {
                    let Some(solution) = current.next(planner, judge) else { break };
                    let list = planner.list(&solution);
                    current.open.push((solution, list));
                }
                if !current.open.is_empty() {
                    let questions = current.open.iter();
                    let questions =
                        questions.map(|(it, list)| planner.question(member, it, list)).collect();
                    self.current = Some(current);
                    return Next::Ask(questions);
                }
            }
            let Some(best) = current.best else {
                planner.drop_draft(std::mem::take(&mut self.draft));
                return Next::Done(Err(self.why_not.clone()));
            };
            planner.settle(&mut self.draft, member, best);
        }
    }

    fn next_member(&mut self, planner: &Planner) -> Option<Current> {
        let member = self.members.pop()?;
        let goal = planner.goal(member, &self.draft);
        let emission = Emission::default();
        Some(Current { goal, emission, next: None, open: Vec::new(), best: None })
    }

    /// The answers to the last questions, in their order; what is missing is a refusal.
    pub fn answer(&mut self, planner: &mut Planner, answers: &[Answer]) {
        let Some(current) = &mut self.current else { return };
        let refused = std::iter::repeat(&Answer::Refused);
        let open = std::mem::take(&mut current.open);
        for ((solution, list), answer) in open.into_iter().zip(answers.iter().chain(refused)) {
            let needed = planner.listed(&solution).len();
            let taken = match answer {
                Answer::Fits(index) => usize::try_from(i64::from(*index) + 1).ok(),
                Answer::Refused => None,
            };
            let Some(taken) = taken.filter(|taken| *taken <= list.len()) else {
                self.why_not = NoPreemption::Refused;
                continue;
            };
            if taken < needed {
                // Whatever else the RM may know, amounts are counted here.
                self.why_not = NoPreemption::Short;
                continue;
            }
            let more = list[needed..taken].to_vec();
            let weight = planner.weigh(&solution.order, &more);
            let solution = Solution { more, weight, is_answered: true, ..solution };
            if current.best.as_ref().is_none_or(|best| solution.rank() < best.rank()) {
                current.best = Some(solution);
            }
        }
    }
}

impl Planner {
    /// The victims on the node of a solution, and behind them what else may be taken there.
    fn list(&mut self, solution: &Solution) -> Vec<u32> {
        let mut list = self.listed(solution);
        if list.is_empty() {
            return list;
        }
        let is_taken = self.take_all(&solution.order);
        debug_assert!(is_taken, "a solution is allowed");
        let needed = list.len();
        for at in 0..self.nodes[solution.node as usize].candidates.len() {
            let at = self.nodes[solution.node as usize].candidates[at];
            let candidate = &self.candidates[at as usize];
            let goes_as_one = self.applications[candidate.application as usize].goes_as_one;
            if !candidate.is_hold && !goes_as_one && self.take(at, false).is_some() {
                list.push(at);
            }
        }
        for at in list[needed..].iter().rev() {
            self.give_back(*at, false);
        }
        self.give_back_all(&solution.order);
        list
    }

    fn question(&self, member: usize, solution: &Solution, list: &[u32]) -> Question {
        let needed = self.listed(solution).len();
        Question {
            member,
            node: self.nodes[solution.node as usize].slot,
            victims: list.iter().map(|at| self.candidates[*at as usize].id).collect(),
            start_index: i32::try_from(needed).unwrap_or(i32::MAX) - 1,
        }
    }
}
