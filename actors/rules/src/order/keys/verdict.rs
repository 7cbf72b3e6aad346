//! The verdict between two siblings: the first part in which their keys differ, with the figures of
//! both.
//!
//! # Why apart from the comparison
//! A search compares keys thousands of times for each decision, and needs only the result. The part
//! of the keys that differs is needed once, for the first and the second sibling, and only if
//! decisions are kept ([`crate::decisions`]). It is a plain value of figures, so no text is made to
//! record it; [`Verdict`] becomes a sentence when it is read.
//!
//! # Invariants
//! * [`Verdict::order`] equals the result of comparing the keys.

use std::cmp::Ordering;
use std::fmt;

use super::{ApplicationKey, LargerFirst, QueueKey, Usage};
use crate::order::shares::{NamedShare, Share};
use crate::queues::ApplicationSortPolicy;
use crate::values::instant::rfc3339_apart;
use crate::values::readable;
use crate::values::resources::Name;

/// The policy by which the children of a queue are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SiblingOrder {
    /// Queues: the higher priority, then the smaller fair share.
    #[default]
    QueuesByPriority,
    /// Queues: the smaller fair share, then the higher priority.
    Queues,
    /// Applications: the higher priority, then the earlier submission.
    FifoByPriority,
    /// Applications: the earlier submission, then the higher priority.
    Fifo,
    /// Applications: the higher priority, then the smaller usage, then the earlier submission.
    FairByPriority,
    /// Applications: the smaller usage, then the higher priority, then the earlier submission.
    Fair,
}

/// The part of the keys that put the first sibling before the second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Verdict {
    /// No second sibling could use the offer.
    #[default]
    Alone,
    /// The gang of one of the two lost members and asks for new ones.
    LostMembers {
        /// Whether it is the gang of the first.
        is_first: bool,
    },
    /// The higher priority.
    Priority {
        /// The priority of the first.
        first: i32,
        /// The priority of the second.
        second: i32,
    },
    /// The smaller fair share: the part of its entitlement that a queue uses.
    Share {
        /// The share of the first.
        first: Share,
        /// The share of the second.
        second: Share,
    },
    /// The smaller usage of an application, as a share of its queue's guarantee. Of several shares,
    /// the largest ones that differ. A bare quantity if the type has no guarantee and both are of
    /// different types.
    Usage {
        /// The usage of the first.
        first: Share,
        /// The usage of the second.
        second: Share,
    },
    /// The smaller usage of an application, of a type without a guarantee.
    BareUsage {
        /// The resource type.
        name: Name,
        /// The quantity of the first.
        first: Share,
        /// The quantity of the second.
        second: Share,
    },
    /// The larger pending amount: the alphabetically first resource type in which both differ.
    Pending {
        /// The resource type.
        name: Name,
        /// The pending amount of the first.
        first: i64,
        /// The pending amount of the second.
        second: i64,
    },
    /// The earlier submission, ns since the epoch.
    Submitted {
        /// The submission of the first.
        first: i64,
        /// The submission of the second.
        second: i64,
    },
    /// No other difference: the path or the id that is alphabetically first.
    Name {
        /// Whether it is the path or id of the first.
        is_first: bool,
    },
}

impl SiblingOrder {
    /// Returns the order of queues below a parent with this `application.sort.priority`.
    pub fn of_queues(priority_first: bool) -> Self {
        if priority_first { Self::QueuesByPriority } else { Self::Queues }
    }

    /// Returns the order of applications in a leaf with this policy and this
    /// `application.sort.priority`.
    pub fn of_applications(policy: ApplicationSortPolicy, priority_first: bool) -> Self {
        match (policy, priority_first) {
            (ApplicationSortPolicy::Fifo, true) => Self::FifoByPriority,
            (ApplicationSortPolicy::Fifo, false) => Self::Fifo,
            (ApplicationSortPolicy::Fair, true) => Self::FairByPriority,
            (ApplicationSortPolicy::Fair, false) => Self::Fair,
        }
    }

    /// Whether priority is compared before anything else.
    pub fn puts_priority_first(self) -> bool {
        matches!(self, Self::QueuesByPriority | Self::FifoByPriority | Self::FairByPriority)
    }

    /// Returns the names of the compared parts, in their order.
    pub fn text(self) -> &'static str {
        match self {
            Self::QueuesByPriority | Self::FairByPriority => "priority, fair",
            Self::Queues | Self::Fair => "fair, priority",
            Self::FifoByPriority => "priority, fifo",
            Self::Fifo => "fifo, priority",
        }
    }
}

impl QueueKey {
    /// Returns the rule that puts this queue before or behind another. `order` is the order that
    /// both keys were built for.
    pub fn verdict(&self, other: &Self, order: SiblingOrder) -> Verdict {
        let share = |first, second| Verdict::Share {
            first: Share::ranked(first),
            second: Share::ranked(second),
        };
        let priority_first = order.puts_priority_first();
        if self.first != other.first {
            let of = if priority_first { priority } else { share };
            return of(self.first, other.first);
        }
        if self.second != other.second {
            let of = if priority_first { share } else { priority };
            return of(self.second, other.second);
        }
        let (LargerFirst(mine), LargerFirst(theirs)) = (&self.pending, &other.pending);
        match mine.first_difference(theirs) {
            Some((name, first, second)) => Verdict::Pending { name, first, second },
            None => Verdict::Name { is_first: self.path < other.path },
        }
    }
}

