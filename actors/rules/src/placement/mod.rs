//! Which queue an application goes to (queues-and-config chapter, section 6).
//!
//! A partition has a list of rules. Each is asked in turn for a path; the first path that the
//! application can really have is taken. A rule may name a queue that is not there yet: the answer
//! then says what is missing, and whoever holds the queues makes it.
//!
//! # Invariants
//! * A [`Placement`] was checked when it was built: placing reads no configuration and compiles
//!   nothing.
//! * Placing changes nothing: the same submission over the same queues has the same answer.
//! * A path that is given begins with `root.`, is in lower case, and each part of it is a
//!   [queue name](is_queue_name).
//! * Every path costs as many look-ups as it has parts, however many queues there are.
//! * An application that runs already ([`is_forced`]) always has a path: nothing that fails for it
//!   counts for more than "not this rule", and the last rule takes it.
//!
//! ```
//! use monoceros_rules::config::RuleConfig;
//! use monoceros_rules::placement::Placement;
//!
//! let rule = |name: &str, value: &str| RuleConfig {
//!     name: name.into(),
//!     value: value.into(),
//!     ..RuleConfig::default()
//! };
//! assert!(Placement::build(&[rule("user", ""), rule("fixed", "root.spare")]).is_ok());
//! let errors = Placement::build(&[rule("fixed", ""), rule("group", "")]).unwrap_err();
//! let codes: Vec<_> = errors.iter().map(|error| error.code).collect();
//! assert_eq!(codes, ["E_FIXED_EMPTY", "E_RULE_UNKNOWN"]);
//! ```

mod filter;
mod paths;
mod refusal;
mod rule;
mod shown;
#[cfg(test)]
mod tests;

pub use self::paths::{check, check_paths};
pub use self::refusal::{Obstacle, PassedOver, Refused};
use self::rule::{Outcome, Rule};
pub use self::shown::{ShownFilter, ShownRule};
use crate::allocations::Tags;
use crate::config::{RECOVERY, RuleConfig};

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

/// The rules of a partition, ready to be asked.
#[derive(Clone, Debug)]
pub struct Placement {
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
    /// Whether the user may submit there: what a queue above grants counts too (3.8).
    fn may_submit(&self, queue: Self::Queue, user: &str, groups: &[String]) -> bool;
}

/// Where an application goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<Q> {
    /// The path of its leaf.
    pub path: String,
    /// The leaf if it is there, otherwise the deepest queue of the path that is.
    pub deepest: Q,
    /// The paths of the queues that have to be made, those above first, the leaf last.
    pub missing: Vec<String>,
    /// The rules that were tried in vain before.
    pub passed_over: Vec<PassedOver>,
}

impl Placement {
    /// Makes rules of what is configured, all of them or none; without any there is one, `provided`
    /// for queues that are there. The rule that takes applications which run already is always
    /// last. The errors are ordered by rule and depth.
    pub fn build(rules: &[RuleConfig]) -> Result<Self, Vec<RuleError>> {
        let implicit = [RuleConfig { name: "provided".to_owned(), ..RuleConfig::default() }];
        let is_implicit = rules.is_empty();
        let mut errors = Vec::new();
        let mut built = Vec::new();
        for (number, rule) in (if is_implicit { &implicit } else { rules }).iter().enumerate() {
            built.extend(Rule::build(rule, number, 0, &mut errors));
        }
        if errors.is_empty() {
            Ok(Self { rules: built, is_implicit })
        } else {
            errors.sort_by_key(|error| (error.rule, error.depth));
            Err(errors)
        }
    }

