//! Notices: what a partition reports to its resource manager, one value for each decision.
//!
//! A step cannot send anything while it is under way: if its baton were lost, the RM would have been
//! notified of something that is not in force. So a step collects its notices on the baton, and they
//! are sent when it is complete.

use std::sync::Arc;

use monoceros_rules::audit::Decision;
use monoceros_rules::nodes::units::UnitWarning;
use monoceros_rules::specs::ask::{Form, TaskGroup};
use monoceros_rules::specs::rejection::{Ignored, Rejection};

use super::barrier::Barrier;
use crate::api::predicates::{PredicateQuestion, PreemptionQuestions, QuestionId};
use crate::events::Happening;
use crate::notices::{Allocated, AskReleased, Entered, Released, ScaleUpRequests};

/// A report of a partition to its RM. Lists of notices are moved, so a notice is small: the contents of
/// rare ones are boxed.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The leaf of an application, reported before its acceptance. `None` once the application was
    /// removed from its leaf.
    ApplicationPlaced {
        id: Arc<str>,
        queue: Option<Arc<str>>,
    },
    ApplicationAccepted(Arc<str>),
    ApplicationRejected {
        id: Arc<str>,
        reason: Box<Rejection>,
    },
    ApplicationUpdated(Arc<Entered>),
    Allocated(Arc<Allocated>),
    Released(Box<Released>),
    /// A pending ask ends without its RM having withdrawn it: it has timed out, or ends with its
    /// application.
    AskReleased(Box<AskReleased>),
    AskRejected {
        form: Form,
        key: Arc<str>,
        application: Arc<str>,
        reason: Box<Rejection>,
    },
    NodeAccepted {
        id: Arc<str>,
        /// A probable mistake in its capacity.
        warning: Option<UnitWarning>,
    },
    NodeRejected {
        id: Arc<str>,
        reason: Box<Rejection>,
    },
    /// More machines would help these requests.
    ScaleUp(Box<ScaleUpRequests>),
    /// Events. Those of a placement or of a state that was entered are not among them: they are
    /// derived from the other notices.
    Happened(Happening),
    /// An item that had no effect and gets no answer. It is counted.
    Ignored(Ignored),
    /// A question to the RM's predicates.
    Asked(Box<PredicateQuestion>),
    /// Questions to the RM's predicates about nodes from which victims would be evicted.
    AskedPreemption(Box<PreemptionQuestions>),
    /// The partition needs no answer to this question any more.
    Withdrawn(QuestionId),
    /// All members of a declared gang have their places. `held`: the places that are held, each with
    /// its task group and node. Sent only where a full search checks the decisions; no RM gets it.
    GangPlaced {
        application: Arc<str>,
        held: Vec<(TaskGroup, Arc<str>)>,
    },
    /// A member of a declared gang has taken the place that was held for it. Sent only where
    /// [`Self::GangPlaced`] is.
    HoldTaken(Box<Decision>),
    /// The barrier has passed through this partition: everything before it was decided and reported.
    Barrier(Arc<Barrier>),
}

impl Notice {
    /// The events that the notice stands for. `None` of notices without events, and of
    /// [`Self::Happened`], which holds its events itself.
    fn implied_events(&self) -> Option<Happening> {
        match self {
            Self::Allocated(allocated) => Some(Happening::Placed(Arc::clone(allocated))),
            Self::ApplicationUpdated(entered) => Some(Happening::Entered(Arc::clone(entered))),
            _ => None,
        }
    }
}

/// Moves the events of these notices to `happened`, in order: the events of [`Notice::Happened`],
/// whose notices are taken out of the list, and the events that other notices stand for. Without
/// tracking there are no events.
pub(crate) fn gather(
    notices: Vec<Notice>,
    is_tracking: bool,
    happened: &mut Vec<Happening>,
) -> Vec<Notice> {
    happened.reserve(if is_tracking { notices.len() } else { 0 });
    // Collected in the memory of the notices: they are large, and there is one per placement.
    let others = notices.into_iter().filter_map(|notice| match notice {
        Notice::Happened(happening) => {
            if is_tracking {
                happened.push(happening);
            }
            None
        }
        notice => {
            if is_tracking {
                happened.extend(notice.implied_events());
            }
            Some(notice)
        }
    });
    others.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notice_is_small() {
        assert!(size_of::<Notice>() <= 48, "{} bytes", size_of::<Notice>());
    }
}
