//! Lists that are read in slices, with other steps in between.
//!
//! # Why slices
//! A list may have thousands of rows, and decisions would wait while all of them are taken in one
//! step. A slice takes a bounded number of them and remembers behind which it ended; the next one
//! begins there. So each row is of one moment, and the list as a whole is not.
//!
//! # Invariants
//! * A slice looks at no more than [`ENTRIES_MAX`] entries, visits no more than
//!   [`List::STOPS_MAX`] actors, and ends with the row with which it has [`PARTS_MAX`] parts: what it
//!   costs does not depend on how long the list is, or on where in the list it begins. A row that may
//!   be long (of an application or a node) is taken in parts itself: one that has reached as many is
//!   gone on with in the next slice ([`Within`]).
//! * Rows come in one order that does not change (their ids, as a rule), and a slice begins behind
//!   an id, whether its row is still there or not. So a row that is there all the time is read
//!   exactly once, whatever comes and goes beside it.
//! * The first slice keeps its place behind everything that came before it: who reads what he has
//!   changed sees the change.
//!
//! # When things go wrong
//! Who loses interest does not ask for the next slice; nothing of a reading is kept here.

use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::application::Application;
use crate::node::Node;
use crate::queue::Queue;
use crate::step::{Baton, Route, Survey};

/// Most entries of a directory that a slice looks at, wanted ones or not.
pub(super) const ENTRIES_MAX: usize = 1_024;

/// The number of parts (allocations, requests and the like) with which a slice ends: some 0.1 ms.
/// The last row may have as many of its own.
pub(crate) const PARTS_MAX: usize = 512;

/// Most actors that a slice visits whose rows are brief: some 0.1 ms, too.
pub(super) const BRIEF_STOPS_MAX: usize = 256;

/// A list of a partition.
pub(crate) trait List: Clone + Send + 'static {
    /// A place in the order of the list.
    type At: Clone + Send + 'static;
    /// What is taken of each entry.
    type Row: Send + 'static;
    /// Most actors that a slice visits, and most rows that it has.
    const STOPS_MAX: usize = 64;

    /// Finds what comes behind a place: actors to visit, or rows that the partition has itself.
    /// `None`: what the list is of is not there.
    fn find(
        &self,
        behind: Option<&Self::At>,
        slice: &mut Rows<Self::Row>,
        partition: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Self::At>>;

    /// Most actors that a slice of this list visits.
    fn stops_max(&self) -> usize {
        Self::STOPS_MAX
    }

    /// The list as a slice takes it that begins behind this place.
    fn going_on(self, _behind: &Self::At) -> Self {
        self
    }

    /// Adds `next` to the row before it, if it is the next part of that. Else it is given back.
    fn join(_row: &mut Self::Row, next: Self::Row) -> Option<Self::Row> {
        Some(next)
    }

    /// The place behind all parts of the row.
    fn behind_all_of(row: &Self::Row) -> Self::At {
        Self::at(row)
    }

    /// What is taken of an application.
    fn at_application(&self, _application: &Application, _baton: &Baton) -> Option<Self::Row> {
        None
    }

    /// What is taken of a queue.
    fn at_queue(&self, _queue: &Queue, _baton: &Baton) -> Option<Self::Row> {
        None
    }

    /// What is taken of a node.
    fn at_node(&self, _node: &Node, _baton: &Baton) -> Option<Self::Row> {
        None
    }

    /// Adds to the rows what the partition knows of them.
    fn complete(&self, _rows: &mut [Self::Row], _partition: &Partition, _baton: &Baton) {}

    /// Where in the order a row is.
    fn at(row: &Self::Row) -> Self::At;

    /// How many parts a row has.
    fn parts(row: &Self::Row) -> usize;
}

/// A place in a list by name: behind the row of this name, or within it.
#[derive(Clone, Debug)]
pub(crate) struct Within<W> {
    pub(crate) name: Arc<str>,
    /// How far the row was taken; `None`: it was taken as a whole.
    pub(crate) taken: Option<W>,
}

impl<W> Within<W> {
    /// Where to look for what comes next.
    pub(super) fn bound(&self) -> Bound<&Arc<str>> {
        if self.taken.is_some() { Bound::Included(&self.name) } else { Bound::Excluded(&self.name) }
    }
}

