//! The legacy dialect of the oldest revision: a single stream, `Update`.
//!
//! Its messages are translated here to the requests of the present three streams and back. The
//! scheduler knows one form only, so no rule is written and tested twice.
//!
//! ```text
//! UpdateRequest ─▶ request::Operations ─▶ handle.update_application / _allocation / _node
//! UpdateResponse ◀─ response ◀─ messages of the scheduler, and refusals in Operations
//! ```
//!
//! # Invariants
//! * The operations of one message reach the scheduler in the order of [`request`]. They never wait
//!   for items of another stream, since there is none.
//! * An item refused here is answered here, and an item ignored here is counted; none is lost.
//! * A client that has to register again receives `RESYNC` before the status.
//!
//! Reading order: [`options`], [`memory`], [`constraint`], [`echo`], [`request`], [`response`].

pub mod constraint;
pub mod echo;
pub mod memory;
pub mod options;
pub mod request;
pub mod response;

use std::sync::{Arc, Mutex};

use monoceros_actors::Ignored;
use monoceros_actors::snapshot::NodeRecommendation;
use monoceros_actors::{SchedulerHandle, UpdateError};
use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::legacy::v0::update_response::ActionFromScheduler;
use monoceros_proto::si::v1 as si;

use self::echo::Echoes;
use self::options::LegacyOptions;
use super::end::StreamEnd;
use super::kind::{AnyRequest, Dialect, Forwarded, StreamKind};
use super::outbox::{Bounds, Outbox};
use super::reply::{Cutter, MOST_LISTS, Reply};
use super::session::Session;
use super::session::backlog::Backlog;
use crate::locked::locked;

/// The kind of the stream `Update`.
pub enum Legacy {}

/// The state of a session for a client of the legacy dialect.
pub struct Translator {
    /// The outbox of the stream.
    pub outbox: Outbox<legacy::UpdateResponse>,
    options: Mutex<LegacyOptions>,
    echoes: Mutex<Echoes>,
}

impl Translator {
    /// Creates a translator without state.
    pub fn new(bounds: Bounds, backlog: &Arc<Backlog>, options: LegacyOptions) -> Self {
        Self {
            outbox: Outbox::new(bounds, backlog),
            options: Mutex::new(options),
            echoes: Mutex::default(),
        }
    }

    /// Replaces the options for all later messages.
    pub fn set_options(&self, options: LegacyOptions) {
        *locked(&self.options) = options;
    }

    /// Translates a request.
    pub fn request(&self, request: legacy::UpdateRequest) -> request::Operations {
        request::operations(request, &locked(&self.options), &mut locked(&self.echoes))
    }

    /// Translates decisions about asks and allocations.
    pub fn allocation(&self, response: si::AllocationResponse) -> legacy::UpdateResponse {
        response::allocation(response, &locked(&self.options), &mut locked(&self.echoes))
    }

    /// Whether the client wants recommended node sizes.
    fn recommends(&self) -> bool {
        locked(&self.options).node_recommendations
    }

    /// Translates recommended node sizes.
    fn recommendations(&self, found: Vec<NodeRecommendation>) -> legacy::UpdateResponse {
        response::recommendations(found, &locked(&self.options))
    }

    /// Records the queue of an application, or its removal.
    pub fn placed(&self, partition: &str, application: &str, queue: Option<&str>) {
        locked(&self.echoes).placed(partition, application, queue);
    }
}

/// The reasons of all refused items.
fn refusals(response: &legacy::UpdateResponse) -> impl Iterator<Item = &str> {
    let asks = response.rejected_allocations.iter().map(|refused| &refused.reason);
    let applications = response.rejected_applications.iter().map(|refused| &refused.reason);
    let nodes = response.rejected_nodes.iter().map(|refused| &refused.reason);
    asks.chain(applications).chain(nodes).map(String::as_str)
}

impl StreamKind for Legacy {
    type Request = legacy::UpdateRequest;
    type Reply = legacy::UpdateResponse;
    const NAME: &'static str = "legacy";
    const DIALECT: Dialect = Dialect::Legacy;
    const CARRIES_ALLOCATIONS: bool = true;

    fn rm_id(request: &mut Self::Request) -> &mut String {
        &mut request.rm_id
    }

