//! The revisions with three streams over the wire, and all four revisions at once.

use expect_test::expect;
use futures::future::join_all;
use prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _};
use tonic::Code;

use super::client::{
    Client, Revision, SPLIT, application, ask, field, legacy, series_reaches, split, vcore,
};
use crate::harness::{Service, reason_of};

const ALLOCATION: &str = "UpdateAllocation";
const NODE: &str = "UpdateNode";

/// A request in the present form: an allocation without a node.
fn request(key: &str, more: &str) -> String {
    let size = vcore("resourcePerAlloc", 1_000);
    format!(r#"allocations {{ allocationKey: "{key}" applicationID: "app" {size} {more} }}"#)
}

fn release(more: &str) -> String {
    format!(r#"releases {{ allocationsToRelease {{ applicationID: "app" {more} }} }}"#)
}

#[tokio::test]
async fn all_revisions_are_served_together() {
    let service = Service::start();
    let l = async {
        let rm = legacy(&service, "rm-l", 1_000).await;
        rm.send("Update", &ask("k", 1, "")).await;
        rm.last_text("Update", "newAllocations", 1).await
    };
    let newer = join_all(["m", "n", "t"].map(|revision| {
        let service = &service;
        async move {
            let rm = split(service, revision, &format!("rm-{revision}"), 1_000).await;
            let asked = if revision == "t" { request("k", "") } else { ask("k", 1, "") };
            rm.send(ALLOCATION, &asked).await;
            rm.last_text(ALLOCATION, "new", 1).await
        }
    }));
    let (l, newer) = tokio::join!(l, newer);
    let all = std::iter::once(l).chain(newer).collect::<Vec<_>>().join("\n");
    expect![[r#"
        allocationKey:"k",UUID:"k",resourcePerAlloc{resources:[{key:"vcore",value{value:1000}}]},queueName:"root.default",nodeID:"n1",applicationID:"app",partitionName:"default"
        allocationKey:"k",UUID:"k",resourcePerAlloc{resources:[{key:"vcore",value{value:1000}}]},nodeID:"n1",applicationID:"app",partitionName:"default"
        allocationKey:"k",UUID:"k",resourcePerAlloc{resources:[{key:"vcore",value{value:1000}}]},nodeID:"n1",applicationID:"app",partitionName:"default"
        allocationKey:"k",resourcePerAlloc{resources:[{key:"vcore",value{value:1000}}]},nodeID:"n1",applicationID:"app""#]].assert_eq(&all);
}

#[tokio::test]
async fn allocation_repeats_task_group_and_preemption_policy() {
    let service = Service::start();
    let rows = [
        ("plain", "", "", "true", "false"),
        ("grouped", r#"taskGroupName: "tg""#, "tg", "true", "false"),
        ("kept", "preemptionPolicy {}", "", "false", "false"),
        (
            "pushes",
            r#"taskGroupName: "tg" preemptionPolicy {
                allowPreemptSelf: true allowPreemptOther: true }"#,
            "tg",
            "true",
            "true",
        ),
        ("selfless", "preemptionPolicy { allowPreemptOther: true }", "", "false", "true"),
    ];
    for revision in ["m", "t"] {
        let rm = split(&service, revision, &format!("rm-{revision}"), 9_000).await;
        for (n, (key, more, group, of_itself, of_others)) in rows.into_iter().enumerate() {
            let asked = if revision == "t" { request(key, more) } else { ask(key, 1, more) };
            rm.send(ALLOCATION, &asked).await;
            let new = rm.last(ALLOCATION, "new", n + 1).await;
            assert_eq!(field(&new, "taskGroupName"), group, "{revision}: {key}");
            // The earlier revision has this field for asks only.
            if revision == "t" {
                let is_said = more.contains("preemptionPolicy");
                assert_eq!(new.has_field_by_name("preemptionPolicy"), is_said, "{key}");
                let policy = new.get_field_by_name("preemptionPolicy").unwrap().into_owned();
                let policy = policy.as_message().unwrap();
                let policy = ["allowPreemptSelf", "allowPreemptOther"].map(|it| field(policy, it));
                let expected = if is_said { [of_itself, of_others] } else { ["false", "false"] };
                assert_eq!(policy, expected, "{key}");
            }
        }
        if revision == "t" {
            // Reported with its node, and pending again after a failed bind.
            let more = r#"nodeID: "n1" taskGroupName: "tg" preemptionPolicy {}"#;
            rm.send(ALLOCATION, &request("found", more)).await;
            let new = rm.last(ALLOCATION, "new", rows.len() + 1).await;
            assert_eq!(field(&new, "taskGroupName"), "tg");
            rm.send(ALLOCATION, &release(r#"allocationKey: "grouped" terminationType: 5"#)).await;
            let new = rm.last(ALLOCATION, "new", rows.len() + 2).await;
            assert_eq!(field(&new, "taskGroupName"), "tg");
        }
    }
}

/// Other asks get the capacity of a failed start before the failed one is tried again.
#[tokio::test]
async fn failed_start_is_retried_later() {
    for revision in ["m", "n", "t"] {
        let service = Service::start();
        let rm = split(&service, revision, "rm", 1_000).await;
        let asked = |key| if revision == "t" { request(key, "") } else { ask(key, 1, "") };
        rm.send(ALLOCATION, &asked("k")).await;
        rm.last(ALLOCATION, "new", 1).await;
        rm.send(ALLOCATION, &asked("other")).await;
        rm.send(ALLOCATION, &release(r#"allocationKey: "k" terminationType: 5"#)).await;
        let new = rm.last(ALLOCATION, "new", 2).await;
        assert_eq!(field(&new, "allocationKey"), "other", "{revision}");
    }
}

#[tokio::test]
async fn each_form_is_rejected_in_its_own_list() {
    let service = Service::start();
    let rm = split(&service, "n", "rm", 8_000).await;
    let bad = r#"allocations { allocationKey: "empty" applicationID: "app" }"#;
    let items = [ask("k1", 1, ""), ask("none", 0, ""), request("k2", ""), bad.to_owned()];
    rm.send(ALLOCATION, &items.concat()).await;
    let rejected = rm.last(ALLOCATION, "rejected", 1).await;
    assert_eq!(field(&rejected, "allocationKey"), "none");
    assert!(field(&rejected, "reason").ends_with("[R_REPEAT]"), "{rejected:?}");
    let rejected = rm.last(ALLOCATION, "rejectedAllocations", 1).await;
    assert_eq!(field(&rejected, "allocationKey"), "empty");
    assert!(field(&rejected, "reason").ends_with("[R_NO_RESOURCE]"), "{rejected:?}");
    rm.last(ALLOCATION, "new", 2).await;
    for code in ["R_REPEAT", "R_NO_RESOURCE"] {
        let series =
            format!(r#"monoceros_si_rejected_total{{dialect="split",reason="{code}",rm="rm"}}"#);
        series_reaches(&service, &series, 1).await;
    }
}

#[tokio::test]
async fn allocations_of_one_key_differ_by_uuid() {
    let service = Service::start();
    let rm = split(&service, "m", "rm", 8_000).await;
    rm.send(ALLOCATION, &ask("k", 3, "Originator: true priority: 4")).await;
    rm.last(ALLOCATION, "new", 3).await;
    let mut uuids: Vec<String> = rm
        .items(ALLOCATION, "new")
        .iter()
        .map(|new| {
            assert_eq!(field(new, "allocationKey"), "k");
            assert_eq!(field(new, "priority"), "4");
            field(new, "UUID")
        })
        .collect();
    uuids.sort();
    uuids.dedup();
    assert_eq!(uuids.len(), 3);
    rm.send(
        ALLOCATION,
        &release(&format!(r#"UUID: "{}" terminationType: STOPPED_BY_RM"#, uuids[1])),
    )
    .await;
    let released = rm.last(ALLOCATION, "released", 1).await;
    assert_eq!(field(&released, "UUID"), uuids[1]);
    rm.send(ALLOCATION, &release(r#"allocationKey: "k" terminationType: STOPPED_BY_RM"#)).await;
    rm.last(ALLOCATION, "released", 3).await;
    let shown = application(&service, "rm", "root.a", "app").await;
    assert_eq!(shown["allocations"].as_array().map_or(0, Vec::len), 0, "{shown}");
}

#[tokio::test]
async fn unknown_termination_type_means_stopped() {
    for revision in ["m", "t"] {
        let service = Service::start();
        let rm = split(&service, revision, "rm", 1_000).await;
        let asked = |key: &str, more: &str| match revision {
            "m" => ask(key, 1, more),
            _ => request(key, ""),
        };
        let types =
            ["STOPPED_BY_RM", "TIMEOUT", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED", "77"];
        for (n, termination) in types.into_iter().enumerate() {
            rm.send(ALLOCATION, &asked(&format!("k{n}"), "")).await;
            rm.last(ALLOCATION, "new", n + 1).await;
            let release =
                release(&format!(r#"allocationKey: "k{n}" terminationType: {termination}"#));
            rm.send(ALLOCATION, &release).await;
        }
        rm.send(ALLOCATION, &asked("k5", "executionTimeoutMilliSeconds: 1")).await;
        rm.last(ALLOCATION, "new", 6).await;
        let told = rm.last(ALLOCATION, "released", if revision == "m" { 3 } else { 2 }).await;
        let expected = if revision == "m" { "2" } else { "1" };
        assert_eq!(field(&told, "terminationType"), expected, "{told:?}");
        for released in rm.items(ALLOCATION, "released") {
            assert_ne!(field(&released, "terminationType"), "0");
        }
        let series =
            r#"monoceros_si_ignored_total{dialect="split",reason="G_TERMINATION_TYPE",rm="rm"}"#;
        series_reaches(&service, series, 1).await;
    }
}

#[tokio::test]
async fn unknown_node_action_is_rejected() {
    let service = Service::start();
    let rm = split(&service, "t", "rm", 1_000).await;
    rm.send(NODE, r#"nodes { nodeID: "n1" action: 77 } nodes { nodeID: "n2" }"#).await;
    rm.last(NODE, "rejected", 2).await;
    for rejected in rm.items(NODE, "rejected") {
        assert!(field(&rejected, "reason").ends_with("[R_NODE_ACTION]"), "{rejected:?}");
    }
    // The existing node is not affected.
    rm.send(ALLOCATION, &request("k", "")).await;
    rm.last(ALLOCATION, "new", 1).await;
}

#[tokio::test]
async fn allocation_reported_with_uuid_is_not_answered() {
    let service = Service::start();
    let rm = split(&service, "n", "rm", 2_000).await;
    rm.send(ALLOCATION, &request("running", r#"nodeID: "n1" UUID: "u""#)).await;
    rm.send(ALLOCATION, &[request("k1", ""), request("k2", "")].concat()).await;
    // The reported allocation uses one of two cores, so only one ask is placed.
    let new = rm.last(ALLOCATION, "new", 1).await;
    assert_eq!(field(&new, "allocationKey"), "k1");
    rm.send(ALLOCATION, &release(r#"UUID: "u" terminationType: STOPPED_BY_RM"#)).await;
    let new = rm.last(ALLOCATION, "new", 2).await;
    assert_eq!(field(&new, "allocationKey"), "k2");
}

#[tokio::test]
async fn allocation_reported_without_uuid_is_answered_once() {
    let service = Service::start();
    let rm = split(&service, "t", "rm", 2_000).await;
    for _ in 0..2 {
        rm.send(ALLOCATION, &request("running", r#"nodeID: "n1""#)).await;
    }
    rm.send(ALLOCATION, &request("k", "")).await;
    let new = rm.last(ALLOCATION, "new", 2).await;
    assert_eq!(field(&new, "allocationKey"), "k");
    assert_eq!(field(&rm.items(ALLOCATION, "new")[0], "allocationKey"), "running");
}

/// The type of a release in the present form, and the partition it names, equal those of the
/// reference.
#[tokio::test]
async fn present_client_gets_only_known_fields() {
    let service = Service::start();
    let rm = split(&service, "t", "rm", 2_000).await;
    rm.send(ALLOCATION, &request("k", r#"priority: 7 partitionName: "[rm]default""#)).await;
    let new = rm.last(ALLOCATION, "new", 1).await;
    assert_eq!(new.unknown_fields().count(), 0, "no UUID and no allocationID");
    assert_eq!(field(&new, "priority"), "0");
    rm.send(ALLOCATION, &release(r#"allocationKey: "k" terminationType: STOPPED_BY_RM"#)).await;
    let released = rm.last(ALLOCATION, "released", 1).await;
    assert_eq!(released.unknown_fields().count(), 0);
    expect![[r#"partitionName:"[rm]default",applicationID:"app",terminationType:STOPPED_BY_RM,message:"released by the resource manager",allocationKey:"k""#]]
        .assert_eq(&released.to_text_format());
}

/// Most client libraries keep unknown fields: they send them back when the RM reports the
/// allocation as existing. With a UUID among them, the report would be in the older form, which is
/// not confirmed.
#[tokio::test]
async fn echoed_allocation_is_in_the_present_form() {
    let service = Service::start();
    let rm = split(&service, "t", "rm", 2_000).await;
    rm.send(ALLOCATION, &request("k", "")).await;
    let new = rm.last(ALLOCATION, "new", 1).await;
    // Decoded and encoded again by the definitions of the present revision. A field of a later one
    // (number 2000, a number) is kept, too.
    let mut received = new.encode_to_vec();
    received.extend([0x80, 0x7d, 0x01]);
    let kept = DynamicMessage::decode(new.descriptor(), &*received).unwrap();
    assert_eq!(kept.unknown_fields().count(), 1);
    let report = |rm: &Client| {
        let mut request = Revision::parse(Revision::new("t").message("AllocationRequest"), "");
        let rm_id = prost_reflect::Value::String(rm.rm_id.clone());
        request.set_field_by_name("rmID", rm_id);
        let mut bytes = request.encode_to_vec();
        // `allocations` is field 4 of the request.
        prost::encoding::message::encode(4, &kept, &mut bytes);
        bytes
    };
    rm.send_bytes(ALLOCATION, report(&rm)).await;
    rm.send(ALLOCATION, &request("next", "")).await;
    let next = rm.last(ALLOCATION, "new", 2).await;
    assert_eq!(field(&next, "allocationKey"), "next", "it was known, and no answer was due");

    let after = split(&service, "t", "rm-after-a-restart", 2_000).await;
    after.send_bytes(ALLOCATION, report(&after)).await;
    let echo = after.last_text(ALLOCATION, "new", 1).await;
    assert_eq!(echo, new.to_text_format(), "taken over, and confirmed");
    after.send(ALLOCATION, &release(r#"allocationKey: "k" terminationType: STOPPED_BY_RM"#)).await;
    after.last(ALLOCATION, "released", 1).await;
    assert!(after.items(ALLOCATION, "rejectedAllocations").is_empty());
}

#[tokio::test]
async fn rejected_node_leaves_nothing_behind() {
    let service = Service::start();
    let rm = split(&service, "m", "rm", 1_000).await;
    let running = |key: &str, application: &str| {
        format!(
            r#"existingAllocations {{ allocationKey: "{key}" UUID: "{key}" nodeID: "n2"
                applicationID: "{application}" {} }}"#,
            vcore("resourcePerAlloc", 1_000)
        )
    };
    let node = |existing: &str| {
        let capacity = vcore("schedulableResource", 2_000);
        format!(r#"nodes {{ nodeID: "n2" action: CREATE {capacity} {existing} }}"#)
    };
    rm.send(NODE, &node(&[running("good", "app"), running("bad", "nobody")].concat())).await;
    let rejected = rm.last(NODE, "rejected", 1).await;
    assert!(field(&rejected, "reason").ends_with("[R_APP_UNKNOWN]"), "{rejected:?}");
    let shown = application(&service, "rm", "root.a", "app").await;
    assert_eq!(shown["allocations"].as_array().map_or(0, Vec::len), 0, "{shown}");
    // The same node is accepted without it, with all its room.
    rm.send(NODE, &node("")).await;
    rm.last(NODE, "accepted", 2).await;
    rm.send(ALLOCATION, &ask("k", 3, "")).await;
    rm.last(ALLOCATION, "new", 3).await;
}

#[tokio::test]
async fn unready_node_gets_no_allocations() {
    let service = Service::start();
    let rm = split(&service, "m", "rm", 1_000).await;
    let ready = r#"attributes { key: "ready" value: "false" }"#;
    let capacity = vcore("schedulableResource", 4_000);
    rm.send(NODE, &format!(r#"nodes {{ nodeID: "n2" action: CREATE {capacity} {ready} }}"#)).await;
    rm.last(NODE, "accepted", 2).await;
    rm.send(ALLOCATION, &ask("k", 2, "")).await;
    let new = rm.last(ALLOCATION, "new", 1).await;
    assert_eq!(field(&new, "nodeID"), "n1");
    // A barrier: the second ask is still pending when the third node is known.
    rm.send(NODE, r#"nodes { nodeID: "n3" action: CREATE }"#).await;
    rm.last(NODE, "accepted", 3).await;
    assert_eq!(rm.items(ALLOCATION, "new").len(), 1);
    rm.send(NODE, r#"nodes { nodeID: "n2" action: UPDATE }"#).await;
    let new = rm.last(ALLOCATION, "new", 2).await;
    assert_eq!(field(&new, "nodeID"), "n2");
}

#[tokio::test]
async fn priority_as_message_ends_the_stream() {
    let service = Service::start();
    let mut rm = split(&service, "m", "rm", 1_000).await;
    let parse = |text: &str| {
        let message = Revision::new("l").message("AllocationAsk");
        prost::Message::encode_to_vec(&Revision::parse(message, text))
    };
    // Releases between the oldest and the middle revision did so: field 6 is a message.
    let asked = parse(r#"allocationKey: "k" applicationID: "app" priority { priorityValue: 1 }"#);
    let mut bytes = vec![0x0a, u8::try_from(asked.len()).unwrap()];
    bytes.extend(asked);
    // The stream has to be bound, or no session would have lost a message.
    rm.send(ALLOCATION, "").await;
    rm.send_bytes(ALLOCATION, bytes).await;
    let status = rm.end(ALLOCATION).await.unwrap();
    assert_eq!(status.code(), Code::Internal);
    rm.open(ALLOCATION).await;
    rm.send(ALLOCATION, "").await;
    let status = rm
        .wait("refused", || {
            let end = rm.ended(ALLOCATION)?;
            (end.code() != Code::Internal).then_some(end)
        })
        .await;
    assert_eq!(reason_of(&status), "RESYNC_REQUIRED");
}

#[tokio::test]
async fn clients_do_not_see_each_other() {
    let service = Service::start();
    let first = split(&service, "m", "one", 1_000).await;
    let second = split(&service, "t", "two", 1_000).await;
    first.send(ALLOCATION, &ask("k", 1, "")).await;
    first.last(ALLOCATION, "new", 1).await;
    second.send(ALLOCATION, &release(r#"allocationKey: "k" terminationType: STOPPED_BY_RM"#)).await;
    second.send(ALLOCATION, &request("k", "")).await;
    second.last(ALLOCATION, "new", 1).await;
    assert!(first.items(ALLOCATION, "released").is_empty());
    // Another RM's partition does not exist for it.
    let late = Client::register(&service, &Revision::new("t"), "three", &SPLIT).await;
    let partition = r#"attributes { key: "si/node-partition" value: "[one]default" }"#;
    late.send(NODE, &format!(r#"nodes {{ nodeID: "n1" action: CREATE {partition} }}"#)).await;
    let rejected = late.last(NODE, "rejected", 1).await;
    assert!(field(&rejected, "reason").ends_with("[R_PARTITION_UNKNOWN]"), "{rejected:?}");
}
