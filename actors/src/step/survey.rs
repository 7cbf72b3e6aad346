//! A survey: a step that goes from actor to actor and reads or renews each.
//!
//! # Why one trait
//! A survey defines in one place which actors it visits, what it reads or changes at an
//! application, a queue or a node, and how it ends at home; its own fields hold what it gathers. No
//! actor knows which surveys there are, and a new one changes none of them. The surveys are in
//! `partition::surveys`, a file each.
//!
//! # Invariants
//! * Applications come before queues, and queues before those above them: a value that a child
//!   leaves for its parent is there when the parent is visited.
//! * A survey is a step and has the baton: everything it reads is of one moment.
//!
//! # When things go wrong
//! A survey is lost if its baton is. The channel of its answer is then closed, and the caller
//! treats the partition as missing.

use std::cmp::Reverse;
use std::sync::Arc;
use std::vec;

use actix::Message;
use monoceros_rules::decide::preemption::Answer;
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};

use super::{ApplicationEntry, Baton, QueueSlot};
use crate::application::{Application, ApplicationMail};
use crate::node::{Node, NodeMail};
use crate::partition::Partition;
use crate::queue::{Queue, QueueMail};

/// One kind of survey: its route, its work at each actor, and its end in the partition.
pub(crate) trait Survey: Send + 'static {
    /// Returns the route. A survey with an empty route ends in the partition at once.
    fn route(&mut self, _partition: &mut Partition, _baton: &Baton) -> Route {
        Route::default()
    }

    /// Called at each application on its route.
    fn at_application(&mut self, _application: &mut Application, _baton: &mut Baton) {}

    /// Called at each queue on its route.
    fn at_queue(&mut self, _queue: &mut Queue, _baton: &mut Baton) {}

    /// Called at each node on its route.
    fn at_node(&mut self, _node: &mut Node, _baton: &mut Baton) {}

    /// Whether the survey is complete: it then goes home without the rest of its route.
    fn is_full(&self) -> bool {
        false
    }

    /// Called in the partition when the route is over: answers the caller, or begins another
    /// survey.
    fn home(self: Box<Self>, _partition: &mut Partition, _baton: &mut Baton) {}
}

/// A search for victims that waits for the RM's answers to its questions.
pub(crate) trait AwaitsAnswers: Send {
    /// Called once, with the answers in the order of the questions; with none if the RM cannot be asked
    /// any more.
    fn answered(self: Box<Self>, answers: &[Answer], partition: &mut Partition, baton: &mut Baton);
}

/// The actors that a survey visits, as an iterator over its stops.
#[derive(Debug, Default)]
pub(crate) struct Route {
    applications: vec::IntoIter<ApplicationSlot>,
    queues: vec::IntoIter<QueueSlot>,
    nodes: vec::IntoIter<NodeSlot>,
}

/// A single actor on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Application(ApplicationSlot),
    Queue(QueueSlot),
    Node(NodeSlot),
}

impl Route {
    /// Visits these applications, in this order.
    pub(crate) fn applications(mut self, slots: impl IntoIterator<Item = ApplicationSlot>) -> Self {
        self.applications = slots.into_iter().collect::<Vec<_>>().into_iter();
        self
    }

    /// Visits every application.
    pub(crate) fn all_applications(self, baton: &Baton) -> Self {
        self.applications_that(baton, |_| true)
    }

    /// Visits the applications for which `is_wanted` is true.
    pub(crate) fn applications_that(
        self,
        baton: &Baton,
        is_wanted: impl Fn(&ApplicationEntry) -> bool,
    ) -> Self {
        let wanted = baton.directory.all_applications().filter(|entry| is_wanted(entry));
        self.applications(wanted.map(|entry| entry.slot).rev())
    }

    /// Visits these queues, each once, children before parents whatever the order here: parents
    /// have the smaller slots.
    pub(crate) fn queues(mut self, slots: impl IntoIterator<Item = QueueSlot>) -> Self {
        let mut slots: Vec<QueueSlot> = slots.into_iter().collect();
        slots.sort_unstable_by_key(|slot| Reverse(*slot));
        slots.dedup();
        self.queues = slots.into_iter();
        self
    }

    /// Visits these queues, in this order.
    pub(crate) fn queues_as_named(mut self, slots: Vec<QueueSlot>) -> Self {
        self.queues = slots.into_iter();
        self
    }

