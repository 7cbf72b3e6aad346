//! The cluster that this process is a member of, and what this process answers besides reads.

use std::time::Duration;

use serde::Serialize;

use super::endpoints::json;
use super::failures::Failure;
use super::replies::EndpointReply;
use super::{Reads, RestEdge};
use crate::cluster::operations::{ClaimReport, ClusterReport, GroupReport, MemberReport};

/// The cluster as this member has last read it. Without a cluster there is no such part.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(flatten)]
    cluster: Option<ShownCluster>,
    /// Whether `POST /ws/v1/whatif` is answered here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    answers_what_if: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownCluster {
    name: String,
    arbiter: &'static str,
    /// This member.
    member: String,
    /// Whether this member may decide.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    lease_ms: u64,
    /// Age of the members and claims. Absent before the first read.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_ago_ms: Option<u64>,
    /// Configurations of policy groups that this member cannot apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_in_force: Vec<ShownGroup>,
    members: Vec<ShownMember>,
    claims: Vec<ShownClaim>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownMember {
    id: String,
    incarnation: String,
    version: String,
    grpc: String,
    rest: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    internal: String,
    state: &'static str,
    rms: usize,
    load: u64,
    /// Its own lease. Absent if its record names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    beat_ago_ms: Option<u64>,
    /// Number of policy groups whose configuration it cannot apply. Absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_in_force: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownGroup {
    /// Absent for all groups without a configuration of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_arbiter: Option<u64>,
    reason: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownClaim {
    rm_id: String,
    /// A text, because JSON readers in browsers round such large numbers.
    session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted_by: Option<String>,
    /// Milliseconds since 1970.
    since_ms: u64,
}

/// Answers with the cluster.
pub(super) async fn document<S: Reads>(edge: &RestEdge<S>) -> Result<EndpointReply, Failure> {
    let report = edge.logbook.cluster.operations().map(|operations| operations.report());
    let answers_what_if = edge.whatif.is_on();
    json(Answer { cluster: report.map(shown), answers_what_if }).await
}

fn shown(report: ClusterReport) -> ShownCluster {
    ShownCluster {
        name: report.name,
        arbiter: report.arbiter,
        member: report.member,
        state: report.state.name(),
        problem: report.problem,
        lease_ms: millis(report.lease),
        read_ago_ms: report.read_ago.map(millis),
        not_in_force: report.not_in_force.into_iter().map(group).collect(),
        members: report.members.into_iter().map(member).collect(),
        claims: report.claims.into_iter().map(claim).collect(),
    }
}

fn member(member: MemberReport) -> ShownMember {
    let [grpc, rest, internal] = member.addresses;
    ShownMember {
        id: member.id,
        incarnation: member.incarnation,
        version: member.version,
        grpc,
        rest,
        internal,
        state: member.state.name(),
        rms: member.rms,
        load: member.load,
        lease_ms: member.lease.map(millis),
        beat_ago_ms: member.beat_ago.map(millis),
        not_in_force: Some(member.not_in_force).filter(|groups| *groups > 0),
    }
}

fn group(group: GroupReport) -> ShownGroup {
    ShownGroup {
        policy_group: group.group,
        in_force: group.in_force,
        in_arbiter: group.in_arbiter,
        reason: group.why_not.unwrap_or_default(),
    }
}

fn claim(claim: ClaimReport) -> ShownClaim {
    ShownClaim {
        rm_id: claim.rm_id,
        session_id: claim.epoch.to_string(),
        member: claim.owner,
        wanted_by: claim.wanted_by,
        since_ms: claim.since_ms,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::operations::{MemberState, OwnState};

    #[test]
    fn the_document_has_members_and_claims() {
        let report = ClusterReport {
            name: "monoceros".to_owned(),
            arbiter: "etcd",
            lease: Duration::from_secs(5),
            member: "m1".to_owned(),
            state: OwnState::Serving,
            problem: None,
            read_ago: Some(Duration::from_millis(20)),
            not_in_force: vec![GroupReport {
                group: Some("etl".to_owned()),
                in_force: Some(2),
                in_arbiter: Some(3),
                why_not: Some("resource manager `rm`: no".to_owned()),
            }],
            members: vec![MemberReport {
                id: "m1".to_owned(),
                incarnation: "0".repeat(32),
                version: "1.0".to_owned(),
                addresses: ["h:50051".to_owned(), "h:9080".to_owned(), String::new()],
                state: MemberState::Alive,
                rms: 1,
                load: 1_003,
                lease: Some(Duration::from_secs(10)),
                not_in_force: 1,
                beat_ago: Some(Duration::from_millis(700)),
            }],
            claims: vec![ClaimReport {
                rm_id: "rm".to_owned(),
                epoch: 7,
                owner: Some("m1".to_owned()),
                wanted_by: None,
                since_ms: 5,
            }],
        };
        let text = serde_json::to_string_pretty(&Answer {
            cluster: Some(shown(report)),
            answers_what_if: false,
        })
        .unwrap();
        expect_test::expect![[r#"
            {
              "name": "monoceros",
              "arbiter": "etcd",
              "member": "m1",
              "state": "serving",
              "leaseMs": 5000,
              "readAgoMs": 20,
              "notInForce": [
                {
                  "policyGroup": "etl",
                  "inForce": 2,
                  "inArbiter": 3,
                  "reason": "resource manager `rm`: no"
                }
              ],
              "members": [
                {
                  "id": "m1",
                  "incarnation": "00000000000000000000000000000000",
                  "version": "1.0",
                  "grpc": "h:50051",
                  "rest": "h:9080",
                  "state": "alive",
                  "rms": 1,
                  "load": 1003,
                  "leaseMs": 10000,
                  "beatAgoMs": 700,
                  "notInForce": 1
                }
              ],
              "claims": [
                {
                  "rmId": "rm",
                  "sessionId": "7",
                  "member": "m1",
                  "sinceMs": 5
                }
              ]
            }"#]]
        .assert_eq(&text);
        let none = serde_json::to_string(&Answer::default()).unwrap();
        assert_eq!(none, "{}");
    }
}
