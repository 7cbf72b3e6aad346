//! Which queue an application goes to.
//!
//! A partition has a list of rules. Each is asked in turn for a path; the first path that the
//! application can really have is taken. A rule may name a queue that is not there yet: whoever
//! holds the queues then makes what is [missing](creation()).
//!
//! # Invariants
//! * A [`PlacementRules`] was checked when it was built: placing reads no configuration and compiles
//!   nothing.
//! * Placing changes nothing: the same submission over the same queues has the same answer.
//! * A path that is given begins with `root.`, is in lower case, and each part of it is a
//!   [queue name](monoceros_rules::values::names::is_queue_name); it has at most
//!   [so many levels](monoceros_rules::values::names::MOST_LEVELS).
//! * Every path costs as many look-ups as it has parts, however many queues there are.
//! * An application that runs already ([`is_forced`]) always has a path: nothing that fails for it
//!   counts for more than "not this rule", and the last rule takes it.
//!
//! ```
//! use monoceros_config::RuleConfig;
//! use monoceros_config::placement::PlacementRules;
//!
//! let rule = |name: &str, value: &str| RuleConfig {
//!     name: name.into(),
//!     value: value.into(),
//!     ..RuleConfig::default()
//! };
//! assert!(PlacementRules::build(&[rule("user", ""), rule("fixed", "root.spare")]).is_ok());
//! let errors = PlacementRules::build(&[rule("fixed", ""), rule("group", "")]).unwrap_err();
//! let codes: Vec<_> = errors.iter().map(|error| error.code).collect();
//! assert_eq!(codes, ["E_FIXED_EMPTY", "E_RULE_UNKNOWN"]);
//! ```

mod creation;
mod expressions;
mod filter;
mod namespace;
mod paths;
mod refusal;
mod rule;
mod shown;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

pub use self::creation::{CreationError, creation};
pub(crate) use self::expressions::Expressions;
pub use self::namespace::NamespaceTags;
pub(crate) use self::paths::{FixedPath, check, fixed_path};
pub use self::refusal::{PassedOver, Refused, RuleObstacle};
use self::rule::{Outcome, Rule};
pub use self::shown::{ShownFilter, ShownRule};
use crate::RuleConfig;
use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::names::{MOST_LEVELS, RECOVERY};

/// The leaf for applications that no rule has a queue for, where there is such a leaf.
pub const LAST_RESORT: &str = "root.default";
/// The tag of an application that runs already.
pub const FORCE: &str = "application.create.force";

/// What is wrong with a placement rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} [{code}]")]
pub struct RuleError {
    /// The symbolic code, `E_…`.
    pub code: &'static str,
    /// Which rule of the list, counted from 0.
    pub rule: usize,
    /// Which rule of its chain: 0 is the rule itself, 1 its parent, and so on.
    pub depth: usize,
    /// What is wrong, with what was written, and what to write instead where that is clear.
    pub message: String,
}

impl RuleError {
    /// The key by which the errors of a list of rules are sorted, so that the first to be told is
    /// the one to correct first: names and filters of all rules, then paths, then what only
    /// building them finds; within a rule from the innermost parent outward, and there names before
    /// filters.
    pub fn rank(&self) -> impl Ord + use<> {
        let phase = match self.code {
            "E_RULE_NAME" | "E_FILTER_TYPE" | "E_FILTER_USER" | "E_FILTER_GROUP" => 0,
            "E_RULE_QUALIFIED_INNER"
            | "E_RULE_LAST_IS_LEAF"
            | "E_RULE_QUEUE_MISSING"
            | "E_RULE_NOT_PARENT"
            | "E_RULE_NOT_LEAF" => 1,
            _ => 2,
        };
        (phase, self.rule, Reverse(self.depth), self.code != "E_RULE_NAME")
    }
}

/// The rules of a partition, ready to be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementRules {
    rules: Vec<Rule>,
    is_implicit: bool,
}

/// What the rules look at of an application.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// The queue it names; empty if it names none.
    pub queue: &'a str,
    /// Who owns it.
    pub user: &'a str,
    /// The user's groups, in order.
    pub groups: &'a [String],
    /// As sent.
    pub tags: Option<&'a Tags>,
    /// Whether it runs already, so that it has to be somewhere.
    pub is_forced: bool,
}

/// The queues of a partition as placing sees them.
pub trait QueueTree {
    /// What stands for a queue.
    type Queue: Copy;

    /// The queue of a path in lower case.
    fn find(&self, path: &str) -> Option<Self::Queue>;
    /// Whether applications live there, and no queues.
    fn is_leaf(&self, queue: Self::Queue) -> bool;
    /// Whether it takes nothing new.
    fn is_draining(&self, queue: Self::Queue) -> bool;
    /// Whether the user may submit there: what a queue above grants counts too.
    fn may_submit(&self, queue: Self::Queue, user: &str, groups: &[String]) -> bool;
}

/// Where an application goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<Q> {
    /// The path of its leaf.
    pub path: String,
    /// The leaf, if it is there.
    pub leaf: Option<Q>,
    /// The rules that were tried in vain before.
    pub passed_over: Vec<PassedOver>,
}

/// Those that there are where none is configured: `provided`, for queues that are there.
impl Default for PlacementRules {
    fn default() -> Self {
        let implicit = RuleConfig { name: "provided".to_owned(), ..RuleConfig::default() };
        let rule = Rule::build(&implicit, 0, 0, &mut Expressions::default(), &mut Vec::new());
        Self { rules: Vec::from_iter(rule), is_implicit: true }
    }
}

