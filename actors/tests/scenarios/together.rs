//! Visits whose queue updates are merged: reports and releases while no ask is pending.

use std::fmt::Write as _;

use expect_test::expect;

use crate::world::{How, World, check, in_virtual_time, messages_to};

#[test]
fn totals_include_reports_and_releases_of_a_message() {
    check(
        "
        queue root.p.a max vcore=6
        queue root.p.b
        queue root.c
        node n1 vcore=20
        node n2 vcore=20
        app a1 in root.p.a
        app a2 in root.p.a
        app b1 in root.p.b
        app c1 in root.c
        exists a1 k1 on n1 vcore=3 ; exists c1 k1 on n2 vcore=1 ; exists a2 k1 on n2 vcore=4 ; exists b1 k1 on n1 vcore=2
        show queues
        exists b1 k2 on n1 vcore=2 ; release a1 key=k1 ; release c1 key=k1 ; exists a2 k2 on n2 vcore=1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            n2 accepted
            a1 accepted
            a2 accepted
            b1 accepted
            c1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            c1 is Accepted
            c1 is Running
            c1/k1 placed on n2
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n2
            b1 is Accepted
            b1 is Running
            b1/k1 placed on n1
            root: used vcore=10, pending nothing, headroom vcore=30, running 4, priority none
            root.c: used vcore=1, pending nothing, headroom vcore=30, running 1, priority none
            root.p: used vcore=9, pending nothing, headroom vcore=30, running 3, priority none
            root.p.a: used vcore=7, pending nothing, headroom vcore=-1, running 2, priority none
            root.p.b: used vcore=2, pending nothing, headroom vcore=30, running 1, priority none
            b1/k2 placed on n1
            a2/k2 placed on n2
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            c1/k1 released: STOPPED_BY_RM
            c1 is Completing
            root: used vcore=9, pending nothing, headroom vcore=31, running 2, priority none
            root.c: used nothing, pending nothing, headroom vcore=31, running 0, priority none
            root.p: used vcore=9, pending nothing, headroom vcore=31, running 2, priority none
            root.p.a: used vcore=5, pending nothing, headroom vcore=1, running 1, priority none
            root.p.b: used vcore=4, pending nothing, headroom vcore=31, running 1, priority none
        "#]],
    );
}

/// One ask is in the middle of a message, and another one follows the message.
#[test]
fn merged_updates_count_for_the_next_ask() {
    check(
        "
        queue root.p max vcore=6
        queue root.p.a
        queue root.p.b
        node n1 vcore=20
        app a1 in root.p.a
        app a2 in root.p.a
        app b1 in root.p.b
        exists a1 k1 on n1 vcore=3 ; exists a2 k1 on n1 vcore=2 ; ask b1 k1 x3 vcore=1 ; exists a1 k2 on n1 vcore=1 ; release a2 key=k1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            b1 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a1/k2 placed on n1
            a2 is Accepted
            a2 is Running
            a2/k1 placed on n1
            a2/k1 released: STOPPED_BY_RM
            a2 is Completing
            b1 is Accepted
            b1 is Running
            b1/k1#1 of k1 placed on n1
            b1/k1#2 of k1 placed on n1
            root: used vcore=6, pending vcore=1, headroom vcore=14, running 2, priority 0
            root.p: used vcore=6, pending vcore=1, headroom vcore=0, running 2, priority 0
            root.p.a: used vcore=4, pending nothing, headroom vcore=0, running 1, priority none
            root.p.b: used vcore=2, pending vcore=1, headroom vcore=0, running 1, priority 0
        "#]],
    );
}

/// Messages to queues while `applications` applications of one leaf report an allocation each, in
/// one message.
async fn messages_of_reports(applications: usize) -> u64 {
    let mut world = World::new(How::Plain);
    let mut text = "queue root.p.a\nnode n1 vcore=1000\n".to_owned();
    for number in 0..applications {
        writeln!(text, "app a{number} in root.p.a &").unwrap();
    }
    text += "settle";
    world.play(&text).await;
    let before = messages_to(&world.scheduler, "queue");
    let reports: Vec<String> =
        (0..applications).map(|number| format!("exists a{number} k on n1 vcore=1")).collect();
    world.play(&reports.join(" ; ")).await;
    let used = world.scheduler.queues("[rm]default").await.unwrap().allocated_resource.sorted();
    assert_eq!(used.first().map(|(_, quantity)| *quantity), i64::try_from(applications).ok());
    messages_to(&world.scheduler, "queue") - before
}

#[test]
fn reports_of_one_message_update_queues_once() {
    let [few, many] = [2, 60].map(|n| in_virtual_time(messages_of_reports(n)));
    assert_eq!(few, many, "for 2, and for 60");
}

/// An application of the same user waits for the limit when one without pending asks releases an
/// allocation.
#[test]
fn a_limit_waiter_gets_merged_releases() {
    check(
        "
        queue root.a limit users=* vcore=4
        node n1 vcore=20
        app a1 in root.a user ada
        app a2 in root.a user ada
        exists a1 k1 on n1 vcore=4
        ask a2 k1 vcore=2
        release a1 key=k1
        show queues
        ",
        &expect![[r#"
            n1 accepted
            a1 accepted
            a2 accepted
            a1 is Accepted
            a1 is Running
            a1/k1 placed on n1
            a2 is Accepted
            a1/k1 released: STOPPED_BY_RM
            a1 is Completing
            a2 is Running
            a2/k1 placed on n1
            root: used vcore=2, pending nothing, headroom vcore=18, running 1, priority none
            root.a: used vcore=2, pending nothing, headroom vcore=18, running 1, priority none
        "#]],
    );
}
