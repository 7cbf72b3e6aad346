//! Requests that are held back: an application request while the groups of its users are looked up,
//! and every message after it, or after a change of configuration that is under way.

use monoceros_proto::si::v1 as si;
use tokio::task::JoinSet;

use super::requests::{ChangeState, Reconfigure, Taken, Update};
use crate::api::users::GroupAnswers;

/// A message that is handled once the lookups or the change of configuration before it are done.
pub(super) enum Deferred {
    Update(Update),
    Reconfigure(Reconfigure),
    ChangeState(ChangeState),
}

/// An application request whose users are being looked up.
pub(super) struct Resolving {
    pub(super) request: si::ApplicationRequest,
    pub(super) taken: Taken,
    /// The answers that have arrived.
    pub(super) answers: GroupAnswers,
    /// The lookups under way, which end when this is dropped.
    pub(super) _lookups: JoinSet<()>,
}
