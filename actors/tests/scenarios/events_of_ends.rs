//! What is told of ends and limits that come seldom: a gang that fails, a partition that goes, a
//! member that is larger than its place, limits for everybody, and a configuration that is read again.

use std::sync::Arc;

use expect_test::expect;
use monoceros_actors::{EventSettings, Scheduler, SchedulerHandle};
use monoceros_proto::si::v1 as si;

use crate::ear::Ear;
use crate::events::{check, line, named};
use crate::world::{in_virtual_time, register, say};

#[test]
fn a_hard_gang_that_waited_for_too_long_fails_when_its_last_place_is_given_back() {
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
fn a_member_that_is_larger_than_its_place_is_told_of_the_place() {
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
fn limits_for_everybody_are_told_of_the_user_who_comes_and_of_all_groups() {
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
fn applications_of_a_partition_that_goes_are_told_why_they_fail() {
    let two = "{partitions: [{name: default, queues: [{name: root}]}, {name: gpu, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]}";
    let one = "{partitions: [{name: default, queues: [{name: root}]}]}";
    let told = in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        register(&scheduler, "rm", two, Arc::new(Ear::default())).await;
        say(&scheduler, "rm", "app g1 in root.a partition gpu").await;
        let past = scheduler.events().range(0, 0).highest + 1;
        scheduler.update_configuration(update(one)).await.unwrap();
        scheduler.settle().await;
        let records = scheduler.events().range(past, 99).records;
        records.iter().fold(String::new(), |told, record| told + &line(record) + "\n")
    });
    expect![[r#"
        APP g1 SET APP_FAILING: PartitionRemoved
    "#]]
    .assert_eq(&told);
}

/// Limits are told again, quotas are not; the same text again is no configuration at all.
#[test]
fn limits_that_stay_are_told_again_with_each_new_configuration() {
    let with = |more: &str| {
        format!(
            "{{partitions: [{{queues: [{{name: root, queues: [{{name: a, resources: {{max: {{vcore: 4m}}, guaranteed: {{vcore: 1m}}}}, limits: [{{limit: l, users: [ann], groups: [dev], maxresources: {{vcore: 2m}}}}]}}{more}]}}]}}]}}"
        )
    };
    let told = in_virtual_time(async {
        let scheduler = Scheduler::builder().start_local().unwrap();
        register(&scheduler, "rm", &with(""), Arc::new(Ear::default())).await;
        let mut told = Vec::new();
        for config in [with(", {name: b}"), with(", {name: b}")] {
            let past = scheduler.events().range(0, 0).highest + 1;
            scheduler.update_configuration(update(&config)).await.unwrap();
            scheduler.settle().await;
            let mut lines: Vec<_> =
                scheduler.events().range(past, 99).records.iter().map(named).collect();
            // Of several queues in one step the order is not that of the configuration.
            lines.sort();
            told.push(lines);
        }
        told
    });
    let again = [
        "QUEUE root.b ADD DETAILS_NONE",
        "USERGROUP ann SET UG_USER_LIMIT of root.a",
        "USERGROUP dev SET UG_GROUP_LIMIT of root.a",
    ];
    assert_eq!(told, [again.map(str::to_owned).to_vec(), vec![]]);
}

fn counted(scheduler: &SchedulerHandle, name: &str) -> String {
    let families = scheduler.metrics().gather();
    let family = families.iter().find(|family| family.name() == name).expect(name);
    family.get_metric()[0].get_gauge().get_value().to_string()
}

/// Neither a resource manager that does not listen nor the want of tracking lets anything pile up.
#[test]
fn what_nobody_hears_is_collected_and_what_is_not_made_is_not_counted() {
    for (tracking, each) in [(true, "7"), (false, "0")] {
        let counts = in_virtual_time(async {
            let settings = EventSettings { tracking, ..EventSettings::default() };
            let scheduler = Scheduler::builder().events(settings).start_local().unwrap();
            // It does not implement the call for events.
            register(&scheduler, "rm", crate::world::ONE_LEAF, Arc::new(Ear::default())).await;
            say(&scheduler, "rm", "node n1 vcore=1\napp a1 in root.default").await;
            tokio::time::sleep(std::time::Duration::from_secs(3)).await;
            ["created", "channeled", "processed", "stored", "collected"]
                .map(|what| counted(&scheduler, &format!("yunikorn_event_total_{what}")))
        });
        assert_eq!(counts, [each; 5], "tracking {tracking}");
    }
}