/// A place that a name says, so that a page can begin there.
pub(crate) trait Named: Clone + Send + 'static {
    fn behind(name: Arc<str>) -> Self;
    fn name(&self) -> &Arc<str>;
}

impl Named for Arc<str> {
    fn behind(name: Arc<str>) -> Self {
        name
    }

    fn name(&self) -> &Arc<str> {
        self
    }
}

impl<W: Clone + Send + 'static> Named for Within<W> {
    fn behind(name: Arc<str>) -> Self {
        Self { name, taken: None }
    }

    fn name(&self) -> &Arc<str> {
        &self.name
    }
}

/// What comes next in a list.
pub(crate) struct Found<A> {
    /// The actors to visit.
    pub(super) route: Route,
    /// Up to where the list was looked at; `None`: to its end.
    pub(super) reached: Option<A>,
}

/// The rows of a slice.
pub(crate) struct Rows<R> {
    taken: Vec<R>,
    parts: usize,
    most: usize,
}

impl<R> Rows<R> {
    /// Takes a row.
    pub(super) fn push<L: List<Row = R>>(&mut self, row: R) {
        self.parts += L::parts(&row);
        self.taken.push(row);
    }

    /// Whether nothing more fits.
    pub(super) fn is_full(&self) -> bool {
        self.taken.len() >= self.most || self.parts >= PARTS_MAX
    }

    /// Most actors that are worth visiting.
    pub(super) fn most(&self) -> usize {
        self.most
    }
}

/// What a slice answers.
pub(crate) struct Sliced<L: List> {
    pub(crate) rows: Vec<L::Row>,
    /// Behind what the next slice begins; `None`: the list is at its end.
    pub(crate) behind: Option<L::At>,
    /// The number of the last step that may have changed anything.
    pub(crate) step: u64,
    /// Which partition this is, of all that ever had its name.
    pub(crate) incarnation: u64,
}

/// One slice of a list.
pub(crate) struct Slice<L: List> {
    list: L,
    behind: Option<L::At>,
    rows: Rows<L::Row>,
    is_there: bool,
    reply: oneshot::Sender<Option<Sliced<L>>>,
}

impl<L: List> Slice<L> {
    /// The slice behind this place of the list, with at most so many rows.
    pub(crate) fn new(
        list: L,
        behind: Option<L::At>,
        most: usize,
        reply: oneshot::Sender<Option<Sliced<L>>>,
    ) -> Self {
        let list = match &behind {
            Some(behind) => list.going_on(behind),
            None => list,
        };
        let rows = Rows { taken: Vec::new(), parts: 0, most: most.clamp(1, list.stops_max()) };
        Self { list, behind, rows, is_there: true, reply }
    }

    fn take(&mut self, row: Option<L::Row>) {
        if let Some(row) = row {
            self.rows.push::<L>(row);
        }
    }
}

impl<L: List> Survey for Slice<L> {
    fn route(&mut self, partition: &mut Partition, baton: &Baton) -> Route {
        let behind = self.behind.take();
        let Some(found) = self.list.find(behind.as_ref(), &mut self.rows, partition, baton) else {
            self.is_there = false;
            return Route::default();
        };
        self.behind = found.reached;
        found.route
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        let row = self.list.at_application(application, baton);
        self.take(row);
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        let row = self.list.at_queue(queue, baton);
        self.take(row);
    }

    fn at_node(&mut self, node: &mut Node, baton: &mut Baton) {
        let row = self.list.at_node(node, baton);
        self.take(row);
    }

    fn is_full(&self) -> bool {
        self.rows.is_full()
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let is_full = self.rows.is_full();
        let Self { list, rows: Rows { taken: mut rows, .. }, behind, is_there, reply } = *self;
        list.complete(&mut rows, partition, baton);
        // What was found may go on behind the last row that was taken.
        let last = rows.last().filter(|_| is_full).map(L::at);
        let sliced = is_there.then(|| Sliced {
            behind: last.or(behind),
            rows,
            step: partition.steps,
            incarnation: partition.incarnation,
        });
        answer(reply, sliced);
    }
}
