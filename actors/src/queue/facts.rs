//! What does not change while a queue is offered to: its configuration and its fair maximum.

use std::sync::Arc;

use monoceros_rules::order::keys::{QueueKey, QueueView, SiblingOrder};
use monoceros_rules::order::ledger;
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::values::resources::{Limits, Resources};

use crate::step::QueueSlot;

/// What does not change while a queue is offered to: its configuration and its fair maximum.
#[derive(Clone)]
pub(crate) struct QueueFacts {
    pub(crate) slot: QueueSlot,
    pub(crate) parent: Option<QueueSlot>,
    /// Its configuration, without its children.
    pub(crate) config: Arc<QueueConfig>,
    pub(crate) state: ObjectState,
    /// What its share is measured against where it guarantees nothing.
    pub(crate) fair_max: Option<Limits>,
    /// The parent puts priority before share.
    pub(crate) priority_first: bool,
    /// How long it may stay above its maximum ([`quota_delay_ns`](super::quota_delay_ns)).
    pub(crate) quota_delay_ns: i64,
}

impl QueueFacts {
    /// Its fair maximum, which its share is measured against: made of its parent's (`fair_max` has
    /// those of all queues, by slot) and of its own maximum; for root it is the capacity of all
    /// nodes. See `docs/scheduling.md#fair-share`.
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

    /// How it and its siblings are ordered.
    pub(crate) fn sibling_order(&self) -> SiblingOrder {
        SiblingOrder::of_queues(self.priority_first)
    }

    /// How its children are ordered.
    pub(crate) fn child_order(&self) -> SiblingOrder {
        let settings = &self.config.settings;
        if self.config.is_leaf {
            SiblingOrder::of_applications(settings.sort_policy, settings.priority_sort)
        } else {
            SiblingOrder::of_queues(settings.priority_sort)
        }
    }

    /// The queue's key among its siblings.
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
