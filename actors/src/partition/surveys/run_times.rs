//! Run times: copies of their rows, and how many there are. The baton carries them, so these surveys
//! visit no actor.

use monoceros_rules::runtimes::{CopiedRow, RunTimes};
use tokio::sync::oneshot;

use super::listing::{Found, List, PARTS_MAX, Rows};
use super::{Partition, answer};
use crate::step::{Baton, Route, Survey};

/// List of the rows of run times, by their places.
#[derive(Clone)]
pub(crate) struct RunTimeRows;

impl List for RunTimeRows {
    type At = usize;
    type Row = CopiedRow;
    const STOPS_MAX: usize = PARTS_MAX;

    fn find(
        &self,
        behind: Option<&usize>,
        slice: &mut Rows<CopiedRow>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<usize>> {
        let from = behind.map_or(0, |place| place + 1);
        let run_times = baton.run_times.get();
        for row in run_times.into_iter().flat_map(|it| it.copies(from, baton.now_ns)) {
            let reached = Some(row.place());
            slice.push::<Self>(row);
            if slice.is_full() {
                return Some(Found { route: Route::default(), reached });
            }
        }
        Some(Found { route: Route::default(), reached: None })
    }

    fn at(row: &CopiedRow) -> usize {
        row.place()
    }

    fn parts(_: &CopiedRow) -> usize {
        1
    }
}

/// The numbers of classes, and of runs that were counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunCounts {
    pub(crate) classes: usize,
    pub(crate) counted: u64,
}

/// Reads these numbers; `None`: no run of the partition has ended.
pub(crate) struct RunsCounted(oneshot::Sender<Option<RunCounts>>);

impl RunsCounted {
    pub(crate) fn new(reply: oneshot::Sender<Option<RunCounts>>) -> Self {
        Self(reply)
    }
}

impl Survey for RunsCounted {
    fn home(self: Box<Self>, _: &mut Partition, baton: &mut Baton) {
        let counts = |it: &RunTimes| RunCounts { classes: it.n_classes(), counted: it.n_counted() };
        answer(self.0, baton.run_times.get().map(counts));
    }
}
