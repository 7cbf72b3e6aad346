//! Lists that are read in slices, with other steps in between.
//!
//! # Why slices
//! A list may have thousands of rows, and decisions would wait while all of them are read in one
//! step. A slice reads a bounded number of rows, and the next slice begins behind the last of them.
//! So each row shows one moment, and the list as a whole does not.
//!
//! # Invariants
//! * A slice examines no more than [`ENTRIES_MAX`] entries, visits no more than [`List::STOPS_MAX`]
//!   actors, and ends after the row that completes [`PARTS_MAX`] parts: its cost depends neither on
//!   the length of the list nor on the position where it begins. A row that may be long (of an
//!   application or a node) is itself read in parts: a row that reaches this number of parts is
//!   continued in the next slice ([`Within`]).
//! * Rows come in one order that does not change (their ids, as a rule), and a slice begins behind
//!   an id, whether its row is still there or not. So a row that is there all the time is read
//!   exactly once, even if other rows are added and removed.
//! * The first slice waits for the entries before it: callers see their own changes.
//!
//! # When things go wrong
//! A caller that gives up asks for no further slice; the partition keeps no state of the list.

use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::application::Application;
use crate::node::Node;
use crate::queue::Queue;
use crate::step::{Baton, Route, Survey};

/// Most entries of a directory that a slice examines, whether or not they belong to the list.
pub(super) const ENTRIES_MAX: usize = 1_024;

/// The number of parts (allocations, requests and the like) after which a slice ends: they take
/// some 0.1 ms. The last row may have as many parts of its own.
pub(crate) const PARTS_MAX: usize = 512;

/// Most actors that a slice visits whose rows are brief: some 0.1 ms, too.
pub(super) const BRIEF_STOPS_MAX: usize = 256;

/// A list of a partition.
pub(crate) trait List: Clone + Send + 'static {
    /// A position in the order of the list.
    type At: Clone + Send + 'static;
    /// The row of an entry.
    type Row: Send + 'static;
    /// Most actors that a slice visits, and most rows that it has.
    const STOPS_MAX: usize = 64;

    /// Finds the entries behind a position: actors to visit, or rows that the partition has itself.
    /// `None`: the subject of the list does not exist.
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

    /// Returns the list for a slice that begins behind this position.
    fn going_on(self, _behind: &Self::At) -> Self {
        self
    }

    /// Appends `next` to the row before it, if it is a further part of that row. Otherwise returns
    /// it.
    fn join(_row: &mut Self::Row, next: Self::Row) -> Option<Self::Row> {
        Some(next)
    }

    /// Returns the position behind all parts of the row.
    fn behind_all_of(row: &Self::Row) -> Self::At {
        Self::at(row)
    }

    /// Reads an application.
    fn at_application(&self, _application: &Application, _baton: &Baton) -> Option<Self::Row> {
        None
    }

    /// Reads a queue.
    fn at_queue(&self, _queue: &Queue, _baton: &Baton) -> Option<Self::Row> {
        None
    }

    /// Reads a node.
    fn at_node(&self, _node: &Node, _baton: &Baton) -> Option<Self::Row> {
        None
    }

    /// Adds the partition's own facts to the rows.
    fn complete(&self, _rows: &mut [Self::Row], _partition: &Partition, _baton: &Baton) {}

    /// Returns the position of a row in the order.
    fn at(row: &Self::Row) -> Self::At;

    /// Returns the number of parts of a row.
    fn parts(row: &Self::Row) -> usize;
}

/// A position in a list by name: behind the row of this name, or within it.
#[derive(Clone, Debug)]
pub(crate) struct Within<W> {
    pub(crate) name: Arc<str>,
    /// How far the row was read; `None`: it was read as a whole.
    pub(crate) taken: Option<W>,
}

impl<W> Within<W> {
    /// Returns the bound where the next slice begins.
    pub(super) fn bound(&self) -> Bound<&Arc<str>> {
        if self.taken.is_some() { Bound::Included(&self.name) } else { Bound::Excluded(&self.name) }
    }
}

/// A position that a name alone determines, so that a page can begin behind any name.
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

/// The next entries of a list.
pub(crate) struct Found<A> {
    /// The actors to visit.
    pub(super) route: Route,
    /// The position up to which the list was examined; `None`: to its end.
    pub(super) reached: Option<A>,
}

/// The rows of a slice.
pub(crate) struct Rows<R> {
    taken: Vec<R>,
    parts: usize,
    most: usize,
}

impl<R> Rows<R> {
    /// Adds a row.
    pub(super) fn push<L: List<Row = R>>(&mut self, row: R) {
        self.parts += L::parts(&row);
        self.taken.push(row);
    }

    /// Whether no further row fits.
    pub(super) fn is_full(&self) -> bool {
        self.taken.len() >= self.most || self.parts >= PARTS_MAX
    }

    /// Returns the number of rows that may still be wanted, and so of actors worth visiting.
    pub(super) fn most(&self) -> usize {
        self.most
    }
}

/// The answer of a slice.
pub(crate) struct Sliced<L: List> {
    pub(crate) rows: Vec<L::Row>,
    /// The position behind which the next slice begins; `None`: the list is at its end.
    pub(crate) behind: Option<L::At>,
    /// The number of the last step that may have changed anything.
    pub(crate) step: u64,
    /// The number of the partition, which no other partition has or had.
    pub(crate) incarnation: u64,
}

/// A slice of a list.
pub(crate) struct Slice<L: List> {
    list: L,
    behind: Option<L::At>,
    rows: Rows<L::Row>,
    is_there: bool,
    reply: oneshot::Sender<Option<Sliced<L>>>,
}

impl<L: List> Slice<L> {
    /// Builds a slice behind this position of the list, with at most `most` rows.
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
        // Further entries may follow the last row that was read.
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
