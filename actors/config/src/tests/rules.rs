//! Placement rules in the document: keys, locations, and that they are checked at all. The meaning
//! of rules is tested in `placement`.

use super::*;

/// Returns a partition with these rules, in flow style, over `root.dev` (leaf) and `root.users`
/// (parent).
fn with_rules(rules: &str) -> String {
    format!(
        "partitions: [{{placementrules: {rules}, queues: [{{name: dev, submitacl: ada}}, \
         {{name: Users, parent: true}}]}}]"
    )
}

fn rules(text: &str) -> Vec<RuleConfig> {
    parsed(&with_rules(text)).partitions.remove(0).placement
}

#[test]
fn a_rule_is_read_with_its_filter_and_parents() {
    let [rule] = &*rules(
        "[{name: Tag, value: namespace, create: yes, filter: {type: DENY, users: [a, b], groups: \
         [c]}, parent: {name: user, create: true, parent: {name: fixed, value: users}}}]",
    ) else {
        panic!("one rule")
    };
    assert_eq!((&*rule.name, &*rule.value, rule.create), ("tag", "namespace", true));
    let users = vec!["a".to_owned(), "b".to_owned()];
    let filter = FilterConfig { denies: true, users, groups: vec!["c".to_owned()] };
    assert_eq!(rule.filter, filter);
    let parent = rule.parent.as_ref().unwrap();
    assert_eq!((&*parent.name, parent.create), ("user", true));
    let innermost = parent.parent.as_ref().unwrap();
    assert_eq!((&*innermost.name, innermost.create), ("fixed", false));
    assert_eq!(innermost.filter, FilterConfig::default());
    assert_eq!(rules("[]"), []);
    assert_eq!(rules("null"), []);
}

#[test]
fn keys_and_types_of_rules_are_checked() {
    for rule in [
        "{name: user, values: x}",
        "{name: user, create: perhaps}",
        "{name: user, filter: deny}",
        "{name: user, filter: {kind: deny}}",
        "{name: user, filter: {users: bob}}",
        "{name: user, filter: {users: [[bob]]}}",
        "{name: user, parent: fixed}",
        "{name: [user]}",
        "{name: fixed, value: {a: b}}",
        "user",
    ] {
        assert_eq!(codes(&with_rules(&format!("[{rule}]"))), ["E_CONF_PARSE"], "{rule}");
    }
    assert_eq!(codes(&with_rules("{name: user}")), ["E_CONF_PARSE"], "a list is wanted");
}

#[test]
fn a_filter_allows_or_denies_in_any_case() {
    let rule = |kind: &str| with_rules(&format!("[{{name: user, filter: {{type: {kind}}}}}]"));
    for kind in ["allow", "Allow", "deny", "DENY", "\"\"", "null"] {
        assert_eq!(codes(&rule(kind)), [""; 0], "{kind}");
    }
    for kind in ["permit", "denied", "\" deny\""] {
        assert_eq!(codes(&rule(kind)), ["E_FILTER_TYPE"], "{kind}");
        assert!(only_error(&rule(kind)).contains(kind.trim_matches('"')));
    }
}

