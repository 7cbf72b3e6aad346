//! Asks, allocations and releases that are rejected or ignored, item by item, with the
//! notifications. A rejection changes no state. The reasons are those of
//! `docs/grpc.md#why-an-item-was-refused`.

use expect_test::expect;

use crate::explained::lines;
use crate::world::{How, World, check, in_virtual_time, too_long};

#[test]
fn an_ask_without_a_usable_key_is_rejected() {
    let key = too_long();
    let longest = &key[1..];
    check(
        &format!(
            "
            queue root.a
            node n1 vcore=1
            app a1 in root.a
            ask a1 - vcore=1
            request a1 - vcore=1
            exists a1 - on n1 vcore=1
            foreign - on n1 vcore=1
            ask a1 {key} vcore=1
            request a1 {key} vcore=1
            exists a1 {key} on n1 vcore=1
            show apps
            show nodes
            ask a1 {longest} vcore=2
            withdraw a1 {longest}
            "
        ),
        &expect![[r#"
            n1 accepted
            a1 accepted
            ask a1/ rejected: R_KEY
            allocation a1/ rejected: R_KEY
            allocation a1/ rejected: R_KEY
            allocation / rejected: R_KEY
            ask (1028_bytes) rejected: R_KEY
            allocation (1028_bytes) rejected: R_KEY
            allocation (1028_bytes) rejected: R_KEY
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
            a1 is Accepted
            a1 is Completing
        "#]],
    );
}

#[test]
fn an_ask_of_an_unknown_application_is_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=1
        ask - k1 vcore=1
        request - k2 vcore=1
        exists - k3 on n1 vcore=1
        ask a9 k1 vcore=1
        request a9 k2 vcore=1
        exists a9 k3 on n1 vcore=1
        exists a9 k4 on n1 vcore=1 uuid=u4
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            ask /k1 rejected: R_APP_UNKNOWN
            allocation /k2 rejected: R_APP_UNKNOWN
            allocation /k3 rejected: R_APP_UNKNOWN
            ask a9/k1 rejected: R_APP_UNKNOWN
            allocation a9/k2 rejected: R_APP_UNKNOWN
            allocation a9/k3 rejected: R_APP_UNKNOWN
            allocation a9/k4 rejected: R_APP_UNKNOWN
            root: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

#[test]
fn an_ask_for_an_unknown_partition_is_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1 partition=gpu
        ask a1 k1 vcore=1 partition=[other]default
        request a1 k1 vcore=1 partition=gpu
        exists a1 k1 on n1 vcore=1 partition=gpu
        show apps
        ask a1 k1 vcore=1 partition=default
        ask a1 k2 vcore=1 partition=[rm]default
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            ask a1/k1 rejected: R_PARTITION_UNKNOWN
            ask a1/k1 rejected: R_PARTITION_UNKNOWN
            allocation a1/k1 rejected: R_PARTITION_UNKNOWN
            allocation a1/k1 rejected: R_PARTITION_UNKNOWN
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=1, holds [k1], asks [k2 x1]
        "#]],
    );
}

#[test]
fn nonpositive_allocations_are_rejected_in_every_form() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        request a1 k1
        request a1 k1 vcore=0
        request a1 k1 vcore=1 memory=-1
        exists a1 k2 on n1
        exists a1 k2 on n1 vcore=0
        exists a1 k2 on n1 vcore=-1
        foreign f1 on n1 vcore=-1
        show apps
        show nodes
        request a1 k3 vcore=1
        request a1 k3 vcore=0
        request a1 k3 vcore=-1
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            allocation a1/k1 rejected: R_NO_RESOURCE
            allocation a1/k1 rejected: R_NO_RESOURCE
            allocation a1/k1 rejected: R_NEGATIVE_RESOURCE
            allocation a1/k2 rejected: R_NO_RESOURCE
            allocation a1/k2 rejected: R_NO_RESOURCE
            allocation a1/k2 rejected: R_NEGATIVE_RESOURCE
            allocation /f1 rejected: R_NEGATIVE_RESOURCE
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
            a1 is Accepted
            a1 is Running
            a1/k3 placed on n1
            allocation a1/k3 rejected: R_NO_RESOURCE
            allocation a1/k3 rejected: R_NEGATIVE_RESOURCE
            a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k3], asks []
        "#]],
    );
}

