//! Why asks wait: what applications, the queues above them and the partition say of them, put
//! together. Nothing is tried and nothing changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_config as config;
use monoceros_rules::decide::explain::Why;
use monoceros_rules::queues::object_state::ObjectState;
use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::application::{Application, Explained, ExplainedApplication};
use crate::queue::{Gate, Queue, Rank};
use crate::snapshot::ExplanationSnapshot;
use crate::step::{Baton, QueueSlot, Route, RowSlot, Survey};
use crate::views::explanation::{self, Circumstances};

/// How many classes one answer has.
pub(crate) const CLASSES_MAX: usize = 20;
/// How many keys of each class one answer has.
pub(crate) const KEYS_MAX: usize = 100;

/// What is known of an application whose asks are to be explained.
#[derive(Debug)]
pub(crate) enum Found {
    /// Its asks, class by class.
    Explained(Vec<ExplanationSnapshot>),
    /// It is there, and has no ask of that key.
    NoSuchAsk,
}

/// Explains asks of some applications.
pub(crate) struct Explain {
    ids: Vec<Arc<str>>,
    which: Explained,
    keys: usize,
    applications: Vec<ExplainedApplication>,
    gates: BTreeMap<QueueSlot, Gate>,
    /// The children whose rank is wanted, by the queue that orders them.
    ranked: BTreeMap<QueueSlot, Vec<RowSlot>>,
    ranks: BTreeMap<(QueueSlot, RowSlot), Rank>,
    reply: oneshot::Sender<BTreeMap<Arc<str>, Found>>,
}

impl Explain {
    /// At most `keys` keys of each class are told. Applications that are not there are not in the
    /// answer.
    pub(crate) fn new(
        ids: Vec<Arc<str>>,
        which: Explained,
        keys: usize,
        reply: oneshot::Sender<BTreeMap<Arc<str>, Found>>,
    ) -> Self {
        Self {
            ids,
            which,
            keys,
            applications: Vec::new(),
            gates: BTreeMap::new(),
            ranked: BTreeMap::new(),
            ranks: BTreeMap::new(),
            reply,
        }
    }
}

impl Survey for Explain {
    fn route(&mut self, _: &Partition, baton: &Baton) -> Route {
        let directory = &baton.directory;
        let slots = self.ids.iter().filter_map(|id| directory.application_by_id.get(id)).copied();
        let slots: Vec<_> = slots.collect();
        let leaves = slots.iter().filter_map(|slot| Some(directory.application(*slot)?.leaf));
        let mut queues: Vec<QueueSlot> =
            leaves.flat_map(|leaf| directory.upward(leaf).map(|facts| facts.slot)).collect();
        queues.sort_unstable();
        queues.dedup();
        for queue in &queues {
            let entry = directory.queue(*queue);
            if let (Some(above), Some(row)) = (entry.facts.parent, entry.row) {
                self.ranked.entry(above).or_default().push(row);
            }
        }
        Route::default().applications(slots).queues(queues)
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        let explained = application.explained(&self.which, self.keys, baton);
        if let Some(row) = explained.row {
            self.ranked.entry(explained.leaf).or_default().push(row);
        }
        self.applications.push(explained);
    }

    fn at_queue(&mut self, queue: &mut Queue, _: &mut Baton) {
        let slot = queue.slot();
        self.gates.insert(slot, queue.gate());
        for row in self.ranked.remove(&slot).unwrap_or_default() {
            if let Some(rank) = queue.rank(row) {
                self.ranks.insert((slot, row), rank);
            }
        }
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { applications, gates, ranks, reply, .. } = *self;
        let closed = partition.closed();
        let root = gates.get(&QueueSlot::ROOT);
        let overdrawn =
            root.map(|root| root.room().used.minus_clamped(baton.books.nodes.capacity()));
        let overdrawn = overdrawn.unwrap_or_default();
        let explained = applications.into_iter().map(|application| {
            let path: Vec<QueueSlot> = baton
                .directory
                .upward(application.leaf)
                .map(|facts| facts.slot)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect();
            let rank_of = |queue: &QueueSlot| {
                let entry = baton.directory.queue(*queue);
                ranks.get(&(entry.facts.parent?, entry.row?))
            };
            let own = application.row.and_then(|row| ranks.get(&(application.leaf, row)));
            let circumstances = Circumstances {
                closed: &closed,
                closed_since_ns: partition.state_since_ns,
                overdrawn: &overdrawn,
                gates: path.iter().filter_map(|queue| gates.get(queue)).collect(),
                ranks: path[1..].iter().map(rank_of).chain([own]).collect(),
            };
            let id = Arc::clone(&application.id);
            let found = match explanation::of(application, &circumstances) {
                Some(explained) => Found::Explained(explained),
                None => Found::NoSuchAsk,
            };
            (id, found)
        });
        answer(reply, explained.collect());
    }
}

impl Partition {
    /// What keeps the whole partition from deciding anything.
    fn closed(&self) -> Vec<Why> {
        let partition: Arc<str> = Arc::from(config::plain_name(&self.name));
        let stopped = self.state == ObjectState::Stopped;
        let stopped = stopped.then(|| Why::PartitionStopped { partition: Arc::clone(&partition) });
        let held = self.controls.is_on_hold().then_some(Why::OnHold { partition });
        stopped.into_iter().chain(held).collect()
    }
}
