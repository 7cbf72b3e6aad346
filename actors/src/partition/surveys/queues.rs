//! Lists of a partition's queues, by path. `views::tree` makes a tree of them.

use std::iter;
use std::ops::Bound;
use std::sync::Arc;

use super::Partition;
use super::listing::{Found, List, Rows};
use crate::queue::Queue;
use crate::step::{Baton, QueueSlot, Route};
use crate::views::rows::QueueRow;

/// Queues by path: all, or one with the queues above and below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queues {
    /// The queue; `None`: all.
    pub(crate) around: Option<Arc<str>>,
}

impl Queues {
    /// Returns the listed queues behind a path.
    pub(super) fn behind<'a>(
        &'a self,
        behind: Option<&'a Arc<str>>,
        baton: &'a Baton,
    ) -> Box<dyn Iterator<Item = (&'a Arc<str>, &'a QueueSlot)> + 'a> {
        let by_path = &baton.directory.queue_by_path;
        let from = |path| by_path.range::<str, _>((path, Bound::Unbounded));
        let is_behind = move |path: &str| behind.is_none_or(|behind| path > &**behind);
        let Some(around) = &self.around else {
            let behind = behind.map_or(Bound::Unbounded, |path| Bound::Excluded(&**path));
            return Box::new(from(behind));
        };
        // The paths of the queues above are beginnings of this path, and come before it.
        let ends = around.match_indices('.').map(|(at, _)| at).chain(iter::once(around.len()));
        let path = ends.map(|end| &around[..end]).filter(move |path| is_behind(path));
        let path = path.filter_map(|path| by_path.get_key_value(path));
        let below = format!("{around}.");
        let first = behind.filter(|behind| ***behind >= *below);
        let first = first.map_or(Bound::Included(&*below), |behind| Bound::Excluded(&**behind));
        let below = from(first).take_while({
            let below = below.clone();
            move |(path, _)| path.starts_with(&below)
        });
        Box::new(path.chain(below))
    }
}

/// Returns the first `most` of these queues.
pub(super) fn found<'a>(
    wanted: impl Iterator<Item = (&'a Arc<str>, &'a QueueSlot)>,
    most: usize,
) -> Found<Arc<str>> {
    let (mut slots, mut reached) = (Vec::new(), None);
    for (path, slot) in wanted {
        if slots.len() == most {
            return Found { route: Route::default().queues_as_named(slots), reached };
        }
        slots.push(*slot);
        reached = Some(Arc::clone(path));
    }
    Found { route: Route::default().queues_as_named(slots), reached: None }
}

impl List for Queues {
    type At = Arc<str>;
    type Row = QueueRow;
    /// A tree of at most this many queues is of one moment.
    const STOPS_MAX: usize = 512;

    fn find(
        &self,
        behind: Option<&Arc<str>>,
        slice: &mut Rows<QueueRow>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        Some(found(self.behind(behind, baton), slice.most()))
    }

    fn at_queue(&self, queue: &Queue, baton: &Baton) -> Option<QueueRow> {
        Some(queue.row(baton.directory.queue(queue.slot()), &baton.books.nodes))
    }

    fn at(row: &QueueRow) -> Arc<str> {
        Arc::clone(row.path())
    }

    fn parts(row: &QueueRow) -> usize {
        row.allocating.len()
    }
}
