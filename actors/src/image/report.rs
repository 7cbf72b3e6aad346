//! The report of a partition: what its resource manager would report after a restart, as messages of
//! the interface.
//!
//! # Why beside the state
//! The state of a partition can be read by this version of this program only. The report can be read
//! by people, and by any scheduler that speaks the interface: a client that sends it to a fresh one
//! gets the same allocations, the same pending asks and the same order. It does not rebuild what a
//! resource manager does not know: back-off, refusals, victims on their way out.
//!
//! # What is in it
//! Every field that the translation reads ([`crate::front`]) is written here. Placements without an
//! answer and members that wait for their placeholder are pending asks, as they are for the resource
//! manager. Places that are held for members are not reported as allocations, since no resource
//! manager knows them; [`Report::held`] has their numbers. Tags are a list of those that decisions
//! read ([`super::kept_tags`]).

use std::collections::{BTreeMap, BTreeSet};

use monoceros_config as config;
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;
use monoceros_rules::allocations::Allocation;
use monoceros_rules::applications::application::{Application as Book, GangStyle};
use monoceros_rules::applications::native::NativeGroup;
use monoceros_rules::asks::Ask;
use monoceros_rules::nodes::attributes::READY;
use monoceros_rules::specs::ask::{AskSpec, Form, Preemption};
use monoceros_rules::specs::tags::{
    ALLOW_PREEMPTION, CREATED_NS, CREATION_TIME, FOREIGN, HOLD_AGAIN, HOLD_AGAIN_SINCE,
    REQUIRED_NODE, RUN_TIME_LIMIT, STARTED_NS,
};
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, NodeSlot};

use super::constraints;
use super::kept_tags::KeptTags;
use crate::node::{Foreign, NodeImage};
use crate::notices::amount;
use crate::partition::PartitionImage;

const SECOND_NS: i64 = 1_000_000_000;
/// The attribute of a node with the name of its partition.
const NODE_PARTITION: &str = "si/node-partition";

/// What the resource manager of a partition would report after a restart. The messages are to be sent
/// in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The nodes, in the order in which they came.
    pub nodes: Vec<si::NodeInfo>,
    /// The applications, in the order in which they came.
    pub applications: Vec<si::AddApplicationRequest>,
    /// The allocations, each with its node, oldest first.
    pub allocations: Vec<si::Allocation>,
    /// The allocations of others.
    pub foreign: Vec<si::Allocation>,
    /// For each declared gang that runs in part, the request to hold places again for members that
    /// do not run.
    pub held: Vec<si::AddApplicationRequest>,
    /// The pending asks for one allocation each, in the order in which they came.
    pub asks: Vec<si::Allocation>,
    /// The pending asks in the form of older resource managers, each for all allocations that are
    /// outstanding.
    pub repeated_asks: Vec<si::AllocationAsk>,
}

impl PartitionImage {
    /// What the resource manager would report after a restart.
    pub fn report(&self) -> Report {
        Reporter::new(self).report()
    }
}

/// Translates the state of a partition.
struct Reporter<'a> {
    image: &'a PartitionImage,
    partition: &'a str,
    kept: KeptTags,
    applications: BTreeMap<ApplicationSlot, &'a Book>,
    nodes: BTreeMap<NodeSlot, &'a NodeImage>,
    /// Placements that are no allocations yet for the resource manager.
    unsettled: BTreeSet<AllocationId>,
}

impl<'a> Reporter<'a> {
    fn new(image: &'a PartitionImage) -> Self {
        let applications = image.actors.applications.iter().map(|it| (it.slot, &it.book));
        let applications: BTreeMap<_, _> =
            applications.filter(|(_, book)| !book.state().is_terminated()).collect();
        let unsettled = applications.values().flat_map(|book| book.unsettled.iter().copied());
        Self {
            image,
            partition: config::plain_name(&image.name),
            kept: KeptTags::of(image),
            unsettled: unsettled.collect(),
            nodes: image.actors.nodes.iter().map(|it| (it.slot, it)).collect(),
            applications,
        }
    }

    fn report(&self) -> Report {
        let mut report = Report::default();
        for node in self.nodes.values() {
            report.nodes.push(self.node(node));
            // One without an amount is refused where it is new.
            let foreign = node.others.foreign.iter().filter(|(_, it)| !it.resources.is_zero());
            report.foreign.extend(foreign.map(|(key, it)| self.foreign(key, it, &node.id)));
        }
        let mut books: Vec<_> = self.applications.values().copied().collect();
        books.sort_by_key(|book| book.arrived_ns);
        let mut asks = Vec::new();
        for book in books {
            let application = self.application(book);
            report.held.extend(self.held(book, &application));
            report.applications.push(application);
            let pending = book
                .asks
                .iter()
                .filter(|ask| ask.spec.form != Form::Internal && ask.still_to_come() > 0);
            asks.extend(pending.map(|ask| (book, ask)));
        }
        asks.sort_by_key(|(_, ask)| ask.sequence);
        for (book, ask) in asks {
            if ask.spec.form == Form::Ask {
                report.repeated_asks.push(self.repeated_ask(book, ask));
            } else {
                report.asks.push(self.allocation(book, &ask.spec, ask.created_ns));
            }
        }
        let runs = self.image.books.allocations.iter();
        let runs = runs.filter(|(id, entry)| !entry.is_hold() && !self.unsettled.contains(id));
        let mut runs: Vec<_> = runs.map(|(_, entry)| entry).collect();
        runs.sort_by_key(|entry| entry.bound_ns);
        report.allocations.extend(runs.into_iter().filter_map(|entry| self.existing(entry)));
        report
    }

