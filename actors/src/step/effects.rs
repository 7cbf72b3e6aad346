//! The effects of a step: notices, deadlines, and the applications that have work left.
//!
//! # Why collected
//! A step sends nothing while it is under way: if its baton were lost, the RM would have been
//! notified of a change that is not in force. Handlers record the effects here; the partition
//! carries them out when the baton is home.
//!
//! # Invariants
//! * Everything except the notices is empty when the next step begins. Notices may be held for a few
//!   steps and are then sent together, in order.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::applications::ended::Ended;
use monoceros_rules::pending::nominations::Preemptor;
use monoceros_rules::pending::reservations::{End, Reserver};
use monoceros_rules::values::ids::{ApplicationSlot, NodeSlot};

use super::alarm::Alarm;
use super::op::Op;
use super::slots::RowSlot;
use crate::session::Notice;

/// The effects of a step, carried out once its baton is home.
#[derive(Default)]
pub(crate) struct StepEffects {
    /// Notices to the RM, in order.
    pub(crate) notices: Vec<Notice>,
    pub(crate) deadlines: Deadlines,
    pub(crate) ended: EndedInStep,
    pub(crate) follow_ups: FollowUps,
    /// Nodes that changed while a gang may have a nomination there.
    pub(crate) nominated_nodes: BTreeSet<NodeSlot>,
    /// Preemptors found in this step.
    pub(crate) preemptors: Vec<PreemptionRequest>,
}

/// Changes of the partition's list of deadlines.
#[derive(Default)]
pub(crate) struct Deadlines {
    /// The wait, the number by which the deadline can be disarmed (`None` if it cannot), and the
    /// alarm that is due then.
    pub(crate) armed: Vec<(Duration, Option<u64>, Alarm)>,
    /// Numbers of deadlines that are not needed any more.
    pub(crate) disarmed: Vec<u64>,
    /// The last number given; numbers are never used twice.
    last: u64,
}

/// Applications that ended in this step.
#[derive(Default)]
pub(crate) struct EndedInStep {
    /// Applications that entered a terminal state or were removed, each with its row in its leaf.
    pub(crate) rows: Vec<(ApplicationSlot, Option<RowSlot>)>,
    /// Records of applications that entered a terminal state.
    pub(crate) terminated: Vec<Ended>,
    /// Records of applications that were removed.
    pub(crate) removed: Vec<Ended>,
}

/// Applications that are to be visited after this step.
#[derive(Default)]
pub(crate) struct FollowUps {
    /// Orders to applications, carried out before any other input.
    pub(crate) revisits: Vec<(ApplicationSlot, Op)>,
    /// The rest of long orders, in order; other input has its turn in between.
    pub(crate) unfinished: Vec<(ApplicationSlot, Vec<Op>)>,
    /// Applications to be visited because a node that they waited for, or have reserved, was added
    /// or changed, each with the id of the node.
    pub(crate) woken: Vec<(ApplicationSlot, Arc<str>)>,
    /// Applications that may have waited for the capacity that a failed placement returned to a
    /// node, each with the id of the node.
    pub(crate) woken_by_return: Vec<(ApplicationSlot, Arc<str>)>,
    /// Asks, by key, whose reservation was ended by another application or by the partition.
    pub(crate) unreserved: Vec<(ApplicationSlot, Arc<str>, End)>,
}

/// A request of an ask or gang to have victims searched for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum PreemptionRequest {
    /// The preemptor's queue has less than its guarantee. `nodes_were_tried`: the nodes with enough
    /// capacity may have been tried without result.
    ForGuarantee { who: Preemptor, nodes_were_tried: bool },
    /// The ask requires this node.
    ForNode(Reserver, NodeSlot),
}

impl PreemptionRequest {
    /// Returns the ask or gang for which victims are searched.
    pub(crate) fn who(self) -> Preemptor {
        match self {
            Self::ForGuarantee { who, .. } => who,
            Self::ForNode(who, _) => Preemptor::Ask(who),
        }
    }
}

impl Deadlines {
    /// The last number given.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }
}

impl StepEffects {
    /// Returns no effects, where this was the last number given to a deadline.
    pub(crate) fn after_deadline(last: u64) -> Self {
        let deadlines = Deadlines { last, ..Deadlines::default() };
        Self { deadlines, ..Self::default() }
    }

    /// Whether the partition has to carry out an effect before the next visit begins. Notices and
    /// deadlines can wait.
    pub(super) fn call_home(&self) -> bool {
        let EndedInStep { rows, terminated, removed } = &self.ended;
        let FollowUps { revisits, unfinished, woken, woken_by_return, unreserved } =
            &self.follow_ups;
        !(rows.is_empty()
            && terminated.is_empty()
            && removed.is_empty()
            && revisits.is_empty()
            && unfinished.is_empty()
            && woken.is_empty()
            && woken_by_return.is_empty()
            && unreserved.is_empty()
            && self.nominated_nodes.is_empty()
            && self.preemptors.is_empty())
    }

    /// Adds a notice to the RM, which is sent after the step.
    pub(crate) fn notify(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Adds all these notices, and leaves the list empty.
    pub(crate) fn notify_all(&mut self, notices: &mut Vec<Notice>) {
        if self.notices.is_empty() {
            std::mem::swap(&mut self.notices, notices);
        } else {
            self.notices.append(notices);
        }
    }

    /// Sets an alarm that goes off after this wait.
    pub(crate) fn remind(&mut self, wait: Duration, alarm: Alarm) {
        self.deadlines.armed.push((wait, None, alarm));
    }

    /// Sets an alarm that goes off at this time, or at once if it is past. Both times are ns since
    /// the epoch. Returns the wait.
    pub(crate) fn remind_at(&mut self, at_ns: i64, now_ns: i64, alarm: Alarm) -> Duration {
        let wait_ns = u64::try_from(at_ns.saturating_sub(now_ns)).unwrap_or(0);
        let wait = Duration::from_nanos(wait_ns);
        self.remind(wait, alarm);
        wait
    }

    /// Sets an alarm that goes off after this wait. Returns the number by which [`Self::disarm`]
    /// withdraws it.
    pub(crate) fn arm(&mut self, wait: Duration, alarm: Alarm) -> u64 {
        self.deadlines.last += 1;
        self.deadlines.armed.push((wait, Some(self.deadlines.last), alarm));
        self.deadlines.last
    }

    /// Withdraws an alarm, if there is one.
    pub(crate) fn disarm(&mut self, number: Option<u64>) {
        self.deadlines.disarmed.extend(number);
    }

    /// Visits an application with this order before any other input.
    pub(crate) fn revisit(&mut self, application: ApplicationSlot, op: Op) {
        self.follow_ups.revisits.push((application, op));
    }
}
