//! Usage of users and groups, and placement of applications, over HTTP.

use monoceros_proto::si::v1 as si;
use serde_json::{Value, json};

use crate::harness::{Rm, Service, application, ask, node, registration, release};

/// Two partitions. In the first, queues are created per user, and `dev` has a limit.
const QUEUES: &str = r#"
partitions:
  - name: default
    placementrules:
      - name: tag
        value: Namespace
        create: true
        filter: {type: allow, users: [alice, bob]}
        parent: {name: fixed, value: namespaces}
      - name: fixed
        value: root.other
        create: true
        filter: {type: deny, groups: ["^ops.*"]}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: Namespaces
            parent: true
            childtemplate: {resources: {max: {vcore: 3}}}
            limits:
              - {limit: team, groups: [dev], maxresources: {vcore: 2}, maxapplications: 5}
              - {limit: each, users: ["*"], maxresources: {vcore: 1500m}}
  - name: second
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
"#;

const DEFAULT: &str = "/ws/v1/partition/default";

/// An RM with a node in each partition, and an application of `alice` in the queue of a namespace.
async fn started(service: &Service) -> Rm {
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm", QUEUES)).await.unwrap();
    let rm = Rm::open(client, "rm").await;
    let mut second = node("n2", 4_000, 16);
    second.attributes.insert("si/node-partition".to_owned(), "second".to_owned());
    rm.send_nodes(vec![node("n1", 4_000, 16), second]).await;
    rm.until("nodes accepted", |seen| seen.accepted_nodes.len() == 2).await;
    let mut app = application("app", "");
    app.tags.insert("namespace".to_owned(), "blue".to_owned());
    let elsewhere = si::AddApplicationRequest {
        partition_name: "second".into(),
        ..application("other", "root.a")
    };
    rm.send_applications(vec![app, elsewhere], vec![]).await;
    rm.until("accepted", |seen| seen.accepted_applications.len() == 2).await;
    let elsewhere = si::Allocation { partition_name: "second".into(), ..ask("other", "z") };
    rm.send_allocations(vec![], vec![ask("app", "x"), ask("app", "y"), elsewhere], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 2).await;
    rm
}

#[tokio::test]
async fn usage_is_counted_by_user_group_and_partition() {
    let service = Service::start();
    let rm = started(&service).await;
    let read = async |path: &str| service.http("GET", path, &[], "").await.json();

    let one_core = json!({"memory": 1_000_000_000, "vcore": 1000});
    let queues = |limit: Value| {
        let mut place = json!({
            "queuePath": "root.namespaces",
            "resourceUsage": one_core,
            "runningApplications": ["app"],
            "children": [{
                "queuePath": "root.namespaces.blue",
                "resourceUsage": one_core,
                "runningApplications": ["app"],
            }],
        });
        place.as_object_mut().unwrap().extend(limit.as_object().unwrap().clone());
        json!({
            "queuePath": "root",
            "resourceUsage": one_core,
            "runningApplications": ["app"],
            "children": [place],
        })
    };
    let alice = json!({
        "userName": "alice",
        "groups": {"app": "dev"},
        "queues": queues(json!({"maxResources": {"vcore": 1500}})),
    });
    let dev = json!({
        "groupName": "dev",
        "applications": ["app"],
        "queues": queues(json!({"maxResources": {"vcore": 2000}, "maxApplications": 5})),
    });
    assert_eq!(read(&format!("{DEFAULT}/usage/user/alice")).await, alice);
    assert_eq!(read(&format!("{DEFAULT}/usage/users")).await, json!([alice]));
    assert_eq!(read(&format!("{DEFAULT}/usage/group/dev")).await, dev);
    assert_eq!(read(&format!("{DEFAULT}/usage/groups")).await, json!([dev]));

    let elsewhere = read("/ws/v1/partition/second/usage/users").await;
    assert_eq!(elsewhere[0]["userName"], "alice");
    assert_eq!(elsewhere[0]["queues"]["runningApplications"], json!(["other"]));
    assert_eq!(elsewhere[0].get("groups"), None, "no group is limited there");
    assert_eq!(read("/ws/v1/partition/second/usage/groups").await, json!([]));

    // First alice's remaining quota is less than a core, then it is one again.
    rm.send_allocations(vec![], vec![], vec![release("app", "x")]).await;
    rm.until("the other is placed", |seen| seen.new.len() == 3).await;
    assert_eq!(read(&format!("{DEFAULT}/usage/user/alice")).await, alice);
}