    fn items(request: &Self::Request) -> usize {
        let releases = request.releases.as_ref().map_or(0, |releases| {
            releases.allocations_to_release.len() + releases.allocation_asks_to_release.len()
        });
        let nodes = request.new_schedulable_nodes.iter();
        let nodes: usize = nodes.map(|node| 1 + node.existing_allocations.len()).sum();
        request.new_applications.len()
            + request.remove_applications.len()
            + request.asks.len()
            + releases
            + nodes
            + request.updated_nodes.len()
            + request.utilization_reports.len()
    }

    fn number(request: &Self::Request) -> u64 {
        request.client_seq
    }

    fn into_any(request: Self::Request) -> AnyRequest {
        AnyRequest::Legacy(request)
    }

    fn outbox(session: &Session) -> &Outbox<Self::Reply> {
        &session.legacy.outbox
    }

    /// The only signal, in any revision, that is sent as a message of the stream.
    fn farewell(end: &StreamEnd) -> Option<Self::Reply> {
        end.demands_registration().then(|| legacy::UpdateResponse {
            action: ActionFromScheduler::Resync.into(),
            ..legacy::UpdateResponse::default()
        })
    }

    fn forward<'s>(
        session: &'s Session,
        handle: &'s SchedulerHandle,
        request: Self::Request,
    ) -> Forwarded<'s> {
        let rm_id = session.rm_id().to_owned();
        let operations = session.legacy.request(request);
        for reason in operations.ignored {
            handle.count_ignored(&rm_id, Dialect::Legacy.name(), reason);
        }
        for reason in refusals(&operations.refused) {
            handle.count_rejected(&rm_id, Dialect::Legacy.name(), reason);
        }
        session.push_legacy(operations.refused);
        let mut parts = Vec::new();
        let application = si::ApplicationRequest { rm_id: rm_id.clone(), ..operations.application };
        if !application.new.is_empty() || !application.remove.is_empty() {
            parts.push(handle.update_application(application));
        }
        let allocation = si::AllocationRequest { rm_id: rm_id.clone(), ..operations.allocation };
        if !allocation.asks.is_empty() || allocation.releases.is_some() {
            parts.push(handle.update_allocation(allocation));
        }
        let nodes = si::NodeRequest { rm_id, ..operations.nodes };
        if !nodes.nodes.is_empty() {
            session.attachment().nodes_from_rm(&nodes);
            parts.push(handle.update_node(nodes));
        }
        let reports = operations.reports;
        let has_more = !reports.is_empty();
        let taken = Box::pin(async move {
            for part in parts {
                part.await?;
            }
            measured(session, handle, reports).await
        });
        if has_more { Forwarded::More(taken) } else { Forwarded::Parts(taken) }
    }
}

/// Forwards utilization reports. Then recommends sizes for those nodes, if the client wants that.
async fn measured(
    session: &Session,
    handle: &SchedulerHandle,
    reports: Vec<si::UtilizationReport>,
) -> Result<(), UpdateError> {
    if reports.is_empty() {
        return Ok(());
    }
    let rm_id = session.rm_id();
    let ids: Vec<String> = reports.iter().map(|report| report.id.clone()).collect();
    let (_, unknown) = handle.report_utilization(rm_id, reports, 0).await?;
    for _ in 0..unknown {
        handle.count_ignored(rm_id, Dialect::Legacy.name(), Ignored::UtilizationReport);
    }
    if session.legacy.recommends() {
        // Empty for a session that has just ended.
        let found = handle.node_recommendations(rm_id, None, &ids).await.unwrap_or_default();
        session.push_legacy(session.legacy.recommendations(found));
    }
    Ok(())
}

/// Clients of this dialect process the lists in this order: nodes, new applications, allocations,
/// releases, states of applications.
impl Reply for legacy::UpdateResponse {
    fn new_allocations(&self) -> impl Iterator<Item = (String, String)> {
        let new = self.new_allocations.iter();
        new.map(|new| (new.application_id.clone(), new.allocation_key.clone()))
    }

    fn lengths(&self) -> [usize; MOST_LISTS] {
        [
            self.accepted_nodes.len(),
            self.rejected_nodes.len(),
            self.accepted_applications.len(),
            self.rejected_applications.len(),
            self.new_allocations.len(),
            self.rejected_allocations.len(),
            self.released_allocations.len(),
            self.released_allocation_asks.len(),
            self.updated_applications.len(),
            self.node_recommendations.len(),
        ]
    }

