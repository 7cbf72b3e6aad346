//! The reason why one allocation was chosen as a victim and not another candidate, as shown to
//! people.
//!
//! [Plans](super::Plan) decide about victims. If a plan follows an order, it records for each
//! victim the next candidate in that order that stays. If a plan compares sets of victims, it may
//! choose a victim although another candidate comes before it; then the set decided
//! ([`Choice::Together`]).

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::allocations::{Allocation, Grounds};
use crate::values::ids::AllocationId;
use crate::values::instant::rfc3339_apart;

/// The length of time in which the age of allocations makes no difference, ns.
pub(super) const HOUR_NS: i64 = 3_600_000_000_000;

/// A victim, and the candidate that would have been the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// The victim.
    pub victim: AllocationId,
    /// The first candidate in the same order that could be evicted and stays.
    pub next: Option<AllocationId>,
    /// The ranks of both among the kinds of candidates.
    pub kinds: (u16, u16),
    /// The priorities of both. For a guarantee, as seen from the queue that each shares with the
    /// preemptor; otherwise their own priorities.
    pub priorities: (i64, i64),
}

/// The reason for the choice between two candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// There was no other candidate.
    #[default]
    Only,
    /// The kind of the allocation; the figures are ranks in the order of kinds.
    Kind {
        /// The figure of the victim.
        first: u16,
        /// The figure of the other.
        second: u16,
    },
    /// The lower priority.
    Priority {
        /// The figure of the victim.
        first: i64,
        /// The figure of the other.
        second: i64,
    },
    /// The later request; ns since the epoch.
    Newer {
        /// The figure of the victim.
        first: i64,
        /// The figure of the other.
        second: i64,
    },
    /// None of these: the size, or the name.
    Finer,
    /// The set of all victims: it is the least important one, or just enough.
    Together,
}

/// Returns the entries of the remaining `victims`. An entry has no next candidate if that is a
/// victim itself.
pub(super) fn those_who_stay(chosen: &[Chosen], victims: &[AllocationId]) -> Vec<Chosen> {
    let of_victims = chosen.iter().filter(|chosen| victims.contains(&chosen.victim));
    let stays = |next: &AllocationId| !victims.contains(next);
    of_victims.map(|chosen| Chosen { next: chosen.next.filter(stays), ..*chosen }).collect()
}

impl Chosen {
    /// Returns the reason for the choice, by the order of candidates for these grounds.
    pub fn choice(
        &self,
        grounds: &Grounds,
        victim: &Allocation,
        next: Option<&Allocation>,
    ) -> Choice {
        let Some(next) = next else { return Choice::Only };
        let (first, second) = self.kinds;
        match first.cmp(&second) {
            Ordering::Less => return Choice::Kind { first, second },
            Ordering::Greater => return Choice::Together,
            Ordering::Equal => {}
        }
        let (first, second) = self.priorities;
        match first.cmp(&second) {
            Ordering::Less => return Choice::Priority { first, second },
            Ordering::Greater => return Choice::Together,
            Ordering::Equal => {}
        }
        let (first, second) = (victim.created_ns, next.created_ns);
        let unit = if matches!(grounds, Grounds::Quota { .. }) { HOUR_NS } else { 1 };
        match first.div_euclid(unit).cmp(&second.div_euclid(unit)) {
            Ordering::Greater => Choice::Newer { first, second },
            Ordering::Less => Choice::Together,
            Ordering::Equal => Choice::Finer,
        }
    }
}

/// The sentence about the victim, for people.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only => f.write_str("no other could be taken for this"),
            Self::Kind { .. } => f.write_str(
                "it is of a kind that is taken first: held places, placeholders, ordinary ones, \
                 members that a gang needs, then those that are to be spared",
            ),
            Self::Priority { first, second } => {
                write!(f, "its priority {first} is lower than {second}")
            }
            Self::Newer { first, second } => {
                let (first, second) = rfc3339_apart(*first, *second);
                write!(f, "it was asked for at {first}, after {second}")
            }
            Self::Finer => f.write_str("they differ in size or name alone"),
            Self::Together => {
                f.write_str("with those that leave beside it, fewer or less important ones leave")
            }
        }
    }
}
