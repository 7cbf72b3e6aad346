//! Calls about the cluster: members, claims, moves, drains, and restored backups.
//!
//! An operation that another member has to carry out is passed on to it, once. If it cannot be
//! reached, the refusal says why, and has its address.

use std::time::Duration;

use monoceros_proto::v1;
use tonic::{Request, Response};
use tracing::info;

use super::refusal::CallRefusal;
use super::{RpcResult, opened};
use crate::cluster::operations::{
    ClaimReport, ClusterAccess, GroupReport, MemberReport, OperationRefusal, Operations,
};
use crate::grpc::members::ForwardedBy;
use crate::identity::Identity;
use crate::logging::AUDIT;

/// Nanoseconds in a millisecond.
const MS: i64 = 1_000_000;

fn operations(cluster: &ClusterAccess) -> Result<&dyn Operations, CallRefusal> {
    cluster.operations().map(AsRef::as_ref).ok_or(CallRefusal::NoCluster)
}

/// Answers `ListMembers`.
pub(super) fn members(cluster: &ClusterAccess) -> Result<v1::ListMembersResponse, CallRefusal> {
    let report = operations(cluster)?.report();
    Ok(v1::ListMembersResponse {
        cluster: report.name,
        arbiter: report.arbiter.to_owned(),
        member_id: report.member,
        state: report.state.name().to_owned(),
        problem: report.problem.unwrap_or_default(),
        lease_ms: u32::try_from(report.lease.as_millis()).unwrap_or(u32::MAX),
        read_ago_ms: millis(report.read_ago),
        members: report.members.into_iter().map(member).collect(),
        not_in_force: report.not_in_force.into_iter().map(group).collect(),
    })
}

fn member(member: MemberReport) -> v1::MemberInfo {
    let [grpc_address, rest_address, internal_address] = member.addresses;
    v1::MemberInfo {
        member_id: member.id,
        incarnation: member.incarnation,
        version: member.version,
        grpc_address,
        rest_address,
        internal_address,
        state: member.state.name().to_owned(),
        rms: count(member.rms),
        load: member.load,
        beat_ago_ms: millis(member.beat_ago),
        not_in_force: member.not_in_force,
    }
}

fn group(group: GroupReport) -> v1::GroupConfiguration {
    v1::GroupConfiguration {
        policy_group: group.group.unwrap_or_default(),
        in_force: group.in_force.unwrap_or_default(),
        in_arbiter: group.in_arbiter.unwrap_or_default(),
        reason: group.why_not.unwrap_or_default(),
    }
}

/// Answers `ListClaims`.
pub(super) fn claims(cluster: &ClusterAccess) -> Result<v1::ListClaimsResponse, CallRefusal> {
    let claims = operations(cluster)?.report().claims.into_iter().map(claim).collect();
    Ok(v1::ListClaimsResponse { claims })
}

fn claim(claim: ClaimReport) -> v1::ClaimInfo {
    v1::ClaimInfo {
        rm_id: claim.rm_id,
        session_id: claim.epoch,
        member_id: claim.owner.unwrap_or_default(),
        wanted_by: claim.wanted_by.unwrap_or_default(),
        since_nano: i64::try_from(claim.since_ms).unwrap_or(i64::MAX).saturating_mul(MS),
    }
}

/// Answers `MoveResourceManager`.
pub(super) async fn move_rm(
    cluster: &ClusterAccess,
    request: Request<v1::MoveResourceManagerRequest>,
) -> RpcResult<v1::MoveResourceManagerResponse> {
    let (is_passed_on, (caller, request)) = (is_passed_on(&request), opened(request));
    caller.check_admin()?;
    let operations = operations(cluster)?;
    if request.rm_id.is_empty() {
        return Err(CallRefusal::field("rm_id", "name the resource manager").into());
    }
    let to = Some(request.to.clone()).filter(|to| !to.is_empty());
    match operations.move_rm(request.rm_id.clone(), to).await {
        Ok(member_id) => {
            info!(target: AUDIT, by = caller.name(), from = caller.from(), rm = request.rm_id, to = member_id, reason = request.reason, "resource manager moved");
            Ok(Response::new(v1::MoveResourceManagerResponse { member_id }))
        }
        Err(OperationRefusal::AtMember { member, address }) if !is_passed_on => {
            let passed = passed_on::move_rm(operations, &member, request, &caller).await;
            passed.unwrap_or_else(|| Err(unreachable(operations, member, address)))
        }
        Err(refusal) => Err(CallRefusal::from(refusal).into()),
    }
}

