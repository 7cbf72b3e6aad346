//! One configuration for all members: set at one of three, brought by a resource manager that moves,
//! and read from the file of one.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use monoceros_proto::v1::core_message::Body as Core;
use monoceros_proto::v1::shim_message::Body as Shim;
use tokio::time::{Instant, sleep, timeout};
use tonic::Request;

use crate::harness::{PATIENCE, QUEUES, Rm, Service, TempFile, reason_of, registration, shim};
use crate::{Bed, LEASE, PAUSE, PROOF, is_allocated, register, served, until_ready};

/// `QUEUES` with another leaf.
fn with_leaf(name: &str) -> String {
    format!("{QUEUES}          - name: {name}\n")
}

/// Sets the configuration of a resource manager, or of the only one if `rm` is empty. Returns why
/// not, after the reason of the status if it failed.
async fn set(member: &Service, rm: &str, config: String) -> Result<(), String> {
    set_with(member, rm, config, "false").await
}

/// Sets the configuration of a resource manager, which stores it if `persist` is `true`.
async fn set_with(
    member: &Service,
    rm: &str,
    config: String,
    persist: &'static str,
) -> Result<(), String> {
    let mut client = AdminServiceClient::new(member.channel().await);
    let rm_id = rm.to_owned();
    let request = si::UpdateConfigurationRequest { rm_id, config, ..Default::default() };
    let mut request = Request::new(request);
    request.metadata_mut().insert("x-si-persist", persist.parse().unwrap());
    let answer = match client.update_config(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return Err(format!("{}: {}", reason_of(&status), status.message())),
    };
    if answer.success { Ok(()) } else { Err(answer.reason) }
}

