//! `monoceros.v1.AdminService`: queries and changes by operators and their programs.
//!
//! A call has three steps: find the target (`target`), call the scheduler, convert the result to a
//! message (`views`). A failure is a `refusal::CallRefusal` that names the object and the reason,
//! so that an operator need not read the log of the service.
//!
//! # Invariants
//! * A refused call has changed nothing.
//! * A call that changes something is logged with its target and the reason given.

use std::collections::BTreeSet;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::{ApplicationFilter, ApplicationList, ApplicationState, Page, ReadError};
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tonic::{Request, Response, Status};
use tracing::info;

mod cluster;
mod configuration;
mod decisions;
mod defaults;
mod explain;
mod nodes;
mod page;
mod partitions;
pub(super) mod refusal;
mod sessions;
pub(super) mod target;
mod usage;
pub(super) mod views;

use self::configuration::{ChangeLocks, ConfigChange, Enforcement};
use self::explain::Reasons;
use self::refusal::CallRefusal;
use self::target::Target;
use super::end::internal;
use super::shared::{self, Reads};
use super::stubs::v1::admin_service_server::{AdminService, AdminServiceServer};
use super::{GrpcEdge, TRIAL_HEADER};
use crate::cluster::operations::ClusterAccess;
use crate::identity::{Identity, Right};
use crate::logging::AUDIT;
use crate::reads::Kind;

/// The implementation of the service.
pub(super) struct Admin {
    edge: Arc<GrpcEdge>,
    reads: Reads,
    /// How long streams may take to end at a shutdown.
    grace: Duration,
    /// Serialize the changes of one configuration.
    locks: Arc<ChangeLocks>,
    /// Operations of the cluster, if this process is a member of one.
    cluster: ClusterAccess,
}

/// Creates the service. Requests may have `max_bytes`, like registrations, since both carry a
/// configuration.
pub(super) fn server(
    edge: Arc<GrpcEdge>,
    reads: Reads,
    cluster: ClusterAccess,
    grace: Duration,
    max_bytes: usize,
) -> AdminServiceServer<Admin> {
    AdminServiceServer::new(Admin { edge, reads, grace, locks: Arc::default(), cluster })
        .max_decoding_message_size(max_bytes)
}