#[test]
fn rule_errors_point_at_the_faulty_setting() {
    for (rules, code, path) in [
        ("[{name: provided}, {create: true}]", "E_RULE_NAME", "[1]"),
        ("[{name: provided}, {name: \"a b\"}]", "E_RULE_NAME", "[1].name"),
        ("[{name: group}]", "E_RULE_UNKNOWN", "[0].name"),
        ("[{name: recovery}]", "E_RULE_RECOVERY", "[0].name"),
        ("[{name: user, parent: {name: group}}]", "E_RULE_UNKNOWN", "[0].parent.name"),
        ("[{name: fixed}]", "E_FIXED_EMPTY", "[0]"),
        ("[{name: tag, value: \"\"}]", "E_TAG_EMPTY", "[0].value"),
        ("[{name: fixed, value: a.b$}]", "E_QUEUE_NAME", "[0].value"),
        ("[{name: user, filter: {users: [\"99test\"]}}]", "E_FILTER_USER", "[0].filter.users"),
        (
            "[{name: user, parent: {name: fixed, value: users, filter: {groups: [\"a@b\"]}}}]",
            "E_FILTER_GROUP",
            "[0].parent.filter.groups",
        ),
        ("[{name: user, filter: {type: x}}]", "E_FILTER_TYPE", "[0].filter.type"),
        (
            "[{name: user, create: true, parent: {name: fixed, value: dev}}]",
            "E_RULE_NOT_PARENT",
            "[0]",
        ),
        ("[{name: fixed, value: users}]", "E_RULE_NOT_LEAF", "[0].value"),
        ("[{name: fixed, value: gone}]", "E_RULE_QUEUE_MISSING", "[0].value"),
        ("[{name: fixed, value: root.dev.x, create: true}]", "E_RULE_LAST_IS_LEAF", "[0].value"),
    ] {
        let errors = parse(&with_rules(rules)).unwrap_err();
        let [error] = &*errors.reported else { panic!("one error: {errors}") };
        let full = format!("partitions[0].placementrules{path}");
        assert_eq!((error.code, &*error.path), (code, &*full), "{rules}");
    }
}

/// Faults of the text in any rule come before paths, and parents before their rule.
#[test]
fn errors_are_ordered_by_rank() {
    let text = with_rules(
        "[{name: fixed, value: users}, {name: tag}, {name: \"1\", filter: {users: [\"9\"]}, parent: \
         {name: user, filter: {type: x, groups: [\"9\"]}, parent: {name: \"2\"}}}, {name: fixed, \
         value: gone}, {name: user, filter: {type: y}}]",
    );
    let told: Vec<(&str, String)> = (parse(&text).unwrap_err().reported.into_iter())
        .map(|error| (error.code, error.path.replace("partitions[0].placementrules", "")))
        .collect();
    let told: Vec<(&str, &str)> = told.iter().map(|(code, path)| (*code, &**path)).collect();
    assert_eq!(
        told,
        [
            ("E_RULE_NAME", "[2].parent.parent.name"),
            ("E_FILTER_TYPE", "[2].parent.filter.type"),
            ("E_FILTER_GROUP", "[2].parent.filter.groups"),
            ("E_RULE_NAME", "[2].name"),
            ("E_FILTER_USER", "[2].filter.users"),
            ("E_FILTER_TYPE", "[4].filter.type"),
            ("E_RULE_NOT_LEAF", "[0].value"),
            ("E_RULE_QUEUE_MISSING", "[3].value"),
            ("E_TAG_EMPTY", "[1]"),
        ]
    );
}

#[test]
fn rules_are_checked_against_the_queues_that_are_configured() {
    let rule = "[{name: user, create: true, parent: {name: fixed, value: root.USERS}}]";
    assert_eq!(codes(&with_rules(rule)), [""; 0], "case does not count");
    let unknown = format!("partitions: [{{placementrules: {rule}}}]");
    assert_eq!(codes(&unknown), ["E_NO_QUEUES"], "without queues there is nothing to compare");
}

#[test]
fn an_unreadable_rule_is_reported_once() {
    assert_eq!(codes(&with_rules("[{name: fixed, value: [a]}]")), ["E_CONF_PARSE"]);
    assert_eq!(codes(&with_rules("[{name: {}, value: a}]")), ["E_CONF_PARSE"]);
}

#[test]
fn unlikely_filters_warn() {
    let warned = |filter: &str| {
        let text = with_rules(&format!("[{{name: provided, filter: {filter}}}]"));
        let warnings = parsed(&text).warnings;
        warnings.iter().map(|w| w.message.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(warned("{type: deny}"), ["the"]);
    assert_eq!(warned("{type: allow}"), [""; 0]);
    assert_eq!(warned("{users: [ada, 'bob*', eve$]}"), ["`bob*`"]);
    assert_eq!(warned("{groups: ['dev.*', '*']}"), ["`dev.*`", "`*`"]);
    assert_eq!(warned("{users: ['bob*'], groups: ['dev.*']}"), [""; 0]);
}
