//! Declared gangs that ran in part before a restart: their held places are held again, as many as
//! fit and as long as before (`docs/gangs.md#held-again-after-a-restart`).

use std::time::Duration;

use expect_test::{Expect, expect};
use monoceros_actors::Predicates;

use crate::scale_up::World;
use crate::script::Script;
use crate::world::{How, check_also, in_virtual_time, play};

/// The result does not depend on how predicates are evaluated.
#[track_caller]
fn check(text: &str, expect: &Expect) {
    check_also(text, expect, &[How::OneAtATime, How::Later(1), How::Later(8)]);
}

#[test]
fn places_of_missing_members_are_held_before_other_asks() {
    check(
        "
        queue root.a
        node n1 vcore=4 drained
        app a1 in root.a timeout 60000 needs w x4 vcore=1
        exists a1 k1 on n1 vcore=1 group=w ; exists a1 k2 on n1 vcore=1 group=w
        show apps
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        app a2 in root.a
        ask a2 other vcore=1
        ask a1 k3 vcore=1 group=w
        ask a1 k4 vcore=1 group=w
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2, (w~1), (w~2)], asks []
            a2 accepted
            a2 is Accepted
            a1/k3 placed on n1
            a1/k4 placed on n1
            a1 in root.a is Running since 1000s: used vcore=4, pending nothing, holds [k1, k2, k3, k4], asks []
            a2 in root.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [other x1]
        "#]],
    );
}

/// Only as many places are held as fit: another running allocation uses the capacity of the third.
#[test]
fn as_many_are_held_as_there_are_places() {
    check(
        "
        queue root.a
        node n1 vcore=4 drained
        app a1 in root.a needs w x3 vcore=1 needs d vcore=2
        app a2 in root.a
        exists a1 k1 on n1 vcore=1 group=w ; exists a2 k1 on n1 vcore=1
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2 tag monoceros.io/hold-again.d=1
        show apps
        ask a1 k2 vcore=1 group=w
        ask a1 k3 vcore=1 group=w
        ask a1 d vcore=2 group=d
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1), (w~2)], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a1/k2 placed on n1
            a1/k3 placed on n1
            a1 in root.a is Running since 1000s: used vcore=3, pending vcore=2, holds [k1, k2, k3], asks [d x1]
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
}

/// Ten places were held. For each number up to ten, a quota or a limit allows that many.
#[test]
fn held_places_are_bounded_by_quotas_and_limits() {
    for left in 0..=10 {
        let most = 12 + left;
        for bound in [format!("max vcore={most}"), format!("limit users=ada vcore={most}")] {
            let text = format!(
                "
                queue root.a {bound}
                node n1 vcore=90 drained
                app a1 in root.a user ada needs w x11 vcore=1
                app a2 in root.a user ada
                exists a1 k1 on n1 vcore=1 group=w ; exists a2 k1 on n1 vcore=11
                undrain n1
                app a1 in root.a user ada tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=10
                show nodes
                "
            );
            let played = play(&Script::parse(&text), How::Plain);
            assert_eq!(played.wrong, Vec::<String>::new(), "{text}");
            assert!(played.text.contains(&format!("used vcore={most}")), "{most}: {}", played.text);
        }
    }
}

/// Each of seven nodes has capacity for one, and refuses it or not.
#[test]
fn as_many_are_held_as_nodes_take() {
    let once = [1, 4, 7].map(|refusing| (refusing, How::OneAtATime));
    for (refusing, how) in once.into_iter().chain([(3, How::Later(8)), (7, How::Later(2))]) {
        let on_each = |begin: &str, of: usize| -> Vec<_> {
            (1..=of).map(|n| begin.replace('#', &n.to_string())).collect()
        };
        let text = format!(
            "
            queue root.a
            node n0 vcore=1 drained ; {}
            {}
            app a1 in root.a needs w x8 vcore=1
            exists a1 k1 on n0 vcore=1 group=w
            {}
            app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=7
            wait 5s
            show nodes
            ",
            on_each("node n# vcore=1 drained", 7).join(" ; "),
            on_each("refuse hold:a1/w n#", refusing).join("\n"),
            on_each("undrain n#", 7).join(" ; "),
        );
        let played = play(&Script::parse(&text), how);
        assert_eq!(played.wrong, Vec::<String>::new(), "{text}");
        assert_eq!(played.text.matches("places are held again").count(), 1, "{}", played.text);
        let used = played.text.matches("used vcore=1,").count();
        assert_eq!(used, 8 - refusing, "{refusing} {how:?}: {}", played.text);
    }
}

