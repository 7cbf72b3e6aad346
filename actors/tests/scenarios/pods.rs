//! Display names of pods in all outputs, because their keys are UIDs.
//! `docs/events.md#names-of-pods`.

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::{DecisionFilter, DecisionKind, Page, Scheduler};
use monoceros_proto::si::v1 as si;

use crate::events::{check, named};
use crate::explained::after;
use crate::recording_callback::RecordingCallback;
use crate::world::{How, in_virtual_time, register, send_lines};

/// Queues that accept everybody.
const ANYBODY: &str =
    "{partitions: [{queues: [{name: root, submitacl: '*', queues: [{name: default}]}]}]}";

/// The words of a script for a request of a pod.
fn pod(name: &str) -> String {
    format!("tags=kubernetes.io/meta/namespace:lab,kubernetes.io/meta/podName:{name}")
}

#[test]
fn events_name_the_pod_beside_its_key() {
    check(
        "
        queue root.a max vcore=1
        node n1 vcore=4
        app a1 in root.a
        request a1 plain vcore=1
        ",
        &format!(
            "
            request a1 uid vcore=1 {}
            release a1 key=plain
            release a1 key=uid
            ",
            pod("p")
        ),
        &expect![[r#"
            lab/p: APP a1 ADD APP_REQUEST of uid vcore=1
            lab/p: REQUEST uid NONE DETAILS_NONE of a1 vcore=1: request `lab/p` does not fit in queue `root.a` (requested map[vcore:1], available map[vcore:0])
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.a vcore=1
            APP a1 REMOVE ALLOC_CANCEL of plain vcore=1
            NODE n1 REMOVE NODE_ALLOC of plain vcore=1
            APP a1 REMOVE REQUEST_CANCEL of plain vcore=1
            lab/p: REQUEST uid NONE DETAILS_NONE of a1 vcore=1: request `lab/p` has become schedulable in queue `root.a`
            lab/p: NODE n1 ADD NODE_ALLOC of uid vcore=1
            USERGROUP ada ADD UG_USER_RESOURCE of root.a vcore=1
            lab/p: APP a1 ADD APP_ALLOC of uid vcore=1
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.a vcore=1
            APP a1 SET APP_COMPLETING
            lab/p: APP a1 REMOVE ALLOC_CANCEL of uid vcore=1
            lab/p: NODE n1 REMOVE NODE_ALLOC of uid vcore=1
            lab/p: APP a1 REMOVE REQUEST_CANCEL of uid vcore=1
        "#]],
    );
}

#[test]
fn reservations_name_the_pod() {
    check(
        "
        node n1 vcore=4
        node n2 vcore=9 drained
        app a1 in root.default
        exists a1 e1 on n1 vcore=3
        ",
        &format!(
            "
            ask a1 uid vcore=2 created=1 {}
            release a1 uuid=e1
            ",
            pod("p")
        ),
        &expect![[r#"
            lab/p: APP a1 ADD APP_REQUEST of uid vcore=2
            lab/p: NODE n1 ADD NODE_RESERVATION of uid vcore=2
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=3
            APP a1 REMOVE ALLOC_CANCEL of e1 vcore=3
            NODE n1 REMOVE NODE_ALLOC of e1 vcore=3
            APP a1 REMOVE REQUEST_CANCEL of e1 vcore=3
            lab/p: NODE n1 REMOVE NODE_RESERVATION of uid vcore=2
            lab/p: NODE n1 ADD NODE_ALLOC of uid vcore=2
            USERGROUP ada ADD UG_USER_RESOURCE of root.default vcore=2
            lab/p: APP a1 ADD APP_ALLOC of uid vcore=2
        "#]],
    );
    in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        register(&scheduler, "rm", ANYBODY, Arc::new(RecordingCallback::default())).await;
        let both = format!(
            "
            node n1 vcore=4
            node n2 vcore=8 drained
            app a1 in root.default
            exists a1 e1 on n1 vcore=3
            ask a1 uid vcore=4 node=n1 {}
            ask a1 plain vcore=2 node=n1
            ",
            pod("p")
        );
        send_lines(&scheduler, "rm", &both).await;
        let node = scheduler.nodes("[rm]default").await.unwrap().remove(0);
        assert_eq!(node.reservations, ["plain", "uid"]);
        let named = node.reserving_pods.iter().map(|(key, pod)| format!("{key}: {pod}"));
        assert_eq!(named.collect::<Vec<_>>(), ["uid: lab/p"]);
    });
}

#[test]
fn foreign_pods_are_named_at_start_and_end() {
    let notified = in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        register(&scheduler, "rm", ANYBODY, Arc::new(RecordingCallback::default())).await;
        send_lines(&scheduler, "rm", "node n1 vcore=4").await;
        let past = scheduler.events().range(0, 0).highest + 1;
        let foreign = si::Allocation::ask("", "uid", [("vcore", 1)])
            .with_tag("foreign", "default")
            .with_tag(monoceros_actors::tags::NAMESPACE, "kube-system")
            .with_tag(monoceros_actors::tags::POD, "dns")
            .running_on("n1");
        let request = si::AllocationRequest::ask("rm", vec![foreign]);
        scheduler.update_allocation(request).await.unwrap();
        scheduler.settle().await;
        let gone = si::AllocationRelease::new("", "uid");
        let request = si::AllocationRequest::release("rm", vec![gone]);
        scheduler.update_allocation(request).await.unwrap();
        scheduler.settle().await;
        scheduler.events().range(past, 99).records.iter().map(named).collect::<Vec<_>>()
    });
    assert_eq!(
        notified,
        [
            "kube-system/dns: NODE n1 ADD NODE_ALLOC of uid vcore=1",
            "kube-system/dns: NODE n1 REMOVE NODE_ALLOC of uid vcore=1"
        ]
    );
}

