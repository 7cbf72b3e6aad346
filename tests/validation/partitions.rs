//! Partitions that take nothing any more: V18, V45 and V57.

use monoceros::grpc::stubs::si::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use tonic::transport::Endpoint;

use crate::harness::Service;
use crate::speaker::{Ask, Speaker};

async fn set_state(service: &Service, rm: &Speaker, state: si::PartitionState) {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    let mut admin = AdminServiceClient::new(endpoint.connect().await.unwrap());
    let request = si::SetPartitionStateRequest {
        rm_id: rm.client.rm_id.clone(),
        state: state.into(),
        ..si::SetPartitionStateRequest::default()
    };
    admin.set_partition_state(request).await.unwrap();
}

#[tokio::test]
async fn a_stopped_partition_refuses_whatever_comes_and_says_that_it_is_stopped() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        set_state(&service, &rm, si::PartitionState::PartitionStopped).await;
        rm.application("late", &rm.queue()).await;
        let application = rm.rejected_application("late", "R_PARTITION_STOPPED").await;
        rm.ask(Ask { key: "late", ..Ask::default() }).await;
        let ask = rm.rejected_ask("late", "R_PARTITION_STOPPED").await;
        rm.node("late", "").await;
        let node = rm.rejected_node("late", "R_PARTITION_STOPPED").await;
        for reason in [application, ask, node] {
            assert!(reason.contains("is stopped"), "{}: {reason}", rm.revision);
        }
        set_state(&service, &rm, si::PartitionState::PartitionActive).await;
        rm.settled("k").await;
    }
}
