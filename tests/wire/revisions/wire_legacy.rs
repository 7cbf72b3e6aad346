//! The oldest revision over the wire: its single stream and its differences.

use expect_test::expect;
use tonic::Code;

use super::client::{
    Client, Revision, amount_of, application, ask, field, legacy, legacy_application,
    series_reaches, vcore,
};
use crate::harness::{Service, reason_of};

const UPDATE: &str = "Update";

#[tokio::test]
async fn priority_is_echoed_in_its_form() {
    let service = Service::start_with(&[("SESSION__PRIORITY_CLASSES__HIGH", "100")]);
    let rm = legacy(&service, "rm", 8_000).await;
    for (n, (key, priority, sent, scheduled)) in [
        ("number", "priority { priorityValue: -7 }", "priorityValue:-7", -7),
        ("known", r#"priority { priorityClassName: "high" }"#, r#"priorityClassName:"high""#, 100),
        ("unknown", r#"priority { priorityClassName: "low" }"#, r#"priorityClassName:"low""#, 0),
    ]
    .into_iter()
    .enumerate()
    {
        rm.send(UPDATE, &ask(key, 1, priority)).await;
        let new = rm.last(UPDATE, "newAllocations", n + 1).await;
        assert_eq!(field(&new, "allocationKey"), key);
        assert_eq!(field(&new, "priority"), format!("{{{sent}}}"));
        let shown = application(&service, "rm", "root.default", "app").await;
        let allocations = shown["allocations"].as_array().unwrap();
        let allocation = allocations.iter().find(|entry| entry["allocationKey"] == key).unwrap();
        assert_eq!(allocation["priority"], scheduled.to_string());
    }
    rm.send(UPDATE, &ask("plain", 1, "")).await;
    let new = rm.last(UPDATE, "newAllocations", 4).await;
    assert!(!new.has_field_by_name("priority"), "{new:?}");
    let series =
        r#"monoceros_si_ignored_total{dialect="legacy",reason="G_PRIORITY_CLASS",rm="rm"}"#;
    series_reaches(&service, series, 1).await;
}

#[tokio::test]
async fn rejected_repeat_keeps_the_pending_priority() {
    let service = Service::start();
    let rm = legacy(&service, "rm", 500).await;
    rm.send(UPDATE, &ask("k", 1, "priority { priorityValue: 5 }")).await;
    // Both are rejected: one has another priority, one has none.
    let bad = amount_of("resourceAsk", "vcore", -1);
    for (n, priority) in ["priority { priorityValue: 6 }", ""].into_iter().enumerate() {
        let again = format!(
            r#"asks {{ allocationKey: "k" applicationID: "app" maxAllocations: 1 {bad} {priority} }}"#
        );
        rm.send(UPDATE, &again).await;
        rm.last(UPDATE, "rejectedAllocations", n + 1).await;
    }
    let capacity = vcore("schedulableResource", 1_000);
    rm.send(UPDATE, &format!(r#"updatedNodes {{ nodeID: "n1" action: UPDATE {capacity} }}"#)).await;
    let new = rm.last(UPDATE, "newAllocations", 1).await;
    assert_eq!(field(&new, "priority"), "{priorityValue:5}");
}

#[tokio::test]
async fn moved_fields_keep_their_meaning() {
    let service = Service::start();
    let rm = legacy(&service, "rm", 8_000).await;
    let constraint = |key: &str, value: &str| {
        format!(
            r#"placementConstraint {{ simpleConstraint {{ nodeAffinityConstraint {{
                targetExpressions {{ targetKey: "{key}" targetValues: "{value}" }} }} }} }}"#
        )
    };
    for (n, (key, more, code)) in [
        ("keyless", constraint("", "z"), "[R_CONSTRAINT]"),
        ("ungrouped", "placeholder: true".to_owned(), "[R_PLACEHOLDER_NO_TG]"),
    ]
    .into_iter()
    .enumerate()
    {
        rm.send(UPDATE, &ask(key, 1, &more)).await;
        let rejected = rm.last(UPDATE, "rejectedAllocations", n + 1).await;
        assert_eq!(field(&rejected, "allocationKey"), key);
        assert!(field(&rejected, "reason").ends_with(code), "{rejected:?}");
    }
    let good = [
        ask("grouped", 1, r#"taskGroupName: "tg""#),
        ask("hosted", 1, &constraint("si/hostname", "n1")),
        ask("unset", 1, "placementConstraint {}"),
        ask("empty", 1, "placementConstraint { simpleConstraint { nodeAffinityConstraint {} } }"),
    ];
    rm.send(UPDATE, &good.concat()).await;
    rm.last(UPDATE, "newAllocations", 4).await;
    for new in rm.items(UPDATE, "newAllocations") {
        assert_eq!(field(&new, "nodeID"), "n1");
        let group = if field(&new, "allocationKey") == "grouped" { "tg" } else { "" };
        assert_eq!(field(&new, "taskGroupName"), group);
        let tags = new.get_field_by_name("allocationTags").unwrap().into_owned();
        assert!(tags.as_map().unwrap().is_empty(), "only what the client sent: {new:?}");
    }
    let shown = application(&service, "rm", "root.default", "app").await;
    for allocation in shown["allocations"].as_array().unwrap() {
        assert_ne!(allocation["originator"], true, "{allocation}");
    }
    // An ask for an unknown host waits.
    rm.send(UPDATE, &ask("elsewhere", 1, &constraint("si.io/hostname", "n2"))).await;
    let capacity = vcore("schedulableResource", 4_000);
    let node = format!(r#"newSchedulableNodes {{ nodeID: "n2" {capacity} }}"#);
    rm.send(UPDATE, &node).await;
    let new = rm.last(UPDATE, "newAllocations", 5).await;
    assert_eq!(field(&new, "nodeID"), "n2");
}

#[tokio::test]
async fn all_termination_types_have_their_old_numbers() {
    let service = Service::start();
    let rm = legacy(&service, "rm", 1_000).await;
    // Only one fits at a time: the next placement shows that the last one was released.
    let types =
        ["STOPPED_BY_RM", "TIMEOUT", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED", "77"];
    for (n, termination) in types.into_iter().enumerate() {
        rm.send(UPDATE, &ask(&format!("k{n}"), 1, "")).await;
        rm.last(UPDATE, "newAllocations", n + 1).await;
        let release = format!(
            r#"releases {{ allocationsToRelease {{
                applicationID: "app" UUID: "k{n}" terminationType: {termination} }} }}"#
        );
        rm.send(UPDATE, &release).await;
    }
    rm.send(UPDATE, &ask("k5", 1, "executionTimeoutMilliSeconds: 1")).await;
    rm.last(UPDATE, "newAllocations", 6).await;
    // Releases by the RM are answered, including the unknown type; the others are confirmations.
    rm.last(UPDATE, "releasedAllocations", 3).await;
    let released: Vec<_> = rm.items(UPDATE, "releasedAllocations");
    let told: Vec<_> = released
        .iter()
        .map(|release| (field(release, "UUID"), field(release, "terminationType")))
        .collect();
    let told: Vec<_> = told.iter().map(|(uuid, number)| (&**uuid, &**number)).collect();
    assert_eq!(told, [("k0", "0"), ("k4", "0"), ("k5", "1")]);
    let series =
        r#"monoceros_si_ignored_total{dialect="legacy",reason="G_TERMINATION_TYPE",rm="rm"}"#;
    series_reaches(&service, series, 1).await;
}