impl ApplicationKey {
    /// Returns the rule that puts this application before or behind another. `order` is the order
    /// that both keys were built for.
    pub fn verdict(&self, other: &Self, order: SiblingOrder) -> Verdict {
        let submitted = |first, second| Verdict::Submitted { first, second };
        let (mine, theirs) = (self.first >> 1, other.first >> 1);
        if order.puts_priority_first() && mine != theirs {
            return priority(mine, theirs);
        }
        if self.first != other.first {
            return Verdict::LostMembers { is_first: self.first < other.first };
        }
        if let Some((first, second)) = self.usage.first_difference(&other.usage) {
            return usage(first, second);
        }
        // If usage comes first and priority after it, submission is last; else submission comes
        // before priority.
        let [second, third] = if order == SiblingOrder::Fair {
            [priority, submitted as fn(i64, i64) -> Verdict]
        } else {
            [submitted as fn(i64, i64) -> Verdict, priority]
        };
        if self.second != other.second {
            return second(self.second, other.second);
        }
        if self.third != other.third {
            return third(self.third, other.third);
        }
        Verdict::Name { is_first: self.id < other.id }
    }
}

/// Compares priorities as keys store them, where a smaller number is a higher priority.
fn priority(first: i64, second: i64) -> Verdict {
    let raised = |descending: i64| i32::try_from(-descending).unwrap_or(i32::MAX);
    Verdict::Priority { first: raised(first), second: raised(second) }
}

/// Compares shares of usage, with the type if both are bare quantities of the same.
fn usage(first: NamedShare, second: NamedShare) -> Verdict {
    let zero = Share::default();
    let is_of = |named: NamedShare, name| named.share == zero || named.bare == Some(name);
    let name = first.bare.or(second.bare);
    let name = name.filter(|name| is_of(first, *name) && is_of(second, *name));
    let (first, second) = (first.share, second.share);
    match name {
        Some(name) => Verdict::BareUsage { name, first, second },
        None => Verdict::Usage { first, second },
    }
}

impl Usage {
    /// The first shares, from the largest downward, in which both differ.
    fn first_difference(&self, other: &Self) -> Option<(NamedShare, NamedShare)> {
        (0..self.0.len().max(other.0.len())).find_map(|at| {
            let of = |usage: &Self| usage.0.get(at).copied().unwrap_or_default();
            let (first, second) = (of(self), of(other));
            (first.share != second.share).then_some((first, second))
        })
    }
}

impl Verdict {
    /// Returns `Less` if the verdict puts the first before the second, as it should.
    pub fn order(&self) -> Ordering {
        match self {
            Self::Alone | Self::Name { is_first: true } | Self::LostMembers { is_first: true } => {
                Ordering::Less
            }
            Self::Priority { first, second } => second.cmp(first),
            Self::Share { first, second }
            | Self::Usage { first, second }
            | Self::BareUsage { first, second, .. } => first.cmp(second),
            Self::Pending { first, second, .. } => second.cmp(first),
            Self::Submitted { first, second } => first.cmp(second),
            Self::Name { is_first: false } | Self::LostMembers { is_first: false } => {
                Ordering::Greater
            }
        }
    }
}

/// The verdict as a sentence about the first sibling, for people.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => f.write_str("no rival"),
            Self::Priority { first, second } => {
                write!(f, "its priority {first} is higher than {second}")
            }
            Self::Share { first, second } => {
                write!(f, "its fair share {} is smaller than {}", figure(*first), figure(*second))
            }
            Self::Usage { first, second } => {
                write!(f, "its usage {} is smaller than {}", figure(*first), figure(*second))
            }
            Self::BareUsage { name, first, second } => {
                let name = name.text();
                let amount = |share: &Share| readable::amount(&name, quantity(*share));
                write!(f, "its usage of {} is smaller than {}", amount(first), amount(second))
            }
            Self::Pending { name, first, second } => {
                let name = name.text();
                let amount = |quantity| readable::amount(&name, quantity);
                let (first, second) = (amount(*first), amount(*second));
                write!(f, "its share is the same, and more is pending: {first}, not {second}")
            }
            Self::LostMembers { .. } => f.write_str(
                "its gang lost members and has fewer than it needs, which goes first among equals",
            ),
            Self::Submitted { first, second } => {
                let (first, second) = rfc3339_apart(*first, *second);
                write!(f, "it was submitted at {first}, before {second}")
            }
            Self::Name { .. } => f.write_str(
                "nothing tells them apart but the name, which comes first in the alphabet",
            ),
        }
    }
}

/// Returns the quantity of a share that is a bare one.
#[allow(clippy::cast_possible_truncation)] // it was a quantity before
fn quantity(share: Share) -> i64 {
    share.value() as i64
}

/// Words a share with enough digits to distinguish shares of a large cluster.
fn figure(share: Share) -> String {
    let value = share.value();
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || (text == "0" && value > 0.0) {
        format!("{value:e}")
    } else {
        text.to_owned()
    }
}
