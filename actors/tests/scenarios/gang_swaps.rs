//! Swaps: where a member may replace a placeholder, how a swap in flight reacts to other changes,
//! and which confirmations have no effect.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use monoceros_actors::{ApplicationFilter, ApplicationList, Page, Scheduler};

use crate::recording_callback::RecordingCallback;
use crate::world::{
    How, ONE_LEAF, World, check, check_plain, in_virtual_time, register, send_lines,
};

/// Both nodes are charged until the placeholder has ended, the queue and the user only once.
#[test]
fn a_member_refused_beside_its_placeholder_moves() {
    check(
        "
        queue root.a max vcore=2
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a gang vcore=2
        refuse r1 n1
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        show apps
        show queues
        show users
        show nodes
        confirm 0
        show queues
        show users
        show nodes
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            root: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            user ada: used vcore=2, running [a1]
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            a1/r1 placed on n2
            root: used vcore=2, pending nothing, headroom vcore=2, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            user ada: used vcore=2, running [a1]
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
            n2: total vcore=2, used vcore=2, occupied nothing, left nothing
            a1/tg: 1 placeholders of vcore=2, 1 replaced, 0 timed out
        "#]],
    );
}

/// How many allocations the partition, the sample of a minute, and brief rows of nodes and of
/// applications count.
async fn counts(world: &World) -> [usize; 4] {
    let scheduler = &world.scheduler;
    let partition = scheduler.partitions().await.remove(0);
    let brief = || Page { brief: true, ..Page::default() };
    let nodes = scheduler.list_nodes("default", &BTreeSet::new(), brief()).await.unwrap();
    let live = ApplicationList::Live(ApplicationFilter::default());
    let applications = scheduler.list_applications("default", live, brief()).await.unwrap();
    [
        usize::try_from(partition.total_containers).unwrap(),
        scheduler.running().await.1,
        nodes.rows.iter().map(|node| node.allocation_count).sum(),
        applications.rows.iter().map(|application| application.allocation_count).sum(),
    ]
}

/// The member is on the node of its placeholder, or on another one.
#[test]
fn a_member_in_flight_counts_instead_of_its_placeholder() {
    in_virtual_time(async {
        for how in [How::Plain, How::Later(2)] {
            for refusal in ["", "refuse r1 n1"] {
                let mut world = World::new(how);
                world
                    .play(&format!(
                        "
                        queue root.a
                        node n1 vcore=2
                        app a1 in root.a gang vcore=2
                        ask a1 p1 vcore=1 placeholder=tg
                        ask a1 p2 vcore=1 placeholder=tg
                        node n2 vcore=2
                        {refusal}
                        ask a1 r1 vcore=1 group=tg
                        "
                    ))
                    .await;
                let shown = format!("{how:?}, {refusal}");
                assert_eq!(counts(&world).await, [2; 4], "{shown}");
                world.play("confirm 0").await;
                assert_eq!(counts(&world).await, [2; 4], "{shown}");
                world.play("ask a1 r2 vcore=1 group=tg\nask a1 r3 vcore=1").await;
                assert_eq!(counts(&world).await, [3; 4], "{shown}");
                // Everything ends while a swap is in flight.
                world.play("remove-app a1").await;
                assert_eq!(counts(&world).await, [0; 4], "{shown}");
                assert_eq!(world.scheduler.check_books("default").await.unwrap(), [""; 0]);
                world.scheduler.shutdown().await;
            }
        }
    });
}

/// A smaller member leaves nothing of its placeholder behind either.
#[test]
fn a_smaller_member_elsewhere_is_charged_its_own_size() {
    check(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        app a1 in root.a gang vcore=4
        refuse r1 n1
        ask a1 p1 vcore=4 placeholder=tg
        ask a1 r1 vcore=1 group=tg
        show nodes
        show queues
        confirm 0
        show nodes
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=1, occupied nothing, left vcore=3
            root: used vcore=4, pending nothing, headroom vcore=3, running 1, priority none
            root.a: used vcore=4, pending nothing, headroom vcore=3, running 1, priority none
            a1/r1 placed on n2
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            n2: total vcore=4, used vcore=1, occupied nothing, left vcore=3
            root: used vcore=1, pending nothing, headroom vcore=7, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=7, running 1, priority none
        "#]],
    );
}

