//! Checks the words that the message of each error must contain, and that each code is in the
//! manual.

use super::*;

/// A fault whose text would be too long for the table; it is tested in `hostile`.
const TESTED_ELSEWHERE: &str = "E_PROPERTIES_BYTES";

/// A text with one fault, its code, and words that the message must contain.
const FAULTS: &[(&str, &str, &[&str])] = &[
    ("partitions: [{queues: [], size: 5}]", "E_CONF_PARSE", &["line 1", "`size`"]),
    ("partitions: [{queues: [{name: a, parent: 2}]}]", "E_CONF_PARSE", &["line 1", "`2`"]),
    ("checksum: x", "E_NO_PARTITIONS", &["`partitions`"]),
    ("partitions: [{}]", "E_NO_QUEUES", &["`queues`"]),
    ("partitions: [{name: a]b, queues: []}]", "E_CONF_PARSE", &["line 1"]),
    ("partitions: [{name: 'a]b', queues: []}]", "E_PARTITION_IDENT", &["`a]b`"]),
    (
        "partitions: [{name: GPU, queues: []}, {name: gpu, queues: []}]",
        "E_PARTITION_DUP",
        &["`gpu`", "line 1"],
    ),
    (
        "partitions: [{queues: [{name: x.y}]}]",
        "E_QUEUE_NAME",
        &["`x.y`", "64", "a-z A-Z 0-9 _ : # / @ -"],
    ),
    (
        "partitions: [{queues: [{name: p, queues: [{name: a}, {name: A}]}]}]",
        "E_QUEUE_DUP",
        &["`A`", "level 2", "`root.p`"],
    ),
    (
        "partitions: [{queues: [{name: root, resources: {max: {}}}]}]",
        "E_ROOT_RESOURCES",
        &["`max`", "root"],
    ),
    ("partitions: [{queues: [{name: a, submitacl: 'x  y'}]}]", "E_ACL_SPACES", &["`x  y`"]),
    (
        "partitions: [{queues: [{name: a, resources: {max: {gpu: x}}}]}]",
        "E_QTY_INVALID",
        &["`gpu`", "`x`", "`root.a`"],
    ),
    (
        "partitions: [{queues: [{name: a, resources: {max: {gpu: 5K}}}]}]",
        "E_QTY_SUFFIX",
        &["`gpu`", "`5K`", "`root.a`"],
    ),
    (
        "partitions: [{queues: [{name: a, resources: {guaranteed: {gpu: 99E}}}]}]",
        "E_QTY_OVERFLOW",
        &["`gpu`", "`99E`", "`root.a`"],
    ),
    (
        "partitions: [{queues: [{name: a, limits: [{limit: L, users: [u], maxresources: {gpu: x}}]}]}]",
        "E_QTY_INVALID",
        &["`gpu`", "`x`", "`root.a`", "`L`"],
    ),
    (
        "partitions: [{queues: [{name: a, parent: true, childtemplate: {resources: {max: {gpu: x}}}}]}]",
        "E_TEMPLATE_QTY",
        &["`gpu`", "`x`", "`root.a`"],
    ),
    (
        "partitions: [{queues: [{name: a, resources: {guaranteed: {gpu: 2}, max: {gpu: 1}}}]}]",
        "E_GUAR_GT_MAX",
        &["{gpu: 2}", "{gpu: 1}", "`root.a`"],
    ),
    (
        "partitions: [{queues: [{name: p, resources: {max: {gpu: 1}}, queues: [{name: a, resources: \
         {max: {gpu: 2}}}]}]}]",
        "E_MAX_GT_PARENT",
        &["{gpu: 2}", "{gpu: 1}", "`root.p.a`"],
    ),
    (
        "partitions: [{queues: [{name: p, resources: {guaranteed: {gpu: 1}}, queues: [{name: a, \
         resources: {guaranteed: {gpu: 2}}}]}]}]",
        "E_CHILD_GUAR_GT_PARENT_GUAR",
        &["{gpu: 2}", "{gpu: 1}", "`root.p`"],
    ),
    (
        "partitions: [{queues: [{name: p, resources: {max: {gpu: 3}}, queues: [{name: a, resources: \
         {guaranteed: {gpu: 2}}}, {name: b, resources: {guaranteed: {gpu: 2}}}]}]}]",
        "E_CHILD_GUAR_GT_MAX",
        &["{gpu: 4}", "{gpu: 3}", "`root.p`"],
    ),
    (
        "partitions: [{queues: [{name: p, maxapplications: 7, queues: [{name: a}]}]}]",
        "E_MAXAPPS_CHILD_UNSET",
        &["`root.p`", "7", "`root.p.a`", "0"],
    ),
    (
        "partitions: [{queues: [{name: p, maxapplications: 7, queues: [{name: a, maxapplications: \
         8}]}]}]",
        "E_MAXAPPS_CHILD_LARGER",
        &["`root.p`", "7", "`root.p.a`", "8"],
    ),
    (
        "partitions: [{queues: [], nodesortpolicy: {type: Fair}}]",
        "E_NODESORT_POLICY",
        &["`Fair`", "`fair`"],
    ),
    (
        "partitions: [{queues: [], nodesortpolicy: {resourceweights: {gpu: -1}}}]",
        "E_NODESORT_WEIGHT",
        &["`gpu`", "-1"],
    ),
    (
        "partitions: [{limits: [{limit: L, users: [u], maxapplications: 1}], queues: [{name: root, \
         limits: [{limit: M, users: [u], maxapplications: 1}]}]}]",
        "E_LIMITS_DIFFER",
        &["partition", "root"],
    ),
    ("limit: L, maxapplications: 1", "E_LIMIT_NO_SUBJECT", &["`L`", "`root.q`", "`users`"]),
    ("limit: L, users: [9x], maxapplications: 1", "E_LIMIT_USER_NAME", &["`L`", "`9x`"]),
    ("limit: L, users: [u, u], maxapplications: 1", "E_LIMIT_USER_DUP", &["`L`", "`u`"]),
    (
        "limit: L, users: ['*', u], maxapplications: 1",
        "E_LIMIT_USER_AFTER_WILDCARD",
        &["`L`", "`u`", "`*`"],
    ),
    ("limit: L, groups: [9x], maxapplications: 1", "E_LIMIT_GROUP_NAME", &["`L`", "`9x`"]),
    ("limit: L, groups: [g, g], maxapplications: 1", "E_LIMIT_GROUP_DUP", &["`L`", "`g`"]),
    (
        "limit: L, groups: [g, '*', h], maxapplications: 1",
        "E_LIMIT_GROUP_AFTER_WILDCARD",
        &["`L`", "`h`", "`*`"],
    ),
    ("limit: L, groups: ['*'], maxapplications: 1", "E_LIMIT_GROUP_ONLY_WILDCARD", &["`L`", "`*`"]),
    ("limit: L, users: [u], maxresources: {gpu: 0}", "E_LIMIT_RES_ZERO", &["`L`", "{gpu: 0}"]),
    ("limit: L, users: [u]", "E_LIMIT_EMPTY", &["`L`", "maxapplications", "maxresources"]),
    ("limit: L, users: [u], maxapplications: 99", "E_LIMIT_APPS_GT_QUEUE", &["`L`", "99", "50"]),
    (
        "limit: L, users: [u], maxresources: {gpu: 99}",
        "E_LIMIT_RES_GT_QUEUE",
        &["`L`", "{gpu: 99}", "{gpu: 50}"],
    ),
    (
        "limit: L, users: [v], maxresources: {gpu: 9}, maxapplications: 1",
        "E_LIMIT_RES_GT_ANCESTOR",
        &["user", "`v`", "{gpu: 9}", "`root.q`", "{gpu: 5}"],
    ),
    (
        "limit: L, users: [v], maxresources: {gpu: 1}, maxapplications: 9",
        "E_LIMIT_APPS_GT_ANCESTOR",
        &["user", "`v`", "9", "`root.q`", "5"],
    ),
    (
        "limit: L, groups: [other], maxresources: {gpu: 9}, maxapplications: 1",
        "E_LIMIT_RES_GT_WILDCARD",
        &["group", "`other`", "{gpu: 9}", "`root.q`", "{gpu: 5}"],
    ),
    (
        "limit: L, groups: [other], maxresources: {gpu: 1}, maxapplications: 9",
        "E_LIMIT_APPS_GT_WILDCARD",
        &["group", "`other`", "9", "`root.q`", "5"],
    ),
    ("name: 'a b'", "E_RULE_NAME", &["`a b`"]),
    ("name: Group", "E_RULE_UNKNOWN", &["`Group`"]),
    ("name: recovery", "E_RULE_RECOVERY", &["recovery"]),
    ("name: fixed", "E_FIXED_EMPTY", &["`fixed`"]),
    ("name: fixed, value: root.q, parent: {name: user}", "E_FIXED_QUALIFIED_PARENT", &["`root.q`"]),
    ("name: tag", "E_TAG_EMPTY", &["`tag`"]),
    ("name: user, filter: {type: keep}", "E_FILTER_TYPE", &["`keep`"]),
    ("name: user, filter: {users: ['9x']}", "E_FILTER_USER", &["`9x`"]),
    ("name: user, filter: {groups: ['a@b']}", "E_FILTER_GROUP", &["`a@b`"]),
    (
        "name: fixed, value: root.x, parent: {name: fixed, value: p}",
        "E_RULE_QUALIFIED_INNER",
        &["rule 1", "fixed->fixed", "root.x"],
    ),
    ("name: fixed, value: gone", "E_RULE_QUEUE_MISSING", &["rule 1", "fixed", "`root.gone`"]),
    ("name: fixed, value: q.x, create: true", "E_RULE_LAST_IS_LEAF", &["rule 1", "`root.q.x`"]),
    (
        "name: user, create: true, parent: {name: fixed, value: q}",
        "E_RULE_NOT_PARENT",
        &["rule 1", "fixed->user", "`root.q`"],
    ),
    ("name: fixed, value: p", "E_RULE_NOT_LEAF", &["rule 1", "fixed", "`root.p`"]),
];

