//! The record of recent decisions and their reasons, for people who ask why one ask was placed
//! before another.
//!
//! # What is a decision
//! A decision is an allocation that the RM is notified of, a reservation of a node, or an eviction
//! of an allocation for another. Reports and releases by the RM are no decisions, and neither are
//! automatic events such as a timeout.
//!
//! # Why figures and not sentences
//! A decision takes some microseconds, and nearly all decisions are never read. So the compared
//! values are recorded (numbers, names as bytes), in rings that were allocated once; sentences are
//! made only for the decisions that are read ([`Kept::shown`]).
//!
//! # From an offer to a decision
//! ```text
//! search for a node  ─▸ search()         which nodes were passed over, how many were tried
//! the ask is decided ─▸ begin() ─▸ Way   the order at each level, the rule
//! told at once       ─▸ keep()
//! told later         ─▸ put_aside(…), keep_aside(…), or never: what was put aside for something
//!                       that cannot be told any more is forgotten
//! ```
//!
//! # Invariants
//! * Numbers of recorded decisions rise by one, from 1 on.
//! * Memory is bounded, and allocated once: at most the configured number of decisions is kept,
//!   fewer if names are long or queues are deep. The notes put aside are at most twice as many as
//!   the decisions that may still be reported.
//! * If no decisions are kept, nothing is noted and nothing is allocated.
//!
//! ```
//! use monoceros_rules::decisions::{Decisions, Told, Ruled};
//! use monoceros_rules::order::keys::{SiblingOrder, Verdict};
//!
//! let mut decisions = Decisions::new(100);
//! let way = decisions.begin().expect("decisions are kept");
//! way.is_of("root.a", "app-1");
//! way.level(4, SiblingOrder::Queues, Verdict::Alone, None);
//! way.level(6, SiblingOrder::Fifo, Verdict::Submitted { first: 1, second: 2 }, Some("app-2"));
//! let (key, pod, node) = ("ask-1", Some("team/p"), "n1");
//! decisions.keep(&Told { at_ns: 5, ruled: Ruled::FirstNode, key, pod, node });
//!
//! let kept = decisions.get(1).expect("it was the first").shown();
//! assert_eq!((&*kept.queue, &*kept.key, &*kept.pod), ("root.a", "ask-1", "team/p"));
//! assert_eq!(kept.levels[1].runner_up.as_deref(), Some("app-2"));
//! ```

mod ring;
mod ruled;
mod shown;
#[cfg(test)]
mod tests;
mod way;

use std::fmt::Write as _;

use rustc_hash::FxHashMap;

use crate::allocations::Grounds;
use crate::nodes::PassedOver;
use crate::values::ids::{AllocationId, NodeSlot};
use ring::{Place, Ring};
pub use ruled::{DecisionKind, Ruled};
pub use shown::{CopiedDecision, Kept, ShownDecision, ShownLevel, ShownPassed};
use way::{Level, Passed, Text};
pub use way::{Way, Why};

/// The maximum number of decisions that can be kept of a partition.
pub const KEPT_MAX: usize = 100_000;

/// The capacity for names, in bytes for each decision to be kept.
const TEXT_EACH: usize = 192;
/// The capacity for levels of the queue tree, for each decision to be kept.
const LEVELS_EACH: usize = 4;
/// The least capacities, however few decisions are kept: enough for the names and the levels of one
/// decision.
const TEXT_LEAST: usize = 1 << 17;
const LEVELS_LEAST: usize = 256;
/// The capacity for reasons why nodes were passed over, for each decision to be kept.
const PASSED_EACH: usize = 2;
const PASSED_LEAST: usize = 64;

/// The application that a decision is about.
#[derive(Clone, Copy)]
pub struct DecidedFor<'a> {
    /// The path of its leaf.
    pub leaf: &'a str,
    /// The id of the application.
    pub id: &'a str,
}

/// The last decisions of a partition.
#[derive(Debug)]
pub struct Decisions {
    most: usize,
    kept: Rings,
    search: Search,
    way: Way,
    /// The allocation that `way` is about and that is reported next.
    way_of: Option<AllocationId>,
    aside: FxHashMap<Later, Way>,
    /// Ways that are not used now and can be reused.
    spare: Vec<Way>,
}