/// A place on the node of any placeholder comes before a place elsewhere, for every member.
#[test]
fn a_swap_in_place_comes_before_another_node() {
    check(
        "
        queue root.a
        node n1 vcore=1
        node n2 vcore=1
        node n3 vcore=1
        app a1 in root.a gang vcore=2
        refuse r1 n1
        ask a1 p1 vcore=1 placeholder=tg
        ask a1 p2 vcore=1 placeholder=tg
        ask a1 r1 vcore=1 group=tg
        confirm 0
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Running
            a1/p2 placed on n2
            a1/p2 released: PLACEHOLDER_REPLACED
            a1/r1 placed on n2
            n1: total vcore=1, used vcore=1, occupied nothing, left nothing
            n2: total vcore=1, used vcore=1, occupied nothing, left nothing
            n3: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

/// The member stays pending until a node changes or the retry time of the predicate has come.
#[test]
fn a_member_that_every_node_refuses_stays_pending() {
    check_plain(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a gang vcore=2
        refuse r1 *
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        show apps
        show nodes
        allow r1 *
        wait 30s
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [p1 for tg], asks [r1 x1]
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used nothing, occupied nothing, left vcore=2
            a1/p1 released: PLACEHOLDER_REPLACED
        "#]],
    );
}

/// A drained or full node takes no member whose placeholder is elsewhere.
#[test]
fn a_member_refused_in_place_waits_for_capacity_elsewhere() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2 drained
        node n3 vcore=1
        app a1 in root.a gang vcore=2
        refuse r1 n1
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        show apps
        resize n3 vcore=2
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            n3 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [p1 for tg], asks [r1 x1]
            a1/p1 released: PLACEHOLDER_REPLACED
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2 closed: total vcore=2, used nothing, occupied nothing, left vcore=2
            n3: total vcore=2, used vcore=2, occupied nothing, left nothing
        "#]],
    );
}

#[test]
fn a_duplicate_confirmation_of_a_swap_is_ignored() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        confirm 0
        confirm-again 0
        confirm-again 0
        show apps
        show queues
        show nodes
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Running
            a1/p2 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/r1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [p2 for tg, r1], asks []
            root: used vcore=4, pending nothing, headroom vcore=5, running 1, priority none
            root.a: used vcore=4, pending nothing, headroom vcore=5, running 1, priority none
            n1: total vcore=9, used vcore=4, occupied nothing, left vcore=5
            a1/tg: 2 placeholders of vcore=2, 1 replaced, 0 timed out
        "#]],
    );
}

/// The scheduler had not asked for it: the placeholder is removed anyway, and nothing replaces it.
#[test]
fn a_replacement_without_member_removes_the_placeholder() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        release a1 uuid=p1 as PLACEHOLDER_REPLACED
        show queues
        show users
        show nodes
        show task-groups
        release a1 uuid=p2 as PLACEHOLDER_REPLACED
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Running
            a1/p2 placed on n1
            root: used vcore=2, pending nothing, headroom vcore=7, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=7, running 1, priority none
            user ada: used vcore=2, running [a1]
            n1: total vcore=9, used vcore=2, occupied nothing, left vcore=7
            a1/tg: 2 placeholders of vcore=2, 1 replaced, 0 timed out
            a1 is Completing
            a1/tg: 2 placeholders of vcore=2, 2 replaced, 0 timed out
        "#]],
    );
}

#[test]
fn a_replacement_of_a_normal_allocation_removes_it() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 other vcore=1
        release a1 uuid=other as PLACEHOLDER_REPLACED
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Running
            a1/other placed on n1
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 0 timed out
        "#]],
    );
}

/// The capacity of the member is released at once, the capacity of the placeholder when it has
/// ended.
#[test]
fn withdrawing_a_moving_member_empties_both_nodes() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2
        app a1 in root.a gang vcore=2
        refuse r1 n1
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        withdraw a1 r1
        show apps
        show nodes
        confirm 0
        show apps
        show nodes
        show queues
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            n2: total vcore=2, used nothing, occupied nothing, left vcore=2
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
            n1: total vcore=2, used nothing, occupied nothing, left vcore=2
            n2: total vcore=2, used nothing, occupied nothing, left vcore=2
            root: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=4, running 0, priority none
            a1/tg: 1 placeholders of vcore=2, 1 replaced, 0 timed out
        "#]],
    );
}