#[test]
fn a_quota_lowered_meanwhile_is_obeyed() {
    check(
        "
        queue root.a max vcore=9
        node n1 vcore=20 drained
        app a1 in root.a needs w x6 vcore=1
        app a2 in root.a
        exists a1 k1 on n1 vcore=1 group=w ; exists a2 k1 on n1 vcore=6
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=5
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1), (w~2)], asks []
            a2 in root.a is Running since 1000s: used vcore=6, pending nothing, holds [k1], asks []
        "#]],
    );
}

#[test]
fn a_place_refused_by_its_node_is_not_held() {
    check(
        "
        queue root.a
        node n1 vcore=2 drained ; node n2 vcore=1 drained
        refuse hold:a1/w n2
        app a1 in root.a needs w x3 vcore=1
        exists a1 k1 on n1 vcore=1 group=w
        undrain n1 ; undrain n2
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1)], asks []
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

/// The asks of the gang wait like others.
#[test]
fn without_capacity_nothing_is_held() {
    check(
        "
        queue root.a
        node n1 vcore=2 drained
        app a1 in root.a needs w x3 vcore=1
        app a2 in root.a
        exists a1 k1 on n1 vcore=1 group=w ; exists a2 k1 on n1 vcore=1
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        ask a1 k2 vcore=1 group=w
        release a2 key=k1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a2/k1 released: STOPPED_BY_RM
            a2 is Completing
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
            a2 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

/// The time counts from the youngest member, also over a restart.
#[test]
fn held_places_expire_as_without_a_restart() {
    check(
        "
        queue root.a
        node n1 vcore=4 drained
        app a1 in root.a timeout 10000 needs w x3 vcore=1
        exists a1 k1 on n1 vcore=1 group=w
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=995 tag monoceros.io/hold-again.w=2
        wait 4s
        show apps
        wait 1s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1), (w~2)], asks []
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
    check(
        "
        queue root.a
        node n1 vcore=4 drained
        app a1 in root.a timeout 10000 needs w x3 vcore=1
        exists a1 k1 on n1 vcore=1 group=w
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
}

/// An application without a gang, or with a gang that is pending as a whole, has no places to hold;
/// the request is still answered.
#[test]
fn only_running_gangs_have_places_held_again() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a
        app a2 in root.a needs w x3 vcore=1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        app a2 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        app a3 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a2 is Accepted
            a1: places are held again
            a2: places are held again
            a3 rejected: R_APP_UNKNOWN
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [(w) x3]
        "#]],
    );
}

/// Held places stay when the request is repeated; a reported member takes one of them.
#[test]
fn repetitions_end_no_held_place() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a needs w x4 vcore=1
        exists a1 k1 on n1 vcore=1 group=w
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=3
        show apps
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=1
        show apps
        exists a1 k2 on n1 vcore=1 group=w
        show apps
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=3
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1), (w~2), (w~3)], asks []
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1), (w~2), (w~3)], asks []
            a1/k2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2, (w~1), (w~2)], asks []
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2, (w~1), (w~2)], asks []
        "#]],
    );
}

/// Held places end when no member is running any more, also during a search for places.
#[test]
fn nothing_is_held_for_an_ended_gang() {
    check(
        "
        queue root.a max vcore=7
        node n1 vcore=20 drained
        app a1 in root.a needs w x6 vcore=1
        app a2 in root.a
        exists a1 k1 on n1 vcore=1 group=w ; exists a2 k1 on n1 vcore=6
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=5 &
        release a1 key=k1
        show apps
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=5
        wait 31s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1: places are held again
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            a2 in root.a is Running since 1000s: used vcore=6, pending nothing, holds [k1], asks []
            a1: places are held again
            a1 is Completed
            a2 in root.a is Running since 1000s: used vcore=6, pending nothing, holds [k1], asks []
        "#]],
    );
}

