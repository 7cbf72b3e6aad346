//! A class: the asks of one shape.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::failures::FailureLog;
use crate::order::keys::AskKey;
use crate::specs::ask::Shape;
use crate::values::ids::AskSlot;
use crate::values::usual::is_usual;
use crate::waiting::obstacle::Obstacle;

/// A class: asks of one shape, which are tried as one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Class {
    pub(super) shape: Shape,
    #[serde(skip)] // built again from the asks
    pub(super) members: BTreeMap<(i64, u64), AskSlot>,
    pub(super) key: AskKey,
    /// The number of outstanding allocations of all members.
    pub(super) outstanding: u64,
    /// The number of members for which no scale-up signal was sent yet.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub(super) unsignalled: usize,
    /// The reasons why its members were not placed; `None` if none was tried without result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failures: Option<Box<FailureLog>>,
    /// The obstacle of the last try, and the time since when it is the same, ns since the epoch.
    /// Recorded for explanations; `None` once a member was placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) noted: Option<(Obstacle, i64)>,
}

impl Class {
    /// Returns the keys of its members, in their order.
    pub(super) fn keys(&self) -> impl Iterator<Item = AskKey> {
        let priority = self.shape.priority();
        let key = move |(created, arrival): &(i64, u64)| AskKey::new(priority, *created, *arrival);
        self.members.keys().map(key)
    }

    /// Returns the members with their keys, in order.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (AskKey, AskSlot)> {
        self.keys().zip(self.members.values().copied())
    }

    /// Returns the members after an ask, which need not be a member, in order.
    pub(super) fn after(
        &self,
        after: Option<&AskKey>,
    ) -> impl Iterator<Item = (AskKey, AskSlot)> + use<'_> {
        use std::ops::Bound::{Excluded, Unbounded};
        let priority = self.shape.priority();
        let from = match after {
            // Every member comes before that ask.
            Some(after) if after.priority() < priority => None,
            Some(after) if after.priority() == priority => Some(Excluded(after.age())),
            _ => Some(Unbounded),
        };
        let members = from.map(|from| self.members.range((from, Unbounded)));
        members.into_iter().flatten().map(move |((created, arrival), slot)| {
            (AskKey::new(priority, *created, *arrival), *slot)
        })
    }

    /// Returns the first member after an ask, which need not be a member.
    pub(super) fn first_after(&self, after: Option<&AskKey>) -> Option<(AskKey, AskSlot)> {
        self.after(after).next()
    }

    /// Returns the key of its last member.
    pub(super) fn last_key(&self) -> AskKey {
        self.members.last_key_value().map_or(self.key, |((created, arrival), _)| {
            AskKey::new(self.shape.priority(), *created, *arrival)
        })
    }
}
