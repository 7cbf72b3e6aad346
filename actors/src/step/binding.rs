//! Placements that become allocations: their UUIDs, their deadlines, and the notices of them.

use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::allocations::course::Course;
use monoceros_rules::values::ids::AllocationId;

use super::Baton;
use super::alarm::Alarm;
use crate::notices::{Allocated, Owner};
use crate::session::Notice;

impl Baton {
    /// Gives a placement its UUID and, if its ask has an execution timeout, its deadline: from now
    /// on it is an allocation, and may be a victim. Returns its times, if it is traced.
    pub(crate) fn bind(
        &mut self,
        id: AllocationId,
        uuid: &Arc<str>,
    ) -> Option<Box<(AllocationId, Course)>> {
        self.books.note_change();
        let Some(entry) = self.books.allocations.get_mut(id) else {
            debug_assert!(false, "a placement is in the table until it is bound");
            return None;
        };
        entry.uuid = Arc::clone(uuid);
        entry.bound_ns = self.now_ns;
        debug_assert!(entry.is_assumed, "what is placed is assumed before it is told");
        entry.is_assumed = false;
        let course = entry.take_course().map(|mut course| {
            course.decided_ns = self.services.clock.now_ns();
            Box::new((id, *course))
        });
        if let Some(timeout) = entry.spec.execution_timeout_ms {
            let alarm = Alarm::ExecutionTimeout { allocation: id };
            let deadline = self.effects.arm(Duration::from_millis(timeout.get()), alarm);
            entry.change().deadline = Some(deadline);
        }
        course
    }

    /// Builds the notice of an allocation of this owner.
    pub(crate) fn allocated(&self, owner: &Arc<Owner>, entry: &Allocation) -> Allocated {
        Allocated {
            owner: Arc::clone(owner),
            spec: Arc::clone(&entry.spec),
            uuid: Arc::clone(&entry.uuid),
            node: Arc::clone(self.books.nodes.id(entry.node)),
            at_ns: self.now_ns,
            course: None,
        }
    }

    /// Notifies the RM of an allocation.
    pub(crate) fn tell_allocated(&mut self, allocated: Option<Allocated>) {
        let Some(allocated) = allocated else {
            debug_assert!(false, "a placement on its way is in the table");
            return;
        };
        self.effects.notify(Notice::Allocated(Arc::new(allocated)));
    }
}