/// A report without a task group is not one of the members that places are held for.
#[test]
fn reports_do_not_end_a_search() {
    check(
        "
        queue root.a
        node n1 vcore=9 drained
        app a1 in root.a needs w x2 vcore=1
        exists a1 k1 on n1 vcore=1 group=w
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=1 &
        exists a1 x on n1 vcore=1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1/x placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, (w~1), x], asks []
        "#]],
    );
}

/// With an unreadable time, places are held from now on, however old the application is.
#[test]
fn places_without_a_time_are_held_from_now() {
    check(
        "
        queue root.a
        node n1 vcore=9 drained
        app a1 in root.a timeout 10000 needs w x2 vcore=1
        exists a1 k1 on n1 vcore=1 group=w
        undrain n1
        wait 11s
        app a1 in root.a tag monoceros.io/hold-again-since=soon tag monoceros.io/hold-again.w=1
        wait 9s
        show apps
        wait 1s
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1)], asks []
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
        "#]],
    );
}

/// An RM that does not answer delays the asks of the gang by five seconds.
#[test]
fn an_unanswered_search_ends() {
    in_virtual_time(async {
        let world = World::new("").await;
        let control = world.scheduler.control("rm").await.unwrap();
        control.set_predicates(Predicates::Remote { in_flight: 8, holds: true });
        world.be_silent(true);
        world.send_lines("node n1 vcore=9\napp a1 in root.default needs w x2 vcore=1").await;
        world.send_lines("exists a1 k1 on n1 vcore=1 group=w").await;
        let again = "tag monoceros.io/hold-again-since=1000 tag monoceros.io/hold-again.w=1";
        world.send_lines(&format!("app a1 in root.default {again}")).await;
        let waits = async || world.scheduler.explain("default", "a1", 0).await.unwrap().len();
        assert_eq!(waits().await, 1);
        tokio::time::sleep(Duration::from_millis(4_900)).await;
        assert_eq!(waits().await, 1);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(waits().await, 0);
        assert_eq!(world.scheduler.check_books("default").await.unwrap(), [""; 0]);
    });
}

#[test]
fn held_places_are_in_the_domain_of_running_members() {
    check(
        "
        queue root.a
        node n1 vcore=2 attr rack=r1 drained ; node n2 vcore=9 attr rack=r2 drained
        app a1 in root.a needs w x3 vcore=1 within=rack
        exists a1 k1 on n1 vcore=1 group=w
        undrain n1 ; undrain n2
        app a1 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=2
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1)], asks []
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=9, used nothing, occupied nothing, left vcore=9
        "#]],
    );
}

/// Unreadable tags are ignored, and a group cannot hold more places than it needs.
#[test]
fn values_in_tags_are_bounded() {
    check(
        "
        queue root.a
        node n1 vcore=9 drained
        app a1 in root.a needs w x3 vcore=1
        app a2 in root.a needs w x3 vcore=1
        app a3 in root.a needs w x3 vcore=1
        exists a1 k1 on n1 vcore=1 group=w ; exists a2 k2 on n1 vcore=1 group=w ; exists a3 k3 on n1 vcore=1 group=w
        undrain n1
        app a1 in root.a tag monoceros.io/hold-again-since=soon tag monoceros.io/hold-again.w=2
        app a2 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=900000000
        app a3 in root.a tag monoceros.io/hold-again-since=990 tag monoceros.io/hold-again.w=-1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a2 is Accepted
            a3 accepted
            a3 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Running
            a2/k2 placed on n1
            a3 is Running
            a3/k3 placed on n1
            a1: places are held again
            a2: places are held again
            a3: places are held again
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1, (w~1), (w~2)], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k2, (w~1), (w~2)], asks []
            a3 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k3], asks []
        "#]],
    );
}
