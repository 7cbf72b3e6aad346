//! Asks that found no node: what they wait for (applications chapter, 3.1).

use std::sync::Arc;

use monoceros_rules::order::waits::{Parked, WaitSet};
use monoceros_rules::work::asks::{AskSlot, ClassId, Standing};

use super::Application;
use crate::partition::{PREDICATE_RETRY, PREDICATE_RETRY_MAX};
use crate::step::{Alarm, Baton};

impl Application {
    /// No node has room for the class: it waits for one to grow, or for the one it names.
    pub(super) fn park_without_node(&mut self, baton: &mut Baton, class: ClassId) {
        let shape = self.book.asks.shape(class);
        let parked = self.looking(baton, |view| match &shape.required_node {
            Some(_) => Parked::named(view),
            None => Parked::roomless(&shape.resources, view),
        });
        if let Some(name) = &shape.required_node {
            baton.directory.named.enter(name, self.slot);
        }
        self.book.asks.set_waits(class, WaitSet::Parked(Box::new(parked)));
    }

    /// Every node that had room refused the ask, or the one it names did: it waits alone. `judged`
    /// is what [`View::now`] says; 0 stands for a loosening that is not known.
    ///
    /// [`View::now`]: monoceros_rules::order::waits::View::now
    pub(super) fn park_refused(&mut self, baton: &mut Baton, slot: AskSlot, judged: (u64, u64)) {
        self.tell_refusals(baton, slot);
        let ask = self.book.asks.ask(slot);
        let parked = match ask.required_node() {
            Some(name) => {
                baton.directory.named.enter(name, self.slot);
                Parked { judged, ..Parked::default() }
            }
            None => Parked::refused(ask.resources(), judged),
        };
        self.book.asks.single_out(slot, WaitSet::Parked(Box::new(parked)));
        let ask = self.book.asks.ask_mut(slot);
        ask.standing = Standing::Resting;
        baton.directory.refused.insert(self.slot);
        self.arm_retry(baton, slot);
    }

    /// Has an ask that was just singled out tried again when some time has passed.
    pub(super) fn arm_retry(&self, baton: &mut Baton, slot: AskSlot) {
        let ask = self.book.asks.ask(slot);
        let wait = PREDICATE_RETRY.saturating_mul(1 << ask.refusals.clamp(1, 16).saturating_sub(1));
        let alarm = Alarm::PredicateRetry {
            application: self.slot,
            id: Arc::clone(&self.book.id),
            key: Arc::clone(&ask.key),
            retry: ask.retry,
        };
        baton.alarms.push((wait.min(PREDICATE_RETRY_MAX), alarm));
    }
}