/// The member is withdrawn on the node of its placeholder. The next member does not get the
/// placeholder that is ending.
#[test]
fn withdrawing_a_member_in_flight_leaves_nothing() {
    check(
        "
        queue root.a
        node n1 vcore=2
        app a1 in root.a gang vcore=2
        ask a1 p1 vcore=2 placeholder=tg
        request a1 r1 vcore=2 group=tg
        release a1 key=r1
        ask a1 r2 vcore=2 group=tg
        show apps
        confirm 0
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 in root.a is Running since 1000s: used nothing, pending vcore=2, holds [p1 for tg], asks [r2 x1]
            a1/r2 placed on n1
        "#]],
    );
}

/// The end of the placeholder is all that the swap waited for.
#[test]
fn stopping_a_placeholder_in_flight_completes_the_swap() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=2
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=1 group=tg
        release a1 uuid=p1
        confirm 0
        show apps
        show queues
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/p1 released: STOPPED_BY_RM
            a1/r1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [r1], asks []
            root: used vcore=1, pending nothing, headroom vcore=8, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=8, running 1, priority none
            a1/tg: 1 placeholders of vcore=2, 1 replaced, 0 timed out
        "#]],
    );
}

#[test]
fn confirming_with_another_type_completes_the_swap() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        ask a1 r1 vcore=1 group=tg
        ask a1 r2 vcore=1 group=tg
        release a1 uuid=p1 as TIMEOUT
        release a1 uuid=p2 as SCHEDULING_FAILED_ON_RM
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Running
            a1/p2 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/p2 released: PLACEHOLDER_REPLACED
            a1/r1 placed on n1
            a1/r2 placed on n1
            a1 in root.a is Running since 1000s: used vcore=2, pending nothing, holds [r1, r2], asks []
            a1/tg: 2 placeholders of vcore=2, 2 replaced, 0 timed out
        "#]],
    );
}

/// The member is charged with its present size, though that is more than its placeholder had.
#[test]
fn a_member_resized_in_flight_is_charged_its_new_size() {
    check(
        "
        queue root.a max vcore=2
        node n1 vcore=2
        app a1 in root.a gang vcore=2
        ask a1 p1 vcore=2 placeholder=tg
        request a1 r1 vcore=2 group=tg
        request a1 r1 vcore=3
        show apps
        show queues
        show nodes
        confirm 0
        show apps
        show queues
        show users
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1 in root.a is Running since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            root: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=0, running 1, priority none
            n1: total vcore=2, used vcore=2, occupied nothing, left nothing
            a1/r1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=3, pending nothing, holds [r1], asks []
            root: used vcore=3, pending nothing, headroom vcore=0, running 1, priority none
            root.a: used vcore=3, pending nothing, headroom vcore=-1, running 1, priority none
            user ada: used vcore=3, running [a1]
            n1: total vcore=2, used vcore=3, occupied nothing, left vcore=-1
        "#]],
    );
}

/// A member that moves to another node is charged there already: its new size counts at once, and
/// only there.
#[test]
fn a_moving_member_resized_changes_its_node_alone() {
    check(
        "
        queue root.a
        node n1 vcore=4
        node n2 vcore=4
        app a1 in root.a gang vcore=4
        refuse r1 n1
        ask a1 p1 vcore=4 placeholder=tg
        request a1 r1 vcore=3 group=tg
        request a1 r1 vcore=1
        show nodes
        show queues
        show users
        confirm 0
        show nodes
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            n1: total vcore=4, used vcore=4, occupied nothing, left nothing
            n2: total vcore=4, used vcore=1, occupied nothing, left vcore=3
            root: used vcore=4, pending nothing, headroom vcore=3, running 1, priority none
            root.a: used vcore=4, pending nothing, headroom vcore=3, running 1, priority none
            user ada: used vcore=4, running [a1]
            a1/r1 placed on n2
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
            n2: total vcore=4, used vcore=1, occupied nothing, left vcore=3
            root: used vcore=1, pending nothing, headroom vcore=7, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=7, running 1, priority none
        "#]],
    );
}

