//! Lists of applications: the live ones, and the terminated ones.

use std::ops::Bound;
use std::sync::Arc;

use monoceros_rules::applications::ended::Ended;
use monoceros_rules::values::ids::ApplicationSlot;

use super::Partition;
use super::listing::{
    BRIEF_STOPS_MAX, ENTRIES_MAX, Found, List, Named as _, PARTS_MAX, Rows, Within,
};
use crate::api::listing::ApplicationFilter;
use crate::application::Application;
use crate::step::{ApplicationEntry, Baton, Route};
use crate::views::rows::{ApplicationProgress, ApplicationRow, EndedRow};

/// The live applications that a filter selects, by id. The list is absent if the filter names a
/// queue that does not exist.
#[derive(Clone)]
pub(crate) struct Applications {
    filter: Arc<ApplicationFilter>,
    is_brief: bool,
    /// The row that the next slice continues.
    within: Option<(Arc<str>, ApplicationProgress)>,
}

type Place = Within<ApplicationProgress>;

impl Applications {
    /// A list of applications. Brief rows have the number of allocations instead of the
    /// allocations.
    pub(crate) fn new(filter: ApplicationFilter, is_brief: bool) -> Self {
        Self { filter: Arc::new(filter), is_brief, within: None }
    }

    fn is_wanted(&self, entry: &ApplicationEntry, baton: &Baton) -> bool {
        let leaf = &baton.directory.queue(entry.leaf).facts.config.path;
        self.filter.lets_queue(leaf)
            && self.filter.lets_state(entry.state)
            && self.filter.lets_id(&entry.id)
    }

    /// Returns the entries from a position on: all, or those of the named ids.
    fn behind<'a>(
        &'a self,
        behind: Option<&Place>,
        baton: &'a Baton,
    ) -> Box<dyn Iterator<Item = (Arc<str>, Option<ApplicationSlot>)> + 'a> {
        let by_id = &baton.directory.application_by_id;
        let from = behind.map_or(Bound::Unbounded, Within::bound);
        if self.filter.ids.is_empty() {
            let all = by_id.range((from.cloned(), Bound::Unbounded));
            return Box::new(all.map(|(id, slot)| (Arc::clone(id), Some(*slot))));
        }
        let from = from.map(ToString::to_string);
        let named = self.filter.ids.range((from, Bound::Unbounded));
        Box::new(named.map(|id| (Arc::from(id.as_str()), by_id.get(id.as_str()).copied())))
    }
}

impl List for Applications {
    type At = Place;
    type Row = ApplicationRow;

    fn find(
        &self,
        behind: Option<&Place>,
        slice: &mut Rows<ApplicationRow>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Place>> {
        let directory = &baton.directory;
        let queue = self.filter.queue.as_ref();
        if queue.is_some_and(|path| !directory.queue_by_path.contains_key(&**path)) {
            return None;
        }
        let (mut slots, mut reached) = (Vec::new(), None);
        for (at, (id, slot)) in self.behind(behind, baton).enumerate() {
            if at == ENTRIES_MAX || slots.len() == slice.most() {
                let reached = reached.map(Place::behind);
                return Some(Found { route: Route::default().applications(slots), reached });
            }
            let entry = slot.and_then(|slot| directory.application(slot));
            slots.extend(entry.filter(|it| self.is_wanted(it, baton)).map(|entry| entry.slot));
            reached = Some(id);
        }
        Some(Found { route: Route::default().applications(slots), reached: None })
    }

    fn going_on(self, behind: &Place) -> Self {
        let within = behind.taken.clone().map(|taken| (Arc::clone(&behind.name), taken));
        Self { within, ..self }
    }

    fn join(row: &mut ApplicationRow, next: ApplicationRow) -> Option<ApplicationRow> {
        row.append(next)
    }

    fn behind_all_of(row: &ApplicationRow) -> Place {
        Place::behind(Arc::clone(&row.id))
    }

    fn stops_max(&self) -> usize {
        if self.is_brief { BRIEF_STOPS_MAX } else { Self::STOPS_MAX }
    }

    fn at_application(&self, application: &Application, baton: &Baton) -> Option<ApplicationRow> {
        let known = application.known();
        if !self.filter.lets_user(&known.user) || !self.filter.lets_tags(known.tags.as_ref()) {
            return None;
        }
        if self.filter.pending && known.asks.n_pending() == 0 {
            return None;
        }
        let within = self.within.as_ref().filter(|(id, _)| *id == application.known().id);
        let behind = within.map(|(_, taken)| taken);
        let (book, until_ns) = (application.known(), application.backs_off_until());
        Some(ApplicationRow::part(book, behind, (PARTS_MAX, self.is_brief), until_ns, baton))
    }

    fn at(row: &ApplicationRow) -> Place {
        Within { name: Arc::clone(&row.id), taken: row.progress.clone() }
    }

    fn parts(row: &ApplicationRow) -> usize {
        row.parts
    }
}

/// The kinds of ended applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Applications that completed or failed.
    Terminated,
    /// Applications that completed, failed or were removed by their RM.
    Any,
    /// Applications that were never admitted.
    Rejected,
}