    fn node(&self, node: &NodeImage) -> si::NodeInfo {
        let mut attributes = node.attributes.to_map();
        attributes.insert(NODE_PARTITION.to_owned(), self.partition.to_owned());
        if !node.ready {
            attributes.insert(READY.to_owned(), "false".to_owned());
        }
        let action = if node.draining { ActionFromRm::CreateDrain } else { ActionFromRm::Create };
        let occupied = &node.others.occupied;
        si::NodeInfo {
            node_id: node.id.to_string(),
            action: action.into(),
            attributes,
            schedulable_resource: Some(amount(&node.total)),
            occupied_resource: (!occupied.is_empty()).then(|| amount(occupied)),
            existing_allocations: Vec::new(),
        }
    }

    fn application(&self, book: &Book) -> si::AddApplicationRequest {
        let mut tags = self.kept.of_application(book.tags.as_deref());
        tags.insert(CREATED_NS.to_owned(), book.submitted_ns.to_string());
        let placeholders = book.gang.as_ref().map(|gang| &gang.placeholder_ask);
        let placeholders = placeholders.filter(|amount| !amount.is_zero());
        let groups = book
            .native()
            .map(monoceros_rules::applications::native::Native::groups)
            .unwrap_or_default();
        let timeout = book.execution_timeout_ms.map_or(0, std::num::NonZero::get);
        let style = if book.gang_style == GangStyle::Hard { "Hard" } else { "Soft" };
        si::AddApplicationRequest {
            application_id: book.id.to_string(),
            queue_name: book.queue.to_string(),
            partition_name: self.partition.to_owned(),
            ugi: Some(si::UserGroupInformation {
                user: book.user.to_string(),
                groups: book.groups.clone(),
            }),
            tags,
            execution_timeout_milli_seconds: i64::try_from(timeout).unwrap_or(i64::MAX),
            placeholder_ask: placeholders.map(amount),
            gang_scheduling_style: style.to_owned(),
            task_groups: groups.iter().map(|group| self.task_group(group)).collect(),
        }
    }

    fn task_group(&self, group: &NativeGroup) -> si::TaskGroup {
        let topology = group.topology.as_deref().map(|topology| si::Topology {
            required: topology.required.clone().unwrap_or_default(),
            preferred: topology.preferred.clone(),
        });
        let mut message = si::TaskGroup {
            name: group.name.to_string(),
            min_members: i32::try_from(group.min_members).unwrap_or(i32::MAX),
            topology,
            ..si::TaskGroup::default()
        };
        if let Some(spec) = &group.spec {
            message.member = Some(amount(&spec.resources));
            message.constraint = spec.constraint.as_deref().map(constraints::written);
            message.tags = self.tags(spec);
            message.priority = spec.priority;
            message.preemption_policy = policy(spec.preemption);
        }
        message
    }

    /// The request to hold places again. `None` unless the gang runs in part.
    fn held(
        &self,
        book: &Book,
        application: &si::AddApplicationRequest,
    ) -> Option<si::AddApplicationRequest> {
        let native = book.native().filter(|native| native.has_real)?;
        let holds = native.holds.iter().filter_map(|id| self.image.books.allocations.get(*id));
        let (mut since_ns, mut places) = (None::<i64>, BTreeMap::<&str, u32>::new());
        for hold in holds {
            since_ns = Some(since_ns.map_or(hold.bound_ns, |before| before.min(hold.bound_ns)));
            *places.entry(hold.spec.holds_for().unwrap_or_default()).or_default() += 1;
        }
        let since_ns = native.held_since_ns().or(since_ns)?;
        if places.is_empty() {
            return None;
        }
        let mut request = application.clone();
        request.task_groups.clear();
        let since = since_ns.div_euclid(SECOND_NS).to_string();
        request.tags.insert(HOLD_AGAIN_SINCE.to_owned(), since);
        let places = places.into_iter().map(|(group, n)| (format!("{HOLD_AGAIN}{group}"), n));
        request.tags.extend(places.map(|(name, n)| (name, n.to_string())));
        Some(request)
    }

