//! Why a rule has no queue for an application, in words for its submitter.

use std::fmt;

use super::CreationError;
use monoceros_rules::values::names::RECOVERY;

/// Why an application goes nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A rule failed: no other is asked.
    Rule {
        /// Its name.
        rule: &'static str,
        /// What failed.
        why: String,
    },
    /// It names a queue that holds queues, and no rules are configured that could help.
    NotLeaf(String),
    /// No rule has a queue for it.
    Nowhere(Vec<PassedOver>),
}

/// A rule that was tried in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// Its name; `default` for the last resort.
    pub rule: &'static str,
    /// Why it was passed over.
    pub obstacle: RuleObstacle,
}

/// What keeps an application from a rule or its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleObstacle {
    /// The submission names no queue.
    NoQueueNamed,
    /// The tag that the rule reads is missing or empty.
    NoTag(String),
    /// The filter of the rule is not for this user.
    Filtered,
    /// The queue is not there, and the rule may not create it.
    Missing(String),
    /// The queue holds queues.
    NotLeaf(String),
    /// The queue takes nothing new.
    Draining(String),
    /// The user may not submit to the queue.
    NoAccess {
        /// Who.
        user: String,
        /// Of the queue.
        path: String,
    },
    /// The queue is not there and cannot be made.
    Uncreatable(CreationError),
    /// Only applications that run already go there.
    Recovery,
    /// The rule failed, which does not count for an application that runs already.
    Failed(String),
}

impl Refused {
    /// The code of the cause.
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
            Self::Missing(path) => write!(f, "queue `{path}` does not exist"),
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
