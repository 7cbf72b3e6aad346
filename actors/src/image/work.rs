//! The work in an image: what runs, what is pending, and on which nodes, for whoever plays the
//! resource manager in a replay.
//!
//! # What is left out
//! Places held for members of declared gangs: the resource manager does not know of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monoceros_config as config;
use monoceros_proto::si::v1 as si;
use monoceros_rules::allocations::{Allocation, Leaving, Pairing};
use monoceros_rules::applications::application::Application as Book;
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::specs::tags::{CREATED_NS, CREATION_TIME};
use monoceros_rules::values::resources::Resources;

use super::{PartitionImage, constraints};
use crate::node::NodeImage;
use crate::notices::amount;

/// The attribute of a node with the name of its partition.
const NODE_PARTITION: &str = "si/node-partition";

/// A node of an image.
#[derive(Clone, Copy)]
pub struct ImagedNode<'a> {
    partition: &'a PartitionImage,
    node: &'a NodeImage,
}

/// An application of an image.
#[derive(Clone, Copy)]
pub struct ImagedApplication<'a> {
    partition: &'a PartitionImage,
    book: &'a Book,
}

/// A request of an image, or the one from which an allocation was made.
#[derive(Clone, Debug)]
pub struct ImagedRequest(Arc<AskSpec>);

/// A pending request.
#[derive(Clone, Debug)]
pub struct PendingRequest {
    /// The request.
    pub request: ImagedRequest,
    /// The number of allocations that are still to come of it.
    pub count: u32,
    /// Since when it is pending, ns since the epoch.
    pub since_ns: i64,
}

/// An allocation of which the resource manager was notified.
#[derive(Clone, Debug)]
pub struct RunningAllocation {
    /// The request from which it was made.
    pub request: ImagedRequest,
    /// Its name in messages. Empty if messages name it by its key.
    pub uuid: Arc<str>,
    /// The node on which it runs.
    pub node: Arc<str>,
    /// Since when it runs, as far as is known, ns since the epoch.
    pub since_ns: i64,
    /// The way in which the scheduler has asked the resource manager to end it, if it has.
    pub leaves: Option<si::TerminationType>,
}

impl PartitionImage {
    /// The name without the prefix of its resource manager, as in messages.
    pub fn plain_name(&self) -> &str {
        config::plain_name(&self.name)
    }

    /// The nodes, in no particular order.
    pub fn nodes(&self) -> impl Iterator<Item = ImagedNode<'_>> {
        self.actors.nodes.iter().map(|node| ImagedNode { partition: self, node })
    }

    /// The applications that are not over, in no particular order.
    pub fn applications(&self) -> impl Iterator<Item = ImagedApplication<'_>> {
        let books = self.actors.applications.iter().map(|application| &application.book);
        books.map(|book| ImagedApplication { partition: self, book })
    }
}

impl ImagedNode<'_> {
    /// The id.
    pub fn id(&self) -> &str {
        &self.node.id
    }

    /// The capacity.
    pub fn capacity(&self) -> &Resources {
        &self.node.total
    }

    /// Whether it is closed for new allocations.
    pub fn is_draining(&self) -> bool {
        self.node.draining
    }

    /// The message by which a resource manager brings an empty node that is like this one, with
    /// another id. Attributes whose value is the id of this node get the new one.
    pub fn like_it(&self, id: &str) -> si::NodeInfo {
        let renamed = |value: &str| if value == self.id() { id } else { value }.to_owned();
        let attributes = self.node.attributes.iter();
        let mut attributes: BTreeMap<_, _> =
            attributes.map(|(key, value)| (key.to_string(), renamed(value))).collect();
        let partition = self.partition.plain_name().to_owned();
        attributes.insert(NODE_PARTITION.to_owned(), partition);
        si::NodeInfo {
            node_id: id.to_owned(),
            action: si::node_info::ActionFromRm::Create.into(),
            attributes,
            schedulable_resource: Some(amount(self.capacity())),
            ..si::NodeInfo::default()
        }
    }
}

