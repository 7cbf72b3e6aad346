//! Ended applications, kept for some days so that they can still be queried.
//!
//! # Three lists
//! *Terminated* applications have Completed or Failed. Each run is an entry of its own, since an id
//! may be used again at once. *Removed* applications were removed by their RM, which knows their
//! end; the people who wait for them may not. They are a list of their own, since dashboards of the
//! reference expect only terminated applications in theirs, and an RM that removes all its
//! applications would displace these. *Rejected* applications were never admitted. They are kept by
//! id, and a later rejection replaces the earlier one, since an RM that tries repeatedly would
//! displace all others.
//!
//! # Retention
//! An entry expires [`RETENTION`] after its end. The next sweep removes expired entries; sweeps are
//! a day apart, so an entry can be seen for three to four days. Removed applications expire without
//! a notice and keep their state. Each list has a bound: an entry beyond it displaces the oldest
//! one, expired or not, without a notice.
//!
//! # Invariants
//! * In each list entries are in the order of their ends, so expired ones are at the front.
//! * Terminated and removed applications share their numbers, so that the order of their ends is
//!   that of the numbers in both lists.
//! * A deadline is due as long as there are entries, and none otherwise.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::applications::application::Application;
use crate::applications::application_state::{ApplicationEvent, ApplicationState, Transition};
use crate::applications::gang::Group;
use crate::applications::removal::Removal;
use crate::applications::resource_seconds::History;
use crate::asks::WaitEntry;
use crate::specs::ask::TaskGroup;
use crate::specs::quotas::bytes_of_texts;
use crate::specs::rejection::{Fixed, Rejection};
use crate::specs::tags::Tags;
use crate::values::resources::Resources;
use crate::values::text::beginning;
use crate::values::usual::is_usual;

/// The time for which an ended application is kept.
pub const RETENTION: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// The time between the first entry that expires and the sweep that removes it.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The most bytes that are kept of each text of a rejected application, since these texts were
/// never checked.
pub const TEXT_BYTES: usize = 1024;

/// The most bytes of the tags of an ended application, with an estimate for each entry.
pub const TAGS_BYTES: u64 = 4 * 1024;

/// The record of an ended application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The id, as submitted.
    pub id: Arc<str>,
    /// The path of its leaf; for a rejected application, the queue that was requested.
    pub queue: Arc<str>,
    /// The owner.
    pub user: Arc<str>,
    /// The user's groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The tags, as submitted; `None` if it had none, if they are longer than [`TAGS_BYTES`], or if
    /// it was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
    /// The time of submission, ns since the epoch.
    pub submitted_ns: i64,
    /// The time at which it last entered Running, ns since the epoch; `None`: it never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ns: Option<i64>,
    /// The time of its end, ns since the epoch.
    pub finished_ns: i64,
    /// The final state; for a removed application, its last state until [`Self::into_removed`].
    pub state: ApplicationState,
    /// The states that it entered, oldest first, with times in ns since the epoch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<(i64, ApplicationState)>,
    /// The obstacles for which it waited, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitEntry>,
    /// The component-wise peak of the amount that it held.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub peak: Resources,
    /// The counts of its placeholders, by task group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_groups: Vec<(TaskGroup, Group)>,
    /// The reason of its rejection; `None` if it was not rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Box<str>>,
    /// The change by which it would be admitted; empty if it was not rejected, or none is known.
    pub cure: Fixed,
    /// The facts of its removal by its RM; `None` if it was not removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<Box<Removal>>,
    /// The resource-seconds that it used.
    pub history: History,
}

