//! The obstacles that keep a declared gang from its places.

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

/// What keeps a gang from its places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GangObstacle {
    /// A group whose members have no size lacks asks.
    Asks(MissingAsks),
    /// What its queues leave does not hold all of it, which is this amount.
    Quota(Resources),
    /// What its user and group leave does not hold all of it, which is this amount.
    Limits(Resources),
    /// The number of members without a place, by an ask of each group that is short.
    Places(Vec<(AskSlot, u64)>),
    /// No domain takes the whole of a group that has to stay in one.
    Domain(Box<ShortDomain>),
    /// Every node with room refused a member.
    Refused {
        /// The task group of the member.
        group: TaskGroup,
        /// The ask of the member.
        ask: AskSlot,
    },
    /// Something was taken from its application for another, which comes first.
    GivesWay,
}

/// Why a search ended, or paused, without places for all members.
#[derive(Debug)]
pub enum NotPlaced {
    /// There are too few places: the shortage, and what the bundle waits for.
    Short(Box<(Shortage, BundleWaits)>),
    /// The member with this ask was refused wherever there was room. The growth of the nodes is that at the
    /// beginning of the search.
    Refused(AskSlot, Growth),
    /// A member may not have the room that was reserved for it.
    Unfit,
    /// The search goes on in a later step.
    Unfinished,
}

impl GangObstacle {
    /// The obstacle that follows from the shortage of a search.
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

    /// The obstacle that every node with room refused the member with this ask.
    pub fn refused(ask: AskSlot, asks: &Asks) -> Self {
        let group = asks.ask(ask).spec.task_group.clone().unwrap_or_default();
        Self::Refused { group, ask }
    }

    /// Whether fewer members may have places where all of them have none.
    pub fn may_be_gone_with_fewer(&self) -> bool {
        !matches!(self, Self::Asks(_) | Self::GivesWay)
    }

    /// Whether the gang may have its places once allocations of others are preempted.
    pub fn may_be_gone_by_preemption(&self) -> bool {
        match self {
            Self::Quota(_) | Self::Places(_) | Self::Domain(_) | Self::Refused { .. } => true,
            Self::Asks(_) | Self::Limits(_) | Self::GivesWay => false,
        }
    }
}