    fn set_taken_seq(&mut self, taken: u64) {
        self.taken_seq = taken;
    }

    fn append(&mut self, later: Self) {
        self.accepted_nodes.extend(later.accepted_nodes);
        self.rejected_nodes.extend(later.rejected_nodes);
        self.accepted_applications.extend(later.accepted_applications);
        self.rejected_applications.extend(later.rejected_applications);
        self.new_allocations.extend(later.new_allocations);
        self.rejected_allocations.extend(later.rejected_allocations);
        self.released_allocations.extend(later.released_allocations);
        self.released_allocation_asks.extend(later.released_allocation_asks);
        self.updated_applications.extend(later.updated_applications);
        self.node_recommendations.extend(later.node_recommendations);
    }

    fn cut(self, cutter: &mut Cutter<Self>) {
        cutter.list(self.accepted_nodes, |reply| &mut reply.accepted_nodes);
        cutter.list(self.rejected_nodes, |reply| &mut reply.rejected_nodes);
        cutter.list(self.accepted_applications, |reply| &mut reply.accepted_applications);
        cutter.list(self.rejected_applications, |reply| &mut reply.rejected_applications);
        cutter.list(self.new_allocations, |reply| &mut reply.new_allocations);
        cutter.list(self.rejected_allocations, |reply| &mut reply.rejected_allocations);
        cutter.list(self.released_allocations, |reply| &mut reply.released_allocations);
        cutter.list(self.released_allocation_asks, |reply| &mut reply.released_allocation_asks);
        cutter.list(self.updated_applications, |reply| &mut reply.updated_applications);
        cutter.list(self.node_recommendations, |reply| &mut reply.node_recommendations);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::session::backlog::Load;
    use super::*;

    #[test]
    fn only_a_demanded_registration_has_a_farewell() {
        let not_registered = StreamEnd::NotRegistered { rm_id: "rm".to_owned(), stopped_by: None };
        let resync = Legacy::farewell(&not_registered).unwrap();
        assert_eq!(resync.action(), ActionFromScheduler::Resync);
        assert_eq!(resync.items(), 0);
        assert!(Legacy::farewell(&StreamEnd::Displaced { by: None }).is_none());
        assert!(Legacy::farewell(&StreamEnd::ShuttingDown).is_none());
    }

    #[test]
    fn allocations_of_a_node_are_items() {
        let existing_allocations = vec![legacy::Allocation::default(); 3];
        let node = legacy::NewNodeInfo { existing_allocations, ..Default::default() };
        let request =
            legacy::UpdateRequest { new_schedulable_nodes: vec![node; 2], ..Default::default() };
        assert_eq!(Legacy::items(&request), 8);
    }

    #[test]
    fn cut_and_join_keep_the_list_order() {
        let release = legacy::AllocationRelease::default;
        let full = legacy::UpdateResponse {
            accepted_nodes: vec![si::AcceptedNode::default()],
            accepted_applications: vec![si::AcceptedApplication::default()],
            new_allocations: vec![legacy::Allocation::default()],
            released_allocations: vec![release(), release()],
            updated_applications: vec![si::UpdatedApplication::default()],
            ..legacy::UpdateResponse::default()
        };
        let bounds = Bounds {
            chunk_items: 1,
            chunk_bytes: 999,
            outbox: Load { items: 99, bytes: 9_999 },
            grace: Duration::ZERO,
            resyncs: false,
        };
        let mut cutter = Cutter::new(bounds);
        full.clone().cut(&mut cutter);
        let parts = cutter.finish();
        assert_eq!(parts.len(), 6);
        let joined = parts.into_iter().reduce(|mut all, part| {
            assert!(all.may_be_joined_by(&part));
            all.append(part);
            all
        });
        assert_eq!(joined.unwrap(), full);
        let new = legacy::UpdateResponse {
            new_allocations: vec![legacy::Allocation::default()],
            ..legacy::UpdateResponse::default()
        };
        assert!(!full.may_be_joined_by(&new), "what came after a release stays after it");
    }
}
