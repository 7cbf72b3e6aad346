//! A partition as data: its image, which is of one step, and the partition that goes on from there.
//!
//! # Why the state itself
//! What a resource manager would report after a restart does not rebuild everything that decides:
//! places that are held, victims on their way out, back-off, what was refused. So an image is the
//! state of every actor and of the books, copied between two steps; whoever goes on from it decides
//! what this partition would have decided. Each actor takes itself apart field by field, so that the
//! compiler refuses a new field that is neither copied nor left out on purpose.
//!
//! # What is left out
//! * Requests in the inbox: the partition has not seen them.
//! * Reads, barriers and notices: their receivers are in this process.
//! * Records of decisions and events.
//! * A search for victims that waits for answers: it is begun anew.
//! * Of the front, the groups of users that it has looked up or was given.

mod parts;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::books::Books;
use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::specs::quotas;
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};
use monoceros_rules::values::resources::{NAMES_MAX, NameHolder};
use monoceros_rules::values::slots::Slots;
use serde::{Deserialize, Serialize};

pub(crate) use self::parts::{Part, ReadPart, ReadPartition};
use super::Partition;
use super::input::Input;
use super::reorder::ReorderBuffer;
use super::state::{
    Controls, DeadlineList, DueAlarm, EmptyQueues, ForeignTable, Kept, ObservedTable, Signal,
};
use crate::api::predicates::{Predicates, QuestionId, Scope, Verdict};
use crate::application::{Application, ApplicationImage};
use crate::metrics::Metrics;
use crate::node::{Node, NodeImage};
use crate::queue::{Neighbours, Queue, QueueImage};
use crate::step::{
    Addresses, Baton, BatonAddress, Directory, DirectoryImage, Gathering, PreemptionRequest,
    QueueSlot, Route, RowSlot, StepEffects,
};

/// The state of a partition between two steps.
#[derive(Clone)]
pub struct PartitionImage {
    pub(crate) name: Arc<str>,
    /// The time of the step, ns since the epoch.
    pub(crate) at_ns: i64,
    /// The number of steps that may have changed a list.
    pub(crate) step: u64,
    /// The resource types that it uses: they are known for as long as the image lasts.
    pub(crate) names: Arc<NameHolder>,
    /// The tags of applications that placement rules read, in lower case.
    pub(crate) placement_tags: Vec<String>,
    pub(crate) actors: ActorImages,
    pub(crate) books: Books,
    pub(crate) directory: DirectoryImage,
    rest: Rest,
}

/// A constraint that the node index of an image does not have.
#[derive(Debug, thiserror::Error)]
#[error("a constraint of application `{0}` is not in the index of nodes")]
struct TermsMissing(Arc<str>);

impl PartitionImage {
    /// Shares anew what was shared before it was written: facts of queues, and terms of constraints.
    fn share(&mut self) -> Result<(), TermsMissing> {
        let Self { actors, books, directory, .. } = self;
        for queue in &mut actors.queues {
            directory.share_facts(&mut queue.facts);
        }
        for application in &mut actors.applications {
            directory.share_facts(&mut application.leaf_facts);
            if !application.book.look_up_terms(&books.nodes) {
                return Err(TermsMissing(Arc::clone(&application.book.id)));
            }
        }
        Ok(())
    }
}

/// The state of the actors of a partition.
#[derive(Clone, Default)]
pub(crate) struct ActorImages {
    pub(crate) queues: Vec<QueueImage>,
    pub(crate) applications: Vec<ApplicationImage>,
    pub(crate) nodes: Vec<NodeImage>,
}

/// The state that the actor of the partition keeps itself.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Rest {
    may_decide: bool,
    capacity_changed: bool,
    deadlines: Vec<DueAlarm>,
    /// The number of the last deadline that can be disarmed.
    last_deadline: u64,
    foreign: ForeignTable,
    observed: ObservedTable,
    reorder: ReorderBuffer,
    is_scale_up_armed: bool,
    preemptors: Vec<(i64, PreemptionRequest)>,
    changes_at_search: u64,
    empty: EmptyQueues,
    ended: Kept,
    state: ObjectState,
    state_since_ns: i64,
    controls: Controls,
    /// Orders and alarms that wait in the inbox.
    inbox: Vec<Input>,
}

/// The memory of actors, as quotas count it, after which a slice ends: to copy it takes some 0.1 ms.
const BYTES_PER_SLICE: u64 = 512 * quotas::ASK_BYTES;
/// The memory that a node counts as.
const NODE_BYTES: u64 = 8 * quotas::ASK_BYTES;

