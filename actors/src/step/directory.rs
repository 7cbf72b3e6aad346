//! The addresses and headline facts of a partition's queues, nodes and applications, by slot and by
//! name.
//!
//! # Why it travels
//! A step has to reach any actor of its partition by a slot that the books hold. The directory is
//! part of the baton, so that it is read and changed without asking the partition. An actor that
//! was removed from it is sent no more messages.
//!
//! # Invariants
//! * Parents have smaller slots than their children.
//! * A slot that is free belongs to no queue, node or application.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use monoceros_rules::applications::application::Application as Book;
use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::applications::resource_seconds::INSTANCE_TYPE;
use monoceros_rules::queues::QueueSettings;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::specs::quotas::Held;
use monoceros_rules::specs::rejection::Rejection;
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};
use monoceros_rules::values::key_index::KeyIndex;
use monoceros_rules::values::slots::{Slot, Slots};
use monoceros_rules::values::texts::Texts;

use super::BatonAddress;
use super::slots::{QueueSlot, RowSlot};
use crate::application::Application;
use crate::node::Node;
use crate::queue::{Queue, QueueFacts};
use crate::step::named::Named;

/// The actors of the partition.
#[derive(Default)]
pub(crate) struct Directory {
    /// Parents before children.
    pub(crate) queues: Slots<QueueSlot, QueueEntry>,
    pub(crate) queue_by_path: BTreeMap<Arc<str>, QueueSlot>,
    /// Addresses by the slots of the node index.
    pub(crate) nodes: Slots<NodeSlot, Arc<BatonAddress<Node>>>,
    /// Machine types, of nodes whose attributes name one.
    pub(crate) instance_types: Slots<NodeSlot, Arc<str>>,
    /// Each node's usage of the RM's quotas.
    pub(crate) held_by_nodes: Slots<NodeSlot, Held>,
    pub(crate) applications: Slots<ApplicationSlot, ApplicationEntry>,
    /// Applications in order of their ids, for lists. A single one is [looked
    /// up](Self::application_slot) by its hash.
    pub(crate) application_by_id: BTreeMap<Arc<str>, ApplicationSlot>,
    application_by_hash: KeyIndex<ApplicationSlot>,
    /// Applications that wait for a node that one of their asks requires.
    pub(crate) named: Named,
    /// Applications with an ask that predicates refused. An application may stay here for a while
    /// after it has no such ask any more.
    pub(crate) refused: BTreeSet<ApplicationSlot>,
    /// Applications, by leaf, that the next scale-up signal may have to name: those with an ask
    /// that no signal has named yet, and those that a maximum of running applications kept from
    /// starting.
    pub(crate) unsignalled: BTreeMap<QueueSlot, BTreeSet<ApplicationSlot>>,
    /// Applications with an ask for which victims are searched again once something has changed.
    pub(crate) preempt_later: BTreeSet<ApplicationSlot>,
    /// Applications with an ask that waits until nodes are free of nominations, and the number of
    /// nominations at which they are woken.
    for_nominations: (BTreeSet<ApplicationSlot>, usize),
    /// Time of the next scan for queues that may have been above their maximum for too long, ns
    /// since the epoch; `None` while there is no such queue.
    pub(crate) next_quota_scan_ns: Option<i64>,
}

pub(crate) struct QueueEntry {
    /// The facts of the queue. A change is made here first; the queue takes it over when it is
    /// refreshed.
    pub(crate) facts: Arc<QueueFacts>,
    pub(crate) address: Arc<BatonAddress<Queue>>,
    /// The row in its parent; `None` for root.
    pub(crate) row: Option<RowSlot>,
    /// The number of applications in it, and (`children`) of queues right below it.
    pub(crate) applications: usize,
    pub(crate) children: usize,
    pub(crate) counts: QueueCounts,
    /// The ids of accepted applications in this leaf that hold something or have a node reserved.
    pub(crate) allocating: BTreeSet<Arc<str>>,
    /// Whether the facts were changed here and the queue has not taken them over yet.
    pub(crate) is_stale: bool,
}

