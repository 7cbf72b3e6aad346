//! Checks the history of one resource manager: what it asked for and received, session by session,
//! against the books of its owner at the end.
//!
//! # What is checked
//! * No ask has two live allocations: none is placed twice, or again after its release.
//! * No ask is placed in a later session than the one in which it was withdrawn, or twice since. In
//!   that session one allocation may be on its way, which the owner then releases.
//! * No ask or allocation is lost: none is rejected, and none ends unless the RM releases it.
//! * No node has more allocations than fit on it.
//! * Epochs grow with each registration.
//! * A session that was displaced delivers nothing, except shortly after: its messages may be on
//!   their way. Where the process has shown its proof to another member, the former owner learns
//!   of that later, and its messages are ignored here as the process ignores them.
//! * At rest, RM and owner have the same pending asks and allocations, all releases are answered, and
//!   the claim has the epoch of the RM's session.
//!
//! Keys of asks are never used again. The checker has no clock and no I/O, so that histories that must
//! fail can be written down.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::bed::Books;
use super::rm::{CAPACITY, SIZE};

/// Time after the start of a session within which messages of earlier ones may still arrive: on a
/// busy machine they are read late.
pub const UNDER_WAY: Duration = Duration::from_secs(3);

/// Allocations that fit on a node.
#[expect(clippy::cast_possible_truncation, reason = "a small number")]
const FITS: usize = (CAPACITY / SIZE) as usize;

/// Number of a session, counted by the RM itself from 1.
pub type Session = u32;

/// Something that an RM did or received, with the time since the begin of its history.
#[derive(Clone, Debug)]
pub struct Entry {
    pub at: Duration,
    pub what: Happened,
}

/// Something that an RM did or received.
#[derive(Clone, Debug)]
pub enum Happened {
    /// A registration was answered with this epoch.
    Registered { epoch: u64 },
    /// The RM reports these allocations, with their nodes. Pending releases are carried out with
    /// that, since the allocations are left out.
    Reported {
        session: Session,
        running: BTreeMap<String, String>,
        /// Whether earlier sessions must have ended. False if the process has shown its proof.
        is_alone: bool,
    },
    /// The RM asks for an allocation.
    Asked { key: String },
    /// The RM releases an allocation.
    Releases { key: String },
    /// The RM withdraws an ask that has no allocation.
    Withdraws { key: String },
    /// An allocation was received.
    Placed { session: Session, key: String, node: String },
    /// The end of an allocation was received.
    Released { session: Session, key: String, why: String },
    /// A refusal was received: of an ask, an allocation, a node or an application.
    Rejected { session: Session, key: String, why: String },
    /// A member that is not the owner stands still: answers on their way through it, of sessions up
    /// to this one, may be late.
    Delayed { session: Session },
    /// A call or stream has ended. For people.
    Ended { session: Session, why: String },
    /// The test changed something. For people.
    Noted(String),
}

/// Violations, each with the key that it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Asks with two live allocations, or with one that nobody asked for.
    pub doubled: Vec<String>,
    /// Asks and allocations that ended although the RM did not release them.
    pub lost: Vec<String>,
    /// All other violations.
    pub wrong: Vec<String>,
}

impl Verdict {
    pub fn is_good(&self) -> bool {
        self.doubled.is_empty() && self.lost.is_empty() && self.wrong.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("doubled", &self.doubled), ("lost", &self.lost), ("wrong", &self.wrong)];
        for (name, faults) in parts {
            for fault in faults {
                writeln!(f, "{name}: {fault}")?;
            }
        }
        Ok(())
    }
}

/// Checks a history entry by entry: the state of an RM as its history tells it.
#[derive(Default)]
pub struct Checker {
    session: Session,
    /// Time at which the session began, and whether earlier ones must have ended.
    begun: (Duration, bool),
    epoch: u64,
    /// The last session whose answers may be late.
    delayed: Session,
    pending: BTreeSet<String>,
    running: BTreeMap<String, String>,
    releasing: BTreeSet<String>,
    released: BTreeSet<String>,
    /// Asks that were withdrawn in this session: whether an allocation was received since.
    withdrawn: BTreeMap<String, bool>,
    /// Reported allocations whose answer has not been received. The answer looks like a placement.
    unanswered: BTreeMap<String, String>,
    verdict: Verdict,
}

