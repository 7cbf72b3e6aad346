//! Foreign allocations: what others placed, charged to its node alone
//! (`docs/nodes.md#foreign-allocations`).
//!
//! The table is the partition's, since a foreign allocation is known by its key alone and may move
//! to another node.
//!
//! # Invariant
//! * The amounts of the whole table add up to quantities: no node's sum can leave their range.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::specs::ask::Form;
use monoceros_rules::specs::rejection::{Overflow, Rejection};
use monoceros_rules::values::ids::NodeSlot;
use monoceros_rules::values::resources::{Resources, Sum};

use super::input::ForeignRequest;
use super::{Partition, Task};
use crate::step::{Baton, NodeChange, Notice};

/// The foreign allocations of a partition: by key, the node and the amount.
#[derive(Default)]
pub(super) struct ForeignTable {
    entries: BTreeMap<Arc<str>, (NodeSlot, Resources)>,
    sum: Resources,
}

impl ForeignTable {
    /// Whether the key may take this much from now on.
    fn check(&self, key: &Arc<str>, resources: &Resources) -> Result<(), Rejection> {
        let old = self.entries.get(key).map(|(_, old)| old);
        if old.is_none() && resources.is_zero() {
            return Err(Rejection::NoResource(Arc::clone(key)));
        }
        let others = self.sum.minus(old.unwrap_or(&Resources::NONE));
        match Overflow::of_sum(&others, &Sum::from(resources), "of other foreign allocations") {
            None => Ok(()),
            Some(why) => Err(Rejection::Overflow { id: Arc::clone(key), why }),
        }
    }

    /// Enters an allocation or changes it. Returns the node where it was before, if it was known.
    fn put(&mut self, key: Arc<str>, node: NodeSlot, resources: Resources) -> Option<NodeSlot> {
        let old = self.remove(&key);
        self.sum.add(&resources);
        self.entries.insert(key, (node, resources));
        old
    }

    fn remove(&mut self, key: &Arc<str>) -> Option<NodeSlot> {
        let (node, resources) = self.entries.remove(key)?;
        self.sum.subtract(&resources);
        Some(node)
    }

    pub(super) fn forget_node(&mut self, node: NodeSlot) {
        let sum = &mut self.sum;
        self.entries.retain(|_, (at, resources)| {
            if *at == node {
                sum.subtract(resources);
            }
            *at != node
        });
    }
}

impl Partition {
    pub(super) fn foreign(&mut self, foreign: ForeignRequest, baton: &mut Baton) {
        let ForeignRequest { node, report } = foreign;
        let key = Arc::clone(&report.key);
        let slot = baton.books.nodes.slot_of(&node).ok_or(Rejection::NodeUnknown(node));
        let slot = slot.and_then(|slot| self.foreign.check(&key, &report.resources).map(|()| slot));
        let slot = match slot {
            Ok(slot) => slot,
            Err(reason) => {
                baton.tally.ask_rejected(false);
                let (form, application) = (Form::Unified, Arc::from(""));
                baton.notices.push(Notice::AskRejected {
                    form,
                    key,
                    application,
                    reason: Box::new(reason),
                });
                return;
            }
        };
        let old = self.foreign.put(Arc::clone(&key), slot, report.resources.clone());
        if let Some(old) = old.filter(|old| *old != slot) {
            let gone = NodeChange::ForeignGone(key);
            baton.books.unsettled.changed(old);
            self.agenda.push_back(Task::VisitNode(old, gone));
        }
        if old != Some(slot) {
            baton.books.unsettled.changed(slot);
        }
        let change = NodeChange::Foreign(Box::new(report));
        self.agenda.push_back(Task::VisitNode(slot, change));
    }

    pub(super) fn foreign_gone(&mut self, key: &Arc<str>, baton: &mut Baton) {
        if let Some(slot) = self.foreign.remove(key) {
            let gone = NodeChange::ForeignGone(Arc::clone(key));
            baton.books.unsettled.changed(slot);
            self.agenda.push_back(Task::VisitNode(slot, gone));
        }
    }
}
