//! Resource types in use, gathered from asks, reports and the configuration. Sums are not read,
//! since they have no other types.

use monoceros_rules::applications::application::Application as Book;
use monoceros_rules::applications::resource_seconds::History;
use monoceros_rules::values::resources::{Limits, Name, Resources};
use rustc_hash::FxHashSet;
use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::application::Application;
use crate::node::Node;
use crate::queue::Queue;
use crate::step::{Baton, Route, Survey};

/// Gathers the resource types of everything in a partition.
pub(crate) struct NamesInUse {
    found: Found,
    reply: oneshot::Sender<FxHashSet<Name>>,
}

/// The names found by the survey.
#[derive(Default)]
pub(crate) struct Found(FxHashSet<Name>);

impl Found {
    pub(crate) fn amount(&mut self, amount: &Resources) {
        self.0.extend(amount.entries().map(|(name, _)| name));
    }

    pub(crate) fn limits(&mut self, limits: &Limits) {
        self.0.extend(limits.entries().map(|(name, _)| name));
    }

    fn history(&mut self, history: &History) {
        for seconds in [&history.used, &history.preempted, &history.placeholder] {
            seconds.iter().for_each(|(_, amount)| self.amount(amount));
        }
    }

    fn book(&mut self, book: &Book) {
        for ask in book.asks.iter() {
            self.amount(&ask.resources);
            self.amount(&ask.spec.resources);
        }
        self.amount(book.peak());
        self.history(&book.history);
        let Some(gang) = &book.gang else { return };
        self.amount(&gang.placeholder_ask);
        gang.groups().for_each(|(_, group)| self.amount(&group.min_resource));
        for group in gang.native.iter().flat_map(|native| native.groups()) {
            if let Some(spec) = &group.spec {
                self.amount(&spec.resources);
            }
        }
    }
}

impl NamesInUse {
    pub(crate) fn new(reply: oneshot::Sender<FxHashSet<Name>>) -> Self {
        Self { found: Found::default(), reply }
    }
}

impl Survey for NamesInUse {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        Route::default().all_applications(baton).all_queues(baton).all_nodes(baton)
    }

    fn at_application(&mut self, application: &mut Application, _: &mut Baton) {
        self.found.book(application.known());
    }

    fn at_queue(&mut self, queue: &mut Queue, _: &mut Baton) {
        let config = queue.config();
        let template = config.template.as_deref();
        let max = [config.max.as_ref(), template.and_then(|it| it.max.as_ref())];
        max.into_iter().flatten().for_each(|max| self.found.limits(max));
        let guaranteed =
            [config.guaranteed.as_ref(), template.and_then(|it| it.guaranteed.as_ref())];
        guaranteed.into_iter().flatten().for_each(|amount| self.found.amount(amount));
        for limit in config.limits.iter().filter_map(|limit| limit.max_resources.as_ref()) {
            self.found.limits(limit);
        }
    }

    fn at_node(&mut self, node: &mut Node, _: &mut Baton) {
        self.found.amount(&node.total);
        self.found.amount(node.occupied());
        node.others.foreign.values().for_each(|foreign| self.found.amount(&foreign.resources));
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { mut found, reply } = *self;
        for (_, entry) in baton.books.allocations.iter() {
            found.amount(entry.resources());
            found.amount(&entry.spec.resources);
        }
        partition.reorder.amounts(|amount| found.amount(amount));
        partition.observed.amounts(|amount| found.amount(amount));
        let over = partition.ended.applications();
        for ended in over.terminated().chain(over.rejected()) {
            found.amount(&ended.peak);
            found.history(&ended.history);
            ended.task_groups.iter().for_each(|(_, group)| found.amount(&group.min_resource));
        }
        answer(reply, found.0);
    }
}
