//! Placement constraints: which nodes a request may use, by their attributes and by allocations
//! nearby. `docs/placement-constraints.md` has the rules.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::{explained, world};

/// A constraint on the number of allocations with `app=web` nearby.
fn near(scope: &str, min: i32, max: i32, required: bool) -> Value {
    json!({"simpleConstraint": {"allocationAffinityAttribute": {
        "scope": scope,
        "targetExpressions": [{"targetKey": "app", "targetValues": ["web"]}],
        "minCardinality": min, "maxCardinality": max, "required": required,
    }}})
}

/// A constraint on an attribute of the node.
fn node(operator: &str, key: &str, values: &[&str]) -> Value {
    let one = json!({"targetOperator": operator, "targetKey": key, "targetValues": values});
    json!({"simpleConstraint": {"nodeAffinityConstraint": {"targetExpressions": [one]}}})
}

fn of(kind: &str, children: &[Value]) -> Value {
    json!({"compositeConstraint": {"compositeType": kind, "childConstraints": children}})
}

fn in_turn(children: &[(Value, i64, &str)]) -> Value {
    let child = |(constraint, delay, unit): &(Value, i64, &str)| json!({"placementConstraint": constraint, "schedulingDelay": delay, "delayUnit": unit});
    let children: Vec<_> = children.iter().map(child).collect();
    json!({"compositeConstraint": {
        "compositeType": "DELAYED_OR", "timedChildConstraints": children,
    }})
}

/// Inserts a constraint where a script has `where=IT`.
fn with(text: &str, constraint: &Value) -> String {
    text.replace("IT", &constraint.to_string())
}

#[track_caller]
fn check(constraint: &Value, text: &str, expect: &Expect) {
    world::check(&with(text, constraint), expect);
}

#[track_caller]
fn check_plain(constraint: &Value, text: &str, expect: &Expect) {
    world::check_plain(&with(text, constraint), expect);
}

#[test]
fn a_request_waits_for_the_node_with_its_attribute() {
    check(
        &node("IN", "zone", &["b"]),
        "
        queue root.a
        node n1 vcore=4 attr zone=a ; node n2 vcore=4 attr zone=a ; node n3 vcore=1 attr zone=b
        app a1 in root.a
        ask a1 k1 vcore=1 where=IT
        ask a1 k2 vcore=1 where=IT
        release a1 key=k1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n3
            a1/k1 released: STOPPED_BY_RM
            a1/k2 placed on n3
        "#]],
    );
}

#[test]
fn an_attribute_removed_by_an_update_is_absent() {
    check(
        &node("NOT_EXIST", "zone", &[]),
        "
        queue root.a
        node n1 vcore=4 attr zone=a attr pool=red
        app a1 in root.a
        ask a1 k1 vcore=1 where=IT
        resize n1 attr monoceros.io/removed-attributes=pool
        resize n1 attr pool=blue attr monoceros.io/removed-attributes=zone,pool
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
        "#]],
    );
}

#[test]
fn does_not_exist_excludes_nodes_with_the_attribute() {
    check(
        &node("NOT_EXIST", "gpu", &[]),
        "
        queue root.a
        node n1 vcore=1 attr gpu=a100 ; node n2 vcore=1
        app a1 in root.a
        ask a1 k1 x2 vcore=1 where=IT
        resize n1 vcore=1 attr gpu=
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n2
        "#]],
    );
}

#[test]
fn anti_affinity_separates_nodes_until_an_end() {
    check(
        &near("hostname", 0, 1, true),
        "
        queue root.a
        node n1 vcore=4 ; node n2 vcore=4 ; node n3 vcore=4
        app a1 in root.a
        ask a1 k1 x4 vcore=1 tags=app:web where=IT
        release a1 uuid=k1#2
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n2
            a1/k1#3 of k1 placed on n3
            a1/k1#2 of k1 released: STOPPED_BY_RM
            a1/k1#4 of k1 placed on n2
        "#]],
    );
}

