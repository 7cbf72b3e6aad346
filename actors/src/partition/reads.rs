//! Reads: a walk between two steps, which therefore sees totals that belong together.

use std::sync::Arc;

use actix::prelude::*;
use monoceros_config as config;
use monoceros_rules::audit::Facts;
use monoceros_rules::values::resources::Resources;
use tokio::sync::oneshot;

use super::observing::Measurements;
use super::scale_up::Audience;
use super::{Partition, Task, View};
use crate::snapshot::{
    ApplicationSnapshot, GroupSnapshot, NodeRecommendation, NodeSnapshot, OutstandingRequest,
    PartitionSnapshot, QueueSnapshot, ShownRule, UserSnapshot,
};
use crate::step::{Baton, Purpose, Walk};
use crate::views::usage;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Question {
    Partition,
    Queues,
    /// The rules of placement, in the order they are asked.
    PlacementRules,
    Nodes,
    /// Capacity and use of each.
    NodeLoad,
    /// Who uses how much; one of this name, or all who are tracked.
    Users(Option<String>),
    /// As of users.
    Groups(Option<String>),
    /// Of the leaf with this path.
    Applications(String),
    AllApplications,
    /// Keep what was measured.
    Observe(Measurements),
    /// What was measured, together.
    ObservedSums,
    /// What size these nodes should have; none named: all.
    Recommendations(Vec<String>),
    /// What more machines would help, at most so many requests.
    Outstanding(usize),
    /// For an audit.
    Facts,
}

/// What is answered.
pub(crate) enum Answer {
    Partition(Box<PartitionSnapshot>),
    Queues(Box<QueueSnapshot>),
    PlacementRules(Vec<ShownRule>),
    Nodes(Vec<NodeSnapshot>),
    NodeLoad(Vec<(Resources, Resources)>),
    Users(Vec<UserSnapshot>),
    Groups(Vec<GroupSnapshot>),
    Applications(Vec<ApplicationSnapshot>),
    /// Of each measurement, whether it is of something known.
    Observe(Vec<bool>),
    ObservedSums {
        nodes: Resources,
        allocations: Resources,
    },
    Recommendations(Vec<NodeRecommendation>),
    Outstanding(Vec<OutstandingRequest>),
    Facts(Box<Facts>),
    QueueNotFound,
}

/// A read. The answer goes to whoever asked when its walk is home.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Read {
    pub(crate) question: Question,
    pub(crate) reply: oneshot::Sender<Answer>,
}

impl Partition {
    /// Begins a read.
    pub(super) fn read(&mut self, read: Box<Read>, baton: &mut Baton) {
        baton.walk = Walk { purpose: Purpose::Read, ..Walk::default() };
        match &read.question {
            Question::Partition => baton.walk.queues = vec![Arc::clone(baton.directory.root())],
            Question::Queues => baton.walk.queues = queues(baton),
            Question::PlacementRules => {
                let _ = read.reply.send(Answer::PlacementRules(self.placement.shown()));
                return;
            }
            Question::Users(only) => {
                let users = usage::users(&baton.books.trackers, only.as_deref());
                let _ = read.reply.send(Answer::Users(users));
                return;
            }
            Question::Groups(only) => {
                let groups = usage::groups(&baton.books.trackers, only.as_deref());
                let _ = read.reply.send(Answer::Groups(groups));
                return;
            }
            Question::Nodes => baton.walk.nodes = nodes(baton),
            Question::NodeLoad => {
                baton.walk.purpose = Purpose::Load;
                baton.walk.nodes = nodes(baton);
            }
            Question::Applications(path) => {
                let Some(slot) = baton.directory.queue_by_path.get(path.as_str()).copied() else {
                    let _ = read.reply.send(Answer::QueueNotFound);
                    return;
                };
                let entries = baton.directory.applications.values();
                let of_leaf = entries.filter(|entry| entry.leaf == slot);
                let addresses = of_leaf.map(|entry| Arc::clone(&entry.address)).collect();
                baton.walk.applications = addresses;
            }
            Question::AllApplications => {
                let entries = baton.directory.applications.values();
                baton.walk.applications = entries.map(|entry| Arc::clone(&entry.address)).collect();
            }
            Question::Observe(_) | Question::ObservedSums | Question::Recommendations(_) => {
                self.read_observed(*read, baton);
                return;
            }
            Question::Outstanding(_) if !self.decides() => {
                let _ = read.reply.send(Answer::Outstanding(Vec::new()));
                return;
            }
            Question::Outstanding(limit) => {
                self.begin_scale_up(Audience::Reader(*limit), baton);
                self.agenda.push_back(Task::Reply(read));
                return;
            }
            Question::Facts => walk_all(baton),
        }
        self.agenda.push_back(Task::Walk);
        self.agenda.push_back(Task::Reply(read));
    }

