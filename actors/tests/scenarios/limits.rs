//! Limits of users and groups in a live scheduler: which limit applies to whom (`docs/limits.md`),
//! and their effects on order and wake-ups.

use expect_test::expect;

use crate::world::{How, World, check, in_virtual_time};

#[test]
fn named_limits_win_over_the_wildcard_limit() {
    check(
        "
        queue root.a limit users=ann vcore=4 limit users=* vcore=2
        node n1 vcore=20
        app ann1 in root.a user ann
        app bob1 in root.a user bob
        app eve1 in root.a user eve
        ask ann1 k x5 vcore=1
        ask bob1 k x5 vcore=1
        ask eve1 k x5 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            ann1 accepted
            bob1 accepted
            eve1 accepted
            ann1 is Accepted
            ann1 is Running
            ann1/k#1 of k placed on n1
            ann1/k#2 of k placed on n1
            ann1/k#3 of k placed on n1
            ann1/k#4 of k placed on n1
            bob1 is Accepted
            bob1 is Running
            bob1/k#1 of k placed on n1
            bob1/k#2 of k placed on n1
            eve1 is Accepted
            eve1 is Running
            eve1/k#1 of k placed on n1
            eve1/k#2 of k placed on n1
            root: used vcore=8, pending vcore=7, headroom vcore=12, running 3, priority 0
            root.a: used vcore=8, pending vcore=7, headroom vcore=12, running 3, priority 0
        "#]],
    );
}

#[test]
fn a_user_is_limited_by_its_group() {
    check(
        "
        queue root.a limit users=ann groups=dev vcore=4 limit groups=ops vcore=2
        node n1 vcore=20
        app a1 in root.a user ann groups ops
        ask a1 k x5 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k#1 of k placed on n1
            a1/k#2 of k placed on n1
            root: used vcore=2, pending vcore=3, headroom vcore=18, running 1, priority 0
            root.a: used vcore=2, pending vcore=3, headroom vcore=18, running 1, priority 0
        "#]],
    );
}

#[test]
fn a_running_limit_of_a_user_delays_the_next() {
    check(
        "
        queue root.a limit users=ann apps=1 limit groups=dev apps=100
        node n1 vcore=20
        app a1 in root.a user ann groups dev
        app a2 in root.a user ann groups dev
        app b1 in root.a user bob groups dev
        ask a1 k vcore=1
        ask a2 k vcore=1
        ask b1 k vcore=1
        release a1 key=k
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k placed on n1
            a2 is Accepted
            b1 is Accepted
            b1 is Running
            b1/k placed on n1
            a1/k released: STOPPED_BY_RM
            a1 is Completing
            a2 is Running
            a2/k placed on n1
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k], asks []
            b1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k], asks []
        "#]],
    );
}

#[test]
fn a_limit_below_usage_evicts_and_admits_nothing() {
    check(
        "
        queue root.a limit users=ann vcore=5
        node n1 vcore=20
        app a1 in root.a user ann
        ask a1 k x5 vcore=1
        forget
        queue root.a limit users=ann vcore=4
        reload
        ask a1 l vcore=1
        show queues
        release a1 uuid=k#1
        release a1 uuid=k#2
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k#1 of k placed on n1
            a1/k#2 of k placed on n1
            a1/k#3 of k placed on n1
            a1/k#4 of k placed on n1
            a1/k#5 of k placed on n1
            root: used vcore=5, pending vcore=1, headroom vcore=15, running 1, priority 0
            root.a: used vcore=5, pending vcore=1, headroom vcore=15, running 1, priority 0
            a1/k#1 of k released: STOPPED_BY_RM
            a1/k#2 of k released: STOPPED_BY_RM
            a1/l placed on n1
            root: used vcore=4, pending nothing, headroom vcore=16, running 1, priority none
            root.a: used vcore=4, pending nothing, headroom vcore=16, running 1, priority none
        "#]],
    );
}