#[tokio::test]
async fn untracked_names_are_missing_and_invalid_ones_refused() {
    let service = Service::start();
    let _rm = started(&service).await;
    for (path, status, message) in [
        ("none/usage/users", 404, "Partition not found"),
        ("none/usage/user/1abc", 404, "Partition not found"),
        ("none/usage/groups", 404, "Partition not found"),
        ("none/usage/group/dev", 404, "Partition not found"),
        ("default/usage/user/eve", 404, "User not found"),
        ("default/usage/user/svc$", 404, "User not found"),
        ("default/usage/user/1abc", 400, "Invalid user name"),
        ("default/usage/user/*", 400, "Invalid user name"),
        ("default/usage/group/ops", 404, "Group not found"),
        ("default/usage/group/a@b", 400, "Invalid group name"),
        ("default/usage/group/*", 400, "Invalid group name"),
        ("second/usage/group/dev", 404, "Group not found"),
        ("none/placementrules", 404, "Partition not found"),
    ] {
        let answer = service.http("GET", &format!("/ws/v1/partition/{path}"), &[], "").await;
        let error = json!({"status_code": status, "message": message, "description": message});
        assert_eq!((answer.status, answer.json()), (status, error), "{path}");
    }
}

#[tokio::test]
async fn placement_rules_include_the_internal_one() {
    let service = Service::start();
    let _rm = started(&service).await;
    let rules = json!([
        {
            "name": "tag",
            "parameters": {"create": "true", "tagName": "namespace"},
            "filter": {"type": "allow", "userList": ["alice", "bob"]},
            "parentRule": {
                "name": "fixed",
                "parameters": {"create": "false", "qualified": "false", "queue": "namespaces"},
            },
        },
        {
            "name": "fixed",
            "parameters": {"create": "true", "qualified": "true", "queue": "root.other"},
            "filter": {"type": "deny", "groupExp": "^ops.*"},
        },
        {"name": "recovery", "parameters": {"queue": "root.@recovery@"}},
    ]);
    let read = async |path: &str| service.http("GET", path, &[], "").await.json();
    assert_eq!(read(&format!("{DEFAULT}/placementrules")).await, rules);
    let implicit = read("/ws/v1/partition/second/placementrules").await;
    assert_eq!(implicit[0]["name"], "provided");
    assert_eq!(implicit[1]["name"], "recovery");

    let dump = read("/debug/fullstatedump").await;
    assert_eq!(dump["placementRules"][0], json!({"partition": "default", "rules": rules}));
    assert_eq!(dump["placementRules"][1], json!({"partition": "second", "rules": implicit}));
}

#[tokio::test]
async fn dynamic_queues_and_templates_are_shown() {
    let service = Service::start();
    let _rm = started(&service).await;
    let queue = async |path: &str| {
        service.http("GET", &format!("{DEFAULT}/queue/{path}"), &[], "").await.json()
    };
    let parent = queue("root.Namespaces").await;
    assert_eq!(parent["isManaged"], true);
    assert_eq!(parent["template"], json!({"maxResource": {"vcore": 3000}}));
    assert_eq!(parent["childNames"], json!(["root.namespaces.blue"]));
    let leaf = queue("root.namespaces.blue").await;
    assert_eq!((&leaf["isManaged"], &leaf["isLeaf"]), (&json!(false), &json!(true)));
    assert_eq!(leaf["maxResource"], json!({"vcore": 3000}));
    assert_eq!(leaf["headroom"]["vcore"], 2000);
    assert_eq!(leaf["absUsedCapacity"], json!({"vcore": 33}));
    assert_eq!(leaf.get("template"), None);
    assert_eq!(leaf["preemptionEnabled"], true);
    for (key, delay) in
        [("preemptionDelay", "30s"), ("quotaPreemptionDelay", "0s"), ("askBackoffDelay", "30s")]
    {
        assert_eq!(leaf[key], delay);
    }
}
