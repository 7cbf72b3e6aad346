//! What an RM in this process is told of allocations: before it is a message.

use std::fmt;
use std::sync::Arc;

use monoceros_config as config;
use monoceros_proto::si::v1 as si;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::allocations::Form;

use crate::step::Allocated;

/// Decisions about allocations of one partition, in the order of the interface's message: what is new,
/// what is rejected, what is released.
///
/// # Why not the message
/// A message has a copy of each name for each allocation. An RM in this process that wants a few of
/// them takes those here, and shares them with the scheduler; whoever wants the message asks for it.
pub struct AllocationsTold<'a> {
    pub(crate) partition: PartitionNames<'a>,
    pub(crate) new: Vec<Arc<Allocated>>,
    /// All but what is new.
    pub(crate) others: si::AllocationResponse,
}

/// A new allocation.
#[derive(Clone, Copy)]
pub struct NewAllocation<'a> {
    allocated: &'a Allocated,
    partition: PartitionNames<'a>,
}

/// The two spellings of a partition's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartitionNames<'a> {
    /// With the prefix of its RM.
    pub(crate) full: &'a str,
    pub(crate) plain: &'a str,
}

impl PartitionNames<'_> {
    /// As `new` names it in today's form: not at all where it is the one that is meant where none is
    /// named. An RM that reports what it received then means the partition that it is in.
    fn unless_default(self) -> String {
        if self.plain == config::DEFAULT_PARTITION { String::new() } else { self.full.to_owned() }
    }
}

/// How many of each list there are.
impl fmt::Debug for AllocationsTold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AllocationsTold");
        shown.field("partition", &self.partition.full).field("new", &self.new.len());
        shown.field("others", &self.others).finish()
    }
}

impl AllocationsTold<'_> {
    /// What is new, in the order in which it was decided.
    pub fn new_allocations(&self) -> impl ExactSizeIterator<Item = NewAllocation<'_>> {
        let partition = self.partition;
        self.new.iter().map(move |allocated| NewAllocation { allocated, partition })
    }

    /// All but what is new: its list of those is empty.
    pub fn others(&self) -> &si::AllocationResponse {
        &self.others
    }

    /// As [`Self::others`], to be kept.
    pub fn into_others(self) -> si::AllocationResponse {
        self.others
    }

    /// All of it as the interface says it.
    pub fn into_message(self) -> si::AllocationResponse {
        let new = self.new_allocations().map(NewAllocation::message).collect();
        si::AllocationResponse { new, ..self.others }
    }
}

impl<'a> NewAllocation<'a> {
    /// Whose it is.
    pub fn application_id(self) -> &'a Arc<str> {
        &self.allocated.application
    }

    /// The key of its ask.
    pub fn allocation_key(self) -> &'a Arc<str> {
        &self.allocated.spec.key
    }

    /// Its own name within the application.
    pub fn allocation_id(self) -> &'a Arc<str> {
        &self.allocated.uuid
    }

    /// Where it is.
    pub fn node_id(self) -> &'a Arc<str> {
        &self.allocated.node
    }

    /// As the interface says it.
    pub fn message(self) -> si::Allocation {
        let Allocated { application, spec, uuid, node, .. } = self.allocated;
        let policy = || si::PreemptionPolicy {
            allow_preempt_self: spec.preemption.of_itself(),
            allow_preempt_other: spec.preemption.of_others(),
        };
        let said = si::Allocation {
            allocation_key: spec.key.to_string(),
            resource_per_alloc: Some(resource(&spec.resources)),
            node_id: node.to_string(),
            application_id: application.to_string(),
            originator: spec.originator,
            task_group_name: spec.task_group.as_deref().cloned().unwrap_or_default(),
            placeholder: spec.placeholder,
            ..si::Allocation::default()
        };
        if spec.form == Form::Unified {
            // Whoever reports what it received here must not be taken for a client that knows UUIDs.
            return si::Allocation {
                partition_name: self.partition.unless_default(),
                preemption_policy: spec.preemption.is_said().then(policy),
                ..said
            };
        }
        let tags = spec.tags.as_ref().filter(|_| spec.form == Form::Ask);
        si::Allocation {
            uuid: uuid.to_string(),
            allocation_id: uuid.to_string(),
            allocation_tags: tags.map(|tags| tags.to_map()).unwrap_or_default(),
            priority: spec.priority,
            partition_name: self.partition.plain.to_owned(),
            preemption_policy: Some(policy()),
            ..said
        }
    }
}

/// What it tells of an allocation.
impl fmt::Debug for NewAllocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message().fmt(f)
    }
}

/// An amount as the interface says it.
pub(crate) fn resource(resources: &Resources) -> si::Resource {
    let quantity = |value| si::Quantity { value };
    let entries = resources.entries();
    si::Resource {
        resources: entries
            .map(|(name, value)| (name.text().to_string(), quantity(value)))
            .collect(),
    }
}
