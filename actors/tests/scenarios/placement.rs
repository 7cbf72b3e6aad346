//! Placement rules in a live partition, and the dynamic queues that they create. Each rule has unit
//! tests in the file of its code; these scenarios show that a partition applies them.

use expect_test::expect;

use crate::script::{Script, Step};
use crate::world::{How, check, play};

/// A configuration with rules, queues below root, and further keys of root.
pub(crate) fn config(rules: &str, more: &str, queues: &str) -> String {
    let root = format!("{{name: root, {more}queues: [{queues}]}}");
    format!("config {{partitions: [{{placementrules: [{rules}], queues: [{root}]}}]}}")
}

/// Everybody may submit.
pub(crate) const OPEN: &str = "submitacl: '*', ";
/// Creates every queue that is asked for.
pub(crate) const PROVIDED: &str = "{name: provided, create: true}";

#[test]
fn rules_make_queues_with_their_parents() {
    let before = config(
        "{name: provided, create: true, parent: {name: user, create: true}}, \
         {name: tag, value: Namespace, create: true, parent: {name: fixed, value: ns, \
         create: true}}, \
         {name: fixed, value: testparent.testchild, create: true}",
        OPEN,
        "{name: dev_q}",
    );
    check(
        &format!(
            "
            {before}
            app a1 in my_q user dev
            app a2 in root.dev_q user dev
            app a3 user dev tag namespace=Team.One
            app a4 user dev
            app a5 in root.unkno!wn user dev
            app a6 in root.dev_q.below user dev
            app a7 in MY_Q user dev
            node n1 vcore=2
            ask a1 k vcore=1
            show shapes
            show apps
            "
        ),
        &expect![[r#"
            a1 accepted
            a2 accepted
            a3 accepted
            a4 accepted
            a5 rejected: R_PLACEMENT E_PLACEMENT_RULE
            a6 accepted
            a7 accepted
            n1 accepted
            a1 is Accepted
            a1 is Running
            a1/k placed on n1
            root is a configured parent
            root.dev is a dynamic parent
            root.dev.my_q is a dynamic leaf
            root.dev_q is a configured leaf
            root.ns is a dynamic parent
            root.ns.team_dot_one is a dynamic leaf
            root.testparent is a dynamic parent
            root.testparent.testchild is a dynamic leaf
            a1 in root.dev.my_q is Running since 1000s: used vcore=1, pending nothing, holds [k], asks []
            a7 in root.dev.my_q is New since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.dev_q is New since 1000s: used nothing, pending nothing, holds [], asks []
            a3 in root.ns.team_dot_one is New since 1000s: used nothing, pending nothing, holds [], asks []
            a4 in root.testparent.testchild is New since 1000s: used nothing, pending nothing, holds [], asks []
            a6 in root.testparent.testchild is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn draining_and_forbidden_queues_fall_through() {
    let before = config(
        "{name: provided, create: true}, {name: fixed, value: spare}",
        "",
        "{name: going, submitacl: '*'}, \
         {name: own, parent: true, submitacl: bob}, \
         {name: spare, submitacl: '*'}",
    );
    let after = config(
        "{name: provided, create: true}, {name: fixed, value: spare}",
        "",
        "{name: own, parent: true, submitacl: bob}, {name: spare, submitacl: '*'}",
    );
    check(
        &format!(
            "
            {before}
            app a0 in root.going
            app a1 in root.own.new
            app a2 in root.own.new user bob
            app a3 in root.own.new
            app a4 in root.nobody.new
            app a5 in root.own.x.@recovery@ user bob
            {after}
            reload
            app a6 in root.going
            show apps
            "
        ),
        &expect![[r#"
            a0 accepted
            a1 accepted
            a2 accepted
            a3 accepted
            a4 accepted
            a5 rejected: R_QUEUE_CREATE E_RECOVERY_NAME
            a6 accepted
            a0 in root.going is New since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.own.new is New since 1000s: used nothing, pending nothing, holds [], asks []
            a1 in root.spare is New since 1000s: used nothing, pending nothing, holds [], asks []
            a3 in root.spare is New since 1000s: used nothing, pending nothing, holds [], asks []
            a4 in root.spare is New since 1000s: used nothing, pending nothing, holds [], asks []
            a6 in root.spare is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn forced_applications_fall_back_to_recovery() {
    let before = config(
        PROVIDED,
        "submitacl: '*', childtemplate: {maxapplications: 1, resources: {max: {vcore: 1}}}, ",
        "{name: default}, {name: leaf}",
    );
    let one = quota("namespace.resourcequota", 1);
    check(
        &format!(
            "
            {before}
            app a1 in root.leaf.new
            app a2 in root.leaf.new tag application.create.force=true {one}
            app a3 in root.leaf tag application.create.force=true
            app a4 in root.@recovery@
            app a5 in root..x tag Application.Create.Force=1
            app a6 in root.p.@recovery@ tag Application.Create.Force=1
            app a7 in root.p.@recovery@
            show apps
            show shapes
            "
        ),
        &expect![[r#"
            a1 accepted
            a2 accepted
            a3 accepted
            a4 accepted
            a5 accepted
            a6 accepted
            a7 rejected: R_QUEUE_CREATE E_RECOVERY_NAME
            a2 in root.@recovery@ is New since 1000s: used nothing, pending nothing, holds [], asks []
            a5 in root.@recovery@ is New since 1000s: used nothing, pending nothing, holds [], asks []
            a6 in root.@recovery@ is New since 1000s: used nothing, pending nothing, holds [], asks []
            a1 in root.default is New since 1000s: used nothing, pending nothing, holds [], asks []
            a4 in root.default is New since 1000s: used nothing, pending nothing, holds [], asks []
            a3 in root.leaf is New since 1000s: used nothing, pending nothing, holds [], asks []
            root is a configured parent
            root.@recovery@ is a dynamic leaf
            root.default is a configured leaf
            root.leaf is a configured leaf
        "#]],
    );
}

#[test]
fn a_dynamic_leaf_follows_its_template() {
    let before = config(
        PROVIDED,
        "submitacl: '*', childtemplate: {maxapplications: 3, \
         properties: {application.sort.policy: fair}, resources: {guaranteed: {vcore: 1m}, \
         max: {vcore: 2m, gpu: 4}}}, ",
        "{name: notemplate, parent: true, properties: {priority.offset: '5'}}, \
         {name: own, parent: true, childtemplate: {resources: {max: {memory: 610}}}}",
    );
    let after = config(
        PROVIDED,
        OPEN,
        "{name: notemplate, parent: true, properties: {priority.offset: '5'}}, \
         {name: own, parent: true, childtemplate: {resources: {max: {memory: 5}}}}",
    );
    check(
        &format!(
            "
            {before}
            app a1 in root.x
            app a2 in root.notemplate.x
            app a3 in root.own.x
            app a4 in root.own.deep.er
            show shapes
            {after}
            reload
            app b2 in root.notemplate.y
            app b3 in root.own.y
            app b4 in root.own.deep.ly
            show shapes
            "
        ),
        &expect![[r#"
            a1 accepted
            a2 accepted
            a3 accepted
            a4 accepted
            root is a configured parent
            root.notemplate is a configured parent, priority.offset 5
            root.notemplate.x is a dynamic leaf, max gpu=4 vcore=2, guaranteed vcore=1, apps 3, application.sort.policy fair
            root.own is a configured parent
            root.own.deep is a dynamic parent
            root.own.deep.er is a dynamic leaf, max memory=610
            root.own.x is a dynamic leaf, max memory=610
            root.x is a dynamic leaf, max gpu=4 vcore=2, guaranteed vcore=1, apps 3, application.sort.policy fair
            b2 accepted
            b3 accepted
            b4 accepted
            root is a configured parent
            root.notemplate is a configured parent, priority.offset 5
            root.notemplate.x is a dynamic leaf, max gpu=4 vcore=2, guaranteed vcore=1, apps 3, application.sort.policy fair
            root.notemplate.y is a dynamic leaf
            root.own is a configured parent
            root.own.deep is a dynamic parent
            root.own.deep.er is a dynamic leaf, max memory=610
            root.own.deep.ly is a dynamic leaf, max memory=5
            root.own.x is a dynamic leaf, max memory=610
            root.own.y is a dynamic leaf, max memory=5
            root.x is a dynamic leaf, max gpu=4 vcore=2, guaranteed vcore=1, apps 3, application.sort.policy fair
        "#]],
    );
}

/// Queues with and without limits, policies and templates.
fn varied() -> String {
    let template = "childtemplate: {maxapplications: 9, resources: {guaranteed: {vcore: 1m}, \
                    max: {vcore: 9m}}}, ";
    config(
        PROVIDED,
        &format!("{OPEN}{template}"),
        "{name: managed}, \
         {name: fair, properties: {application.sort.policy: fair}}, \
         {name: p, parent: true, resources: {max: {vcore: 5m}}, \
          childtemplate: {resources: {max: {vcore: 10m}}}}",
    )
}

fn quota(name: &str, vcore: i64) -> String {
    format!("tag {name}={{\"resources\":{{\"vcore\":{{\"value\":{vcore}}}}}}}")
}

#[test]
fn namespace_tags_limit_dynamic_leaves() {
    let varied = varied();
    let (max, guaranteed) = ("namespace.resourceQuota", "Namespace.resourceGuaranteed");
    check(
        &format!(
            "
            {varied}
            node n1 vcore=8
            app a1 in root.x
            app a2 in root.managed {}
            show shapes
            app a3 in root.x {}
            ask a3 k x5 vcore=1
            show shapes
            app a4 in root.x {} tag namespace.resourcemaxapps=1
            show shapes
            app a5 in root.x {}
            app a6 in root.x {} tag namespace.resourcemaxapps=-33
            app a7 in root.x tag namespace.resourcequota={{xx}}
            show shapes
            show queues
            ",
            quota(max, 1),
            quota(max, 1),
            quota(max, 3),
            quota(guaranteed, 2),
            quota(max, -1),
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            root is a configured parent
            root.fair is a configured leaf, application.sort.policy fair
            root.managed is a configured leaf
            root.p is a configured parent, max vcore=5
            root.x is a dynamic leaf, max vcore=9, guaranteed vcore=1, apps 9
            a3 accepted
            a3 is Accepted
            a3 is Running
            a3/k#1 of k placed on n1
            root is a configured parent
            root.fair is a configured leaf, application.sort.policy fair
            root.managed is a configured leaf
            root.p is a configured parent, max vcore=5
            root.x is a dynamic leaf, max vcore=1, apps 9
            a4 accepted
            a3/k#2 of k placed on n1
            a3/k#3 of k placed on n1
            root is a configured parent
            root.fair is a configured leaf, application.sort.policy fair
            root.managed is a configured leaf
            root.p is a configured parent, max vcore=5
            root.x is a dynamic leaf, max vcore=3, apps 1
            a5 accepted
            a3/k#4 of k placed on n1
            a3/k#5 of k placed on n1
            a6 accepted
            a7 accepted
            root is a configured parent
            root.fair is a configured leaf, application.sort.policy fair
            root.managed is a configured leaf
            root.p is a configured parent, max vcore=5
            root.x is a dynamic leaf, guaranteed vcore=2, apps 1
            root: used vcore=5, pending nothing, headroom vcore=3, running 1, priority none
            root.fair: used nothing, pending nothing, headroom vcore=3, running 0, priority none
            root.managed: used nothing, pending nothing, headroom vcore=3, running 0, priority none
            root.p: used nothing, pending nothing, headroom vcore=3, running 0, priority none
            root.x: used vcore=5, pending nothing, headroom vcore=3, running 1, priority none
        "#]],
    );
}

#[test]
fn gangs_are_admitted_by_policy_and_configured_maxima() {
    let varied = varied();
    let max = "namespace.resourcequota";
    check(
        &format!(
            "
            {varied}
            app a1 in root.fair gang vcore=1
            app a2 in root.fair
            app a3 in root.p.x gang vcore=6
            app a4 in root.p.x gang vcore=5 gpu=7
            app a5 in root.q gang vcore=10 {}
            app a6 in root.managed gang vcore=1000
            show shapes
            wait 11s
            show shapes
            ",
            quota(max, 1),
        ),
        &expect![[r#"
            a1 rejected: R_GANG_SORT
            a2 accepted
            a3 rejected: R_GANG_TOO_LARGE
            a4 accepted
            a5 rejected: R_GANG_TOO_LARGE
            a6 accepted
            root is a configured parent
            root.fair is a configured leaf, application.sort.policy fair
            root.managed is a configured leaf
            root.p is a configured parent, max vcore=5
            root.p.x is a dynamic leaf, max vcore=10
            root.q is a dynamic leaf, max vcore=1, apps 9
            root is a configured parent
            root.fair is a configured leaf, application.sort.policy fair
            root.managed is a configured leaf
            root.p is a configured parent, max vcore=5
            root.p.x is a dynamic leaf, max vcore=10
        "#]],
    );
}

#[test]
fn an_empty_dynamic_queue_ends_after_ten_seconds() {
    let varied = varied();
    check(
        &format!(
            "
            {varied}
            app a1 in root.x.y.z
            app a2 in root.x.other
            remove-app a1
            wait 6s
            show shapes
            app a3 in root.x.y.z
            wait 20s
            remove-app a2
            wait 5s
            remove-app a3
            wait 6s
            show shapes
            wait 5s
            show shapes
            app a4 in root.x.y.z
            show shapes
            "
        ),
        &expect![[r#"
            a1 accepted
            a2 accepted
            root is a configured parent
            root.fair is a configured leaf, application.sort.policy fair
            root.managed is a configured leaf
            root.p is a configured parent, max vcore=5
            root.x is a dynamic parent
            root.x.other is a dynamic leaf, max vcore=9, guaranteed vcore=1, apps 9
            root.x.y is a dynamic parent
            root.x.y.z is a dynamic leaf, max vcore=9, guaranteed vcore=1, apps 9
            a3 accepted
            root is a configured parent
            root.fair is a configured leaf, application.sort.policy fair
            root.managed is a configured leaf
            root.p is a configured parent, max vcore=5
            root.x is a dynamic parent
            root.x.y is a dynamic parent
            root.x.y.z is a dynamic leaf, max vcore=9, guaranteed vcore=1, apps 9
            root is a configured parent
            root.fair is a configured leaf, application.sort.policy fair
            root.managed is a configured leaf
            root.p is a configured parent, max vcore=5
            a4 accepted
            root is a configured parent
            root.fair is a configured leaf, application.sort.policy fair
            root.managed is a configured leaf
            root.p is a configured parent, max vcore=5
            root.x is a dynamic parent
            root.x.y is a dynamic parent
            root.x.y.z is a dynamic leaf, max vcore=9, guaranteed vcore=1, apps 9
        "#]],
    );
}

#[test]
fn removed_queues_end_once_their_branch_is_empty() {
    let before = config(PROVIDED, OPEN, "{name: p, queues: [{name: a}]}, {name: keep}");
    let after = config(PROVIDED, OPEN, "{name: keep}");
    check(
        &format!(
            "
            {before}
            app a1 in root.p.a
            app a2 in root.p.dyn
            {after}
            reload
            show shapes
            app a3 in root.p.new
            app a4 in root.p.dyn
            remove-app a1
            show shapes
            remove-app a2
            remove-app a4
            wait 9s
            show shapes
            wait 2s
            show shapes
            "
        ),
        &expect![[r#"
            a1 accepted
            a2 accepted
            root is a configured parent
            root.keep is a configured leaf
            root.p is a configured parent (Draining)
            root.p.a is a configured leaf (Draining)
            root.p.dyn is a dynamic leaf
            a3 rejected: R_PLACEMENT E_PLACEMENT_NONE
            a4 accepted
            root is a configured parent
            root.keep is a configured leaf
            root.p is a configured parent (Draining)
            root.p.dyn is a dynamic leaf
            root is a configured parent
            root.keep is a configured leaf
            root.p is a configured parent (Draining)
            root.p.dyn is a dynamic leaf
            root is a configured parent
            root.keep is a configured leaf
        "#]],
    );
}

#[test]
fn a_configured_dynamic_queue_keeps_only_its_applications() {
    let before = config(
        PROVIDED,
        "submitacl: '*', childtemplate: {maxapplications: 4, resources: {max: {vcore: 2m}}}, ",
        "",
    );
    let after = config(PROVIDED, OPEN, "{name: x, resources: {max: {vcore: 3m}}}");
    let later = config(PROVIDED, OPEN, "{name: x, resources: {max: {vcore: 3m}}}, {name: y}");
    let last = config(PROVIDED, OPEN, "");
    check(
        &format!(
            "
            {before}
            node n1 vcore=8
            app a1 in root.x
            app a2 in root.y.z
            ask a1 k x4 vcore=1
            {after}
            reload
            show shapes
            show apps
            {later}
            reload
            remove-app a1
            wait 20s
            {last}
            reload
            show shapes
            "
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k#1 of k placed on n1
            a1/k#2 of k placed on n1
            a1/k#3 of k placed on n1
            root is a configured parent
            root.x is a configured leaf, max vcore=3
            root.y is a dynamic parent
            root.y.z is a dynamic leaf, max vcore=2, apps 4
            a1 in root.x is Running since 1000s: used vcore=3, pending vcore=1, holds [k, k, k], asks [k x1]
            a2 in root.y.z is New since 1000s: used nothing, pending nothing, holds [], asks []
            reload refused: queue `root.y` is a parent with applications and cannot become a leaf before they are gone [E_QUEUE_TYPE_IN_USE]
            a1/k#1 of k released: STOPPED_BY_RM
            a1/k#2 of k released: STOPPED_BY_RM
            a1/k#3 of k released: STOPPED_BY_RM
            ask a1/k released: STOPPED_BY_RM
            root is a configured parent
            root.y is a dynamic parent
            root.y.z is a dynamic leaf, max vcore=2, apps 4
        "#]],
    );
}

#[test]
fn an_unknown_rule_keeps_the_old_rules() {
    let before = config("{name: user, create: true}", OPEN, "");
    let after = config("{name: group}", OPEN, "{name: new}");
    let later = config("{name: fixed, value: new}", OPEN, "{name: new}");
    check(
        &format!(
            "
            {before}
            app a1
            {after}
            reload
            app a2 user bob
            show shapes
            {later}
            reload
            app a3 user bob
            show apps
            "
        ),
        &expect![[r#"
            a1 accepted
            reload refused: line 1, column 40, partitions[0].placementrules[0].name: there is no rule `group`; write `provided`, `user`, `fixed` or `tag` [E_RULE_UNKNOWN]
            a2 accepted
            root is a configured parent
            root.ada is a dynamic leaf
            root.bob is a dynamic leaf
            a3 accepted
            a1 in root.ada is New since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.bob is New since 1000s: used nothing, pending nothing, holds [], asks []
            a3 in root.new is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn the_documented_placement_examples_are_true() {
    let page = include_str!("../../../docs/placement.md");
    let (_, yaml) = page.split_once("```yaml\n").unwrap();
    let (yaml, _) = yaml.split_once("```").unwrap();
    let mut script = Script(vec![Step::Config(yaml.to_owned())]);
    let applications = "
        app a1 in root.spare
        app a2 tag namespace=team.one
        app a3 groups staff
        app a4 user bob
        show apps
    ";
    script.0.extend(Script::parse(applications).0);
    expect![[r#"
        a1 accepted
        a2 accepted
        a3 accepted
        a4 rejected: R_PLACEMENT E_PLACEMENT_NONE
        a2 in root.namespaces.team_dot_one is New since 1000s: used nothing, pending nothing, holds [], asks []
        a1 in root.spare is New since 1000s: used nothing, pending nothing, holds [], asks []
        a3 in root.spare is New since 1000s: used nothing, pending nothing, holds [], asks []
    "#]]
    .assert_eq(&play(&script, How::Plain).text);
}
