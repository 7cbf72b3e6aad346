//! Facts of a queue that do not change during an offer: its configuration and its fair maximum.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use monoceros_rules::order::keys::{QueueKey, QueueView, SiblingOrder};
use monoceros_rules::order::ledger;
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::values::resources::{Limits, Resources};

use crate::step::QueueSlot;

/// Facts of a queue that do not change during an offer.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct QueueFacts {
    pub(crate) slot: QueueSlot,
    pub(crate) parent: Option<QueueSlot>,
    /// The configuration of the queue, without its children.
    pub(crate) config: Arc<QueueConfig>,
    pub(crate) state: ObjectState,
    /// The fair maximum: the base of the queue's share if the queue has no guarantee.
    pub(crate) fair_max: Option<Limits>,
    /// Whether the parent puts priority before share.
    pub(crate) priority_first: bool,
    /// The time that it may stay above its maximum, ns ([`quota_delay_ns`](super::quota_delay_ns)).
    pub(crate) quota_delay_ns: i64,
}

impl QueueFacts {
    /// Computes the fair maximum, the base of the queue's share, from its own maximum and its
    /// parent's fair maximum (`fair_max` has those of all queues, by slot). For root it is the
    /// capacity of all nodes. See `docs/scheduling.md#fair-share`.
    pub(crate) fn fair_max_below(
        &self,
        fair_max: &[Option<Limits>],
        capacity: &Resources,
    ) -> Option<Limits> {
        let Some(parent) = self.parent else {
            return ledger::stored_limits(capacity);
        };
        let above = fair_max[parent.0 as usize].as_ref();
        ledger::fair_max(above, self.config.max.as_ref())
    }

    /// Returns the order among the queue and its siblings.
    pub(crate) fn sibling_order(&self) -> SiblingOrder {
        SiblingOrder::of_queues(self.priority_first)
    }

    /// Returns the order of the queue's children.
    pub(crate) fn child_order(&self) -> SiblingOrder {
        let settings = &self.config.settings;
        if self.config.is_leaf {
            SiblingOrder::of_applications(settings.sort_policy, settings.priority_sort)
        } else {
            SiblingOrder::of_queues(settings.priority_sort)
        }
    }

    /// Returns the queue's key among its siblings.
    pub(crate) fn key(
        &self,
        priority: i32,
        allocated: &Resources,
        pending: &Resources,
    ) -> QueueKey {
        QueueKey::new(
            self.priority_first,
            &QueueView {
                priority,
                allocated,
                guaranteed: self.config.guaranteed.as_ref(),
                fair_max: self.fair_max.as_ref(),
                pending,
                path: &self.config.path,
            },
        )
    }
}
