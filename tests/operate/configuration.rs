//! Configurations over the admin service.

use std::collections::BTreeMap;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response};

use crate::harness::{
    self, QUEUES, Rm, Service, TempFile, application, ask, reason_of, registration,
};

async fn admin(service: &Service) -> AdminServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    AdminServiceClient::new(endpoint.connect().await.unwrap())
}

/// Makes a configuration with a third queue.
fn with_queue_c() -> String {
    format!("{QUEUES}          - name: c\n")
}

fn update(config: &str) -> si::UpdateConfigurationRequest {
    si::UpdateConfigurationRequest { config: config.to_owned(), ..Default::default() }
}

fn checksum<T>(response: &Response<T>, which: &str) -> String {
    let key = format!("x-si-checksum-{which}");
    response.metadata().get(key).unwrap().to_str().unwrap().to_owned()
}

fn extra(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn a_valid_configuration_applies_before_the_answer() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let mut admin = admin(&service).await;
    let before = admin.get_config(v1::GetConfigRequest::default()).await.unwrap().into_inner();
    assert_eq!((before.config.as_str(), before.policy_group.as_str()), (QUEUES, "queues"));

    let response = admin.update_config(update(&with_queue_c())).await.unwrap();
    assert_eq!(checksum(&response, "old"), before.checksum);
    let new = checksum(&response, "new");
    assert_ne!(new, before.checksum);
    let answer = response.into_inner();
    assert!(answer.success, "{}", answer.reason);
    assert_eq!(answer.old_config, QUEUES);
    let after = admin.get_config(v1::GetConfigRequest::default()).await.unwrap().into_inner();
    assert_eq!((after.config, after.checksum), (with_queue_c(), new));

    let rm = rm.with_application("app", "root.c").await;
    rm.send_allocations(vec![], vec![ask("app", "x")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn an_update_may_be_as_large_as_a_registration() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let much = "x".repeat(12 << 20);
    let request =
        si::UpdateConfigurationRequest { extra_config: extra(&[("a", &much)]), ..update(QUEUES) };
    let answer = admin(&service).await.validate_config(request).await.unwrap().into_inner();
    assert!(answer.success, "{}", answer.reason);
}

#[tokio::test]
async fn an_invalid_configuration_gets_every_reason() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let mut admin = admin(&service).await;
    let bad = "partitions:\n  - name: default\n    bogus: true\n    queues:\n      - name: a b\n";
    let request =
        si::UpdateConfigurationRequest { extra_config: extra(&[("a", "b")]), ..update(bad) };
    let answer = admin.update_config(request).await.unwrap().into_inner();
    assert!(!answer.success);
    assert!(answer.reason.contains("bogus") && answer.reason.contains("a b"), "{}", answer.reason);
    let config = admin.get_config(v1::GetConfigRequest::default()).await.unwrap().into_inner();
    assert_eq!((config.config.as_str(), config.extra_config), (QUEUES, extra(&[])));

    let other = si::UpdateConfigurationRequest { policy_group: "other".into(), ..update(QUEUES) };
    let answer = admin.update_config(other).await.unwrap().into_inner();
    assert!(!answer.success && answer.reason.contains("`other`"), "{}", answer.reason);
}

#[tokio::test]
async fn equal_queues_only_update_other_settings() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let mut admin = admin(&service).await;
    let request =
        si::UpdateConfigurationRequest { extra_config: extra(&[("a", "b")]), ..update(QUEUES) };
    let response = admin.update_config(request).await.unwrap();
    assert_eq!(checksum(&response, "old"), checksum(&response, "new"));
    assert!(response.into_inner().success);
    let config = admin.get_config(v1::GetConfigRequest::default()).await.unwrap().into_inner();
    assert_eq!(config.extra_config, extra(&[("a", "b")]));
}

