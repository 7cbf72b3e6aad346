//! Records the reasons of failures in the class of the ask, or in the ask itself while it is in no
//! class.

use super::failures::FailureLog;
use super::table::Asks;
use crate::values::ids::AskSlot;

impl Asks {
    /// Records why an ask, which has outstanding instances, was not placed. The text is a constant
    /// of the program.
    pub fn note_failure(&mut self, slot: AskSlot, text: &'static str, now_ns: i64) {
        self.failures_mut(slot).note_fixed(text, now_ns);
    }

    /// Records reasons of predicates, each with the number of nodes; see [`Self::note_failure`].
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

    /// Returns why an ask was not placed; `None` if it was never tried without result.
    pub fn failures(&self, slot: AskSlot) -> Option<&FailureLog> {
        let class = self.ask(slot).class.map(|class| self.class(class));
        let of_class = class.and_then(|class| class.failures.as_deref());
        of_class.or_else(|| self.ask(slot).refusals()?.failures.as_deref())
    }

    /// Returns why the ask with the RM's key was not placed.
    pub fn failures_of(&self, key: &str) -> Option<&FailureLog> {
        self.failures(self.slot_of(key)?)
    }

    fn failures_mut(&mut self, slot: AskSlot) -> &mut FailureLog {
        match self.ask(slot).class {
            Some(class) => self.classes[class].failures.get_or_insert_default(),
            None => self.ask_mut(slot).refusals_mut().failures.get_or_insert_default(),
        }
    }

    /// Moves a log, if there is one, to an ask that has left its class.
    pub(super) fn take_along(&mut self, slot: AskSlot, log: Option<Box<FailureLog>>) {
        if log.is_some() {
            self.ask_mut(slot).refusals_mut().failures = log;
        }
    }
}