impl PlacementRules {
    /// Makes rules of what is configured, all of them or none; without any there is one, `provided`
    /// for queues that are there. The rule that takes applications which run already is always
    /// last. The errors are in the order of [`RuleError::rank`].
    pub fn build(rules: &[RuleConfig]) -> Result<Self, Vec<RuleError>> {
        Self::build_within(rules, &mut Expressions::default())
    }

    /// [`Self::build`], where there are other rules with expressions in the same text.
    pub(crate) fn build_within(
        rules: &[RuleConfig],
        expressions: &mut Expressions,
    ) -> Result<Self, Vec<RuleError>> {
        if rules.is_empty() {
            return Ok(Self::default());
        }
        let mut errors = Vec::new();
        let mut built = Vec::new();
        for (number, rule) in rules.iter().enumerate() {
            built.extend(Rule::build(rule, number, 0, expressions, &mut errors));
        }
        if errors.is_empty() {
            Ok(Self { rules: built, is_implicit: false })
        } else {
            errors.sort_by_key(RuleError::rank);
            Err(errors)
        }
    }

    /// Where the application goes, or why it goes nowhere.
    pub fn place<T: QueueTree>(
        &self,
        submission: &Submission<'_>,
        tree: &T,
    ) -> Result<Placed<T::Queue>, Refused> {
        let mut passed_over = Vec::new();
        for rule in &self.rules {
            let obstacle = match bounded(rule.evaluate(submission, tree)) {
                Outcome::NoMatch(obstacle) => obstacle,
                Outcome::Failed(why) if submission.is_forced => RuleObstacle::Failed(why),
                Outcome::Failed(why) => return Err(Refused::Rule { rule: rule.name(), why }),
                Outcome::Path(path) => match take(path.to_ascii_lowercase(), submission, tree) {
                    Ok((path, leaf)) => return Ok(Placed { path, leaf, passed_over }),
                    Err(obstacle) => obstacle,
                },
            };
            passed_over.push(PassedOver { rule: rule.name(), obstacle });
        }
        // Recovery takes every application that runs already; `root.default` must be there.
        let (rule, last) =
            if submission.is_forced { ("recovery", RECOVERY) } else { ("default", LAST_RESORT) };
        if submission.is_forced || tree.find(last).is_some() {
            match take(last.to_owned(), submission, tree) {
                Ok((path, leaf)) => return Ok(Placed { path, leaf, passed_over }),
                Err(obstacle) => passed_over.push(PassedOver { rule, obstacle }),
            }
        }
        if let [PassedOver { obstacle: RuleObstacle::NotLeaf(path), .. }] = &*passed_over
            && self.is_implicit
        {
            return Err(Refused::NotLeaf(path.clone()));
        }
        Err(Refused::Nowhere(passed_over))
    }

    /// The rules in the order they are asked, as they are shown to people and programs.
    pub fn shown(&self) -> Vec<ShownRule> {
        let own = self.rules.iter().map(ShownRule::of);
        own.chain([ShownRule::recovery()]).collect()
    }
}

/// A path that is too deep is no path: whoever reads the queues follows them to the end.
fn bounded(outcome: Outcome) -> Outcome {
    let Outcome::Path(path) = &outcome else { return outcome };
    match path.split('.').count() {
        levels if levels > MOST_LEVELS => Outcome::Failed(format!(
            "its path has {levels} levels of queues, and there can be {MOST_LEVELS}"
        )),
        _ => outcome,
    }
}

/// Whether the application can have the path, with the leaf if that is there.
fn take<T: QueueTree>(
    path: String,
    submission: &Submission<'_>,
    tree: &T,
) -> Result<(String, Option<T::Queue>), RuleObstacle> {
    let Submission { user, groups, is_forced, .. } = *submission;
    if path == RECOVERY {
        let leaf = tree.find(&path);
        return if is_forced { Ok((path, leaf)) } else { Err(RuleObstacle::Recovery) };
    }
    let Some(leaf) = tree.find(&path) else {
        return match creation(&path, user, groups, tree) {
            // Whoever does not run already is refused when the queue is to be made.
            Err(CreationError::Reserved(_) | CreationError::Name { .. }) if !is_forced => {
                Ok((path, None))
            }
            Err(error) => Err(RuleObstacle::Uncreatable(error)),
            Ok(_) => Ok((path, None)),
        };
    };
    if !tree.is_leaf(leaf) {
        Err(RuleObstacle::NotLeaf(path))
    } else if tree.is_draining(leaf) {
        Err(RuleObstacle::Draining(path))
    } else if !tree.may_submit(leaf, user, groups) {
        Err(RuleObstacle::NoAccess { user: user.to_owned(), path })
    } else {
        Ok((path, Some(leaf)))
    }
}

/// The queue of the path, or the nearest above it that is there, with its path.
fn deepest<'p, T: QueueTree>(path: &'p str, tree: &T) -> Option<(T::Queue, &'p str)> {
    let mut above = Some(path);
    while let Some(path) = above {
        if let Some(queue) = tree.find(path) {
            return Some((queue, path));
        }
        above = path.rsplit_once('.').map(|(parent, _)| parent);
    }
    None
}

/// The value of a tag; case does not count in its name, and an empty value is as good as none.
pub fn tag<'t, T: AsRef<str> + ?Sized + 't>(
    tags: impl IntoIterator<Item = (&'t T, &'t T)>,
    name: &str,
) -> Option<&'t str> {
    let mut tags = tags.into_iter().map(|(key, value)| (key.as_ref(), value.as_ref()));
    let found = tags.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value).filter(|value| !value.is_empty())
}

/// Whether the tags say that the application runs already.
pub fn is_forced<'t, T: AsRef<str> + ?Sized + 't>(
    tags: impl IntoIterator<Item = (&'t T, &'t T)>,
) -> bool {
    tag(tags, FORCE).is_some_and(|text| matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True"))
}
