//! The session calls of the admin service.
//!
//! A call that ends a session must name its resource manager: a field left empty by mistake must
//! not end the only session.

use monoceros_proto::v1;
use tracing::info;

use super::refusal::CallRefusal;
use crate::cluster::operations::OperationRefusal;
use crate::grpc::kind::Dialect;
use crate::grpc::registry::Registry;
use crate::grpc::session::SessionStatus;
use crate::identity::{Identity, Right};
use crate::logging::AUDIT;

/// Reason that is reported to later clients if the operator gave none.
const DEREGISTERED: &str = "deregistered";

/// Maximum length of a reason: it is kept, and reported in a status to every later client.
const REASON_BYTES: usize = 1_024;

/// Answers `ListSessions` of this member of a cluster. Without a cluster it has no id.
pub(super) fn list(registry: &Registry, member: &str) -> v1::ListSessionsResponse {
    let scheduler_id = registry.scheduler_id();
    v1::ListSessionsResponse {
        scheduler_id: scheduler_id.to_str().unwrap_or_default().to_owned(),
        sessions: registry.list().into_iter().map(|it| message(it, member)).collect(),
    }
}

/// Answers `DeregisterResourceManager`.
pub(super) async fn deregister(
    registry: &Registry,
    caller: &Identity,
    request: v1::DeregisterResourceManagerRequest,
) -> Result<v1::DeregisterResourceManagerResponse, CallRefusal> {
    let v1::DeregisterResourceManagerRequest { rm_id, session_id, reason } = request;
    let reason = cut(reason);
    check_named(caller, &rm_id)?;
    let number = (session_id != 0).then_some(session_id);
    let by = if reason.is_empty() { DEREGISTERED } else { &reason };
    let Some((session, removed)) = registry.stop(&rm_id, number, by).await else {
        if number.is_none() {
            registry.give_up(&rm_id).await.map_err(OperationRefusal::from)?;
        }
        return Ok(v1::DeregisterResourceManagerResponse::default());
    };
    info!(target: AUDIT, by = caller.name(), from = caller.from(), rm = rm_id, session = session.number(), reason, "resource manager deregistered");
    let count = |n| u32::try_from(n).unwrap_or(u32::MAX);
    Ok(v1::DeregisterResourceManagerResponse {
        released_allocations: count(removed.allocations),
        removed_nodes: count(removed.nodes),
        removed_applications: count(removed.applications),
    })
}

/// Answers `TriggerResync`.
pub(super) fn resync(
    registry: &Registry,
    caller: &Identity,
    request: v1::TriggerResyncRequest,
) -> Result<v1::TriggerResyncResponse, CallRefusal> {
    let v1::TriggerResyncRequest { rm_id, reason } = request;
    let reason = cut(reason);
    check_named(caller, &rm_id)?;
    if registry.session(&rm_id).is_none() {
        return Err(CallRefusal::NotRegistered(rm_id));
    }
    let cause = if reason.is_empty() { "an administrator asked for it" } else { &reason };
    let closed = registry.resync(&rm_id, cause);
    info!(target: AUDIT, by = caller.name(), from = caller.from(), rm = rm_id, reason, closed, "resource manager told to report anew");
    Ok(v1::TriggerResyncResponse { closed_streams: u32::try_from(closed).unwrap_or(u32::MAX) })
}

/// Cuts a reason to its maximum length.
fn cut(mut reason: String) -> String {
    let fits = |&bytes: &usize| reason.is_char_boundary(bytes);
    let bytes = (0..=REASON_BYTES.min(reason.len())).rev().find(fits).unwrap_or(0);
    reason.truncate(bytes);
    reason
}

fn check_named(caller: &Identity, rm_id: &str) -> Result<(), CallRefusal> {
    if rm_id.is_empty() {
        return Err(CallRefusal::field("rm_id", "name the resource manager"));
    }
    Ok(caller.check(Right::Act, rm_id)?)
}

fn message(session: SessionStatus, member: &str) -> v1::SessionInfo {
    let registrant = session.registrant;
    v1::SessionInfo {
        rm_id: registrant.rm_id,
        session_id: registrant.number,
        state: session.state.name().to_owned(),
        version: registrant.version,
        policy_group: registrant.policy_group,
        dialect: session.dialect.map_or("", Dialect::name).to_owned(),
        open_streams: session.open_streams.into_iter().map(str::to_owned).collect(),
        registered_at_nano: registrant.registered_at_ns,
        paused_at_nano: session.paused_at_ns.unwrap_or_default(),
        outbox_items: session.outbox_items as u64,
        instance_id: session.instance.unwrap_or_default(),
        build_info: registrant.build_info.into_iter().collect(),
        lost: session.lost.unwrap_or_default(),
        remark: session.remark.unwrap_or_default().to_owned(),
        member_id: member.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_cut_at_a_character_boundary() {
        assert_eq!(cut("upgrade".to_owned()), "upgrade");
        assert_eq!(cut("x".repeat(REASON_BYTES)).len(), REASON_BYTES);
        assert_eq!(cut("€".repeat(1_000)), "€".repeat(REASON_BYTES / 3));
    }
}
