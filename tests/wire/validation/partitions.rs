//! Stopped and draining partitions, and paused sessions.

use std::time::Duration;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tonic::transport::{Channel, Endpoint};

use super::speaker::{Ask, Speaker};
use crate::harness::{PATIENCE, Service};

async fn admin(service: &Service) -> AdminServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    AdminServiceClient::new(endpoint.connect().await.unwrap())
}

/// Replaces the queues of an RM.
pub(crate) async fn update_config(service: &Service, rm: &Speaker, config: &str) {
    let request = si::UpdateConfigurationRequest {
        rm_id: rm.client.rm_id.clone(),
        config: config.to_owned(),
        ..si::UpdateConfigurationRequest::default()
    };
    let answer = admin(service).await.update_config(request).await.unwrap().into_inner();
    assert!(answer.success, "{answer:?}");
}

async fn set_state(service: &Service, rm: &Speaker, state: v1::PartitionState) {
    let request = v1::SetPartitionStateRequest {
        rm_id: rm.client.rm_id.clone(),
        state: state.into(),
        ..v1::SetPartitionStateRequest::default()
    };
    admin(service).await.set_partition_state(request).await.unwrap();
}

#[tokio::test]
async fn stopped_partition_rejects_everything() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        set_state(&service, &rm, v1::PartitionState::PartitionStopped).await;
        rm.application("late", &rm.queue()).await;
        let application = rm.rejected_application("late", "R_PARTITION_STOPPED").await;
        rm.ask(Ask { key: "late", ..Ask::default() }).await;
        let ask = rm.rejected_ask("late", "R_PARTITION_STOPPED").await;
        rm.node("late", "").await;
        let node = rm.rejected_node("late", "R_PARTITION_STOPPED").await;
        for reason in [application, ask, node] {
            assert!(reason.contains("is stopped"), "{}: {reason}", rm.revision);
        }
        set_state(&service, &rm, v1::PartitionState::PartitionActive).await;
        rm.settled("k").await;
    }
}

/// Polls the state of a session until it is this one.
async fn until_state(service: &Service, rm: &Speaker, state: &str) {
    let mut admin = admin(service).await;
    let reached = async {
        loop {
            let listed = admin.list_sessions(v1::ListSessionsRequest::default()).await.unwrap();
            let sessions = listed.into_inner().sessions;
            let session = sessions.iter().find(|session| session.rm_id == rm.client.rm_id);
            if session.is_some_and(|session| session.state == state) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("never {state}"));
}

#[tokio::test]
async fn draining_partition_rejects_applications() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        set_state(&service, &rm, v1::PartitionState::PartitionDraining).await;
        rm.application("late", &rm.queue()).await;
        let reason = rm.rejected_application("late", "R_PARTITION_STOPPED").await;
        assert!(reason.contains("is stopped") && reason.contains("Draining"), "{reason}");
        set_state(&service, &rm, v1::PartitionState::PartitionActive).await;
        rm.application("late", &rm.queue()).await;
        rm.accepted_application("late").await;
    }
}

/// A session without an allocation stream is paused; its application requests still count.
#[tokio::test]
async fn paused_session_accepts_applications() {
    let service = Service::start();
    for revision in ["m", "t"] {
        let mut rm = Speaker::start(&service, revision).await;
        rm.ask(Ask { key: "first", ..Ask::default() }).await;
        rm.allocated("first").await;
        rm.client.close("UpdateAllocation");
        until_state(&service, &rm, "Paused").await;
        rm.application("meanwhile", &rm.queue()).await;
        rm.accepted_application("meanwhile").await;
        rm.client.open("UpdateAllocation").await;
        rm.ask(Ask { application: "meanwhile", ..Ask::default() }).await;
        rm.allocated("k").await;
    }
}
