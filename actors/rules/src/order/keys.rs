//! Sort keys of queues, applications and asks.
//!
//! # Keys, not comparisons
//! Children are kept in an ordered structure, and get a new key when a fact has changed; so a key
//! is a value that holds all facts that it compares. A key is rebuilt at every level for every
//! allocation: floats become integers of the same order, whether priority or fairness comes first
//! is decided once while building, and nothing is allocated for up to four resource names.
//!
//! # Invariants
//! * Every order is total, and two keys are equal only if their paths, ids or arrivals are: the
//!   same children sort alike from any starting order, on any machine.
//! * Less means earlier.
//! * All keys of one parent are built with the same settings. The comparison of keys with different
//!   settings has no meaning.
//!
//! # Larger pending amount first
//! One pending amount is clearly larger than another if it is at least as large in every name and
//! larger in one. An order that compared only such pairs, and broke all other ties by path, would
//! be cyclic. So the alphabetically first name that differs decides here; if one amount is clearly
//! larger, it agrees.
//!
//! ```
//! use monoceros_rules::order::keys::AskKey;
//! let mut asks = vec![AskKey::new(0, 5, 1), AskKey::new(0, 3, 2), AskKey::new(9, 8, 3)];
//! asks.sort();
//! assert_eq!(asks[0], AskKey::new(9, 8, 3), "the higher priority comes first, then the older");
//! ```

mod verdict;

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::order::shares::{self, NamedShare, Share};
use crate::queues::{ApplicationSortPolicy, PriorityPolicy};
use crate::values::resources::{Limits, Resources};

pub use verdict::{SiblingOrder, Verdict};

/// The priority of a queue or application without a pending ask.
pub const MIN_PRIORITY: i32 = i32::MIN;

/// The priority that a queue shows to its parent. A queue without pending asks has
/// [`MIN_PRIORITY`], whatever its policy and offset.
pub fn exposed_priority(raw: i32, policy: PriorityPolicy, offset: i32) -> i32 {
    match policy {
        _ if raw == MIN_PRIORITY => MIN_PRIORITY,
        PriorityPolicy::Fence => offset,
        PriorityPolicy::Default => raw.saturating_add(offset),
    }
}

/// The facts that decide the position of a queue among its siblings.
#[derive(Clone, Copy, Debug)]
pub struct QueueView<'a> {
    /// The priority that it shows to its parent, see [`exposed_priority`].
    pub priority: i32,
    /// The usage, unsettled placements included.
    pub allocated: &'a Resources,
    /// The guarantee of the queue itself.
    pub guaranteed: Option<&'a Resources>,
    /// The fair maximum of the queue itself.
    pub fair_max: Option<&'a Limits>,
    /// The pending amount.
    pub pending: &'a Resources,
    /// The full path.
    pub path: &'a Arc<str>,
}

/// The position of a queue among its siblings.
// The derived order is that of the fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QueueKey {
    // Priority, descending, and fair share, ascending, in the order of the parent's setting.
    first: i64,
    second: i64,
    pending: LargerFirst,
    path: Arc<str>,
}

impl QueueKey {
    /// Builds the key; `priority_first` is the parent's `application.sort.priority`.
    pub fn new(priority_first: bool, queue: &QueueView<'_>) -> Self {
        let priority = descending(queue.priority);
        let share = shares::fair_share(queue.allocated, queue.guaranteed, queue.fair_max);
        let share = Share::of(share).rank();
        let (first, second) = if priority_first { (priority, share) } else { (share, priority) };
        let pending = LargerFirst(queue.pending.clone());
        Self { first, second, pending, path: Arc::clone(queue.path) }
    }

    /// The path of the queue.
    pub fn path(&self) -> &Arc<str> {
        &self.path
    }
}

