//! A step as a list of tasks: each sends the baton out once, or is done at home.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::prelude::*;
use monoceros_config::reload::TypeInUse;
use monoceros_rules::limits::LaneId;
use monoceros_rules::nodes::NodeSlot;
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::values::resources::Limits;
use monoceros_rules::work::allocations::ApplicationSlot;
use monoceros_rules::work::application::NewApplication;
use tokio::time::Instant;

use super::queue_lifecycle::removal_if_over;
use super::scale_up::Audience;
use super::{Partition, Read, node_order, reads};
use crate::Removed;
use crate::application::Op;
use crate::front::rm::PartitionClosed;
use crate::node::NodeChange;
use crate::step::{Answers, Baton, Errand, Notice, Purpose, QueueSlot, RowSlot, Walk};

/// What a step has still to do.
pub(super) enum Task {
    Visit(ApplicationSlot, Vec<Op>),
    VisitNode(NodeSlot, NodeChange),
    Attach(ApplicationSlot),
    Detach(ApplicationSlot, RowSlot),
    /// The node's holdings came home: let their applications know.
    Strand,
    /// A node was changed: what waits for its predicate may have to leave it.
    GiveUpReported,
    /// The RM answered questions about one application.
    TakeAnswers(Answers),
    /// Every answer that came together was taken.
    EndOfAnswers,
    /// A node leaves the directory.
    ForgetNode(NodeSlot),
    /// Root's capacity or the configuration changed: make all keys anew, those of applications in
    /// these leaves only.
    Refresh(BTreeSet<QueueSlot>),
    /// What is in use is known: the session is told whether this partition could change.
    Prepared(Result<(), TypeInUse>),
    /// The queues are as configured.
    Reloaded {
        since: Instant,
    },
    /// Limits of these lanes were loosened, by leaf.
    LookAgain(BTreeMap<QueueSlot, Vec<LaneId>>),
    /// An application comes to the leaf of this path, which is there by now.
    Join(Box<NewApplication>, Arc<str>),
    /// What a dynamic leaf is to be was noted: it and those above take it in.
    Refit(QueueSlot, bool),
    /// A queue is to grow below one that is there.
    AddQueue(Arc<QueueConfig>),
    /// An empty queue goes.
    RemoveQueue(QueueSlot),
    /// Goes through the actors that the baton's walk lists.
    Walk,
    /// The queues said what they have left, for the scale-up signal.
    AskWaiting(Audience),
    /// The applications said what they wait for.
    DecideWanted(Audience),
    /// The answer to a read is complete.
    Reply(Box<Read>),
    /// The facts are gathered: what must the next offer decide?
    Foresee,
}