#[tokio::test]
async fn an_unknown_rm_is_a_status() {
    let service = Service::start();
    let mut admin = admin(&service).await;
    for rm_id in ["", "rm"] {
        let request = si::UpdateConfigurationRequest { rm_id: rm_id.into(), ..update(QUEUES) };
        let status = admin.update_config(request).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(reason_of(&status), "RM_NOT_REGISTERED");
    }
    let _one = Rm::register(&service, "one").await;
    let old = si::UpdateConfigurationRequest {
        configs: with_queue_c(),
        rm_id: "one".into(),
        ..Default::default()
    };
    assert!(admin.update_config(old).await.unwrap().into_inner().success);
    let _two = Rm::register(&service, "two").await;
    let status = admin.update_config(update(QUEUES)).await.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::InvalidArgument, "RM_ID_MISSING"));
}

#[tokio::test]
async fn a_resumed_session_keeps_the_present_configuration() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let mut admin = admin(&service).await;
    admin.update_config(update(&with_queue_c())).await.unwrap();
    let mut client = service.client().await;
    for (config, expected) in [(&*with_queue_c(), "attached"), (QUEUES, "replaced")] {
        let mut request = Request::new(registration("rm", config));
        request.metadata_mut().insert("x-si-register-mode", "attach".parse().unwrap());
        let response = client.register_resource_manager(request).await.unwrap();
        assert_eq!(response.metadata().get("x-si-registered").unwrap(), expected);
    }
}

#[tokio::test]
async fn trying_a_configuration_has_no_effect() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let mut admin = admin(&service).await;
    let response = admin.validate_config(update(&with_queue_c())).await.unwrap();
    assert_ne!(checksum(&response, "old"), checksum(&response, "new"));
    assert!(response.into_inner().success);
    let answer = admin.validate_config(update("partitions: 3\n")).await.unwrap().into_inner();
    assert!(!answer.success && !answer.reason.is_empty());
    let config = admin.get_config(v1::GetConfigRequest::default()).await.unwrap().into_inner();
    assert_eq!(config.config, QUEUES);
}

#[tokio::test]
async fn secrets_are_masked_and_survive_a_round_trip() {
    let service = Service::start();
    let secrets = extra(&[("ldap.password", "s3cr3t"), ("log.level", "info")]);
    let registration =
        si::RegisterResourceManagerRequest { extra_config: secrets, ..registration("rm", QUEUES) };
    service.client().await.register_resource_manager(registration).await.unwrap();
    let mut admin = admin(&service).await;
    let shown = admin.get_config(v1::GetConfigRequest::default()).await.unwrap().into_inner();
    assert_eq!(shown.extra_config["log.level"], "info");
    assert_eq!(shown.extra_config["ldap.password"], "********");
    let back = si::UpdateConfigurationRequest {
        extra_config: shown.extra_config,
        ..update(&with_queue_c())
    };
    assert!(admin.update_config(back).await.unwrap().into_inner().success);
    let unknown = si::UpdateConfigurationRequest {
        extra_config: extra(&[("other.token", "********")]),
        ..update(QUEUES)
    };
    let status = admin.update_config(unknown).await.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::InvalidArgument, "FIELD_INVALID"));
    assert!(status.message().contains("`other.token`"), "{}", status.message());
}

#[tokio::test]
async fn an_rm_that_keeps_no_configuration_refuses_to() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let mut admin = admin(&service).await;
    let mut request = Request::new(update(&with_queue_c()));
    request.metadata_mut().insert("x-si-persist", "true".parse().unwrap());
    let answer = admin.update_config(request).await.unwrap().into_inner();
    assert!(!answer.success && answer.reason.contains("resource manager"), "{}", answer.reason);
    let config = admin.get_config(v1::GetConfigRequest::default()).await.unwrap().into_inner();
    assert_eq!(config.config, QUEUES);
    let mut request = Request::new(update(QUEUES));
    request.metadata_mut().insert("x-si-persist", "perhaps".parse().unwrap());
    let status = admin.update_config(request).await.unwrap_err();
    assert!(status.message().contains("x-si-persist"), "{}", status.message());
}

