//! The sessions of resource managers, as the gRPC service shows them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::endpoints::json;
use super::failures::Failure;
use super::replies::EndpointReply;
use super::{Reads, RestEdge};
use crate::grpc::kind::Dialect;
use crate::grpc::session::SessionStatus;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// The id of this run of the service for resource managers.
    scheduler_id: String,
    sessions: Vec<ShownSession>,
}

/// A session. Empty and zero fields are omitted.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownSession {
    rm_id: String,
    /// A text, because JSON readers in browsers round such large numbers.
    session_id: String,
    state: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    policy_group: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    dialect: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open_streams: Vec<&'static str>,
    registered_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_at: Option<i64>,
    outbox_items: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance_id: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    build_info: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<&'static str>,
    /// The member of the cluster that serves the resource manager. Empty without a cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    member_id: String,
}

/// Answers with all sessions. Their number is bounded by the settings.
pub(super) async fn list<S: Reads>(edge: &RestEdge<S>) -> Result<EndpointReply, Failure> {
    let (scheduler_id, sessions) = edge.logbook.sessions.now();
    let member = edge.logbook.cluster.operations().map(|it| it.member_id()).unwrap_or_default();
    let sessions = sessions.into_iter().map(|session| shown(session, &member)).collect();
    json(Answer { scheduler_id, sessions }).await
}

fn shown(session: SessionStatus, member: &str) -> ShownSession {
    let registrant = session.registrant;
    ShownSession {
        rm_id: registrant.rm_id,
        session_id: registrant.number.to_string(),
        state: session.state.name(),
        version: registrant.version,
        policy_group: registrant.policy_group,
        dialect: session.dialect.map_or("", Dialect::name),
        open_streams: session.open_streams,
        registered_at: registrant.registered_at_ns,
        paused_at: session.paused_at_ns,
        outbox_items: session.outbox_items,
        instance_id: session.instance,
        build_info: registrant.build_info,
        lost: session.lost,
        remark: session.remark,
        member_id: member.to_owned(),
    }
}
