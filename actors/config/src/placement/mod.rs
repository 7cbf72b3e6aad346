//! Chooses the queue of an application by the placement rules.
//!
//! A partition has a list of rules. Each rule in turn yields a path; the first path that the
//! application may use wins. A rule may name a queue that does not exist yet: the partition then
//! creates the [missing queues](creation()).
//!
//! # Invariants
//! * A [`PlacementRules`] is checked when it is built: placing an application reads no
//!   configuration and compiles nothing.
//! * Placing has no side effects: the same submission over the same queues has the same result.
//! * A returned path begins with `root.`, is in lower case, and each part of it is a [queue
//!   name](monoceros_rules::values::names::is_queue_name); it has at most
//!   [`MOST_LEVELS`] levels.
//! * A path costs one look-up per part, however many queues exist.
//! * An application that runs already ([`is_forced`]) always gets a path: a failing rule is skipped
//!   for it, and the last rule accepts it.
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
mod nearest;
mod paths;
mod refusal;
mod rule;
mod shown;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

pub use self::creation::{CreationError, creation};
pub(crate) use self::expressions::Expressions;
pub use self::namespace::{NAMESPACE_TAGS, NamespaceTags};
pub use self::nearest::QueueHint;
pub(crate) use self::paths::{FixedPath, check, fixed_path};
pub use self::refusal::{PassedOver, Refused, RuleObstacle};
use self::rule::{Outcome, Rule};
pub use self::shown::{ShownFilter, ShownRule};
use crate::RuleConfig;
use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::names::{MOST_LEVELS, RECOVERY};

/// The leaf for applications that no rule places, if this leaf exists.
pub const LAST_RESORT: &str = "root.default";
/// The tag of an application that runs already.
pub const FORCE: &str = "application.create.force";

/// A fault of a placement rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} [{code}]")]
pub struct RuleError {
    /// The symbolic code, `E_…`.
    pub code: &'static str,
    /// Index of the rule in the list.
    pub rule: usize,
    /// Index in the chain of the rule: 0 is the rule itself, 1 its parent, and so on.
    pub depth: usize,
    /// Describes the fault, repeats the written text, and says what to write instead if that is
    /// clear.
    pub message: String,
}

impl RuleError {
    /// Sort key of the errors of a list of rules, so that the first error is the one to correct
    /// first: names and filters of all rules, then paths, then faults found only while compiling.
    /// Within a rule the order is from the innermost parent outward, names before filters.
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

/// The compiled placement rules of a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacementRules {
    rules: Vec<Rule>,
    is_implicit: bool,
}

/// The attributes of an application that rules read.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// The queue that the application names; may be empty.
    pub queue: &'a str,
    /// The owner of the application.
    pub user: &'a str,
    /// The user's groups, in order.
    pub groups: &'a [String],
    /// Tags as sent.
    pub tags: Option<&'a Tags>,
    /// Whether the application runs already and so must get a queue.
    pub is_forced: bool,
}

/// Read access to the queues of a partition, for placement.
pub trait QueueTree {
    /// Handle of a queue.
    type Queue: Copy;

    /// Finds a queue by its path in lower case.
    fn find(&self, path: &str) -> Option<Self::Queue>;
    /// The names of the queues right below the queue with this path, in order. Each costs about as
    /// much as a [`Self::find`], however many queues are below it.
    fn names_below(&self, path: &str) -> impl Iterator<Item = &str>;
    /// Whether the queue holds applications, and so no queues.
    fn is_leaf(&self, queue: Self::Queue) -> bool;
    /// Whether the queue accepts no new applications.
    fn is_draining(&self, queue: Self::Queue) -> bool;
    /// Whether the user may submit to the queue; permissions of queues above count too.
    fn may_submit(&self, queue: Self::Queue, user: &str, groups: &[String]) -> bool;
}

/// The result of a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<Q> {
    /// The path of the leaf.
    pub path: String,
    /// The leaf, or `None` if it must be created.
    pub leaf: Option<Q>,
    /// The earlier rules, which yielded no queue.
    pub passed_over: Vec<PassedOver>,
}

/// The rules used if none are configured: `provided`, for existing queues.
impl Default for PlacementRules {
    fn default() -> Self {
        let implicit = RuleConfig { name: "provided".to_owned(), ..RuleConfig::default() };
        let rule = Rule::build(&implicit, 0, 0, &mut Expressions::default(), &mut Vec::new());
        Self { rules: Vec::from_iter(rule), is_implicit: true }
    }
}

impl PlacementRules {
    /// Compiles the configured rules, all or none. Without any there is one rule, `provided` for
    /// existing queues. The rule for applications that run already is always last. Errors are in
    /// the order of [`RuleError::rank`].
    pub fn build(rules: &[RuleConfig]) -> Result<Self, Vec<RuleError>> {
        Self::build_within(rules, &mut Expressions::default())
    }

    /// Like [`Self::build`], sharing the budget for expressions with other rules of the same text.
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

    /// Chooses the queue of the application, or says why no queue accepts it.
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
        // Recovery accepts every application that runs already; `root.default` must exist.
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
        let mut has_leaves = false;
        for passed in &mut passed_over {
            let RuleObstacle::Missing { path, hint } = &mut passed.obstacle else { continue };
            *hint = QueueHint::of(path, submission.queue, tree);
            if hint.is_none() && !has_leaves {
                *hint = QueueHint::of_leaves(submission, tree);
                has_leaves = true;
            }
        }
        Err(Refused::Nowhere(passed_over))
    }

    /// The names of the tags that rules read, in lower case.
    pub fn tags(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.rules.iter().flat_map(Rule::tags).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The rules in order, in the form shown to people and programs.
    pub fn shown(&self) -> Vec<ShownRule> {
        let own = self.rules.iter().map(ShownRule::of);
        own.chain([ShownRule::recovery()]).collect()
    }
}

/// Rejects a path with too many levels, so that walks over the levels of a queue are bounded.
fn bounded(outcome: Outcome) -> Outcome {
    let Outcome::Path(path) = &outcome else { return outcome };
    match path.split('.').count() {
        levels if levels > MOST_LEVELS => Outcome::Failed(format!(
            "its path has {levels} levels of queues, and there can be {MOST_LEVELS}"
        )),
        _ => outcome,
    }
}

/// Checks that the application may use the path. Returns the leaf if it exists.
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
            // Other applications are rejected when their queue is created.
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

/// Returns the nearest existing queue on the path, from the leaf upward, and its path.
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

/// Returns the value of a tag. Names are compared without case; an empty value counts as missing.
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
