//! Lists of a partition: pages, filters, and the rows that are returned.
//!
//! A long list does not show one moment: it is read in slices, and the scheduler continues between
//! them. Each row shows one moment, rows have a fixed order, and an object that exists all the time is
//! listed exactly once, in a whole list as well as in its pages.

use std::collections::{BTreeMap, BTreeSet};

use monoceros_rules::applications::application_state::ApplicationState;
pub use monoceros_rules::decisions::DecisionKind;
use monoceros_rules::decisions::Kept;
use monoceros_rules::specs::tags::Tags;

/// The part of a list to be returned. The default is the whole list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Only rows after this one: the id of a row, which may have been removed, or [`Listed::next`]
    /// of the page before.
    pub after: Option<String>,
    /// The most rows, at least one.
    pub limit: Option<usize>,
    /// Applications and nodes are returned without their allocations, nodes also without foreign ones,
    /// but with their number. These are most of a row, and most of the cost of reading it.
    pub brief: bool,
    /// Applications that ended or were rejected are returned newest first. [`Self::after`] is then the
    /// number before which the page begins.
    pub newest_first: bool,
}

/// Rows of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// The rows, in the order of the list.
    pub rows: Vec<T>,
    /// [`Page::after`] of the next page; `None`: this is the last page.
    pub next: Option<String>,
    /// The steps between which the rows were read.
    pub steps: Steps,
}

/// The time of a read, in steps of the partition.
///
/// Only steps that may have changed something are counted. Two reads whose first and last steps are
/// all the same return the same, and a read is still up to date if there was no step since its first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Steps {
    /// The number of the partition: a later partition of the same name has another one.
    pub partition: u64,
    /// The number of the last step before the first row was read.
    pub first: u64,
    /// The number of the last step before the last row was read.
    pub last: u64,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), next: None, steps: Steps::default() }
    }
}

impl<T> Listed<T> {
    /// The list with each row mapped.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Listed<U> {
        let Self { rows, next, steps } = self;
        Listed { rows: rows.into_iter().map(change).collect(), next, steps }
    }
}

/// One of the lists of applications of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplicationList {
    /// Live applications, by id.
    Live(ApplicationFilter),
    /// Applications that have ended and are kept, oldest end first unless [`Page::newest_first`]
    /// (`docs/applications.md#what-is-kept-of-an-application-that-is-over`). An id may be listed more
    /// than once, so [`Page::after`] is a number here.
    Completed(ApplicationFilter),
    /// Those of [`Self::Completed`] and applications that their RM removed, by their ends. Numbered,
    /// too.
    Ended(ApplicationFilter),
    /// Rejected applications that are kept, oldest rejection first. Numbered, too.
    Rejected(ApplicationFilter),
}

/// A filter for applications: those that match all fields. The default is all applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationFilter {
    /// The path of their queue, in lower case.
    pub queue: Option<String>,
    /// Includes the queues below it.
    pub below: bool,
    /// Restriction of live applications to those with pending asks.
    pub pending: bool,
    /// Their states; empty: any.
    pub states: Vec<ApplicationState>,
    /// Their users; empty: any.
    pub users: BTreeSet<String>,
    /// Their ids; empty: any.
    pub ids: BTreeSet<String>,
    /// A part of their id, in lower case; the letter case of ids does not matter.
    pub id_part: Option<String>,
    /// Tags that they have, by name, each with its value; `None`: any value.
    pub tags: BTreeMap<String, Option<String>>,
}

impl ApplicationFilter {
    /// The applications of one queue.
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

    pub(crate) fn lets_tags(&self, tags: Option<&Tags>) -> bool {
        let value = |name: &str| tags.and_then(|tags| tags.get(name));
        let is_there = |(name, wanted): (&String, &Option<String>)| {
            value(name).is_some_and(|found| wanted.as_ref().is_none_or(|it| *it == found))
        };
        self.tags.iter().all(is_there)
    }

    pub(crate) fn lets_user(&self, user: &str) -> bool {
        self.users.is_empty() || self.users.contains(user)
    }
}

/// A filter for decisions: those that match all fields. The default is all decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionFilter {
    /// Their kind.
    pub kind: Option<DecisionKind>,
    /// The id of their application.
    pub application: Option<String>,
    /// The key of their ask or allocation, or its pod (`NAMESPACE/NAME`).
    pub key: Option<String>,
    /// The path of their queue or of a queue above it, in lower case.
    pub queue: Option<String>,
    /// The id of their node.
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
    fn queue_filter_may_include_queues_below() {
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