/// The kept decisions.
#[derive(Debug)]
struct Rings {
    /// The number of the last recorded decision.
    last: u64,
    entries: Ring<Entry>,
    levels: Ring<Level>,
    passed: Ring<Passed>,
    text: Ring<u8>,
}

/// The kept facts of one decision.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    at_ns: i64,
    decided_ns: i64,
    ruled: Ruled,
    tried: u32,
    levels: Place,
    passed: Place,
    text: Place,
    queue: Text,
    application: Text,
    key: Text,
    pod: Text,
    node: Text,
    preempted_for: Text,
}

/// The facts that are known when a decision is reported.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The time, ns since the epoch.
    pub at_ns: i64,
    /// The rule by which it was made.
    pub ruled: Ruled,
    /// The key of the ask, or of the allocation that is evicted.
    pub key: &'a str,
    /// Namespace and name of its pod, as `NAMESPACE/NAME`; `None` if it is no pod.
    pub pod: Option<&'a str>,
    /// The node.
    pub node: &'a str,
}

/// A decision that is reported later than it is made, if at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Later {
    /// A placement that waits for an answer, or for a placeholder to end.
    Allocation(AllocationId),
    /// A question whether an ask may reserve a node, by its number.
    Claim(u64),
}

/// The results of the present search for a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search {
    /// The number of nodes that were asked.
    pub tried: u32,
    /// The nodes that were passed over.
    pub passed: PassedOver,
}

impl Decisions {
    /// Keeps at most `most` decisions, and no more than [`KEPT_MAX`]; none if it is 0.
    pub fn new(most: usize) -> Self {
        let most = most.min(KEPT_MAX);
        let room = |each: usize, least: usize| if most == 0 { 0 } else { (most * each).max(least) };
        Self {
            most,
            kept: Rings {
                last: 0,
                entries: Ring::new(most),
                levels: Ring::new(room(LEVELS_EACH, LEVELS_LEAST)),
                passed: Ring::new(room(PASSED_EACH, PASSED_LEAST)),
                text: Ring::new(room(TEXT_EACH, TEXT_LEAST)),
            },
            search: Search::default(),
            way: Way::default(),
            way_of: None,
            aside: FxHashMap::default(),
            spare: Vec::new(),
        }
    }

    /// Whether decisions are kept.
    pub fn is_on(&self) -> bool {
        self.most > 0
    }

    /// Returns the maximum number of decisions that are kept.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of the last decision; 0 before the first.
    pub fn last(&self) -> u64 {
        self.kept.last
    }

    /// Returns the number of decisions kept now.
    pub fn len(&self) -> usize {
        // The parts of a decision were stored after those of earlier ones, so the oldest complete
        // decision is found by bisection.
        let last = self.kept.last;
        let oldest = last.saturating_sub(self.most as u64) + 1;
        let (mut gone, mut there) = (oldest, last + 1);
        while gone < there {
            let middle = gone + (there - gone) / 2;
            if self.get(middle).is_some() { there = middle } else { gone = middle + 1 }
        }
        usize::try_from(last + 1 - there).unwrap_or(usize::MAX)
    }

    /// Whether no decision is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maximum number of bytes that the decisions take.
    pub fn bytes(&self) -> usize {
        let Rings { entries, levels, passed, text, .. } = &self.kept;
        entries.bytes() + levels.bytes() + passed.bytes() + text.bytes()
    }

    /// Begins the record of a search for a node. `None` if no decisions are kept.
    pub fn search(&mut self) -> Option<&mut Search> {
        self.is_on().then(|| {
            self.search.tried = 0;
            self.search.passed.clear();
            &mut self.search
        })
    }

    /// Returns the record of the present search. `None` if no decisions are kept.
    pub fn searching(&mut self) -> Option<&mut Search> {
        self.is_on().then_some(&mut self.search)
    }

    /// Begins the notes of a decision. `None` if no decisions are kept.
    pub fn begin(&mut self) -> Option<&mut Way> {
        self.is_on().then(|| {
            self.way.clear();
            self.way_of = None;
            &mut self.way
        })
    }

    /// Records that the notes are about this allocation, which is reported next.
    pub fn is_about(&mut self, id: AllocationId) {
        self.way_of = Some(id);
    }

