//! When the quota preemption delay of a queue above its maximum starts, continues and ends
//! (`docs/preemption.md`).

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::Scheduler;
use monoceros_actors::snapshot::QueueSnapshot;

use crate::quota_preemption::{q, queues, then, three_of_six};
use crate::recording_callback::RecordingCallback;
use crate::world::{check, in_virtual_time, register, send_lines};
/// A later excess starts a new delay.
#[test]
fn a_queue_shrinking_in_time_loses_nothing() {
    check(
        &format!(
            "{}
            node n1 vcore=30
            app a in root.q
            ask a k0 vcore=4
            ask a k1 vcore=5
            ask a k2 vcore=9
            settle
            {}
            wait 30s
            release a key=k2
            wait 31s
            show queues
            exists a k3 on n1 vcore=9
            wait 59s
            show queues
            wait 1s
            show queues
            ",
            q(20, "1m"),
            then(10)
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k0 placed on n1
            a/k1 placed on n1
            a/k2 placed on n1
            a/k2 released: STOPPED_BY_RM
            root: used vcore=9, pending nothing, headroom vcore=21, running 1, priority none
            root.q: used vcore=9, pending nothing, headroom vcore=1, running 1, priority none
            a/k3 placed on n1
            root: used vcore=18, pending nothing, headroom vcore=12, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            a/k0 released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=4 is preempted, pending nothing, headroom vcore=12, running 1, priority none
            root.q: used vcore=18, of which vcore=4 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn lowering_a_maximum_twice_keeps_the_delay() {
    check(
        &three_of_six(&format!(
            "
            {}
            wait 30s
            {}
            wait 29s
            show queues
            wait 1s
            show queues
            ",
            then(12),
            then(10)
        )),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            a/k#1 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

/// Lowering the maximum again starts a new delay.
#[test]
fn raising_a_maximum_in_time_cancels_the_delay() {
    check(
        &three_of_six(&format!(
            "
            {}
            wait 30s
            {}
            wait 600s
            show queues
            {}
            wait 59s
            show queues
            wait 1s
            show queues
            ",
            then(10),
            then(20),
            then(10)
        )),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            a/k#1 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn another_delay_counts_from_when_the_time_began() {
    check(
        &three_of_six(&format!(
            "
            {}
            wait 30s
            {}reload
            wait 59s
            show queues
            wait 1s
            show queues
            ",
            then(10),
            q(10, "90s")
        )),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            a/k#1 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn a_restart_restarts_the_whole_delay() {
    check(
        &format!(
            "{}
            node n1 vcore=20
            app a in root.q
            exists a k1 on n1 vcore=6
            exists a k2 on n1 vcore=6
            wait 10s
            exists a k3 on n1 vcore=6
            wait 49s
            show queues
            wait 1s
            show queues
            ",
            q(10, "1m")
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k1 placed on n1
            a/k2 placed on n1
            a/k3 placed on n1
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            a/k1 released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn growth_in_place_starts_the_delay() {
    check(
        &format!(
            "{}
            node n1 vcore=20
            app a in root.q
            ask a k1 vcore=5
            ask a k2 vcore=4
            ask a k3 vcore=1
            settle
            exists a k1 on n1 vcore=8
            wait 59s
            show queues
            wait 1s
            show queues
            ",
            q(10, "1m")
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k1 placed on n1
            a/k2 placed on n1
            a/k3 placed on n1
            root: used vcore=13, pending nothing, headroom vcore=7, running 1, priority none
            root.q: used vcore=13, pending nothing, headroom vcore=-3, running 1, priority none
            a/k3 released: PREEMPTED_BY_SCHEDULER
            root: used vcore=13, of which vcore=1 is preempted, pending nothing, headroom vcore=7, running 1, priority none
            root.q: used vcore=13, of which vcore=1 is preempted, pending nothing, headroom vcore=-3, running 1, priority none
        "#]],
    );
}

#[test]
fn switching_quota_preemption_on_starts_the_delay() {
    let off = |max| q(max, "1m").replace("quotapreemptionenabled: true", "enabled: true");
    check(
        &format!(
            "{}
            node n1 vcore=20
            app a in root.q
            ask a k vcore=6 x3
            settle
            {}reload
            wait 600s
            show queues
            {}
            wait 59s
            show queues
            wait 1s
            show queues
            ",
            off(20),
            off(10),
            then(10)
        ),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
            a/k#1 of k released: PREEMPTED_BY_SCHEDULER
            root: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, of which vcore=6 is preempted, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn switched_off_in_time_nothing_is_taken() {
    let off = q(10, "1m").replace("quotapreemptionenabled: true", "enabled: true");
    check(
        &three_of_six(&format!(
            "
            {}
            wait 59s
            {off}reload
            wait 600s
            show queues
            ",
            then(10)
        )),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn without_a_delay_a_queue_stays_above() {
    check(
        &three_of_six(&format!(
            "
            {}reload
            wait 86400s
            show queues
            ",
            queues("{name: q, resources: {max: {vcore: 10m}}}")
        )),
        &expect![[r#"
            n1 accepted
            a accepted
            a is Accepted
            a is Running
            a/k#1 of k placed on n1
            a/k#2 of k placed on n1
            a/k#3 of k placed on n1
            root: used vcore=18, pending nothing, headroom vcore=2, running 1, priority none
            root.q: used vcore=18, pending nothing, headroom vcore=-8, running 1, priority none
        "#]],
    );
}

#[test]
fn the_start_time_is_shown_while_set() {
    in_virtual_time(async {
        let scheduler = Scheduler::builder().epoch_ns(0).start_local().unwrap();
        let config = q(10, "1m");
        let config = config.trim().trim_start_matches("config");
        register(&scheduler, "rm", config, Arc::new(RecordingCallback::default())).await;
        let queue = async || -> QueueSnapshot {
            scheduler.queues("default").await.unwrap().descendant("root.q").unwrap()
        };
        assert_eq!(queue().await.quota_preemption_start_time, 0);
        send_lines(
            &scheduler,
            "rm",
            "node n1 vcore=20\napp a in root.q\nexists a k on n1 vcore=18",
        )
        .await;
        let shown = queue().await;
        assert!(!shown.is_quota_preemption_running);
        let start_ns = shown.quota_preemption_start_time;
        assert!((60_000_000_000..61_000_000_000).contains(&start_ns), "{start_ns}");
        tokio::time::sleep(std::time::Duration::from_secs(61)).await;
        let shown = queue().await;
        assert!(!shown.is_quota_preemption_running, "a run is over with its step");
        assert_eq!(shown.quota_preemption_start_time, 0);
    });
}