#[tokio::test]
async fn sighup_rereads_the_queue_file() {
    let file = TempFile::new("hangup.yaml", QUEUES);
    let service = Service::start_with(&[("SCHEDULER__QUEUES", file.path())]);
    let mut client = service.client().await;
    client.register_resource_manager(registration("without", "")).await.unwrap();
    let without = Rm::open(client, "without").await;
    let _with = Rm::register(&service, "with").await;
    let mut admin = admin(&service).await;
    let mut config_of = async |rm_id: &str| {
        let request = v1::GetConfigRequest { rm_id: rm_id.into(), ..Default::default() };
        admin.get_config(request).await.unwrap().into_inner().config
    };

    std::fs::write(file.path(), with_queue_c()).unwrap();
    service.hang_up();
    service.until_logged("queue configuration read again", 1).await;
    assert_eq!(config_of("without").await, with_queue_c());
    assert_eq!(config_of("with").await, QUEUES, "it brought its own");
    let without = without.with_application("app", "root.c").await;

    // A ConfigMap is accepted, as by the other tools.
    let lines = with_queue_c().trim().replace('\n', "\n    ");
    let map = format!("apiVersion: v1\nkind: ConfigMap\ndata:\n  queues.yaml: |\n    {lines}\n");
    std::fs::write(file.path(), map).unwrap();
    service.hang_up();
    service.until_logged("queue configuration read again", 2).await;
    assert_eq!(config_of("without").await.trim(), with_queue_c().trim());
    std::fs::write(file.path(), with_queue_c()).unwrap();
    service.hang_up();
    service.until_logged("queue configuration read again", 3).await;

    // Each error is logged with its file, and nothing changes.
    let bad = "partitions:\n  - name: default\n    bogus: true\n    queues:\n      - name: a b\n";
    std::fs::write(file.path(), bad).unwrap();
    service.hang_up();
    service.until_logged("what was read before stays", 1).await;
    let log = service.log();
    for fragment in ["bogus", "a b"] {
        let is_logged = |line: &str| line.contains(fragment) && line.contains(file.path());
        assert!(log.lines().any(is_logged), "{fragment}:\n{log}");
    }
    assert_eq!(config_of("without").await, with_queue_c());

    // A queue with an application cannot become a parent: the file is valid, and this RM keeps the
    // old configuration.
    let parent = format!("{}            queues:\n              - name: d\n", with_queue_c());
    std::fs::write(file.path(), &parent).unwrap();
    service.hang_up();
    service.until_logged("queue configuration not in force", 1).await;
    assert_eq!(config_of("without").await, with_queue_c());
    without.send_applications(vec![application("other", "root.c")], vec![]).await;
    without.until("goes on", |seen| seen.accepted_applications.len() == 2).await;
    let mut client = service.client().await;
    client.register_resource_manager(registration("late", "")).await.unwrap();
    assert_eq!(config_of("late").await, parent);
}

#[tokio::test]
async fn a_partition_is_drained_stopped_and_reopened() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    let mut admin = admin(&service).await;
    let set = |state: v1::PartitionState| v1::SetPartitionStateRequest {
        state: state.into(),
        ..Default::default()
    };
    let active = v1::PartitionState::PartitionActive;
    let stopped = v1::PartitionState::PartitionStopped;
    let was = admin.set_partition_state(set(stopped)).await.unwrap().into_inner();
    assert_eq!(was.old_state(), active);
    rm.send_applications(vec![application("late", "root.a")], vec![]).await;
    rm.expect_rejection("late", "R_PARTITION_STOPPED").await;
    let was = admin.set_partition_state(set(active)).await.unwrap().into_inner();
    assert_eq!(was.old_state(), stopped);
    rm.send_allocations(vec![], vec![ask("app", "x")], vec![]).await;
    rm.until("placed again", |seen| seen.new.len() == 1).await;

    let status = admin.set_partition_state(set(v1::PartitionState::Unspecified)).await.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::InvalidArgument, "FIELD_INVALID"));
    let unknown = v1::SetPartitionStateRequest { partition_name: "gpu".into(), ..set(stopped) };
    let status = admin.set_partition_state(unknown).await.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::NotFound, "PARTITION_UNKNOWN"));
    admin.set_partition_state(set(v1::PartitionState::PartitionDraining)).await.unwrap();
    let status = admin.set_partition_state(set(stopped)).await.unwrap_err();
    assert_eq!((status.code(), &*reason_of(&status)), (Code::FailedPrecondition, "STATE_REFUSED"));
    assert!(status.message().contains("`default`"), "{}", status.message());
}