/// Answers `DrainMember`.
pub(super) async fn drain(
    cluster: &ClusterAccess,
    request: Request<v1::DrainMemberRequest>,
) -> RpcResult<v1::DrainMemberResponse> {
    let (is_passed_on, (caller, request)) = (is_passed_on(&request), opened(request));
    caller.check_admin()?;
    let operations = operations(cluster)?;
    if request.member_id.is_empty() {
        return Err(CallRefusal::field("member_id", "name the member").into());
    }
    match operations.drain(request.member_id.clone(), request.drain).await {
        Ok(done) => {
            info!(target: AUDIT, by = caller.name(), from = caller.from(), member = request.member_id, drain = request.drain, reason = request.reason, "drain of a member changed");
            Ok(Response::new(v1::DrainMemberResponse {
                handed_over: count(done.handed_over),
                remaining: count(done.remaining),
            }))
        }
        Err(OperationRefusal::AtMember { member, address }) if !is_passed_on => {
            let passed = passed_on::drain(operations, &member, request, &caller).await;
            passed.unwrap_or_else(|| Err(unreachable(operations, member, address)))
        }
        Err(refusal) => Err(CallRefusal::from(refusal).into()),
    }
}

/// Answers `AcceptRestore`.
pub(super) async fn accept_restore(
    cluster: &ClusterAccess,
    request: Request<v1::AcceptRestoreRequest>,
) -> RpcResult<v1::AcceptRestoreResponse> {
    let (caller, request) = opened(request);
    caller.check_admin()?;
    let floor = operations(cluster)?.accept_restore().await.map_err(CallRefusal::from)?;
    info!(target: AUDIT, by = caller.name(), from = caller.from(), floor, reason = request.reason, "an earlier state of the arbiter accepted");
    Ok(Response::new(v1::AcceptRestoreResponse { floor }))
}

/// Whether another member has passed a call on.
fn is_passed_on<T>(request: &Request<T>) -> bool {
    request.extensions().get::<ForwardedBy>().is_some()
}

fn unreachable(operations: &dyn Operations, member: String, grpc: Option<String>) -> tonic::Status {
    CallRefusal::from(operations.unreachable(member, grpc)).into()
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn millis(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Calls that another member carries out. `None`: there is no connection to it.
#[cfg(feature = "cluster")]
mod passed_on {
    use super::{Identity, Operations, RpcResult, v1};
    use crate::cluster::peers::Peer;
    use crate::grpc::stubs::v1::admin_service_client::AdminServiceClient;

    fn peer(operations: &dyn Operations, member: &str) -> Option<Peer> {
        operations.peer(member).filter(Peer::answers_pings)
    }

    pub(super) async fn move_rm(
        operations: &dyn Operations,
        member: &str,
        request: v1::MoveResourceManagerRequest,
        caller: &Identity,
    ) -> Option<RpcResult<v1::MoveResourceManagerResponse>> {
        let peer = peer(operations, member)?;
        let request = peer.request(request, caller);
        Some(AdminServiceClient::new(peer.channel()).move_resource_manager(request).await)
    }

    pub(super) async fn drain(
        operations: &dyn Operations,
        member: &str,
        request: v1::DrainMemberRequest,
        caller: &Identity,
    ) -> Option<RpcResult<v1::DrainMemberResponse>> {
        let peer = peer(operations, member)?;
        let request = peer.request(request, caller);
        Some(AdminServiceClient::new(peer.channel()).drain_member(request).await)
    }
}

/// Calls that another member carries out, in a build without clusters: there is none.
#[cfg(not(feature = "cluster"))]
mod passed_on {
    use std::future::{Ready, ready};

    use super::{Identity, Operations, RpcResult, v1};

    pub(super) fn move_rm(
        _: &dyn Operations,
        _: &str,
        _: v1::MoveResourceManagerRequest,
        _: &Identity,
    ) -> Ready<Option<RpcResult<v1::MoveResourceManagerResponse>>> {
        ready(None)
    }

    pub(super) fn drain(
        _: &dyn Operations,
        _: &str,
        _: v1::DrainMemberRequest,
        _: &Identity,
    ) -> Ready<Option<RpcResult<v1::DrainMemberResponse>>> {
        ready(None)
    }
}
