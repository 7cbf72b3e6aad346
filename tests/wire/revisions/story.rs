//! The shim of each revision from its start to its end: the same decisions in different forms.
//! Gangs have [tests of their own](crate::gangs).

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tonic::Code;
use tonic::transport::Endpoint;

use super::client::{
    Client, Revision, SPLIT, ask, field, legacy_application, new_application, page, vcore,
};
use crate::harness::{QUEUES, Service};

const ALLOCATION: &str = "UpdateAllocation";
const APPLICATION: &str = "UpdateApplication";
const NODE: &str = "UpdateNode";
const UPDATE: &str = "Update";

/// Returns keys and nodes of all allocations received.
fn placed(rm: &Client, method: &'static str, list: &str) -> Vec<(String, String)> {
    let items = rm.items(method, list);
    items.iter().map(|new| (field(new, "allocationKey"), field(new, "nodeID"))).collect()
}

/// The states of an application up to the given one.
async fn states(rm: &Client, method: &'static str, list: &str, until: &str) -> Vec<String> {
    rm.wait(until, || {
        let items = rm.items(method, list);
        let states: Vec<String> = items.iter().map(|item| field(item, "state")).collect();
        states.iter().any(|state| state == until).then_some(states)
    })
    .await
}

/// The end of every story: other queues, then deregistration, which ends the streams with an error.
async fn ends(service: &Service, rm: &Client, methods: &[&'static str]) {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    let mut admin = AdminServiceClient::new(endpoint.connect().await.unwrap());
    let rm_id = rm.rm_id.clone();
    let update = si::UpdateConfigurationRequest {
        rm_id: rm_id.clone(),
        config: QUEUES.replace("name: b", "name: c"),
        ..si::UpdateConfigurationRequest::default()
    };
    let updated = admin.update_config(update).await.unwrap().into_inner();
    assert!(updated.success, "{updated:?}");
    let queues = page(service, "/ws/v1/partition/default/queues").await;
    assert!(queues.contains(r#""root.c""#), "{queues}");
    let leave = v1::DeregisterResourceManagerRequest {
        rm_id,
        ..v1::DeregisterResourceManagerRequest::default()
    };
    admin.deregister_resource_manager(leave).await.unwrap();
    for method in methods {
        let end = rm.end(method).await.map(|status| status.code());
        assert_eq!(end, Some(Code::Aborted), "{method}");
    }
    let sessions = admin.list_sessions(v1::ListSessionsRequest {}).await.unwrap().into_inner();
    assert_eq!(sessions.sessions, []);
}

#[tokio::test]
async fn the_shim_of_today() {
    let service = Service::start();
    let rm = Client::register(&service, &Revision::new("t"), "mycluster", &SPLIT).await;
    let node = |id: &str, action: &str, more: &str| {
        format!(
            r#"nodes {{ nodeID: "{id}" action: {action} {more}
                attributes {{ key: "si.io/hostname" value: "{id}" }} }}"#
        )
    };
    let capacity = vcore("schedulableResource", 2_000);
    let nodes = ["n1", "n2", "n3"].map(|id| node(id, "CREATE_DRAIN", &capacity));
    rm.send(NODE, &nodes.concat()).await;
    rm.last(NODE, "accepted", 3).await;

    let allocation = |key: &str, more: &str| {
        let size = vcore("resourcePerAlloc", 1_000);
        format!(r#"allocations {{ allocationKey: "{key}" {size} {more} }}"#)
    };
    let foreign = r#"nodeID: "n1" allocationTags { key: "foreign" value: "default" }"#;
    rm.send(ALLOCATION, &allocation("f1", foreign)).await;
    let open = ["n1", "n2", "n3"].map(|id| node(id, "DRAIN_TO_SCHEDULABLE", ""));
    rm.send(NODE, &open.concat()).await;
    let forced = r#"tags { key: "application.create.force" value: "true" }"#;
    let application = new_application("app1", "root.a");
    rm.send(APPLICATION, &format!("new {{ {application} {forced} }}")).await;
    rm.last(APPLICATION, "accepted", 1).await;

    let app1 = r#"applicationID: "app1""#;
    rm.send(ALLOCATION, &allocation("r1", &format!(r#"{app1} nodeID: "n1""#))).await;
    rm.last(ALLOCATION, "new", 1).await;
    // The first node is full with the pods found on it.
    rm.send(ALLOCATION, &allocation("p1", app1)).await;
    rm.last(ALLOCATION, "new", 2).await;
    let told = placed(&rm, ALLOCATION, "new");
    assert_eq!(told[0], ("r1".to_owned(), "n1".to_owned()));
    assert_eq!(told[1].0, "p1");
    assert_ne!(told[1].1, "n1");
    let went = states(&rm, APPLICATION, "updated", "Running").await;
    assert_eq!(went, ["Accepted", "Running"]);

    // A failed bind is reported by type 5, SCHEDULING_FAILED_ON_RM.
    let release = |key: &str, termination: &str| {
        format!(
            r#"allocationsToRelease {{ {app1} allocationKey: "{key}"
                terminationType: {termination} }}"#
        )
    };
    rm.send(ALLOCATION, &format!("releases {{ {} }}", release("p1", "5"))).await;
    rm.last(ALLOCATION, "new", 3).await;
    assert_eq!(placed(&rm, ALLOCATION, "new")[2].0, "p1");
    assert!(rm.items(ALLOCATION, "released").is_empty(), "that is not answered");

    let all = [release("r1", "STOPPED_BY_RM"), release("p1", "STOPPED_BY_RM")].concat();
    rm.send(ALLOCATION, &format!("releases {{ {all} }}")).await;
    rm.last(ALLOCATION, "released", 2).await;
    let went = states(&rm, APPLICATION, "updated", "Completing").await;
    assert_eq!(went, ["Accepted", "Running", "Completing"]);
    rm.send(NODE, &node("n1", "DECOMISSION", "")).await;
    let gone = r#"releases { allocationsToRelease { allocationKey: "f1" } }"#;
    rm.send(ALLOCATION, gone).await;
    // A barrier: later items of the same stream are answered after it.
    rm.send(NODE, &node("n4", "CREATE", "")).await;
    rm.last(NODE, "accepted", 4).await;
    assert!(!page(&service, "/ws/v1/partition/default/nodes").await.contains(r#""n1""#));
    ends(&service, &rm, &SPLIT).await;
}

#[tokio::test]
async fn the_shims_of_the_two_revisions_before() {
    for revision in ["m", "n"] {
        let service = Service::start();
        let rm = Client::register(&service, &Revision::new(revision), "mycluster", &SPLIT).await;
        let application = new_application("app", "root.a");
        rm.send(APPLICATION, &format!("new {{ {application} }}")).await;
        rm.last(APPLICATION, "accepted", 1).await;
        // One message per node, with its pods and foreign usage.
        for id in ["n1", "n2", "n3"] {
            let existing = format!(
                r#"existingAllocations {{ allocationKey: "r-{id}" UUID: "r-{id}" nodeID: "{id}"
                    applicationID: "app" {} }}"#,
                vcore("resourcePerAlloc", 1_000)
            );
            let amounts =
                [vcore("schedulableResource", 3_000), vcore("occupiedResource", 1_000)].concat();
            let ready = r#"attributes { key: "ready" value: "true" }"#;
            let node = format!(
                r#"nodes {{ nodeID: "{id}" action: CREATE {amounts} {ready} {existing} }}"#
            );
            rm.send(NODE, &node).await;
        }
        rm.last(NODE, "accepted", 3).await;
        assert!(rm.items(ALLOCATION, "new").is_empty());
        let asks = ["k1", "k2", "k3", "k4"].map(|key| ask(key, 1, "Originator: false priority: 1"));
        rm.send(ALLOCATION, &asks.concat()).await;
        rm.last(ALLOCATION, "new", 3).await;
        let withdraw = r#"releases { allocationAsksToRelease {
            applicationID: "app" allocationKey: "k4" terminationType: STOPPED_BY_RM } }"#;
        rm.send(ALLOCATION, withdraw).await;
        let releases = ["r-n1", "r-n2", "r-n3", "k1", "k2", "k3"].map(|uuid| {
            format!(
                r#"allocationsToRelease {{ applicationID: "app" UUID: "{uuid}"
                    terminationType: STOPPED_BY_RM }}"#
            )
        });
        rm.send(ALLOCATION, &format!("releases {{ {} }}", releases.concat())).await;
        rm.last(ALLOCATION, "released", 6).await;
        assert_eq!(rm.items(ALLOCATION, "new").len(), 3, "k4 was withdrawn");
        let went = states(&rm, APPLICATION, "updated", "Completing").await;
        assert_eq!(went, ["Accepted", "Running", "Completing"]);
        rm.send(NODE, r#"nodes { nodeID: "n1" action: DECOMISSION }"#).await;
        let remove = r#"remove { applicationID: "app" partitionName: "default" }"#;
        rm.send(APPLICATION, remove).await;
        ends(&service, &rm, &SPLIT).await;
    }
}