impl ImagedApplication<'_> {
    /// The id.
    pub fn id(&self) -> &Arc<str> {
        &self.book.id
    }

    /// The path of its leaf.
    pub fn queue(&self) -> &Arc<str> {
        &self.book.queue
    }

    /// The owner.
    pub fn user(&self) -> &Arc<str> {
        &self.book.user
    }

    /// Whether it has a request with this key, pending or not.
    pub fn has_key(&self, key: &str) -> bool {
        self.book.asks.slot_of(key).is_some()
    }

    /// The pending requests, in the order of their arrival.
    pub fn pending(&self) -> Vec<PendingRequest> {
        let asks = self.book.asks.iter().filter(|ask| ask.spec.form != Form::Internal);
        let mut pending: Vec<_> = asks
            .filter_map(|ask| {
                let on_their_way = u32::try_from(ask.search.unsettled.len()).unwrap_or(u32::MAX);
                let count = ask.outstanding.saturating_add(on_their_way);
                let request = ImagedRequest(Arc::clone(&ask.spec));
                let pending = PendingRequest { request, count, since_ns: ask.created_ns };
                (count > 0).then_some((ask.sequence, pending))
            })
            .collect();
        pending.sort_by_key(|(sequence, _)| *sequence);
        pending.into_iter().map(|(_, pending)| pending).collect()
    }

    /// The allocations of which the resource manager was notified, in the order of their names.
    pub fn running(&self) -> Vec<RunningAllocation> {
        let mut ids: Vec<_> = self.book.allocations.iter().collect();
        ids.sort_unstable_by_key(|(uuid, _)| *uuid);
        let table = &self.partition.books.allocations;
        let entries = ids.into_iter().filter_map(|(_, id)| table.known(*id));
        entries.filter(|entry| !entry.is_hold()).map(|entry| self.run_of(entry)).collect()
    }

    fn run_of(&self, entry: &Allocation) -> RunningAllocation {
        let node = self.partition.books.nodes.id(entry.node);
        let is_named_by_key = entry.spec.form == Form::Unified;
        let since_ns = if entry.ran_before {
            entry.bound_ns.min(entry.stated_creation_ns())
        } else {
            entry.bound_ns
        };
        RunningAllocation {
            request: ImagedRequest(Arc::clone(&entry.spec)),
            uuid: if is_named_by_key { Arc::from("") } else { Arc::clone(&entry.uuid) },
            node: Arc::clone(node),
            since_ns,
            leaves: leaving(entry),
        }
    }
}

/// The way in which the scheduler has asked the resource manager to end an allocation.
fn leaving(entry: &Allocation) -> Option<si::TerminationType> {
    if matches!(entry.pairing, Pairing::GivesWay(_)) {
        return Some(si::TerminationType::PlaceholderReplaced);
    }
    Some(match entry.leaving? {
        Leaving::Released => si::TerminationType::Timeout,
        Leaving::Preempted => si::TerminationType::PreemptedByScheduler,
    })
}

impl ImagedRequest {
    /// The key.
    pub fn key(&self) -> &Arc<str> {
        &self.0.key
    }

    /// The amount of each allocation.
    pub fn resources(&self) -> &Arc<Resources> {
        &self.0.resources
    }

    /// The only node that it may use, if it is so.
    pub fn required_node(&self) -> Option<&str> {
        self.0.required_node.as_deref()
    }

    /// Whether it holds a place for a member of its task group.
    pub fn is_placeholder(&self) -> bool {
        self.0.placeholder
    }

    /// How long each allocation runs at most: the claim, else the time after which it is ended.
    pub fn run_time_limit(&self) -> Option<Duration> {
        let limit = self.0.run_time_limit_ms.or(self.0.execution_timeout_ms)?;
        Some(Duration::from_millis(limit.get()))
    }

    /// The message that asks for one allocation more, with another key: as a controller would that
    /// replaces what it has lost.
    pub fn ask_anew(&self, partition: &str, application: &str, key: &str) -> si::AllocationAsk {
        let spec = &self.0;
        let tags = spec.tags.iter().flat_map(|tags| tags.iter());
        let tags = tags.filter(|(name, _)| ![CREATION_TIME, CREATED_NS].contains(name));
        let timeout = spec.execution_timeout_ms.map_or(0, std::num::NonZero::get);
        si::AllocationAsk {
            allocation_key: key.to_owned(),
            application_id: application.to_owned(),
            partition_name: partition.to_owned(),
            resource_ask: Some(amount(&spec.resources)),
            max_allocations: 1,
            priority: spec.priority,
            execution_timeout_milli_seconds: i64::try_from(timeout).unwrap_or(i64::MAX),
            tags: tags.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            task_group_name: spec.task_group.as_deref().cloned().unwrap_or_default(),
            placeholder: spec.placeholder,
            originator: spec.originator,
            preemption_policy: spec.preemption.is_said().then(|| si::PreemptionPolicy {
                allow_preempt_self: spec.preemption.of_itself(),
                allow_preempt_other: spec.preemption.of_others(),
            }),
            placement_constraint: spec.constraint.as_deref().map(constraints::written),
        }
    }
}