/// An image that is begun and not complete: its queues, its books and the partition's own state are of
/// the step at which it was begun, and so are the states that the baton gathers.
pub(super) struct ImageUnderWay {
    /// The image, without applications, nodes and allocations.
    begun: PartitionImage,
    /// The indices of the slots from which actors are still to be visited.
    next_application: usize,
    next_node: usize,
}

impl Partition {
    /// Begins an image of the partition, whose queues have these states.
    pub(super) fn begin_image(&mut self, queues: Vec<QueueImage>, baton: &mut Baton) {
        let rest = Rest {
            may_decide: self.may_decide,
            capacity_changed: self.capacity_changed,
            deadlines: self.deadlines.image(&self.clock),
            last_deadline: baton.effects.deadlines.last(),
            foreign: self.foreign.clone(),
            observed: self.observed.clone(),
            reorder: self.reorder.clone(),
            is_scale_up_armed: matches!(self.scale_up, Signal::Armed),
            preemptors: self.inquiries.image(),
            changes_at_search: self.changes_at_search,
            empty: self.empty.clone(),
            ended: self.ended.clone(),
            state: self.state,
            state_since_ns: self.state_since_ns,
            controls: self.controls.clone(),
            inbox: self.inbox.own_inputs(),
        };
        let names = NameHolder::new(NAMES_MAX);
        names.hold_all_of(&self.names);
        let allocations = std::mem::take(&mut baton.books.allocations);
        let books = baton.books.clone();
        baton.books.allocations = allocations;
        baton.books.allocations.begin_copy();
        baton.imaging.begin();
        let begun = PartitionImage {
            names: Arc::new(names),
            name: Arc::clone(&self.name),
            placement_tags: self.config.rules.tags().into_iter().map(str::to_owned).collect(),
            at_ns: baton.now_ns,
            step: self.steps,
            actors: ActorImages { queues, ..ActorImages::default() },
            books,
            directory: baton.directory.image(),
            rest,
        };
        self.image = Some(Box::new(ImageUnderWay { begun, next_application: 0, next_node: 0 }));
    }

    /// Returns the next actors to be visited for the image: as many as take some 0.1 ms, at least one.
    pub(super) fn next_for_image(&mut self, baton: &Baton) -> Route {
        let Some(image) = &mut self.image else { return Route::default() };
        let directory = &baton.directory;
        let (mut applications, mut nodes, mut bytes) = (Vec::new(), Vec::new(), 0);
        while bytes < BYTES_PER_SLICE && image.next_application < directory.applications.bound() {
            let slot = ApplicationSlot::at(index_of(image.next_application));
            image.next_application += 1;
            if let Some(entry) = directory.application(slot) {
                bytes += entry.held.bytes;
                applications.push(slot);
            }
        }
        while bytes < BYTES_PER_SLICE && image.next_node < directory.nodes.bound() {
            let slot = NodeSlot::at(index_of(image.next_node));
            image.next_node += 1;
            if directory.node(slot).is_some() {
                bytes += NODE_BYTES;
                nodes.push(slot);
            }
        }
        Route::default().applications(applications).nodes(nodes)
    }

    /// Whether an image is under way.
    pub(super) fn has_image(&self) -> bool {
        self.image.is_some()
    }

    /// Copies a further part of the allocations of the image, and returns the image once it is
    /// complete.
    pub(super) fn go_on_with_image(&mut self, baton: &mut Baton) -> Option<Box<PartitionImage>> {
        let has_more = baton.books.allocations.go_on_copying();
        let image = self.image.as_ref()?;
        let directory = &baton.directory;
        if has_more
            || image.next_application < directory.applications.bound()
            || image.next_node < directory.nodes.bound()
        {
            return None;
        }
        let mut image = self.image.take()?.begun;
        let Gathering { mut applications, mut nodes } = baton.imaging.end()?;
        // The order in which steps came to the actors says nothing.
        applications.sort_unstable_by_key(|application| application.slot);
        nodes.sort_unstable_by_key(|node| node.slot);
        (image.actors.applications, image.actors.nodes) = (applications, nodes);
        image.books.allocations = baton.books.allocations.end_copy()?;
        Some(Box::new(image))
    }