type RpcResult<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl AdminService for Admin {
    async fn update_config(
        &self,
        request: Request<si::UpdateConfigurationRequest>,
    ) -> RpcResult<si::UpdateConfigurationResponse> {
        self.configure(request, Enforcement::Apply).await
    }

    async fn validate_config(
        &self,
        request: Request<si::UpdateConfigurationRequest>,
    ) -> RpcResult<si::UpdateConfigurationResponse> {
        let is_trial = request.metadata().contains_key(TRIAL_HEADER);
        let enforcement = if is_trial { Enforcement::TryHere } else { Enforcement::Try };
        self.configure(request, enforcement).await
    }

    async fn get_config(
        &self,
        request: Request<v1::GetConfigRequest>,
    ) -> RpcResult<v1::GetConfigResponse> {
        let (caller, request) = opened(request);
        configuration::read(&self.edge.handle, &self.reads, &caller, request).await
    }

    async fn deregister_resource_manager(
        &self,
        request: Request<v1::DeregisterResourceManagerRequest>,
    ) -> RpcResult<v1::DeregisterResourceManagerResponse> {
        let (caller, request) = opened(request);
        Ok(Response::new(sessions::deregister(&self.edge.registry, &caller, request).await?))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> RpcResult<v1::ListSessionsResponse> {
        let (caller, request) = opened(request);
        caller.check_read_all()?;
        let edge = Arc::clone(&self.edge);
        let member = self.cluster.operations().map(|it| it.member_id()).unwrap_or_default();
        let read = || async move { Ok(sessions::list(&edge.registry, &member)) };
        shared::read(&self.reads, Kind::Sessions, "", &request, read).await
    }

    async fn trigger_resync(
        &self,
        request: Request<v1::TriggerResyncRequest>,
    ) -> RpcResult<v1::TriggerResyncResponse> {
        let (caller, request) = opened(request);
        Ok(Response::new(sessions::resync(&self.edge.registry, &caller, request)?))
    }

    async fn set_partition_state(
        &self,
        request: Request<v1::SetPartitionStateRequest>,
    ) -> RpcResult<v1::SetPartitionStateResponse> {
        let (caller, request) = opened(request);
        caller.check_admin()?;
        let to = partitions::state(request.state())?;
        let (rm_id, partition) = (&request.rm_id, &request.partition_name);
        let right = Right::Administer;
        let target = Target::find(&self.edge.handle, &caller, right, rm_id, partition).await?;
        let was =
            partitions::set_state(&self.edge.handle, &caller, &target, to, &request.reason).await?;
        Ok(Response::new(v1::SetPartitionStateResponse { old_state: was.into() }))
    }

    async fn drain_nodes(
        &self,
        request: Request<v1::DrainNodesRequest>,
    ) -> RpcResult<v1::DrainNodesResponse> {
        let (caller, request) = opened(request);
        Ok(Response::new(nodes::drain(&self.edge.handle, &caller, request).await?))
    }

    async fn shutdown(
        &self,
        request: Request<v1::ShutdownRequest>,
    ) -> RpcResult<v1::ShutdownResponse> {
        let (caller, request) = opened(request);
        caller.check_admin()?;
        info!(target: AUDIT, by = caller.name(), from = caller.from(), reason = request.reason, "shutdown asked for over gRPC");
        // Calls in progress, including this one, are completed.
        self.edge.shutdown.cancel();
        let grace_ms = u32::try_from(self.grace.as_millis()).unwrap_or(u32::MAX);
        Ok(Response::new(v1::ShutdownResponse { grace_ms }))
    }

    async fn list_members(
        &self,
        request: Request<v1::ListMembersRequest>,
    ) -> RpcResult<v1::ListMembersResponse> {
        opened(request).0.check_read_all()?;
        Ok(Response::new(cluster::members(&self.cluster)?))
    }

    async fn list_claims(
        &self,
        request: Request<v1::ListClaimsRequest>,
    ) -> RpcResult<v1::ListClaimsResponse> {
        opened(request).0.check_read_all()?;
        Ok(Response::new(cluster::claims(&self.cluster)?))
    }

    async fn move_resource_manager(
        &self,
        request: Request<v1::MoveResourceManagerRequest>,
    ) -> RpcResult<v1::MoveResourceManagerResponse> {
        cluster::move_rm(&self.cluster, request).await
    }

    async fn drain_member(
        &self,
        request: Request<v1::DrainMemberRequest>,
    ) -> RpcResult<v1::DrainMemberResponse> {
        cluster::drain(&self.cluster, request).await
    }

    async fn accept_restore(
        &self,
        request: Request<v1::AcceptRestoreRequest>,
    ) -> RpcResult<v1::AcceptRestoreResponse> {
        cluster::accept_restore(&self.cluster, request).await
    }

    async fn get_queues(
        &self,
        request: Request<v1::GetQueuesRequest>,
    ) -> RpcResult<v1::GetQueuesResponse> {
        let (caller, mut request) = opened(request);
        if defaults::concern_none(&self.edge.handle, &caller, &request.rm_id)? {
            let (handle, wanted) = (self.edge.handle.clone(), request.clone());
            let read = move || async move { defaults::queues(&handle, request).await };
            return shared::read(&self.reads, Kind::Queues, "", &wanted, read).await;
        }
        let target = self.target(&caller, &request.rm_id, &request.partition_name).await?;
        (request.rm_id, request.partition_name) = Default::default();
        let wanted = request.clone();
        let (handle, of) = (self.edge.handle.clone(), target.partition.clone());
        let read = move || async move {
            let path = queue_path(&request.queue);
            let read = handle.queue_tree(&target.partition, Some(&path)).await;
            let (root, _) = read.map_err(|error| CallRefusal::unread(error, &target.rm_id))?;
            let found = root.and_then(|root| root.descendant(&path));
            let found = found.ok_or(CallRefusal::QueueUnknown(request.queue))?;
            let root = Some(views::queue(found, request.depth));
            Ok(v1::GetQueuesResponse { root, is_default: false })
        };
        shared::read(&self.reads, Kind::Queues, &of, &wanted, read).await
    }

    async fn list_applications(
        &self,
        request: Request<v1::ListApplicationsRequest>,
    ) -> RpcResult<v1::ListApplicationsResponse> {
        let (caller, mut request) = opened(request);
        let names = (take(&mut request.rm_id), take(&mut request.partition_name));
        let wanted = request.clone();
        let page = page::asked(request.page_size, request.page_token)?;
        let list = request.list;
        let list = v1::ApplicationList::try_from(list).map_err(|_| {
            CallRefusal::field("list", format!("{list} is no list of applications"))
        })?;
        let states = known_states(request.states, list)?;
        let ids: BTreeSet<_> = request.application_ids.into_iter().collect();
        let target = self.target(&caller, &names.0, &names.1).await?;
        let users = request.users.into_iter().collect();
        let queue = Some(queue_path(&request.queue));
        let filter =
            ApplicationFilter { queue, below: true, states, users, ids, ..Default::default() };
        let (list, newest_first) = match list {
            v1::ApplicationList::Live => (ApplicationList::Live(filter), false),
            v1::ApplicationList::Ended => (ApplicationList::Ended(filter), true),
            v1::ApplicationList::Rejected => (ApplicationList::Rejected(filter), true),
        };
        // Each explanation costs a step of the partition, so a caller that reads all pages gets those
        // of the first.
        let is_first = page.after.is_none();
        let page = Page { newest_first, ..page };
        let extras = views::Extras { details: request.details, why: request.why && !newest_first };
        let (handle, of) = (self.edge.handle.clone(), target.partition.clone());
        let read = move || async move {
            let read = handle.list_applications(&target.partition, list, page).await;
            let read = read.map_err(|error| match error {
                ReadError::QueueNotFound(_) => CallRefusal::QueueUnknown(request.queue),
                error => CallRefusal::unread(error, &target.rm_id),
            })?;
            let (page, next_page_token) = (read.rows, read.next.unwrap_or_default());
            let explains = extras.details || (extras.why && is_first);
            let waiting = page.iter().filter(|found| explains && !found.requests.is_empty());
            let waiting: Vec<_> = waiting.map(|found| found.application_id.clone()).collect();
            let reasons = Reasons::read(&handle, &target.partition, &waiting).await;
            let shown = |found| views::application(found, extras, &reasons);
            let applications = page.into_iter().map(shown).collect();
            Ok(v1::ListApplicationsResponse { applications, next_page_token })
        };
        shared::read(&self.reads, Kind::Applications, &of, &wanted, read).await
    }

    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> RpcResult<v1::ListNodesResponse> {
        let (caller, mut request) = opened(request);
        let names = (take(&mut request.rm_id), take(&mut request.partition_name));
        let wanted = request.clone();
        let page = page::asked(request.page_size, request.page_token)?;
        let ids: BTreeSet<_> = request.node_ids.into_iter().collect();
        let target = self.target(&caller, &names.0, &names.1).await?;
        let (handle, of) = (self.edge.handle.clone(), target.partition.clone());
        let read = move || async move {
            let read = handle.list_nodes(&target.partition, &ids, page).await;
            let read = read.map_err(|error| CallRefusal::unread(error, &target.rm_id))?;
            let shown = |node| views::node(node, request.details);
            let nodes = read.rows.into_iter().map(shown).collect();
            Ok(v1::ListNodesResponse { nodes, next_page_token: read.next.unwrap_or_default() })
        };
        shared::read(&self.reads, Kind::Nodes, &of, &wanted, read).await
    }

    async fn explain_application(
        &self,
        request: Request<v1::ExplainApplicationRequest>,
    ) -> RpcResult<v1::ExplainApplicationResponse> {
        let (caller, request) = opened(request);
        explain::explain(&self.edge.handle, &self.reads, &caller, request).await
    }

    async fn list_decisions(
        &self,
        request: Request<v1::ListDecisionsRequest>,
    ) -> RpcResult<v1::ListDecisionsResponse> {
        let (caller, request) = opened(request);
        decisions::list(&self.edge.handle, &self.reads, &caller, request).await
    }

    async fn list_partitions(
        &self,
        request: Request<v1::ListPartitionsRequest>,
    ) -> RpcResult<v1::ListPartitionsResponse> {
        let (caller, request) = opened(request);
        partitions::list(&self.edge.handle, &self.reads, &caller, &request.rm_id).await
    }

    async fn list_users(
        &self,
        request: Request<v1::ListUsersRequest>,
    ) -> RpcResult<v1::ListUsersResponse> {
        let (caller, request) = opened(request);
        usage::users(&self.edge.handle, &self.reads, &caller, request).await
    }

    async fn list_groups(
        &self,
        request: Request<v1::ListGroupsRequest>,
    ) -> RpcResult<v1::ListGroupsResponse> {
        let (caller, request) = opened(request);
        usage::groups(&self.edge.handle, &self.reads, &caller, request).await
    }
}

impl Admin {
    async fn configure(
        &self,
        request: Request<si::UpdateConfigurationRequest>,
        enforcement: Enforcement,
    ) -> RpcResult<si::UpdateConfigurationResponse> {
        let persist = configuration::persists(request.metadata())?;
        let (caller, request) = opened(request);
        let change = ConfigChange { request, enforcement, persist };
        let (edge, locks) = (Arc::clone(&self.edge), Arc::clone(&self.locks));
        // A separate task: a caller that gives up must not leave a change half done.
        let change =
            tokio::spawn(
                async move { configuration::change(&edge, &locks, &caller, change).await },
            );
        change.await.map_err(|_| internal("the configuration was not dealt with, through a bug"))?
    }

    /// The partition that a read request names.
    async fn target(
        &self,
        caller: &Identity,
        rm_id: &str,
        partition: &str,
    ) -> Result<Target, CallRefusal> {
        Target::find(&self.edge.handle, caller, Right::Read, rm_id, partition).await
    }
}

/// The caller and the message of a request.
pub(super) fn opened<T>(request: Request<T>) -> (Identity, T) {
    let caller = Identity::of(request.extensions());
    (caller, request.into_inner())
}

const ROOT: &str = "root";

/// The path of the named queue, in lower case; the root if none is named.
fn queue_path(named: &str) -> String {
    if named.is_empty() { ROOT.to_owned() } else { named.to_lowercase() }
}

/// Parses the names of states, as applications show them.
fn known_states(
    named: Vec<String>,
    list: v1::ApplicationList,
) -> Result<Vec<ApplicationState>, CallRefusal> {
    use ApplicationState as State;
    let all: &[State] = match list {
        v1::ApplicationList::Live => &[
            State::New,
            State::Accepted,
            State::Running,
            State::Resuming,
            State::Completing,
            State::Failing,
        ],
        v1::ApplicationList::Ended => &[State::Completed, State::Failed, State::Removed],
        v1::ApplicationList::Rejected => &[State::Rejected],
    };
    let known =
        |name: &str| all.iter().copied().find(|state| state.text().eq_ignore_ascii_case(name));
    let states = named.into_iter().map(|name| {
        known(&name).ok_or_else(|| {
            let all: Vec<_> = all.iter().map(|state| state.text()).collect();
            let reason = format!("`{name}` is none of {}", all.join(", "));
            CallRefusal::field("states", reason)
        })
    });
    states.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monoceros_proto::v1::ApplicationList as List;

    #[test]
    fn states_are_case_insensitive() {
        let states =
            known_states(vec!["RUNNING".to_owned(), "new".to_owned()], List::Live).unwrap();
        assert_eq!(states, [ApplicationState::Running, ApplicationState::New]);
        let over = known_states(vec!["failed".to_owned()], List::Ended).unwrap();
        assert_eq!(over, [ApplicationState::Failed]);
        assert!(known_states(vec!["running".to_owned()], List::Rejected).is_err());
        let refusal = known_states(vec!["done".to_owned()], List::Live).unwrap_err();
        assert!(refusal.to_string().starts_with("`states`: `done` is none of New, Accepted"));
    }
}