/// Completes a text. A whole document stays as it is; a limit is put on a leaf `root.q`, and a rule
/// above that leaf and an empty parent `root.p`.
fn whole(text: &str) -> String {
    if text.starts_with("limit:") {
        return format!(
            "partitions: [{{limits: [{{limit: above, users: [v], groups: [g, '*'], maxresources: \
             {{gpu: 5}}, maxapplications: 5}}], queues: [{{name: q, maxapplications: 50, resources: \
             {{max: {{gpu: 50}}}}, limits: [{{{text}}}]}}]}}]"
        );
    }
    if text.starts_with("name:") {
        return format!(
            "partitions: [{{placementrules: [{{{text}}}], queues: [{{name: q}}, {{name: p, parent: \
             true}}]}}]"
        );
    }
    text.to_owned()
}

#[test]
fn each_message_names_its_subject() {
    for (text, code, parts) in FAULTS {
        let errors = parse(&whole(text)).unwrap_err();
        let Some(error) = errors.reported.iter().find(|error| error.code == *code) else {
            panic!("`{text}` has no {code}: {errors}")
        };
        let shown = error.to_string();
        assert!(!shown.contains('\n'), "one line: {shown}");
        for part in *parts {
            assert!(shown.contains(part), "`{part}` is not in: {shown}");
        }
    }
}