#[test]
fn a_rack_holds_at_most_two_until_an_end() {
    check(
        &near("rack", 0, 2, true),
        "
        queue root.a
        node n1 vcore=2 attr rack=a ; node n2 vcore=2 attr rack=a ; node n3 vcore=4 attr rack=b
        node n4 vcore=4
        app a1 in root.a
        ask a1 k1 x7 vcore=1 tags=app:web where=IT
        foreign f1 on n1 vcore=2
        release a1 uuid=k1#1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            n4 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n2
            a1/k1#3 of k1 placed on n3
            a1/k1#4 of k1 placed on n4
            a1/k1#5 of k1 placed on n3
            a1/k1#6 of k1 placed on n4
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#7 of k1 placed on n2
        "#]],
    );
}

#[test]
fn affinity_joins_the_group_of_the_first() {
    check(
        &near("rack", 2, 0, true),
        "
        queue root.a
        node n1 vcore=3 attr rack=a ; node n2 vcore=4 attr rack=b ; node n3 vcore=1 attr rack=b
        app a1 in root.a
        ask a1 k0 vcore=1 tags=app:db where=IT
        ask a1 k1 x3 vcore=1 tags=app:web where=IT
        release a1 uuid=k1#1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k0 placed on n1
            a1/k1#2 of k1 placed on n1
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k1#3 of k1 placed on n1
        "#]],
    );
}

#[test]
fn preferred_nodes_come_first() {
    check(
        &near("hostname", 0, 1, false),
        "
        order binpacking vcore=1
        queue root.a
        node n1 vcore=4 ; node n2 vcore=4
        app a1 in root.a
        ask a1 k1 x3 vcore=1 tags=app:web where=IT
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n2
            a1/k1#3 of k1 placed on n1
        "#]],
    );
}

#[test]
fn and_needs_all_conditions_and_nested_or_one() {
    let zone = of("OR", &[node("IN", "zone", &["a"]), node("IN", "zone", &["b"])]);
    check(
        &of("AND", &[zone, near("", 0, 1, true)]),
        "
        queue root.a
        node n1 vcore=4 attr zone=c ; node n2 vcore=4 attr zone=b ; node n3 vcore=4 attr zone=a
        app a1 in root.a
        ask a1 k1 x3 vcore=1 tags=app:web where=IT
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n2
            a1/k1#2 of k1 placed on n3
        "#]],
    );
}

#[test]
fn a_top_level_or_uses_the_first_possible_child() {
    check(
        &of("OR", &[node("IN", "zone", &["b"]), node("IN", "zone", &["a"])]),
        "
        queue root.a
        node n1 vcore=4 attr zone=a ; node n2 vcore=1 attr zone=b ; node n3 vcore=4
        app a1 in root.a
        ask a1 k1 x3 vcore=1 where=IT
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n2
            a1/k1#2 of k1 placed on n1
            a1/k1#3 of k1 placed on n1
        "#]],
    );
}

#[test]
fn later_children_are_used_after_their_delays() {
    let any = json!({});
    let children = [(near("rack", 0, 1, true), 1_000, "MILLISECONDS"), (any, 0, "MILLISECONDS")];
    check_plain(
        &in_turn(&children),
        "
        queue root.a
        node n1 vcore=4 attr rack=a
        app a1 in root.a
        ask a1 k1 x2 vcore=1 tags=app:web where=IT
        wait 999ms
        show apps
        wait 1ms
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=1, holds [k1], asks [k1 x1]
            a1/k1#2 of k1 placed on n1
        "#]],
    );
}

#[test]
fn an_opportunity_is_a_failed_attempt_or_a_second() {
    let rack = |value| node("IN", "rack", &[value]);
    let children = [
        (rack("x"), 1, "OPPORTUNITIES"),
        (rack("y"), 2, "OPPORTUNITIES"),
        (rack("a"), 0, "OPPORTUNITIES"),
    ];
    check_plain(
        &in_turn(&children),
        "
        queue root.a
        node n1 vcore=4 attr rack=a
        app a1 in root.a
        ask a1 k1 vcore=1 where=IT
        show apps
        wait 1s
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [k1 x1]
            a1 is Running
            a1/k1 placed on n1
        "#]],
    );
}

