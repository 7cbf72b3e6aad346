//! Records failure reasons: with the class of the ask, or with the ask itself while it is in no
//! class.

use super::failures::FailureLog;
use super::table::Asks;
use crate::values::ids::AskSlot;

impl Asks {
    /// Notes that an ask, which has something outstanding, was not placed for a reason that the
    /// program contains.
    pub fn note_failure(&mut self, slot: AskSlot, text: &'static str, now_ns: i64) {
        self.failures_mut(slot).note_fixed(text, now_ns);
    }

    /// Notes reasons of predicates, each with the number of nodes; see [`Self::note_failure`].
    pub fn note_refusals<'a>(
        &mut self,
        slot: AskSlot,
        reasons: impl IntoIterator<Item = (&'a String, &'a u32)>,
        now_ns: i64,
    ) {
        let log = self.failures_mut(slot);
        for (text, nodes) in reasons {
            log.note(text, *nodes, now_ns);
        }
    }

    /// Returns why an ask was not placed so far; `None` if it was never tried without result.
    pub fn failures(&self, slot: AskSlot) -> Option<&FailureLog> {
        let class = self.ask(slot).class.map(|class| self.class(class));
        let of_class = class.and_then(|class| class.failures.as_deref());
        of_class.or_else(|| self.ask(slot).refusals()?.failures.as_deref())
    }

    /// Returns why the ask with the RM's key was not placed so far.
    pub fn failures_of(&self, key: &str) -> Option<&FailureLog> {
        self.failures(self.slot_of(key)?)
    }

    fn failures_mut(&mut self, slot: AskSlot) -> &mut FailureLog {
        match self.ask(slot).class {
            Some(class) => self.classes[class].failures.get_or_insert_default(),
            None => self.ask_mut(slot).refusals_mut().failures.get_or_insert_default(),
        }
    }

    /// Moves the log, if there is one, with an ask that has left its class.
    pub(super) fn take_along(&mut self, slot: AskSlot, log: Option<Box<FailureLog>>) {
        if log.is_some() {
            self.ask_mut(slot).refusals_mut().failures = log;
        }
    }
}