#[test]
fn every_error_code_is_tested_and_documented() {
    let sources = [
        include_str!("../document/mod.rs"),
        include_str!("../document/reader.rs"),
        include_str!("../yaml.rs"),
        include_str!("../validate/mod.rs"),
        include_str!("../validate/draft.rs"),
        include_str!("../validate/resources.rs"),
        include_str!("../validate/limits.rs"),
        include_str!("../validate/inherited.rs"),
        include_str!("../validate/templates.rs"),
        include_str!("../validate/rules.rs"),
        include_str!("../placement/rule.rs"),
        include_str!("../placement/filter.rs"),
        include_str!("../placement/paths.rs"),
        include_str!("../../../rules/src/values/quantity.rs"),
    ];
    let manual = include_str!("../../../../docs/configuration.md");
    let is_code = |c: char| c.is_ascii_uppercase() || c == '_';
    let mut n_codes = 0;
    for source in sources {
        for rest in source.split("\"E_").skip(1) {
            let name: String = rest.chars().take_while(|c| is_code(*c)).collect();
            let code = format!("E_{name}");
            let is_tested = |(_, tested, _): &(&str, &str, &[&str])| *tested == code;
            assert!(
                FAULTS.iter().any(is_tested) || code == TESTED_ELSEWHERE,
                "no fault with {code}"
            );
            assert!(manual.contains(&format!("| `{code}` |")), "{code} is not in the manual");
            n_codes += 1;
        }
    }
    assert!(n_codes > 30, "{n_codes}");
}
