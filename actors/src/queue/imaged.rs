//! A queue as data: what an image of its partition keeps of it, and the actor that goes on from
//! there.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use monoceros_rules::decide::quota_timer::QuotaTimer;
use monoceros_rules::order::ledger::QueueLedger;
use monoceros_rules::order::used_names::UsedNames;
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::waiting::Declined;

use super::rows::Rows;
use super::{Child, Queue, QueueFacts};
use crate::application::Application;
use crate::metrics::{ActorKind, Metrics};
use crate::step::{BatonAddress, RowSlot};

/// The state of a queue: all that its actor keeps, without addresses.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct QueueImage {
    pub(crate) facts: Arc<QueueFacts>,
    ledger: QueueLedger,
    used_names: UsedNames,
    rows: Rows<()>,
    loosening: Loosening,
    declined: Declined,
    quota_timer: QuotaTimer,
}

/// The addresses that a queue needs to go on from its state.
pub(crate) struct Neighbours<Q, A> {
    /// The queue above, with the row there.
    pub(crate) parent: Option<(Arc<BatonAddress<Queue>>, RowSlot)>,
    /// The queue below in a row.
    pub(crate) queue: Q,
    /// The application in a row.
    pub(crate) application: A,
}

impl Queue {
    /// Returns the state of the queue between two steps.
    pub(crate) fn image(&self) -> QueueImage {
        let Self {
            facts,
            parent: _,
            ledger,
            used_names,
            rows,
            loosening,
            declined,
            quota_timer,
            metrics: _,
            _counted: _,
        } = self;
        QueueImage {
            facts: Arc::clone(facts),
            ledger: ledger.clone(),
            used_names: used_names.clone(),
            rows: rows.map(|_, _| ()),
            loosening: *loosening,
            declined: *declined,
            quota_timer: quota_timer.clone(),
        }
    }

    /// Builds the actor of a queue that goes on from this state.
    pub(crate) fn restored<Q, A>(
        image: QueueImage,
        neighbours: Neighbours<Q, A>,
        metrics: Arc<Metrics>,
    ) -> Self
    where
        Q: Fn(RowSlot) -> Arc<BatonAddress<Self>>,
        A: Fn(RowSlot) -> Arc<BatonAddress<Application>>,
    {
        let Neighbours { parent, queue, application } = neighbours;
        let is_leaf = image.facts.config.is_leaf;
        let child = |row, (): &()| {
            if is_leaf { Child::Application(application(row)) } else { Child::Queue(queue(row)) }
        };
        Self {
            rows: image.rows.map(child),
            facts: image.facts,
            parent,
            ledger: image.ledger,
            used_names: image.used_names,
            loosening: image.loosening,
            declined: image.declined,
            quota_timer: image.quota_timer,
            _counted: metrics.counted(ActorKind::Queue),
            metrics,
        }
    }
}
