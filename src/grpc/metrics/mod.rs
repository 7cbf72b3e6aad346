//! `monoceros.v1.MetricsService`: metrics for autoscalers and dashboards, events, state dumps, and
//! reports of measured utilization.
//!
//! It is separate from the admin service because a dashboard should not hold the rights of an
//! operator. Its streams never end by themselves; the shutdown ends them from outside (see
//! `ending`).

use std::sync::Arc;

use futures::stream;
use monoceros_actors::SchedulerHandle;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tonic::{Request, Response, Status, Streaming};

mod events;
mod measured;
mod scaling;
mod snapshot;
mod state;

use super::GrpcEdge;
use super::admin::opened;
use super::admin::refusal::CallRefusal;
use super::end::internal;
use super::incoming::{Messages, OneRm};
use super::shared::{self, Reads};
use super::stubs::v1::metrics_service_server::{MetricsService, MetricsServiceServer};
use crate::logbook::Logbook;

/// Maximum size of a request: some ten thousand utilization reports.
const MESSAGE_BYTES: usize = 8 << 20;

/// The implementation of the service.
pub(super) struct MetricsRpc {
    edge: Arc<GrpcEdge>,
    reads: Reads,
    logbook: Logbook,
}

/// Creates the service.
pub(super) fn server(
    edge: Arc<GrpcEdge>,
    reads: Reads,
    logbook: Logbook,
) -> MetricsServiceServer<MetricsRpc> {
    let metrics = MetricsRpc { edge, reads, logbook };
    MetricsServiceServer::new(metrics).max_decoding_message_size(MESSAGE_BYTES)
}

type RpcResult<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl MetricsService for MetricsRpc {
    type GetStateDumpStream = state::Parts;

    async fn get_state_dump(
        &self,
        request: Request<v1::StateDumpParameters>,
    ) -> RpcResult<Self::GetStateDumpStream> {
        let (caller, request) = opened(request);
        state::dump(self.handle(), &self.logbook, &self.reads, &caller, request).await
    }

    type GetSnapshotStream = snapshot::Parts;

    async fn get_snapshot(
        &self,
        request: Request<v1::SnapshotParameters>,
    ) -> RpcResult<Self::GetSnapshotStream> {
        let (caller, request) = opened(request);
        let snapshots = &self.logbook.snapshots;
        snapshot::get(self.handle(), snapshots, &self.reads, &caller, request).await
    }

    async fn get_auto_scaling_metrics(
        &self,
        request: Request<v1::AutoScalingParameters>,
    ) -> RpcResult<si::AutoScalingMetrics> {
        let (caller, request) = opened(request);
        let query = scaling::ScalingQuery::of(self.handle(), &caller, &request).await?;
        let set = query.ask(self.handle(), &self.reads).await?;
        Ok(shared::whole(si::AutoScalingMetrics::default(), &set))
    }

    type WatchAutoScalingMetricsStream = scaling::Sets;

    async fn watch_auto_scaling_metrics(
        &self,
        request: Request<v1::AutoScalingParameters>,
    ) -> RpcResult<Self::WatchAutoScalingMetricsStream> {
        let (caller, request) = opened(request);
        let query = scaling::ScalingQuery::of(self.handle(), &caller, &request).await?;
        // A query that cannot be answered at all is refused before the stream begins.
        query.ask(self.handle(), &self.reads).await?;
        let (handle, reads) = (self.handle().clone(), self.reads.clone());
        let sets = scaling::watch(handle, reads, query, request.interval_ms);
        let nothing: Self::WatchAutoScalingMetricsStream = Box::pin(stream::empty());
        Ok(shared::streamed(nothing, sets))
    }

    async fn report_utilization(
        &self,
        request: Request<Streaming<v1::UtilizationReports>>,
    ) -> RpcResult<v1::UtilizationSummary> {
        let reports = Messages::taken_from(request.extensions());
        let reports = reports.ok_or_else(|| internal("a stream came without its messages"))?;
        let one_rm = request.extensions().get::<OneRm>().cloned();
        let (caller, _) = opened(request);
        let taken = measured::take(self.handle(), &caller, reports, one_rm, MESSAGE_BYTES);
        // No reply stream exists yet on which the shutdown could be reported.
        let taken = self.edge.shutdown.run_until_cancelled(taken).await;
        Ok(Response::new(taken.unwrap_or(Err(CallRefusal::Stopped.into()))?))
    }

    async fn list_node_recommendations(
        &self,
        request: Request<v1::NodeRecommendationParameters>,
    ) -> RpcResult<v1::NodeRecommendations> {
        let (caller, request) = opened(request);
        measured::recommendations(self.handle(), &self.reads, &caller, request).await
    }

    type StreamEventsStream = events::Events<si::EventRecord>;

    async fn stream_events(
        &self,
        request: Request<v1::EventParameters>,
    ) -> RpcResult<Self::StreamEventsStream> {
        let followed = self.followed(request).await?;
        Ok(Response::new(followed.given(|record| record.record)))
    }

    type WatchEventsStream = events::Events<v1::EventInfo>;

    async fn watch_events(
        &self,
        request: Request<v1::EventParameters>,
    ) -> RpcResult<Self::WatchEventsStream> {
        let followed = self.followed(request).await?;
        Ok(Response::new(followed.given(events::info)))
    }
}

impl MetricsRpc {
    fn handle(&self) -> &SchedulerHandle {
        &self.edge.handle
    }

    async fn followed(
        &self,
        request: Request<v1::EventParameters>,
    ) -> Result<events::Followed, Status> {
        let host = request.remote_addr().map(|address| address.ip());
        let (caller, request) = opened(request);
        let reader = events::EventCaller { caller, host };
        events::follow(self.handle(), &self.logbook.streams, reader, request).await
    }
}