    /// Visits every queue.
    pub(crate) fn all_queues(self, baton: &Baton) -> Self {
        self.queues(baton.directory.all_queues().map(|entry| entry.facts.slot))
    }

    /// Visits these nodes, in this order.
    pub(crate) fn nodes(mut self, slots: impl IntoIterator<Item = NodeSlot>) -> Self {
        self.nodes = slots.into_iter().collect::<Vec<_>>().into_iter();
        self
    }

    /// Visits this node, if there is one, before all others.
    pub(crate) fn node_first(mut self, first: Option<NodeSlot>) -> Self {
        let others = std::mem::take(&mut self.nodes);
        self.nodes(first.into_iter().chain(others))
    }

    /// Visits every node, by id.
    pub(crate) fn all_nodes(self, baton: &Baton) -> Self {
        self.nodes(baton.books.nodes.by_id())
    }

    /// Whether no actor is left to visit.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { applications, queues, nodes } = self;
        applications.len() + queues.len() + nodes.len() == 0
    }
}

impl Iterator for Route {
    type Item = Stop;

    fn next(&mut self) -> Option<Stop> {
        let application = self.applications.next().map(Stop::Application);
        application
            .or_else(|| self.queues.next().map(Stop::Queue))
            .or_else(|| self.nodes.next().map(Stop::Node))
    }
}

/// A survey under way: the baton brings it to every actor on its route. It comes home by the
/// mailbox ([`Surveyed`]).
pub(crate) struct Surveyor {
    pub(crate) survey: Box<dyn Survey>,
    route: Route,
}

/// A survey comes home.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Surveyed {
    pub(crate) baton: Box<Baton>,
    pub(crate) survey: Box<dyn Survey>,
}

impl Surveyor {
    pub(crate) fn new(survey: Box<dyn Survey>, route: Route) -> Self {
        Self { survey, route }
    }

    /// Goes to the next actor on the route that still exists, or home.
    pub(crate) fn go_on(mut self: Box<Self>, mut baton: Box<Baton>) {
        while let Some(stop) = if self.survey.is_full() { None } else { self.route.next() } {
            let directory = &baton.directory;
            match stop {
                Stop::Application(slot) => {
                    let Some(entry) = directory.application(slot) else { continue };
                    let address = Arc::clone(&entry.address);
                    address.hand(baton, ApplicationMail::Survey(self));
                }
                Stop::Queue(slot) => {
                    let address = Arc::clone(&directory.queue(slot).address);
                    address.hand(baton, QueueMail::Survey(self));
                }
                Stop::Node(slot) => {
                    let Some(address) = directory.node(slot).cloned() else { continue };
                    address.hand(baton, NodeMail::Survey(self));
                }
            }
            return;
        }
        baton.homeward().do_send(Surveyed { baton, survey: self.survey });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops(route: Route) -> Vec<Stop> {
        route.collect()
    }

    #[test]
    fn a_survey_visits_applications_then_queues_from_the_leaves_upward() {
        let route = Route::default()
            .queues([QueueSlot(0), QueueSlot(3), QueueSlot(1)])
            .applications([ApplicationSlot::at(4), ApplicationSlot::at(2)]);
        let expected = [
            Stop::Application(ApplicationSlot::at(4)),
            Stop::Application(ApplicationSlot::at(2)),
            Stop::Queue(QueueSlot(3)),
            Stop::Queue(QueueSlot(1)),
            Stop::Queue(QueueSlot(0)),
        ];
        assert_eq!(stops(route), expected);
    }

    #[test]
    fn a_queue_that_is_named_twice_is_visited_once() {
        let route = Route::default().queues([QueueSlot(0), QueueSlot(1), QueueSlot(0)]);
        assert_eq!(stops(route), [Stop::Queue(QueueSlot(1)), Stop::Queue(QueueSlot(0))]);
    }

    #[test]
    fn nodes_come_last() {
        let mut index =
            monoceros_rules::nodes::NodeIndex::new(monoceros_rules::nodes::NodeOrder::default());
        let nothing = monoceros_rules::values::resources::Resources::new;
        let node = index.insert(Arc::from("n1"), nothing(), nothing(), true).unwrap();
        let route = Route::default().nodes([node]).queues([QueueSlot(0)]);
        assert_eq!(stops(route), [Stop::Queue(QueueSlot(0)), Stop::Node(node)]);
    }
}