impl QueueEntry {
    pub(crate) fn new(
        facts: Arc<QueueFacts>,
        address: Arc<BatonAddress<Queue>>,
        row: Option<RowSlot>,
    ) -> Self {
        let (counts, allocating) = (QueueCounts::default(), BTreeSet::new());
        let (applications, children, is_stale) = (0, 0, false);
        Self { facts, address, row, applications, children, counts, allocating, is_stale }
    }

    /// Whether the queue has neither applications nor queues below it.
    pub(crate) fn is_empty(&self) -> bool {
        self.applications == 0 && self.children == 0
    }
}

/// The lists of a directory that name applications, and the time of its next scan.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ListsOfApplications {
    refused: BTreeSet<ApplicationSlot>,
    unsignalled: BTreeMap<QueueSlot, BTreeSet<ApplicationSlot>>,
    preempt_later: BTreeSet<ApplicationSlot>,
    for_nominations: (BTreeSet<ApplicationSlot>, usize),
    next_quota_scan_ns: Option<i64>,
}

/// Counts of a leaf since its creation, for metrics.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct QueueCounts {
    /// The number of applications in each state. Terminated applications are never subtracted.
    pub(crate) states: BTreeMap<ApplicationState, i64>,
    pub(crate) allocated: u64,
    pub(crate) released: u64,
}

impl QueueCounts {
    /// Counts an application that left one state, or entered one, or both.
    pub(crate) fn moved(&mut self, from: Option<ApplicationState>, to: Option<ApplicationState>) {
        if let Some(from) = from {
            *self.states.entry(from).or_default() -= 1;
        }
        if let Some(to) = to {
            *self.states.entry(to).or_default() += 1;
        }
    }
}

pub(crate) struct ApplicationEntry {
    pub(crate) slot: ApplicationSlot,
    pub(crate) id: Arc<str>,
    pub(crate) leaf: QueueSlot,
    pub(crate) address: Arc<BatonAddress<Application>>,
    pub(crate) state: ApplicationState,
    /// The application declared its members, and takes no placeholders.
    pub(crate) has_declared_members: bool,
    /// Its usage of the RM's quotas.
    pub(crate) held: Held,
}

impl ApplicationEntry {
    /// Whether the application's state and declaration admit an ask, or a reported allocation, with
    /// this specification. `Err` has the reason.
    pub(crate) fn may_take(&self, spec: &AskSpec) -> Result<(), Rejection> {
        if self.state == ApplicationState::Failing || self.state.is_terminated() {
            let (id, state) = (Arc::clone(&self.id), self.state.text().into());
            return Err(Rejection::ApplicationState { id, state });
        }
        if spec.placeholder && self.has_declared_members {
            let (key, id) = (Arc::clone(&spec.key), Arc::clone(&self.id));
            return Err(Rejection::GangPlaceholder { key, id });
        }
        Ok(())
    }
}

impl Directory {
    pub(crate) fn root(&self) -> &Arc<BatonAddress<Queue>> {
        &self.queue(QueueSlot::ROOT).address
    }

    /// Returns the present settings of a leaf. The settings that its applications have may be
    /// older: a reload that keeps the order of applications does not visit them.
    pub(crate) fn settings(&self, leaf: QueueSlot) -> &QueueSettings {
        &self.queue(leaf).facts.config.settings
    }

    pub(crate) fn queue(&self, slot: QueueSlot) -> &QueueEntry {
        &self.queues[slot]
    }

    pub(crate) fn queue_mut(&mut self, slot: QueueSlot) -> &mut QueueEntry {
        &mut self.queues[slot]
    }

    /// Returns every queue, parents before children.
    pub(crate) fn all_queues(&self) -> impl DoubleEndedIterator<Item = &QueueEntry> {
        self.queues.values()
    }

    /// Returns the facts of a queue and of each above it, root last.
    pub(crate) fn upward(&self, queue: QueueSlot) -> impl Iterator<Item = &Arc<QueueFacts>> {
        let facts = |slot| &self.queue(slot).facts;
        std::iter::successors(Some(facts(queue)), move |below| below.parent.map(facts))
    }

    /// Returns a free slot for a new queue below `parent`: behind the parent's slot, so that
    /// parents stay before children.
    pub(crate) fn next_queue_slot(&self, parent: Option<QueueSlot>) -> QueueSlot {
        self.queues.next_behind(parent.map_or(0, |parent| parent.index() + 1))
    }