#[test]
fn a_repeated_request_uses_its_new_constraint() {
    let text = "
        queue root.a
        node n1 vcore=4 attr zone=a
        app a1 in root.a
        ask a1 k1 vcore=1 where=IT
        ask a1 k1 vcore=1 where=OTHER
        ";
    let text = text.replace("OTHER", &node("IN", "zone", &["a"]).to_string());
    check(
        &node("IN", "zone", &["b"]),
        &text,
        &expect![[r#"
        n1 accepted
        a1 accepted
        a1 is Accepted
        a1 is Running
        a1/k1 placed on n1
    "#]],
    );
}

#[test]
fn changed_attributes_count_for_later_decisions_only() {
    check(
        &near("rack", 0, 1, true),
        "
        queue root.a
        node n1 vcore=4 attr rack=a ; node n2 vcore=4 attr rack=b
        app a1 in root.a
        ask a1 k1 x2 vcore=1 tags=app:web where=IT
        resize n2 vcore=4 attr rack=a
        ask a1 k2 vcore=1 tags=app:web where=IT
        resize n1 vcore=4 attr rack=c
        release a1 uuid=k1#1
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1#1 of k1 placed on n1
            a1/k1#2 of k1 placed on n2
            a1/k1#1 of k1 released: STOPPED_BY_RM
            a1/k2 placed on n1
        "#]],
    );
}

#[test]
fn invalid_constraints_are_rejected_with_their_place() {
    let keyless = of("AND", &[node("IN", "a", &["b"]), node("EXIST", "", &[])]);
    let deep = (0..8).fold(node("EXIST", "a", &[]), |inner, _| of("AND", &[inner]));
    let delayed = of("AND", &[in_turn(&[(json!({}), 1, "MILLISECONDS")])]);
    let preferred = of("AND", &[of("OR", &[near("", 0, 1, false)])]);
    let text = "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=1 where=IT
        ";
    let mut all = String::new();
    for constraint in [
        keyless,
        deep,
        delayed,
        preferred,
        node("LIKE", "a", &[]),
        json!({"simple": {}}),
        json!([]),
    ] {
        let script = crate::script::Script::parse(&with(text, &constraint));
        let played = world::play(&script, world::How::Plain);
        let refused = played.text.lines().filter(|line| line.contains("k1"));
        all.extend(refused.map(|line| format!("{line}\n")));
    }
    expect![[r#"
        ask a1/k1 rejected: R_CONSTRAINT
        ask a1/k1 rejected: R_CONSTRAINT
        ask a1/k1 rejected: R_CONSTRAINT
        ask a1/k1 rejected: R_CONSTRAINT
        ask a1/k1 rejected: R_CONSTRAINT
        ask a1/k1 rejected: R_CONSTRAINT
        ask a1/k1 rejected: R_CONSTRAINT
    "#]]
    .assert_eq(&all);
}

#[test]
fn a_searching_gang_counts_its_own_members() {
    let groups = |constraint: &Value| {
        json!([{"name": "w", "minMember": 2, "minResource": {"vcore": "1"}, "tags": {"app": "web"},
                "constraint": constraint}])
    };
    let text = "
        queue root.a
        node n1 vcore=4000 attr rack=a ; node n2 vcore=1000 attr rack=b
        app a1 in root.a tag monoceros.io/task-groups=GROUPS
        show nodes
        ask a1 k1 vcore=1000 group=w tags=app:web where=IT
        ask a1 k2 vcore=1000 group=w tags=app:web where=IT
        ";
    let apart = near("hostname", 0, 1, true);
    let script = text.replace("GROUPS", &groups(&apart).to_string());
    check(
        &apart,
        &script,
        &expect![[r#"
        n1 accepted
        n2 accepted
        a1 accepted
        a1 is Accepted
        a1 is Running
        n1: total vcore=4000, used vcore=1000, occupied nothing, left vcore=3000
        n2: total vcore=1000, used vcore=1000, occupied nothing, left nothing
        a1/k1 placed on n1
        a1/k2 placed on n2
    "#]],
    );
    let together = near("rack", 2, 0, true);
    let script = text.replace("GROUPS", &groups(&together).to_string());
    check(
        &together,
        &script,
        &expect![[r#"
        n1 accepted
        n2 accepted
        a1 accepted
        a1 is Accepted
        a1 is Running
        n1: total vcore=4000, used vcore=2000, occupied nothing, left vcore=2000
        n2: total vcore=1000, used nothing, occupied nothing, left vcore=1000
        a1/k1 placed on n1
        a1/k2 placed on n1
    "#]],
    );
}

#[test]
fn an_explanation_names_the_blocking_constraint() {
    let text = "
        queue root.a
        node n1 vcore=4 attr zone=a ; node n2 vcore=4 attr zone=a ; node n3 vcore=1 attr zone=b
        app a1 in root.a
        ask a1 k1 x2 vcore=1 where=IT
        ";
    let zone = node("IN", "zone", &["b"]);
    explained::check(
        &with(text, &zone),
        &expect![[r#"
        k1 x1: constraints n3 since 1000s
          its placement constraint keeps it off every node with room: `zone IN [b]` leaves 1 of 3 (3 nodes: 2 are excluded by its constraint, 1 lacks cores)
          - constraints n3: vcore=1; vcore=0 of vcore=1
          cure: free 0.001 cores on node n3
          + nodeRoom n3 vcore=1 0 0
    "#]],
    );
    let gone = node("IN", "zone", &["c"]);
    explained::check(
        &with(text, &gone),
        &expect![[r#"
        k1 x2: constraints  since 1000s
          its placement constraint keeps it off every node with room: `zone IN [c]` leaves 0 of 3 (3 nodes: 3 are excluded by its constraint)
          - constraints : -; - of -
          cure: add a node with at least 0.001 cores that its placement constraint admits: zone IN [c]
          + node  vcore=1 0 0
    "#]],
    );
    let later = in_turn(&[(gone, 5_000, "MILLISECONDS"), (json!({}), 0, "MILLISECONDS")]);
    explained::check(
        &with(text, &later),
        &expect![[r#"
        k1 x2: constraints  since 1000s
          its placement constraint keeps it off every node with room: `zone IN [c]` leaves 0 of 3 (3 nodes: 3 are excluded by its constraint)
          - constraints : -; - of -
          cure: wait until 1970-01-01T00:16:45.0Z
          + time  - 0 1005000
    "#]],
    );
}

#[test]
fn a_request_for_a_drained_node_is_woken_by_ends_elsewhere() {
    let placed = |text: &str| {
        let script = crate::script::Script::parse(&with(text, &near("rack", 0, 1, true)));
        let played = world::play(&script, world::How::Plain).text;
        let mut notified = String::new();
        for line in played.lines().filter(|line| line.contains("placed")) {
            writeln!(notified, "{line}").unwrap();
        }
        notified
    };
    let required = "
        queue root.a
        node n1 vcore=4 attr rack=a ; node n2 vcore=4 attr rack=a
        app a1 in root.a
        ask a1 k1 vcore=1 tags=app:web where=IT
        drain n2
        ask a1 k2 vcore=1 node=n2 tags=app:web where=IT
        release a1 key=k1
        ";
    expect![[r#"
        a1/k1 placed on n1
        a1/k2 placed on n2
    "#]]
    .assert_eq(&placed(required));
}

#[test]
fn an_allocation_sent_again_keeps_its_constraint() {
    let text = "
        queue root.a
        node n1 vcore=4 attr zone=a
        app a1 in root.a
        request a1 k1 vcore=1 where=IT
        request a1 k1 vcore=2 where=OTHER
        show apps
        ";
    let text = text.replace("OTHER", &node("IN", "zone", &["a"]).to_string());
    check(
        &node("IN", "zone", &["b"]),
        &text,
        &expect![[r#"
        n1 accepted
        a1 accepted
        a1 is Accepted
        a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [k1 x1]
    "#]],
    );
}

#[test]
fn uncountable_constraints_are_rejected() {
    let set = |n: usize| {
        let of = json!([{"targetKey": "app", "targetValues": [n.to_string()]}]);
        json!({"simpleConstraint": {"allocationAffinityAttribute": {
            "targetExpressions": of, "maxCardinality": 1, "required": true}}})
    };
    let mut text = "
        queue root.a
        node n1 vcore=4000
        app a1 in root.a
        "
    .to_owned();
    for ask in 0..64 {
        let sets: Vec<_> = (0..64).map(|at| set(ask * 64 + at)).collect();
        writeln!(text, "ask a1 k{ask} vcore=5000 where={}", of("AND", &sets)).unwrap();
    }
    let group = json!([{"name": "w", "minMember": 2, "minResource": {"vcore": "1"},
                        "constraint": set(4_096)}]);
    write!(
        text,
        "ask a1 more vcore=1 where={}
        ask a1 known vcore=1 where={}
        app g1 in root.a tag monoceros.io/task-groups={group}
        withdraw a1 k7
        app g2 in root.a tag monoceros.io/task-groups={group}
        ",
        set(4_096),
        set(0),
    )
    .unwrap();
    let script = crate::script::Script::parse(&text);
    expect![[r#"
        n1 accepted
        a1 accepted
        a1 is Accepted
        ask a1/more rejected: R_CONSTRAINT
        a1 is Running
        a1/known placed on n1
        g1 rejected: R_GANG_DECLARATION
        g2 accepted
        g2 is Accepted
        g2 is Running
    "#]]
    .assert_eq(&world::play(&script, world::How::Plain).text);
}

#[test]
fn an_explanation_names_each_condition_with_its_nodes() {
    let both = of("AND", &[node("IN", "zone", &["a"]), near("rack", 0, 1, true)]);
    let text = "
        queue root.a
        node n1 vcore=4 attr zone=a attr rack=a ; node n2 vcore=4 attr zone=a attr rack=a
        node n3 vcore=4 attr zone=b
        app a1 in root.a
        ask a1 k1 x2 vcore=1 tags=app:web where=IT
        ";
    explained::check(
        &with(text, &both),
        &expect![[r#"
        k1 x1: constraints  since 1000s
          its placement constraint keeps it off every node with room: `at most 1 of app IN [web] per rack` leaves 1 of 3 and `zone IN [a]` leaves 2 of 3 (3 nodes: 3 are excluded by its constraint)
          - constraints : -; - of -
          cure: add a node with at least 0.001 cores that its placement constraint admits: at most 1 of app IN [web] per rack and zone IN [a]
          + node  vcore=1 0 0
    "#]],
    );
}

/// While the request is blocked by the limit of running applications, an allocation that it may run
/// beside appears on one node and then on another.
#[test]
fn each_newly_suitable_node_counts_for_the_blocked_request() {
    check(
        &near("hostname", 2, 0, true),
        "
        queue root.a maxapps=1
        queue root.b
        node n1 vcore=6
        node n2 vcore=4
        app a in root.a
        app b in root.b
        app c in root.a
        ask a k where=IT vcore=1
        ask b k vcore=5
        ask c k x2 vcore=5 tags=app:web
        wait 2001ms
        release b *
        ask b l vcore=1 tags=app:web
        ask a l vcore=1
        forget
        queue root.a
        queue root.b
        reload
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a accepted
            b accepted
            c accepted
            a is Accepted
            b is Accepted
            b is Running
            b/k placed on n1
            c is Accepted
            b/k released: STOPPED_BY_RM
            b is Completing
            c is Running
            c/k#1 of k placed on n1
            b is Running
            b/l placed on n2
            a is Running
            a/k placed on n2
            a/l placed on n2
        "#]],
    );
}

/// Each request is counted on the node while its question is open, and excludes the other one.
#[test]
fn exclusive_refused_requests_do_not_retry_each_other_forever() {
    check(
        &near("hostname", 0, 1, true),
        "
        refuse-some 100 1
        queue root.a
        node n1 vcore=4
        app a in root.a
        app b in root.a
        ask a k vcore=2 tags=app:web where=IT
        ask b k vcore=2 tags=app:web where=IT
        wait 3s
        wait 60s
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a accepted
            b accepted
            a is Accepted
            b is Accepted
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
        "#]],
    );
}

#[test]
fn the_first_in_order_gets_a_newly_suitable_node() {
    check(
        &near("hostname", 2, 0, true),
        "
        queue root.a guaranteed vcore=1
        queue root.b guaranteed vcore=6
        node n1 vcore=8
        app a in root.a
        app b in root.b
        ask a k x2 vcore=3 where=IT
        ask b k x2 vcore=3 tags=app:web
        ",
        &expect![[r#"
            n1 accepted
            a accepted
            b accepted
            a is Accepted
            b is Accepted
            b is Running
            b/k#1 of k placed on n1
            a is Running
            a/k#1 of k placed on n1
        "#]],
    );
}
