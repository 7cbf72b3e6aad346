//! Checks the fixed part of rules' paths against the configured queues, before any application is
//! placed.

use std::collections::HashMap;

use super::{Expressions, PlacementRules, RuleError};
use crate::RuleConfig;
use monoceros_rules::queues::QueueConfig;

/// Compiles the rules, or returns all their errors in order, one for each fault: those of
/// [`PlacementRules::build`], and for rules without such errors those of `check_paths`.
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

/// Lists the rules whose fixed beginning leads to no configured queue, or to a queue of the wrong
/// type. Rules are checked as far as they are `fixed`, whatever other faults they have.
pub(super) fn check_paths(rules: &[RuleConfig], root: &QueueConfig) -> Vec<RuleError> {
    let checked = rules.iter().enumerate();
    checked.filter_map(|(number, rule)| check_path(number, rule, root)).collect()
}

/// The beginning of a rule's path that is the same for every application.
pub(crate) struct FixedPath {
    /// The path in lower case, from root on.
    pub(crate) path: String,
    /// Whether the rule continues below this path.
    pub(crate) has_more: bool,
    /// Names of the rules of the chain, the innermost first.
    pub(crate) chain: String,
}

/// Returns the fixed part of a valid rule's path. `None` if its chain does not begin with a `fixed`
/// rule.
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

/// Describes the fault of a path from root, for a rule that continues below it or ends there.
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
