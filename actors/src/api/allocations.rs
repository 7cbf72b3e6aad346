//! Allocation notifications that share the scheduler's names. An RM in this process reads them
//! directly; the edge of a service encodes them.

use std::fmt;
use std::sync::Arc;

use monoceros_config as config;
use monoceros_proto::si::v1 as si;
use monoceros_rules::specs::ask::Form;

use crate::notices::{Allocated, write_amount};

/// Decisions about allocations of one partition, in the order of the interface's message: new,
/// rejected, released.
///
/// # Why not the message
/// A message has a copy of each name for each allocation. Here names are shared with the scheduler. An
/// RM that needs the message calls [`into_message`](Self::into_message), or overwrites one message
/// for each allocation ([`NewAllocation::write_to`]).
pub struct AllocationNotices<'a> {
    pub(crate) partition: PartitionNames<'a>,
    pub(crate) new: Vec<Arc<Allocated>>,
    /// All lists except `new`.
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
    /// The name in new allocations of today's form: empty for the default partition, because a
    /// request without a name means that one. So an RM that reports what it received names the
    /// right partition.
    fn unless_default(self) -> &'a str {
        if self.plain == config::DEFAULT_PARTITION { "" } else { self.full }
    }
}

/// Shows the number of new allocations, not each of them.
impl fmt::Debug for AllocationNotices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AllocationNotices");
        shown.field("partition", &self.partition.full).field("new", &self.new.len());
        shown.field("others", &self.others).finish()
    }
}

impl AllocationNotices<'_> {
    /// The new allocations, in the order of their decisions.
    pub fn new_allocations(&self) -> impl ExactSizeIterator<Item = NewAllocation<'_>> {
        let partition = self.partition;
        self.new.iter().map(move |allocated| NewAllocation { allocated, partition })
    }

    /// The message without new allocations: its list `new` is empty.
    pub fn others(&self) -> &si::AllocationResponse {
        &self.others
    }

    /// As [`Self::others`], by value.
    pub fn into_others(self) -> si::AllocationResponse {
        self.others
    }

    /// The interface's message of all decisions.
    pub fn into_message(self) -> si::AllocationResponse {
        let new = self.new_allocations().map(NewAllocation::message).collect();
        si::AllocationResponse { new, ..self.others }
    }
}

impl<'a> NewAllocation<'a> {
    /// The id of its application.
    pub fn application_id(self) -> &'a Arc<str> {
        &self.allocated.owner.application
    }

    /// The key of its ask.
    pub fn allocation_key(self) -> &'a Arc<str> {
        &self.allocated.spec.key
    }

    /// The id within the application.
    pub fn allocation_id(self) -> &'a Arc<str> {
        &self.allocated.uuid
    }

    /// The id of its node.
    pub fn node_id(self) -> &'a Arc<str> {
        &self.allocated.node
    }

    /// The UUID, as the message has it; `None` in today's form.
    pub fn uuid(self) -> Option<&'a Arc<str>> {
        (self.allocated.spec.form != Form::Unified).then_some(&self.allocated.uuid)
    }

    /// The partition, as the message names it; empty where the message names none.
    pub fn partition_name(self) -> &'a str {
        match self.allocated.spec.form {
            Form::Unified => self.partition.unless_default(),
            Form::Ask | Form::Recovered | Form::Internal => self.partition.plain,
        }
    }

    /// The interface's message of this allocation.
    pub fn message(self) -> si::Allocation {
        let mut message = si::Allocation::default();
        self.write_to(&mut message);
        message
    }

    /// Overwrites `message` with this allocation. Memory of the earlier content is used again, so that
    /// encoding many allocations one by one allocates next to nothing.
    pub fn write_to(self, message: &mut si::Allocation) {
        let resources = message.resource_per_alloc.get_or_insert_default();
        write_amount(resources, &self.allocated.spec.resources);
        self.write_others_to(message);
    }

    /// Overwrites `message`, which holds the allocation `before`, with this one. The amount is
    /// written only if it differs: allocations in a row often have the same.
    pub fn write_over(self, before: NewAllocation<'_>, message: &mut si::Allocation) {
        let (this, that) = (&self.allocated.spec.resources, &before.allocated.spec.resources);
        if Arc::ptr_eq(this, that) || this == that {
            self.write_others_to(message);
        } else {
            self.write_to(message);
        }
    }

    /// Overwrites everything except the amount.
    fn write_others_to(self, message: &mut si::Allocation) {
        let Allocated { owner, spec, node, .. } = self.allocated;
        let policy = || si::PreemptionPolicy {
            allow_preempt_self: spec.preemption.of_itself(),
            allow_preempt_other: spec.preemption.of_others(),
        };
        // No UUID in today's form: a client that reports what it received must not be taken for one
        // that knows UUIDs.
        let is_unified = spec.form == Form::Unified;
        let uuid = self.uuid().map_or("", |uuid| uuid);
        // Destructured, so that a new field cannot be forgotten.
        let si::Allocation {
            allocation_key,
            allocation_tags,
            uuid: message_uuid,
            resource_per_alloc: _,
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
        write(message_uuid, uuid);
        write(allocation_id, uuid);
        let tags = spec.tags.as_ref().filter(|_| spec.form == Form::Ask);
        *allocation_tags = tags.map(|tags| tags.to_map()).unwrap_or_default();
        *originator = spec.originator;
        *placeholder = spec.placeholder;
        *priority = if is_unified { 0 } else { spec.priority };
        *preemption_policy = (!is_unified || spec.preemption.is_said()).then(policy);
        *placement_constraint = None;
    }
}

/// Overwrites `text`.
fn write(text: &mut String, this: &str) {
    text.clear();
    text.push_str(this);
}

/// Shows the allocation like the message.
impl fmt::Debug for NewAllocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message().fmt(f)
    }
}
