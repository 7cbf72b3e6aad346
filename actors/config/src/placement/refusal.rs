//! Reasons why a rule yields no queue for an application, in words for the submitter.

use std::fmt;

use super::{CreationError, QueueHint};
use monoceros_rules::values::names::RECOVERY;

/// Why an application gets no queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A rule failed, so that no further rule was tried.
    Rule {
        /// Name of the rule.
        rule: &'static str,
        /// The failure.
        why: String,
    },
    /// The application names a queue that is not a leaf, and no configured rules could help.
    NotLeaf(String),
    /// No rule yields a queue for the application.
    Nowhere(Vec<PassedOver>),
}

/// A rule that yielded no queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// Name of the rule; `default` for the last resort.
    pub rule: &'static str,
    /// Why the rule was skipped.
    pub obstacle: RuleObstacle,
}

/// The obstacle between an application and a rule or its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleObstacle {
    /// The submission names no queue.
    NoQueueNamed,
    /// The tag that the rule reads is missing or empty.
    NoTag(String),
    /// The filter of the rule excludes this user.
    Filtered,
    /// The queue does not exist, and the rule may not create it.
    Missing {
        /// Path of the queue.
        path: String,
        /// Advice for the submitter. Only an application that gets no queue at all has one.
        hint: Option<QueueHint>,
    },
    /// The queue is not a leaf.
    NotLeaf(String),
    /// The queue accepts no new applications.
    Draining(String),
    /// The user may not submit to the queue.
    NoAccess {
        /// Name of the user.
        user: String,
        /// Path of the queue.
        path: String,
    },
    /// The queue does not exist and cannot be created.
    Uncreatable(CreationError),
    /// Only applications that run already go to this queue.
    Recovery,
    /// The rule failed, which only skips it for an application that runs already.
    Failed(String),
}

impl Refused {
    /// Returns the code of the cause.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Rule { .. } => "E_PLACEMENT_RULE",
            Self::NotLeaf(_) | Self::Nowhere(_) => "E_PLACEMENT_NONE",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { rule, why } => write!(f, "placement rule `{rule}` failed: {why}"),
            Self::NotLeaf(path) => write!(f, "queue `{path}` cannot run applications"),
            Self::Nowhere(passed_over) => {
                f.write_str("no placement rule produced a usable queue: ")?;
                for (number, passed) in passed_over.iter().enumerate() {
                    if number > 0 {
                        f.write_str("; ")?;
                    }
                    write!(f, "{passed}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.rule, self.obstacle)
    }
}

impl fmt::Display for RuleObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQueueNamed => f.write_str("no queue was named (`queueName`)"),
            Self::NoTag(name) => {
                write!(f, "there is no tag `{name}` (`tags` of the application)")
            }
            Self::Filtered => f.write_str("its filter leaves the user out"),
            Self::Missing { path, hint: None } => write!(f, "queue `{path}` does not exist"),
            Self::Missing { path, hint: Some(hint) } => {
                write!(f, "queue `{path}` does not exist; {hint}")
            }
            Self::NotLeaf(path) => {
                write!(f, "queue `{path}` cannot run applications, it is not a leaf")
            }
            Self::Draining(path) => {
                write!(f, "queue `{path}` is draining and takes no new applications")
            }
            Self::NoAccess { user, path } => {
                write!(f, "user `{user}` may not submit to queue `{path}`")
            }
            Self::Uncreatable(why) => why.fmt(f),
            Self::Recovery => {
                write!(f, "queue `{RECOVERY}` is for applications that run already")
            }
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}
