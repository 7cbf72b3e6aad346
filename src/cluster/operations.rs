//! Operations on a cluster for operators: its state, and moves, drains and accepted restores.
//!
//! # Why a trait
//! The edges use it, and a build may leave clusters out. A process without a cluster has none.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;

use crate::grpc::end::ClaimRefusal;

/// Operations of the member of this process.
pub trait Operations: Send + Sync {
    /// Id of this member.
    fn member_id(&self) -> String;

    /// The cluster as this member has last read it.
    fn report(&self) -> ClusterReport;

    /// Another live member with this id.
    #[cfg(feature = "cluster")]
    fn peer(&self, member: &str) -> Option<super::peers::Peer>;

    /// Why no call can be passed on to a member, whose gRPC address may be known.
    fn unreachable(&self, member: String, grpc: Option<String>) -> OperationRefusal;

    /// Hands a resource manager over to a member, or to one that is less loaded. Returns the id of
    /// the member that serves it from then on: another one, if the resource manager went there
    /// meanwhile. Only its owner can do so.
    fn move_rm(
        &self,
        rm_id: String,
        to: Option<String>,
    ) -> BoxFuture<'_, Result<String, OperationRefusal>>;

    /// Hands over all resource managers of a member, which takes no others until this is undone or
    /// it restarts. `drain`: `false` undoes it. Only the member itself can do so.
    fn drain(
        &self,
        member: String,
        drain: bool,
    ) -> BoxFuture<'_, Result<Drained, OperationRefusal>>;

    /// Accepts that the arbiter went back to an earlier state. Returns the bound above which all
    /// sessions are numbered from then on. Any member that has seen it go back can do so.
    fn accept_restore(&self) -> BoxFuture<'_, Result<u64, OperationRefusal>>;
}

/// Result of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Resource managers that were handed over.
    pub handed_over: usize,
    /// Resource managers that the member still serves. It goes on handing them over.
    pub remaining: usize,
}

/// Reason why an operation was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationRefusal {
    /// No member has this id.
    #[error("the cluster has no member `{0}`")]
    MemberUnknown(String),
    /// No member serves the resource manager.
    #[error("no member serves resource manager `{0}`")]
    RmUnknown(String),
    /// The member that should serve the resource manager does not take it.
    #[error("member `{member}` {}", why_unfit(state))]
    MemberUnfit {
        /// Id of the member.
        member: String,
        /// Its state.
        state: &'static str,
    },
    /// The resource manager is there already.
    #[error("member `{member}` serves resource manager `{rm_id}` already")]
    AlreadyThere {
        /// Id of the resource manager.
        rm_id: String,
        /// Id of the member.
        member: String,
    },
    /// No other member takes resource managers.
    #[error("no other member lives that could serve its resource managers: nothing was done")]
    NoOtherMember,
    /// Another member has to carry out the operation.
    #[error("member `{member}` has to do this: call it there")]
    AtMember {
        /// Id of the member.
        member: String,
        /// Its gRPC address, if it is known.
        address: Option<String>,
    },
    /// No call reaches the member that has to carry out the operation.
    #[error(
        "member `{member}` cannot be reached at {address} ({why}); its gRPC address is {}",
        .grpc.as_deref().unwrap_or("not known")
    )]
    Unreachable {
        /// Id of the member.
        member: String,
        /// The address of its listener for other members.
        address: String,
        /// The last failure.
        why: String,
        /// Its gRPC address, if it is known.
        grpc: Option<String>,
    },
    /// The member that has to carry out the operation renews its record no more.
    #[error(
        "member `{member}` has been silent for {} s: others take its resource managers once its \
         lease is over",
        .silence.as_secs()
    )]
    Silent {
        /// Id of the member.
        member: String,
        /// Time since its record last changed.
        silence: Duration,
    },
    /// This member may not decide.
    #[error("this member may not decide: {0}")]
    MayNotDecide(String),
    /// The claim of the resource manager names this member still: something else changes it.
    #[error(
        "resource manager `{0}` was not moved: it registers or deregisters at this moment; try \
         again"
    )]
    NotMoved(String),
    /// The claim of the resource manager was not changed, as far as is known. Its session has ended.
    #[error(
        "resource manager `{0}` was not moved: the arbiter of the cluster does not answer, and its \
         session has ended; it may register here again"
    )]
    NotWritten(String),
    /// This member has not seen the arbiter go back to an earlier state.
    #[error(
        "nothing to accept: this member has not seen the arbiter go back to an earlier state, so \
         nothing was changed; members that have are `restored` in their own `get members`"
    )]
    NothingToAccept,
    /// The same reasons as those of a registration.
    #[error(transparent)]
    Claim(#[from] ClaimRefusal),
}

/// Why a member in this state does not take resource managers.
fn why_unfit(state: &str) -> String {
    match state {
        "left" => "has left the cluster".to_owned(),
        "deposed" => "was deposed: it was silent for the lease".to_owned(),
        state => format!("is {state}: it takes no resource managers"),
    }
}

