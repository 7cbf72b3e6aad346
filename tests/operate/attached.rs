//! Requests that the scheduler passes to a shim: to store a configuration, and to report its state.

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros::grpc::stubs::v1::callback_service_client::CallbackServiceClient;
use monoceros::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use monoceros_proto::v1::core_message::Body as Core;
use monoceros_proto::v1::shim_message::Body as Shim;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use crate::harness::{PATIENCE, QUEUES, Rm, Service, shim};

async fn channel(service: &Service) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    endpoint.connect().await.unwrap()
}

/// Attaches a shim that answers with `answer`. Returns when the scheduler knows it.
async fn attach(
    service: &Service,
    capability: v1::Capability,
    answer: impl Fn(&Core) -> Option<Shim> + Send + 'static,
) {
    let (sender, messages) = mpsc::channel(16);
    let hello = v1::Hello {
        rm_id: "rm".into(),
        capabilities: vec![capability.into()],
        ..Default::default()
    };
    let say = |body| v1::ShimMessage { body: Some(body) };
    sender.send(say(Shim::Hello(hello))).await.unwrap();
    let mut client = CallbackServiceClient::new(channel(service).await);
    let mut received = client.attach(ReceiverStream::new(messages)).await.unwrap().into_inner();
    let welcome = timeout(PATIENCE, received.message()).await.unwrap().unwrap().unwrap();
    assert!(matches!(welcome.body, Some(Core::Welcome(_))), "{welcome:?}");
    tokio::spawn(async move {
        while let Ok(Some(message)) = received.message().await {
            if let Some(body) = message.body.as_ref().and_then(&answer) {
                let _ = sender.send(say(body)).await;
            }
        }
    });
}

/// A shim that stores only configurations with a queue `kept`.
fn choosy(question: &Core) -> Option<Shim> {
    let Core::ConfigSave(save) = question else { return None };
    let success = save.config.contains("kept");
    let reason = if success { "" } else { "the disk is full" };
    let (request_id, reason) = (save.request_id, reason.into());
    Some(Shim::ConfigSave(v1::ConfigSaveResult {
        request_id,
        success,
        reason,
        ..Default::default()
    }))
}

#[tokio::test]
async fn an_update_needs_the_managers_storage() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    attach(&service, v1::Capability::ConfigStore, choosy).await;
    let mut admin = AdminServiceClient::new(channel(&service).await);
    for (queue, kept) in [("lost", false), ("kept", true)] {
        let before = admin.get_config(v1::GetConfigRequest::default()).await.unwrap().into_inner();
        let config = format!("{QUEUES}          - name: {queue}\n");
        let request =
            si::UpdateConfigurationRequest { config: config.clone(), ..Default::default() };
        let mut request = Request::new(request);
        request.metadata_mut().insert("x-si-persist", "true".parse().unwrap());
        let answer = admin.update_config(request).await.unwrap().into_inner();
        assert_eq!(answer.success, kept, "{}", answer.reason);
        assert_eq!(answer.reason.contains("the disk is full"), !kept, "{}", answer.reason);
        let after = admin.get_config(v1::GetConfigRequest::default()).await.unwrap().into_inner();
        assert_eq!(after.config, if kept { config } else { before.config });
    }
}

#[tokio::test]
async fn an_update_continues_without_its_caller() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let hello = shim::hello("rm", &[v1::Capability::ConfigStore]);
    let mut shim = shim::Shim::attach(&service, hello).await;
    shim.welcome().await;
    let config = format!("{QUEUES}          - name: kept\n");
    let change = si::UpdateConfigurationRequest { config: config.clone(), ..Default::default() };
    let mut request = Request::new(change.clone());
    request.metadata_mut().insert("x-si-persist", "true".parse().unwrap());
    let mut caller = AdminServiceClient::new(channel(&service).await);
    let call = tokio::spawn(async move { caller.update_config(request).await });
    let keeps = shim.until("a configuration to keep", choosy).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    // Runs after the change whose caller has given up.
    let mut admin = AdminServiceClient::new(channel(&service).await);
    let next = tokio::spawn(async move { admin.validate_config(change).await });
    shim.say(keeps).await;
    let answer = timeout(PATIENCE, next).await.unwrap().unwrap().unwrap().into_inner();
    assert_eq!(answer.old_config, config);
}

fn talkative(question: &Core) -> Option<Shim> {
    let Core::StateDump(request) = question else { return None };
    let chunk = v1::StateDumpChunk {
        request_id: request.request_id,
        last: true,
        data: br#"{"cache":{"pods":3}}"#.to_vec(),
        ..Default::default()
    };
    Some(Shim::StateDump(chunk))
}

fn silent(_question: &Core) -> Option<Shim> {
    None
}

async fn diagnostics(service: &Service, include_rm: bool) -> Value {
    let mut metrics = MetricsServiceClient::new(channel(service).await);
    let sections = vec!["rmDiagnostics".to_owned()];
    let request = v1::StateDumpParameters { rm_id: "rm".into(), sections, include_rm };
    let mut parts = metrics.get_state_dump(request).await.unwrap().into_inner();
    let mut text = Vec::new();
    while let Some(part) = timeout(PATIENCE, parts.message()).await.unwrap().unwrap() {
        text.extend(part.data);
    }
    serde_json::from_slice::<Value>(&text).unwrap()["rmDiagnostics"].take()
}

#[tokio::test]
async fn a_dump_has_the_managers_state() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    assert!(diagnostics(&service, true).await["empty"].is_string());
    attach(&service, v1::Capability::StateDump, talkative).await;
    assert_eq!(diagnostics(&service, true).await["cache"]["pods"], 3);
    assert!(diagnostics(&service, false).await["empty"].is_string());
    let shown = service.get("/debug/fullstatedump").await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["rmDiagnostics"]["cache"]["pods"], 3);
}

#[tokio::test]
async fn a_silent_manager_leaves_its_part_empty() {
    let service = Service::start_with(&[("CALLBACK__STATE_DUMP_TIMEOUT", "1")]);
    let _rm = Rm::register(&service, "rm").await;
    attach(&service, v1::Capability::StateDump, silent).await;
    let diagnostics_now = diagnostics(&service, true).await;
    assert!(diagnostics_now["Error"].is_string(), "{diagnostics_now}");
}
