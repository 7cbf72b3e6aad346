//! The reasons why an ask was not placed: each once, with its count and the time when it was found
//! last. They are shown to people with the ask.
//!
//! # Where the log is kept
//! Asks of one shape are tried as one, so their class has the log: a hundred thousand asks that
//! wait for quota need one log. An ask that gets a class of its own takes the log along, and so
//! does the last ask of a class. An ask that was never tried without result has no log.
//!
//! # Invariants
//! * Predicates word their reasons freely, so a log is bounded to [`TEXTS_MAX`] of them; a further
//!   reason replaces the one that was found the longest ago. Of each text at most [`TEXT_BYTES`]
//!   are kept.
//! * Reasons are in the order in which they were found last.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::values::text::beginning;

/// The most reasons of one log.
pub const TEXTS_MAX: usize = 16;

/// The most bytes of a reason.
pub const TEXT_BYTES: usize = 256;

/// The amount of the ask exceeds the headroom of its user or group.
pub const OVER_USER_QUOTA: &str = "Not enough user quota";

/// The amount of the ask exceeds the headroom of its queues.
pub const OVER_QUOTA: &str = "Not enough queue quota";

/// A reason why an ask was not placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The reason.
    pub text: Cow<'static, str>,
    /// The time when it was found last, ns since the epoch.
    pub last_ns: i64,
    /// The number of times that it was found; for predicates, the number of nodes.
    pub count: u32,
}

/// The reasons why an ask, or any ask of its class, was not placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureLog(Vec<Failure>);

impl FailureLog {
    /// Returns the reasons, in the order in which they were found last.
    pub fn iter(&self) -> impl Iterator<Item = &Failure> {
        self.0.iter()
    }

    /// Records that a reason was found this many times now.
    pub fn note(&mut self, text: &str, times: u32, now_ns: i64) {
        let text = beginning(text, TEXT_BYTES);
        self.found(text, times, now_ns, || Cow::Owned(text.to_owned()));
    }

    /// Records a reason once, whose text is a constant of the program.
    pub fn note_fixed(&mut self, text: &'static str, now_ns: i64) {
        self.found(text, 1, now_ns, || Cow::Borrowed(text));
    }

    fn found(
        &mut self,
        text: &str,
        times: u32,
        now_ns: i64,
        owned: impl FnOnce() -> Cow<'static, str>,
    ) {
        let known = self.0.iter().position(|failure| failure.text == text);
        let mut failure = match known {
            Some(at) => self.0.remove(at),
            None => Failure { text: owned(), last_ns: now_ns, count: 0 },
        };
        failure.last_ns = now_ns;
        failure.count = failure.count.saturating_add(times);
        if self.0.len() == TEXTS_MAX {
            self.0.remove(0);
        }
        self.0.push(failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asks::Asks;
    use crate::specs::ask::AskSpec;
    use crate::values::ids::AskSlot;
    use crate::values::resources::Resources;
    use crate::waiting::WaitSet;

    fn spec(key: &str, instances: u32, vcore: i64) -> AskSpec {
        AskSpec { instances, ..AskSpec::new(key, Resources::of(&[("vcore", vcore)])) }
    }

    fn shown(asks: &Asks, slot: AskSlot) -> Vec<String> {
        let log = asks.failures(slot).into_iter().flat_map(FailureLog::iter);
        log.map(|it| format!("{} x{} @{}", it.text, it.count, it.last_ns)).collect()
    }

    #[test]
    fn a_reason_is_there_once_with_its_last_time_and_how_often_in_order_of_the_last_time() {
        let mut log = FailureLog::default();
        log.note_fixed(OVER_QUOTA, 1);
        log.note("taint", 3, 2);
        log.note_fixed(OVER_QUOTA, 3);
        let shown: Vec<_> = log.iter().map(|it| (&*it.text, it.last_ns, it.count)).collect();
        assert_eq!(shown, [("taint", 2, 3), (OVER_QUOTA, 3, 2)]);
        log.note("taint", u32::MAX, 4);
        assert_eq!(log.iter().last().unwrap().count, u32::MAX);
    }

    #[test]
    fn a_log_has_a_bound_and_so_has_a_text() {
        let mut log = FailureLog::default();
        for number in 0..TEXTS_MAX + 2 {
            log.note(&format!("reason {number}"), 1, 0);
        }
        assert_eq!(log.iter().count(), TEXTS_MAX);
        assert_eq!(log.iter().next().unwrap().text, "reason 2");
        let overlong = "é".repeat(TEXT_BYTES);
        log.note(&overlong, 1, 1);
        log.note(&overlong, 1, 2);
        let last = log.iter().last().unwrap();
        assert_eq!((last.text.len(), last.count), (TEXT_BYTES, 2));
    }

    #[test]
    fn what_is_noted_of_one_ask_is_shown_of_all_of_its_shape_and_of_no_other() {
        let mut asks = Asks::new();
        let (a, _) = asks.put(spec("a", 1, 1), 0, 1);
        let (b, _) = asks.put(spec("b", 1, 1), 0, 2);
        let (other, _) = asks.put(spec("other", 1, 2), 0, 3);
        asks.note_failure(a, OVER_QUOTA, 5);
        assert_eq!(shown(&asks, a), ["Not enough queue quota x1 @5"]);
        assert_eq!(shown(&asks, b), shown(&asks, a));
        assert_eq!(shown(&asks, other), [""; 0]);
        assert!(asks.ask(a).refusals().is_none(), "the asks themselves have not grown");
    }

    #[test]
    fn an_ask_that_is_singled_out_takes_a_copy_along() {
        let mut asks = Asks::new();
        let (a, _) = asks.put(spec("a", 1, 1), 0, 1);
        let (b, _) = asks.put(spec("b", 1, 1), 0, 2);
        asks.note_failure(a, OVER_QUOTA, 5);
        asks.single_out(a, WaitSet::Due);
        asks.note_refusals(a, [(&"taint".to_owned(), &2)], 6);
        assert_eq!(shown(&asks, a), ["Not enough queue quota x1 @5", "taint x2 @6"]);
        assert_eq!(shown(&asks, b), ["Not enough queue quota x1 @5"]);
    }

    #[test]
    fn a_log_survives_a_placement_that_is_taken_back() {
        let mut asks = Asks::new();
        let (a, _) = asks.put(spec("a", 1, 1), 0, 1);
        asks.note_failure(a, OVER_QUOTA, 5);
        asks.take_one(a);
        asks.give_back(a);
        assert_eq!(shown(&asks, a), ["Not enough queue quota x1 @5"]);
        asks.resize(a, Resources::of(&[("vcore", 9)]));
        assert_eq!(shown(&asks, a), ["Not enough queue quota x1 @5"]);
    }

    #[test]
    fn an_ask_that_replaces_another_begins_without_a_log() {
        let mut asks = Asks::new();
        let (a, _) = asks.put(spec("a", 1, 1), 0, 1);
        asks.note_failure(a, OVER_QUOTA, 5);
        asks.put(spec("a", 2, 1), 6, 2);
        assert_eq!(shown(&asks, a), [""; 0]);
    }
}
