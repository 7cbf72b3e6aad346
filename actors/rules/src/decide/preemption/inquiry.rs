//! The questions to the RM whether the ask would fit on a node if allocations were evicted in a
//! given order.
//!
//! # How it goes
//! The nodes that may be used are asked about for one member after the other, in groups of
//! [`BATCH`], nodes with the cheapest victims first. The answer to a question is how far down its
//! list victims have to be evicted; the RM may know of more conditions than amounts. Of the answers
//! of a group, the one with the cheapest victims counts. The next group is asked about only if
//! these victims are more important than those on the next node. The RM is not asked about a member
//! without an ask, since it does not know the member.
//!
//! A list begins with the victims that are needed by the scheduler's own figures; behind them are
//! the other candidates on the node. Held places of gangs are in no list: the RM does not know
//! them, and they end before any victim.
//!
//! Between two steps of an inquiry its planner contains the draft; no other plan may be made with
//! it until the inquiry is over. An inquiry that is given up is dropped together with its planner.

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

/// The question whether the member fits on the node if some allocations there are evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The member of the preemptor.
    pub member: usize,
    /// The node.
    pub node: NodeSlot,
    /// The victims, in the order of eviction. If there are none, this is an ordinary question
    /// whether the member may be placed.
    pub victims: Vec<AllocationId>,
    /// The index of the last victim that is evicted in any case; -1: none.
    pub start_index: i32,
}

/// The answer of the RM to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The member fits once the victims up to this index are evicted; -1: without any.
    Fits(i32),
    /// The member does not fit, or there was no answer.
    Refused,
}

/// The next step of an inquiry.
#[derive(Debug)]
pub enum Next {
    /// Ask the RM these questions, and pass its answers to [`Inquiry::answer`].
    Ask(Vec<Question>),
    /// The inquiry is over.
    Done(Result<Plan, NoPreemption>),
}

/// A plan that is made with the RM.
#[derive(Debug)]
pub struct Inquiry {
    /// The members without a place, the next one last.
    members: Vec<usize>,
    /// For each member, whether the RM is asked about it.
    has_ask: Vec<bool>,
    draft: Draft,
    current: Option<Current>,
    why_not: NoPreemption,
}

/// The member for which a node is searched for now.
#[derive(Debug)]
struct Current {
    goal: Goal,
    emission: Emission,
    /// The next solution, if it is already known.
    next: Option<Solution>,
    /// The solutions that the RM is asked about, each with its list.
    open: Vec<(Solution, Vec<u32>)>,
    best: Option<Solution>,
}

impl Current {
    fn next(&mut self, planner: &mut Planner, judge: &dyn Judge) -> Option<Solution> {
        let next = self.next.take();
        next.or_else(|| self.emission.next(planner, judge, &self.goal))
    }

    /// Whether the best solution so far counts: the victims on the next node are at least as
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
    /// Begins an inquiry for all members of the planner's preemptor. `has_ask`: whether the RM
    /// knows the member.
    ///
    /// # Errors
    /// The reason why there is no plan, whatever the RM would answer.
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

    /// Returns the next questions, or the result.
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

    /// Applies the answers to the last questions, in their order. A missing answer is a refusal.
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
                // The RM may know of further conditions, but amounts are decided here.
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
    /// Returns the victims on the node of a solution, and behind them the other candidates there.
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
