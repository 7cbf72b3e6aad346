//! `si.v1.MetricsService`: figures for autoscalers and dashboards, and reports of measured use
//! (scheduler-interface chapter, 3.10).
//!
//! Streams of this service end with the shutdown from outside: see `ending`.

use std::sync::Arc;

use monoceros_proto::si::v1 as si;
use tonic::{Request, Response, Status, Streaming};

mod state;

use super::Edge;
use super::admin::opened;
use super::stubs::si::metrics_service_server::{MetricsService, MetricsServiceServer};

/// The largest request: some ten thousand reports of measured use.
const MESSAGE_BYTES: usize = 8 << 20;

/// Answers programs.
pub(super) struct Figures(Arc<Edge>);

/// The service, ready to be served.
pub(super) fn server(edge: Arc<Edge>) -> MetricsServiceServer<Figures> {
    MetricsServiceServer::new(Figures(edge)).max_decoding_message_size(MESSAGE_BYTES)
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl MetricsService for Figures {
    type GetStateDumpStream = state::Parts;

    async fn get_state_dump(
        &self,
        request: Request<si::StateDumpParameters>,
    ) -> Answer<Self::GetStateDumpStream> {
        let (caller, request) = opened(request);
        Ok(Response::new(state::dump(&self.0.handle, &caller, request).await?))
    }

    async fn get_auto_scaling_metrics(
        &self,
        _request: Request<si::AutoScalingParameters>,
    ) -> Answer<si::AutoScalingMetrics> {
        Err(Status::unimplemented(""))
    }

    type WatchAutoScalingMetricsStream =
        futures::stream::Empty<Result<si::AutoScalingMetrics, Status>>;

    async fn watch_auto_scaling_metrics(
        &self,
        _request: Request<si::AutoScalingParameters>,
    ) -> Answer<Self::WatchAutoScalingMetricsStream> {
        Err(Status::unimplemented(""))
    }

    async fn report_utilization(
        &self,
        _request: Request<Streaming<si::UtilizationReports>>,
    ) -> Answer<si::UtilizationSummary> {
        Err(Status::unimplemented(""))
    }

    async fn list_node_recommendations(
        &self,
        _request: Request<si::NodeRecommendationParameters>,
    ) -> Answer<si::NodeRecommendations> {
        Err(Status::unimplemented(""))
    }

    type StreamEventsStream = futures::stream::Empty<Result<si::EventRecord, Status>>;

    async fn stream_events(
        &self,
        _request: Request<si::EventParameters>,
    ) -> Answer<Self::StreamEventsStream> {
        Err(Status::unimplemented(""))
    }
}
