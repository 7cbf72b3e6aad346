//! Lists of a partition: which part of one is wanted, and what is answered.
//!
//! A long list is not of one moment: it is read in slices, between which the scheduler goes on.
//! Each row is of one moment, rows come in an order that does not change, and a row that is there
//! all the time is there exactly once, in one list as in pages of it.

use std::collections::BTreeSet;

use monoceros_rules::applications::application_state::ApplicationState;
pub use monoceros_rules::decisions::DecisionKind;
use monoceros_rules::decisions::Kept;

/// Which part of a list is wanted. The default is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Only what comes behind this: the id of a row, whether it is still there or not, or
    /// [`Listed::next`] of the page before.
    pub after: Option<String>,
    /// At most so many rows, at least one.
    pub limit: Option<usize>,
    /// Rows of applications and nodes come without their allocations, and nodes without what is
    /// foreign there: with how many there are. They are most of a row, and most of what reading one
    /// costs.
    pub brief: bool,
    /// Applications that ended or were rejected come newest first, and [`Self::after`] is the number
    /// before which they are wanted.
    pub newest_first: bool,
}

/// Rows of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// The rows, in the order of the list.
    pub rows: Vec<T>,
    /// For [`Page::after`] of the next page; `None`: there is nothing more.
    pub next: Option<String>,
    /// When they were read.
    pub steps: Steps,
}

/// When something was read of a partition, in its own steps.
///
/// Only steps that may have changed something are counted. Two readings of one thing whose first
/// and last steps are all the same found the same, and one after whose first step nothing happened
/// is still true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Steps {
    /// Which partition it is: a partition that comes later under the same name has another number.
    pub partition: u64,
    /// The number of the last step before the first row was read.
    pub first: u64,
    /// The number of the last step before the last row was read.
    pub last: u64,
}

impl<T> Listed<T> {
    /// The same with each row changed.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Listed<U> {
        let Self { rows, next, steps } = self;
        Listed { rows: rows.into_iter().map(change).collect(), next, steps }
    }
}

/// One of the lists of applications that a partition has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplicationList {
    /// Those that live and that a filter lets through, by id.
    Live(ApplicationFilter),
    /// Those that have ended, are kept, and a filter lets through, oldest end first unless
    /// [`Page::newest_first`] (`docs/applications.md#what-is-kept-of-an-application-that-is-over`). An
    /// id may be there more than once, so [`Page::after`] is a number here.
    Completed(ApplicationFilter),
    /// Those that were never admitted, are kept, and a filter lets through, oldest rejection first.
    /// Numbered, too.
    Rejected(ApplicationFilter),
}

/// Which applications are wanted. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationFilter {
    /// Those in the queue of this path, in lower case.
    pub queue: Option<String>,
    /// Those in queues below it, too.
    pub below: bool,
    /// Those in one of these states; in any, if there is none.
    pub states: Vec<ApplicationState>,
    /// Those of one of these users; of any, if there is none.
    pub users: BTreeSet<String>,
    /// Those with one of these ids; with any, if there is none.
    pub ids: BTreeSet<String>,
    /// Those whose id has this in it, in lower case; letter case of ids does not count.
    pub id_part: Option<String>,
}

impl ApplicationFilter {
    /// Those in one queue.
    pub fn in_queue(path: &str) -> Self {
        Self { queue: Some(path.to_lowercase()), ..Self::default() }
    }

    pub(crate) fn lets_queue(&self, path: &str) -> bool {
        let Some(queue) = &self.queue else { return true };
        let below = path.strip_prefix(queue.as_str());
        below.is_some_and(|rest| rest.is_empty() || (self.below && rest.starts_with('.')))
    }

    pub(crate) fn lets_id(&self, id: &str) -> bool {
        self.id_part.as_ref().is_none_or(|part| id.to_lowercase().contains(part.as_str()))
    }

    pub(crate) fn lets_state(&self, state: ApplicationState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }

    pub(crate) fn lets_user(&self, user: &str) -> bool {
        self.users.is_empty() || self.users.contains(user)
    }
}

/// Which decisions are wanted. The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionFilter {
    /// Those of this kind.
    pub kind: Option<DecisionKind>,
    /// Those of the application of this id.
    pub application: Option<String>,
    /// Those about the ask, or the allocation, of this key, or of the pod `NAMESPACE/NAME`.
    pub key: Option<String>,
    /// Those in the queue of this path, in lower case, or below it.
    pub queue: Option<String>,
    /// Those about the node of this id.
    pub node: Option<String>,
}

impl DecisionFilter {
    pub(crate) fn lets(&self, decision: &Kept<'_>) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let is_in = |queue: &String| {
            let below = decision.queue().strip_prefix(queue.as_str());
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.kind.is_none_or(|kind| kind == decision.kind())
            && is(&self.application, decision.application())
            && (is(&self.key, decision.key()) || is(&self.key, decision.pod()))
            && is(&self.node, decision.node())
            && self.queue.as_ref().is_none_or(is_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_for_a_queue_may_take_in_those_below_it() {
        let filter =
            |queue: &str, below| ApplicationFilter { below, ..ApplicationFilter::in_queue(queue) };
        for (path, queue, alone, with_below) in [
            ("root", "root", true, true),
            ("root.a.b", "root.a", false, true),
            ("root.ab", "root.a", false, false),
            ("root", "root.a", false, false),
        ] {
            assert_eq!(filter(queue, false).lets_queue(path), alone, "{path} in {queue}");
            assert_eq!(filter(queue, true).lets_queue(path), with_below, "{path} in {queue}");
        }
        assert!(ApplicationFilter::default().lets_queue("root.a"));
    }
}
