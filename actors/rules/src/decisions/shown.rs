//! The shown form of a recorded decision.

use std::sync::Arc;

use super::way::{Level, Passed, Why};
use super::{DecisionKind, Entry};
use crate::order::keys::Verdict;

/// A recorded decision, before it is converted into text.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    pub(super) number: u64,
    pub(super) entry: &'a Entry,
    pub(super) levels: &'a [Level],
    pub(super) passed: &'a [Passed],
    pub(super) text: &'a [u8],
}

/// A copy of a recorded decision, to be converted into text elsewhere.
#[derive(Clone, Debug)]
pub struct CopiedDecision {
    number: u64,
    entry: Entry,
    levels: Box<[Level]>,
    passed: Box<[Passed]>,
    text: Box<[u8]>,
}

impl CopiedDecision {
    /// Returns the recorded decision.
    pub fn kept(&self) -> Kept<'_> {
        let Self { number, entry, levels, passed, text } = self;
        Kept { number: *number, entry, levels, passed, text }
    }
}

/// A decision, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownDecision {
    /// The number of the decision, which rises by one with each decision of the partition.
    pub number: u64,
    /// The time of the notification, ns since the epoch.
    pub at_ns: i64,
    /// The time of the decision, ns since the epoch, if it was earlier than the notification
    /// because an answer or the end of a placeholder was awaited.
    pub decided_ns: Option<i64>,
    /// The kind of the decision.
    pub kind: DecisionKind,
    /// The rule, in one sentence.
    pub ruled: String,
    /// The application of the ask, or of the evicted allocation.
    pub application: Arc<str>,
    /// The key of the ask or allocation.
    pub key: Arc<str>,
    /// Namespace and name of its pod; empty if it is no pod.
    pub pod: Arc<str>,
    /// The path of its leaf.
    pub queue: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// The first child at each level from root to the leaf, with the reason.
    pub levels: Vec<ShownLevel>,
    /// The number of nodes that were asked.
    pub tried: u32,
    /// Counts of the nodes that were passed over, by reason.
    pub passed: Vec<ShownPassed>,
    /// The preemptor for which it is evicted; empty for other decisions.
    pub preempted_for: String,
}

/// The choice between the children of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownLevel {
    /// The path of the queue.
    pub queue: Arc<str>,
    /// The policy of the order.
    pub order: &'static str,
    /// The path of the queue, or the id of the application, that came first; for victims, a key.
    pub chosen: Arc<str>,
    /// The second, if there was one.
    pub runner_up: Option<Arc<str>>,
    /// Namespace and name of the pod of the second candidate for eviction; empty if this is not the
    /// choice of a victim, or the candidate is no pod.
    pub runner_up_pod: Arc<str>,
    /// The reason why the first comes before the second.
    pub rule: String,
}

/// Nodes that were passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownPassed {
    /// The reason.
    pub reason: &'static str,
    /// The number of nodes.
    pub nodes: u32,
    /// An example of these nodes, if one is known.
    pub example: Option<Arc<str>>,
}

impl<'a> Kept<'a> {
    /// Returns a copy that does not borrow from the record.
    pub fn copied(&self) -> CopiedDecision {
        CopiedDecision {
            number: self.number,
            entry: *self.entry,
            levels: self.levels.into(),
            passed: self.passed.into(),
            text: self.text.into(),
        }
    }

    /// Returns the number of the decision.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the kind of the decision.
    pub fn kind(&self) -> DecisionKind {
        self.entry.ruled.kind()
    }

    /// Returns the id of the application.
    pub fn application(&self) -> &'a str {
        self.entry.application.of(self.text)
    }

    /// Returns the key of the ask or allocation.
    pub fn key(&self) -> &'a str {
        self.entry.key.of(self.text)
    }

    /// Returns namespace and name of the pod; empty if it is no pod.
    pub fn pod(&self) -> &'a str {
        self.entry.pod.of(self.text)
    }

    /// Returns the path of the leaf.
    pub fn queue(&self) -> &'a str {
        self.entry.queue.of(self.text)
    }

    /// Returns the id of the node.
    pub fn node(&self) -> &'a str {
        self.entry.node.of(self.text)
    }

    /// Returns the decision as text for people.
    pub fn shown(&self) -> ShownDecision {
        let entry = self.entry;
        let passed = self.passed.iter().filter_map(|passed| {
            let example = (!passed.example.is_empty()).then(|| passed.example.of(self.text).into());
            Some(ShownPassed { reason: passed.why?.text(), nodes: passed.nodes, example })
        });
        ShownDecision {
            number: self.number,
            at_ns: entry.at_ns,
            decided_ns: Some(entry.decided_ns).filter(|decided_ns| *decided_ns < entry.at_ns),
            kind: self.kind(),
            ruled: entry.ruled.to_string(),
            application: self.application().into(),
            key: self.key().into(),
            pod: self.pod().into(),
            queue: self.queue().into(),
            node: self.node().into(),
            levels: (0..self.levels.len()).map(|at| self.level(at)).collect(),
            tried: entry.tried,
            passed: passed.collect(),
            preempted_for: entry.preempted_for.of(self.text).to_owned(),
        }
    }

    fn level(&self, at: usize) -> ShownLevel {
        let level = &self.levels[at];
        let path = |level: &Level| self.entry.queue.start(level.queue).of(self.text);
        let queue = path(level);
        let (order, is_queue, rule) = match level.why {
            Why::Sibling(order, verdict) => {
                let is_queue = self.levels.get(at + 1).is_some();
                (order.text(), is_queue, explained(level, &verdict))
            }
            Why::Victim(choice) => ("preemption", false, choice.to_string()),
        };
        let second = level.runner_up.of(self.text);
        let second = (!second.is_empty()).then_some(second);
        let chosen = match (level.why, self.levels.get(at + 1)) {
            (_, Some(below)) => path(below),
            (Why::Sibling(..), None) => self.application(),
            (Why::Victim(_), None) => self.key(),
        };
        let runner_up = second.map(|name| {
            // Only the name was recorded, since a sibling has the same parent.
            if is_queue { format!("{queue}.{name}").into() } else { Arc::from(name) }
        });
        let runner_up_pod = level.runner_up_pod.of(self.text).into();
        let (queue, chosen) = (queue.into(), chosen.into());
        ShownLevel { queue, order, chosen, runner_up, runner_up_pod, rule }
    }
}

/// Returns the verdict as text, with the meaning of its figures.
fn explained(level: &Level, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Priority { .. } if level.is_fenced => format!("{verdict} (that of its fence)"),
        Verdict::Share { .. } | Verdict::Usage { .. } if level.is_of_guarantee => {
            format!("{verdict} (of what is guaranteed)")
        }
        _ => verdict.to_string(),
    }
}
