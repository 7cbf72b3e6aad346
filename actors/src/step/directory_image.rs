//! The directory as data: everything in it except addresses.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

use monoceros_rules::applications::application_state::ApplicationState;
use monoceros_rules::specs::quotas::Held;
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};
use monoceros_rules::values::slots::Slots;

use super::BatonAddress;
use super::directory::{ApplicationEntry, Directory, ListsOfApplications, QueueCounts, QueueEntry};
use super::named::Named;
use super::slots::{QueueSlot, RowSlot};
use crate::application::Application;
use crate::node::Node;
use crate::queue::{Queue, QueueFacts};

/// The directory of a partition, without addresses.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct DirectoryImage {
    queues: Slots<QueueSlot, QueueEntryImage>,
    nodes: Slots<NodeSlot, ()>,
    instance_types: Slots<NodeSlot, Arc<str>>,
    held_by_nodes: Slots<NodeSlot, Held>,
    applications: Slots<ApplicationSlot, ApplicationEntryImage>,
    named: Named,
    lists: ListsOfApplications,
}

#[derive(Clone, Serialize, Deserialize)]
struct QueueEntryImage {
    facts: Arc<QueueFacts>,
    row: Option<RowSlot>,
    applications: usize,
    children: usize,
    counts: QueueCounts,
    allocating: BTreeSet<Arc<str>>,
    is_stale: bool,
}

#[derive(Clone, Serialize, Deserialize)]
struct ApplicationEntryImage {
    id: Arc<str>,
    leaf: QueueSlot,
    state: ApplicationState,
    has_declared_members: bool,
    held: Held,
}

/// The addresses of a partition's actors, by slot.
pub(crate) struct Addresses {
    pub(crate) queues: Slots<QueueSlot, Arc<BatonAddress<Queue>>>,
    pub(crate) nodes: Slots<NodeSlot, Arc<BatonAddress<Node>>>,
    pub(crate) applications: Slots<ApplicationSlot, Arc<BatonAddress<Application>>>,
}

impl Directory {
    /// Returns the directory without its addresses.
    pub(crate) fn image(&self) -> DirectoryImage {
        let queue = |_, entry: &QueueEntry| {
            let QueueEntry { facts, address: _, row, applications, children, .. } = entry;
            QueueEntryImage {
                facts: Arc::clone(facts),
                row: *row,
                applications: *applications,
                children: *children,
                counts: entry.counts.clone(),
                allocating: entry.allocating.clone(),
                is_stale: entry.is_stale,
            }
        };
        let application = |_, entry: &ApplicationEntry| {
            let ApplicationEntry { slot: _, id, leaf, address: _, state, .. } = entry;
            ApplicationEntryImage {
                id: Arc::clone(id),
                leaf: *leaf,
                state: *state,
                has_declared_members: entry.has_declared_members,
                held: entry.held,
            }
        };
        DirectoryImage {
            queues: self.queues.map(queue),
            nodes: self.nodes.map(|_, _| ()),
            instance_types: self.instance_types.clone(),
            held_by_nodes: self.held_by_nodes.clone(),
            applications: self.applications.map(application),
            named: self.named.clone(),
            lists: self.lists(),
        }
    }

    /// Builds the directory with these addresses, which are those of all its actors.
    pub(crate) fn restored(image: DirectoryImage, addresses: &Addresses) -> Self {
        let queue = |slot, entry: &QueueEntryImage| QueueEntry {
            facts: Arc::clone(&entry.facts),
            address: Arc::clone(&addresses.queues[slot]),
            row: entry.row,
            applications: entry.applications,
            children: entry.children,
            counts: entry.counts.clone(),
            allocating: entry.allocating.clone(),
            is_stale: entry.is_stale,
        };
        let application = |slot, entry: &ApplicationEntryImage| ApplicationEntry {
            slot,
            id: Arc::clone(&entry.id),
            leaf: entry.leaf,
            address: Arc::clone(&addresses.applications[slot]),
            state: entry.state,
            has_declared_members: entry.has_declared_members,
            held: entry.held,
        };
        let mut directory = Self::default();
        directory.queues = image.queues.map(queue);
        directory.nodes = image.nodes.map(|slot, ()| Arc::clone(&addresses.nodes[slot]));
        directory.instance_types = image.instance_types;
        directory.held_by_nodes = image.held_by_nodes;
        directory.applications = image.applications.map(application);
        directory.named = image.named;
        directory.index();
        directory.take_lists(image.lists);
        directory
    }
}

impl DirectoryImage {
    /// Shares the facts of a queue with the directory, as before they were written: a queue whose
    /// configuration is another object has to take a change over.
    pub(crate) fn share_facts(&self, facts: &mut Arc<QueueFacts>) {
        let Some(entry) = self.queues.find(facts.slot) else { return };
        if entry.facts.config == facts.config {
            let shared =
                QueueFacts { config: Arc::clone(&entry.facts.config), ..QueueFacts::clone(facts) };
            *facts = Arc::new(shared);
        }
    }

    /// Returns every queue with its row in the one above.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (QueueSlot, &QueueFacts, Option<RowSlot>)> {
        self.queues.iter().map(|(slot, entry)| (slot, &*entry.facts, entry.row))
    }
}
