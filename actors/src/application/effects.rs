//! Effects of one visit to an application: the sum of its orders and answers.
//!
//! # Why gathered
//! A message may have hundreds of items for one application, and each climb to root costs a hop per
//! queue. So the effects on nodes, queues, user and group are summed up here, and the application
//! carries them out once, when the visit ends.
//!
//! # Invariant
//! * Only sums and notes are here: this file knows no actor.

use std::sync::Arc;

use monoceros_rules::applications::application::Left;
use monoceros_rules::decide::in_flight::WithdrawReason;
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::specs::ask::{AskSpec, TaskGroup};
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::ids::NodeSlot;
use monoceros_rules::values::resources::{Resources, Sum};
use smallvec::SmallVec;

use crate::events::EventKind;
use crate::step::{NodeWork, Notice};

/// Effects of one visit.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Default)]
pub(crate) struct VisitEffects {
    pub(super) delta: LedgerDelta,
    /// Whether the row in the leaf may have changed.
    pub(super) touched: bool,
    /// Whether the bundle is tried again because time has passed.
    pub(super) retries_bundle: bool,
    /// Whether some queue has more headroom afterwards.
    pub(super) loosens: bool,
    /// The kinds of asks and allocations that ended: the application may be complete.
    pub(super) left: Left,
    /// The work on nodes, in the order in which it arose.
    pub(super) node_work: SmallVec<[(NodeSlot, NodeWork); 1]>,
    /// Events of this visit. They follow the notices of the states that are entered in it.
    pub(super) happened: Vec<Notice>,
    /// Why the bundle was withdrawn.
    pub(super) withdrawn: Option<WithdrawReason>,
    /// Holds that ended.
    pub(super) ended_holds: Vec<EndedHolds>,
    /// Task groups that lost members and have fewer than they need.
    pub(super) lost_members: SmallVec<[TaskGroup; 1]>,
    /// Events that the group uses less, held until it is known whether the application leaves the
    /// group.
    pub(super) discharged: Vec<Notice>,
    /// The number of the loosening, once the visit counts as one.
    pub(super) loosening: Loosening,
    /// The amount allocated in this visit without a check of nodes and quotas, and not yet in the
    /// books.
    pub(super) reported: Resources,
    /// Whether an amount was charged without a check of quotas.
    pub(super) is_unchecked: bool,
}

/// Holds that ended in a visit, for one event.
pub(super) struct EndedHolds {
    pub(super) event: EventKind,
    pub(super) spec: Arc<AskSpec>,
    pub(super) count: u64,
}

impl VisitEffects {
    /// Notes a change of what is pending, which may be negative.
    pub(super) fn pends(&mut self, change: &Sum) {
        self.touched = true;
        self.delta.pending.add_sum(change);
    }

    /// Counts a hold that ended, for the event of its group.
    pub(super) fn note_hold(&mut self, event: EventKind, spec: &Arc<AskSpec>) {
        let known = self.ended_holds.iter_mut();
        let same = |ended: &&mut EndedHolds| ended.event == event && Arc::ptr_eq(&ended.spec, spec);
        if let Some(ended) = known.into_iter().find(same) {
            ended.count += 1;
        } else {
            self.ended_holds.push(EndedHolds { event, spec: Arc::clone(spec), count: 1 });
        }
    }

    /// Notes a task group that lost a member, once.
    pub(super) fn lost_member(&mut self, group: &TaskGroup) {
        if !self.lost_members.contains(group) {
            self.lost_members.push(Arc::clone(group));
        }
    }
}
