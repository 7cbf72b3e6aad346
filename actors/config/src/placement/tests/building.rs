//! Rejected lists of rules, and the form in which rules are shown.

use super::*;
use crate::placement::paths::check_paths;

/// Returns the codes of all errors of rules over configured queues.
fn faults(rules: &[RuleConfig], queues: &str) -> Vec<&'static str> {
    check(rules, &configured(queues), &mut Expressions::default())
        .err()
        .unwrap_or_default()
        .iter()
        .map(|error| error.code)
        .collect()
}

#[test]
fn without_rules_there_are_provided_and_recovery() {
    let shown = serde_json::to_value(PlacementRules::build(&[]).unwrap().shown()).unwrap();
    let expected = serde_json::json!([
        {"name": "provided", "parameters": {"create": "false"}},
        {"name": "recovery", "parameters": {"queue": "root.@recovery@"}},
    ]);
    assert_eq!(shown, expected);
}

#[test]
fn names_filters_and_parents_of_rules_are_checked() {
    let none: &[&str] = &[];
    for (rule, expected) in [
        (below(rule("user"), fixed("root.x")), &["E_FIXED_QUALIFIED_PARENT"] as &[&str]),
        (filtered("", &["99test"], &[], rule("user")), &["E_FILTER_USER"]),
        (filtered("", &[], &["a@b"], rule("user")), &["E_FILTER_GROUP"]),
        (filtered("", &["test[test"], &[], rule("user")), &["E_FILTER_USER"]),
        (filtered("", &["a]"], &["a]"], rule("user")), &["E_FILTER_USER", "E_FILTER_GROUP"]),
        (filtered("", &["a}"], &["a}"], rule("user")), none),
        (filtered("", &["test*"], &[], rule("user")), none),
        (filtered("", &["99test", "test[test"], &[], rule("user")), none),
        (filtered("deny", &[""], &[""], rule("user")), &["E_FILTER_USER", "E_FILTER_GROUP"]),
        (fixed(""), &["E_FIXED_EMPTY"]),
        (fixed("a..b"), &["E_QUEUE_NAME"]),
        (fixed("a!.b$"), &["E_QUEUE_NAME", "E_QUEUE_NAME"]),
        (fixed("rootless"), none),
        (fixed("ROOT.x"), none),
        (tagged(""), &["E_TAG_EMPTY"]),
        (rule("recovery"), &["E_RULE_RECOVERY"]),
        (rule("Provided"), none),
        (rule("group"), &["E_RULE_UNKNOWN"]),
        (rule("test"), &["E_RULE_UNKNOWN"]),
        (rule(""), &["E_RULE_NAME"]),
        (rule("1st"), &["E_RULE_NAME"]),
        (rule("a-b"), &["E_RULE_NAME"]),
    ] {
        assert_eq!(codes(std::slice::from_ref(&rule)), expected, "{rule:?}");
    }
}

#[test]
fn all_errors_are_reported_with_rule_and_depth() {
    let rules =
        [rule("user"), below(below(fixed(""), rule("group")), tagged("")), rule("recovery")];
    let errors = PlacementRules::build(&rules).unwrap_err();
    let told: Vec<_> = errors.iter().map(|error| (error.rule, error.depth, error.code)).collect();
    assert_eq!(
        told,
        [
            (1, 2, "E_FIXED_EMPTY"),
            (1, 1, "E_RULE_UNKNOWN"),
            (1, 0, "E_TAG_EMPTY"),
            (2, 0, "E_RULE_RECOVERY")
        ]
    );
}

#[test]
fn impossible_paths_are_rejected() {
    let queues = "{name: users}, {name: default}, {name: Admins, queues: [{name: dev}]}, \
                  {name: open, parent: true}";
    let none: &[&str] = &[];
    for (rule, expected) in [
        (below(fixed("root.users"), rule("user")), &["E_RULE_NOT_PARENT"] as &[&str]),
        (below(fixed("admins"), fixed("nobody")), &["E_RULE_QUEUE_MISSING"]),
        (creating(below(fixed("admins"), fixed("nobody"))), none),
        (below(fixed("ADMINS"), fixed("Dev")), none),
        (fixed("root.default.leaf"), &["E_RULE_LAST_IS_LEAF"]),
        (creating(fixed("root.default.leaf")), &["E_RULE_LAST_IS_LEAF"]),
        (fixed("admins"), &["E_RULE_NOT_LEAF"]),
        (fixed("root"), &["E_RULE_NOT_LEAF"]),
        (fixed("open"), &["E_RULE_NOT_LEAF"]),
        (below(fixed("open"), rule("user")), none),
        (fixed("open.x"), &["E_RULE_QUEUE_MISSING"]),
        (creating(fixed("open.x")), none),
        (below(fixed("admins"), fixed("root.x")), &["E_RULE_QUALIFIED_INNER"]),
        (below(rule("user"), fixed("nowhere")), none),
        (below(rule("user"), fixed("root.x")), &["E_FIXED_QUALIFIED_PARENT"]),
        // Only the outermost rule's `create` counts.
        (creating(below(below(fixed("x"), fixed("y")), rule("user"))), none),
        (below(below(creating(fixed("x")), fixed("y")), rule("user")), &["E_RULE_QUEUE_MISSING"]),
        // A rule's own error hides that of its path.
        (below(fixed("root.users"), tagged("")), &["E_TAG_EMPTY"]),
    ] {
        assert_eq!(faults(std::slice::from_ref(&rule), queues), expected, "{rule:?}");
    }
}

#[test]
fn a_dead_path_is_reported_with_its_rule_chain() {
    let rules = [rule("user"), below(below(fixed("users"), tagged("ns")), rule("user"))];
    let errors = check_paths(&rules, &configured("{name: users}"));
    let told = "rule 2 (`fixed->tag->user`) leads to `root.users`: it is a leaf queue, and the rule \
                goes on below it; set `parent` on the queue [E_RULE_NOT_PARENT]";
    assert_eq!(errors[0].to_string(), told);
    assert_eq!((errors[0].rule, errors.len()), (1, 1));
}

#[test]
fn rules_are_shown_with_their_parameters_filters_and_parents() {
    let rules = [
        below(
            filtered("deny", &["a", "b"], &["dev*"], creating(rule("User"))),
            creating(fixed("Batch.X")),
        ),
        filtered("", &["b", "a", "b"], &[], tagged("Name.Space")),
        fixed("root.spare"),
        filtered("deny", &[], &[], rule("provided")),
    ];
    let shown = serde_json::to_value(PlacementRules::build(&rules).unwrap().shown()).unwrap();
    let expected = serde_json::json!([
        {
            "name": "fixed",
            "parameters": {"create": "true", "queue": "batch.x", "qualified": "false"},
            "parentRule": {
                "name": "user",
                "parameters": {"create": "true"},
                "filter": {"type": "deny", "userList": ["a", "b"], "groupExp": "dev*"},
            },
        },
        {
            "name": "tag",
            "parameters": {"create": "false", "tagName": "name.space"},
            "filter": {"type": "allow", "userList": ["a", "b"]},
        },
        {
            "name": "fixed",
            "parameters": {"create": "false", "queue": "root.spare", "qualified": "true"},
        },
        {"name": "provided", "parameters": {"create": "false"}},
        {"name": "recovery", "parameters": {"queue": "root.@recovery@"}},
    ]);
    assert_eq!(shown, expected);
}