    /// Removes a queue; its slot is free again.
    pub(crate) fn forget_queue(&mut self, slot: QueueSlot) -> QueueEntry {
        let entry = self.queues.remove(slot);
        self.queue_by_path.remove(&entry.facts.config.path);
        if let Some(parent) = entry.facts.parent {
            self.queue_mut(parent).children -= 1;
        }
        entry
    }

    /// Enters an application at its slot, which is free.
    pub(crate) fn enter_application(&mut self, entry: ApplicationEntry) {
        self.application_by_id.insert(Arc::clone(&entry.id), entry.slot);
        self.application_by_hash.insert(&entry.id, entry.slot);
        self.applications.insert_at(entry.slot, entry);
    }

    /// Returns the slot of the application with this id.
    pub(crate) fn application_slot(&self, id: &str) -> Option<ApplicationSlot> {
        self.application_by_hash.find(id, |slot| Some(&*self.applications.find(slot)?.id))
    }

    /// Removes an application; its slot is free again, and it waits for no node any more.
    pub(crate) fn forget_application(&mut self, slot: ApplicationSlot) -> ApplicationEntry {
        let entry = self.applications.remove(slot);
        self.application_by_id.remove(&entry.id);
        self.application_by_hash.remove(&entry.id, slot);
        self.named.forget(slot);
        self.refused.remove(&slot);
        self.remove_unsignalled(entry.leaf, slot);
        self.preempt_later.remove(&slot);
        self.for_nominations.0.remove(&slot);
        let leaf = self.queue_mut(entry.leaf);
        leaf.applications -= 1;
        leaf.allocating.remove(&entry.id);
        entry
    }

    /// Notes that an ask of the application found no victims because nodes have nominations. The
    /// application is woken when half of this number of nominations are left, so that the next
    /// search is worth its cost.
    pub(crate) fn wait_for_nominations(&mut self, slot: ApplicationSlot, nominations: usize) {
        self.for_nominations.0.insert(slot);
        self.for_nominations.1 = nominations / 2;
    }

    /// Returns the applications that wait for nominations to end, if no more are left than they
    /// wait for. They do not wait any more.
    pub(crate) fn wake_for_nominations(&mut self, nominations: usize) -> BTreeSet<ApplicationSlot> {
        let (waiting, least) = &mut self.for_nominations;
        if nominations > *least { BTreeSet::new() } else { std::mem::take(waiting) }
    }

    /// Enters a queue at its slot, which is free.
    pub(crate) fn enter_queue(&mut self, entry: QueueEntry) {
        let (slot, parent) = (entry.facts.slot, entry.facts.parent);
        self.queue_by_path.insert(Arc::clone(&entry.facts.config.path), slot);
        self.queues.insert_at(slot, entry);
        if let Some(parent) = parent {
            self.queue_mut(parent).children += 1;
        }
    }

    /// Returns the lists that name applications.
    pub(super) fn lists(&self) -> ListsOfApplications {
        ListsOfApplications {
            refused: self.refused.clone(),
            unsignalled: self.unsignalled.clone(),
            preempt_later: self.preempt_later.clone(),
            for_nominations: self.for_nominations.clone(),
            next_quota_scan_ns: self.next_quota_scan_ns,
        }
    }

    /// Takes over lists that name applications.
    pub(super) fn take_lists(&mut self, lists: ListsOfApplications) {
        self.refused = lists.refused;
        self.unsignalled = lists.unsignalled;
        self.preempt_later = lists.preempt_later;
        self.for_nominations = lists.for_nominations;
        self.next_quota_scan_ns = lists.next_quota_scan_ns;
    }

    /// Makes the indices by path and by id of all queues and applications.
    pub(super) fn index(&mut self) {
        for (slot, entry) in self.queues.iter() {
            self.queue_by_path.insert(Arc::clone(&entry.facts.config.path), slot);
        }
        for (slot, entry) in self.applications.iter() {
            self.application_by_id.insert(Arc::clone(&entry.id), slot);
            self.application_by_hash.insert(&entry.id, slot);
        }
    }

