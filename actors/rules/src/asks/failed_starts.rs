//! Failed starts of a request: its back-off before the next try, and the nodes on which it failed
//! (`docs/scheduling.md#starts-that-fail`).
//!
//! # Why a back-off
//! A resource manager that cannot start an allocation gives it back, and the request is pending
//! again. If the request were tried again at once, it would come first again, and no other that
//! needs the same capacity would ever run. So the request waits, twice as long each time, and
//! others get the capacity.
//!
//! # When a start has succeeded
//! The interface has no message that an allocation runs. An allocation counts as started when the
//! resource manager reports it as running, or has not given it back for the longest back-off.
//!
//! ```
//! use monoceros_rules::asks::failed_starts::{FailedStart, FailedStarts, StartRetry};
//! use std::sync::Arc;
//!
//! let retry = StartRetry::default();
//! let seconds = |ns: Option<i64>| ns.map(|ns| ns / 1_000_000_000);
//! let failed = |at: i64| FailedStart {
//!     node: Some(Arc::from("n1")),
//!     reason: Arc::from("image not found"),
//!     at_ns: at * 1_000_000_000,
//! };
//! let mut starts = FailedStarts::default();
//! assert_eq!(seconds(starts.note(failed(10), &retry)), Some(11), "tried again after a second");
//! assert_eq!(starts.note(failed(10), &retry), None, "others of it that failed meanwhile");
//! assert!(starts.end_backoff(11_000_000_000));
//! assert_eq!(seconds(starts.note(failed(11), &retry)), Some(13), "then after two");
//! assert_eq!((starts.times(), starts.since_ns() / 1_000_000_000), (3, 10));
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::values::instant::rfc3339;
use crate::values::text::beginning;
use crate::values::usual::is_usual;

/// The most nodes that are remembered for one request: those of its last failed starts.
pub const NODES_REMEMBERED: usize = 8;

/// The most bytes that are kept of the resource manager's reason.
pub const REASON_BYTES: usize = 256;

/// The shortest back-off, whatever is configured: a request that is tried again at once would leave
/// nothing to others.
const LEAST: Duration = Duration::from_millis(1);

/// The back-off of a request whose start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartRetry {
    /// The back-off after the first failure. It doubles with each further one.
    pub first: Duration,
    /// The longest back-off. An allocation that has existed for this long counts as started.
    pub longest: Duration,
}

impl Default for StartRetry {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}

impl StartRetry {
    /// Returns the back-off after this many consecutive failures.
    ///
    /// ```
    /// use monoceros_rules::asks::failed_starts::StartRetry;
    ///
    /// let retry = StartRetry::default();
    /// assert_eq!([1, 2, 6, 7, 99].map(|times| retry.after(times).as_secs()), [1, 2, 32, 60, 60]);
    /// ```
    pub fn after(&self, times_in_a_row: u32) -> Duration {
        let doublings = times_in_a_row.clamp(1, 31) - 1;
        let first = self.first.max(LEAST);
        first.saturating_mul(1 << doublings).min(self.longest.max(first))
    }

    /// Whether an allocation that was made at `made_ns` and still exists at `now_ns` counts as
    /// started.
    pub fn has_started(&self, made_ns: i64, now_ns: i64) -> bool {
        let longest = i64::try_from(self.longest.max(LEAST).as_nanos()).unwrap_or(i64::MAX);
        now_ns.saturating_sub(made_ns) >= longest
    }
}

/// A start that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedStart {
    /// The node of the allocation.
    pub node: Option<Arc<str>>,
    /// The resource manager's reason; may be empty.
    pub reason: Arc<str>,
    /// The time at which the resource manager gave the allocation back, ns since the epoch.
    pub at_ns: i64,
}

impl FailedStart {
    /// Builds a failed start with the beginning of the resource manager's reason.
    pub fn new(node: Option<Arc<str>>, reason: &str, at_ns: i64) -> Self {
        Self { node, reason: Arc::from(beginning(reason, REASON_BYTES)), at_ns }
    }
}

/// The failed starts of one request, or of a gang as a whole, since the last successful start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedStarts {
    #[serde(default, skip_serializing_if = "is_usual")]
    times: u32,
    since_ns: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Arc<str>>,
    /// The number of back-offs.
    #[serde(default, skip_serializing_if = "is_usual")]
    in_a_row: u32,
    /// The end of the back-off, ns since the epoch; `None`: it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until_ns: Option<i64>,
    /// The nodes of the last failures, each once, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<Arc<str>>,
}