    /// Copies the results of the present search into the notes.
    pub fn searched<'n>(&mut self, id: impl Fn(NodeSlot) -> &'n str) {
        self.way.searched(self.search.tried, &self.search.passed, id);
    }

    /// Records a decision with the present notes.
    pub fn keep(&mut self, told: &Told<'_>) {
        self.kept.put(&mut self.way, told);
    }

    /// Records the decision behind an allocation when the RM is notified of it. Uses the notes of
    /// the decision [made just now](Self::is_about), or those kept while the placement waited for
    /// an answer. If there are neither, the record has no explanation.
    pub fn keep_allocation(
        &mut self,
        id: AllocationId,
        (leaf, application): (&str, &str),
        told: &Told<'_>,
    ) {
        let is_noted = self.way_of == Some(id);
        if is_noted || !self.keep_aside(Later::Allocation(id), told) {
            if !is_noted {
                self.way.clear();
                self.way.is_of(leaf, application);
            }
            self.keep(told);
        }
    }

    /// Puts the notes aside for a decision that is reported later, if at all. `is_there`: whether
    /// another decision whose notes were put aside may still be reported.
    pub fn put_aside(&mut self, what: Later, at_ns: i64, is_there: impl Fn(Later) -> bool) {
        if self.aside.len() >= ASIDE_LEAST && self.aside.len() == self.aside.capacity() {
            // Before growing, drops the notes that will never be reported.
            let spare = &mut self.spare;
            self.aside.retain(|what, way| {
                let stays = is_there(*what);
                if !stays && spare.len() < ASIDE_LEAST {
                    spare.push(std::mem::take(way));
                }
                stays
            });
        }
        let mut way = self.spare.pop().unwrap_or_default();
        way.clone_from(&self.way);
        way.decided_ns = Some(at_ns);
        self.aside.insert(what, way);
    }

    /// Records a decision whose notes were put aside. Returns `false` if there are none.
    pub fn keep_aside(&mut self, what: Later, told: &Told<'_>) -> bool {
        let Some(mut way) = self.aside.remove(&what) else { return false };
        self.kept.put(&mut way, told);
        if self.spare.len() < ASIDE_LEAST {
            self.spare.push(way);
        }
        true
    }

    /// Records the eviction of an allocation on these grounds.
    pub fn keep_eviction(&mut self, grounds: &Grounds, told: &Told<'_>) {
        self.way.preempted_for.clear();
        let _ = write!(self.way.preempted_for, "{grounds}");
        self.kept.put(&mut self.way, told);
        self.way.preempted_for.clear();
    }

    /// Returns the decision with this number, if it is still kept.
    pub fn get(&self, number: u64) -> Option<Kept<'_>> {
        let Rings { last, entries, levels, passed, text } = &self.kept;
        let behind = last.checked_sub(number).filter(|_| number > 0)?;
        let entry = entries.get(Place::of(number - 1)).filter(|_| behind < self.most as u64)?;
        let entry = entry.first()?;
        Some(Kept {
            number,
            entry,
            levels: levels.get(entry.levels)?,
            passed: passed.get(entry.passed)?,
            text: text.get(entry.text)?,
        })
    }
}

impl Rings {
    fn put(&mut self, way: &mut Way, told: &Told<'_>) {
        let (key, node) = (way.add(told.key), way.add(told.node));
        let pod = told.pod.map(|pod| way.add(pod));
        let preempted_for = way.add_grounds();
        let entry = Entry {
            at_ns: told.at_ns,
            decided_ns: way.decided_ns.unwrap_or(told.at_ns),
            ruled: way.ruled.unwrap_or(told.ruled),
            tried: way.tried,
            levels: self.levels.put(&way.levels),
            passed: self.passed.put(&way.passed),
            text: self.text.put(&way.text),
            queue: way.queue,
            application: way.application,
            key,
            pod: pod.unwrap_or_default(),
            node,
            preempted_for,
        };
        way.forget_behind(key);
        self.entries.put(&[entry]);
        self.last += 1;
    }
}

/// The number of notes put aside from which on those that can never be reported are dropped.
const ASIDE_LEAST: usize = 64;
