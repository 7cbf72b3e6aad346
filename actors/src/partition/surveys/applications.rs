//! Applications as lists have them: those that live, and those that are over.

use std::ops::Bound;
use std::sync::Arc;

use monoceros_rules::work::allocations::ApplicationSlot;
use tokio::sync::oneshot;

use super::listing::{ENTRIES_MAX, Found, List, Rows};
use super::{Partition, answer};
use crate::api::listing::ApplicationFilter;
use crate::application::Application;
use crate::step::{ApplicationEntry, Baton, Route, Survey};
use crate::views::rows::{ApplicationRow, EndedRow};

/// The live applications that a filter lets through, by id. There is no such list where the filter
/// names a queue that is not there.
#[derive(Clone)]
pub(crate) struct Applications(pub(crate) Arc<ApplicationFilter>);

impl Applications {
    fn is_wanted(&self, entry: &ApplicationEntry, baton: &Baton) -> bool {
        let filter = &*self.0;
        let leaf = &baton.directory.queue(entry.leaf).facts.config.path;
        filter.lets_queue(leaf) && filter.lets_state(entry.state)
    }

    /// The entries behind an id: all, or those of the ids that are named.
    fn behind<'a>(
        &'a self,
        behind: Option<&Arc<str>>,
        baton: &'a Baton,
    ) -> Box<dyn Iterator<Item = (Arc<str>, Option<ApplicationSlot>)> + 'a> {
        let by_id = &baton.directory.application_by_id;
        let from = behind.map_or(Bound::Unbounded, |id| Bound::Excluded(Arc::clone(id)));
        if self.0.ids.is_empty() {
            let all = by_id.range((from, Bound::Unbounded));
            return Box::new(all.map(|(id, slot)| (Arc::clone(id), Some(*slot))));
        }
        let from = from.map(|id| id.to_string());
        let named = self.0.ids.range((from, Bound::Unbounded));
        Box::new(named.map(|id| (Arc::from(id.as_str()), by_id.get(id.as_str()).copied())))
    }
}

impl List for Applications {
    type At = Arc<str>;
    type Row = ApplicationRow;

    fn find(
        &self,
        behind: Option<&Arc<str>>,
        slice: &mut Rows<ApplicationRow>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        let directory = &baton.directory;
        if self.0.queue.as_ref().is_some_and(|path| !directory.queue_by_path.contains_key(&**path))
        {
            return None;
        }
        let (mut slots, mut reached) = (Vec::new(), None);
        for (at, (id, slot)) in self.behind(behind, baton).enumerate() {
            if at == ENTRIES_MAX || slots.len() == slice.most() {
                return Some(Found { route: Route::default().applications(slots), reached });
            }
            let entry = slot.and_then(|slot| directory.application(slot));
            slots.extend(entry.filter(|it| self.is_wanted(it, baton)).map(|entry| entry.slot));
            reached = Some(id);
        }
        Some(Found { route: Route::default().applications(slots), reached: None })
    }

    fn at_application(&self, application: &Application, baton: &Baton) -> Option<ApplicationRow> {
        self.0.lets_user(application.user()).then(|| application.row(baton))
    }

    fn at(row: &ApplicationRow) -> Arc<str> {
        Arc::clone(&row.id)
    }

    fn parts(row: &ApplicationRow) -> usize {
        row.parts()
    }
}

/// The live application of this id, if there is one.
pub(crate) struct OneApplication {
    id: String,
    found: Option<ApplicationRow>,
    reply: oneshot::Sender<Option<ApplicationRow>>,
}

impl OneApplication {
    pub(crate) fn new(id: String, reply: oneshot::Sender<Option<ApplicationRow>>) -> Self {
        Self { id, found: None, reply }
    }
}

impl Survey for OneApplication {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let slot = baton.directory.application_by_id.get(self.id.as_str());
        Route::default().applications(slot.copied())
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        self.found = Some(application.row(baton));
    }

    fn home(self: Box<Self>, _: &mut Partition, _: &mut Baton) {
        answer(self.reply, self.found);
    }
}

/// Which applications that are over are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Those that ended.
    Terminated,
    /// Those that were never admitted.
    Rejected,
}

/// Applications that are over, oldest end first. The partition has them itself, by number.
#[derive(Clone, Copy)]
pub(crate) struct EndedApplications(pub(crate) Over);

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
        let behind = behind.copied().unwrap_or(0);
        let kept = partition.ended.applications();
        let mut take = |(number, ended)| {
            slice.push::<Self>(EndedRow::of(number, ended, &partition.name));
            slice.is_full()
        };
        // Where the slice is full, its last row says where it ended.
        let _ = match self.0 {
            Over::Terminated => kept.terminated_behind(behind).any(&mut take),
            Over::Rejected => kept.rejected_behind(behind).any(&mut take),
        };
        Some(Found { route: Route::default(), reached: None })
    }

    fn at(row: &EndedRow) -> u64 {
        row.number
    }

    fn parts(row: &EndedRow) -> usize {
        row.parts()
    }
}