impl FailedStarts {
    /// Records a failure. Returns the end of the back-off that begins with it, ns since the epoch.
    /// While a back-off is under way none begins: allocations that fail one after another were made
    /// together.
    pub fn note(&mut self, failed: FailedStart, retry: &StartRetry) -> Option<i64> {
        let FailedStart { node, reason, at_ns } = failed;
        if self.times == 0 {
            self.since_ns = at_ns;
        }
        self.times = self.times.saturating_add(1);
        self.reason = Some(reason).filter(|reason| !reason.is_empty());
        if let Some(node) = node {
            self.remember(node);
        }
        if self.until_ns.is_some() {
            return None;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        let wait = i64::try_from(retry.after(self.in_a_row).as_nanos()).unwrap_or(i64::MAX);
        self.until_ns = Some(at_ns.saturating_add(wait));
        self.until_ns
    }

    fn remember(&mut self, node: Arc<str>) {
        self.nodes.retain(|known| *known != node);
        if self.nodes.len() == NODES_REMEMBERED {
            self.nodes.remove(0);
        }
        self.nodes.push(node);
    }

    /// Ends the back-off that lasts until `until_ns`. Returns whether that is the current one.
    pub fn end_backoff(&mut self, until_ns: i64) -> bool {
        let is_it = self.until_ns == Some(until_ns);
        if is_it {
            self.until_ns = None;
        }
        is_it
    }

    /// Records that the request belongs to a gang that backs off as a whole: only the nodes are
    /// remembered.
    pub fn leave_to_gang(&mut self) {
        *self = Self { nodes: std::mem::take(&mut self.nodes), ..Self::default() };
    }

    /// Returns a copy for events and explanations.
    pub fn summary(&self) -> NotStarted {
        let Self { times, since_ns, reason, until_ns, .. } = self;
        let (times, since_ns, until_ns) = (*times, *since_ns, *until_ns);
        NotStarted { times, since_ns, reason: reason.clone(), until_ns }
    }

    /// The number of failed starts.
    pub fn times(&self) -> u32 {
        self.times
    }

    /// The time of the first failure, ns since the epoch.
    pub fn since_ns(&self) -> i64 {
        self.since_ns
    }

    /// The resource manager's last reason; `None` if it gave none.
    pub fn reason(&self) -> Option<&Arc<str>> {
        self.reason.as_ref()
    }

    /// The end of the back-off, ns since the epoch; `None`: it has ended.
    pub fn until_ns(&self) -> Option<i64> {
        self.until_ns
    }

    /// The nodes of the last failures, the latest last.
    pub fn nodes(&self) -> &[Arc<str>] {
        &self.nodes
    }
}

/// Failed starts of a request or a gang, as events and explanations show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStarted {
    /// The number of failed starts.
    pub times: u32,
    /// The time of the first failure, ns since the epoch.
    pub since_ns: i64,
    /// The resource manager's last reason; `None` if it gave none.
    pub reason: Option<Arc<str>>,
    /// The time of the next try, ns since the epoch; `None`: it is tried in its turn.
    pub until_ns: Option<i64>,
}

impl NotStarted {
    /// Words the number of failures and the RM's reason, without times.
    pub fn in_short(&self) -> String {
        let times = match self.times {
            1 => String::new(),
            times => format!(" {times} times"),
        };
        let reason = self.reason.as_ref().map(|reason| format!(": `{reason}`"));
        format!("could not be started{times}{}", reason.unwrap_or_default())
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.times {
            1 => write!(f, "could not be started at {}", rfc3339(self.since_ns))?,
            times => {
                write!(f, "could not be started {times} times since {}", rfc3339(self.since_ns))?;
            }
        }
        if let Some(reason) = &self.reason {
            write!(f, ": `{reason}`")?;
        }
        match self.until_ns {
            Some(until_ns) => write!(f, "; it is tried again at {}", rfc3339(until_ns)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(node: &str, at_ns: i64) -> FailedStart {
        FailedStart::new(Some(Arc::from(node)), "no", at_ns)
    }

    #[test]
    fn the_last_eight_nodes_are_remembered_each_once() {
        let mut starts = FailedStarts::default();
        for number in (0..10).chain([3]) {
            starts.note(failed(&format!("n{number}"), 0), &StartRetry::default());
        }
        let nodes: Vec<&str> = starts.nodes().iter().map(|node| &**node).collect();
        assert_eq!(nodes, ["n2", "n4", "n5", "n6", "n7", "n8", "n9", "n3"]);
    }

    #[test]
    fn the_reason_has_a_bound_and_is_that_of_the_last_failure() {
        let mut starts = FailedStarts::default();
        let retry = StartRetry::default();
        starts.note(FailedStart::new(None, &"é".repeat(REASON_BYTES), 1), &retry);
        assert_eq!(starts.reason().map(|reason| reason.len()), Some(REASON_BYTES));
        starts.note(FailedStart::new(None, "", 2), &retry);
        assert_eq!((starts.reason(), starts.times(), starts.since_ns()), (None, 2, 1));
    }

    #[test]
    fn an_older_deadline_ends_no_backoff() {
        let mut starts = FailedStarts::default();
        let retry = StartRetry::default();
        let first = starts.note(failed("n", 0), &retry).unwrap();
        assert!(starts.end_backoff(first) && !starts.end_backoff(first));
        let second = starts.note(failed("n", first), &retry).unwrap();
        assert!(!starts.end_backoff(first));
        assert_eq!(starts.until_ns(), Some(second));
    }

    #[test]
    fn the_summary_says_how_often_since_when_and_why() {
        let mut starts = FailedStarts::default();
        let retry = StartRetry::default();
        starts.note(failed("n", 0), &retry);
        let first = "could not be started at 1970-01-01T00:00:00.0Z: `no`; it is tried again at \
                     1970-01-01T00:00:01.0Z";
        assert_eq!(starts.summary().to_string(), first);
        starts.note(FailedStart::new(None, "", 5), &retry);
        starts.end_backoff(1_000_000_000);
        let second = "could not be started 2 times since 1970-01-01T00:00:00.0Z";
        assert_eq!(starts.summary().to_string(), second);
    }

    #[test]
    fn settings_without_sense_still_make_a_request_wait() {
        let none = StartRetry { first: Duration::ZERO, longest: Duration::ZERO };
        assert_eq!(none.after(1), LEAST);
        assert!(!none.has_started(5, 5));
        let turned = StartRetry { first: Duration::from_secs(9), longest: Duration::from_secs(3) };
        assert_eq!([1, 2].map(|times| turned.after(times).as_secs()), [9, 9]);
        let endless = StartRetry { first: Duration::MAX, longest: Duration::MAX };
        assert_eq!(endless.after(u32::MAX), Duration::MAX);
    }
}
