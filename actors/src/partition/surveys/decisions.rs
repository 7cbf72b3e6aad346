//! Lists the last decisions by number, newest first. The baton carries them, so this list visits no
//! actor.

use std::sync::Arc;

use monoceros_rules::decisions::CopiedDecision;
use tokio::sync::oneshot;

use super::listing::{ENTRIES_MAX, Found, List, Rows};
use super::{Partition, answer};
use crate::api::listing::DecisionFilter;
use crate::step::{Baton, Route, Survey};

/// Decisions that a filter selects.
#[derive(Clone)]
pub(crate) struct LastDecisions(pub(crate) Arc<DecisionFilter>);

impl List for LastDecisions {
    /// The number of the last decision that was read; the next one to read is older by one.
    type At = u64;
    type Row = CopiedDecision;

    fn find(
        &self,
        behind: Option<&u64>,
        slice: &mut Rows<CopiedDecision>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<u64>> {
        let decisions = &baton.decisions;
        let newest = decisions.last() + 1;
        let mut number = behind.map_or(newest, |behind| newest.min(*behind));
        let mut is_there = true;
        for _ in 0..ENTRIES_MAX {
            number = number.saturating_sub(1);
            let Some(kept) = decisions.get(number) else {
                is_there = false;
                break;
            };
            if self.0.lets(&kept) {
                slice.push::<Self>(kept.copied());
            }
            if slice.is_full() {
                break;
            }
        }
        Some(Found { route: Route::default(), reached: is_there.then_some(number) })
    }

    fn at(row: &CopiedDecision) -> u64 {
        row.kept().number()
    }

    fn parts(_: &CopiedDecision) -> usize {
        1
    }
}

/// Reads the number of decisions that are kept at most.
pub(crate) struct DecisionsKept(oneshot::Sender<usize>);

impl DecisionsKept {
    pub(crate) fn new(reply: oneshot::Sender<usize>) -> Self {
        Self(reply)
    }
}

impl Survey for DecisionsKept {
    fn home(self: Box<Self>, _: &mut Partition, baton: &mut Baton) {
        answer(self.0, baton.decisions.most());
    }
}
