//! The grounds of an eviction, read from the scheduler's message.

use std::fmt;

/// Why an allocation is evicted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grounds {
    /// A queue took back its guarantee.
    Guarantee { queue: String },
    /// An ask could only run on that node.
    RequiredNode,
    /// A queue was above its maximum.
    Quota { queue: String },
    /// The scheduler gave another reason.
    Other,
}

impl Grounds {
    /// Parses the text of the release, because the interface has no field for the grounds.
    pub(crate) fn of(why: &str) -> Self {
        let queue = |before: &str, after: &str| {
            let (_, rest) = why.split_once(before)?;
            rest.split_once(after).map(|(queue, _)| queue.to_owned())
        };
        if let Some(queue) = queue(": queue `", "` takes back what it is guaranteed") {
            return Self::Guarantee { queue };
        }
        if let Some(queue) = queue("because queue `", "` is above its maximum") {
            return Self::Quota { queue };
        }
        if why.contains(", which runs on node `") { Self::RequiredNode } else { Self::Other }
    }

    /// Returns the queue that gained by the eviction, if there is one.
    pub(crate) fn queue(&self) -> Option<&str> {
        match self {
            Self::Guarantee { queue } | Self::Quota { queue } => Some(queue),
            Self::RequiredNode | Self::Other => None,
        }
    }
}

impl fmt::Display for Grounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guarantee { .. } => "guarantee",
            Self::RequiredNode => "required node",
            Self::Quota { .. } => "quota",
            Self::Other => "other",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grounds_are_read_from_what_the_scheduler_says() {
        let queue = || "root.q2".to_owned();
        let cases = [
            (
                "preempted for ask `k` of application `a`: queue `root.q2` takes back what it is guaranteed",
                Grounds::Guarantee { queue: queue() },
            ),
            (
                "preempted for the gang of application `a`: queue `root.q2` takes back what it is guaranteed",
                Grounds::Guarantee { queue: queue() },
            ),
            (
                "preempted for ask `k` of application `a`, which runs on node `n` only",
                Grounds::RequiredNode,
            ),
            (
                "preempted because queue `root.q2` is above its maximum",
                Grounds::Quota { queue: queue() },
            ),
            ("for no reason", Grounds::Other),
        ];
        for (why, expected) in cases {
            assert_eq!(Grounds::of(why), expected, "{why}");
        }
    }
}