#[tokio::test]
async fn strict_enums_ignore_unknown_termination_types() {
    let service = Service::start_with(&[("SESSION__STRICT_ENUMS", "true")]);
    let rm = legacy(&service, "rm", 2_000).await;
    rm.send(UPDATE, &ask("k", 2, "")).await;
    rm.last(UPDATE, "newAllocations", 2).await;
    let release = |uuid: &str, termination: &str| {
        format!(
            r#"allocationsToRelease {{
                applicationID: "app" UUID: "{uuid}" terminationType: {termination} }}"#
        )
    };
    let both = [release("k#1", "77"), release("k#2", "STOPPED_BY_RM")].concat();
    rm.send(UPDATE, &format!("releases {{ {both} }}")).await;
    let released = rm.last(UPDATE, "releasedAllocations", 1).await;
    assert_eq!(field(&released, "UUID"), "k#2");
}

#[tokio::test]
async fn node_actions_have_their_old_numbers() {
    let service = Service::start();
    let rm = legacy(&service, "rm", 1_000).await;
    let act = |action: &str, more: &str| {
        format!(r#"updatedNodes {{ nodeID: "n1" action: {action} {more} }}"#)
    };
    rm.send(UPDATE, &act("DRAIN_NODE", "")).await;
    rm.send(UPDATE, &ask("k", 2, "")).await;
    // The other node gets the allocation that the drained one must not.
    let capacity = vcore("schedulableResource", 1_000);
    rm.send(UPDATE, &format!(r#"newSchedulableNodes {{ nodeID: "n2" {capacity} }}"#)).await;
    let new = rm.last(UPDATE, "newAllocations", 1).await;
    assert_eq!(field(&new, "nodeID"), "n2");
    rm.send(UPDATE, &act("9", "")).await;
    rm.send(UPDATE, &act("DRAIN_TO_SCHEDULABLE", "")).await;
    let new = rm.last(UPDATE, "newAllocations", 2).await;
    assert_eq!(field(&new, "nodeID"), "n1");
    rm.send(UPDATE, &ask("more", 1, "")).await;
    rm.send(UPDATE, &act("UPDATE", &vcore("schedulableResource", 2_000))).await;
    let new = rm.last(UPDATE, "newAllocations", 3).await;
    assert_eq!((field(&new, "allocationKey"), field(&new, "nodeID")), ("more".into(), "n1".into()));
    rm.send(UPDATE, &act("DECOMISSION", "")).await;
    rm.last(UPDATE, "releasedAllocations", 2).await;
    let series = r#"monoceros_si_ignored_total{dialect="legacy",reason="G_NODE_ACTION",rm="rm"}"#;
    series_reaches(&service, series, 1).await;
}

#[tokio::test]
async fn node_may_reference_an_application_of_its_message() {
    let service = Service::start();
    let rm = Client::register(&service, &Revision::new("l"), "rm", &[UPDATE]).await;
    let running = |key: &str, uuid: &str, application: &str| {
        format!(
            r#"existingAllocations {{ allocationKey: "{key}" {uuid} nodeID: "n1"
                applicationID: "{application}" {} priority {{ priorityValue: 3 }} }}"#,
            vcore("resourcePerAlloc", 1_000)
        )
    };
    let node = |id: &str, existing: &str| {
        let capacity = vcore("schedulableResource", 3_000);
        format!(r#"newSchedulableNodes {{ nodeID: "{id}" {capacity} {existing} }}"#)
    };
    let request = format!(
        "{} {} newApplications {{ {} }}",
        // For an allocation without a UUID the key takes its part.
        node("n1", &[running("a", r#"UUID: "u""#, "app"), running("b", "", "app")].concat()),
        node("bad", &running("c", "", "nobody")),
        legacy_application("app"),
    );
    rm.send(UPDATE, &request).await;
    rm.last(UPDATE, "acceptedApplications", 1).await;
    let accepted = rm.last(UPDATE, "acceptedNodes", 1).await;
    assert_eq!(field(&accepted, "nodeID"), "n1");
    let rejected = rm.last(UPDATE, "rejectedNodes", 1).await;
    assert_eq!(field(&rejected, "nodeID"), "bad");
    assert!(field(&rejected, "reason").ends_with("[R_APP_UNKNOWN]"), "{rejected:?}");
    // The reported allocations are not announced, and use capacity: only one more fits.
    rm.send(UPDATE, &ask("k", 2, "")).await;
    rm.last(UPDATE, "newAllocations", 1).await;
    let release = r#"releases { allocationsToRelease { applicationID: "app" UUID: "b" } }"#;
    rm.send(UPDATE, release).await;
    rm.last(UPDATE, "releasedAllocations", 1).await;
    let new = rm.last(UPDATE, "newAllocations", 2).await;
    assert_eq!(field(&new, "allocationKey"), "k");
}

#[tokio::test]
async fn memory_may_be_counted_in_megabytes() {
    let service = Service::start_with(&[("SESSION__LEGACY_MEMORY_UNIT", "megabyte")]);
    let rm = Client::register(&service, &Revision::new("l"), "rm", &[UPDATE]).await;
    let ask = |key: &str, amount: i64| {
        let size = amount_of("resourceAsk", "memory", amount);
        format!(
            r#"asks {{ allocationKey: "{key}" applicationID: "app" maxAllocations: 1 {size} }}"#
        )
    };
    let request = format!(
        r#"newApplications {{ {} }} newSchedulableNodes {{ nodeID: "n1" {} }}
        newSchedulableNodes {{ nodeID: "huge" {} }} {} {}"#,
        legacy_application("app"),
        amount_of("schedulableResource", "memory", 1_024),
        amount_of("schedulableResource", "memory", i64::MAX),
        ask("huge", i64::MAX / 1_000_000 + 1),
        ask("k", 512),
    );
    rm.send(UPDATE, &request).await;
    let new = rm.last(UPDATE, "newAllocations", 1).await;
    let size = new.get_field_by_name("resourcePerAlloc").unwrap().to_string();
    assert!(size.contains("512}"), "{size}");
    let shown = application(&service, "rm", "root.default", "app").await;
    assert_eq!(shown["allocations"][0]["resource"]["memory"], 512_000_000);
    for list in ["rejectedAllocations", "rejectedNodes"] {
        let rejected = rm.last(UPDATE, list, 1).await;
        assert!(field(&rejected, "reason").ends_with("[R_OVERFLOW]"), "{rejected:?}");
    }
}

#[tokio::test]
async fn allocation_carries_queue_and_tags() {
    let service = Service::start();
    let rm = legacy(&service, "rm", 4_000).await;
    rm.send(UPDATE, &ask("k", 1, r#"tags { key: "kubernetes.io/meta/podName" value: "pod" }"#))
        .await;
    expect![[r#"allocationKey:"k",allocationTags:[{key:"kubernetes.io/meta/podName",value:"pod"}],UUID:"k",resourcePerAlloc{resources:[{key:"vcore",value{value:1000}}]},queueName:"root.default",nodeID:"n1",applicationID:"app",partitionName:"default""#]]
        .assert_eq(&rm.last_text(UPDATE, "newAllocations", 1).await);
}

#[tokio::test]
async fn utilization_is_answered_with_recommendations() {
    let service = Service::start_with(&[("SESSION__LEGACY_NODE_RECOMMENDATIONS", "true")]);
    let rm = legacy(&service, "rm", 1_000).await;
    let report = |id: &str, used: i64| {
        format!(r#"utilizationReports {{ ID: "{id}" {} }}"#, vcore("actualUsedResource", used))
    };
    rm.send(UPDATE, &[report("n1", 10), report("nobody", 10), report("n1", -1)].concat()).await;
    let series = r#"monoceros_si_ignored_total{dialect="legacy",reason="G_UTILIZATION",rm="rm"}"#;
    series_reaches(&service, series, 2).await;
    assert!(rm.items(UPDATE, "nodeRecommendations").is_empty());
    // An allocation fills the node, and the node shrinks below it.
    rm.send(UPDATE, &ask("k", 1, "")).await;
    rm.last(UPDATE, "newAllocations", 1).await;
    let smaller = vcore("schedulableResource", 500);
    rm.send(UPDATE, &format!(r#"updatedNodes {{ nodeID: "n1" action: UPDATE {smaller} }}"#)).await;
    rm.send(UPDATE, &report("n1", 10)).await;
    let told = rm.last(UPDATE, "nodeRecommendations", 1).await;
    let message = field(&told, "message");
    assert!(message.starts_with("node=n1 kind=OVERCOMMITTED; "), "{message}");
}

#[tokio::test]
async fn items_of_unknown_objects_are_not_held() {
    let service = Service::start();
    let rm = Client::register(&service, &Revision::new("l"), "rm", &[UPDATE]).await;
    // The application arrives in the next message: too late, since there is only one stream.
    rm.send(UPDATE, &ask("k", 1, "")).await;
    let application = legacy_application("app");
    rm.send(UPDATE, &format!("newApplications {{ {application} }}")).await;
    let rejected = rm.last(UPDATE, "rejectedAllocations", 1).await;
    assert!(field(&rejected, "reason").ends_with("[R_APP_UNKNOWN]"), "{rejected:?}");
    rm.last(UPDATE, "acceptedApplications", 1).await;
}

#[tokio::test]
async fn resync_precedes_the_status() {
    let service = Service::start();
    let mut rm = Client::connect(&service, &Revision::new("l"), "rm").await;
    rm.open(UPDATE).await;
    rm.send(UPDATE, "").await;
    let status = rm.end(UPDATE).await.unwrap();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&status), "RM_NOT_REGISTERED");
    let messages = rm.messages(UPDATE);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].to_text_format(), "action:RESYNC");
}

#[tokio::test]
async fn a_session_does_not_change_its_dialect() {
    let service = Service::start();
    let rm = legacy(&service, "rm", 1_000).await;
    let mut split = Client::connect(&service, &Revision::new("m"), "rm").await;
    split.open("UpdateNode").await;
    split.send("UpdateNode", "").await;
    let status = split.end("UpdateNode").await.unwrap();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&status), "DIALECT_MIXED");
    rm.send(UPDATE, &ask("k", 1, "")).await;
    rm.last(UPDATE, "newAllocations", 1).await;
    // After a new registration it may change.
    split.register_again().await;
    split.open("UpdateNode").await;
    split.send("UpdateNode", r#"nodes { nodeID: "n1" action: CREATE }"#).await;
    split.last("UpdateNode", "accepted", 1).await;
}
