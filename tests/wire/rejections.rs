//! Invalid items are answered by id with a reason code, and change nothing. Each test also sends a
//! valid item in the same message. The codes are listed in `docs/grpc.md`.

use monoceros_proto::si::v1 as si;

use crate::harness::{self, Rm, Service, amount, application, ask, node, old_ask, resource};

#[tokio::test]
async fn invalid_nodes_do_not_affect_valid_ones() {
    use si::node_info::ActionFromRm;
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["known"]).await;
    let with = |id: &str, key: &str, value: &str| si::NodeInfo {
        attributes: [(key.to_owned(), value.to_owned())].into(),
        ..node(id, 1_000, 1)
    };
    let stranger = si::Allocation { node_id: "hosting".to_owned(), ..ask("nobody's", "x") };
    rm.send_nodes(vec![
        node("", 1_000, 1),
        node("known", 1_000, 1),
        node("negative", -1, 1),
        si::NodeInfo { occupied_resource: Some(resource(-1, 0)), ..node("occupied", 1_000, 1) },
        with("elsewhere", "si/node-partition", "unheard-of"),
        si::NodeInfo { action: ActionFromRm::UnknownActionFromRm.into(), ..node("idle", 1_000, 1) },
        si::NodeInfo { action: 77, ..node("odd", 1_000, 1) },
        si::NodeInfo { existing_allocations: vec![stranger], ..node("hosting", 1_000, 1) },
        node("good", 1_000, 1),
    ])
    .await;
    rm.until("the good one", |seen| seen.accepted_nodes.iter().any(|id| id == "good")).await;
    rm.expect_rejection("", "R_NODE_INVALID").await;
    rm.expect_rejection("known", "R_NODE_EXISTS").await;
    rm.expect_rejection("negative", "R_NODE_INVALID").await;
    rm.expect_rejection("occupied", "R_NODE_INVALID").await;
    rm.expect_rejection("elsewhere", "R_PARTITION_UNKNOWN").await;
    rm.expect_rejection("idle", "R_NODE_ACTION").await;
    rm.expect_rejection("odd", "R_NODE_ACTION").await;
    let missing = rm.read(|seen| seen.reason("idle").unwrap().to_owned());
    assert!(missing.contains("set `action`, to CREATE or CREATE_DRAIN"), "{missing}");
    rm.expect_rejection("hosting", "R_APP_UNKNOWN").await;
    // A rejected node leaves nothing behind: its name is free.
    rm.send_nodes(vec![node("hosting", 1_000, 1)]).await;
    rm.until("taken", |seen| seen.accepted_nodes.iter().any(|id| id == "hosting")).await;
    assert_eq!(rm.read(|seen| seen.accepted_nodes.len()), 3);
}

#[tokio::test]
async fn a_node_in_cpu_is_accepted_with_a_warning() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    let in_cpu = si::NodeInfo::new("odd", [("cpu", 4), ("memory", 1 << 30)]);
    let both = si::NodeInfo::new("both", [("cpu", 4), ("vcore", 4_000)]);
    rm.send_nodes(vec![in_cpu, both, node("right", 4_000, 1)]).await;
    rm.until("all nodes", |seen| seen.accepted_nodes.len() == 3).await;
    let mut warnings = rm.read(|seen| seen.node_warnings.clone());
    warnings.sort();
    let nodes: Vec<_> = warnings.iter().map(|(node, _)| &**node).collect();
    assert_eq!(nodes, ["both", "odd"]);
    for (_, warning) in &warnings {
        assert!(warning.contains("`vcore`, in thousandths of a core"), "{warning}");
    }
    // The log has one line of a kind in each second.
    service.until_logged("probable mistake in the units of a node", 1).await;
    assert!(service.log().contains("node=odd"), "{}", service.log());
}

#[tokio::test]
async fn invalid_applications_do_not_affect_valid_ones() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_application("known", "root.a").await;
    rm.send_applications(
        vec![
            application("", "root.a"),
            application("known", "root.a"),
            application("lost", "root.unheard-of"),
            application("above", "root"),
            si::AddApplicationRequest {
                partition_name: "unheard-of".to_owned(),
                ..application("elsewhere", "root.a")
            },
            si::AddApplicationRequest {
                partition_name: "[other]default".to_owned(),
                ..application("foreign", "root.a")
            },
            si::AddApplicationRequest { ugi: None, ..application("nobody", "root.a") },
            application("twice", "root.a"),
            application("twice", "root.a"),
            application("good", "root.b"),
        ],
        vec![],
    )
    .await;
    rm.until("the good one", |seen| seen.accepted_applications.iter().any(|id| id == "good")).await;
    rm.expect_rejection("", "R_APP_ID").await;
    rm.expect_rejection("known", "R_APP_EXISTS").await;
    rm.expect_rejection("lost", "R_PLACEMENT").await;
    // A name without `root.` is the name of a queue below root.
    rm.expect_rejection("above", "R_PLACEMENT").await;
    rm.expect_rejection("elsewhere", "R_PARTITION_UNKNOWN").await;
    rm.expect_rejection("foreign", "R_PARTITION_UNKNOWN").await;
    rm.expect_rejection("nobody", "R_USER").await;
    rm.expect_rejection("twice", "R_APP_EXISTS").await;
    let mut accepted = rm.read(|seen| seen.accepted_applications.clone());
    accepted.sort_unstable();
    assert_eq!(accepted, ["good", "known", "twice"]);
}