    /// Goes on from the rest of an image; books and directory are those of the image already.
    ///
    /// Placements that wait for an answer of the RM get it at once: they pass. The RM of a partition
    /// that is restored is asked within the step from then on.
    pub(super) fn go_on_from(&mut self, step: u64, rest: Rest, baton: &mut Baton) {
        self.steps = step;
        self.may_decide = rest.may_decide;
        self.capacity_changed = rest.capacity_changed;
        self.deadlines = DeadlineList::restored(rest.deadlines, &self.clock);
        baton.effects = StepEffects::after_deadline(rest.last_deadline);
        self.foreign = rest.foreign;
        self.observed = rest.observed;
        self.reorder = rest.reorder;
        self.scale_up = if rest.is_scale_up_armed { Signal::Armed } else { Signal::Idle };
        for (since_ns, request) in rest.preemptors {
            self.inquiries.extend(since_ns, [request]);
        }
        self.changes_at_search = rest.changes_at_search;
        self.empty = rest.empty;
        self.ended = rest.ended;
        self.state = rest.state;
        self.state_since_ns = rest.state_since_ns;
        self.controls = rest.controls;
        for input in rest.inbox {
            self.inbox.push_input(input);
        }
        if self.controls.asks_later() {
            self.controls.predicates = Predicates::Local;
            let pass = |question| {
                let scope = Scope::default();
                let verdict = Verdict::Passed { position: 0, scope, assumed: false };
                (QuestionId(question), Some(verdict))
            };
            let open = baton.books.unsettled.open_questions();
            let answers: Vec<_> = open.into_iter().map(pass).collect();
            if !answers.is_empty() {
                self.inbox.push_input(Input::Answers(answers));
            }
        }
    }
}

fn index_of(at: usize) -> u32 {
    u32::try_from(at).expect("fewer than four billion actors of a kind")
}

/// The books and the directory of a partition that is restored, with the rest of its image.
pub(super) struct Restored {
    pub(super) books: Books,
    pub(super) directory: Directory,
    pub(super) step: u64,
    pub(super) rest: Rest,
}

impl Restored {
    /// Starts the actors of an image on the current arbiter.
    pub(super) fn start(image: PartitionImage, metrics: &Arc<Metrics>) -> Self {
        let PartitionImage { actors, books, directory, step, rest, .. } = image;
        let ActorImages { queues, applications, nodes } = actors;
        let mut addresses = Addresses {
            queues: Slots::default(),
            nodes: Slots::default(),
            applications: Slots::default(),
        };
        let mut below: BTreeMap<(QueueSlot, RowSlot), QueueSlot> = BTreeMap::new();
        let mut in_leaf: BTreeMap<(QueueSlot, RowSlot), ApplicationSlot> = BTreeMap::new();
        let mut queues_to_run = Vec::with_capacity(queues.len());
        for queue in queues {
            let mut context = Context::<Queue>::new();
            addresses.queues.insert_at(queue.facts.slot, BatonAddress::of(&mut context));
            queues_to_run.push((context, queue));
        }
        let mut applications_to_run = Vec::with_capacity(applications.len());
        for application in applications {
            let mut context = Context::<Application>::new();
            addresses.applications.insert_at(application.slot, BatonAddress::of(&mut context));
            if let Some(row) = application.row {
                in_leaf.insert((application.leaf_facts.slot, row), application.slot);
            }
            applications_to_run.push((context, application));
        }
        for node in nodes {
            let slot: NodeSlot = node.slot;
            let node = Node::restored(node, Arc::clone(metrics));
            addresses.nodes.insert_at(slot, BatonAddress::start(node));
        }
        let mut parents: BTreeMap<QueueSlot, (QueueSlot, RowSlot)> = BTreeMap::new();
        for (slot, facts, row) in directory.rows() {
            if let (Some(parent), Some(row)) = (facts.parent, row) {
                below.insert((parent, row), slot);
                parents.insert(slot, (parent, row));
            }
        }
        for (context, queue) in queues_to_run {
            let slot = queue.facts.slot;
            let parent = parents.get(&slot);
            let neighbours = Neighbours {
                parent: parent.map(|(above, row)| (Arc::clone(&addresses.queues[*above]), *row)),
                queue: |row| Arc::clone(&addresses.queues[below[&(slot, row)]]),
                application: |row| Arc::clone(&addresses.applications[in_leaf[&(slot, row)]]),
            };
            context.run(Queue::restored(queue, neighbours, Arc::clone(metrics)));
        }
        for (context, application) in applications_to_run {
            let leaf = Arc::clone(&addresses.queues[application.leaf_facts.slot]);
            context.run(Application::restored(application, leaf, Arc::clone(metrics)));
        }
        let directory = Directory::restored(directory, &addresses);
        Self { books, directory, step, rest }
    }
}