#[test]
fn preemptors_victims_and_remaining_pods_are_named() {
    let [old, new, wants] = ["old", "new", "wants"].map(pod);
    let before = format!(
        "
        queue root.a guaranteed vcore=2000 prop preemption.delay=1s
        queue root.b
        node n1 vcore=2000
        app b1 in root.b
        ask b1 uid-old vcore=1000 {old}
        wait 1s
        ask b1 uid-new vcore=1000 {new}
        app a1 in root.a
        "
    );
    let asks = format!("ask a1 uid-wants vcore=1000 policy=others {wants}\nwait 5s\nconfirm *\n");
    check(
        &before,
        &asks,
        &expect![[r#"
        APP a1 SET APP_ACCEPTED
        lab/wants: APP a1 ADD APP_REQUEST of uid-wants vcore=1000
        lab/new: REQUEST uid-new NONE DETAILS_NONE of b1 vcore=1000: preempted for pod `lab/wants` of application `a1`: queue `root.a` takes back what it is guaranteed
        lab/wants: NODE n1 ADD NODE_RESERVATION of uid-wants vcore=1000
        USERGROUP ada REMOVE UG_USER_RESOURCE of root.b vcore=1000
        lab/new: APP b1 REMOVE ALLOC_PREEMPT of uid-new vcore=1000
        lab/new: NODE n1 REMOVE NODE_ALLOC of uid-new vcore=1000
        lab/new: APP b1 REMOVE REQUEST_CANCEL of uid-new vcore=1000
        lab/wants: NODE n1 REMOVE NODE_RESERVATION of uid-wants vcore=1000
        APP a1 SET APP_RUNNING
        lab/wants: NODE n1 ADD NODE_ALLOC of uid-wants vcore=1000
        USERGROUP ada ADD UG_USER_RESOURCE of root.a vcore=1000
        lab/wants: APP a1 ADD APP_ALLOC of uid-wants vcore=1000
    "#]],
    );
    let text = before + &asks;
    let evicted = after(How::Plain, &text, async |world| {
        let kind = Some(DecisionKind::Eviction);
        let evictions = DecisionFilter { kind, ..DecisionFilter::default() };
        world.scheduler.list_decisions("default", evictions, Page::default()).await.unwrap().rows
    });
    let [evicted] = &evicted[..] else { panic!("{evicted:?}") };
    let [level] = &evicted.levels[..] else { panic!("{evicted:?}") };
    assert_eq!((&*level.chosen, &*evicted.pod), ("uid-new", "lab/new"));
    assert_eq!((&*level.runner_up, &*level.runner_up_pod), ("uid-old", "lab/old"));
    assert_eq!(
        evicted.preempted_for,
        "preempted for pod `lab/wants` of application `a1`: queue `root.a` takes back what it is \
         guaranteed"
    );
}
