//! The notes about one decision, taken while it is made.

use super::Ruled;
use crate::decide::preemption::Choice;
use crate::nodes::{PassedFor, PassedOver};
use crate::order::keys::{SiblingOrder, Verdict};
use crate::values::ids::NodeSlot;

/// A name within the text of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    at: u16,
    len: u16,
}

impl Text {
    pub(super) fn of(self, text: &[u8]) -> &str {
        let from = usize::from(self.at);
        let bytes = text.get(from..from + usize::from(self.len));
        debug_assert!(bytes.is_some(), "a name is taken out where it was put in");
        let name = std::str::from_utf8(bytes.unwrap_or_default());
        debug_assert!(name.is_ok(), "a name ends where a character does");
        name.unwrap_or_default()
    }

    /// Returns the first `len` bytes of the name.
    pub(super) fn start(self, len: u16) -> Self {
        Self { len: self.len.min(len), ..self }
    }

    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// The reason why the first child of a level comes before the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The order of siblings.
    Sibling(SiblingOrder, Verdict),
    /// The order of candidates for eviction.
    Victim(Choice),
}

impl Default for Why {
    fn default() -> Self {
        Self::Victim(Choice::Only)
    }
}

/// The choice between the children of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    /// The length of the queue's path in bytes. The path is the beginning of the leaf's path.
    pub(super) queue: u16,
    /// Whether the compared priority is that of a fence.
    pub(super) is_fenced: bool,
    /// Whether the share is one of the guarantee, not of the maximum.
    pub(super) is_of_guarantee: bool,
    pub(super) why: Why,
    /// The second child; empty if there was none.
    pub(super) runner_up: Text,
    /// The pod of the second candidate for eviction; empty if this is not the choice of a victim,
    /// or the candidate is no pod.
    pub(super) runner_up_pod: Text,
}

/// Nodes that were passed over for one reason.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    pub(super) why: Option<PassedFor>,
    pub(super) nodes: u32,
    /// An example of these nodes; empty if none is known.
    pub(super) example: Text,
}

/// The notes of one decision.
#[derive(Debug, Default)]
pub struct Way {
    pub(super) queue: Text,
    pub(super) application: Text,
    pub(super) levels: Vec<Level>,
    pub(super) passed: Vec<Passed>,
    pub(super) text: Vec<u8>,
    pub(super) tried: u32,
    /// The rule, if it is known before the notification.
    pub ruled: Option<Ruled>,
    /// Decision time, ns since the epoch, if earlier than the notification.
    pub(super) decided_ns: Option<i64>,
    pub(super) preempted_for: String,
}

impl Clone for Way {
    fn clone(&self) -> Self {
        let mut way = Self::default();
        way.clone_from(self);
        way
    }

    /// Copies the other notes into the memory that is already allocated.
    fn clone_from(&mut self, other: &Self) {
        self.levels.clone_from(&other.levels);
        self.passed.clone_from(&other.passed);
        self.text.clone_from(&other.text);
        self.preempted_for.clone_from(&other.preempted_for);
        (self.queue, self.application) = (other.queue, other.application);
        (self.tried, self.ruled, self.decided_ns) = (other.tried, other.ruled, other.decided_ns);
    }
}

impl Way {
    pub(super) fn clear(&mut self) {
        self.levels.clear();
        self.passed.clear();
        self.text.clear();
        self.preempted_for.clear();
        (self.tried, self.ruled, self.decided_ns) = (0, None, None);
    }

    /// Sets the path of the leaf, and the application.
    #[inline]
    pub fn is_of(&mut self, leaf: &str, application: &str) {
        self.queue = self.add(leaf);
        self.application = self.add(application);
    }

    /// Notes that a queue chose between its children. Its path is the first `queue` bytes of the
    /// leaf's path.
    #[inline]
    pub fn level(
        &mut self,
        queue: usize,
        order: SiblingOrder,
        verdict: Verdict,
        runner_up: Option<&str>,
    ) {
        self.push(queue, Why::Sibling(order, verdict), runner_up);
    }

    /// Notes what the figures of the last level are: the priority of a fence, a share of a
    /// guarantee.
    #[inline]
    pub fn figures_are(&mut self, of_fence: bool, of_guarantee: bool) {
        if let Some(level) = self.levels.last_mut() {
            (level.is_fenced, level.is_of_guarantee) = (of_fence, of_guarantee);
        }
    }

    /// Notes that an allocation of the leaf was chosen as a victim. `runner_up` has the key and the
    /// pod of the next candidate.
    pub fn victim(&mut self, choice: Choice, runner_up: Option<(&str, Option<&str>)>) {
        self.push(usize::MAX, Why::Victim(choice), runner_up.map(|(key, _)| key));
        let pod = runner_up.and_then(|(_, pod)| pod).map(|pod| self.add(pod));
        if let Some(level) = self.levels.last_mut() {
            level.runner_up_pod = pod.unwrap_or_default();
        }
    }

    fn push(&mut self, queue: usize, why: Why, runner_up: Option<&str>) {
        let runner_up = runner_up.map(|name| self.add(name)).unwrap_or_default();
        let queue = u16::try_from(queue).unwrap_or(u16::MAX);
        self.levels.push(Level { queue, why, runner_up, ..Level::default() });
    }

    /// Notes how many nodes were asked, and which were passed over.
    pub(super) fn searched<'n>(
        &mut self,
        tried: u32,
        passed: &PassedOver,
        id: impl Fn(NodeSlot) -> &'n str,
    ) {
        self.tried = tried;
        for (why, nodes, example) in passed.iter() {
            let example = example.map(|node| self.add(id(node))).unwrap_or_default();
            self.passed.push(Passed { why: Some(why), nodes, example });
        }
    }

    /// Adds a name. It is stored as empty if there is no capacity left, since the length of names
    /// is not bounded here.
    pub(super) fn add(&mut self, name: &str) -> Text {
        let (Ok(at), Ok(len)) = (u16::try_from(self.text.len()), u16::try_from(name.len())) else {
            return Text::default();
        };
        self.text.extend_from_slice(name.as_bytes());
        Text { at, len }
    }

    /// Adds the text of the grounds for the eviction, if there are any.
    pub(super) fn add_grounds(&mut self) -> Text {
        if self.preempted_for.is_empty() {
            return Text::default();
        }
        let grounds = std::mem::take(&mut self.preempted_for);
        let text = self.add(&grounds);
        self.preempted_for = grounds;
        text
    }

    /// Removes the text that was added from this name on.
    pub(super) fn forget_behind(&mut self, name: Text) {
        self.text.truncate(usize::from(name.at));
    }
}