#[test]
fn usage_below_counts_against_the_parents_limit() {
    check(
        "
        queue root.p limit users=ann vcore=2
        queue root.p.x
        queue root.p.y
        node n1 vcore=20
        app x1 in root.p.x user ann
        app y1 in root.p.y user ann
        ask x1 k vcore=1
        ask y1 k x9 vcore=1
        release x1 key=k
        show queues
        ",
        &expect![[r#"
            n1 accepted
            x1 accepted
            y1 accepted
            x1 is Accepted
            x1 is Running
            x1/k placed on n1
            y1 is Accepted
            y1 is Running
            y1/k#1 of k placed on n1
            x1/k released: STOPPED_BY_RM
            x1 is Completing
            y1/k#2 of k placed on n1
            root: used vcore=2, pending vcore=7, headroom vcore=18, running 1, priority 0
            root.p: used vcore=2, pending vcore=7, headroom vcore=18, running 1, priority 0
            root.p.x: used nothing, pending nothing, headroom vcore=18, running 0, priority none
            root.p.y: used vcore=2, pending vcore=7, headroom vcore=18, running 1, priority 0
        "#]],
    );
}

#[test]
fn limits_of_leaf_and_parent_count_together() {
    check(
        "
        queue root.p limit users=ann gpu=1
        queue root.p.x limit users=ann vcore=3
        node n1 vcore=20 gpu=8
        app x1 in root.p.x user ann
        ask x1 k1 x2 vcore=1 gpu=1
        ask x1 k2 x5 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            x1 accepted
            x1 is Accepted
            x1 is Running
            x1/k1#1 of k1 placed on n1
            x1/k2#1 of k2 placed on n1
            x1/k2#2 of k2 placed on n1
            root: used gpu=1 vcore=3, pending gpu=1 vcore=4, headroom gpu=7 vcore=17, running 1, priority 0
            root.p: used gpu=1 vcore=3, pending gpu=1 vcore=4, headroom gpu=7 vcore=17, running 1, priority 0
            root.p.x: used gpu=1 vcore=3, pending gpu=1 vcore=4, headroom gpu=7 vcore=17, running 1, priority 0
        "#]],
    );
}

#[test]
fn a_limit_of_zero_blocks_its_type() {
    check(
        "
        queue root.a limit users=ann memory=5 gpu=0
        node n1 vcore=20 memory=20 gpu=8
        app a1 in root.a user ann
        ask a1 k1 gpu=1
        ask a1 k2 memory=3
        ask a1 k3 vcore=9
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k2 placed on n1
            a1/k3 placed on n1
            root: used memory=3 vcore=9, pending gpu=1, headroom gpu=8 memory=17 vcore=11, running 1, priority 0
            root.a: used memory=3 vcore=9, pending gpu=1, headroom gpu=8 memory=17 vcore=11, running 1, priority 0
        "#]],
    );
}

#[test]
fn without_a_wildcard_unnamed_users_are_unlimited() {
    check(
        "
        queue root.a limit users=ann vcore=1 limit users=* vcore=1
        node n1 vcore=20
        app a1 in root.a user ann
        app b1 in root.a user bob
        ask a1 k x3 vcore=1
        ask b1 k x3 vcore=1
        forget
        queue root.a limit users=ann vcore=1
        reload
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k#1 of k placed on n1
            b1 is Accepted
            b1 is Running
            b1/k#1 of k placed on n1
            b1/k#2 of k placed on n1
            b1/k#3 of k placed on n1
            root: used vcore=4, pending vcore=2, headroom vcore=16, running 2, priority 0
            root.a: used vcore=4, pending vcore=2, headroom vcore=16, running 2, priority 0
        "#]],
    );
}

#[test]
fn a_limited_ask_lets_others_pass_and_returns_first() {
    check(
        "
        queue root.a limit users=ann vcore=1
        node n1 vcore=4
        app a1 in root.a user ann
        app a2 in root.a user ann
        app b1 in root.a user bob
        ask a1 k vcore=1
        ask a2 k vcore=1
        ask b1 k x3 vcore=1
        ask b1 l vcore=1
        release a1 key=k
        release b1 uuid=k#1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k placed on n1
            a2 is Accepted
            b1 is Accepted
            b1 is Running
            b1/k#1 of k placed on n1
            b1/k#2 of k placed on n1
            b1/k#3 of k placed on n1
            a1/k released: STOPPED_BY_RM
            a1 is Completing
            a2 is Running
            a2/k placed on n1
            b1/k#1 of k released: STOPPED_BY_RM
            b1/l placed on n1
            root: used vcore=4, pending nothing, headroom vcore=0, running 2, priority none
            root.a: used vcore=4, pending nothing, headroom vcore=0, running 2, priority none
        "#]],
    );
}

#[test]
fn a_release_wakes_the_users_request_in_another_leaf() {
    check(
        "
        queue root limit users=ann vcore=3
        queue root.a.x
        queue root.b.y
        queue root.b.z max vcore=1
        node n1 vcore=20
        app x1 in root.a.x user ann
        app y1 in root.b.y user ann
        app z1 in root.b.z user ann
        ask x1 k x3 vcore=1
        ask y1 k vcore=2
        ask z1 k vcore=1
        release x1 uuid=k#1
        release x1 uuid=k#2
        release x1 uuid=k#3
        show queues
        ",
        &expect![[r#"
            n1 accepted
            x1 accepted
            y1 accepted
            z1 accepted
            x1 is Accepted
            x1 is Running
            x1/k#1 of k placed on n1
            x1/k#2 of k placed on n1
            x1/k#3 of k placed on n1
            y1 is Accepted
            z1 is Accepted
            x1/k#1 of k released: STOPPED_BY_RM
            z1 is Running
            z1/k placed on n1
            x1/k#2 of k released: STOPPED_BY_RM
            x1/k#3 of k released: STOPPED_BY_RM
            x1 is Completing
            y1 is Running
            y1/k placed on n1
            root: used vcore=3, pending nothing, headroom vcore=17, running 2, priority none
            root.a: used nothing, pending nothing, headroom vcore=17, running 0, priority none
            root.a.x: used nothing, pending nothing, headroom vcore=17, running 0, priority none
            root.b: used vcore=3, pending nothing, headroom vcore=17, running 2, priority none
            root.b.y: used vcore=2, pending nothing, headroom vcore=17, running 1, priority none
            root.b.z: used vcore=1, pending nothing, headroom vcore=0, running 1, priority none
        "#]],
    );
}

#[test]
fn running_allocations_count_above_any_limit() {
    check(
        "
        queue root.a limit users=ann vcore=2 apps=1
        node n1 vcore=20
        app a1 in root.a user ann
        app a2 in root.a user ann
        exists a1 r1 on n1 vcore=3
        exists a2 r2 on n1 vcore=1
        ask a1 k vcore=1
        release a2 key=r2
        release a1 key=r1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/r1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/r2 placed on n1
            a2/r2 released: STOPPED_BY_RM
            a2 is Completing
            a1/r1 released: STOPPED_BY_RM
            a1/k placed on n1
            root: used vcore=1, pending nothing, headroom vcore=19, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=19, running 1, priority none
        "#]],
    );
}

#[test]
fn queue_and_user_limit_running_applications_together() {
    check(
        "
        queue root.p maxapps=2 limit users=ann apps=1
        queue root.p.x maxapps=2
        queue root.p.y maxapps=2
        node n1 vcore=20
        app x1 in root.p.x user ann
        app y1 in root.p.y user ann
        app y2 in root.p.y user bob
        app y3 in root.p.y user bob
        ask x1 k vcore=1
        ask y1 k vcore=1
        ask y2 k vcore=1
        ask y3 k vcore=1
        release x1 key=k
        show apps
        ",
        &expect![[r#"
            n1 accepted
            x1 accepted
            y1 accepted
            y2 accepted
            y3 accepted
            x1 is Accepted
            x1 is Running
            x1/k placed on n1
            y1 is Accepted
            y2 is Accepted
            y2 is Running
            y2/k placed on n1
            y3 is Accepted
            x1/k released: STOPPED_BY_RM
            x1 is Completing
            y1 is Running
            y1/k placed on n1
            x1 in root.p.x is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            y1 in root.p.y is Running since 1000s: used vcore=1, pending nothing, holds [k], asks []
            y2 in root.p.y is Running since 1000s: used vcore=1, pending nothing, holds [k], asks []
            y3 in root.p.y is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [k x1]
        "#]],
    );
}

/// Users and groups that are still tracked after the application has ended.
async fn tracked_after(before: &str, text: &str) -> Vec<String> {
    let mut world = World::new(How::Plain);
    world.play(&format!("{before}\n{text}")).await;
    let facts = world.scheduler.facts("[rm]default").await.unwrap();
    let users = facts.users.iter().map(|user| format!("user {}", user.name));
    users.chain(facts.groups.iter().map(|group| format!("group {}", group.name))).collect()
}

const ONE: &str = "
    node n1 vcore=20
    app a1 in root.a user ann groups dev
    ask a1 k vcore=1
";

#[test]
fn unused_trackers_are_dropped_unless_a_limit_names_them() {
    let rows = [
        ("queue root.a", &["user ann"][..], &[][..]),
        ("queue root.a limit users=ann vcore=4", &["user ann"], &["user ann"]),
        ("queue root.a limit users=* vcore=4", &["user ann"], &[]),
        ("queue root.a limit groups=dev vcore=4", &["user ann", "group dev"], &["group dev"]),
    ];
    for (queues, during, after) in rows {
        let played = in_virtual_time(async {
            let during = tracked_after(queues, ONE).await;
            let text = format!("{ONE}\nrelease a1 key=k");
            (during, tracked_after(queues, &text).await)
        });
        assert_eq!(
            (&*played.0, &*played.1),
            (&to_owned(during)[..], &to_owned(after)[..]),
            "{queues}"
        );
    }
}

#[test]
fn checks_alone_leave_no_tracked_user() {
    let text = "
        app a1 in root.a user ann groups dev
        ask a1 k vcore=1
        remove-app a1
    ";
    let after =
        in_virtual_time(tracked_after("queue root.a limit users=* vcore=4\nnode n1 gpu=1", text));
    assert_eq!(after, Vec::<String>::new());
}

fn to_owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