impl Partition {
    /// Sends the baton out for one task of the step, or does it here.
    pub(super) fn perform(&mut self, task: Task, mut baton: Box<Baton>) -> Option<Box<Baton>> {
        match task {
            Task::Visit(slot, ops) => {
                let Some(entry) = baton.directory.application(slot) else {
                    // It left after this was put on the agenda.
                    return Some(baton);
                };
                let address = Arc::clone(&entry.address);
                baton.errand = Errand::Application(ops);
                address.do_send(crate::application::Visit(baton));
                return None;
            }
            Task::VisitNode(slot, change) => {
                if let Some(address) = baton.directory.node(slot).cloned() {
                    baton.errand = Errand::Node(change);
                    address.do_send(crate::node::Visit(baton));
                    return None;
                }
            }
            Task::Attach(slot) => {
                let entry = baton.directory.application(slot).expect("just entered");
                let address = Arc::clone(&entry.address);
                let leaf = Arc::clone(&baton.directory.queue(entry.leaf).address);
                baton.errand = Errand::Attach { address };
                leaf.do_send(crate::queue::Membership(baton));
                return None;
            }
            Task::Detach(slot, row) => {
                let entry = baton.directory.applications.remove(slot);
                baton.directory.application_by_id.remove(&entry.id);
                baton.directory.named.forget(slot);
                let id = Arc::clone(&entry.id);
                baton.notices.push(Notice::ApplicationPlaced { id, queue: None });
                let queue = baton.directory.queue_mut(entry.leaf);
                queue.applications -= 1;
                let leaf = Arc::clone(&queue.address);
                self.agenda.extend(removal_if_over(entry.leaf, &baton));
                self.may_be_empty(entry.leaf, &mut baton);
                baton.directory.refused.remove(&slot);
                entry.address.do_send(crate::Halt);
                baton.errand = Errand::Detach { row };
                leaf.do_send(crate::queue::Membership(baton));
                return None;
            }
            Task::Strand => self.strand(&mut baton),
            Task::GiveUpReported => self.give_up_reported(&mut baton),
            Task::TakeAnswers(answers) => {
                baton.take_answers(answers);
                return None;
            }
            Task::EndOfAnswers => baton.books.unsettled.window.end_of_answers(),
            Task::ForgetNode(slot) => Self::forget_node(slot, &mut baton),
            Task::Refresh(leaves) => {
                Self::refresh(&leaves, baton);
                return None;
            }
            Task::Prepared(answer) => self.prepared(answer, &mut baton),
            Task::Reloaded { since } => self.reloaded(since),
            Task::LookAgain(lanes) => {
                Self::look_again(lanes, baton);
                return None;
            }
            Task::Join(new, leaf) => {
                let leaf = baton.directory.queue_by_path[&leaf];
                self.join(*new, leaf, &mut baton);
            }
            Task::Refit(slot, treats_otherwise) => {
                Self::refit(slot, treats_otherwise, baton);
                return None;
            }
            Task::AddQueue(config) => {
                Self::add_queue(config, baton);
                return None;
            }
            Task::RemoveQueue(slot) => {
                self.remove_queue(slot, baton);
                return None;
            }
            Task::Walk => {
                baton.walk_on();
                return None;
            }
            Task::AskWaiting(audience) => self.ask_waiting(audience, &mut baton),
            Task::DecideWanted(audience) => self.decide_wanted(audience, &mut baton),
            Task::Reply(read) => self.reply(*read, &mut baton),
            Task::Foresee => {
                let mut facts = std::mem::take(&mut baton.walk.facts);
                facts.take_books(&baton.books);
                let order = node_order(&self.config);
                if self.controls.asks_later() {
                    self.oracle.only_check(&facts);
                } else {
                    self.oracle.foresee(&facts, &order, &*baton.callback);
                }
            }
        }
        Some(baton)
    }

    /// Has every queue of which the directory knows something new hear of it, with those above: keys
    /// and bounds are made anew from the leaves upward. Fair maxima are computed from root downward;
    /// a queue whose own is another now is among them. The applications of `leaves` are visited.
    ///
    /// Root is always visited: what it is there to share may have changed, and the loosening that
    /// this is counts from there. A queue that is passed over keeps bounds that say the truth of what
    /// is below it, as when something climbs past its siblings.
    fn refresh(leaves: &BTreeSet<QueueSlot>, mut baton: Box<Baton>) {
        let Baton { directory, books, .. } = &mut *baton;
        let n_slots = directory.queues.bound();
        let mut fair_max: Vec<Option<Limits>> = vec![None; n_slots];
        let mut is_visited = vec![false; n_slots];
        for entry in directory.all_queues() {
            let (facts, at) = (&entry.facts, entry.facts.slot.0 as usize);
            fair_max[at] = facts.fair_max_below(&fair_max, books.nodes.capacity());
            let is_root = facts.parent.is_none();
            is_visited[at] = is_root || entry.is_stale || fair_max[at] != facts.fair_max;
        }
        for leaf in leaves {
            is_visited[leaf.0 as usize] = true;
        }
        for entry in directory.all_queues().rev() {
            if let Some(parent) = entry.facts.parent {
                is_visited[parent.0 as usize] |= is_visited[entry.facts.slot.0 as usize];
            }
        }
        let visited = directory.all_queues().filter(|it| is_visited[it.facts.slot.0 as usize]);
        let queues = visited.map(|entry| Arc::clone(&entry.address)).collect();
        let applications = if leaves.is_empty() {
            Vec::new()
        } else {
            let entries = directory.applications.values();
            let of_leaves = entries.filter(|entry| leaves.contains(&entry.leaf));
            of_leaves.map(|entry| Arc::clone(&entry.address)).collect()
        };
        let purpose = Purpose::Refresh;
        baton.walk = Walk { queues, applications, purpose, fair_max, ..Walk::default() };
        baton.walk_on();
    }

