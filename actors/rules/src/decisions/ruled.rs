//! The rules by which decisions are made, by name.

use std::fmt;

/// The kind of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecisionKind {
    /// An ask is placed on a node.
    Allocation,
    /// A node is reserved for an ask.
    Reservation,
    /// An allocation is evicted for others.
    Eviction,
}

impl DecisionKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Allocation, Self::Reservation, Self::Eviction];

    /// Returns the kind with this name, in any letter case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocation => "allocation",
            Self::Reservation => "reservation",
            Self::Eviction => "eviction",
        }
    }
}

/// The rule by which a decision was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ruled {
    /// The first node in order that may be used.
    #[default]
    FirstNode,
    /// The only node on which it may run.
    RequiredNode,
    /// The node that it had reserved.
    AtReserved,
    /// The place of a placeholder, on its node.
    PlaceholderInPlace,
    /// The place of a placeholder, on another node.
    PlaceholderElsewhere,
    /// A place held for its gang, on its node.
    HoldInPlace,
    /// A place held for its gang, on another node.
    HoldElsewhere,
    /// All members of its gang together.
    Gang,
    /// No node had capacity, and this one lacks the least.
    NearestNode,
    /// The only node on which it may run has no capacity yet.
    AwaitsRequired,
    /// Victims are evicted from the node for it.
    Nominated,
    /// A queue reclaims its guarantee.
    Guarantee,
    /// An ask requires the node.
    ForNode,
    /// A queue is above its maximum.
    Quota,
}

impl Ruled {
    /// Returns the kind of the decisions by this rule.
    pub fn kind(self) -> DecisionKind {
        match self {
            Self::FirstNode
            | Self::RequiredNode
            | Self::AtReserved
            | Self::PlaceholderInPlace
            | Self::PlaceholderElsewhere
            | Self::HoldInPlace
            | Self::HoldElsewhere
            | Self::Gang => DecisionKind::Allocation,
            Self::NearestNode | Self::AwaitsRequired | Self::Nominated => DecisionKind::Reservation,
            Self::Guarantee | Self::ForNode | Self::Quota => DecisionKind::Eviction,
        }
    }
}

/// Shows the rule as one short sentence for people.
impl fmt::Display for Ruled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstNode => "placed on the first node that fits",
            Self::RequiredNode => "placed on the only node that it may use",
            Self::AtReserved => "placed on the node that it had reserved",
            Self::PlaceholderInPlace => "takes the place of a placeholder, on the same node",
            Self::PlaceholderElsewhere => "takes the place of a placeholder, on another node",
            Self::HoldInPlace => "takes a place that was held for its gang",
            Self::HoldElsewhere => "takes a place that was held for its gang, on another node",
            Self::Gang => "placed together with all members of its gang",
            Self::NearestNode => "no node could be used, and this one lacks least",
            Self::AwaitsRequired => "the only node that it may use has no room yet",
            Self::Nominated => "others leave the node for it",
            Self::Guarantee => "leaves so that another queue gets back what it is guaranteed",
            Self::ForNode => "leaves so that an ask gets the only node that it may use",
            Self::Quota => "leaves because a queue is above its maximum",
        })
    }
}