#[tokio::test]
async fn the_shim_of_the_oldest_revision() {
    let service = Service::start();
    let rm = Client::register(&service, &Revision::new("l"), "mycluster", &[UPDATE]).await;
    let application = legacy_application("app");
    rm.send(UPDATE, &format!("newApplications {{ {application} }}")).await;
    rm.last(UPDATE, "acceptedApplications", 1).await;
    for id in ["n1", "n2", "n3"] {
        let existing = format!(
            r#"existingAllocations {{ allocationKey: "r-{id}" UUID: "r-{id}" nodeID: "{id}"
                applicationID: "app" queueName: "root.default" {} }}"#,
            vcore("resourcePerAlloc", 1_000)
        );
        let amounts =
            [vcore("schedulableResource", 3_000), vcore("occupiedResource", 1_000)].concat();
        let node = format!(r#"newSchedulableNodes {{ nodeID: "{id}" {amounts} {existing} }}"#);
        rm.send(UPDATE, &node).await;
    }
    rm.last(UPDATE, "acceptedNodes", 3).await;
    let asks = ["k1", "k2", "k3", "k4"].map(|key| ask(key, 1, ""));
    rm.send(UPDATE, &asks.concat()).await;
    rm.last(UPDATE, "newAllocations", 3).await;
    let withdraw = r#"releases { allocationAsksToRelease {
        applicationID: "app" allocationkey: "k4" } }"#;
    rm.send(UPDATE, withdraw).await;
    // A report of measured usage, here of a node, is accepted.
    let report = vcore("actualUsedResource", 500);
    rm.send(UPDATE, &format!(r#"utilizationReports {{ ID: "n1" {report} }}"#)).await;
    let releases = ["r-n1", "r-n2", "r-n3", "k1", "k2", "k3"]
        .map(|uuid| format!(r#"allocationsToRelease {{ applicationID: "app" UUID: "{uuid}" }}"#));
    rm.send(UPDATE, &format!("releases {{ {} }}", releases.concat())).await;
    rm.last(UPDATE, "releasedAllocations", 6).await;
    assert_eq!(rm.items(UPDATE, "newAllocations").len(), 3, "k4 was withdrawn");
    let went = states(&rm, UPDATE, "updatedApplications", "Completing").await;
    assert_eq!(went, ["Accepted", "Running", "Completing"]);
    rm.send(UPDATE, r#"updatedNodes { nodeID: "n1" action: DECOMISSION }"#).await;
    rm.send(UPDATE, r#"removeApplications { applicationID: "app" }"#).await;
    let application = legacy_application("next");
    rm.send(UPDATE, &format!("newApplications {{ {application} }}")).await;
    rm.last(UPDATE, "acceptedApplications", 2).await;
    ends(&service, &rm, &[UPDATE]).await;
}

#[tokio::test]
async fn empty_cluster_starts() {
    let service = Service::start();
    let rm = Client::register(&service, &Revision::new("t"), "mycluster", &SPLIT).await;
    for method in SPLIT {
        rm.send(method, "").await;
    }
    rm.send(APPLICATION, &format!("new {{ {} }}", new_application("app", "root.a"))).await;
    rm.last(APPLICATION, "accepted", 1).await;
    assert!(rm.messages(NODE).is_empty() && rm.messages(ALLOCATION).is_empty());
}