    /// Where the application goes (6.6), or why it goes nowhere.
    pub fn place<T: QueueTree>(
        &self,
        submission: &Submission<'_>,
        tree: &T,
    ) -> Result<Placed<T::Queue>, Refused> {
        let mut passed_over = Vec::new();
        for rule in &self.rules {
            let obstacle = match rule.evaluate(submission, tree) {
                Outcome::NoMatch(obstacle) => obstacle,
                Outcome::Failed(why) if submission.is_forced => Obstacle::Failed(why),
                Outcome::Failed(why) => return Err(Refused::Rule { rule: rule.name(), why }),
                Outcome::Path(path) => match take(path.to_ascii_lowercase(), submission, tree) {
                    Ok((path, deepest, missing)) => {
                        return Ok(Placed { path, deepest, missing, passed_over });
                    }
                    Err(obstacle) => obstacle,
                },
            };
            passed_over.push(PassedOver { rule: rule.name(), obstacle });
        }
        // Of the two, the first is a rule of its own and takes whoever it is for.
        let (rule, last) =
            if submission.is_forced { ("recovery", RECOVERY) } else { ("default", LAST_RESORT) };
        if submission.is_forced || tree.find(last).is_some() {
            match take(last.to_owned(), submission, tree) {
                Ok((path, deepest, missing)) => {
                    return Ok(Placed { path, deepest, missing, passed_over });
                }
                Err(obstacle) => passed_over.push(PassedOver { rule, obstacle }),
            }
        }
        if let [PassedOver { obstacle: Obstacle::NotLeaf(path), .. }] = &*passed_over
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

type Taken<Q> = (String, Q, Vec<String>);

/// Whether the application can have the path, and what of it has to be made.
fn take<T: QueueTree>(
    path: String,
    submission: &Submission<'_>,
    tree: &T,
) -> Result<Taken<T::Queue>, Obstacle> {
    if path == RECOVERY && !submission.is_forced {
        return Err(Obstacle::Recovery);
    }
    let Some((deepest, ancestor)) = deepest(&path, tree) else {
        return Err(Obstacle::Missing(path));
    };
    if path == RECOVERY {
        let missing = if ancestor == path { Vec::new() } else { vec![path.clone()] };
        return Ok((path, deepest, missing));
    }
    let may_submit = tree.may_submit(deepest, submission.user, submission.groups);
    if ancestor == path {
        if !tree.is_leaf(deepest) {
            return Err(Obstacle::NotLeaf(path));
        }
        if tree.is_draining(deepest) {
            return Err(Obstacle::Draining(path));
        }
        if !may_submit {
            return Err(Obstacle::NoAccess { user: submission.user.to_owned(), path });
        }
        return Ok((path, deepest, Vec::new()));
    }
    let ancestor = ancestor.to_owned();
    if !may_submit {
        return Err(Obstacle::NoCreation { user: submission.user.to_owned(), ancestor, path });
    }
    if tree.is_leaf(deepest) {
        return Err(Obstacle::UnderLeaf { ancestor, path });
    }
    if tree.is_draining(deepest) {
        return Err(Obstacle::UnderDraining { ancestor, path });
    }
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    let missing: Vec<String> =
        ends.filter(|end| *end > ancestor.len()).map(|end| path[..end].to_owned()).collect();
    // Whoever does not run already is refused for such a name when the queue is to be made.
    if submission.is_forced
        && missing.iter().any(|path| path.rsplit('.').next().is_some_and(is_reserved))
    {
        return Err(Obstacle::Reserved(path));
    }
    Ok((path, deepest, missing))
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

/// The name of the queue that nobody configures and nobody else may use, at any level.
pub fn is_reserved(name: &str) -> bool {
    RECOVERY.strip_prefix("root.").is_some_and(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// Whether a queue can be called that (3.2).
pub fn is_queue_name(name: &str) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_:#/@-".contains(byte);
    (1..=64).contains(&name.len()) && name.as_bytes().iter().all(allowed)
}

/// The value of a tag; case does not count in its name, and an empty value is as good as none.
pub fn tag<'t>(tags: &'t Tags, name: &str) -> Option<&'t str> {
    let found = tags.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
}

/// Whether the tags say that the application runs already (6.7).
pub fn is_forced(tags: &Tags) -> bool {
    tag(tags, FORCE).is_some_and(|text| matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True"))
}
