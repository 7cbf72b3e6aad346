//! Asks that came before their application (scheduler-interface chapter, 3.4 O3).
//!
//! Over gRPC, asks and applications come by streams of their own, and an ask may overtake its
//! application. It waits here for the reorder window and joins its application when that comes;
//! else it is rejected as if it had just arrived. In process there is one order and no window.
//!
//! Releases never wait: of what is not there, there is nothing to release.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::asks::AskSpec;
use monoceros_rules::rejection::{Ignored, Rejection};

use super::{Partition, Task};
use crate::application::Op;
use crate::baton::{Alarm, Baton, Saying};

/// Items that may wait; beyond, they are rejected at once.
const ITEMS_MAX: usize = 10_000;

/// What waits, by application.
#[derive(Default)]
pub(super) struct Early {
    ops: BTreeMap<Arc<str>, Vec<Op>>,
    items: usize,
}

impl Early {
    pub(super) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    fn take(&mut self, id: &Arc<str>) -> Vec<Op> {
        let ops = self.ops.remove(id).unwrap_or_default();
        self.items -= ops.len();
        ops
    }
}

impl Partition {
    /// Something was wanted of an application that is not here.
    pub(super) fn unknown_application(
        &mut self,
        id: &Arc<str>,
        ops: Vec<Op>,
        window: Duration,
        baton: &mut Baton,
    ) {
        let (asks, others): (Vec<Op>, Vec<Op>) = ops.into_iter().partition(|op| spec(op).is_some());
        let ignored = others.iter().map(|_| Saying::Ignored(Ignored::ReleaseOfUnknown));
        baton.said.extend(ignored);
        if asks.is_empty() {
            return;
        }
        if window.is_zero() || self.early.items + asks.len() > ITEMS_MAX {
            reject(id, &asks, baton);
            return;
        }
        self.early.items += asks.len();
        let waiting = self.early.ops.entry(Arc::clone(id)).or_default();
        if waiting.is_empty() {
            baton.alarms.push((window, Alarm::ReorderWindow { id: Arc::clone(id) }));
        }
        waiting.extend(asks);
    }

    /// The application has come: what waited for it is done after it has joined.
    pub(super) fn join_early(&mut self, id: &Arc<str>, baton: &Baton) {
        let ops = self.early.take(id);
        if let Some(slot) = baton.directory.application_by_id.get(id).filter(|_| !ops.is_empty()) {
            self.agenda.push_back(Task::Visit(*slot, ops));
        }
    }

    /// The window is over, or the application was refused.
    pub(super) fn reject_early(&mut self, id: &Arc<str>, baton: &mut Baton) {
        let ops = self.early.take(id);
        reject(id, &ops, baton);
    }
}

fn reject(id: &Arc<str>, ops: &[Op], baton: &mut Baton) {
    reject_with(id, ops, baton, |_| Rejection::ApplicationUnknown(Arc::clone(id)));
}

/// Rejects what is asked for of an application, each for the reason given.
pub(super) fn reject_with(
    id: &Arc<str>,
    ops: &[Op],
    baton: &mut Baton,
    reason: impl Fn(&AskSpec) -> Rejection,
) {
    for spec in ops.iter().filter_map(spec) {
        baton.tally.ask_rejected(false);
        baton.said.push(Saying::AskRejected {
            form: spec.form,
            key: Arc::clone(&spec.key),
            application: Arc::clone(id),
            reason: reason(spec),
        });
    }
}

/// What is asked for, by an op that asks.
pub(super) fn spec(op: &Op) -> Option<&AskSpec> {
    match op {
        Op::Ask(spec) | Op::Unified(spec) => Some(spec),
        Op::Existing(existing) => Some(&existing.spec),
        _ => None,
    }
}
