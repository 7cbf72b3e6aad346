//! The reasons for which the configuration of a policy group is not changed, and their statuses.

use tonic::{Code, Status};

use super::claim::ClaimRefusal;
use super::refusal::RegistrationRefusal;
use super::status::detailed_status;
use super::{LATER, SOON};

/// Why a call did not change the configuration of a policy group in a cluster.
///
/// All variants but [`Self::Refused`] may pass: the same call may succeed later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefusal {
    /// The text is refused by its check, by a resource manager, or for its size.
    #[error("{0}")]
    Refused(String),
    /// A resource manager has not tried the text: its member was not reached, was busy, or gave no
    /// answer in time.
    #[error("{0}")]
    Untried(String),
    /// Another text was written since the trial.
    #[error("{0}")]
    ChangedMeanwhile(String),
    /// The store of the cluster answers, and does not keep the text.
    #[error("{0}")]
    NotKept(String),
    /// The store of the cluster does not answer.
    #[error(transparent)]
    Claim(#[from] ClaimRefusal),
}

/// Offers of an operator use the checks and writes of registrations.
impl From<RegistrationRefusal> for ChangeRefusal {
    fn from(refusal: RegistrationRefusal) -> Self {
        match refusal {
            RegistrationRefusal::Claim(ClaimRefusal::Contended) => Self::ChangedMeanwhile(
                "the configuration of the policy group was changed several times meanwhile"
                    .to_owned(),
            ),
            RegistrationRefusal::Claim(refusal) => Self::Claim(refusal),
            RegistrationRefusal::ConfigNotKept { .. } => Self::NotKept(refusal.to_string()),
            RegistrationRefusal::TooSlow(limit) => {
                Self::Untried(format!("the configuration was not checked within {limit:?}"))
            }
            refusal => Self::Refused(refusal.to_string()),
        }
    }
}

impl From<&ChangeRefusal> for Status {
    fn from(refusal: &ChangeRefusal) -> Self {
        let (code, reason, retry) = match refusal {
            ChangeRefusal::Refused(_) => (Code::InvalidArgument, "CONFIG_INVALID", None),
            ChangeRefusal::Untried(_) => (Code::Unavailable, "CONFIG_UNTRIED", Some(SOON)),
            ChangeRefusal::ChangedMeanwhile(_) => (Code::Aborted, "CONFIG_CHANGED", Some(SOON)),
            ChangeRefusal::NotKept(_) => (Code::Unavailable, "ARBITER_UNAVAILABLE", Some(LATER)),
            ChangeRefusal::Claim(refusal) => return Self::from(refusal),
        };
        detailed_status(code, reason, &refusal.to_string(), [], retry)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic_types::StatusExt as _;

    use super::*;
    use crate::grpc::REASON_TRAILER;

    #[test]
    fn a_passing_failure_says_when_to_try_again() {
        let untried = ChangeRefusal::Untried("no answer".to_owned());
        let (group, why) = ("etl".to_owned(), "it is full".to_owned());
        let not_kept = ChangeRefusal::from(RegistrationRefusal::ConfigNotKept { group, why });
        let slow = ChangeRefusal::from(RegistrationRefusal::TooSlow(Duration::from_secs(5)));
        let away = ChangeRefusal::from(ClaimRefusal::ArbiterUnavailable);
        let contended = RegistrationRefusal::from(ClaimRefusal::Contended);
        for (refusal, code, reason) in [
            (untried, Code::Unavailable, "CONFIG_UNTRIED"),
            (slow, Code::Unavailable, "CONFIG_UNTRIED"),
            (not_kept, Code::Unavailable, "ARBITER_UNAVAILABLE"),
            (away, Code::Unavailable, "ARBITER_UNAVAILABLE"),
            (ChangeRefusal::from(contended), Code::Aborted, "CONFIG_CHANGED"),
        ] {
            let status = Status::from(&refusal);
            assert_eq!((status.code(), status.message()), (code, &*refusal.to_string()));
            assert_eq!(status.metadata().get(REASON_TRAILER).unwrap(), reason);
            let retry = status.get_details_retry_info().unwrap().retry_delay;
            assert!(retry.is_some(), "{reason}");
        }
        let too_large = RegistrationRefusal::ConfigTooLarge("it is too large".to_owned());
        let refused = ChangeRefusal::Refused("it is too large".to_owned());
        assert_eq!(ChangeRefusal::from(too_large), refused);
    }
}
