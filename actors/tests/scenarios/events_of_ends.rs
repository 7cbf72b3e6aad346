//! Events of rare ends and limits: a failing gang, a removed partition, a member larger than its
//! placeholder, limits for everybody, and a reload.

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::{EventSettings, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;

use crate::events::{check, line, named};
use crate::recording_callback::RecordingCallback;
use crate::world::{in_virtual_time, register, send_lines};

#[test]
fn a_hard_gang_fails_with_its_last_place() {
    check(
        "
        node n1 vcore=2
        app a1 in root.default gang vcore=3 style Hard timeout 1000
        ask a1 p1 vcore=1 placeholder=tg
        ask a1 p2 vcore=1 placeholder=tg
        ask a1 p3 vcore=1 placeholder=tg
        ",
        "
        wait 1s
        release a1 uuid=p1 as TIMEOUT
        release a1 uuid=p2 as TIMEOUT
        ",
        &expect![[r#"
            APP a1 SET APP_FAILING: ResourceReservationTimeout
            APP a1 REMOVE REQUEST_TIMEOUT of p3 vcore=1
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=1
            APP a1 REMOVE ALLOC_TIMEOUT of p1 vcore=1
            NODE n1 REMOVE NODE_ALLOC of p1 vcore=1
            USERGROUP ada REMOVE UG_USER_RESOURCE of root.default vcore=1
            APP a1 SET APP_FAILED
            QUEUE root.default REMOVE QUEUE_APP of a1
            APP a1 REMOVE DETAILS_NONE
            APP a1 REMOVE ALLOC_TIMEOUT of p2 vcore=1
            NODE n1 REMOVE NODE_ALLOC of p2 vcore=1
        "#]],
    );
}

#[test]
fn a_member_larger_than_its_place_has_an_event() {
    check(
        "
        node n1 vcore=4
        app a1 in root.default gang vcore=1
        ask a1 p1 vcore=1 placeholder=tg
        ",
        "ask a1 m1 vcore=2 group=tg",
        &expect![[r#"
            APP a1 ADD APP_REQUEST of m1 vcore=2
            REQUEST p1 NONE DETAILS_NONE of a1 vcore=2: placeholder `p1` of task group `tg` of application `a1` has map[vcore:1] and is too small for request `m1` of map[vcore:2]
        "#]],
    );
}

#[test]
fn wildcard_limits_have_events_for_users_and_groups() {
    check(
        "
        queue root.a limit users=bob groups=ops vcore=8 limit users=* groups=* vcore=4
        node n1 vcore=9
        ",
        "
        app a1 in root.a user ann groups dev
        ask a1 k vcore=1
        forget
        queue root.a limit users=bob groups=ops vcore=8 limit users=* groups=* vcore=5
        reload
        ",
        &expect![[r#"
            APP a1 ADD APP_NEW
            QUEUE root.a ADD QUEUE_APP of a1
            USERGROUP * SET UG_APP_LINK of a1
            APP a1 SET APP_ACCEPTED
            APP a1 ADD APP_REQUEST of k vcore=1
            APP a1 SET APP_RUNNING
            NODE n1 ADD NODE_ALLOC of k vcore=1
            USERGROUP ann ADD UG_USER_RESOURCE of root.a vcore=1
            USERGROUP * ADD UG_GROUP_RESOURCE of root.a vcore=1
            APP a1 ADD APP_ALLOC of k vcore=1
            USERGROUP ann SET UG_USER_LIMIT of root.a
            USERGROUP bob SET UG_USER_LIMIT of root.a
            USERGROUP * SET UG_GROUP_LIMIT of root.a
            USERGROUP ops SET UG_GROUP_LIMIT of root.a
        "#]],
    );
}

/// A configuration of an RM.
fn update(config: &str) -> si::UpdateConfigurationRequest {
    si::UpdateConfigurationRequest {
        rm_id: "rm".to_owned(),
        config: config.to_owned(),
        ..Default::default()
    }
}

#[test]
fn applications_of_a_removed_partition_fail_with_a_reason() {
    let two = "{partitions: [{name: default, queues: [{name: root}]}, {name: gpu, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]}";
    let one = "{partitions: [{name: default, queues: [{name: root}]}]}";
    let notified = in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        register(&scheduler, "rm", two, Arc::new(RecordingCallback::default())).await;
        send_lines(&scheduler, "rm", "app g1 in root.a partition gpu").await;
        let past = scheduler.events().range(0, 0).highest + 1;
        scheduler.update_configuration(update(one)).await.unwrap();
        scheduler.settle().await;
        let records = scheduler.events().range(past, 99).records;
        records.iter().fold(String::new(), |text, record| text + &line(record) + "\n")
    });
    expect![[r#"
        APP g1 SET APP_FAILING: PartitionRemoved
    "#]]
    .assert_eq(&notified);
}

/// Limits have events again, quotas do not; the same text again is no reload at all.
#[test]
fn unchanged_limits_have_events_at_each_reload() {
    let with = |more: &str| {
        format!(
            "{{partitions: [{{queues: [{{name: root, queues: [{{name: a, resources: {{max: {{vcore: 4m}}, guaranteed: {{vcore: 1m}}}}, limits: [{{limit: l, users: [ann], groups: [dev], maxresources: {{vcore: 2m}}}}]}}{more}]}}]}}]}}"
        )
    };
    let notified = in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        register(&scheduler, "rm", &with(""), Arc::new(RecordingCallback::default())).await;
        let mut notified = Vec::new();
        for config in [with(", {name: b}"), with(", {name: b}")] {
            let past = scheduler.events().range(0, 0).highest + 1;
            scheduler.update_configuration(update(&config)).await.unwrap();
            scheduler.settle().await;
            let mut lines: Vec<_> =
                scheduler.events().range(past, 99).records.iter().map(named).collect();
            // Several queues in one step are not in the order of the configuration.
            lines.sort();
            notified.push(lines);
        }
        notified
    });
    let again = [
        "QUEUE root.b ADD DETAILS_NONE",
        "USERGROUP ann SET UG_USER_LIMIT of root.a",
        "USERGROUP dev SET UG_GROUP_LIMIT of root.a",
    ];
    assert_eq!(notified, [again.map(str::to_owned).to_vec(), vec![]]);
}

fn counted(scheduler: &SchedulerHandle, name: &str) -> String {
    let families = scheduler.metrics().gather();
    let family = families.iter().find(|family| family.name() == name).expect(name);
    family.get_metric()[0].get_gauge().get_value().to_string()
}

/// Events do not pile up, neither for a resource manager that does not receive them nor with
/// tracking switched off.
#[test]
fn events_do_not_pile_up_without_a_receiver() {
    for (tracking, each) in [(true, "7"), (false, "0")] {
        let counts = in_virtual_time(async {
            let settings = EventSettings { tracking, ..EventSettings::default() };
            let scheduler = Scheduler::builder().events(settings).start_local().unwrap();
            // This RM does not implement the call for events.
            register(
                &scheduler,
                "rm",
                crate::world::ONE_LEAF,
                Arc::new(RecordingCallback::default()),
            )
            .await;
            send_lines(&scheduler, "rm", "node n1 vcore=1\napp a1 in root.default").await;
            tokio::time::sleep(std::time::Duration::from_secs(3)).await;
            ["created", "channeled", "processed", "stored", "collected"]
                .map(|what| counted(&scheduler, &format!("yunikorn_event_total_{what}")))
        });
        assert_eq!(counts, [each; 5], "tracking {tracking}");
    }
}