#[test]
fn uncountable_amounts_are_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=9223372036854775807
        ask a1 k2 x10000 vcore=9223372036854775807
        ask a1 k3 vcore=9223372036854775807
        request a1 k4 vcore=9223372036854775807
        exists a1 k5 on n1 vcore=9223372036854775807
        exists a1 k6 on n1 vcore=9223372036854775807 uuid=u6
        node n2 vcore=9223372036854775807
        show apps
        show queues
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            ask a1/k1 rejected: R_OVERFLOW
            ask a1/k2 rejected: R_OVERFLOW
            ask a1/k3 rejected: R_OVERFLOW
            allocation a1/k4 rejected: R_OVERFLOW
            allocation a1/k5 rejected: R_OVERFLOW
            allocation a1/k6 rejected: R_OVERFLOW
            n2 rejected: R_OVERFLOW
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            root: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            root.a: used nothing, pending nothing, headroom vcore=1, running 0, priority none
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

/// Pending asks of 2^53, and of each smaller power of two, sum to 2^63 - 1, the largest quantity.
/// Asks beyond that are accepted as well, and the sum after withdrawals is exact.
#[test]
fn other_pending_asks_never_cause_a_rejection() {
    const MOST: i64 = 1 << 53;
    in_virtual_time(async {
        let mut world = World::new(How::Plain);
        world.play("queue root.p.a\nqueue root.b\nnode n1 gpu=8\napp a1 in root.p.a").await;
        world.play("app b1 in root.b").await;
        world.play(&format!("ask a1 most x1023 gpu={MOST}")).await;
        let smaller = (0..=52).map(|power| format!("ask a1 power{power} gpu={}\n", 1_i64 << power));
        world.play(&smaller.collect::<String>()).await;
        world.play("show queues\nask b1 k1 gpu=1\nask b1 k2 gpu=100\nask b1 k3 gpu=7").await;
        world.play(&format!("ask a1 many x10000 gpu={MOST}\nshow queues")).await;
        assert_eq!(world.scheduler.check_books("default").await.unwrap(), [""; 0]);
        world.play("withdraw a1 many\nwithdraw a1 most\nshow queues").await;
        for power in 1..=52 {
            world.play(&format!("withdraw a1 power{power}")).await;
        }
        world.play("show queues\nshow apps").await;
        assert_eq!(world.scheduler.check_books("default").await.unwrap(), [""; 0]);
        let played = world.take_played();
        assert_eq!(played.wrong, [""; 0]);
        expect![[r#"
            n1 accepted
            a1 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/power0 placed on n1
            a1/power1 placed on n1
            a1/power2 placed on n1
            root: used gpu=7, pending gpu=9223372036854775800, headroom gpu=1, running 1, priority 0
            root.b: used nothing, pending nothing, headroom gpu=1, running 0, priority none
            root.p: used gpu=7, pending gpu=9223372036854775800, headroom gpu=1, running 1, priority 0
            root.p.a: used gpu=7, pending gpu=9223372036854775800, headroom gpu=1, running 1, priority 0
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            root: used gpu=8, pending gpu=9223372036854775807, headroom gpu=0, running 2, priority 0
            root.b: used gpu=1, pending gpu=107, headroom gpu=0, running 1, priority 0
            root.p: used gpu=7, pending gpu=9223372036854775807, headroom gpu=0, running 1, priority 0
            root.p.a: used gpu=7, pending gpu=9223372036854775807, headroom gpu=0, running 1, priority 0
            root: used gpu=8, pending gpu=9007199254741091, headroom gpu=0, running 2, priority 0
            root.b: used gpu=1, pending gpu=107, headroom gpu=0, running 1, priority 0
            root.p: used gpu=7, pending gpu=9007199254740984, headroom gpu=0, running 1, priority 0
            root.p.a: used gpu=7, pending gpu=9007199254740984, headroom gpu=0, running 1, priority 0
            root: used gpu=8, pending gpu=107, headroom gpu=0, running 2, priority 0
            root.b: used gpu=1, pending gpu=107, headroom gpu=0, running 1, priority 0
            root.p: used gpu=7, pending nothing, headroom gpu=0, running 1, priority none
            root.p.a: used gpu=7, pending nothing, headroom gpu=0, running 1, priority none
            b1 in root.b is Running since 1000s: used gpu=1, pending gpu=107, holds [k1], asks [k2 x1, k3 x1]
            a1 in root.p.a is Running since 1000s: used gpu=7, pending nothing, holds [power0, power1, power2], asks []
        "#]].assert_eq(&played.text);
        world.scheduler.shutdown().await;
    });
}

/// Reported allocations count whatever the capacity of nodes, up to a sum of 2^63 - 1. An ask that
/// would exceed that waits, on a node with free capacity, until less is allocated.
#[test]
fn allocations_beyond_a_quantity_are_refused_or_wait() {
    const MOST: i64 = 1 << 53;
    // Only the last one is awaited, since all books are checked at each wait.
    let most = |number: u32| {
        let end = if number == 1_022 { "" } else { " &" };
        format!("exists a1 e{number} on n1 gpu={MOST} uuid=u{number}{end}\n")
    };
    in_virtual_time(async {
        let mut world = World::new(How::Plain);
        world.play("queue root.a\nnode n1 gpu=1\napp a1 in root.a").await;
        world.play(&(0..1_023).map(most).collect::<String>()).await;
        world.take_played();
        world.play(&format!("exists a1 f1 on n1 gpu={MOST} uuid=v1\n")).await;
        world.play(&format!("exists a1 f2 on n1 gpu={} uuid=v2\n", MOST - 1)).await;
        world.play("exists a1 f3 on n1 gpu=1 uuid=v3\nshow queues").await;
        world.play("node n2 gpu=4\nask a1 k1 gpu=3\nask a1 k2 gpu=1\nshow queues").await;
        let waiting = world.scheduler.explain("default", "a1", 0).await.unwrap();
        world.play("exists a1 f2 on n1 gpu=2 uuid=v2\nshow queues\nshow nodes").await;
        assert_eq!(world.scheduler.check_books("default").await.unwrap(), [""; 0]);
        let played = world.take_played();
        assert_eq!(played.wrong, [""; 0]);
        expect![[r#"
            allocation a1/f1 rejected: R_OVERFLOW
            allocation a1/f3 rejected: R_OVERFLOW
            root: used gpu=9223372036854775807, pending nothing, headroom gpu=0, running 1, priority none
            root.a: used gpu=9223372036854775807, pending nothing, headroom gpu=0, running 1, priority none
            n2 accepted
            root: used gpu=9223372036854775807, pending gpu=4, headroom gpu=4, running 1, priority 0
            root.a: used gpu=9223372036854775807, pending gpu=4, headroom gpu=4, running 1, priority 0
            a1/k1 placed on n2
            a1/k2 placed on n2
            root: used gpu=9214364837600034822, pending nothing, headroom gpu=0, running 1, priority none
            root.a: used gpu=9214364837600034822, pending nothing, headroom gpu=0, running 1, priority none
            n1: total gpu=1, used gpu=9214364837600034818, occupied nothing, left gpu=-9214364837600034817
            n2: total gpu=4, used gpu=4, occupied nothing, left nothing
        "#]].assert_eq(&played.text);
        expect![[r#"
            k1 x1: queueQuota root since 1000s
              root is at its maximum of gpu (9223372036854775807 of 9223372036854775807 used); 3 gpu more would let this ask run
              - queueQuota root: gpu=3; gpu=0 of gpu=3
              cure: raise the maximum of root by 3 gpu, or free as much there
              + quota root gpu=3 0 0
            k2 x1: queueQuota root since 1000s
              root is at its maximum of gpu (9223372036854775807 of 9223372036854775807 used); 1 gpu more would let this ask run
              - queueQuota root: gpu=1; gpu=0 of gpu=1
              cure: raise the maximum of root by 1 gpu, or free as much there
              + quota root gpu=1 0 0
        "#]]
        .assert_eq(&lines(&waiting));
        world.scheduler.shutdown().await;
    });
}

#[test]
fn uncountable_foreign_allocations_are_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=1
        foreign f1 on n1 vcore=9223372036854775807
        foreign f2 on n1 vcore=9223372036854775807
        show nodes
        foreign f1 on n1 vcore=9223372036854775806
        foreign f2 on n1 vcore=1
        foreign f2 on n1 vcore=2
        app a1 in root.a
        exists a1 k1 on n1 vcore=1
        show nodes
        foreign-gone f1
        exists a1 k1 on n1 vcore=1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            allocation /f1 rejected: R_OVERFLOW
            allocation /f2 rejected: R_OVERFLOW
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
            allocation /f1 rejected: R_OVERFLOW
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            n1: total vcore=1, used vcore=1, occupied vcore=2, left vcore=-2
            n1: total vcore=1, used vcore=1, occupied vcore=2, left vcore=-2
        "#]],
    );
}

#[test]
fn a_placeholder_without_a_task_group_is_rejected() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1 placeholder=
        request a1 k2 vcore=1 placeholder=
        exists a1 k3 on n1 vcore=1 placeholder=
        show apps
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            ask a1/k1 rejected: R_PLACEHOLDER_NO_TG
            allocation a1/k2 rejected: R_PLACEHOLDER_NO_TG
            allocation a1/k3 rejected: R_PLACEHOLDER_NO_TG
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            n1: total vcore=1, used nothing, occupied nothing, left vcore=1
        "#]],
    );
}

#[test]
fn task_group_names_are_as_short_as_ids() {
    let (long, longest) = ("g".repeat(1_025), "g".repeat(1_024));
    let script = format!(
        "
        queue root.a
        node n1 vcore=9
        app a1 in root.a
        ask a1 k1 vcore=1 group={long}
        request a1 k2 vcore=1 placeholder={long}
        exists a1 k3 on n1 vcore=1 group={long}
        ask a1 k4 vcore=1 group={longest}
        show apps
        "
    );
    check(
        &script,
        &expect![[r#"
        n1 accepted
        a1 accepted
        ask a1/k1 rejected: R_TASK_GROUP
        allocation a1/k2 rejected: R_TASK_GROUP
        allocation a1/k3 rejected: R_TASK_GROUP
        a1 is Accepted
        a1 is Running
        a1/k4 placed on n1
        a1 in root.a is Running since 1000s: used vcore=1, pending nothing, holds [k4], asks []
    "#]],
    );
}

#[test]
fn an_ask_repeats_once_to_ten_thousand_times() {
    check(
        "
        queue root.a
        app a1 in root.a
        ask a1 k1 x0 vcore=1
        ask a1 k2 x-1 vcore=1
        ask a1 k3 x10001 vcore=1
        show apps
        ask a1 k4 x10000 vcore=1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            ask a1/k1 rejected: R_REPEAT
            ask a1/k2 rejected: R_REPEAT
            ask a1/k3 rejected: R_REPEAT
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=10000, holds [], asks [k4 x10000]
        "#]],
    );
}

#[test]
fn an_allocation_on_an_unknown_node_is_rejected() {
    check(
        "
        queue root.a
        app a1 in root.a
        exists a1 k1 on n9 vcore=1
        exists a1 k2 on n9 vcore=1 uuid=u2
        request a1 k3 vcore=1
        exists a1 k3 on n9 vcore=1
        show apps
        show queues
        ",
        &expect![[r#"
            a1 accepted
            allocation a1/k1 rejected: R_NODE_UNKNOWN
            allocation a1/k2 rejected: R_NODE_UNKNOWN
            a1 is Accepted
            allocation a1/k3 rejected: R_NODE_UNKNOWN
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=1, holds [], asks [k3 x1]
            root: used nothing, pending vcore=1, headroom nothing, running 0, priority 0
            root.a: used nothing, pending vcore=1, headroom nothing, running 0, priority 0
        "#]],
    );
}

#[test]
fn an_existing_allocation_is_accepted_on_a_closed_node() {
    check(
        "
        queue root.a
        node n1 vcore=1 drained
        node n2 vcore=1 attr ready=false
        app a1 in root.a
        exists a1 k1 on n1 vcore=2
        exists a1 k2 on n2 vcore=2
        ask a1 k3 vcore=1
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
            a1/k2 placed on n2
            a1 in root.a is Running since 1000s: used vcore=4, pending vcore=1, holds [k1, k2], asks [k3 x1]
            n1 closed: total vcore=1, used vcore=2, occupied nothing, left vcore=-1
            n2 closed: total vcore=1, used vcore=2, occupied nothing, left vcore=-1
        "#]],
    );
}

#[test]
fn of_a_known_request_only_the_resources_change() {
    check(
        "
        queue root.a
        app a1 in root.a
        request a1 k1 vcore=2 prio=1
        request a1 k1 vcore=3 prio=9 node=n9
        show apps
        show queues
        node n1 vcore=3
        request a1 k1 vcore=1 prio=9
        show queues
        show nodes
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [k1 x1]
            root: used nothing, pending vcore=3, headroom nothing, running 0, priority 1
            root.a: used nothing, pending vcore=3, headroom nothing, running 0, priority 1
            n1 accepted
            a1 is Running
            a1/k1 placed on n1
            root: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            root.a: used vcore=1, pending nothing, headroom vcore=2, running 1, priority none
            n1: total vcore=3, used vcore=1, occupied nothing, left vcore=2
        "#]],
    );
}

#[test]
fn an_allocation_with_a_uuid_needs_a_node() {
    check(
        "
        queue root.a
        app a1 in root.a
        request a1 k1 vcore=1 uuid=u1
        show apps
        ",
        &expect![[r#"
            a1 accepted
            allocation a1/k1 rejected: R_NODE_MISSING
            a1 in root.a is New since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn foreign_allocations_need_a_node_and_no_amount() {
    check(
        "
        node n1 vcore=4
        foreign f1 vcore=1
        foreign f1 on n9 vcore=1
        foreign f2 on n1 vcore=1 kind=other
        foreign f3 on n1 vcore=1 kind=static
        foreign f4 on n1 vcore=0
        foreign f4 on n1
        show nodes
        foreign f2 on n9 vcore=2
        foreign f2 vcore=2
        show nodes
        foreign f2 on n1 vcore=0
        foreign f3 on n1
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            allocation /f1 rejected: R_NODE_MISSING
            allocation /f1 rejected: R_NODE_UNKNOWN
            allocation /f4 rejected: R_NO_RESOURCE
            allocation /f4 rejected: R_NO_RESOURCE
            n1: total vcore=4, used nothing, occupied vcore=2, left vcore=2
            allocation /f2 rejected: R_NODE_UNKNOWN
            allocation /f2 rejected: R_NODE_MISSING
            n1: total vcore=4, used nothing, occupied vcore=2, left vcore=2
            n1: total vcore=4, used nothing, occupied nothing, left vcore=4
        "#]],
    );
}

#[test]
fn releases_of_unknown_allocations_are_ignored() {
    check(
        "
        queue root.a
        node n1 vcore=1
        app a1 in root.a
        ask a1 k1 vcore=1
        request a1 k2 vcore=1
        release a1 key=k9
        release a1 uuid=u9
        release a9 key=k1
        release a9 *
        release a1 key=k9 as SCHEDULING_FAILED_ON_RM
        release a1 key=k2 as SCHEDULING_FAILED_ON_RM
        show apps
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1 in root.a is Running since 1000s: used vcore=1, pending vcore=1, holds [k1], asks [k2 x1]
        "#]],
    );
}

#[test]
fn releasing_a_pending_request_has_no_answer() {
    check(
        "
        queue root.a
        app a1 in root.a
        request a1 k1 vcore=1
        ask a1 k2 x3 vcore=1
        release a1 key=k1
        show apps
        release a1 key=k2
        show apps
        ",
        &expect![[r#"
            a1 accepted
            a1 is Accepted
            a1 in root.a is Accepted since 1000s: used nothing, pending vcore=3, holds [], asks [k2 x3]
            a1 is Completing
            a1 in root.a is Completing since 1000s: used nothing, pending nothing, holds [], asks []
        "#]],
    );
}

#[test]
fn a_release_without_application_is_foreign() {
    check(
        "
        queue root.a
        node n1 vcore=4
        app a1 in root.a
        ask a1 k1 vcore=1
        foreign f1 on n1 vcore=1
        release - key=f1
        release - key=f1
        release - key=k1
        release - *
        show nodes
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            n1: total vcore=4, used vcore=1, occupied nothing, left vcore=3
        "#]],
    );
}
