//! One placement rule: finds the name of a queue and makes its path.

use super::filter::Filter;
use super::{Expressions, QueueTree, RuleError, RuleObstacle, Submission, tag};
use crate::RuleConfig;
use monoceros_rules::values::names::{is_queue_name, is_queue_path, is_rule, is_whole_path, shown};

/// A placement rule that was checked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    pub(super) source: Source,
    /// Whether the rule may create its queue.
    pub(super) create: bool,
    pub(super) filter: Filter,
    pub(super) parent: Option<Box<Rule>>,
}

/// The source of the queue's name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    /// The queue named by the submission.
    Provided,
    /// The name of the user.
    User,
    /// A queue from the configuration, in lower case.
    Fixed {
        queue: String,
        /// Whether the name is a whole path.
        qualified: bool,
    },
    /// A tag of the application, by its name in lower case.
    Tag(String),
}

/// The result of a rule.
pub(super) enum Outcome {
    /// The path of a queue. Whether the application may use the queue is checked later.
    Path(String),
    /// The rule yields no path, so the next rule is tried.
    NoMatch(RuleObstacle),
    /// The rule failed, so no further rule is tried.
    Failed(String),
}

/// A name before it is joined to its parent.
enum Found<'a> {
    /// A whole path.
    Path(&'a str),
    /// A name below the parent, which is evaluated later.
    Child(String),
}

impl Rule {
    /// Builds the rule and its parents. `None` if any of them has an error.
    pub(super) fn build(
        config: &RuleConfig,
        number: usize,
        depth: usize,
        expressions: &mut Expressions,
        errors: &mut Vec<RuleError>,
    ) -> Option<Self> {
        let name = config.name.to_ascii_lowercase();
        let mut own = Vec::new();
        let mut wrong = |code, message| {
            own.push(RuleError { code, rule: number, depth, message });
        };
        let source = source(config, &name, &mut wrong);
        let filter = Filter::build(&config.filter, expressions, &mut wrong);
        errors.extend(own);
        let parent = config.parent.as_ref();
        let parent =
            parent.map(|parent| Self::build(parent, number, depth + 1, expressions, errors));
        let parent = match parent {
            None => None,
            Some(built) => Some(Box::new(built?)),
        };
        Some(Self { source: source?, create: config.create, filter: filter?, parent })
    }

