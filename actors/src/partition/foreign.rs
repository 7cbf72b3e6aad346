//! Foreign allocations: placed by other schedulers, and charged to their node alone
//! (`docs/nodes.md#foreign-allocations`).

use std::sync::Arc;

use monoceros_rules::specs::ask::Form;
use monoceros_rules::specs::rejection::Rejection;

use super::input::ForeignRequest;
use super::{Partition, Task};
use crate::step::{Baton, NodeChange, Notice};

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
                baton.effects.notify(Notice::AskRejected {
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
