//! Tentative removal of candidates, and its undo.
//!
//! # What is tested
//! While a plan is made, candidates are *taken* (removed tentatively) one by one and given back.
//! Each candidate is tested when it is taken, and it is not taken unless all of this holds:
//! * Its leaf has no guarantee, or is above it in a resource that the preemptor wants.
//! * Afterwards no queue that is not also above the preemptor is below its guarantee in a resource
//!   of the candidate.
//! * Its amount fits the preemptor's remaining guarantee, which is reduced by it: so no preemptor
//!   gets more than its guarantee.
//! * Its application has not lost too many allocations recently.
//!
//! # Invariants
//! * A candidate that is taken and given back leaves every number unchanged. The last candidate
//!   taken is given back first.

use super::planner::Planner;
use super::score::{Weight, gang_bit};
use super::solution::Solution;
use super::survey::NONE;

impl Planner {
    /// Takes a candidate tentatively. Returns the cost bits of the eviction
    /// ([`score`](super::score)), or `None` if it may not be taken. `is_grown_into`: the queue of
    /// the preemptor will use the freed amount, so that amount must fit its guarantee.
    pub(super) fn take(&mut self, at: u32, is_grown_into: bool) -> Option<u8> {
        let candidate = &self.candidates[at as usize];
        let (leaf, bits) = (candidate.leaf as usize, candidate.bits);
        let application = &self.applications[candidate.application as usize];
        let is_spent = candidate.is_counted
            && application
                .allowance
                .is_some_and(|most| self.taken[candidate.application as usize] >= most);
        if self.gone[at as usize] || application.is_out || !self.is_open[leaf] || is_spent {
            return None;
        }
        if !self.tree.may_lose(leaf, &self.total) {
            return None;
        }
        let size = self.sizes.row(at as usize);
        self.tree.take(leaf, size);
        if !self.tree.keeps_guarantees(leaf, size)
            || (is_grown_into && !self.tree.fits_guarantee(size))
        {
            self.tree.give_back(leaf, size);
            return None;
        }
        if is_grown_into {
            self.tree.grow(size);
        }
        let of_gang = self.bit_of_gang(at);
        self.count(at, true);
        Some(bits | of_gang)
    }

    /// Returns the bit of a candidate that its gang needs, given the members taken so far.
    pub(super) fn bit_of_gang(&self, at: u32) -> u8 {
        let group = self.candidates[at as usize].group;
        if group == NONE {
            return 0;
        }
        let of = &self.groups[group as usize];
        gang_bit(of.real.saturating_sub(self.lost[group as usize]), of.min_members)
    }

    /// Puts back the candidate that was removed last.
    pub(super) fn give_back(&mut self, at: u32, is_grown_into: bool) {
        let leaf = self.candidates[at as usize].leaf as usize;
        let size = self.sizes.row(at as usize);
        if is_grown_into {
            self.tree.shrink(size);
        }
        self.tree.give_back(leaf, size);
        self.count(at, false);
    }

    /// Counts a candidate as taken, tentatively or for good, or no longer as taken.
    pub(super) fn count(&mut self, at: u32, is_gone: bool) {
        debug_assert_ne!(self.gone[at as usize], is_gone, "taken once, given back once");
        let candidate = &self.candidates[at as usize];
        self.gone[at as usize] = is_gone;
        let change = |count: &mut u32| *count = if is_gone { *count + 1 } else { *count - 1 };
        if candidate.is_counted {
            change(&mut self.taken[candidate.application as usize]);
        }
        if candidate.group != NONE {
            change(&mut self.lost[candidate.group as usize]);
        }
    }

    /// Takes these candidates in this order, or none of them.
    pub(super) fn take_all(&mut self, order: &[u32]) -> bool {
        for (done, at) in order.iter().enumerate() {
            if self.take(*at, true).is_none() {
                self.give_back_all(&order[..done]);
                return false;
            }
        }
        true
    }

    /// Gives back these candidates, the last one first.
    pub(super) fn give_back_all(&mut self, order: &[u32]) {
        for at in order.iter().rev() {
            self.give_back(*at, true);
        }
    }

    /// Takes the candidates of a solution, or none.
    pub(super) fn take_solution(&mut self, solution: &Solution) -> bool {
        if !self.take_all(&solution.order) {
            return false;
        }
        for (done, at) in solution.more.iter().enumerate() {
            if self.take(*at, false).is_none() {
                for at in solution.more[..done].iter().rev() {
                    self.give_back(*at, false);
                }
                self.give_back_all(&solution.order);
                return false;
            }
        }
        true
    }

    pub(super) fn give_back_solution(&mut self, solution: &Solution) {
        for at in solution.more.iter().rev() {
            self.give_back(*at, false);
        }
        self.give_back_all(&solution.order);
    }

    /// The weight of removing these candidates in this order. All of them may be removed.
    pub(super) fn weigh(&mut self, order: &[u32], more: &[u32]) -> Weight {
        let mut weight = Weight::default();
        let all = order.iter().map(|at| (*at, true)).chain(more.iter().map(|at| (*at, false)));
        for (at, is_grown_into) in all.clone() {
            let bits = self.take(at, is_grown_into);
            debug_assert!(bits.is_some(), "a solution is allowed");
            let candidate = &self.candidates[at as usize];
            let bits = bits.unwrap_or(0);
            weight = weight.plus(Weight::of(bits, candidate.priority, candidate.is_hold));
        }
        for (at, is_grown_into) in all.rev() {
            self.give_back(at, is_grown_into);
        }
        weight
    }
}
