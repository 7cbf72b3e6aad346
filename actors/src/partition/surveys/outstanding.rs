//! Requests that more machines would let run, as a caller reads them: three lists, each in slices.
//!
//! # How
//! Queues report the capacity that they have left ([`Rooms`]). The applications below them report
//! their pending asks ([`WaitingFor`]). [`scale_up::wanted`] decides which requests count, in the
//! caller's task and outside the partition. The applications of these requests then describe them
//! ([`Outstanding`]). As with other lists, a row of one queue or application shows one moment, and
//! different rows may show different moments.
//!
//! Rows have paths and ids, not slots: a slot may belong to another queue or application when the
//! next slice is read.
//!
//! `wanted` reports the same requests to the RM, each once.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use monoceros_rules::applications::application::Application as Book;
use monoceros_rules::asks::Ask;
use monoceros_rules::decide::scale_up::{self, ApplicationWaiting, QueueRoom};
use monoceros_rules::limits::LimitId;
use monoceros_rules::order::keys::AskKey;
use monoceros_rules::values::ids::{ApplicationSlot, ClassId};
use monoceros_rules::values::resources::Limits;

use super::Partition;
use super::listing::{ENTRIES_MAX, Found, List, PARTS_MAX, Rows};
use super::queues::{self, Queues};
use crate::application::Application;
use crate::queue::{Queue, Room};
use crate::snapshot::OutstandingRequest;
use crate::step::{Baton, Route};

/// List of queues with the capacity that they have left. It is absent while the partition decides
/// nothing, because pending requests do not wait for machines then.
#[derive(Clone)]
pub(crate) struct Rooms;

/// A queue with the capacity that it has left.
pub(crate) struct RoomRow {
    path: Arc<str>,
    room: Room,
}

impl List for Rooms {
    type At = Arc<str>;
    type Row = RoomRow;
    const STOPS_MAX: usize = Queues::STOPS_MAX;

    fn find(
        &self,
        behind: Option<&Arc<str>>,
        slice: &mut Rows<RoomRow>,
        partition: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        let all = Queues::default();
        partition.decides().then(|| queues::found(all.behind(behind, baton), slice.most()))
    }

    fn at_queue(&self, queue: &Queue, baton: &Baton) -> Option<RoomRow> {
        let path = Arc::clone(&queue.config().path);
        Some(RoomRow { path, room: queue.room(&baton.books.trackers) })
    }

    fn at(row: &RoomRow) -> Arc<str> {
        Arc::clone(&row.path)
    }

    fn parts(_: &RoomRow) -> usize {
        1
    }
}

/// Queues by path, with the capacity that they have left.
#[derive(Clone, Default)]
pub(crate) struct Left {
    by_path: BTreeMap<Arc<str>, usize>,
    queues: Vec<QueueRoom>,
    is_waiting: Vec<bool>,
}

impl Left {
    /// Builds the table from rows in the order in which they were read: parents before children.
    pub(crate) fn of(rows: Vec<RoomRow>) -> Self {
        let mut left = Self::default();
        for RoomRow { path, room } in rows {
            let above = path.rsplit_once('.').and_then(|(above, _)| left.by_path.get(above));
            let parent = above.copied();
            left.by_path.insert(path, left.queues.len());
            left.queues.push(QueueRoom { parent, key: room.key, left: room.left });
            left.is_waiting.push(room.leave.is_waiting);
        }
        left
    }

    /// Returns the position of a leaf in which an application waits.
    fn waiting_leaf(&self, path: &str) -> Option<usize> {
        self.by_path.get(path).copied().filter(|leaf| self.is_waiting[*leaf])
    }
}

/// List of the pending asks of applications.
#[derive(Clone)]
pub(crate) struct WaitingFor(pub(crate) Arc<Left>);

/// An application with its pending asks, and the amounts that the limits of its user and group
/// leave.
pub(crate) struct WaitingRow {
    id: Arc<str>,
    waiting: ApplicationWaiting,
    limits: BTreeMap<LimitId, Limits>,
}

impl List for WaitingFor {
    type At = Arc<str>;
    type Row = WaitingRow;

    fn find(
        &self,
        behind: Option<&Arc<str>>,
        slice: &mut Rows<WaitingRow>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        let directory = &baton.directory;
        let from = behind.map_or(Bound::Unbounded, |id| Bound::Excluded(Arc::clone(id)));
        let (mut slots, mut reached) = (Vec::new(), None);
        let all = directory.application_by_id.range((from, Bound::Unbounded));
        for (at, (id, slot)) in all.enumerate() {
            if at == ENTRIES_MAX || slots.len() == slice.most() {
                return Some(Found { route: Route::default().applications(slots), reached });
            }
            let entry = directory.application(*slot);
            let waits = |leaf| self.0.waiting_leaf(&directory.queue(leaf).facts.config.path);
            slots.extend(entry.and_then(|entry| waits(entry.leaf)).map(|_| *slot));
            reached = Some(Arc::clone(id));
        }
        Some(Found { route: Route::default().applications(slots), reached: None })
    }

    fn at_application(&self, application: &Application, baton: &Baton) -> Option<WaitingRow> {
        let known = application.known();
        let leaf = self.0.waiting_leaf(&known.queue)?;
        let mut limits = BTreeMap::new();
        let tried = application.tried();
        let waiting = tried.waiting(leaf, &baton.books.trackers, &mut limits)?;
        Some(WaitingRow { id: Arc::clone(&known.id), waiting, limits })
    }

