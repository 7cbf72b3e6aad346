//! Declared gangs without places, or with a lost one: scale-up signals, the back-off, and members
//! that the RM could not start.

use expect_test::expect;
use monoceros_actors::Predicates;

use crate::scale_up::World;
use crate::world::{check, in_virtual_time};

const NOTHING: Vec<String> = Vec::new();

/// Members without a request are counted in explanations, and are never sent to the RM.
#[test]
fn a_gang_without_places_signals_each_request_once() {
    in_virtual_time(async {
        let world = World::new("").await;
        world
            .send_lines(
                "node n1 vcore=2\napp a1 in root.default needs w x3 vcore=1 needs d x1 vcore=2",
            )
            .await;
        assert_eq!(world.received(9).await, NOTHING);
        assert_eq!(world.outstanding(9).await, ["a1/(w) x3", "a1/(d) x1"]);
        world.send_lines("ask a1 k1 vcore=1 group=w").await;
        assert_eq!(world.received(1).await, ["a1/k1"]);
        assert_eq!(world.received(60).await, NOTHING);
        world.send_lines("node n2 vcore=1\nask a1 k2 vcore=1 group=w").await;
        assert_eq!(world.received(9).await, ["a1/k2"]);
        let mut outstanding = world.outstanding(9).await;
        outstanding.sort_unstable();
        assert_eq!(outstanding, ["a1/(d) x1", "a1/(w) x1", "a1/k1 x1", "a1/k2 x1"]);
        let all = world.scheduler.outstanding_requests("rm", None, 9).await.unwrap();
        let groups = all.iter().filter(|request| request.key.is_empty());
        assert_eq!(groups.filter(|request| !request.task_group.is_empty()).count(), 2);
        world.send_lines("node n3 vcore=9").await;
        assert_eq!(world.received(9).await, NOTHING);
        assert_eq!(world.outstanding(9).await, NOTHING, "it runs");
    });
}

#[test]
fn a_gangs_scale_up_request_counts_against_its_quota() {
    in_virtual_time(async {
        let world = World::new("queue root.a max vcore=5").await;
        world.send_lines("node n1 vcore=1\napp a1 in root.a needs w x3 vcore=1").await;
        world.send_lines("app a2 in root.a\nask a2 k1 vcore=3\nask a2 k2 vcore=2").await;
        assert_eq!(world.received(9).await, ["a2/k2"], "k1 does not fit beside the gang");
        world.send_lines("remove-app a1").await;
        assert_eq!(world.received(9).await, ["a2/k1"]);
    });
}

/// A change in between restarts the pauses.
#[test]
fn a_refused_gang_is_retried_after_growing_pauses() {
    in_virtual_time(async {
        let world = World::new("").await;
        world.send_lines("node n1 vcore=4\napp a1 in root.default needs w x1 vcore=1").await;
        world.send_lines("ask a1 bad vcore=1 group=w").await;
        assert!(world.refused(0).await > 0);
        let mut tries = String::new();
        for _ in 0..40 {
            tries += if world.refused(1).await > 0 { "x" } else { "." };
        }
        let (after_16, after_8) = ("...............x", ".......x");
        assert_eq!(tries, format!(".x.x...x{after_8}{after_16}........"));
        world.send_lines("node n2 vcore=4").await;
        assert!(world.refused(0).await > 0, "a node came");
        assert!(world.refused(2).await > 0, "and soon again");
    });
}

/// The queue would not allow the gang on any number of nodes.
#[test]
fn a_gang_over_its_quota_requests_no_nodes() {
    in_virtual_time(async {
        let world = World::new("queue root.a max vcore=4").await;
        world.send_lines("node n1 vcore=2\napp a1 in root.a\nask a1 k1 vcore=2").await;
        world.send_lines("app a2 in root.a needs w x3 vcore=1\nask a2 k2 vcore=1 group=w").await;
        assert_eq!(world.received(9).await, NOTHING);
        assert_eq!(world.outstanding(9).await, NOTHING);
        world.send_lines("release a1 key=k1\nnode n2 vcore=0").await;
        assert_eq!(world.received(9).await, ["a2/k2"]);
    });
}