    /// The walk is home: answer.
    pub(super) fn reply(&mut self, read: Read, baton: &mut Baton) {
        let mut walk = std::mem::take(&mut baton.walk);
        let answer = match read.question {
            Question::Queues => {
                let mut root = root_of(&mut walk);
                crate::views::inherit(&mut root);
                config::plain_name(&self.name).clone_into(&mut root.partition);
                Answer::Queues(Box::new(root))
            }
            Question::Nodes => {
                walk.nodes_read.sort_by(|a, b| a.node_id.cmp(&b.node_id));
                Answer::Nodes(walk.nodes_read)
            }
            Question::Applications(_) | Question::AllApplications => {
                let plain = config::plain_name(&self.name);
                let mut read = walk.applications_read;
                for application in &mut read {
                    plain.clone_into(&mut application.partition);
                }
                let order = |application: &ApplicationSnapshot| {
                    (application.application_id.clone(), application.submission_time)
                };
                read.sort_by_key(order);
                Answer::Applications(read)
            }
            Question::NodeLoad => Answer::NodeLoad(walk.loads),
            Question::Recommendations(_) => {
                Answer::Recommendations(self.recommend(walk.figures, baton.now_ns))
            }
            Question::PlacementRules
            | Question::Users(_)
            | Question::Groups(_)
            | Question::Observe(_)
            | Question::ObservedSums => unreachable!("answered at once"),
            Question::Outstanding(_) => {
                let plain = config::plain_name(&self.name);
                for request in &mut walk.outstanding {
                    plain.clone_into(&mut request.partition);
                }
                Answer::Outstanding(walk.outstanding)
            }
            Question::Facts => {
                let mut facts = walk.facts;
                facts.take_books(&baton.books);
                Answer::Facts(Box::new(facts))
            }
            Question::Partition => {
                let root = root_of(&mut walk);
                let view = View {
                    name: &self.name,
                    config: &self.config,
                    state: self.state,
                    state_since_ns: self.state_since_ns,
                };
                let allocated = root.allocated_resource;
                Answer::Partition(Box::new(crate::views::partition(&view, baton, allocated)))
            }
        };
        let _ = read.reply.send(answer);
    }
}

/// The tree that a walk through the queues left.
fn root_of(walk: &mut Walk) -> QueueSnapshot {
    let root = walk.trees.pop_first().and_then(|(_, mut trees)| trees.pop());
    root.expect("a walk through the queues ends at root")
}

/// Has the next walk gather the facts of everything.
pub(super) fn walk_all(baton: &mut Baton) {
    let entries = baton.directory.applications.values();
    let applications = entries.map(|entry| Arc::clone(&entry.address)).collect();
    baton.walk = Walk {
        purpose: Purpose::Audit,
        queues: queues(baton),
        nodes: nodes(baton),
        applications,
        ..Walk::default()
    };
}

pub(super) fn queues(baton: &Baton) -> Vec<Arc<Addr<crate::queue::Queue>>> {
    baton.directory.all_queues().map(|entry| Arc::clone(&entry.address)).collect()
}

fn nodes(baton: &Baton) -> Vec<Arc<Addr<crate::node::Node>>> {
    baton.directory.nodes.values().cloned().collect()
}
