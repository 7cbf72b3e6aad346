//! The reasons for which a registration wins no claim in a cluster, and their statuses.

use std::time::Duration;

use tonic::{Code, Status};

use super::status::{detailed_status, with_owner};
use super::{AT_ONCE, LATER, SOON};

/// Why a registration won no claim. The earlier session of the resource manager may have ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimRefusal {
    /// This member may not decide, because its lease is over or has not begun.
    #[error("this member of the cluster may not decide now")]
    Fenced,
    /// This member ends.
    #[error("this member of the cluster is ending: register at another one")]
    Leaving,
    /// This member is drained.
    #[error("this member of the cluster is drained: register at another one")]
    Draining {
        /// The gRPC address of a member that takes resource managers, if one is known.
        owner: Option<String>,
    },
    /// Another change of the claim was under way.
    #[error("the claim of the resource manager is being changed: register again")]
    Contended,
    /// The store of the claims does not answer.
    #[error("the arbiter of the cluster does not answer")]
    ArbiterUnavailable,
    /// The store of the claims answers, and did not write or read the claim.
    #[error("the arbiter of the cluster has no result for the claim: {why}")]
    ArbiterFailed {
        /// The failure.
        why: String,
    },
    /// The owner cannot be reached. It is asked to hand over, or loses its claims a lease after its
    /// last sign of life.
    #[error("member `{member}` serves the resource manager and cannot be reached")]
    OwnerUnreachable {
        /// The id of the owner.
        member: String,
    },
    /// Another member serves the resource manager.
    #[error("member `{member}` serves the resource manager")]
    NotOwner {
        /// The id of the owner.
        member: String,
        /// Its gRPC address, if it is known.
        owner: Option<String>,
    },
    /// The client has given up the registration.
    #[error("the client has given up the registration")]
    Abandoned,
    /// Another process of the resource manager, or a later attempt of this one, has registered.
    #[error("the resource manager was registered again by another process, or later")]
    Superseded,
}

impl ClaimRefusal {
    fn retry(&self) -> Duration {
        match self {
            Self::NotOwner { owner: Some(_), .. }
            | Self::Leaving
            | Self::Draining { owner: Some(_) } => AT_ONCE,
            Self::Superseded => LATER,
            Self::Fenced
            | Self::Contended
            | Self::Abandoned
            | Self::ArbiterUnavailable
            | Self::ArbiterFailed { .. }
            | Self::OwnerUnreachable { .. }
            | Self::Draining { owner: None }
            | Self::NotOwner { owner: None, .. } => SOON,
        }
    }
}

impl From<&ClaimRefusal> for Status {
    fn from(refusal: &ClaimRefusal) -> Self {
        let (code, reason) = match refusal {
            ClaimRefusal::Fenced => (Code::Unavailable, "MEMBER_FENCED"),
            ClaimRefusal::Leaving | ClaimRefusal::Draining { .. } => {
                (Code::Unavailable, "SHUTTING_DOWN")
            }
            // Nobody receives the status of a call that was given up.
            ClaimRefusal::Contended | ClaimRefusal::Abandoned => {
                (Code::Unavailable, "CLAIM_CONTENDED")
            }
            ClaimRefusal::ArbiterUnavailable | ClaimRefusal::ArbiterFailed { .. } => {
                (Code::Unavailable, "ARBITER_UNAVAILABLE")
            }
            ClaimRefusal::OwnerUnreachable { .. } => (Code::Unavailable, "OWNER_UNREACHABLE"),
            ClaimRefusal::NotOwner { .. } => (Code::Unavailable, "NOT_OWNER"),
            ClaimRefusal::Superseded => (Code::Aborted, "SESSION_SUPERSEDED"),
        };
        let (member, owner) = match refusal {
            ClaimRefusal::NotOwner { member, owner } => (Some(member), owner.as_deref()),
            ClaimRefusal::OwnerUnreachable { member } => (Some(member), None),
            ClaimRefusal::Draining { owner } => (None, owner.as_deref()),
            _ => (None, None),
        };
        let member = member.map(|member| ("member", member.clone()));
        let about = member.into_iter().chain(owner.map(|owner| ("owner", owner.to_owned())));
        let text = refusal.to_string();
        let status = detailed_status(code, reason, &text, about, Some(refusal.retry()));
        with_owner(status, owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::{OWNER_TRAILER, REASON_TRAILER};

    #[test]
    fn a_redirect_names_the_owner() {
        let member = "m-2".to_owned();
        let refusal = ClaimRefusal::NotOwner { member, owner: Some("m-2:50051".to_owned()) };
        let status = Status::from(&refusal);
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.metadata().get(REASON_TRAILER).unwrap(), "NOT_OWNER");
        assert_eq!(status.metadata().get(OWNER_TRAILER).unwrap(), "m-2:50051");
        let status = Status::from(&ClaimRefusal::Superseded);
        assert_eq!(status.code(), Code::Aborted);
        assert!(status.metadata().get(OWNER_TRAILER).is_none());
    }
}