/// The cluster as a member has last read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterReport {
    /// Name of the cluster.
    pub name: String,
    /// Store of the claims: `etcd` or `kubernetes`.
    pub arbiter: &'static str,
    /// Time for which a member must be silent before others take its resource managers.
    pub lease: Duration,
    /// Id of this member.
    pub member: String,
    /// Whether this member may decide.
    pub state: OwnState,
    /// Why the arbiter does not answer. `None` if it does.
    pub problem: Option<String>,
    /// Time since the last read. `None` before the first one.
    pub read_ago: Option<Duration>,
    /// Configurations of policy groups that this member cannot apply, at most [`MAX_GROUPS`].
    pub not_in_force: Vec<GroupReport>,
    /// All members, by id. Those that have left are listed, too.
    pub members: Vec<MemberReport>,
    /// All claims, by the id of the resource manager.
    pub claims: Vec<ClaimReport>,
}

/// Most configurations in a report.
pub const MAX_GROUPS: usize = 100;

/// Configuration of a policy group on this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// Name of the policy group. `None`: all groups without a configuration of their own.
    pub group: Option<String>,
    /// Version in force here. `None`: none is.
    pub in_force: Option<u64>,
    /// Version in the arbiter, as this member last read it. `None`: there is none.
    pub in_arbiter: Option<u64>,
    /// Reason why the version in the arbiter is not in force. `None` if it is.
    pub why_not: Option<String>,
}

/// Right of this member to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnState {
    /// No renewal has counted since the start.
    Joining,
    /// Decisions are allowed.
    Serving,
    /// The lease is over.
    Fenced,
    /// The arbiter went back to an earlier state, which an operator has to accept.
    Restored,
}

impl OwnState {
    /// The state in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Serving => "serving",
            Self::Fenced => "fenced",
            Self::Restored => "restored",
        }
    }

    /// Why this member may not decide, with the problem of the arbiter if there is one. `None`: it
    /// may.
    pub fn why_not(self, problem: Option<&str>) -> Option<String> {
        let why = match self {
            Self::Serving => return None,
            Self::Joining => {
                "it is joining the cluster, which takes a lease and a second or two after a crash or \
                 a restored backup, and for ever while another process has its id"
            }
            Self::Fenced => "its lease is over",
            Self::Restored => {
                "the arbiter went back to an earlier state, which `monoceros cluster \
                 accept-restore` accepts"
            }
        };
        let problem = problem.map(|problem| format!("; the arbiter does not answer: {problem}"));
        Some(format!("{why}{}", problem.unwrap_or_default()))
    }
}

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// Id, chosen by the operator.
    pub id: String,
    /// Number of its start: 32 hexadecimal digits.
    pub incarnation: String,
    /// Version of its program.
    pub version: String,
    /// Addresses of gRPC, REST and the listener for other members. Empty: it has none.
    pub addresses: [String; 3],
    /// Whether it takes part.
    pub state: MemberState,
    /// Number of resource managers whose claims name it.
    pub rms: usize,
    /// Nodes + applications + 1,000 for each session.
    pub load: u64,
    /// Its own lease. `None`: a version wrote its record that names none.
    pub lease: Option<Duration>,
    /// Number of policy groups whose configuration it cannot apply, as its record has it.
    pub not_in_force: u32,
    /// Time since its record was last seen to change, for members that have not left.
    pub beat_ago: Option<Duration>,
}

/// Whether a member takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Renews its record.
    Alive,
    /// Renews its record, and takes no resource managers.
    Draining,
    /// Has not renewed its record of late.
    Silent,
    /// The member that answers, which may decide nothing.
    Fenced,
    /// Has ended in order.
    Left,
    /// Was silent for the lease, and has lost its resource managers.
    Deposed,
}

impl MemberState {
    /// The state in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Draining => "draining",
            Self::Silent => "silent",
            Self::Fenced => "fenced",
            Self::Left => "left",
            Self::Deposed => "deposed",
        }
    }
}

/// Claim of a resource manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReport {
    /// Id of the resource manager.
    pub rm_id: String,
    /// Number of its session.
    pub epoch: u64,
    /// Id of the member that serves it. `None`: nobody does.
    pub owner: Option<String>,
    /// Id of a member that could not reach the owner, and wants to serve it.
    pub wanted_by: Option<String>,
    /// Milliseconds since 1970 at its last registration.
    pub since_ms: u64,
}

/// Access to the operations for all edges. Without a cluster there are none. Clones share it.
#[derive(Clone, Default)]
pub struct ClusterAccess(Arc<OnceLock<Arc<dyn Operations>>>);

impl ClusterAccess {
    /// Sets the operations. Only the first call counts: a process is one member.
    pub fn is_by(&self, operations: Arc<dyn Operations>) {
        let _ = self.0.set(operations);
    }

    /// The operations. `None` without a cluster.
    pub fn operations(&self) -> Option<&Arc<dyn Operations>> {
        self.0.get()
    }
}

impl fmt::Debug for ClusterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAccess").field("is_member", &self.0.get().is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfit_member_is_told_with_its_state() {
        let told = |state| {
            let member = "m2".to_owned();
            OperationRefusal::MemberUnfit { member, state }.to_string()
        };
        assert_eq!(told("left"), "member `m2` has left the cluster");
        assert_eq!(told("deposed"), "member `m2` was deposed: it was silent for the lease");
        assert_eq!(told("draining"), "member `m2` is draining: it takes no resource managers");
    }
}
