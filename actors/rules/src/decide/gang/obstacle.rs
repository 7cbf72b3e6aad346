//! The obstacles that keep a declared gang from its places.

use serde::{Deserialize, Serialize};

use crate::applications::native::MissingAsks;
use crate::asks::{Asks, Bundled};
use crate::decide::bundle::{NoDomain, Shortage};
use crate::decide::explain::ShortDomain;
use crate::specs::ask::TaskGroup;
use crate::values::epoch::Growth;
use crate::values::ids::AskSlot;
use crate::values::resources::Resources;
use crate::waiting::BundleWaits;

use super::members::short_members;

/// An obstacle that keeps a gang from its places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GangObstacle {
    /// A group whose members have no size lacks asks.
    Asks(MissingAsks),
    /// The headroom of its queues is less than the amount of all its members, which is this.
    Quota(Resources),
    /// The headroom of its user and group is less than the amount of all its members, which is
    /// this.
    Limits(Resources),
    /// Too few places: an ask of each group that is short, with the number of members without a
    /// place.
    Places(Vec<(AskSlot, u64)>),
    /// No domain takes all members of a group that has to stay in one.
    Domain(Box<ShortDomain>),
    /// Every node with capacity refused a member.
    Refused {
        /// The task group of the member.
        group: TaskGroup,
        /// The ask of the member.
        ask: AskSlot,
    },
    /// An allocation of its application was evicted for another ask, which comes first.
    GivesWay,
}

/// Why a search ended, or paused, without places for all members.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum NotPlaced {
    /// There are too few places: the shortage, and what the bundle waits for.
    Short(Box<(Shortage, BundleWaits)>),
    /// Every node with capacity refused the member with this ask. Contains the growth of the nodes
    /// at the beginning of the search.
    Refused(AskSlot, Growth),
    /// A member may not use the room that was reserved for it.
    Unfit,
    /// The search continues in a later step.
    Unfinished,
}

impl GangObstacle {
    /// Returns the obstacle that follows from the shortage of a search.
    pub fn of(shortage: Shortage, asks: &Asks, bundled: &Bundled) -> Self {
        let Some(NoDomain { key, value }) = shortage.domain else {
            return Self::Places(short_members(bundled, &shortage.short));
        };
        let group = &bundled[shortage.of.group];
        let (slot, _) = group[shortage.of.members];
        let spec = &asks.ask(slot).spec;
        Self::Domain(Box::new(ShortDomain {
            group: spec.task_group.clone().unwrap_or_default(),
            size: Resources::clone(&spec.resources),
            members: group.iter().map(|(_, count)| u64::from(*count)).sum(),
            lacks: shortage.lacks,
            key,
            value,
        }))
    }

    /// Returns the obstacle of a gang if every node with capacity refused the member with this ask.
    pub fn refused(ask: AskSlot, asks: &Asks) -> Self {
        let group = asks.ask(ask).spec.task_group.clone().unwrap_or_default();
        Self::Refused { group, ask }
    }

    /// Whether fewer members may find places if all of them do not.
    pub fn may_be_gone_with_fewer(&self) -> bool {
        !matches!(self, Self::Asks(_) | Self::GivesWay)
    }

    /// Whether the gang may find its places once allocations of others are preempted.
    pub fn may_be_gone_by_preemption(&self) -> bool {
        match self {
            Self::Quota(_) | Self::Places(_) | Self::Domain(_) | Self::Refused { .. } => true,
            Self::Asks(_) | Self::Limits(_) | Self::GivesWay => false,
        }
    }
}