    fn existing(&self, entry: &Allocation) -> Option<si::Allocation> {
        let book = self.applications.get(&entry.application)?;
        let node = self.nodes.get(&entry.node)?;
        let mut message = self.allocation(book, &entry.spec, entry.created_ns);
        message.allocation_tags.insert(STARTED_NS.to_owned(), entry.bound_ns.to_string());
        message.node_id = node.id.to_string();
        // In the unified form the key is the identity, unless the allocation has another name.
        let is_unified = entry.spec.form == Form::Unified && entry.uuid == *entry.key();
        message.uuid = if is_unified { String::new() } else { entry.uuid.to_string() };
        Some(message)
    }

    /// An ask for one allocation, or an allocation without its node.
    fn allocation(&self, book: &Book, spec: &AskSpec, created_ns: i64) -> si::Allocation {
        si::Allocation {
            allocation_key: spec.key.to_string(),
            allocation_tags: self.tags_since(spec, created_ns),
            resource_per_alloc: Some(amount(&spec.resources)),
            priority: spec.priority,
            application_id: book.id.to_string(),
            partition_name: self.partition.to_owned(),
            task_group_name: spec.task_group.as_deref().cloned().unwrap_or_default(),
            placeholder: spec.placeholder,
            originator: spec.originator,
            preemption_policy: policy(spec.preemption),
            placement_constraint: spec.constraint.as_deref().map(constraints::written),
            ..si::Allocation::default()
        }
    }

    fn repeated_ask(&self, book: &Book, ask: &Ask) -> si::AllocationAsk {
        let spec = &ask.spec;
        let timeout = spec.execution_timeout_ms.map_or(0, std::num::NonZero::get);
        si::AllocationAsk {
            allocation_key: spec.key.to_string(),
            application_id: book.id.to_string(),
            partition_name: self.partition.to_owned(),
            resource_ask: Some(amount(&spec.resources)),
            max_allocations: i32::try_from(ask.still_to_come()).unwrap_or(i32::MAX),
            priority: spec.priority,
            execution_timeout_milli_seconds: i64::try_from(timeout).unwrap_or(i64::MAX),
            tags: self.tags_since(spec, ask.created_ns),
            task_group_name: spec.task_group.as_deref().cloned().unwrap_or_default(),
            placeholder: spec.placeholder,
            originator: spec.originator,
            preemption_policy: policy(spec.preemption),
            placement_constraint: spec.constraint.as_deref().map(constraints::written),
        }
    }

    fn foreign(&self, key: &str, foreign: &Foreign, node: &str) -> si::Allocation {
        let mut tags = self.kept.of_ask(foreign.tags.as_deref());
        let kind = if foreign.preemptable { "default" } else { "static" };
        tags.insert(FOREIGN.to_owned(), kind.to_owned());
        put_creation(&mut tags, foreign.since_ns);
        si::Allocation {
            allocation_key: key.to_owned(),
            allocation_tags: tags,
            resource_per_alloc: Some(amount(&foreign.resources)),
            priority: foreign.priority,
            node_id: node.to_owned(),
            partition_name: self.partition.to_owned(),
            ..si::Allocation::default()
        }
    }

    fn tags_since(&self, spec: &AskSpec, created_ns: i64) -> BTreeMap<String, String> {
        let mut tags = self.tags(spec);
        put_creation(&mut tags, created_ns);
        tags
    }

    /// The tags of an ask. Those that were read when it came are written as they were read, since
    /// another request with its key may have changed the tags.
    fn tags(&self, spec: &AskSpec) -> BTreeMap<String, String> {
        let mut tags = self.kept.of_ask(spec.tags.as_deref());
        tags.remove(REQUIRED_NODE);
        if let Some(node) = &spec.required_node {
            tags.insert(REQUIRED_NODE.to_owned(), node.to_string());
        }
        if spec.preemption == Preemption::UnsaidAndTagged {
            tags.insert(ALLOW_PREEMPTION.to_owned(), "false".to_owned());
        }
        if let Some(limit) = spec.run_time_limit_ms {
            tags.insert(RUN_TIME_LIMIT.to_owned(), format!("{limit}ms"));
        }
        tags
    }
}

/// Writes a time of creation in seconds, and exactly where seconds are not.
fn put_creation(tags: &mut BTreeMap<String, String>, created_ns: i64) {
    let seconds = created_ns.div_euclid(SECOND_NS);
    tags.insert(CREATION_TIME.to_owned(), seconds.to_string());
    if created_ns.rem_euclid(SECOND_NS) != 0 {
        tags.insert(CREATED_NS.to_owned(), created_ns.to_string());
    }
}

fn policy(preemption: Preemption) -> Option<si::PreemptionPolicy> {
    preemption.is_said().then(|| si::PreemptionPolicy {
        allow_preempt_self: preemption.of_itself(),
        allow_preempt_other: preemption.of_others(),
    })
}