impl Ended {
    /// Builds the record of an application that has just entered a terminated state.
    pub fn of(application: &Application) -> Self {
        let log = application.log().to_vec();
        let now_ns = log.last().map_or(application.submitted_ns, |(at_ns, _)| *at_ns);
        Self {
            id: Arc::clone(&application.id),
            queue: Arc::clone(&application.queue),
            user: Arc::clone(&application.user),
            groups: application.groups.clone(),
            tags: application.tags.clone().filter(|tags| bytes_of_texts(tags.iter()) <= TAGS_BYTES),
            submitted_ns: application.submitted_ns,
            started_ns: application.started_ns,
            finished_ns: application.finished_ns.unwrap_or(now_ns),
            state: application.state(),
            log,
            waits: application.asks.wait_log().collect(),
            peak: application.peak().clone(),
            task_groups: application
                .gang
                .iter()
                .flat_map(|gang| gang.groups())
                .map(|(name, group)| (Arc::clone(name), group.clone()))
                .collect(),
            rejected: None,
            cure: Fixed::default(),
            removal: application.removal.clone(),
            history: application.history.clone(),
        }
    }

    /// Builds the record of an application that its RM removes now, in any state, once all its
    /// allocations have ended.
    pub fn removed(application: &Application, now_ns: i64) -> Self {
        debug_assert!(application.allocated().is_zero(), "what it holds is counted when it leaves");
        debug_assert!(
            !application.state().is_terminated(),
            "one that is over is not there any more"
        );
        Self { finished_ns: now_ns, ..Self::of(application) }
    }

    /// Enters the state Removed, after which the record is kept.
    #[must_use]
    pub fn into_removed(mut self) -> Self {
        self.state = ApplicationState::Removed;
        self.log.push((self.finished_ns, self.state));
        self
    }

    /// Builds the record of an application that is rejected now; of each text at most
    /// [`TEXT_BYTES`] are kept.
    pub fn rejected(
        id: &Arc<str>,
        queue: &str,
        user: &str,
        groups: &[String],
        why: &Rejection,
        now_ns: i64,
    ) -> Self {
        let state = ApplicationState::Rejected;
        Self {
            id: Arc::clone(id),
            queue: Arc::from(beginning(queue, TEXT_BYTES)),
            user: Arc::from(beginning(user, TEXT_BYTES)),
            groups: groups.to_vec(),
            tags: None,
            submitted_ns: now_ns,
            started_ns: None,
            finished_ns: now_ns,
            state,
            log: vec![(now_ns, state)],
            waits: Vec::new(),
            peak: Resources::new(),
            task_groups: Vec::new(),
            rejected: Some(beginning(&why.to_string(), TEXT_BYTES).into()),
            cure: why.cure().into(),
            removal: None,
            history: History::default(),
        }
    }

    /// Whether it was never admitted.
    pub fn is_rejected(&self) -> bool {
        self.rejected.is_some()
    }

    fn expire(&mut self, now_ns: i64) {
        if let Ok(Transition::To(to)) = self.state.on(ApplicationEvent::Expire) {
            self.state = to;
            self.log.push((now_ns, to));
        }
    }
}

/// The ended applications of one partition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndedApplications {
    /// The most entries of each list.
    most: usize,
    terminated: List,
    removed: List,
    rejected: List,
    /// The number of the entry for the rejection of each id.
    rejected_by_id: BTreeMap<Arc<str>, u64>,
    /// The time at which expired entries are removed, ns since the epoch; `None` if there are none.
    sweep_ns: Option<i64>,
}

