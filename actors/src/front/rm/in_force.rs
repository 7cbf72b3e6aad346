//! The configuration in force for a session: its queues, the extra map of its RM, and its policy
//! group.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_proto::si::v1 as si;

use crate::front::document::Document;

/// The policy group of a registration that names none.
const POLICY_GROUP: &str = "queues";

/// The policy group of a registration.
pub(crate) fn policy_group(request: &si::RegisterResourceManagerRequest) -> &str {
    let group = request.policy_group.as_str();
    if group.is_empty() { POLICY_GROUP } else { group }
}

/// The configuration of a session.
#[derive(Clone)]
pub(crate) struct InForce {
    pub(super) policy_group: String,
    /// The queue part.
    pub(super) document: Arc<Document>,
    /// The extra map of the RM, as it was sent.
    pub(super) extra: BTreeMap<String, String>,
    /// Whether no text was given, so that the default configuration applies.
    pub(super) is_default: bool,
}

impl InForce {
    /// The configuration of a registration. `document` is its text, or what replaces a missing one.
    pub(crate) fn of(
        request: &si::RegisterResourceManagerRequest,
        document: Arc<Document>,
    ) -> Self {
        Self {
            policy_group: policy_group(request).to_owned(),
            document,
            extra: request.extra_config.clone().into_iter().collect(),
            is_default: request.config.is_empty(),
        }
    }
}
