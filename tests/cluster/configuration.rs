//! One configuration for all members: set at one of three, brought by a resource manager that moves,
//! and read from the file of one.

use std::fs;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tokio::time::{Instant, sleep};
use tonic::Request;

use crate::harness::{PATIENCE, QUEUES, Service, TempFile, registration};
use crate::{Bed, LEASE, PAUSE, PROOF, is_allocated, register, served, until_ready};

/// `QUEUES` with another leaf.
fn with_leaf(name: &str) -> String {
    format!("{QUEUES}          - name: {name}\n")
}

/// Sets the configuration of a resource manager at its owner. Returns why not.
async fn set(member: &Service, rm: &str, config: String) -> Result<(), String> {
    let mut client = AdminServiceClient::new(member.channel().await);
    let rm_id = rm.to_owned();
    let request = si::UpdateConfigurationRequest { rm_id, config, ..Default::default() };
    let answer = client.update_config(request).await.unwrap().into_inner();
    if answer.success { Ok(()) } else { Err(answer.reason) }
}

/// The configuration of a resource manager at its owner.
async fn config_of(member: &Service, rm: &str) -> String {
    let mut client = AdminServiceClient::new(member.channel().await);
    let request = v1::GetConfigRequest { rm_id: rm.to_owned(), ..Default::default() };
    client.get_config(request).await.unwrap().into_inner().config
}

/// Waits until a configuration is in force.
async fn until_config(member: &Service, rm: &str, config: &str) {
    let begun = Instant::now();
    while config_of(member, rm).await != config {
        assert!(begun.elapsed() < PATIENCE, "{}", member.log());
        sleep(PAUSE).await;
    }
}

/// Registers without a configuration, in a policy group.
async fn register_in(member: &Service, rm: &str, group: &str) {
    let mut request = registration(rm, "");
    request.policy_group = group.to_owned();
    member.client().await.register_resource_manager(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_set_at_one_member_counts_at_all() {
    let Some(bed) = Bed::new().await else { return };
    // Alone at first, so that no resource manager is handed on.
    let m2 = bed.start("m2");
    until_ready(&m2).await;
    register(&m2, "one", PROOF).await.unwrap();
    register(&m2, "two", None).await.unwrap();
    let (m1, m3) = (bed.start("m1"), bed.start("m3"));
    until_ready(&m1).await;
    until_ready(&m3).await;
    assert_eq!(register(&m1, "one", PROOF).await.unwrap(), 2);
    sleep(LEASE / 2).await;
    let new = with_leaf("new");
    set(&m1, "one", new.clone()).await.unwrap();
    assert_eq!(config_of(&m1, "one").await, new);
    until_config(&m2, "two", &new).await;

    // The owner is lost, and the process registers elsewhere with the text that it knows.
    m1.send_signal("-KILL");
    let mut again = Request::new(registration("one", QUEUES));
    again.metadata_mut().insert("x-si-proof", PROOF.unwrap().parse().unwrap());
    again.metadata_mut().insert("x-si-session", "2".parse().unwrap());
    m3.client().await.register_resource_manager(again).await.unwrap();
    assert_eq!(config_of(&m3, "one").await, new);
    let rm = served(&m3, "one").await;
    is_allocated(&rm, "a1").await;

    // A configuration that one resource manager cannot have is refused for all.
    let parent = QUEUES.replace("- name: a", "- name: a\n            parent: true");
    let why = set(&m2, "two", parent).await.unwrap_err();
    assert!(why.starts_with("member `m3`, resource manager `one`: "), "{why}");
    assert_eq!(config_of(&m2, "two").await, new);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_of_one_member_counts_at_all() {
    let Some(bed) = Bed::new().await else { return };
    let file = TempFile::new("queues.yaml", QUEUES);
    let m2 = bed.start("m2");
    until_ready(&m2).await;
    register_in(&m2, "silent", "etl").await;
    let m1 = bed.start_with("m1", &[("SCHEDULER__QUEUES", file.path())]);
    until_ready(&m1).await;
    m1.until_logged("queue configuration written", 1).await;
    until_config(&m2, "silent", QUEUES).await;
    let new = with_leaf("new");
    fs::write(file.path(), &new).unwrap();
    until_config(&m2, "silent", &new).await;
}