#[tokio::test]
async fn invalid_requests_do_not_affect_valid_ones() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    let sized = |key: &str, resource_per_alloc: Option<si::Resource>| si::Allocation {
        resource_per_alloc,
        ..ask("app", key)
    };
    let on = |node_id: &str, key: &str| si::Allocation {
        node_id: node_id.to_owned(),
        ..ask("app", key)
    };
    rm.send_allocations(
        vec![],
        vec![
            ask("app", ""),
            ask("", "ownerless"),
            ask("unheard-of", "stray"),
            si::Allocation { partition_name: "unheard-of".to_owned(), ..ask("app", "elsewhere") },
            sized("sizeless", None),
            sized("empty", Some(amount(&[]))),
            sized("zero", Some(amount(&[("vcore", 0)]))),
            sized("negative", Some(amount(&[("vcore", 1_000), ("memory", -1)]))),
            si::Allocation { placeholder: true, ..ask("app", "ungrouped") },
            on("unheard-of", "homeless"),
            si::Allocation { uuid: "u1".to_owned(), ..ask("app", "unplaced") },
            ask("app", "good"),
        ],
        vec![],
    )
    .await;
    rm.until("the good one", |seen| seen.new.iter().any(|new| new.allocation_key == "good")).await;
    rm.expect_rejection("", "R_KEY").await;
    rm.expect_rejection("ownerless", "R_APP_UNKNOWN").await;
    rm.expect_rejection("stray", "R_APP_UNKNOWN").await;
    rm.expect_rejection("elsewhere", "R_PARTITION_UNKNOWN").await;
    rm.expect_rejection("sizeless", "R_NO_RESOURCE").await;
    rm.expect_rejection("empty", "R_NO_RESOURCE").await;
    rm.expect_rejection("zero", "R_NO_RESOURCE").await;
    rm.expect_rejection("negative", "R_NEGATIVE_RESOURCE").await;
    rm.expect_rejection("ungrouped", "R_PLACEHOLDER_NO_TG").await;
    rm.expect_rejection("homeless", "R_NODE_UNKNOWN").await;
    rm.expect_rejection("unplaced", "R_NODE_MISSING").await;
    rm.read(|seen| {
        assert_eq!(seen.new.len(), 1);
        assert!(seen.rejected_asks.is_empty(), "all came in `allocations`");
    });
}

#[tokio::test]
async fn old_form_is_rejected_in_the_old_field() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(
        vec![
            old_ask("app", "none", 0),
            old_ask("app", "fewer", -1),
            old_ask("app", "", 1),
            old_ask("unheard-of", "stray", 1),
            si::AllocationAsk { resource_ask: None, ..old_ask("app", "sizeless", 1) },
            old_ask("app", "good", 1),
        ],
        vec![],
        vec![],
    )
    .await;
    rm.until("the good one", |seen| seen.new.len() == 1).await;
    rm.expect_rejection("none", "R_REPEAT").await;
    rm.expect_rejection("fewer", "R_REPEAT").await;
    rm.expect_rejection("", "R_KEY").await;
    rm.expect_rejection("stray", "R_APP_UNKNOWN").await;
    rm.expect_rejection("sizeless", "R_NO_RESOURCE").await;
    rm.read(|seen| assert!(seen.rejected_allocations.is_empty(), "all came in `asks`"));
}

#[tokio::test]
async fn overflowing_quantity_is_rejected() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    let huge = |key: &str| si::Allocation {
        resource_per_alloc: Some(amount(&[("vcore", i64::MAX / 2 + 1)])),
        ..ask("app", key)
    };
    rm.send_allocations(vec![], vec![huge("first"), huge("second"), ask("app", "good")], vec![])
        .await;
    for key in ["first", "second"] {
        let reason = rm.expect_rejection(key, "R_OVERFLOW").await;
        assert!(reason.contains("4611686018427387904 of `vcore`"), "{reason}");
    }
    rm.until("the good one", |seen| seen.new.iter().any(|new| new.allocation_key == "good")).await;
}

#[tokio::test]
async fn releases_of_unknown_objects_change_nothing() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    let four = ["k1", "k2", "k3", "k4"].map(|key| ask("app", key));
    rm.send_allocations(vec![], four.into(), vec![]).await;
    rm.until("4 allocations", |seen| seen.new.len() == 4).await;
    let releases = vec![
        harness::release("app", "unheard-of"),
        harness::release("unheard-of", "k1"),
        harness::release("", "k1"),
        si::AllocationRelease { uuid: "unheard-of".to_owned(), ..harness::release("app", "k1") },
    ];
    rm.send_allocations(vec![], vec![], releases).await;
    rm.send_allocations(vec![], vec![], vec![harness::release("app", "k2")]).await;
    rm.until("the real one", |seen| !seen.released.is_empty()).await;
    rm.read(|seen| {
        let keys: Vec<&str> = seen.released.iter().map(|r| r.allocation_key.as_str()).collect();
        assert_eq!(keys, ["k2"]);
    });
}