    fn at(row: &WaitingRow) -> Arc<str> {
        Arc::clone(&row.id)
    }

    fn parts(row: &WaitingRow) -> usize {
        row.waiting.classes.len()
    }
}

/// The requests of an application that more machines would let run, class by class.
struct WantedHere {
    application: Arc<str>,
    classes: Vec<(ClassId, u64)>,
}

/// The requests that more machines would let run, in the order in which they would be placed.
#[derive(Default)]
pub(crate) struct ScaleUpList {
    in_order: Vec<WantedHere>,
    /// The position of each application in the list.
    places: HashMap<Arc<str>, usize>,
}

impl ScaleUpList {
    /// Determines these requests. The time that it takes grows with the number of pending asks.
    pub(crate) fn decide(left: &Left, rows: Vec<WaitingRow>) -> Self {
        let (mut limits, mut ids, mut waiting) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (number, mut row) in (0..).zip(rows) {
            limits.append(&mut row.limits);
            ids.push(row.id);
            waiting.push(ApplicationWaiting {
                application: ApplicationSlot::at(number),
                ..row.waiting
            });
        }
        let mut all = Self::default();
        for wanted in scale_up::wanted(left.queues.clone(), limits, waiting) {
            let id = &ids[wanted.application.index()];
            let end = all.in_order.len();
            let place = *all.places.entry(Arc::clone(id)).or_insert(end);
            if place == end {
                let application = Arc::clone(id);
                all.in_order.push(WantedHere { application, classes: Vec::new() });
            }
            all.in_order[place].classes.push((wanted.class, wanted.count));
        }
        all
    }
}

/// A position in the list of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    application: usize,
    /// The index of the class. `read` is the position in it: the last ask, and the number of its
    /// allocations that were read.
    class: usize,
    read: Option<(AskKey, u64)>,
}

/// The requests that more machines would let run, as clients read them, from a position on.
#[derive(Clone)]
pub(crate) struct Outstanding {
    all: Arc<ScaleUpList>,
    from: Place,
}

/// Requests of one application.
pub(crate) struct OutstandingRow {
    pub(crate) requests: Vec<OutstandingRequest>,
    behind: Place,
}

impl Outstanding {
    /// Returns the list of all these requests.
    pub(crate) fn new(all: ScaleUpList) -> Self {
        Self { all: Arc::new(all), from: Place::default() }
    }

    /// Returns the list from a position on.
    pub(crate) fn behind(&self, from: Place) -> Self {
        Self { all: Arc::clone(&self.all), from }
    }
}

impl List for Outstanding {
    type At = Place;
    type Row = OutstandingRow;

    fn find(
        &self,
        _: Option<&Place>,
        slice: &mut Rows<OutstandingRow>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Place>> {
        let (from, to) = (self.from.application, self.from.application + slice.most());
        let wanted = self.all.in_order.iter().skip(from).take(slice.most());
        let by_id = &baton.directory.application_by_id;
        let slots = wanted.filter_map(|wanted| by_id.get(&wanted.application).copied());
        let goes_on = to < self.all.in_order.len();
        Some(Found {
            route: Route::default().applications(slots),
            reached: goes_on.then(|| Place { application: to, ..Place::default() }),
        })
    }

    fn at_application(&self, application: &Application, _: &Baton) -> Option<OutstandingRow> {
        let place = *self.all.places.get(&application.known().id)?;
        let tried = application.tried();
        let is_first = place == self.from.application;
        let (class, mut read) =
            if is_first { (self.from.class, self.from.read) } else { (0, None) };
        let mut requests = Vec::new();
        let classes = self.all.in_order[place].classes.iter().enumerate().skip(class);
        for (number, (class, count)) in classes {
            let (behind, n_read) = read.take().unzip();
            let left = count.saturating_sub(n_read.unwrap_or(0));
            let most = PARTS_MAX - requests.len();
            let requests_of_class = tried.requests(*class, behind.as_ref(), left).take(most);
            let described: Vec<_> = requests_of_class
                .map(|(key, ask, count)| (key, outstanding(tried.book, ask, count)))
                .collect();
            let n_described: u64 = described.iter().map(|(_, request)| request.count).sum();
            let last = described.last().map(|(key, _)| *key);
            requests.extend(described.into_iter().map(|(_, request)| request));
            if requests.len() >= PARTS_MAX
                && let Some(last) = last
            {
                let read = Some((last, n_read.unwrap_or(0) + n_described));
                let behind = Place { application: place, class: number, read };
                return Some(OutstandingRow { requests, behind });
            }
        }
        let behind = Place { application: place + 1, ..Place::default() };
        Some(OutstandingRow { requests, behind })
    }

    fn at(row: &OutstandingRow) -> Place {
        row.behind.clone()
    }

    fn parts(row: &OutstandingRow) -> usize {
        row.requests.len()
    }
}

/// A pending request that more machines would help, as clients read it.
fn outstanding(book: &Book, ask: &Ask, count: u64) -> OutstandingRequest {
    OutstandingRequest {
        partition: String::new(),
        application: book.id.to_string(),
        key: ask.key.to_string(),
        task_group: ask.task_group.as_deref().cloned().unwrap_or_default(),
        queue: book.queue.to_string(),
        resource: (*ask.resources).clone(),
        count,
        tags: ask.tags.as_ref().map(|tags| tags.to_map()).unwrap_or_default(),
        pending_since_ns: ask.stated_creation_ns(),
    }
}