#[test]
fn a_refused_gang_requests_nodes_unless_unanswered() {
    in_virtual_time(async {
        let world = World::new("").await;
        world
            .send_lines("app a1 in root.default needs w x2 vcore=1\nask a1 bad vcore=1 group=w")
            .await;
        world.send_lines("node n1 vcore=9").await;
        assert_eq!(world.received(9).await, ["a1/bad"]);
        let control = world.scheduler.control("rm").await.unwrap();
        control.set_predicates(Predicates::Remote { in_flight: 8, holds: false });
        world.be_silent(true);
        world
            .send_lines("app a2 in root.default needs w x2 vcore=9\nask a2 bad2 vcore=9 group=w")
            .await;
        world.send_lines("node n2 vcore=9").await;
        assert_eq!(world.received(60).await, NOTHING, "no answer is no full cluster");
        assert_eq!(world.outstanding(9).await, NOTHING);
        world.be_silent(false);
        assert_eq!(world.received(60).await, ["a2/bad2"]);
    });
}

/// All members without a place are searched together. If every member counted, the application
/// would be in back-off when the node is added.
#[test]
fn a_gang_without_places_is_not_left_alone() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=2
        node m1 vcore=1 ; node m2 vcore=1 ; node m3 vcore=1 ; node m4 vcore=1 ; node m5 vcore=1 ; node m6 vcore=1 ; node m7 vcore=1 ; node m8 vcore=1 ; node m9 vcore=1
        app a1 in root.a needs w x4 vcore=2
        ask a1 k1 vcore=2 group=w ; ask a1 k2 vcore=2 group=w ; ask a1 k3 vcore=3 group=w
        ask a1 k4 vcore=1
        wait 1s
        node n3 vcore=9
        show apps
        ",
        &expect![[r#"
            m1 accepted
            m2 accepted
            m3 accepted
            m4 accepted
            m5 accepted
            m6 accepted
            m7 accepted
            m8 accepted
            m9 accepted
            a1 accepted
            a1 is Accepted
            n3 accepted
            a1 is Running
            a1/k3 placed on n3
            a1/k1 placed on n3
            a1/k2 placed on n3
            a1/k4 placed on m1
            a1 in root.a is Running since 1000s: used vcore=8, pending nothing, holds [k1, k2, k3, k4, (w~1)], asks []
        "#]],
    );
}

/// The leaf allows one ask without result, and no other ask waits.
#[test]
fn a_gang_without_places_counts_once() {
    check(
        "
        queue root.a prop application.unschedasks.backoff=1
        node m1 vcore=1 ; node m2 vcore=1 ; node m3 vcore=1 ; node m4 vcore=1
        app a1 in root.a needs w x2 vcore=2
        ask a1 k1 vcore=2 group=w ; ask a1 k2 vcore=2 group=w
        app a2 in root.a
        ask a2 k1 vcore=2 ; ask a2 k2 vcore=2
        wait 1s
        node n3 vcore=9
        show apps
        ",
        &expect![[r#"
            m1 accepted
            m2 accepted
            m3 accepted
            m4 accepted
            a1 accepted
            a1 is Accepted
            a2 accepted
            a2 is Accepted
            n3 accepted
            a1 is Running
            a1/k1 placed on n3
            a1/k2 placed on n3
            a1 in root.a is Running since 1000s: used vcore=4, pending nothing, holds [k1, k2], asks []
            a2 in root.a is Accepted since 1000s: used nothing, pending vcore=4, holds [], asks [k1 x1, k2 x1]
        "#]],
    );
}

/// If all members asked at once, there is no held place to take.
#[test]
fn a_failed_member_is_placed_like_any_other() {
    check(
        "
        queue root.a
        app a1 in root.a needs a x2 vcore=1
        ask a1 k1 vcore=1 group=a ; ask a1 k2 vcore=1 group=a
        node n1 vcore=2
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        wait 1s
        show apps
        show queues
        show task-groups
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            n1 accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
            root: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            a1/a: 0 placeholders of vcore=1, 0 replaced, 0 timed out
        "#]],
    );
}

/// The place of the failed member is free for all asks, and the member takes another place of its
/// gang.
#[test]
fn a_failed_member_takes_a_free_held_place() {
    check(
        "
        queue root.a
        node n1 vcore=3
        app a1 in root.a needs a x3 vcore=1
        ask a1 k1 vcore=1 group=a ; ask a1 k2 vcore=1 group=a
        app a2 in root.a
        ask a2 k1 vcore=1
        release a1 uuid=k1 as SCHEDULING_FAILED_ON_RM
        show apps
        wait 1s
        show apps
        show queues
        show nodes
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a2 accepted
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=1, holds [(a~3), k2], asks [k1 x1]
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [k1, k2], asks []
            a2 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k1], asks []
            root: used vcore=3, pending nothing, headroom vcore=0, running 2, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=0, running 2, priority none
            n1: total vcore=3, used vcore=3, occupied nothing, left nothing
            a1/a: 3 placeholders of vcore=1, 3 replaced, 0 timed out
        "#]],
    );
}
