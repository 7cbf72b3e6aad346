//! Events: which change creates which event with which codes, and the order of the events of one
//! step.

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};
use monoceros_actors::{NamedEvent, Scheduler};
use monoceros_proto::si::v1 as si;

use crate::recording_callback::RecordingCallback;
use crate::script::Script;
use crate::wire;
use crate::world::{How, World, in_virtual_time, register, send_lines};

/// Type, object, change, detail, reference, amount and message of an event.
pub(crate) fn line(record: &si::EventRecord) -> String {
    let (kind, change) = (record.r#type().as_str_name(), record.event_change_type().as_str_name());
    let detail = record.event_change_detail().as_str_name();
    let mut line = format!("{kind} {} {change} {detail}", record.object_id);
    if !record.reference_id.is_empty() {
        write!(line, " of {}", record.reference_id).unwrap();
    }
    let resource = record.resource.as_ref().expect("always there");
    for (name, quantity) in &resource.resources {
        write!(line, " {name}={}", quantity.value).unwrap();
    }
    if !record.message.is_empty() {
        write!(line, ": {}", record.message).unwrap();
    }
    line
}

/// The line of an event, prefixed with the pod of the event, if there is one.
pub(crate) fn named(event: &NamedEvent) -> String {
    event.pod.iter().fold(line(event), |line, pod| format!("{pod}: {line}"))
}

async fn play(world: &mut World, text: &str) {
    world.play(text).await;
    world.settle().await;
}

/// Compares the events of the second script, played after the first.
#[track_caller]
pub(crate) fn check(before: &str, text: &str, expect: &Expect) {
    for how in [How::Plain, How::OneAtATime] {
        let notified = in_virtual_time(async {
            let mut world = World::new(how);
            play(&mut world, before).await;
            let events = world.scheduler.events();
            let past = events.range(0, 0).highest + 1;
            play(&mut world, text).await;
            let range = events.range(past, u64::MAX);
            range.records.iter().fold(String::new(), |text, record| text + &named(record) + "\n")
        });
        expect.assert_eq(&notified);
    }
}

const RUNNING: &str = "
    node n1 vcore=4
    app a1 in root.default
    ask a1 k1 vcore=1
";

#[test]
fn even_a_rejected_node_raises_the_root_maximum() {
    check(
        "node n1 vcore=4",
        "
        node n2 vcore=2 drained
        node n1 vcore=9
        ",
        &expect![[r#"
            NODE n2 SET NODE_SCHEDULABLE: schedulable: false
            NODE n2 ADD DETAILS_NONE vcore=2: node added to its partition
            QUEUE root SET QUEUE_MAX vcore=6
            NODE n1 SET NODE_SCHEDULABLE: schedulable: true
            NODE n1 ADD DETAILS_NONE vcore=9: node added to its partition
        "#]],
    );
}

#[test]
fn dynamic_queues_and_their_tags_have_events() {
    let quota = |vcore| format!("{{\"resources\":{{\"vcore\":{{\"value\":{vcore}}}}}}}");
    let (two, three) = (quota(2), quota(3));
    check(
        "config {partitions: [{placementrules: [{name: provided, create: true}], queues: [{name: \
         root, submitacl: '*', childtemplate: {resources: {max: {vcore: 2m}, guaranteed: {vcore: \
         1m}}}}]}]}
         register",
        &format!(
            "
            app a1 in root.p.x
            app a2 in root.p.x tag namespace.resourcequota={two}
            app a3 in root.p.x tag namespace.resourcequota={three}
            remove-app a1 ; remove-app a2 ; remove-app a3
            wait 10s
            "
        ),
        &expect![[r#"
            QUEUE root.p ADD QUEUE_DYNAMIC
            QUEUE root.p.x ADD QUEUE_DYNAMIC
            APP a1 ADD APP_NEW
            QUEUE root.p.x ADD QUEUE_APP of a1
            APP a2 ADD APP_NEW
            QUEUE root.p.x ADD QUEUE_APP of a2
            QUEUE root.p.x SET QUEUE_GUARANTEED
            APP a3 ADD APP_NEW
            QUEUE root.p.x ADD QUEUE_APP of a3
            QUEUE root.p.x SET QUEUE_MAX vcore=3
            QUEUE root.p.x REMOVE QUEUE_APP of a1
            APP a1 REMOVE DETAILS_NONE
            QUEUE root.p.x REMOVE QUEUE_APP of a2
            APP a2 REMOVE DETAILS_NONE
            QUEUE root.p.x REMOVE QUEUE_APP of a3
            APP a3 REMOVE DETAILS_NONE
            QUEUE root.p.x REMOVE QUEUE_DYNAMIC
            QUEUE root.p REMOVE QUEUE_DYNAMIC
        "#]],
    );
}

#[test]
fn configured_queues_have_events_parents_first() {
    let notified = in_virtual_time(async {
        let mut world = World::new(How::Plain);
        play(&mut world, "queue root.a.b\nqueue root.c\nregister").await;
        let records = world.scheduler.events().range(0, 9).records;
        records.iter().map(named).collect::<Vec<_>>()
    });
    let queue = |path: &str| format!("QUEUE {path} ADD DETAILS_NONE");
    assert_eq!(notified, ["root", "root.a", "root.a.b", "root.c"].map(queue));
}

#[test]
fn the_first_allocation_has_events_in_order() {
    check(
        "node n1 vcore=4",
        "
        app a1 in root.default
        ask a1 k1 vcore=1
        ask a1 k2 vcore=1
        ",
        &expect![[r#"
            APP a1 ADD APP_NEW
            QUEUE root.default ADD QUEUE_APP of a1
            APP a1 SET APP_ACCEPTED
            APP a1 ADD APP_REQUEST of k1 vcore=1
            APP a1 SET APP_RUNNING
            NODE n1 ADD NODE_ALLOC of k1 vcore=1
            USERGROUP ada ADD UG_USER_RESOURCE of root.default vcore=1
            APP a1 ADD APP_ALLOC of k1 vcore=1
            APP a1 ADD APP_REQUEST of k2 vcore=1
            NODE n1 ADD NODE_ALLOC of k2 vcore=1
            USERGROUP ada ADD UG_USER_RESOURCE of root.default vcore=1
            APP a1 ADD APP_ALLOC of k2 vcore=1
        "#]],
    );
}

#[test]
fn a_rejected_application_has_a_reason_and_no_queue() {
    check(
        "
        queue root.a
        register
        ",
        "app a1 in root.nowhere",
        &expect![[r#"
            APP a1 ADD APP_NEW
            APP a1 SET APP_REJECT: application `a1`: no placement rule produced a usable queue: `provided`: queue `root.nowhere` does not exist; the user may submit to `root.a` [R_PLACEMENT E_PLACEMENT_NONE]
        "#]],
    );
}

#[test]
fn the_last_release_completes_before_ending_the_ask() {
    check(
        RUNNING,
        "
        release a1 key=k1
        wait 30000ms
        ",
        &expect![[r#"
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=1
            APP a1 SET APP_COMPLETING
            APP a1 REMOVE ALLOC_CANCEL of k1 vcore=1
            NODE n1 REMOVE NODE_ALLOC of k1 vcore=1
            APP a1 REMOVE REQUEST_CANCEL of k1 vcore=1
            APP a1 SET APP_COMPLETED
            QUEUE root.default REMOVE QUEUE_APP of a1
            APP a1 REMOVE DETAILS_NONE
            APP a1 NONE DETAILS_NONE: state=Completed submitted=1970-01-01T00:16:40.0Z started=1970-01-01T00:16:40.0Z finished=1970-01-01T00:17:10.0Z rm=rm user=ada queue=root.default
        "#]],
    );
}

#[test]
fn a_gang_timeout_has_events_for_each_request() {
    check(
        "
        node n1 vcore=1
        app a1 in root.default gang vcore=2 timeout 1000
        ask a1 p1 vcore=1 placeholder=tg
        ask a1 p2 vcore=1 placeholder=tg
        ",
        "wait 1s",
        &expect![[r#"
            APP a1 SET APP_RESUMING: ResourceReservationTimeout
            APP a1 REMOVE REQUEST_TIMEOUT of p2 vcore=1
        "#]],
    );
}

#[test]
fn how_an_allocation_ended_is_in_the_detail() {
    check(
        "
        node n1 vcore=9
        app a1 in root.default
        ask a1 k x3 vcore=1
        ask a1 p vcore=1
        ask a1 r vcore=1
        ",
        "
        release a1 uuid=k#1 as TIMEOUT
        release a1 uuid=k#2 as SCHEDULING_FAILED_ON_RM
        release a1 uuid=p as PREEMPTED_BY_SCHEDULER
        release a1 uuid=r as PLACEHOLDER_REPLACED
        wait 1s
        ",
        &expect![[r#"
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=1
            APP a1 REMOVE ALLOC_TIMEOUT of k#1 vcore=1
            NODE n1 REMOVE NODE_ALLOC of k#1 vcore=1
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=1
            APP a1 REMOVE ALLOC_CANCEL of k#2 vcore=1
            NODE n1 REMOVE NODE_ALLOC of k#2 vcore=1
            REQUEST k NONE DETAILS_NONE of a1 vcore=1: request `k` could not be started at 1970-01-01T00:16:40.0Z: `no image`; it is tried again at 1970-01-01T00:16:41.0Z
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=1
            APP a1 REMOVE ALLOC_PREEMPT of p vcore=1
            NODE n1 REMOVE NODE_ALLOC of p vcore=1
            APP a1 REMOVE REQUEST_CANCEL of p vcore=1
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=1
            APP a1 REMOVE ALLOC_REPLACED of r vcore=1
            NODE n1 REMOVE NODE_ALLOC of r vcore=1
            APP a1 REMOVE REQUEST_CANCEL of r vcore=1
            NODE n1 ADD NODE_ALLOC of k#4 vcore=1
            USERGROUP ada ADD UG_USER_RESOURCE of root.default vcore=1
            APP a1 ADD APP_ALLOC of k#4 vcore=1
        "#]],
    );
}

#[test]
fn a_removed_node_ends_allocations_without_own_events() {
    check(
        "
        node n1 vcore=4
        app a1 in root.default
        ask a1 k1 vcore=1
        ask a1 k2 vcore=1
        ",
        "remove n1",
        &expect![[r#"
            NODE n1 SET NODE_SCHEDULABLE: schedulable: false
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=1
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=1
            APP a1 SET APP_COMPLETING
            APP a1 REMOVE ALLOC_NODEREMOVED of k1 vcore=1
            APP a1 REMOVE ALLOC_NODEREMOVED of k2 vcore=1
            NODE n1 REMOVE NODE_DECOMISSION: node removed from its partition
            QUEUE root SET QUEUE_MAX
        "#]],
    );
}

#[test]
fn a_removed_application_ends_asks_then_allocations() {
    check(
        RUNNING,
        "
        ask a1 k2 vcore=99
        remove-app a1
        ",
        &expect![[r#"
            APP a1 ADD APP_REQUEST of k2 vcore=99
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=1
            APP a1 REMOVE REQUEST_CANCEL of k2 vcore=99
            QUEUE root.default REMOVE QUEUE_APP of a1
            APP a1 REMOVE DETAILS_NONE
            APP a1 REMOVE ALLOC_CANCEL of k1 vcore=1
            NODE n1 REMOVE NODE_ALLOC of k1 vcore=1
            APP a1 REMOVE REQUEST_CANCEL of k1 vcore=1
            APP a1 NONE DETAILS_NONE: state=Running submitted=1970-01-01T00:16:40.0Z started=1970-01-01T00:16:40.0Z finished=1970-01-01T00:16:40.0Z rm=rm user=ada queue=root.default
        "#]],
    );
}

#[test]
fn allocations_placed_by_the_rm_have_usual_events() {
    check(
        "
        node n1 vcore=4
        app a1 in root.default
        ",
        "
        exists a1 k1 on n1 vcore=1
        exists a1 k2 on n1 vcore=1 uuid=u2
        ",
        &expect![[r#"
            APP a1 SET APP_ACCEPTED
            APP a1 SET APP_RUNNING
            NODE n1 ADD NODE_ALLOC of k1 vcore=1
            USERGROUP ada ADD UG_USER_RESOURCE of root.default vcore=1
            APP a1 ADD APP_ALLOC of k1 vcore=1
            NODE n1 ADD NODE_ALLOC of u2 vcore=1
            USERGROUP ada ADD UG_USER_RESOURCE of root.default vcore=1
            APP a1 ADD APP_ALLOC of u2 vcore=1
        "#]],
    );
}

/// Foreign allocations have events of their node only. A change of one has no event.
#[test]
fn foreign_allocations_have_node_events() {
    check(
        "node n1 vcore=4",
        "
        foreign f1 on n1 vcore=1 kind=default
        foreign f1 on n1 vcore=2 kind=default
        foreign-gone f1
        ",
        &expect![[r#"
            NODE n1 ADD NODE_ALLOC of f1 vcore=1
            NODE n1 REMOVE NODE_ALLOC of f1 vcore=2
        "#]],
    );
}

#[test]
fn unchanged_nodes_have_no_events() {
    check(
        "node n1 vcore=4",
        "
        resize n1 vcore=4 attr ready=true
        resize n1 vcore=5 occupied vcore=1 attr ready=false
        resize n1 vcore=5 occupied vcore=1 attr ready=false
        drain n1
        drain n1
        undrain n1
        ",
        &expect![[r#"
            NODE n1 SET NODE_READY: ready: false
            NODE n1 SET NODE_OCCUPIED vcore=1
            NODE n1 SET NODE_CAPACITY vcore=5
            QUEUE root SET QUEUE_MAX vcore=5
            NODE n1 SET NODE_SCHEDULABLE: schedulable: false
            NODE n1 SET NODE_SCHEDULABLE: schedulable: true
        "#]],
    );
}

#[test]
fn a_request_over_quota_has_one_event() {
    check(
        "
        queue root.a max vcore=1
        node n1 vcore=9
        app a1 in root.a
        ask a1 k1 vcore=1
        ",
        "
        ask a1 k2 vcore=1
        node n2 vcore=1
        withdraw a1 k9
        release a1 key=k1
        ",
        &expect![[r#"
            APP a1 ADD APP_REQUEST of k2 vcore=1
            REQUEST k2 NONE DETAILS_NONE of a1 vcore=1: request `k2` does not fit in queue `root.a` (requested map[vcore:1], available map[vcore:0])
            NODE n2 SET NODE_SCHEDULABLE: schedulable: true
            NODE n2 ADD DETAILS_NONE vcore=1: node added to its partition
            QUEUE root SET QUEUE_MAX vcore=10
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.a vcore=1
            APP a1 REMOVE ALLOC_CANCEL of k1 vcore=1
            NODE n1 REMOVE NODE_ALLOC of k1 vcore=1
            APP a1 REMOVE REQUEST_CANCEL of k1 vcore=1
            REQUEST k2 NONE DETAILS_NONE of a1 vcore=1: request `k2` has become schedulable in queue `root.a`
            NODE n1 ADD NODE_ALLOC of k2 vcore=1
            USERGROUP ada ADD UG_USER_RESOURCE of root.a vcore=1
            APP a1 ADD APP_ALLOC of k2 vcore=1
        "#]],
    );
}

#[test]
fn reservation_events_name_the_request() {
    let before = "
        node n1 vcore=4
        node n2 vcore=9 drained
        app a1 in root.default
        exists a1 e1 on n1 vcore=3
        ask a1 k1 vcore=1
    ";
    check(
        before,
        "
        ask a1 k2 vcore=2 created=1
        release a1 uuid=e1
        ",
        &expect![[r#"
            APP a1 ADD APP_REQUEST of k2 vcore=2
            NODE n1 ADD NODE_RESERVATION of k2 vcore=2
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=3
            APP a1 REMOVE ALLOC_CANCEL of e1 vcore=3
            NODE n1 REMOVE NODE_ALLOC of e1 vcore=3
            APP a1 REMOVE REQUEST_CANCEL of e1 vcore=3
            NODE n1 REMOVE NODE_RESERVATION of k2 vcore=2
            NODE n1 ADD NODE_ALLOC of k2 vcore=2
            USERGROUP ada ADD UG_USER_RESOURCE of root.default vcore=2
            APP a1 ADD APP_ALLOC of k2 vcore=2
        "#]],
    );
}

#[test]
fn refusals_have_an_event_each_15_seconds() {
    let before = "
        reservations never 60s
        node n1 vcore=4
        node n2 vcore=4
        app a1 in root.default
        refuse k1 *
    ";
    // Tried again after 1, 2, 4, 8 and 16 s; an event after 0, 15 and 31.
    check(
        before,
        "
        ask a1 k1 vcore=1
        wait 1000ms
        wait 2000ms
        wait 4000ms
        wait 8000ms
        wait 16000ms
        ",
        &expect![[r#"
            APP a1 SET APP_ACCEPTED
            APP a1 ADD APP_REQUEST of k1 vcore=1
            REQUEST k1 NONE DETAILS_NONE of a1 vcore=1: request `k1` was refused by predicates: the script refuses (2x);
            REQUEST k1 NONE DETAILS_NONE of a1 vcore=1: request `k1` was refused by predicates: the script refuses (2x);
            REQUEST k1 NONE DETAILS_NONE of a1 vcore=1: request `k1` was refused by predicates: the script refuses (2x);
        "#]],
    );
}

#[test]
fn a_reload_has_events_for_its_changes_only() {
    let queue = |path: &str, words: &str| format!("queue {path} {words}\n");
    let configuration = |queues: &[String]| {
        let steps = Script::parse(&queues.concat()).0.into_iter();
        let queues: Vec<_> = steps
            .map(|step| match step {
                crate::script::Step::Queue(queue) => queue,
                step => panic!("`{step}` is no queue"),
            })
            .collect();
        wire::configuration(None, &queues)
    };
    let notified = in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        let before = configuration(&[
            queue("root.a", "max vcore=2 guaranteed vcore=1"),
            queue("root.b", "max vcore=2"),
            queue("root.c", ""),
        ]);
        register(&scheduler, "rm", &before, Arc::new(RecordingCallback::default())).await;
        send_lines(&scheduler, "rm", "node n1 vcore=1").await;
        let past = scheduler.events().range(0, 0).highest + 1;
        let config = configuration(&[
            queue("root.a", "max vcore=3 guaranteed vcore=2"),
            queue("root.b.d", ""),
        ]);
        let update = |config: &str| si::UpdateConfigurationRequest {
            rm_id: "rm".to_owned(),
            config: config.to_owned(),
            extra_config: [("event.ringBufferCapacity".to_owned(), "99".to_owned())].into(),
            ..Default::default()
        };
        scheduler.update_configuration(update(&config)).await.unwrap();
        scheduler.update_configuration(update(&config)).await.unwrap();
        scheduler.settle().await;
        let mut notified: Vec<_> =
            scheduler.events().range(past, 99).records.iter().map(named).collect();
        // Several queues in one step are not in the order of the configuration.
        notified.sort();
        notified
    });
    assert_eq!(
        notified,
        [
            "QUEUE root.a SET QUEUE_GUARANTEED vcore=2",
            "QUEUE root.a SET QUEUE_MAX vcore=3",
            "QUEUE root.b SET QUEUE_MAX",
            "QUEUE root.b SET QUEUE_TYPE: leaf queue: false",
            "QUEUE root.b.d ADD DETAILS_NONE",
            "QUEUE root.c REMOVE DETAILS_NONE",
        ]
    );
}

#[test]
fn user_and_group_limits_and_usage_have_events() {
    check(
        "
        queue root.a
        node n1 vcore=9
        ",
        "
        forget
        queue root.a limit users=ann vcore=2 limit groups=dev vcore=8
        reload
        app a1 in root.a user ann groups dev
        ask a1 k vcore=1
        release a1 key=k
        forget
        queue root.a
        reload
        ",
        &expect![[r#"
            USERGROUP ann SET UG_USER_LIMIT of root.a
            USERGROUP dev SET UG_GROUP_LIMIT of root.a
            APP a1 ADD APP_NEW
            QUEUE root.a ADD QUEUE_APP of a1
            USERGROUP dev SET UG_APP_LINK of a1
            APP a1 SET APP_ACCEPTED
            APP a1 ADD APP_REQUEST of k vcore=1
            APP a1 SET APP_RUNNING
            NODE n1 ADD NODE_ALLOC of k vcore=1
            USERGROUP ann ADD UG_USER_RESOURCE of root.a vcore=1
            USERGROUP dev ADD UG_GROUP_RESOURCE of root.a vcore=1
            APP a1 ADD APP_ALLOC of k vcore=1
            USERGROUP ann REMOVE UG_USER_RESOURCE of root.a vcore=1
            USERGROUP dev REMOVE UG_APP_LINK of a1
            USERGROUP dev REMOVE UG_GROUP_RESOURCE of root.a vcore=1
            APP a1 SET APP_COMPLETING
            APP a1 REMOVE ALLOC_CANCEL of k vcore=1
            NODE n1 REMOVE NODE_ALLOC of k vcore=1
            APP a1 REMOVE REQUEST_CANCEL of k vcore=1
            USERGROUP ann REMOVE UG_USER_LIMIT of root.a
            USERGROUP dev REMOVE UG_GROUP_LIMIT of root.a
        "#]],
    );
}

#[test]
fn a_request_over_its_user_limit_has_one_event() {
    check(
        "
        queue root.a limit users=ann vcore=2
        node n1 vcore=9
        app a1 in root.a user ann
        ask a1 k x2 vcore=1
        ",
        "
        ask a1 l vcore=1
        node n2 vcore=9
        release a1 uuid=k#1
        ",
        &expect![[r#"
            APP a1 ADD APP_REQUEST of l vcore=1
            REQUEST l NONE DETAILS_NONE of a1 vcore=1: Not enough user quota: request `l` does not fit what user and group have left (requested map[vcore:1], available map[vcore:0])
            NODE n2 SET NODE_SCHEDULABLE: schedulable: true
            NODE n2 ADD DETAILS_NONE vcore=9: node added to its partition
            QUEUE root SET QUEUE_MAX vcore=18
            USERGROUP ann REMOVE UG_USER_RESOURCE of root.a vcore=1
            APP a1 REMOVE ALLOC_CANCEL of k#1 vcore=1
            NODE n1 REMOVE NODE_ALLOC of k#1 vcore=1
            REQUEST l NONE DETAILS_NONE of a1 vcore=1: request `l` fits what user and group have left
            NODE n2 ADD NODE_ALLOC of l vcore=1
            USERGROUP ann ADD UG_USER_RESOURCE of root.a vcore=1
            APP a1 ADD APP_ALLOC of l vcore=1
        "#]],
    );
}

#[test]
fn an_application_over_its_user_maximum_has_an_event() {
    check(
        "
        queue root.a limit users=ann apps=1
        node n1 vcore=9
        app a1 in root.a user ann
        app a2 in root.a user ann
        ask a1 k vcore=1
        ",
        "
        ask a2 k vcore=1
        wait 1000ms
        release a1 key=k
        ",
        &expect![[r#"
            APP a2 SET APP_ACCEPTED
            APP a2 ADD APP_REQUEST of k vcore=1
            APP a2 NONE APP_CANNOTRUN_QUOTA
            USERGROUP ann REMOVE UG_USER_RESOURCE of root.a vcore=1
            APP a1 SET APP_COMPLETING
            APP a1 REMOVE ALLOC_CANCEL of k vcore=1
            NODE n1 REMOVE NODE_ALLOC of k vcore=1
            APP a1 REMOVE REQUEST_CANCEL of k vcore=1
            APP a2 NONE APP_RUNNABLE_QUOTA
            APP a2 SET APP_RUNNING
            NODE n1 ADD NODE_ALLOC of k vcore=1
            USERGROUP ann ADD UG_USER_RESOURCE of root.a vcore=1
            APP a2 ADD APP_ALLOC of k vcore=1
        "#]],
    );
}