/// Ended applications that a filter selects, by number: the oldest end first, or the newest.
/// The partition keeps them, so no actor is visited.
#[derive(Clone)]
pub(crate) struct EndedApplications {
    over: Over,
    filter: Arc<ApplicationFilter>,
    newest_first: bool,
}

impl EndedApplications {
    pub(crate) fn new(over: Over, filter: ApplicationFilter, newest_first: bool) -> Self {
        Self { over, filter: Arc::new(filter), newest_first }
    }

    fn is_wanted(&self, ended: &Ended) -> bool {
        let Ended { id, queue, user, state, tags, .. } = ended;
        let filter = &self.filter;
        let is_named = filter.ids.is_empty() || filter.ids.contains(&**id);
        is_named
            && filter.lets_queue(queue)
            && filter.lets_state(*state)
            && filter.lets_user(user)
            && filter.lets_id(id)
            && filter.lets_tags(tags.as_ref())
    }
}

impl List for EndedApplications {
    type At = u64;
    type Row = EndedRow;

    fn find(
        &self,
        behind: Option<&u64>,
        slice: &mut Rows<EndedRow>,
        partition: &mut Partition,
        _: &Baton,
    ) -> Option<Found<u64>> {
        let kept = partition.ended.applications();
        let (behind, before) = (behind.copied().unwrap_or(0), behind.copied().unwrap_or(u64::MAX));
        let entries: Box<dyn Iterator<Item = (u64, &Ended)>> = match (self.over, self.newest_first)
        {
            (Over::Terminated, false) => Box::new(kept.terminated_behind(behind)),
            (Over::Terminated, true) => Box::new(kept.terminated_before(before)),
            (Over::Any, false) => Box::new(kept.all_behind(behind)),
            (Over::Any, true) => Box::new(kept.all_before(before)),
            (Over::Rejected, false) => Box::new(kept.rejected_behind(behind)),
            (Over::Rejected, true) => Box::new(kept.rejected_before(before)),
        };
        let mut reached = None;
        for (looked_at, (number, ended)) in entries.enumerate() {
            if looked_at == ENTRIES_MAX {
                return Some(Found { route: Route::default(), reached });
            }
            reached = Some(number);
            if self.is_wanted(ended) {
                slice.push::<Self>(EndedRow::of(number, ended, &partition.name));
            }
            if slice.is_full() {
                // `reached` is not needed: the next slice begins behind the last row of this one.
                break;
            }
        }
        Some(Found { route: Route::default(), reached: None })
    }

    fn at(row: &EndedRow) -> u64 {
        row.number
    }

    fn parts(row: &EndedRow) -> usize {
        row.parts()
    }
}
