//! The facts about one application that an audit compares.

use std::sync::Arc;

use super::{ApplicationFact, AskFact, BundleFact, MembersFact};
use crate::applications::application::Application;
use crate::asks::{Ask, Asks};
use crate::nodes::NodeIndex;
use crate::specs::ask::Form;
use crate::values::ids::{ApplicationSlot, AskSlot};
use crate::values::resources::Resources;

/// The state of an application that is not in its book.
#[derive(Debug)]
pub struct BesideBook {
    /// The slot of the application in the directory.
    pub slot: ApplicationSlot,
    /// The slot of its leaf.
    pub leaf: u32,
    /// The group that it counts for.
    pub group: Option<Arc<str>>,
    /// Whether it is passed over until its back-off ends.
    pub backs_off: bool,
    /// The time when asks that were too young to reserve a node are tried again, ns since the
    /// epoch.
    pub aging_ns: Option<i64>,
    /// Whether the last search for its undecided gang was without result, and the gang waits for a
    /// node to grow.
    pub rests: bool,
}

impl ApplicationFact {
    /// Returns the facts about an application.
    pub fn of(book: &Application, beside: BesideBook, nodes: &NodeIndex) -> Self {
        let BesideBook { slot, leaf, group, backs_off, aging_ns, rests } = beside;
        let groups = book.gang.iter().flat_map(|gang| gang.groups());
        Self {
            domains: book.domains(),
            slot,
            id: Arc::clone(&book.id),
            leaf,
            user: Arc::clone(&book.user),
            groups: book.groups.clone(),
            group,
            state: book.state(),
            submitted_ns: book.submitted_ns,
            allocated: book.allocated().clone(),
            pending: book.asks.pending().clone(),
            priority: book.asks.priority(),
            allocations: book.all_allocations(),
            unsettled: book.unsettled.iter().copied().collect(),
            asks: Self::asks(&book.asks, nodes),
            placeholders: book.placeholders().clone(),
            task_groups: groups.map(|(name, group)| (Arc::clone(name), group.clone())).collect(),
            reserved: book.asks.reserved_len(),
            suspended: book.asks.suspended_len(),
            has_placeholder_timer: book.gang.as_ref().is_some_and(|it| it.timer.is_some()),
            backs_off,
            aging_ns,
            members: book.gang.as_deref().map(MembersFact::of).unwrap_or_default(),
            is_native: book.has_declared_members(),
            bundle: book.undecided().map(|native| BundleFact::of(native, rests)),
        }
    }

    /// Returns the facts about the pending asks of an application.
    fn asks(asks: &Asks, nodes: &NodeIndex) -> Vec<AskFact> {
        let slots = asks.slots().into_iter().map(|slot| (slot, asks.ask(slot)));
        let pending = slots.filter(|(_, ask)| ask.outstanding > 0);
        let fact = |(slot, ask): (AskSlot, &Ask)| AskFact {
            slot,
            key: Arc::clone(&ask.key),
            resources: Resources::clone(&ask.resources),
            repeat: ask.outstanding,
            priority: ask.priority,
            created_ns: ask.created_ns,
            sequence: ask.sequence,
            required_node: ask.required_node.clone(),
            excluded: ask.request().excluded.iter().map(|it| Arc::clone(&it.node)).collect(),
            task_group: ask.task_group.clone(),
            placeholder: ask.placeholder,
            is_reserved: ask.is_reserved(),
            is_due_at_reserved: asks
                .slot_of(&ask.key)
                .is_some_and(|slot| asks.is_due_at_reserved(slot)),
            may_not_reserve: ask.may_not_reserve(),
            is_passed_by: ask.is_passed_by(nodes),
            was_replaced: ask.search.was_replaced,
            internal: ask.form == Form::Internal,
            constraint: ask.wish().map(|it| (Arc::clone(it.terms().constraint()), it.open())),
            tags: ask.spec.tags.clone(),
            domain: ask.search.domain.clone(),
            backs_off: ask.backs_off(),
            has_failed: ask.starts().is_some(),
            failed_nodes: ask.failed_nodes().to_vec(),
        };
        pending.map(fact).collect()
    }
}
