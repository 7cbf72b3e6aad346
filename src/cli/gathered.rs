//! Lists that the members of a cluster answer together, and what they lack: rows of members without
//! an answer, and all rows if the member that was asked may not decide.
//!
//! # Invariant
//! Standard error names what a list lacks, once until that changes. The list itself stays a document
//! that programs can read.

use std::io::{self, Write as _};

use monoceros_proto::v1;
use tonic::Response;

use super::cluster::Cluster;
use crate::grpc::routing::MISSING_HEADER;
use crate::logging::clean;

/// What was told last about the lists of a cluster.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Members without an answer. Empty: none.
    missing: String,
    /// Why the member that was asked may not decide. Empty: it may.
    undecided: String,
}

impl Gaps {
    /// Returns the message of an answer, and prints which members it lacks.
    fn message<T>(&mut self, answer: Response<T>) -> anyhow::Result<T> {
        let members = answer.metadata().get(MISSING_HEADER).and_then(|it| it.to_str().ok());
        let text = members.map(missing_text).unwrap_or_default();
        tell(&mut self.missing, text)?;
        Ok(answer.into_inner())
    }

    /// Prints why the member that answered may not decide, if it may not.
    fn tell_state(&mut self, answer: &v1::ListMembersResponse) -> anyhow::Result<()> {
        tell(&mut self.undecided, undecided_text(&answer.state, &answer.problem))
    }
}

/// Prints a text that is new and not empty.
fn tell(last: &mut String, text: String) -> anyhow::Result<()> {
    if *last != text && !text.is_empty() {
        writeln!(io::stderr(), "{text}")?;
    }
    *last = text;
    Ok(())
}

fn missing_text(members: &str) -> String {
    let members: Vec<_> = members.split(',').map(clean).collect();
    format!("members without an answer: {}: their rows are missing", members.join(", "))
}

/// Why a member in this state may not decide. Empty if it may.
fn undecided_text(state: &str, problem: &str) -> String {
    let why = match state {
        "serving" => return String::new(),
        "joining" => {
            "it is joining the cluster, which takes a lease or a little more after a crash"
        }
        "fenced" => "its lease is over",
        "restored" => "the arbiter went back to an earlier state, which an operator has to accept",
        other => other,
    };
    let problem = match problem {
        "" => String::new(),
        problem => format!("; the arbiter does not answer: {}", clean(problem)),
    };
    format!("this member may not decide: {}{problem}", clean(why))
}

impl Cluster {
    /// Lists partitions: those of the selected resource manager, or all that the caller may read.
    pub(super) async fn partitions(&mut self) -> anyhow::Result<Vec<v1::PartitionInfo>> {
        let request = v1::ListPartitionsRequest { rm_id: self.rm.clone() };
        let answer = self.admin.list_partitions(request).await?;
        let partitions = self.gaps.message(answer)?.partitions;
        if partitions.is_empty() {
            self.tell_undecided().await?;
        }
        Ok(partitions)
    }

    /// Lists the sessions of the selected resource manager, or of all.
    pub(super) async fn sessions(&mut self) -> anyhow::Result<Vec<v1::SessionInfo>> {
        let answer = self.admin.list_sessions(v1::ListSessionsRequest {}).await?;
        let sessions = self.gaps.message(answer)?.sessions;
        if sessions.is_empty() {
            self.tell_undecided().await?;
        }
        let is_meant = |session: &v1::SessionInfo| self.rm.is_empty() || session.rm_id == self.rm;
        Ok(sessions.into_iter().filter(is_meant).collect())
    }

    /// Lists the members of the cluster. Prints why the one that answers may not decide, if it may
    /// not.
    pub(super) async fn members(&mut self) -> anyhow::Result<v1::ListMembersResponse> {
        let answer = self.admin.list_members(v1::ListMembersRequest {}).await?.into_inner();
        self.gaps.tell_state(&answer)?;
        Ok(answer)
    }

    /// Prints why the member that answers may not decide, if it may not: it then has no resource
    /// managers. Prints nothing without a cluster, and for callers who may not read its members.
    pub(super) async fn tell_undecided(&mut self) -> anyhow::Result<()> {
        match self.admin.list_members(v1::ListMembersRequest {}).await {
            Ok(answer) => self.gaps.tell_state(answer.get_ref()),
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_without_an_answer_are_named() {
        let expected = "members without an answer: m1, m3: their rows are missing";
        assert_eq!(missing_text("m1,m3"), expected);
        let mut gaps = Gaps::default();
        let mut answer = Response::new(7);
        answer.metadata_mut().insert(MISSING_HEADER, "m1,m3".parse().unwrap());
        assert_eq!((gaps.message(answer).unwrap(), &*gaps.missing), (7, expected));
        assert_eq!((gaps.message(Response::new(8)).unwrap(), &*gaps.missing), (8, ""));
    }

    #[test]
    fn a_member_that_may_not_decide_says_why() {
        assert_eq!(undecided_text("serving", ""), "");
        assert_eq!(undecided_text("fenced", ""), "this member may not decide: its lease is over");
        let joining = undecided_text("joining", "http://e:1: connection refused");
        let start = "this member may not decide: it is joining the cluster, ";
        let end = "; the arbiter does not answer: http://e:1: connection refused";
        assert!(joining.starts_with(start) && joining.ends_with(end), "{joining}");
    }
}
