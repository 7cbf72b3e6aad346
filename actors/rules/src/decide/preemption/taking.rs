//! Tentative removal of candidates, and its undo.
//!
//! # What is tested
//! While a plan is made, allocations are *taken* one by one and given back. Each is tested when it is
//! taken, and nothing is taken that the tests forbid:
//! * its leaf has no guarantee, or is above it in something that is asked for;
//! * afterwards no queue that is not above the preemptor too is below its guarantee in what was taken;
//! * what is taken fits what remains of the preemptor's guarantee, which shrinks by it: so a preemptor
//!   never has more taken than it is guaranteed;
//! * its application has not lost too many lately.
//!
//! # Invariants
//! * What is taken and given back leaves everything as it was; the last one taken is the first to
//!   be given back.

use super::planner::Planner;
use super::score::{Weight, gang_bit};
use super::solution::Solution;
use super::survey::NONE;

impl Planner {
    /// Takes one in thought; says which bits it has, or `None` where it may not be taken. What is
    /// not taken for room alone does not count against the guarantee of the preemptor.
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

    /// The bit of one whose gang needs it, after what was taken so far.
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

    /// Counts one as taken for good, in thought, or not any more.
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

    /// Takes several, in this order, or none of them.
    pub(super) fn take_all(&mut self, order: &[u32]) -> bool {
        for (done, at) in order.iter().enumerate() {
            if self.take(*at, true).is_none() {
                self.give_back_all(&order[..done]);
                return false;
            }
        }
        true
    }

    /// Gives several back.
    pub(super) fn give_back_all(&mut self, order: &[u32]) {
        for at in order.iter().rev() {
            self.give_back(*at, true);
        }
    }

    /// Takes what a solution says, or nothing.
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