/// The facts that decide the position of an application in its leaf.
#[derive(Clone, Copy, Debug)]
pub struct ApplicationView<'a> {
    /// The highest priority among its pending asks, else [`MIN_PRIORITY`].
    pub priority: i32,
    /// Whether its gang lost members, has fewer than it needs, and asks for new ones with this
    /// priority.
    pub lacks_members: bool,
    /// The time of submission, in nanoseconds; if a request of it is older, the time of the oldest
    /// one.
    pub submitted: i64,
    /// The usage without placeholders, unsettled placements included.
    pub allocated: &'a Resources,
    /// The guarantee of the leaf; usage is compared as a share of it.
    pub guaranteed: Option<&'a Resources>,
    /// The id of the application.
    pub id: &'a Arc<str>,
}

/// The position of an application in its leaf.
///
/// A gang that lost members comes before all others of its priority. If the leaf compares age or
/// usage before priority, it comes before all others.
// The derived order is that of the fields; a field that the policy does not use is zero or empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ApplicationKey {
    /// The priority, if that comes first; its lowest bit is whether the gang lacks no members.
    first: i64,
    usage: Usage,
    second: i64,
    third: i64,
    id: Arc<str>,
}

impl ApplicationKey {
    /// Builds the key; policy and `priority_first` are the leaf's.
    pub fn new(
        policy: ApplicationSortPolicy,
        priority_first: bool,
        application: &ApplicationView<'_>,
    ) -> Self {
        let priority = descending(application.priority);
        let submitted = application.submitted;
        let is_whole = i64::from(!application.lacks_members);
        let usage = match policy {
            ApplicationSortPolicy::Fifo => Usage::default(),
            ApplicationSortPolicy::Fair => Usage::of(application),
        };
        let [first, second, third] = match (policy, priority_first) {
            (_, true) => [2 * priority + is_whole, submitted, 0],
            (ApplicationSortPolicy::Fifo, false) => [is_whole, submitted, priority],
            (ApplicationSortPolicy::Fair, false) => [is_whole, priority, submitted],
        };
        Self { first, usage, second, third, id: Arc::clone(application.id) }
    }

    /// The id of the application.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }
}

/// The position of an ask in its application.
// The derived order is that of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AskKey {
    priority: Reverse<i32>,
    created: i64,
    arrival: u64,
}

impl AskKey {
    /// Higher `priority` first, then earlier creation (any unit, the same for all asks), then
    /// earlier `arrival`, a number given out once.
    pub fn new(priority: i32, created: i64, arrival: u64) -> Self {
        Self { priority: Reverse(priority), created, arrival }
    }

    /// The priority of the ask.
    pub fn priority(&self) -> i32 {
        self.priority.0
    }

    /// The creation time and the number of arrival, which order asks of one priority.
    pub fn age(&self) -> (i64, u64) {
        (self.created, self.arrival)
    }

    /// The creation time of the ask.
    pub fn created(&self) -> i64 {
        self.created
    }
}

/// A number that is smaller the higher the priority is.
fn descending(priority: i32) -> i64 {
    -i64::from(priority)
}

/// A pending amount, ordered so that the larger amount is less. Absent and zero are the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LargerFirst(Resources);

impl Ord for LargerFirst {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.alphabetical(&self.0)
    }
}

/// Shares of a total, descending; the order is that of [`shares::compare_shares`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Usage(SmallVec<[NamedShare; 4]>);

impl Usage {
    fn of(application: &ApplicationView<'_>) -> Self {
        Self(shares::named_shares(application.allocated, application.guaranteed))
    }

    fn shares(&self) -> impl Iterator<Item = Share> {
        self.0.iter().map(|named| named.share)
    }
}

impl Ord for Usage {
    fn cmp(&self, other: &Self) -> Ordering {
        shares::compare_descending(self.shares(), other.shares())
    }
}

/// Derives equality and partial order of a type from its total order.
macro_rules! equal_where_ordered_equal {
    ($($type:ty),*) => {$(
        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other).is_eq()
            }
        }

        impl Eq for $type {}
    )*};
}

equal_where_ordered_equal!(LargerFirst, Usage);

#[cfg(test)]
mod tests;