    /// Returns every application, by slot.
    pub(crate) fn all_applications(&self) -> impl DoubleEndedIterator<Item = &ApplicationEntry> {
        self.applications.values()
    }

    /// Lists an application of this leaf as [unsignalled](Self::unsignalled).
    pub(crate) fn list_unsignalled(&mut self, leaf: QueueSlot, slot: ApplicationSlot) {
        self.unsignalled.entry(leaf).or_default().insert(slot);
    }

    /// Takes an application of this leaf off [`Self::unsignalled`].
    pub(crate) fn remove_unsignalled(&mut self, leaf: QueueSlot, slot: ApplicationSlot) {
        if let Some(here) = self.unsignalled.get_mut(&leaf) {
            here.remove(&slot);
            if here.is_empty() {
                self.unsignalled.remove(&leaf);
            }
        }
    }

    pub(crate) fn application(&self, slot: ApplicationSlot) -> Option<&ApplicationEntry> {
        self.applications.find(slot)
    }

    pub(crate) fn node(&self, slot: NodeSlot) -> Option<&Arc<BatonAddress<Node>>> {
        self.nodes.find(slot)
    }

    /// Notes the machine type that the attributes of a node name.
    pub(crate) fn note_instance_type(&mut self, node: NodeSlot, attributes: &Texts) {
        let said = attributes.get(INSTANCE_TYPE);
        if self.instance_types.find(node).map(|known| &**known) != said {
            self.instance_types.take(node);
            if let Some(name) = said {
                self.instance_types.insert_at(node, Arc::from(name));
            }
        }
    }

    /// Ends every actor in the directory.
    pub(crate) fn halt_all(&self) {
        for entry in self.applications.values() {
            entry.address.do_send(crate::Halt);
        }
        for address in self.nodes.values() {
            address.do_send(crate::Halt);
        }
        for entry in self.all_queues() {
            entry.address.do_send(crate::Halt);
        }
    }

    /// Returns the counts of a leaf.
    pub(crate) fn counts(&mut self, leaf: QueueSlot) -> &mut QueueCounts {
        &mut self.queue_mut(leaf).counts
    }

    /// Returns the id of an application in the directory; empty once it was removed.
    pub(crate) fn application_id(&self, slot: ApplicationSlot) -> Arc<str> {
        self.application(slot).map_or_else(|| Arc::from(""), |entry| Arc::clone(&entry.id))
    }
}

/// The lists of the directory that an application is on.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Listed {
    /// Its leaf lists it as accepted and allocating.
    is_allocating: bool,
    /// The directory lists it as [unsignalled](Directory::unsignalled).
    is_unsignalled: bool,
}

impl Listed {
    /// Has the leaf list the application while it is accepted and holds something or has a node
    /// reserved.
    pub(crate) fn review_allocating(
        &mut self,
        book: &Book,
        leaf: QueueSlot,
        directory: &mut Directory,
    ) {
        let is_allocating = book.is_allocating();
        if std::mem::replace(&mut self.is_allocating, is_allocating) == is_allocating {
            return;
        }
        let listed = &mut directory.queue_mut(leaf).allocating;
        if is_allocating {
            listed.insert(Arc::clone(&book.id));
        } else {
            listed.remove(&book.id);
        }
    }

    /// Has the directory list the application if the next scale-up signal may name asks of it. The
    /// scan for that signal takes it off.
    pub(crate) fn note_unsignalled(
        &mut self,
        book: &Book,
        leaf: QueueSlot,
        slot: ApplicationSlot,
        directory: &mut Directory,
    ) {
        if !self.is_unsignalled && book.asks.any_unsignalled() {
            self.is_unsignalled = true;
            directory.list_unsignalled(leaf, slot);
        }
    }

    /// Has the directory list the application exactly while `is_unsignalled`.
    pub(crate) fn set_unsignalled(
        &mut self,
        is_unsignalled: bool,
        leaf: QueueSlot,
        slot: ApplicationSlot,
        directory: &mut Directory,
    ) {
        if std::mem::replace(&mut self.is_unsignalled, is_unsignalled) == is_unsignalled {
            return;
        }
        if is_unsignalled {
            directory.list_unsignalled(leaf, slot);
        } else {
            directory.remove_unsignalled(leaf, slot);
        }
    }
}
