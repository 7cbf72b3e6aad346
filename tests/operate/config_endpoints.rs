//! The configuration in force and the check of a new one, over HTTP.

use futures::future::join_all;
use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use serde_json::{Value, json};
use tonic::transport::Endpoint;

use crate::harness::{HttpAnswer, QUEUES, Rm, Service, ask, reason_of, registration};

const CONFIG: &str = "/ws/v1/config";
const JSON: (&str, &str) = ("Accept", "application/json");

async fn configuration(service: &Service) -> Value {
    service.http("GET", CONFIG, &[JSON], "").await.json()
}

async fn validate(service: &Service, text: &str) -> HttpAnswer {
    service.http("POST", "/ws/v1/validate-conf", &[], text).await
}

/// Gives the RM another configuration.
async fn update(service: &Service, rm_id: &str, config: &str, extra: &[(&str, &str)]) {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    let mut admin = AdminServiceClient::new(endpoint.connect().await.unwrap());
    let extra = extra.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    let request = si::UpdateConfigurationRequest {
        rm_id: rm_id.to_owned(),
        config: config.to_owned(),
        extra_config: extra.collect(),
        ..Default::default()
    };
    let answer = admin.update_config(request).await.unwrap().into_inner();
    assert!(answer.success, "{}", answer.reason);
}

#[tokio::test]
async fn yaml_is_the_default_format() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    for (accept, kind) in [
        (&[JSON][..], "application/json"),
        (&[("Accept", "application/json, */*")], "application/x-yaml"),
        (&[], "application/x-yaml"),
    ] {
        let answer = service.http("GET", CONFIG, accept, "").await;
        let kind = format!("content-type: {kind}; charset=utf-8\r\n");
        assert!(answer.head.contains(&kind), "{accept:?}: {}", answer.head);
        assert!(answer.head.contains("access-control-allow-origin: *"), "{}", answer.head);
    }
}

#[tokio::test]
async fn json_and_yaml_differ_in_keys_and_empty_objects() {
    let service = Service::start();
    let before = json!({"DeadlockDetectionEnabled": false, "DeadlockTimeoutSeconds": 60});
    assert_eq!(configuration(&service).await, before, "before a registration");
    let _rm = Rm::register(&service, "rm").await;
    let shown = configuration(&service).await;
    let partition = &shown["Partitions"][0];
    for key in ["Preemption", "UserGroupResolver"] {
        assert_eq!(partition[key], json!({}), "{key}");
    }
    assert_eq!(partition["NodeSortPolicy"], json!({"Type": ""}));
    let leaf = json!({"Name": "a", "Resources": {}, "ChildTemplate": {"Resources": {}}});
    assert_eq!(partition["Queues"][0]["Queues"][0], leaf);
    let yaml = service.get(CONFIG).await;
    let checksum = shown["Checksum"].as_str().unwrap();
    let expected = format!(
        "partitions:\n\
         - name: default\n  \
           queues:\n  \
           - name: root\n    \
             parent: true\n    \
             submitacl: \"*\"\n    \
             queues:\n    \
             - name: a\n    \
             - name: b\n\
         checksum: {checksum}\n\
         deadlockdetectionenabled: false\n\
         deadlocktimeoutseconds: 60\n"
    );
    assert_eq!(yaml, expected);
}

#[tokio::test]
async fn the_checksum_covers_only_the_queues() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let before = configuration(&service).await;
    update(&service, "rm", QUEUES, &[("log.level", "WARN"), ("my.password", "t0p")]).await;
    let extra = configuration(&service).await;
    let settings = json!({"log.level": "WARN", "my.password": "********"});
    assert_eq!(extra["Extra"], settings);
    assert_eq!(extra["Checksum"], before["Checksum"]);
    update(&service, "rm", &format!("{QUEUES}          - name: c\n"), &[]).await;
    let queues = configuration(&service).await;
    assert_ne!(queues["Checksum"], before["Checksum"]);
    assert_eq!(queues["Partitions"][0]["Queues"][0]["Queues"][2]["Name"], "c");
    assert_eq!(queues.get("Extra"), None);
    let dump: Value = service.http("GET", "/debug/fullstatedump", &[], "").await.json();
    assert_eq!(dump["config"], queues);
}

#[tokio::test]
async fn a_root_that_was_not_written_is_there() {
    let service = Service::start();
    let queues = "partitions: [{name: default, queues: [{name: Etl}]}]";
    let mut client = service.client().await;
    client.register_resource_manager(registration("rm", queues)).await.unwrap();
    let shown = configuration(&service).await;
    let root = &shown["Partitions"][0]["Queues"][0];
    assert_eq!((&root["Name"], &root["Parent"]), (&json!("root"), &json!(true)));
    assert_eq!(root["Queues"][0]["Name"], "Etl");
}

#[tokio::test]
async fn the_first_manager_is_the_default() {
    let service = Service::start();
    let mut client = service.client().await;
    for rm in ["one", "two"] {
        let queues = format!("partitions: [{{name: default, queues: [{{name: {rm}}}]}}]");
        client.register_resource_manager(registration(rm, &queues)).await.unwrap();
    }
    for (query, queue) in [("", "one"), ("?rm=one", "one"), ("?rm=two", "two")] {
        let shown = service.http("GET", &format!("{CONFIG}{query}"), &[JSON], "").await.json();
        assert_eq!(shown["Partitions"][0]["Queues"][0]["Queues"][0]["Name"], queue, "{query}");
    }
    let unknown = service.http("GET", "/ws/v1/config?rm=three", &[], "").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.json()["message"], "resource manager `three` is not registered");
}

