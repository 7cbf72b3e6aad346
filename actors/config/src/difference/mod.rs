//! Describes in sentences what a new configuration changes: for the operator before it is applied,
//! and for the log afterwards.
//!
//! # Why sentences
//! A queue configuration is long, and the important effect of a change is rarely visible in the
//! edited line: some users may do less than before, or are above a limit already. So the comparison
//! is by meaning, not by text, and its first sentences are those about restrictions.
//!
//! # Invariants
//! * Configurations with the same meaning give no sentence. Every difference gives at least one.
//! * Order and words depend only on the configurations and the usage.
//! * A change of an inherited setting is described at the queue where it is written, not again for
//!   each queue below.
//! * No sentence is longer than [`LONGEST_LINE`], whatever names and values are configured: long
//!   lists are counted and long values are cut.
//! * A comparison makes no decision: no sentence says that a configuration is rejected.
//!
//! ```
//! use monoceros_config::{self as config, difference};
//! let queues = |max: &str| {
//!     let root = format!("{{name: root, queues: [{{name: a, resources: {{max: {{vcore: {max}}}}}}}]}}");
//!     config::parse(&format!("partitions: [{{queues: [{root}]}}]")).unwrap()
//! };
//! let difference = difference::between(&queues("10").partitions, &queues("5").partitions, None);
//! assert_eq!(difference.to_string(), "root.a: max lowered: vcore from 10 to 5\n");
//! ```

mod amounts;
mod limits;
mod partitions;
mod queues;
#[cfg(test)]
mod tests;
mod usage;

use std::borrow::{Borrow, Cow};
use std::fmt;

pub use self::usage::{Concerned, PartitionUsage, Usage, Used};
use crate::PartitionConfig;

/// Longest sentence in characters, without the remark that it was cut.
pub const LONGEST_LINE: usize = 500;

/// Importance of a change to users of the cluster, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// A partition is removed, with everything in it.
    Lost,
    /// Usage exceeds a new limit, so nothing new starts.
    Over,
    /// A queue drains, or changes between leaf and parent.
    Drained,
    /// Less is allowed than before.
    Tightened,
    /// More is allowed than before.
    Loosened,
    /// The behaviour is different, neither more nor less permissive.
    Changed,
    /// A queue or a partition is new.
    Added,
}

impl Weight {
    const ALL: [Self; 7] = [
        Self::Lost,
        Self::Over,
        Self::Drained,
        Self::Tightened,
        Self::Loosened,
        Self::Changed,
        Self::Added,
    ];

    /// Summarises `count` sentences that are not shown.
    fn more(self, count: usize) -> String {
        let what = match self {
            Self::Lost => "that lose a partition",
            Self::Over => "with more in use than may be",
            Self::Drained => "of queues that go or change their kind",
            Self::Tightened => "of what may be used less",
            Self::Loosened => "of what may be used more",
            Self::Changed => "of what works otherwise",
            Self::Added => "of what is new",
        };
        let lines = if count == 1 { "line" } else { "lines" };
        format!("... and {count} more {lines} {what}")
    }
}

/// One sentence of the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Importance of the change.
    pub weight: Weight,
    /// Describes the change, one line of text.
    pub text: String,
}

impl Line {
    fn new(weight: Weight, text: String) -> Self {
        let text = match amounts::shortened(&text, LONGEST_LINE) {
            Cow::Borrowed(_) => text,
            Cow::Owned(shortened) => shortened,
        };
        Self { weight, text }
    }
}

/// Sentences about all differences, sorted by weight, then by partition and path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    lines: Vec<Line>,
}

impl Difference {
    /// Whether the configurations mean the same.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// All sentences.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns about `most` lines that cover all changes; sentences beyond that are counted by
    /// weight.
    pub fn summary(&self, most: usize) -> Vec<String> {
        let shown = self.shares(most);
        let mut summary = Vec::new();
        for (weight, shown) in Weight::ALL.into_iter().zip(shown) {
            let lines = self.lines.iter().filter(|line| line.weight == weight);
            let count = lines.clone().count();
            summary.extend(lines.take(shown).map(|line| line.text.clone()));
            if count > shown {
                summary.push(weight.more(count - shown));
            }
        }
        summary
    }

    /// Returns [`Self::summary`] as one text of at most `bytes`, provided that one line per weight
    /// fits.
    pub fn text(&self, most: usize, bytes: usize) -> String {
        let mut most = most.min(self.lines.len());
        loop {
            let text = self.summary(most).join("\n");
            if text.len() <= bytes || most == 0 {
                return text;
            }
            most = (most * bytes / text.len()).min(most - 1);
        }
    }

    /// Distributes `most` lines over the weights. Each weight has a share; unused lines go to the
    /// other weights, the most important first.
    fn shares(&self, most: usize) -> [usize; Weight::ALL.len()] {
        let count = |weight| self.lines.iter().filter(|line| line.weight == weight).count();
        let counts = Weight::ALL.map(count);
        let mut shares = [0; Weight::ALL.len()];
        let mut left = most;
        while left > 0 && shares != counts {
            for (share, count) in shares.iter_mut().zip(counts) {
                if *share < count && left > 0 {
                    *share += 1;
                    left -= 1;
                }
            }
        }
        shares
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{}", line.text)?;
        }
        Ok(())
    }
}

/// Compares two configurations. With `usage`, the sentences also list usage that exceeds new
/// limits.
pub fn between<P: Borrow<PartitionConfig>>(
    old: &[P],
    new: &[P],
    usage: Option<&Usage>,
) -> Difference {
    let mut lines = partitions::between(old, new, usage);
    // The sort is stable, so partitions and queues stay in their order.
    lines.sort_by_key(|line| line.weight);
    Difference { lines }
}
