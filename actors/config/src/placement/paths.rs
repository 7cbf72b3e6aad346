//! What can be said of rules before any application comes: whether the part of a path that is
//! always the same leads somewhere in the configured queues.

use std::collections::HashMap;

use super::{Expressions, PlacementRules, RuleError};
use crate::RuleConfig;
use monoceros_rules::queues::QueueConfig;

/// The rules, or everything that is wrong with them, one error for one fault, in order: what
/// [`PlacementRules::build`] finds, and for the rules it finds nothing in, what `check_paths` does.
pub(crate) fn check(
    rules: &[RuleConfig],
    root: &QueueConfig,
    expressions: &mut Expressions,
) -> Result<PlacementRules, Vec<RuleError>> {
    let built = PlacementRules::build_within(rules, expressions);
    let mut errors = built.as_ref().err().cloned().unwrap_or_default();
    let mut by_rule: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, error) in errors.iter().enumerate() {
        by_rule.entry(error.rule).or_default().push(at);
    }
    for error in check_paths(rules, root) {
        let Some(others) = by_rule.get(&error.rule) else {
            errors.push(error);
            continue;
        };
        let is_same = |other: &RuleError| {
            other.code == "E_FIXED_QUALIFIED_PARENT" && other.depth == error.depth
        };
        if let Some(at) = others.iter().find(|at| is_same(&errors[**at])) {
            errors[*at] = error;
        }
    }
    errors.sort_by_key(RuleError::rank);
    if errors.is_empty() { built } else { Err(errors) }
}

/// The rules whose fixed beginning leads nowhere in the configured queues, or to a queue of the
/// wrong kind. They are read as far as they are `fixed`, whatever else may be wrong with them.
pub(super) fn check_paths(rules: &[RuleConfig], root: &QueueConfig) -> Vec<RuleError> {
    let checked = rules.iter().enumerate();
    checked.filter_map(|(number, rule)| check_path(number, rule, root)).collect()
}

/// The beginning of a rule's path that is the same for every application.
pub(crate) struct FixedPath {
    /// In lower case, from root on.
    pub(crate) path: String,
    /// The rule goes on below it.
    pub(crate) has_more: bool,
    /// The names of the rules of the chain, the innermost first.
    pub(crate) chain: String,
}

/// The fixed part of the path of a rule whose paths are right; `None` where its chain begins otherwise.
pub(crate) fn fixed_path(rule: &RuleConfig) -> Option<FixedPath> {
    fixed_prefix(0, rule).ok()?
}

fn check_path(number: usize, rule: &RuleConfig, root: &QueueConfig) -> Option<RuleError> {
    let fixed = match fixed_prefix(number, rule) {
        Err(error) => return Some(error),
        Ok(fixed) => fixed?,
    };
    let FixedPath { path: prefix, has_more, chain: shown } = fixed;
    let (code, why) = fault(&prefix, rule.create, has_more, root)?;
    let message = format!("rule {} (`{shown}`) leads to `{prefix}`: {why}", number + 1);
    Some(RuleError { code, rule: number, depth: 0, message })
}

fn fixed_prefix(number: usize, rule: &RuleConfig) -> Result<Option<FixedPath>, RuleError> {
    let mut chain: Vec<&RuleConfig> =
        std::iter::successors(Some(rule), |rule| rule.parent.as_deref()).collect();
    chain.reverse();
    let outermost = chain.len() - 1;
    let names: Vec<String> = chain.iter().map(|rule| rule.name.to_ascii_lowercase()).collect();
    let shown = names.join("->");
    let n_fixed = names.iter().take_while(|name| *name == "fixed").count();
    let mut prefix = String::new();
    for (level, rule) in chain.iter().enumerate().take(n_fixed) {
        let value = rule.value.to_lowercase();
        let qualified = value == "root" || value.starts_with("root.");
        if value.is_empty() {
            return Ok(None);
        }
        if level == 0 && qualified {
            prefix = value;
        } else if level == 0 {
            prefix = format!("root.{value}");
        } else if qualified {
            let message = format!(
                "rule {} (`{shown}`): `{}` is a whole path, but stands below `{prefix}`; write the \
                 rest of the path only",
                number + 1,
                rule.value
            );
            let (code, depth) = ("E_RULE_QUALIFIED_INNER", outermost - level);
            return Err(RuleError { code, rule: number, depth, message });
        } else {
            prefix = format!("{prefix}.{value}");
        }
    }
    let has_more = n_fixed < chain.len();
    let fixed = FixedPath { path: prefix, has_more, chain: shown };
    Ok(Some(fixed).filter(|fixed| !fixed.path.is_empty()))
}

/// What is wrong with a path that begins with root, for a rule that goes on below it or ends there.
fn fault(
    prefix: &str,
    create: bool,
    has_more: bool,
    root: &QueueConfig,
) -> Option<(&'static str, String)> {
    let mut queue = root;
    for name in prefix.split('.').skip(1) {
        if queue.is_leaf {
            return Some(("E_RULE_LAST_IS_LEAF", format!("`{}` is a leaf queue", queue.path)));
        }
        let child = queue.children.iter().find(|child| child.name.eq_ignore_ascii_case(name));
        let Some(child) = child else {
            let why = format!("there is no `{name}` in `{}`, and `create` is not set", queue.path);
            return (!create).then_some(("E_RULE_QUEUE_MISSING", why));
        };
        queue = child;
    }
    match (has_more, queue.is_leaf) {
        (true, true) => Some((
            "E_RULE_NOT_PARENT",
            "it is a leaf queue, and the rule goes on below it; set `parent` on the queue"
                .to_owned(),
        )),
        (false, false) => Some((
            "E_RULE_NOT_LEAF",
            "it is a parent queue, and applications run in leaves; name one of them".to_owned(),
        )),
        _ => None,
    }
}