    /// The tags that the rule and its parents read.
    pub(super) fn tags(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self), |rule| rule.parent.as_deref()).filter_map(|rule| {
            match &rule.source {
                Source::Tag(name) => Some(&**name),
                _ => None,
            }
        })
    }

    pub(super) fn name(&self) -> &'static str {
        match self.source {
            Source::Provided => "provided",
            Source::User => "user",
            Source::Fixed { .. } => "fixed",
            Source::Tag(_) => "tag",
        }
    }

    /// Returns the path that the rule yields for the application.
    pub(super) fn evaluate<T: QueueTree>(&self, new: &Submission<'_>, tree: &T) -> Outcome {
        let text = match self.text(new) {
            Ok(text) => text,
            Err(obstacle) => return Outcome::NoMatch(obstacle),
        };
        if !self.filter.passes(new.user, new.groups) {
            return Outcome::NoMatch(RuleObstacle::Filtered);
        }
        let path = match self.find(text) {
            Err(why) => return Outcome::Failed(why),
            Ok(Found::Path(path)) => path.to_owned(),
            Ok(Found::Child(child)) => match self.parent_path(new, tree) {
                Outcome::Path(parent) => format!("{parent}.{child}"),
                other => return other,
            },
        };
        if !self.create && tree.find(&path.to_ascii_lowercase()).is_none() {
            let path = path.to_ascii_lowercase();
            return Outcome::NoMatch(RuleObstacle::Missing { path, hint: None });
        }
        Outcome::Path(path)
    }

    /// Returns the text that names the queue, or the obstacle if there is none.
    fn text<'a>(&'a self, new: &Submission<'a>) -> Result<&'a str, RuleObstacle> {
        match &self.source {
            Source::Provided if new.queue.is_empty() => Err(RuleObstacle::NoQueueNamed),
            Source::Provided => Ok(new.queue),
            Source::User => Ok(new.user),
            Source::Fixed { queue, .. } => Ok(queue),
            Source::Tag(name) => {
                let value = new.tags.and_then(|tags| tag(tags.iter(), name));
                value.ok_or_else(|| RuleObstacle::NoTag(name.clone()))
            }
        }
    }

    fn find<'a>(&self, text: &'a str) -> Result<Found<'a>, String> {
        match self.source {
            Source::Fixed { qualified: true, .. } => return Ok(Found::Path(text)),
            Source::Fixed { qualified: false, .. } => return Ok(Found::Child(text.to_owned())),
            Source::Provided | Source::Tag(_) if is_whole_path(text) => {
                if is_queue_path(text) {
                    return Ok(Found::Path(text));
                }
            }
            Source::Provided | Source::Tag(_) | Source::User => {
                let child = text.replace('.', "_dot_");
                if is_queue_name(&child) {
                    return Ok(Found::Child(child));
                }
            }
        }
        Err(format!("`{}` is no queue path, {NAMES}", shown(text)))
    }

    /// Evaluates the parent rule; its path is the parent of the queue.
    fn parent_path<T: QueueTree>(&self, new: &Submission<'_>, tree: &T) -> Outcome {
        let Some(parent) = &self.parent else { return Outcome::Path("root".to_owned()) };
        let path = match parent.evaluate(new, tree) {
            Outcome::Path(path) if is_whole_path(&path) => path,
            // A parent that yields only `root` counts too: the queue is then below `root.root`.
            Outcome::Path(path) => format!("root.{path}"),
            other => return other,
        };
        match tree.find(&path.to_ascii_lowercase()) {
            Some(queue) if tree.is_leaf(queue) => {
                Outcome::Failed(format!("its parent rule gives `{path}`, which is a leaf queue"))
            }
            _ => Outcome::Path(path),
        }
    }
}

const NAMES: &str = "each part has 1 to 64 characters out of letters, digits and `_ : # / @ -`";

fn source(
    config: &RuleConfig,
    name: &str,
    wrong: &mut impl FnMut(&'static str, String),
) -> Option<Source> {
    let written = &config.name;
    match name {
        "provided" => Some(Source::Provided),
        "user" => Some(Source::User),
        "fixed" => fixed(config, wrong),
        "tag" if config.value.is_empty() => {
            wrong("E_TAG_EMPTY", "rule `tag` has no value; write the name of a tag".to_owned());
            None
        }
        "tag" => Some(Source::Tag(config.value.to_lowercase())),
        "recovery" => {
            let message = format!(
                "rule `{written}` is always the last and cannot be configured; leave it out"
            );
            wrong("E_RULE_RECOVERY", message);
            None
        }
        _ if !is_rule(name) => {
            let message = format!(
                "`{written}` is not the name of a rule: write letters, digits and `_`, no digit first"
            );
            wrong("E_RULE_NAME", message);
            None
        }
        _ => {
            let message =
                format!("there is no rule `{written}`; write `provided`, `user`, `fixed` or `tag`");
            wrong("E_RULE_UNKNOWN", message);
            None
        }
    }
}

fn fixed(config: &RuleConfig, wrong: &mut impl FnMut(&'static str, String)) -> Option<Source> {
    let queue = config.value.to_lowercase();
    if queue.is_empty() {
        wrong("E_FIXED_EMPTY", "rule `fixed` has no value; write a queue".to_owned());
        return None;
    }
    let mut is_fine = true;
    for part in queue.split('.').filter(|part| !is_queue_name(part)) {
        let message = format!("`{part}` in `{}` is not a queue name, {NAMES}", config.value);
        wrong("E_QUEUE_NAME", message);
        is_fine = false;
    }
    let qualified = queue == "root" || queue.starts_with("root.");
    if qualified && config.parent.is_some() {
        let message = format!(
            "rule `fixed` has the whole path `{}` and a parent as well; leave out one of them",
            config.value
        );
        wrong("E_FIXED_QUALIFIED_PARENT", message);
        is_fine = false;
    }
    is_fine.then_some(Source::Fixed { queue, qualified })
}
