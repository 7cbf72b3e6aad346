//! Facts of every actor for an audit, requested by tests, by an operator in doubt, or by the oracle
//! before an offer. They are gathered in one step through all actors, because facts of different
//! moments would not agree.

use monoceros_rules::audit::Facts;
use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::application::Application;
use crate::node::Node;
use crate::queue::Queue;
use crate::step::{Baton, Route, Survey};

/// Survey of all facts of a partition.
pub(crate) struct Everything {
    facts: Facts,
    audience: Audience,
}

/// The receiver of the facts.
enum Audience {
    /// A caller of the handle.
    Reader(oneshot::Sender<Facts>),
    /// The full search of tests: it determines what the next offer must decide.
    Oracle,
}

impl Everything {
    pub(crate) fn new(reply: oneshot::Sender<Facts>) -> Self {
        Self { facts: Facts::default(), audience: Audience::Reader(reply) }
    }

    pub(in crate::partition) fn for_oracle() -> Self {
        Self { facts: Facts::default(), audience: Audience::Oracle }
    }
}

impl Survey for Everything {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        Route::default().all_applications(baton).all_queues(baton).all_nodes(baton)
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        self.facts.applications.push(application.fact(&baton.books.nodes));
    }

    fn at_queue(&mut self, queue: &mut Queue, _: &mut Baton) {
        self.facts.queues.push(queue.fact());
    }

    fn at_node(&mut self, node: &mut Node, _: &mut Baton) {
        self.facts.nodes.push(node.fact());
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { mut facts, audience } = *self;
        facts.take_books(&baton.books);
        match audience {
            Audience::Reader(reply) => answer(reply, facts),
            // The answers of a remote RM to predicates are not known yet.
            Audience::Oracle if partition.controls.asks_later() => {
                partition.oracle.only_check(&facts);
            }
            Audience::Oracle => {
                let order = partition.config.node_order.held();
                let (patience, now_ns) = (&baton.settings.patience, baton.now_ns);
                partition.oracle.foresee(
                    &facts,
                    &order,
                    patience,
                    now_ns,
                    &*baton.services.callback,
                );
            }
        }
    }
}