#[tokio::test]
async fn a_check_tells_all_and_changes_nothing() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let before = (configuration(&service).await, pages(&service).await);
    let policy = QUEUES.replace(
        "    queues:\n      - name: root",
        "    nodesortpolicy: {type: best}\n    queues:\n      - name: root",
    );
    let limit =
        "            limits:\n              - {limit: l, users: [a], maxresources: {vcore: 0}}\n";
    for (text, faults) in [
        (QUEUES.to_owned(), &[][..]),
        (String::new(), &[]),
        (policy.clone(), &["best"]),
        (format!("bogus: 1\n{QUEUES}"), &["bogus"]),
        (format!("bogus: 1\n{policy}"), &["bogus", "best"]),
        ("partitions: [".to_owned(), &["E_CONF_PARSE"]),
        ("\u{0}\u{7}".to_owned(), &["E_CONF_PARSE"]),
        (format!("{QUEUES}{limit}"), &["E_LIMIT_RES_ZERO"]),
        (QUEUES.replace("name: b", "name: '@recovery@'"), &["@recovery@"]),
    ] {
        let answer = validate(&service, &text).await;
        assert_eq!(answer.status, 200, "{text}");
        let verdict = answer.json();
        assert_eq!(verdict["allowed"], faults.is_empty(), "{text}: {verdict}");
        let reason = verdict["reason"].as_str().unwrap_or_default();
        assert!(reason.lines().count() >= faults.len(), "{reason}");
        for fault in faults {
            assert!(reason.contains(fault), "{fault}: {reason}");
        }
        assert_eq!(verdict.get("checksum").is_some(), faults.is_empty(), "{verdict}");
    }
    assert_eq!((configuration(&service).await, pages(&service).await), before);
}

/// Returns the queue tree, and the metrics that a change of the queues would change.
async fn pages(service: &Service) -> (String, String) {
    let metrics = service.get("/ws/v1/metrics").await;
    let queues = metrics.lines().filter(|line| line.starts_with("yunikorn_"));
    let queues = queues.collect::<Vec<_>>().join("\n");
    (service.get("/ws/v1/partition/default/queues").await, queues)
}

#[tokio::test]
async fn the_checksum_of_an_update_is_foretold() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let text = format!("{QUEUES}          - name: c\n");
    let verdict = validate(&service, &text).await.json();
    assert_eq!(verdict["checksumMatch"], false);
    let own = format!("checksum: {}", verdict["checksum"].as_str().unwrap());
    for (text, matches) in
        [(format!("{text}{own}"), true), (format!("{text}checksum: {}", "F".repeat(64)), false)]
    {
        let again = validate(&service, &text).await.json();
        assert_eq!(again["allowed"], true);
        assert_eq!(again["checksum"], verdict["checksum"]);
        assert_eq!(again["checksumMatch"], matches);
    }
    update(&service, "rm", &text, &[]).await;
    assert_eq!(configuration(&service).await["Checksum"], verdict["checksum"]);
}

#[tokio::test]
async fn expensive_texts_are_refused_without_delaying_others() {
    let service = Service::start();
    let many = format!("partitions: [{}]", "x,".repeat(4 << 20));
    let rules = r"{name: user, filter: {users: ['(\w\W){900}']}}, ".repeat(20_000);
    let expressions = format!("partitions: [{{queues: [], placementrules: [{rules}]}}]");
    let many = validate(&service, &many[..8 << 20]);
    let checks = join_all((0..6).map(|_| validate(&service, &expressions)));
    let work = async {
        let rm = Rm::register(&service, "rm").await.with_nodes(&["n"]).await;
        let rm = rm.with_application("app", "root.a").await;
        rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
        rm.until("it is placed", |seen| seen.new.len() == 1).await;
    };
    let (many, checks, ()) = tokio::join!(many, checks, work);
    let reason = |answer: &HttpAnswer| {
        let verdict = answer.json();
        assert_eq!((answer.status, &verdict["allowed"]), (200, &json!(false)));
        verdict["reason"].as_str().unwrap().to_owned()
    };
    let many = reason(&many);
    assert!(many.contains("at most 500000 values") || many.contains("within 5 s"), "{many}");
    for reason in checks.iter().map(reason) {
        let is_shortened = reason.lines().count() == 201 && reason.ends_with("which are left out");
        assert!(is_shortened || reason.contains("within 5 s"), "{reason:.300}");
    }
    let peak = service.peak_memory();
    assert!(peak < 1 << 30, "{peak} bytes");

    // A registration has the same limit.
    let mut client = service.client().await;
    let text = &expressions[..];
    let refused = client.register_resource_manager(registration("other", text)).await.unwrap_err();
    assert_eq!(reason_of(&refused), "CONFIG_INVALID");
    assert!(refused.message().len() < 8 << 10, "{} bytes", refused.message().len());
}

#[tokio::test]
async fn a_text_that_is_too_long_is_refused() {
    let service = Service::start_with(&[("REST__MAX_BODY_BYTES", "1000")]);
    assert_eq!(validate(&service, &" ".repeat(1000)).await.status, 200);
    let refused = validate(&service, &"#".repeat(1001)).await;
    assert_eq!(refused.status, 413);
    assert_eq!(refused.json()["status_code"], 413);
}