/// Attaches a shim that stores every configuration. Returns those that it has stored.
async fn stores(member: &Service, rm: &str) -> Arc<Mutex<Vec<String>>> {
    let hello = shim::hello(rm, &[v1::Capability::ConfigStore]);
    let mut shim = shim::Shim::attach(member, hello).await;
    shim.welcome().await;
    let stored = Arc::<Mutex<Vec<String>>>::default();
    let of_shim = Arc::clone(&stored);
    tokio::spawn(async move {
        loop {
            let asked = |body: &Core| match body {
                Core::ConfigSave(save) => Some(save.clone()),
                _ => None,
            };
            let save = shim.until("a configuration to keep", asked).await;
            of_shim.lock().unwrap().push(save.config);
            let (request_id, success) = (save.request_id, true);
            let result = v1::ConfigSaveResult { request_id, success, ..Default::default() };
            shim.try_say(Shim::ConfigSave(result)).await;
        }
    });
    stored
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
async fn a_trial_asks_every_member_and_changes_nothing() {
    let Some(bed) = Bed::new().await else { return };
    let m1 = bed.start("m1");
    until_ready(&m1).await;
    register(&m1, "one", PROOF).await.unwrap();
    register(&m1, "two", PROOF).await.unwrap();
    let m2 = bed.start("m2");
    until_ready(&m2).await;
    register(&m2, "two", PROOF).await.unwrap();
    let _two = served(&m2, "two").await;
    sleep(LEASE / 2).await;
    let parent = QUEUES.replace("- name: a", "- name: a\n            parent: true");
    for (config, refused) in [(parent, true), (with_leaf("new"), false)] {
        let rm_id = "one".to_owned();
        let request = si::UpdateConfigurationRequest { rm_id, config, ..Default::default() };
        let mut client = AdminServiceClient::new(m1.channel().await);
        let answer = client.validate_config(request).await.unwrap().into_inner();
        assert_eq!(answer.success, !refused, "{}", answer.reason);
        let begins = "member `m2`, resource manager `two`: ";
        assert_eq!(answer.reason.starts_with(begins), refused, "{}", answer.reason);
        assert_eq!(config_of(&m1, "one").await, QUEUES);
    }
    // A member that stands still puts a change off, which may be made again.
    m2.send_signal("-STOP");
    let why = set(&m1, "one", with_leaf("new")).await.unwrap_err();
    let begins = "CONFIG_UNTRIED: member `m2`, resource manager `two`: ";
    assert!(why.starts_with(begins) && !why.contains("http2"), "{why}");
    assert_eq!(config_of(&m1, "one").await, QUEUES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_is_written_and_not_applied_is_told_with_all_reasons() {
    let Some(bed) = Bed::new().await else { return };
    let m1 = bed.start("m1");
    until_ready(&m1).await;
    register(&m1, "one", PROOF).await.unwrap();
    register(&m1, "two", PROOF).await.unwrap();
    let m2 = bed.start("m2");
    until_ready(&m2).await;
    register(&m2, "two", PROOF).await.unwrap();
    let one = Rm::open(m1.client().await, "one").await;
    one.hello().await;
    let one = one.with_nodes(&["n1"]).await;
    sleep(LEASE / 2).await;
    let parent = QUEUES.replace("- name: a", "- name: a\n            parent: true");
    // The work at one member changes while the other one has not tried the text yet.
    m2.send_signal("-STOP");
    let works = async {
        sleep(LEASE / 20).await;
        let one = one.with_application("app", "root.a").await;
        m2.send_signal("-CONT");
        one
    };
    let (set, one) = tokio::join!(set_with(&m1, "one", parent.clone(), "true"), works);
    let why = set.unwrap_err();
    let begins = "the configuration of policy group `queues` is changed (version 2), and is not in \
                  force for `one`, where its queues are tried again and the settings of \
                  `extraConfig` are not: ";
    assert!(why.starts_with(begins), "{why}");
    assert!(why.contains("\nthe resource manager did not keep it: "), "{why}");
    until_config(&m2, "two", &parent).await;
    assert_eq!(config_of(&m1, "one").await, QUEUES);
    let [application_id, partition_name] = ["app", "default"].map(str::to_owned);
    let gone = si::RemoveApplicationRequest { application_id, partition_name };
    one.send_applications(vec![], vec![gone]).await;
    until_config(&m1, "one", &parent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_of_the_only_rm_is_set_at_any_member() {
    let Some(bed) = Bed::new().await else { return };
    let m1 = bed.start("m1");
    until_ready(&m1).await;
    register(&m1, "one", PROOF).await.unwrap();
    let m2 = bed.start("m2");
    until_ready(&m2).await;
    sleep(LEASE / 2).await;
    let new = with_leaf("new");
    set(&m2, "", new.clone()).await.unwrap();
    assert_eq!(config_of(&m1, "one").await, new);
    let mut client = AdminServiceClient::new(m2.channel().await);
    let check = si::UpdateConfigurationRequest { config: new, ..Default::default() };
    let answer = client.validate_config(check).await.unwrap().into_inner();
    assert!(answer.success, "{}", answer.reason);

    // A member that serves one of two does not take the text for its own.
    register(&m2, "two", PROOF).await.unwrap();
    sleep(LEASE / 2).await;
    for member in [&m1, &m2] {
        let why = set(member, "", with_leaf("other")).await.unwrap_err();
        assert!(why.starts_with("RM_ID_MISSING: "), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_configurations_set_at_once_one_counts() {
    let Some(bed) = Bed::new().await else { return };
    let m1 = bed.start("m1");
    until_ready(&m1).await;
    register(&m1, "one", PROOF).await.unwrap();
    register(&m1, "two", PROOF).await.unwrap();
    let m2 = bed.start("m2");
    until_ready(&m2).await;
    register(&m2, "two", PROOF).await.unwrap();
    sleep(LEASE / 2).await;
    let (of_one, of_two) = (stores(&m1, "one").await, stores(&m2, "two").await);
    let mut n_lost = 0;
    for round in 0..5 {
        let texts = ["a", "b"].map(|of| with_leaf(&format!("{of}-{round}")));
        let begun = Instant::now();
        let (one, two) = tokio::join!(
            set_with(&m1, "one", texts[0].clone(), "true"),
            set_with(&m2, "two", texts[1].clone(), "true"),
        );
        assert!(begun.elapsed() < Duration::from_secs(5), "they wait for each other");
        assert!(one.is_ok() || two.is_ok(), "{one:?} {two:?}");
        for (set, stored, text) in [(&one, &of_one, &texts[0]), (&two, &of_two, &texts[1])] {
            assert_eq!(stored.lock().unwrap().contains(text), set.is_ok(), "{set:?}");
            let Err(why) = set else { continue };
            n_lost += 1;
            let begins = "CONFIG_CHANGED: the configuration of policy group `queues` was changed \
                          meanwhile: version ";
            assert!(why.starts_with(begins), "{why}");
        }
        if one.is_err() || two.is_err() {
            let text = &texts[usize::from(one.is_err())];
            until_config(&m1, "one", text).await;
            until_config(&m2, "two", text).await;
        }
    }
    assert!(n_lost > 0, "never at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_is_kept_late_does_not_replace_a_newer_one() {
    let Some(bed) = Bed::new().await else { return };
    let m1 = bed.start("m1");
    until_ready(&m1).await;
    register(&m1, "one", PROOF).await.unwrap();
    register(&m1, "two", PROOF).await.unwrap();
    let m2 = bed.start("m2");
    until_ready(&m2).await;
    register(&m2, "two", PROOF).await.unwrap();
    sleep(LEASE / 2).await;
    let hello = shim::hello("one", &[v1::Capability::ConfigStore]);
    let mut shim = shim::Shim::attach(&m1, hello).await;
    shim.welcome().await;
    let (older, newer) = (with_leaf("older"), with_leaf("newer"));
    let late = async {
        let asked = |body: &Core| match body {
            Core::ConfigSave(save) => Some(save.request_id),
            _ => None,
        };
        let request_id = shim.until("a configuration to keep", asked).await;
        set(&m2, "two", newer.clone()).await.unwrap();
        until_config(&m1, "one", &newer).await;
        let success = true;
        let result = v1::ConfigSaveResult { request_id, success, ..Default::default() };
        shim.say(Shim::ConfigSave(result)).await;
    };
    let (set, ()) = tokio::join!(set_with(&m1, "one", older, "true"), late);
    set.unwrap();
    let newer_again = until_config(&m1, "one", &newer);
    timeout(Duration::from_secs(20), newer_again).await.expect("the older one stays");
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
