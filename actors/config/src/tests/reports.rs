//! Reports of faulty configurations: every fault at once, each with its location.

// The form in which expect-test writes snapshots.
#![allow(clippy::needless_raw_string_hashes)]

use expect_test::{Expect, expect};

use super::*;

fn check(text: &str, expected: &Expect) {
    let shown = match parse(text) {
        Ok(configuration) => {
            let lines: Vec<String> =
                configuration.warnings.iter().map(|w| format!("warning: {w}")).collect();
            lines.join("\n")
        }
        Err(errors) => errors.to_string(),
    };
    expected.assert_eq(&format!("{shown}\n"));
}

#[test]
fn many_faults_are_reported_together() {
    check(
        "
partitions:
  - name: default
    placementrules: [{name: provided, values: x}, {name: group}]
    nodesortpolicy: {type: Fair, resourceweights: {memory: -1}}
    preemption: {enabled: maybe}
    limits: [{limit: all, users: ['*'], maxapplications: 10}]
    queues:
      - name: root
        submitacl: 'alice  bob'
        resources: {max: {memory: 1}}
        maxapplications: 10
        queues:
          - name: prod.eu
            maxapplications: 20
            resources:
              guaranteed: {memory: 8Gi}
              max: {memory: 4GiB, vcore: 0.5}
          - name: Batch
            maxApplications: 3
            limits: [{limit: two, users: ['*', bob], maxresources: {memory: 0}}]
            submitacl: '*'
            submitacl: ops
            properties: {preemption.policy: fence}
            resources:
              guaranteed: {vcore: 3}
              max: {vcore: 2}
          - name: batch
            parent: perhaps
            childtemplate: {resources: {max: {memory: 1.5}}}
            maxapplications: 1
            resources: {guarantee: {vcore: 1}}
  - name: Default
",
        &expect![[r#"
            line 4, column 39, partitions[0].placementrules[0].values: unknown key `values` of a placement rule; did you mean `value`? [E_CONF_PARSE]
            line 6, column 27, partitions[0].preemption.enabled: expected `true` or `false`, not `maybe` [E_CONF_PARSE]
            line 20, column 13, partitions[0].queues[0].queues[1].maxApplications: unknown key `maxApplications` of a queue; did you mean `maxapplications`? [E_CONF_PARSE]
            line 23, column 13, partitions[0].queues[0].queues[1].submitacl: the key `submitacl` is here twice, first on line 22 [E_CONF_PARSE]
            line 29, column 21, partitions[0].queues[0].queues[2].parent: expected `true` or `false`, not `perhaps` [E_CONF_PARSE]
            line 32, column 25, partitions[0].queues[0].queues[2].resources.guarantee: unknown key `guarantee` of `resources` of a queue; did you mean `guaranteed`? [E_CONF_PARSE]
            line 11, column 26, partitions[0].queues[0].resources.max: the root queue cannot have `max`: what it offers is what the nodes have [E_ROOT_RESOURCES]
            line 10, column 20, partitions[0].queues[0].submitacl: the access list `alice  bob` has more than one space: write users, one space, groups, with commas and no spaces within each list [E_ACL_SPACES]
            line 14, column 19, partitions[0].queues[0].queues[0].name: `prod.eu` is not a queue name: it takes 1 to 64 characters of a-z A-Z 0-9 _ : # / @ -; for a user name, write `_dot_` for each dot [E_QUEUE_NAME]
            line 28, column 19, partitions[0].queues[0].queues[2].name: `root` already has a queue `batch` at level 1, on line 19; case does not count [E_QUEUE_DUP]
            line 21, column 48, partitions[0].queues[0].queues[1].limits[0].users[1]: limit `two` of queue `root.Batch`: the user `bob` comes after `*`, on line 21; put `*` last [E_LIMIT_USER_AFTER_WILDCARD]
            line 21, column 68, partitions[0].queues[0].queues[1].limits[0].maxresources: maxresources of limit `two` of queue `root.Batch` are {memory: 0}, nothing at all; write one quantity above zero, or remove them [E_LIMIT_RES_ZERO]
            line 18, column 29, partitions[0].queues[0].queues[0].resources.max.memory: max of queue `root.prod.eu`: `4GiB` is not a quantity of `memory`: write `4Gi`, without the `B` [E_QTY_INVALID]
            line 18, column 42, partitions[0].queues[0].queues[0].resources.max.vcore: max of queue `root.prod.eu`: `0.5` is not a quantity of `vcore`: write digits and at most one suffix, such as `2` or `500m` [E_QTY_INVALID]
            line 26, column 27, partitions[0].queues[0].queues[1].resources.guaranteed: queue `root.Batch` is guaranteed {vcore: 3}, more than its max {vcore: 2} [E_GUAR_GT_MAX]
            line 4, column 58, partitions[0].placementrules[1].name: there is no rule `group`; write `provided`, `user`, `fixed` or `tag` [E_RULE_UNKNOWN]
            line 5, column 28, partitions[0].nodesortpolicy.type: `Fair` is not a node sort policy; write `fair` or `binpacking`, in lower case [E_NODESORT_POLICY]
            line 5, column 60, partitions[0].nodesortpolicy.resourceweights.memory: the weight of `memory` is -1; it has to be 0 or more [E_NODESORT_WEIGHT]
            line 15, column 30, partitions[0].queues[0].queues[0].maxapplications: queue `root.prod.eu` has maxapplications 20, more than `root` with 10 [E_MAXAPPS_CHILD_LARGER]
            line 19, column 13, partitions[0].queues[0].queues[1]: queue `root.Batch` has maxapplications 0, unlimited, below `root` with 10; write 1 to 10 [E_MAXAPPS_CHILD_UNSET]
            line 21, column 22, partitions[0].queues[0].queues[1].limits[0]: user `*` has maxapplications 0, unlimited, in queue `root.Batch`, more than the 10 of queue `root` above; write 1 to 10 [E_LIMIT_APPS_GT_ANCESTOR]
            line 21, column 22, partitions[0].queues[0].queues[1].limits[0]: user `bob` has maxapplications 0, unlimited, in queue `root.Batch`, more than the 10 of queue `root` above for all who are not named there (`*`); write 1 to 10 [E_LIMIT_APPS_GT_WILDCARD]
            line 33, column 11, partitions[1].name: there already is a partition `default`, on line 3; case does not count, and no name means `default` [E_PARTITION_DUP]
            line 33, column 5, partitions[1]: the partition has no `queues`; an empty list, `queues: []`, would do [E_NO_QUEUES]
        "#]],
    );
}

#[test]
fn broken_syntax_is_one_error_with_its_place() {
    check(
        "partitions:\n  - name: a\n   queues: []\n",
        &expect![[r#"
        line 3, column 4, partitions[1]: not valid YAML: while parsing a block collection, did not find expected '-' indicator [E_CONF_PARSE]
    "#]],
    );
    check(
        "partitions: [{queues: [}]",
        &expect![[r#"
        line 1, column 24, partitions[0].queues[0]: not valid YAML: while parsing a node, did not find expected node content [E_CONF_PARSE]
    "#]],
    );
    check(
        "partitions:\n\t- name: a\n",
        &expect![[r#"
        line 2, column 2, partitions: not valid YAML: tabs disallowed within this context (block indentation) [E_CONF_PARSE]
    "#]],
    );
}

#[test]
fn unsupported_yaml_features_are_rejected_by_name() {
    check(
        "partitions: [{queues: [], name: !secret x, usergroupresolver: !!binary {}}]",
        &expect![[r#"
            line 1, column 33, partitions[0].name: the tag `!secret` has no meaning here; remove it [E_CONF_PARSE]
            line 1, column 63, partitions[0].usergroupresolver: the tag `!!binary` has no meaning here; remove it [E_CONF_PARSE]
        "#]],
    );
    check(
        "partitions: [{queues: [], <<: root}, {queues: [], <<: {name: a}, <<: {name: b}}]",
        &expect![[r#"
            line 1, column 27, partitions[0]."<<": `<<` takes a mapping or a list of them, or aliases of such [E_CONF_PARSE]
            line 1, column 66, partitions[1]."<<": the key `<<` is here twice, first on line 1 [E_CONF_PARSE]
        "#]],
    );
    check(
        "partitions: [{queues: [], ? [a] : b}]",
        &expect![[r#"
        line 1, column 29, partitions[0]: a key has to be a plain text [E_CONF_PARSE]
    "#]],
    );
}

#[test]
fn warnings_describe_the_reading() {
    check(
        "
partitions:
  - queues:
      - name: root
        submitacl: 'alice, bob'
        properties: {application.sort.policy: stateaware, priority.offset: high}
        queues:
          - name: a
            resources: {max: {memory: 0}}
            properties: {aplication.sort.policy: fair}
---
partitions: []
",
        &expect![[r#"
            warning: line 5, column 20, partitions[0].queues[0].submitacl: an empty name in the access list `alice, bob` is left out; users come before the space, groups after it
            warning: line 6, column 47, partitions[0].queues[0].properties."application.sort.policy": `stateaware` is an old name; `fifo` is used
            warning: line 6, column 76, partitions[0].queues[0].properties."priority.offset": `priority.offset` is `high`, which is not a whole number of 32 bits; 0 is used
            warning: line 9, column 30, partitions[0].queues[0].queues[0].resources.max: max of queue `root.a` lists only zeros, which sets no quota at all; a zero counts where another quantity is above zero
            warning: line 10, column 50, partitions[0].queues[0].queues[0].properties."aplication.sort.policy": the property `aplication.sort.policy` has no meaning here; did you mean `application.sort.policy`?
            warning: line 11, column 1: only the first document is read; what begins here is left out
        "#]],
    );
}

#[test]
fn three_unrelated_faults_get_one_answer_that_names_all_three() {
    let text = "
partitions:
  - placementrules: [{name: nobody}]
    nodesortpolicy: {type: random}
    queues:
      - name: root
        queues:
          - {name: a, submitacl: 'u  g'}
          - {name: p, parent: true, childtemplate: {resources: {max: {memory: 0.5}}}}
";
    let faults = ["E_ACL_SPACES", "E_RULE_UNKNOWN", "E_NODESORT_POLICY", "E_TEMPLATE_QTY"];
    assert_eq!(codes(text), faults, "in the order of 2.4, templates last");
    let pieces = [
        "submitacl: 'u  g'",
        "name: nobody",
        "type: random",
        "childtemplate: {resources: {max: {memory: 0.5}}}",
    ];
    let mended = ["submitacl: 'u g'", "name: user", "type: fair", "parent: true"];
    for (kept, fault) in faults.iter().enumerate() {
        let mut alone = text.to_owned();
        for other in (0..pieces.len()).filter(|other| *other != kept) {
            let mended = if other == 3 { "maxapplications: 0" } else { mended[other] };
            alone = alone.replace(pieces[other], mended);
        }
        assert_eq!(codes(&alone), [*fault], "each of them would do alone");
    }
}

#[test]
fn unreadable_values_are_reported_before_partitions() {
    let text = "
partitions:
  - nodesortpolicy: {type: random}
    queues: [{name: a, limits: [{users: [u]}]}]
  - name: b
    queues: [{name: 'x.y', parent: perhaps}]
    size: 5
";
    let expected =
        ["E_CONF_PARSE", "E_CONF_PARSE", "E_LIMIT_EMPTY", "E_NODESORT_POLICY", "E_QUEUE_NAME"];
    assert_eq!(codes(text), expected);
    let errors = parse(text).unwrap_err();
    let lines: Vec<usize> = errors.reported.iter().map(|error| error.line).collect();
    assert_eq!(lines, [6, 7, 4, 3, 6]);
}

#[test]
fn faults_of_a_partition_are_in_check_order() {
    let text = "
partitions:
  - name: a]
    limits: [{limit: L, users: [u], maxapplications: 9}]
    nodesortpolicy: {type: random}
    placementrules: [{name: nobody}]
    queues:
      - name: root
        resources: {max: {}}
        limits: [{limit: M, users: [u], maxapplications: 9}]
        maxapplications: 9
        queues:
          - name: p
            adminacl: 'a  b'
            submitacl: 'c  d'
            maxapplications: 10
            resources: {guaranteed: {gpu: 2}, max: {gpu: 1}}
            limits: [{limit: N, users: [u, v, v], maxresources: {gpu: 1}, maxapplications: 10}]
            queues: [{name: 'x.y', maxapplications: 1}]
            childtemplate: {resources: {max: {gpu: x}}}
";
    let expected = [
        "E_PARTITION_IDENT",
        "E_ROOT_RESOURCES",
        "E_LIMITS_DIFFER",
        "E_ACL_SPACES",
        "E_ACL_SPACES",
        "E_LIMIT_USER_DUP",
        "E_QUEUE_NAME",
        "E_GUAR_GT_MAX",
        "E_RULE_UNKNOWN",
        "E_NODESORT_POLICY",
        "E_MAXAPPS_CHILD_LARGER",
        "E_LIMIT_APPS_GT_ANCESTOR",
        "E_TEMPLATE_QTY",
    ];
    assert_eq!(codes(text), expected);
    let acls = parse(text).unwrap_err().reported;
    assert!(acls[3].path.ends_with("adminacl") && acls[4].path.ends_with("submitacl"));
}