#[tokio::test]
async fn the_command_reads_and_changes_the_configuration() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let address = service.grpc.to_string();
    let shell =
        |arguments: &[&str]| harness::run(&[&["config", "--grpc", &*address], arguments].concat());
    let (code, stdout, _) = shell(&["get"]);
    assert_eq!((code, &*stdout), (Some(0), QUEUES));
    let good = TempFile::new("admin-good.yaml", &with_queue_c());
    let bad = TempFile::new("admin-bad.yaml", "partitions:\n  - bogus: true\n");
    let (code, _, stderr) = shell(&["set", bad.path()]);
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with(bad.path()) && stderr.contains("bogus"), "{stderr}");
    for (arguments, expected) in [
        (&["set", good.path(), "--check"][..], QUEUES.to_owned()),
        (&["set", good.path()], with_queue_c()),
    ] {
        assert_eq!(shell(arguments).0, Some(0));
        assert_eq!(shell(&["get"]).1, expected);
    }
}

/// Warnings about the file are dropped if the nodes have the resource types.
#[tokio::test(flavor = "multi_thread")]
async fn warnings_about_types_go_by_what_nodes_have() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    let amounts = ["vcore", "memory", "cpu", "nvidia.com/gpu"].map(|name| (name, 1_000));
    rm.send_nodes(vec![si::NodeInfo {
        node_id: "n1".to_owned(),
        action: si::node_info::ActionFromRm::Create.into(),
        schedulable_resource: Some(harness::amount(&amounts)),
        ..Default::default()
    }])
    .await;
    rm.until("a node", |seen| !seen.accepted_nodes.is_empty()).await;
    let quotas =
        "            maxapplications: 0\n            resources: {max: {cpu: 4, gpu: 1, mem: 1}}\n";
    let file = TempFile::new("types.yaml", &format!("{}{quotas}", with_queue_c()));
    let (code, _, alone) = harness::run(&["validate", file.path()]);
    assert_eq!(code, Some(0));
    for name in ["cpu", "mem"] {
        let doubt =
            format!("`{name}` in max of queue `root.c` is hardly a type that requests name");
        assert!(alone.contains(&doubt), "{alone}");
    }
    let address = service.grpc.to_string();
    for check in [&["--check"][..], &[], &[]] {
        let command = ["config", "--grpc", &*address, "set", file.path()];
        let (code, stdout, stderr) = harness::run(&[&command[..], check].concat());
        assert_eq!(code, Some(0), "{stderr}");
        assert!(
            stderr.lines().all(|line| line.starts_with(&format!("{}: warning: ", file.path())))
        );
        assert!(stderr.contains("maxapplications 0 of queue `root.c` has no effect"), "{stderr}");
        assert!(!stdout.contains("warning"), "{stdout}");
        let is_same = stdout.contains("it means the same");
        assert_eq!(stderr.contains("`cpu`"), is_same, "{stderr}");
        if !is_same {
            let ending = "is no type that nodes have or requests name; did you mean";
            for (name, meant) in [("gpu", "nvidia.com/gpu"), ("mem", "memory")] {
                let doubt = format!("`{name}` in max of queue `root.c` {ending} `{meant}`?");
                assert!(stderr.contains(&doubt), "{stderr}");
            }
        }
    }
}
