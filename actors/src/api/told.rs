//! What is told of allocations before it is a message: to an RM in this process, and to the edge of a
//! service, which encodes it.

use std::fmt;
use std::sync::Arc;

use monoceros_config as config;
use monoceros_proto::si::v1 as si;
use monoceros_rules::specs::ask::Form;
use monoceros_rules::values::resources::Resources;

use crate::step::Allocated;

/// Decisions about allocations of one partition, in the order of the interface's message: what is new,
/// what is rejected, what is released.
///
/// # Why not the message
/// A message has a copy of each name for each allocation. Who wants a few of them takes those here, and
/// shares them with the scheduler; whoever wants the message asks for it, or has one written over
/// again and again.
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

impl<'a> PartitionNames<'a> {
    /// As `new` names it in today's form: not at all where it is the one that is meant where none is
    /// named. An RM that reports what it received then means the partition that it is in.
    fn unless_default(self) -> &'a str {
        if self.plain == config::DEFAULT_PARTITION { "" } else { self.full }
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
        &self.allocated.owner.application
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

    /// Its own name, as the message has it: today's form has none.
    pub fn uuid(self) -> Option<&'a Arc<str>> {
        (self.allocated.spec.form != Form::Unified).then_some(&self.allocated.uuid)
    }

    /// The partition, as the message names it; empty where that names none.
    pub fn partition_name(self) -> &'a str {
        match self.allocated.spec.form {
            Form::Unified => self.partition.unless_default(),
            Form::Ask | Form::Recovered | Form::Internal => self.partition.plain,
        }
    }

    /// As the interface says it.
    pub fn message(self) -> si::Allocation {
        let mut message = si::Allocation::default();
        self.write_to(&mut message);
        message
    }

    /// Makes `message` this one's. It uses the memory of what was written there before, so that a row
    /// of messages that are encoded one by one needs next to none of its own.
    pub fn write_to(self, message: &mut si::Allocation) {
        let Allocated { owner, spec, node, .. } = self.allocated;
        let policy = || si::PreemptionPolicy {
            allow_preempt_self: spec.preemption.of_itself(),
            allow_preempt_other: spec.preemption.of_others(),
        };
        // Whoever reports what it received in today's form must not be taken for a client that knows
        // UUIDs.
        let is_unified = spec.form == Form::Unified;
        let uuid = self.uuid().map_or("", |uuid| uuid);
        // Each field by its name, so that none can be forgotten.
        let si::Allocation {
            allocation_key,
            allocation_tags,
            uuid: uuid_told,
            resource_per_alloc,
            priority,
            node_id,
            application_id,
            partition_name,
            task_group_name,
            placeholder,
            allocation_id,
            originator,
            preemption_policy,
            placement_constraint,
        } = message;
        write(allocation_key, &spec.key);
        write(application_id, &owner.application);
        write(node_id, node);
        write(partition_name, self.partition_name());
        write(task_group_name, spec.task_group.as_deref().map_or("", String::as_str));
        write(uuid_told, uuid);
        write(allocation_id, uuid);
        write_resource(resource_per_alloc.get_or_insert_default(), &spec.resources);
        let tags = spec.tags.as_ref().filter(|_| spec.form == Form::Ask);
        *allocation_tags = tags.map(|tags| tags.to_map()).unwrap_or_default();
        *originator = spec.originator;
        *placeholder = spec.placeholder;
        *priority = if is_unified { 0 } else { spec.priority };
        *preemption_policy = (!is_unified || spec.preemption.is_said()).then(policy);
        *placement_constraint = None;
    }
}

/// Makes `text` this one.
fn write(text: &mut String, this: &str) {
    text.clear();
    text.push_str(this);
}

/// What it tells of an allocation.
impl fmt::Debug for NewAllocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message().fmt(f)
    }
}

/// An amount as the interface says it.
pub(crate) fn resource(resources: &Resources) -> si::Resource {
    let mut said = si::Resource::default();
    write_resource(&mut said, resources);
    said
}

/// Makes `said` this amount. One of the same resources has their names already.
fn write_resource(said: &mut si::Resource, resources: &Resources) {
    let is_written = said.resources.len() == resources.entries().len()
        && resources.entries().all(|(name, value)| {
            let quantity = said.resources.get_mut(&*name.text());
            quantity.map(|quantity| quantity.value = value).is_some()
        });
    if !is_written {
        let entries = resources.entries();
        said.resources = entries
            .map(|(name, value)| (name.text().to_string(), si::Quantity { value }))
            .collect();
    }
}
