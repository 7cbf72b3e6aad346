//! The state of a partition: whether it takes new applications, nodes and asks, and whether it
//! decides anything (`docs/partitions.md#states-of-a-partition`).
//!
//! A draining partition takes no new applications and no new nodes, and otherwise works as usual. A
//! stopped one takes no asks and no allocations either, decides nothing, and withdraws placements
//! that wait for a predicate. It still releases allocations that the RM ends and follows changes of
//! its nodes, since those happen anyway.

use std::sync::Arc;

use monoceros_rules::queues::object_state::ObjectState;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::specs::rejection::Rejection;

use super::input::{Input, Stamped};
use super::intake::reject;
use super::{Partition, StateChange};
use crate::api::outcomes::PartitionStateError;
use crate::step::{Baton, Op};

impl Partition {
    /// Enters another state as an input of its own, and replies with the earlier state.
    pub(super) fn change_state(
        &mut self,
        StateChange { to, reply }: StateChange,
        baton: &mut Baton,
    ) {
        let old = self.state;
        let left = old.on(to.entered_by()).map(|_| old).map_err(PartitionStateError::from);
        self.enter(Stamped { at_ns: baton.now_ns, input: Input::State(to) }, baton);
        // The caller may have given up.
        let _ = reply.send(left);
    }

    /// Enters the state, if there is a transition to it.
    pub(super) fn enter_state(&mut self, to: ObjectState, baton: &mut Baton) {
        let old = self.state;
        if let Ok(state) = old.on(to.entered_by())
            && state != old
        {
            tracing::info!(partition = %self.name, from = %old, to = %state, "partition state");
            self.state = state;
            self.state_since_ns = baton.now_ns;
            if state == ObjectState::Stopped {
                self.give_up_all(baton);
            }
        }
    }

    /// Whether the partition may decide anything at all.
    pub(super) fn decides(&self) -> bool {
        !self.controls.is_on_hold() && self.state != ObjectState::Stopped
    }

    /// Whether the partition takes new applications and nodes.
    pub(super) fn takes_new(&self, what: &'static str, id: &Arc<str>) -> Result<(), Rejection> {
        if self.state == ObjectState::Active {
            return Ok(());
        }
        Err(self.is_stopped(what, id))
    }

    /// Returns the orders that the partition carries out. A stopped one takes no asks and no
    /// allocations; those are rejected.
    pub(super) fn may_ask(
        &self,
        application: &Arc<str>,
        ops: Vec<Op>,
        baton: &mut Baton,
    ) -> Vec<Op> {
        if self.state != ObjectState::Stopped {
            return ops;
        }
        if baton.directory.application_slot(application).is_none() {
            reject(application, &ops, baton, |spec| self.is_stopped("allocation", &spec.key));
            return Vec::new();
        }
        let refused = |spec: Arc<AskSpec>, uuid| {
            let reason = self.is_stopped("allocation", &spec.key);
            Op::Refused { spec, uuid, reason: Box::new(reason) }
        };
        let refuse = |op| match op {
            Op::Ask(spec) | Op::Unified(spec) => refused(spec, None),
            Op::Existing(existing) => refused(existing.spec, Some(existing.uuid)),
            op => op,
        };
        ops.into_iter().map(refuse).collect()
    }

    fn is_stopped(&self, what: &'static str, id: &Arc<str>) -> Rejection {
        let (id, partition, state) = (Arc::clone(id), Arc::clone(&self.name), self.state);
        Rejection::PartitionStopped { what: what.into(), id, partition, state }
    }
}