impl EndedApplications {
    /// Builds empty lists of at most `most` entries each.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            terminated: List::default(),
            removed: List::default(),
            rejected: List::default(),
            rejected_by_id: BTreeMap::new(),
            sweep_ns: None,
        }
    }

    /// Adds an application that ended, was removed or was rejected.
    pub fn keep(&mut self, ended: Ended) {
        if !ended.is_rejected() {
            let next = self.terminated.next.max(self.removed.next);
            let is_removed = ended.state == ApplicationState::Removed;
            let list = if is_removed { &mut self.removed } else { &mut self.terminated };
            list.next = next;
            list.push(ended);
            if list.entries.len() > self.most {
                list.pop_first();
            }
            return;
        }
        let id = Arc::clone(&ended.id);
        let number = self.rejected.push(ended);
        if let Some(earlier) = self.rejected_by_id.insert(id, number) {
            self.rejected.remove(earlier);
        }
        if self.rejected.entries.len() > self.most {
            self.pop_rejected();
        }
    }

    /// Returns the time at which [`Self::pass`] is to be called next, ns since the epoch; `None` if
    /// there are no entries.
    pub fn due_ns(&self) -> Option<i64> {
        let lists = [&self.terminated, &self.removed, &self.rejected];
        let expiries = lists.map(List::next_expiry_ns);
        expiries.into_iter().flatten().chain(self.sweep_ns).min()
    }

    /// Expires the entries that are due at `now_ns`, and removes earlier expired ones if a sweep is
    /// due. Returns the entries that have just expired, in order of their ends, without removed
    /// applications.
    pub fn pass(&mut self, now_ns: i64) -> Vec<Expired> {
        if self.sweep_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            self.sweep_ns = None;
            for list in [&mut self.terminated, &mut self.removed] {
                while list.first_is_expired() {
                    list.pop_first();
                }
            }
            while self.rejected.first_is_expired() {
                self.pop_rejected();
            }
        }
        let mut expired = self.terminated.expire(now_ns);
        expired.extend(self.rejected.expire(now_ns));
        expired.sort_by_key(|expired| expired.finished_ns);
        let n_quiet = self.removed.expire(now_ns).len();
        if expired.len() + n_quiet > 0 && self.sweep_ns.is_none() {
            self.sweep_ns = Some(now_ns.saturating_add(ns(SWEEP_INTERVAL)));
        }
        expired
    }

    /// Returns the terminated applications, oldest end first.
    pub fn terminated(&self) -> impl DoubleEndedIterator<Item = &Ended> {
        self.terminated.entries.values()
    }

    /// Returns the removed applications, oldest removal first.
    pub fn removed(&self) -> impl DoubleEndedIterator<Item = &Ended> {
        self.removed.entries.values()
    }

    /// Returns the rejected applications, oldest rejection first.
    pub fn rejected(&self) -> impl DoubleEndedIterator<Item = &Ended> {
        self.rejected.entries.values()
    }

    /// Returns the terminated applications after the entry with this number, oldest end first, with
    /// their numbers. Numbers only rise, and the first is above 0.
    pub fn terminated_behind(&self, number: u64) -> impl Iterator<Item = (u64, &Ended)> {
        self.terminated.behind(number)
    }

    /// Returns the terminated and the removed applications after the entry with this number, oldest
    /// end first.
    pub fn all_behind(&self, number: u64) -> impl Iterator<Item = (u64, &Ended)> {
        merged(self.terminated.behind(number), self.removed.behind(number), |a, b| a < b)
    }

    /// Returns the terminated and the removed applications before the entry with this number,
    /// newest end first.
    pub fn all_before(&self, number: u64) -> impl Iterator<Item = (u64, &Ended)> {
        merged(self.terminated.before(number), self.removed.before(number), |a, b| a > b)
    }

    /// Returns the rejected applications after the entry with this number, as
    /// [`Self::terminated_behind`] does.
    pub fn rejected_behind(&self, number: u64) -> impl Iterator<Item = (u64, &Ended)> {
        self.rejected.behind(number)
    }

    /// Returns the terminated applications before the entry with this number, newest end first.
    pub fn terminated_before(&self, number: u64) -> impl Iterator<Item = (u64, &Ended)> {
        self.terminated.before(number)
    }

    /// Returns the rejected applications before the entry with this number, newest rejection first.
    pub fn rejected_before(&self, number: u64) -> impl Iterator<Item = (u64, &Ended)> {
        self.rejected.before(number)
    }

    /// Counts the terminated and the rejected applications by state. Removed ones are left out, as
    /// dashboards know none.
    pub fn states(&self) -> BTreeMap<ApplicationState, u64> {
        let mut states = self.terminated.states.clone();
        for (state, number) in &self.rejected.states {
            *states.entry(*state).or_default() += number;
        }
        states
    }

    fn pop_rejected(&mut self) {
        if let Some(gone) = self.rejected.pop_first() {
            self.rejected_by_id.remove(&gone.id);
        }
    }
}

