//! Checks of a registration before it is sent to the scheduler: sizes, mode and policy group.
//!
//! A registration replaces the current session. A registration that cannot succeed is refused
//! before that, so a mistake of a new client does not affect the current session.

use monoceros_proto::si::v1 as si;
use tokio_util::sync::CancellationToken;
use tonic::metadata::MetadataMap;

use super::super::end::{RegistrationRefusal, attempt, text};
use super::super::routing::PassableCall;
use super::super::session::attempt::Attempt;
use super::super::{
    ATTEMPT_HEADER, INSTANCE_HEADER, PROOF_HEADER, REGISTER_MODE_HEADER, SESSION_HEADER,
    SUSPECTS_HEADER,
};
use super::Proof;
use crate::identity::Identity;
use crate::settings::LimitSettings;

/// The policy group of a registration that names none.
const DEFAULT_POLICY_GROUP: &str = "queues";

/// The effect of a registration on an earlier session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistrationMode {
    /// Ends it; everything is reported again.
    #[default]
    Takeover,
    /// Continues it, if none of its messages was lost and its configuration is the same.
    Attach,
}

/// The metadata of a registration.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The effect on an earlier session.
    pub mode: RegistrationMode,
    /// The registering process.
    pub instance: Option<String>,
    /// The connection attempt, if the client counts them.
    pub attempt: Option<Attempt>,
    /// The name of the caller by the access rules.
    pub caller: String,
    /// The secret of the registering process, which counts in a cluster.
    pub proof: Option<Proof>,
    /// The number of the last session that the process had. A text that is no number counts as
    /// none.
    pub shown: Option<u64>,
    /// The incarnation of the member of a cluster that fell silent for the process.
    pub suspects: Option<String>,
    /// The call, if it can be made at another member of the cluster.
    pub call: Option<PassableCall>,
    /// Whether another member of the cluster has passed the call on.
    pub is_forwarded: bool,
    /// Cancelled when the client has given up the call, and once the call is answered.
    pub abandoned: CancellationToken,
}

impl Origin {
    /// Reads the metadata of a call by `caller`.
    pub fn read(metadata: &MetadataMap, caller: &Identity) -> Result<Self, RegistrationRefusal> {
        let read = |key| text(metadata, key).map_err(|_| RegistrationRefusal::BadMetadata(key));
        let mode = match read(REGISTER_MODE_HEADER)? {
            None | Some("takeover") => RegistrationMode::Takeover,
            Some("attach") => RegistrationMode::Attach,
            Some(_) => return Err(RegistrationRefusal::BadMetadata(REGISTER_MODE_HEADER)),
        };
        let instance = read(INSTANCE_HEADER)?.map(ToOwned::to_owned);
        let attempt = attempt(metadata);
        let attempt = attempt.map_err(|_| RegistrationRefusal::BadMetadata(ATTEMPT_HEADER))?;
        let bad_proof = || RegistrationRefusal::BadMetadata(PROOF_HEADER);
        let proof = read(PROOF_HEADER)?.map(|text| Proof::parse(text).ok_or_else(bad_proof));
        let shown = read(SESSION_HEADER)?.and_then(|text| text.parse().ok());
        let suspects = read(SUSPECTS_HEADER)?.map(ToOwned::to_owned);
        let caller = caller.name().to_owned();
        let proof = proof.transpose()?;
        Ok(Self { mode, instance, attempt, caller, proof, shown, suspects, ..Self::default() })
    }
}

/// The policy group that `request` belongs to.
pub(super) fn policy_group(request: &si::RegisterResourceManagerRequest) -> &str {
    if request.policy_group.is_empty() { DEFAULT_POLICY_GROUP } else { &request.policy_group }
}

/// Checks the sizes of a registration.
pub(super) fn check(
    request: &si::RegisterResourceManagerRequest,
    limits: &LimitSettings,
) -> Result<(), RegistrationRefusal> {
    let limit = limits.id_bytes.get();
    for (field, text) in [("version", &request.version), ("policyGroup", &request.policy_group)] {
        if text.len() > limit {
            return Err(RegistrationRefusal::IdTooLong { field, limit });
        }
    }
    let (items, limit) =
        (request.build_info.len() + request.extra_config.len(), limits.items_per_message.get());
    if items > limit {
        return Err(RegistrationRefusal::TooManyItems { items, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_mode_is_takeover_or_attach() {
        let mut metadata = MetadataMap::new();
        assert_eq!(
            Origin::read(&metadata, &Identity::anybody()).unwrap().mode,
            RegistrationMode::Takeover
        );
        metadata.insert(REGISTER_MODE_HEADER, "attach".parse().unwrap());
        metadata.insert(INSTANCE_HEADER, "pod-1".parse().unwrap());
        let origin = Origin::read(&metadata, &Identity::anybody()).unwrap();
        assert_eq!(
            (origin.mode, origin.instance.as_deref()),
            (RegistrationMode::Attach, Some("pod-1"))
        );
        metadata.insert(SESSION_HEADER, "7".parse().unwrap());
        metadata.insert(SUSPECTS_HEADER, "00ff".parse().unwrap());
        metadata.insert(PROOF_HEADER, "sixteen bytes at".parse().unwrap());
        let origin = Origin::read(&metadata, &Identity::anybody()).unwrap();
        assert_eq!((origin.shown, origin.proof.is_some()), (Some(7), true));
        assert_eq!(origin.suspects.as_deref(), Some("00ff"));
        assert!(!format!("{origin:?}").contains("sixteen"), "a proof is a secret");
        for bad in ["x".repeat(15), "x".repeat(65)] {
            metadata.insert(PROOF_HEADER, bad.parse().unwrap());
            Origin::read(&metadata, &Identity::anybody()).unwrap_err();
        }
        metadata.remove(PROOF_HEADER);
        metadata.insert(REGISTER_MODE_HEADER, "share".parse().unwrap());
        Origin::read(&metadata, &Identity::anybody()).unwrap_err();
    }
}