impl Checker {
    /// Takes the next entry.
    pub fn take(&mut self, Entry { at, what }: &Entry) {
        match what {
            Happened::Registered { epoch } => {
                if *epoch <= self.epoch {
                    let fault = format!("epoch {epoch} after {}", self.epoch);
                    self.verdict.wrong.push(fault);
                }
                self.epoch = *epoch;
            }
            Happened::Reported { session, running, is_alone } => {
                if *running != self.running {
                    let fault = format!("session {session}: the report differs from the history");
                    self.verdict.wrong.push(fault);
                }
                (self.session, self.begun) = (*session, (*at, *is_alone));
                self.released.append(&mut self.releasing);
                self.released.extend(std::mem::take(&mut self.withdrawn).into_keys());
                self.unanswered.clone_from(running);
            }
            Happened::Asked { key } => {
                self.pending.insert(key.clone());
            }
            Happened::Releases { key } => {
                if self.running.remove(key).is_some() {
                    self.releasing.insert(key.clone());
                } else {
                    self.verdict.wrong.push(format!("`{key}` is released and does not run"));
                }
            }
            Happened::Withdraws { key } => {
                if self.pending.remove(key) {
                    self.withdrawn.insert(key.clone(), false);
                } else {
                    self.verdict.wrong.push(format!("`{key}` is withdrawn and is not pending"));
                }
            }
            Happened::Placed { session, key, node } => {
                if self.counts(*at, *session, key) {
                    self.place(key, node);
                }
            }
            Happened::Released { session, key, why } => {
                let counts = self.counts(*at, *session, key);
                let is_withdrawn = self.withdrawn.remove(key).is_some();
                if !counts || self.releasing.remove(key) || is_withdrawn {
                    self.released.insert(key.clone());
                } else if self.running.remove(key).is_some() || self.pending.remove(key) {
                    self.verdict.lost.push(format!("`{key}` is released unasked: {why}"));
                }
            }
            Happened::Rejected { session, key, why } => {
                if self.counts(*at, *session, key) {
                    self.verdict.lost.push(format!("`{key}` is rejected: {why}"));
                }
            }
            Happened::Delayed { session } => self.delayed = *session,
            Happened::Ended { .. } | Happened::Noted(_) => {}
        }
    }

    /// Whether a message is of the present session. An earlier session is a fault if it had to be
    /// over.
    fn counts(&mut self, at: Duration, session: Session, key: &str) -> bool {
        let (begun, is_alone) = self.begun;
        let is_late = is_alone && at > begun + UNDER_WAY && session > self.delayed;
        if session < self.session && is_late {
            let fault = format!("session {session} delivers `{key}` in session {}", self.session);
            self.verdict.wrong.push(fault);
        }
        session == self.session
    }

