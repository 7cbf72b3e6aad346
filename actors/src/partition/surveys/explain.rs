//! Explanations why asks are pending, put together from the application, the queues above it and
//! the partition. Nothing is tried and nothing changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_config as config;
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::ended::Ended;
use monoceros_rules::applications::removal::Removal;
use monoceros_rules::decide::explain::Why;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::values::partition_name;
use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::application::Application;
use crate::application::explained::{Explained, ExplainedApplication};
use crate::queue::{Gate, Queue, Rank};
use crate::snapshot::ExplanationSnapshot;
use crate::step::{Baton, QueueSlot, Route, RowSlot, Survey};
use crate::views::explanation::{self, Circumstances};

/// Most classes in one answer.
pub(crate) const CLASSES_MAX: usize = 20;
/// Most keys of each class in one answer.
pub(crate) const KEYS_MAX: usize = 100;

/// Most keys of each class in an answer that goes with a list of the asks: more of them would delay
/// decisions.
pub(crate) const KEYS_WITH_ASKS_MAX: usize = 1_000;

/// The result of a request to explain an application's asks.
#[derive(Debug)]
pub(crate) enum Found {
    /// Explanations of its asks, class by class.
    Explained(Vec<ExplanationSnapshot>),
    /// The application has no ask of that key.
    NoSuchAsk,
    /// The application has ended.
    Ended {
        /// `Completed`, `Failed` or `Rejected`.
        state: ApplicationState,
        /// The time of its end, ns since the epoch.
        at_ns: i64,
        /// The reason of its rejection; `None` if it was not rejected.
        rejected: Option<Box<str>>,
    },
    /// The application was removed by its RM.
    Removed {
        /// The time of its removal, ns since the epoch.
        at_ns: i64,
        /// The work that it had then, as the rest of a sentence.
        work: Box<str>,
    },
    /// The application is unknown, and not among the ended ones that are kept.
    NoSuchApplication,
}

/// Explains asks of an application.
pub(crate) struct Explain {
    id: Arc<str>,
    which: Explained,
    keys: usize,
    application: Option<ExplainedApplication>,
    /// The application's queues, the leaf first.
    path: Vec<QueueSlot>,
    gates: BTreeMap<QueueSlot, Gate>,
    /// The child of each queue whose rank is needed.
    ranked: BTreeMap<QueueSlot, RowSlot>,
    ranks: BTreeMap<QueueSlot, Rank>,
    reply: oneshot::Sender<Found>,
}

impl Explain {
    /// Explains asks with at most `keys` keys of each class.
    pub(crate) fn new(
        id: Arc<str>,
        which: Explained,
        keys: usize,
        reply: oneshot::Sender<Found>,
    ) -> Self {
        Self {
            id,
            which,
            keys,
            application: None,
            path: Vec::new(),
            gates: BTreeMap::new(),
            ranked: BTreeMap::new(),
            ranks: BTreeMap::new(),
            reply,
        }
    }
}

impl Survey for Explain {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let directory = &baton.directory;
        let slot = directory.application_slot(&self.id);
        let Some(entry) = slot.and_then(|slot| directory.application(slot)) else {
            return Route::default();
        };
        self.path = directory.upward(entry.leaf).map(|facts| facts.slot).collect();
        for queue in &self.path {
            let entry = directory.queue(*queue);
            if let (Some(above), Some(row)) = (entry.facts.parent, entry.row) {
                self.ranked.insert(above, row);
            }
        }
        Route::default().applications([entry.slot]).queues(self.path.iter().copied())
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        let explained = application.explained(&self.which, self.keys, baton);
        if let Some(row) = explained.row {
            self.ranked.insert(explained.leaf, row);
        }
        self.application = Some(explained);
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        let slot = queue.slot();
        self.gates.insert(slot, queue.gate(&baton.books.nominations));
        if let Some(rank) = self.ranked.get(&slot).and_then(|row| queue.rank(*row)) {
            self.ranks.insert(slot, rank);
        }
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { id, application, path, gates, ranks, reply, .. } = *self;
        let Some(application) = application else {
            return answer(reply, partition.ended_lately(&id));
        };
        let closed = partition.closed(baton);
        let from_root = path.iter().rev();
        let circumstances = Circumstances {
            closed: &closed,
            closed_since_ns: partition.state_since_ns,
            held_since_ns: partition.controls.held_since_ns,
            gates: from_root.clone().filter_map(|queue| gates.get(queue)).collect(),
            ranks: from_root.map(|queue| ranks.get(queue)).collect(),
        };
        let explained = explanation::of(application, &circumstances);
        answer(reply, explained.map_or(Found::NoSuchAsk, Found::Explained));
    }
}

impl Partition {
    /// Returns the reasons why the whole partition decides nothing.
    fn closed(&self, baton: &Baton) -> Vec<Why> {
        let partition: Arc<str> = Arc::from(config::plain_name(&self.name));
        let stopped = self.state == ObjectState::Stopped;
        let stopped = stopped.then(|| Why::PartitionStopped { partition: Arc::clone(&partition) });
        let held = self.controls.is_on_hold();
        let rm = || Arc::from(partition_name::rm_id(&self.name));
        let cannot_be_asked = !self.controls.on_hold;
        let held = held.then(|| {
            let partition = Arc::clone(&partition);
            Why::OnHold { partition, rm: rm(), cannot_be_asked }
        });
        let over = baton.quotas().has_memory().err();
        let over = over.map(|over| Why::QuotaOfBytes { partition, limit: over.limit });
        stopped.into_iter().chain(held).chain(over).collect()
    }

    /// Returns how the last run of an application ended, or why it was rejected.
    fn ended_lately(&self, id: &str) -> Found {
        let kept = self.ended.applications();
        let is_it = |ended: &&Ended| *ended.id == *id;
        let ended = [
            kept.terminated().rev().find(is_it),
            kept.removed().rev().find(is_it),
            kept.rejected().rev().find(is_it),
        ];
        let last = ended.into_iter().flatten().max_by_key(|ended| ended.finished_ns);
        let Some(ended) = last else { return Found::NoSuchApplication };
        let states = ended.log.iter().rev().map(|(_, state)| *state);
        let state = states.into_iter().find(|state| *state != ApplicationState::Expired);
        let (state, at_ns) = (state.unwrap_or(ended.state), ended.finished_ns);
        if state == ApplicationState::Removed {
            let work = ended.removal.as_deref().map(Removal::words).unwrap_or_default();
            return Found::Removed { at_ns, work: work.into() };
        }
        Found::Ended { state, at_ns, rejected: ended.rejected.clone() }
    }
}