/// The total of the placeholders changes, which decides when the gang runs.
#[test]
fn a_placeholder_resized_in_place_stays_a_placeholder() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4
        request a1 p1 vcore=1 placeholder=tg
        request a1 p1 vcore=2
        show apps
        show queues
        show users
        show nodes
        request a1 p2 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        confirm 0
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 in root.a is Accepted since 1000s: used nothing, pending nothing, holds [p1 for tg], asks []
            root: used vcore=2, pending nothing, headroom vcore=7, running 0, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=7, running 0, priority none
            user ada: used vcore=2, running [a1]
            n1: total vcore=9, used vcore=2, occupied nothing, left vcore=7
            a1 is Running
            a1/p2 placed on n1
            a1/p1 released: PLACEHOLDER_REPLACED
            a1/r1 placed on n1
            root: used vcore=4, pending nothing, headroom vcore=5, running 1, priority none
            root.a: used vcore=4, pending nothing, headroom vcore=5, running 1, priority none
        "#]],
    );
}

/// A placeholder counts as timed out whoever ends it, and members that waited for it are placed
/// like others.
#[test]
fn a_preempted_placeholder_counts_as_timed_out() {
    check(
        "
        queue root.a
        node n1 vcore=2
        node n2 vcore=2 drained
        app a1 in root.a gang vcore=2
        refuse r1 n1
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 r1 vcore=2 group=tg
        release a1 uuid=p1 as PREEMPTED_BY_SCHEDULER
        show task-groups
        undrain n2
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/p1 placed on n1
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 1 timed out
            a1/r1 placed on n2
        "#]],
    );
}

#[test]
fn a_placeholder_stopped_by_the_rm_counts_as_timed_out() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4
        ask a1 p1 vcore=2 placeholder=tg
        ask a1 p2 vcore=2 placeholder=tg
        release a1 uuid=p1
        ask a1 r x2 vcore=2 group=tg
        confirm *
        show apps
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 is Running
            a1/p2 placed on n1
            a1/p1 released: STOPPED_BY_RM
            a1/p2 released: PLACEHOLDER_REPLACED
            a1/r#1 of r placed on n1
            a1/r#2 of r placed on n1
            a1 in root.a is Running since 1000s: used vcore=4, pending nothing, holds [r, r], asks []
            a1/tg: 2 placeholders of vcore=2, 1 replaced, 1 timed out
        "#]],
    );
}

/// A placeholder that could not be started is pending again; it is still one placeholder.
#[test]
fn an_unbound_placeholder_is_pending_and_counted_once() {
    check(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a gang vcore=4
        ask a1 p1 vcore=2 placeholder=tg
        drain n1
        release a1 uuid=p1 as SCHEDULING_FAILED_ON_RM
        show apps
        show task-groups
        undrain n1
        wait 1s
        show task-groups
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1/p1 placed on n1
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=2, holds [], asks [p1 x1]
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 0 timed out
            a1/p1 placed on n1
            a1/tg: 1 placeholders of vcore=2, 0 replaced, 0 timed out
        "#]],
    );
}

/// The request time of the replacing member is that of its placeholder.
#[test]
fn a_replacing_member_shows_its_placeholders_request_time() {
    let allocation = in_virtual_time(async {
        let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
        register(&scheduler, "rm", ONE_LEAF, Arc::new(RecordingCallback::default())).await;
        send_lines(
            &scheduler,
            "rm",
            "
            node n1 vcore=9
            app a1 in root.default gang vcore=1
            ask a1 p1 vcore=1 placeholder=tg
            ",
        )
        .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        send_lines(&scheduler, "rm", "ask a1 r1 vcore=1 group=tg").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        send_lines(&scheduler, "rm", "release a1 uuid=p1 as PLACEHOLDER_REPLACED").await;
        let mut apps = scheduler.applications("[rm]default", "root.default").await.unwrap();
        apps.remove(0).allocations.remove(0)
    });
    assert_eq!(allocation.allocation_key, "r1");
    assert!(allocation.placeholder_used && !allocation.placeholder);
    assert_eq!(allocation.task_group_name, "tg");
    let seconds = |ns: i64| ns / 1_000_000_000;
    assert_eq!(seconds(allocation.request_time), 0);
    assert_eq!(allocation.allocation_delay, allocation.allocation_time - allocation.request_time);
    assert!(allocation.allocation_delay > 0);
}
