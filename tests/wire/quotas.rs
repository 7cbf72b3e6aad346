//! The quotas of one resource manager over sockets: items beyond them are refused with a reason,
//! and other resource managers are not affected.

use monoceros_proto::si::v1 as si;
use tonic::Code;

use crate::harness::{
    self, QUEUES, Rm, Service, amount, application, ask, node, reason_of, registration,
};

fn start() -> Service {
    Service::start_with(&[
        ("QUOTAS__PENDING_ASKS", "50"),
        ("QUOTAS__APPLICATIONS", "3"),
        ("QUOTAS__NODES", "2"),
        ("QUOTAS__PARTITIONS", "4"),
        ("QUOTAS__QUEUES", "40"),
        ("LIMITS__RESOURCE_NAMES", "16"),
        ("LIMITS__TAG_BYTES", "1000"),
    ])
}

/// No ask finds room.
fn large(key: &str) -> si::Allocation {
    si::Allocation { resource_per_alloc: Some(amount(&[("vcore", 1 << 40)])), ..ask("app", key) }
}

#[tokio::test]
async fn excess_asks_are_rejected() {
    let service = start();
    let rm = Rm::register(&service, "greedy").await;
    let rm = rm.with_nodes(&["n1"]).await.with_application("app", "root.a").await;
    for part in 0..20 {
        let asks = (0..10).map(|n| large(&format!("{part}-{n}"))).collect();
        rm.send_allocations(vec![], asks, vec![]).await;
    }
    rm.until("refused", |seen| seen.rejected_allocations.len() == 150).await;
    rm.expect_rejection("19-9", "R_QUOTA_ASKS").await;

    // Existing items are accepted, and releases make room.
    let runs = si::Allocation { node_id: "n1".to_owned(), ..ask("app", "runs") };
    rm.send_allocations(vec![], vec![runs], vec![]).await;
    rm.until("what runs", |seen| seen.new.len() == 1).await;
    rm.send_allocations(vec![], vec![large("0-0")], vec![]).await;
    rm.send_allocations(vec![], vec![], vec![harness::release("app", "0-1")]).await;
    rm.send_allocations(vec![], vec![ask("app", "fits")], vec![]).await;
    rm.until("one more", |seen| seen.new.len() == 2).await;
    rm.send_allocations(vec![], vec![large("again"), large("too-many")], vec![]).await;
    rm.expect_rejection("too-many", "R_QUOTA_ASKS").await;
    assert_eq!(rm.read(|seen| seen.rejected_allocations.len()), 151);

    let other = Rm::register(&service, "other").await.with_nodes(&["n1"]).await;
    let other = other.with_application("app", "root.a").await;
    other.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    other.until("placed", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn removals_make_room_in_quotas() {
    use si::node_info::ActionFromRm::Decomission;
    let service = start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1", "n2"]).await;
    rm.send_nodes(vec![node("n3", 1_000, 1)]).await;
    rm.expect_rejection("n3", "R_QUOTA_NODES").await;
    let leaves = si::NodeInfo { action: Decomission.into(), ..node("n1", 1_000, 1) };
    rm.send_nodes(vec![leaves, node("n4", 1_000, 1)]).await;
    rm.until("room", |seen| seen.accepted_nodes.contains(&"n4".to_owned())).await;

    for id in ["a1", "a2", "a3", "a4"] {
        rm.applications
            .send(si::ApplicationRequest {
                new: vec![application(id, "root.a")],
                rm_id: rm.id.clone(),
                ..Default::default()
            })
            .await
            .unwrap();
    }
    rm.expect_rejection("a4", "R_QUOTA_APPS").await;
    assert_eq!(rm.read(|seen| seen.accepted_applications.len()), 3);
}

#[tokio::test]
async fn excess_partitions_are_refused() {
    let service = start();
    let mut client = service.client().await;
    let many = |n: usize, queues: &str| {
        let partition = |n| format!("{{name: p{n}, queues: [{{name: root, queues: [{queues}]}}]}}");
        format!("partitions: [{}]", (0..n).map(partition).collect::<Vec<_>>().join(", "))
    };
    let leaves: Vec<_> = (0..50).map(|n| format!("{{name: q{n}}}")).collect();
    for (config, code) in
        [(many(500, ""), "E_QUOTA_PARTITIONS"), (many(1, &leaves.join(", ")), "E_QUOTA_QUEUES")]
    {
        let status =
            client.register_resource_manager(registration("rm", &config)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(reason_of(&status), "CONFIG_INVALID");
        assert!(status.message().contains(code), "{}", status.message());
        let verdict = service.http("POST", "/ws/v1/validate-conf", &[], &config).await.json();
        assert_eq!(verdict["allowed"], false);
        assert!(verdict["reason"].as_str().unwrap().contains(code), "{verdict}");
    }
    client.register_resource_manager(registration("rm", QUEUES)).await.unwrap();
}

/// Each message names a thousand resource types that no machine has.
#[tokio::test]
async fn excess_resource_types_are_rejected() {
    let service = start();
    let rm = Rm::register(&service, "greedy").await.with_application("app", "root.a").await;
    for part in 0..66 {
        let names: Vec<String> = (0..100).map(|n| format!("{part}.greedy.test/{n}")).collect();
        let sizes: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let ask = si::Allocation {
            resource_per_alloc: Some(amount(&sizes)),
            ..ask("app", &part.to_string())
        };
        rm.send_allocations(vec![], vec![ask], vec![]).await;
    }
    let reason = rm.expect_rejection("65", "R_OVERFLOW").await;
    assert!(reason.contains("16 names are in use"), "{reason}");

    let other = Rm::register(&service, "other").await.with_application("app", "root.a").await;
    let card = [("card.other.test/one", 1)];
    let new = si::NodeInfo { schedulable_resource: Some(amount(&card)), ..node("n1", 0, 0) };
    other.send_nodes(vec![new]).await;
    let ask = si::Allocation { resource_per_alloc: Some(amount(&card)), ..ask("app", "k") };
    other.send_allocations(vec![], vec![ask], vec![]).await;
    other.until("placed", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn long_texts_are_rejected_and_not_echoed() {
    let service = start();
    let rm = Rm::register(&service, "rm").await.with_application("app", "root.a").await;
    let long = "x".repeat(100_000);
    let user = |user: &str, group: &str| {
        let groups = vec![group.to_owned()];
        Some(si::UserGroupInformation { user: user.to_owned(), groups })
    };
    let tags = |text: &str| [("note".to_owned(), text.to_owned())].into();
    let new = vec![
        si::AddApplicationRequest { ugi: user(&long, "dev"), ..application("user", "root.a") },
        si::AddApplicationRequest { ugi: user("ada", &long), ..application("group", "root.a") },
        si::AddApplicationRequest { tags: tags(&long), ..application("tags", "root.a") },
        application("queue", &long),
    ];
    let request = si::ApplicationRequest { new, rm_id: rm.id.clone(), ..Default::default() };
    rm.applications.send(request).await.unwrap();
    for id in ["user", "group", "tags", "queue"] {
        let reason = rm.expect_rejection(id, "R_TEXT").await;
        assert!(reason.len() < 200, "{reason}");
    }
    let asks = vec![
        si::Allocation { allocation_tags: tags(&long), ..ask("app", "tags") },
        si::Allocation { application_id: long.clone(), ..ask("app", "application") },
        si::Allocation { node_id: long.clone(), ..ask("app", "node") },
        si::Allocation { uuid: long.clone(), node_id: "n1".to_owned(), ..ask("app", "uuid") },
    ];
    rm.send_allocations(vec![], asks, vec![]).await;
    for key in ["tags", "application", "node", "uuid"] {
        rm.expect_rejection(key, "R_TEXT").await;
    }
    let elsewhere = si::Allocation { partition_name: long.clone(), ..ask("app", "partition") };
    rm.send_allocations(vec![], vec![elsewhere], vec![]).await;
    let reason = rm.expect_rejection("partition", "R_PARTITION_UNKNOWN").await;
    assert!(reason.len() < 300, "{reason}");
}