    /// Has leaves look at their lanes again, and then those above them: each once, however many below
    /// it speak.
    fn look_again(lanes: BTreeMap<QueueSlot, Vec<LaneId>>, mut baton: Box<Baton>) {
        let directory = &baton.directory;
        let mut slots = BTreeSet::new();
        for leaf in lanes.keys() {
            let path = directory.upward(*leaf).map(|facts| facts.slot);
            // Those above one that is there are there.
            slots.extend(path.take_while(|slot| !slots.contains(slot)).collect::<Vec<_>>());
        }
        // A walk goes from the last to the first, and parents have the smaller slots.
        let queues = slots.iter().map(|slot| Arc::clone(&directory.queue(*slot).address)).collect();
        let purpose = Purpose::LookAgain;
        baton.walk = Walk { queues, purpose, lanes, ..Walk::default() };
        baton.walk_on();
    }

    /// What the step left behind that the step itself must still do. Says whether there is any.
    pub(super) fn agenda_from(&mut self, baton: &mut Baton) -> bool {
        for (slot, row) in std::mem::take(&mut baton.ended) {
            if let Some(row) = row {
                self.agenda.push_back(Task::Detach(slot, row));
            }
        }
        for (slot, node) in std::mem::take(&mut baton.woken) {
            self.agenda.push_back(Task::Visit(slot, vec![Op::WakeNamed(node)]));
        }
        for (slot, node) in std::mem::take(&mut baton.woken_by_return) {
            self.agenda.push_back(Task::Visit(slot, vec![Op::WakeNamedByReturn(node)]));
        }
        let reopened = baton.books.trackers.take_reopened();
        if !reopened.is_empty() {
            let by_path = &baton.directory.queue_by_path;
            let leaves = reopened.into_iter();
            let slots = leaves.filter_map(|(leaf, lanes)| Some((*by_path.get(&leaf)?, lanes)));
            self.agenda.push_back(Task::LookAgain(slots.collect()));
        }
        !self.agenda.is_empty()
    }

    /// Gathers the facts of everything, for the oracle.
    pub(super) fn foresee(&mut self) {
        let baton = self.baton.as_mut().expect("the oracle looks while the baton is at home");
        reads::walk_all(baton);
        self.agenda.push_back(Task::Walk);
        self.agenda.push_back(Task::Foresee);
    }

    /// Stops every actor of the partition.
    pub(super) fn dissolve(&mut self, mut baton: Box<Baton>, ctx: &mut Context<Self>) {
        baton.guard.armed = false;
        baton.tally.flush();
        baton.directory.halt_all();
        let directory = &baton.directory;
        let removed = Removed {
            allocations: (baton.books.allocations.len() - baton.books.unsettled.len()) as u64,
            nodes: baton.books.nodes.len() as u64,
            applications: directory.application_by_id.len() as u64,
        };
        let closed = PartitionClosed { partition: Arc::clone(&self.name), removed };
        // By the outlet, so that nothing said before is heard after.
        self.outlet.do_send(crate::outlet::Farewell(closed));
        ctx.stop();
    }
}
