//! What another configuration changes, as a person would say it: for the operator who is about to
//! put it in force, and for the log once it is.
//!
//! # Why sentences
//! A queue configuration is long, and what matters in a change of it is rarely the line that was
//! edited: it is who may do less than before, and who is above a limit already. So the two texts are
//! compared by what they mean, not by how they are written, and the answer begins with what takes
//! something away.
//!
//! # Invariants
//! * Configurations that mean the same give no sentence; whatever differs gives one at least.
//! * Order and words depend on the configurations and the usage alone.
//! * What a queue inherits is said where it is written, not again for each queue below.
//! * No sentence is longer than [`LONGEST_LINE`], whatever names and values are configured: what there
//!   is much of is counted, what is long is cut.
//! * Nothing here decides: a sentence never says that a configuration is refused.
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

/// Characters of the longest sentence, but for a remark on how long it was.
pub const LONGEST_LINE: usize = 500;

/// How much a change matters to those who use the cluster; the first matters most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// A partition goes, with everything in it.
    Lost,
    /// More is in use than may be: nothing new starts.
    Over,
    /// A queue drains or changes between leaf and parent.
    Drained,
    /// Less is allowed than before.
    Tightened,
    /// More is allowed than before.
    Loosened,
    /// It works otherwise.
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

    /// How `count` sentences are summed up that are not shown.
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

/// One sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How much it matters.
    pub weight: Weight,
    /// What is different, one line of text.
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

/// What is different, what matters most first; then by partition and path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    lines: Vec<Line>,
}

impl Difference {
    /// Whether nothing is different.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Every sentence.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// About `most` lines that tell the whole: what there is much of is summed up.
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

    /// As [`Self::summary`], in one text of at most `bytes`, if as many lines as there are weights fit.
    pub fn told(&self, most: usize, bytes: usize) -> String {
        let mut most = most.min(self.lines.len());
        loop {
            let text = self.summary(most).join("\n");
            if text.len() <= bytes || most == 0 {
                return text;
            }
            most = (most * bytes / text.len()).min(most - 1);
        }
    }

    /// How many sentences of each weight are shown when there is room for `most`: each has a share,
    /// and what one leaves goes to the others, those first that matter most.
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

/// What is different in `new`. With the usage it is also said what is in use beyond what may be.
pub fn between<P: Borrow<PartitionConfig>>(
    old: &[P],
    new: &[P],
    usage: Option<&Usage>,
) -> Difference {
    let mut lines = partitions::between(old, new, usage);
    // Stable: partitions and queues stay in their order.
    lines.sort_by_key(|line| line.weight);
    Difference { lines }
}