    /// The violations until now.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    fn place(&mut self, key: &str, node: &str) {
        if let Some(reported) = self.unanswered.remove(key) {
            // It may have been released since it was reported.
            if reported != node {
                let fault = format!("`{key}` runs on `{reported}` and is placed on `{node}`");
                self.verdict.doubled.push(fault);
            }
        } else if self.pending.remove(key) {
            self.running.insert(key.to_owned(), node.to_owned());
            let n_on_node = self.running.values().filter(|other| *other == node).count();
            if n_on_node > FITS {
                self.verdict.doubled.push(format!("`{key}` does not fit on `{node}` any more"));
            }
        } else if let Some(is_placed @ false) = self.withdrawn.get_mut(key) {
            *is_placed = true;
        } else if let Some(first) = self.running.get(key) {
            let fault = format!("`{key}` runs on `{first}` and is placed again on `{node}`");
            self.verdict.doubled.push(fault);
        } else if self.releasing.contains(key)
            || self.released.contains(key)
            || self.withdrawn.contains_key(key)
        {
            self.verdict.doubled.push(format!("`{key}` is placed again after its release"));
        } else {
            self.verdict.doubled.push(format!("`{key}` is placed unasked"));
        }
    }

    /// Compares the state with the books of the owner. Both sides must be at rest.
    pub fn compare(&mut self, books: &Books) {
        if self.epoch != books.epoch {
            let fault = format!("the RM has epoch {}, its claim {}", self.epoch, books.epoch);
            self.verdict.wrong.push(fault);
        }
        for key in &self.releasing {
            self.verdict.wrong.push(format!("the release of `{key}` has no answer"));
        }
        for (key, node) in &self.running {
            match books.running.get(key) {
                Some(other) if other == node => {}
                Some(other) => {
                    let fault = format!("`{key}` runs on `{node}`, for the owner on `{other}`");
                    self.verdict.wrong.push(fault);
                }
                None => self.verdict.lost.push(format!("the owner has no allocation `{key}`")),
            }
        }
        for key in books.running.keys().filter(|key| !self.running.contains_key(*key)) {
            let fault = format!("the owner has an allocation `{key}`, the RM has none");
            self.verdict.doubled.push(fault);
        }
        for key in self.pending.difference(&books.pending) {
            self.verdict.lost.push(format!("the owner has no ask `{key}`"));
        }
        for key in books.pending.difference(&self.pending) {
            self.verdict.wrong.push(format!("the owner has an ask `{key}`, the RM has none"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(key: &str) -> Happened {
        Happened::Asked { key: key.to_owned() }
    }

    fn releases(key: &str) -> Happened {
        Happened::Releases { key: key.to_owned() }
    }

    fn withdraws(key: &str) -> Happened {
        Happened::Withdraws { key: key.to_owned() }
    }

    fn placed(session: Session, key: &str, node: &str) -> Happened {
        Happened::Placed { session, key: key.to_owned(), node: node.to_owned() }
    }

    fn released(session: Session, key: &str) -> Happened {
        Happened::Released { session, key: key.to_owned(), why: String::new() }
    }

    fn reported(session: Session, running: &[(&str, &str)], is_alone: bool) -> Happened {
        let text = |(key, node): &(&str, &str)| ((*key).to_owned(), (*node).to_owned());
        Happened::Reported { session, running: running.iter().map(text).collect(), is_alone }
    }

    fn registered(epoch: u64) -> Happened {
        Happened::Registered { epoch }
    }

    fn books(running: &[(&str, &str)], pending: &[&str]) -> Books {
        let text = |(key, node): &(&str, &str)| ((*key).to_owned(), (*node).to_owned());
        let pending = pending.iter().map(|key| (*key).to_owned()).collect();
        Books { running: running.iter().map(text).collect(), pending, epoch: 3 }
    }

    fn check(history: &[Entry], books: Option<&Books>) -> Verdict {
        let mut checker = Checker::default();
        for entry in history {
            checker.take(entry);
        }
        if let Some(books) = books {
            checker.compare(books);
        }
        checker.verdict
    }

    /// Checks a history with an entry every four seconds. Returns the numbers of violations: doubled,
    /// lost, wrong.
    fn faults(history: &[Happened], books: Option<&Books>) -> [usize; 3] {
        let entry = |(at, what): (u64, &Happened)| Entry {
            at: Duration::from_secs(4 * at),
            what: what.clone(),
        };
        let history: Vec<_> = (0..).zip(history).map(entry).collect();
        let verdict = check(&history, books);
        [verdict.doubled.len(), verdict.lost.len(), verdict.wrong.len()]
    }

    /// A takeover: `a` runs through it, `b` is pending in it, `c` is released in it.
    fn takeover() -> Vec<Happened> {
        vec![
            registered(1),
            reported(1, &[], true),
            asked("a"),
            asked("b"),
            asked("c"),
            placed(1, "a", "n1"),
            placed(1, "c", "n1"),
            releases("c"),
            registered(3),
            reported(2, &[("a", "n1")], true),
            placed(2, "a", "n1"),
            placed(2, "b", "n2"),
            releases("a"),
            released(2, "a"),
        ]
    }

    #[test]
    fn a_takeover_is_good() {
        assert_eq!(faults(&takeover(), Some(&books(&[("b", "n2")], &[]))), [0, 0, 0]);
    }

    #[test]
    fn a_second_allocation_of_an_ask_is_doubled() {
        for again in [placed(2, "b", "n2"), placed(2, "b", "n3"), placed(2, "a", "n1")] {
            let history = [takeover(), vec![again]].concat();
            assert_eq!(faults(&history, None), [1, 0, 0]);
        }
        let elsewhere = [reported(3, &[("b", "n2")], true), placed(3, "b", "n4")];
        assert_eq!(faults(&[takeover(), elsewhere.to_vec()].concat(), None), [1, 0, 0]);
    }

    #[test]
    fn an_answer_to_a_report_comes_once() {
        let history = [takeover(), vec![reported(3, &[("b", "n2")], true)]].concat();
        let answer = placed(3, "b", "n2");
        assert_eq!(faults(&[history.clone(), vec![answer.clone()]].concat(), None), [0, 0, 0]);
        assert_eq!(faults(&[history, vec![answer.clone(), answer]].concat(), None), [1, 0, 0]);
    }

    #[test]
    fn an_allocation_that_nobody_asked_for_is_doubled() {
        let history = [takeover(), vec![placed(2, "z", "n1")]].concat();
        assert_eq!(faults(&history, None), [1, 0, 0]);
    }

    #[test]
    fn an_allocation_of_a_withdrawn_ask_comes_once_and_in_its_session() {
        let history = [takeover(), vec![asked("d"), withdraws("d")]].concat();
        let with = |more: &[Happened]| faults(&[&history[..], more].concat(), None);
        let placed_in = |session| placed(session, "d", "n1");
        assert_eq!(with(&[]), [0, 0, 0]);
        assert_eq!(with(&[placed_in(2), released(2, "d")]), [0, 0, 0]);
        assert_eq!(with(&[placed_in(2), placed_in(2)]), [1, 0, 0]);
        assert_eq!(with(&[placed_in(2), released(2, "d"), placed_in(2)]), [1, 0, 0]);
        assert_eq!(with(&[reported(3, &[("b", "n2")], true), placed_in(3)]), [1, 0, 0]);
        // The owner that keeps it is found at rest.
        let of_owner = books(&[("b", "n2"), ("d", "n1")], &[]);
        let history = [history.clone(), vec![placed_in(2)]].concat();
        assert_eq!(faults(&history, Some(&of_owner)), [1, 0, 0]);
        let history = [takeover(), vec![withdraws("b")]].concat();
        assert_eq!(faults(&history, None), [0, 0, 1]);
    }

    #[test]
    fn more_allocations_than_fit_on_a_node_are_doubled() {
        let keys: Vec<_> = (0..=FITS).map(|number| format!("k{number}")).collect();
        let history: Vec<_> =
            keys.iter().flat_map(|key| [asked(key), placed(2, key, "n1")]).collect();
        assert_eq!(faults(&[takeover(), history].concat(), None), [1, 0, 0]);
    }

    #[test]
    fn an_allocation_that_ends_unasked_is_lost() {
        let history = [takeover(), vec![released(2, "b")]].concat();
        assert_eq!(faults(&history, None), [0, 1, 0]);
        let refused =
            Happened::Rejected { session: 2, key: "b".to_owned(), why: "no queue".to_owned() };
        assert_eq!(faults(&[takeover(), vec![refused]].concat(), None), [0, 1, 0]);
    }

    #[test]
    fn an_epoch_that_goes_back_is_wrong() {
        for epoch in [3, 2] {
            let history = [takeover(), vec![registered(epoch)]].concat();
            assert_eq!(faults(&history, None), [0, 0, 1]);
        }
    }

    #[test]
    fn a_displaced_session_is_silent_unless_a_proof_displaced_it() {
        for (is_alone, wrong) in [(true, 1), (false, 0)] {
            let again = [reported(3, &[("b", "n2")], is_alone), placed(2, "z", "n1")];
            let history = [takeover(), again.to_vec()].concat();
            assert_eq!(faults(&history, None), [0, 0, wrong]);
        }
        let delayed = Happened::Delayed { session: 2 };
        let again = [delayed, reported(3, &[("b", "n2")], true), placed(2, "z", "n1")];
        assert_eq!(faults(&[takeover(), again.to_vec()].concat(), None), [0, 0, 0]);
        let at_once = [reported(3, &[("b", "n2")], true), placed(2, "z", "n1")];
        let entry = |what| Entry { at: UNDER_WAY, what };
        let history: Vec<_> =
            [takeover(), at_once.to_vec()].concat().into_iter().map(entry).collect();
        assert!(check(&history, None).is_good(), "messages under way");
    }

    #[test]
    fn a_report_that_differs_from_the_history_is_wrong() {
        let history = [takeover(), vec![reported(3, &[], true)]].concat();
        assert_eq!(faults(&history, None), [0, 0, 1]);
    }

    #[test]
    fn books_that_differ_at_the_end_are_found() {
        let history = [takeover(), vec![asked("d")]].concat();
        let good = books(&[("b", "n2")], &["d"]);
        assert_eq!(faults(&history, Some(&good)), [0, 0, 0]);
        for (books, expected) in [
            (books(&[], &["d"]), [0, 1, 0]),
            (books(&[("b", "n2")], &[]), [0, 1, 0]),
            (books(&[("b", "n1")], &["d"]), [0, 0, 1]),
            (books(&[("b", "n2"), ("a", "n1")], &["d"]), [1, 0, 0]),
            (books(&[("b", "n2")], &["d", "e"]), [0, 0, 1]),
        ] {
            assert_eq!(faults(&history, Some(&books)), expected, "{books:?}");
        }
        let of_another_session = Books { epoch: 4, ..good.clone() };
        assert_eq!(faults(&history, Some(&of_another_session)), [0, 0, 1]);
        let unanswered = [history, vec![releases("b")]].concat();
        assert_eq!(faults(&unanswered, Some(&books(&[], &["d"]))), [0, 0, 1]);
    }
}