/// An entry that has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The id of the application.
    pub id: Arc<str>,
    /// The queue of the application.
    pub queue: Arc<str>,
    /// Whether it was never admitted.
    pub is_rejected: bool,
    finished_ns: i64,
}

/// Entries by number, in the order of their ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct List {
    entries: BTreeMap<u64, Ended>,
    /// The number of entries in each state. It is kept up to date, since a list may be long.
    states: BTreeMap<ApplicationState, u64>,
    /// The number of the next entry; the first has 1.
    next: u64,
    /// The number from which entries have still to expire; all earlier ones have expired.
    fresh: u64,
}

impl Default for List {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), states: BTreeMap::new(), next: 1, fresh: 0 }
    }
}

impl List {
    fn push(&mut self, ended: Ended) -> u64 {
        let number = self.next;
        *self.states.entry(ended.state).or_default() += 1;
        self.entries.insert(number, ended);
        self.next += 1;
        number
    }

    fn remove(&mut self, number: u64) {
        if let Some(gone) = self.entries.remove(&number) {
            self.uncount(gone.state);
        }
    }

    fn pop_first(&mut self) -> Option<Ended> {
        let (_, gone) = self.entries.pop_first()?;
        self.uncount(gone.state);
        Some(gone)
    }

    fn uncount(&mut self, state: ApplicationState) {
        let counted = self.states.get_mut(&state).expect("each entry is counted in its state");
        *counted -= 1;
        if *counted == 0 {
            self.states.remove(&state);
        }
    }

    fn behind(&self, number: u64) -> impl Iterator<Item = (u64, &Ended)> {
        let behind = self.entries.range((Bound::Excluded(number), Bound::Unbounded));
        behind.map(|(number, ended)| (*number, ended))
    }

    fn before(&self, number: u64) -> impl Iterator<Item = (u64, &Ended)> {
        let before = self.entries.range(..number).rev();
        before.map(|(number, ended)| (*number, ended))
    }

    fn next_expiry_ns(&self) -> Option<i64> {
        let (_, ended) = self.entries.range(self.fresh..).next()?;
        Some(ended.finished_ns.saturating_add(ns(RETENTION)))
    }

    /// Expires all entries that are due, and returns them.
    fn expire(&mut self, now_ns: i64) -> Vec<Expired> {
        let (mut expired, mut moved) = (Vec::new(), Vec::new());
        for (number, ended) in self.entries.range_mut(self.fresh..) {
            if ended.finished_ns.saturating_add(ns(RETENTION)) > now_ns {
                break;
            }
            self.fresh = number + 1;
            let before = ended.state;
            ended.expire(now_ns);
            moved.push((before, ended.state));
            expired.push(Expired {
                id: Arc::clone(&ended.id),
                queue: Arc::clone(&ended.queue),
                is_rejected: ended.is_rejected(),
                finished_ns: ended.finished_ns,
            });
        }
        for (before, after) in moved {
            self.uncount(before);
            *self.states.entry(after).or_default() += 1;
        }
        expired
    }

    fn first_is_expired(&self) -> bool {
        self.entries.first_key_value().is_some_and(|(number, _)| *number < self.fresh)
    }
}

/// Merges two lists with different numbers, each in the order of `is_first`.
fn merged<'a>(
    a: impl Iterator<Item = (u64, &'a Ended)>,
    b: impl Iterator<Item = (u64, &'a Ended)>,
    is_first: impl Fn(u64, u64) -> bool,
) -> impl Iterator<Item = (u64, &'a Ended)> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some((in_a, _)), Some((in_b, _))) if is_first(*in_b, *in_a) => b.next(),
        (None, _) => b.next(),
        _ => a.next(),
    })
}

fn ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
