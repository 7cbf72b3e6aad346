//! Scale-up notifications: requests that more machines would help, sharing the scheduler's names.

use std::fmt;
use std::sync::Arc;

use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::update_container_scheduling_state_request::SchedulingState;

use crate::notices::{ScaleUpRequests, UnplacedRequest};

/// Reasons of such a request.
const NO_NODE: &str = "request fits in its queue and no node has room for it";
const ALL_REFUSED: &str =
    "request fits in its queue and predicates refused every node with room for it";

/// Requests that more machines would help, in the order in which they would be placed. Names are
/// shared, as in [`AllocationNotices`](crate::AllocationNotices): a full cluster may have a hundred thousand
/// such requests.
pub struct ScaleUpNotice {
    pub(crate) requests: Vec<ScaleUpRequests>,
}

/// A request that more machines would help.
#[derive(Clone, Copy)]
pub struct ScaleUpRequest<'a> {
    application: &'a Arc<str>,
    one: &'a UnplacedRequest,
}

/// Shows the number of requests.
impl fmt::Debug for ScaleUpNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScaleUpNotice").field("requests", &self.requests().count()).finish()
    }
}

impl ScaleUpNotice {
    /// The requests.
    pub fn requests(&self) -> impl Iterator<Item = ScaleUpRequest<'_>> {
        self.requests.iter().flat_map(|ScaleUpRequests { application, requests }| {
            requests.iter().map(move |one| ScaleUpRequest { application, one })
        })
    }

    /// The interface's messages of all requests.
    pub fn into_message(self) -> Vec<si::UpdateContainerSchedulingStateRequest> {
        self.requests().map(ScaleUpRequest::message).collect()
    }
}

impl<'a> ScaleUpRequest<'a> {
    /// The id of its application.
    pub fn application_id(self) -> &'a Arc<str> {
        self.application
    }

    /// The allocation key.
    pub fn allocation_key(self) -> &'a Arc<str> {
        &self.one.spec.key
    }

    /// Why the request is pending: no node has room, or predicates refused all nodes with room.
    pub fn reason(self) -> &'static str {
        if self.one.by_predicates { ALL_REFUSED } else { NO_NODE }
    }

    /// The interface's message of this request.
    pub fn message(self) -> si::UpdateContainerSchedulingStateRequest {
        si::UpdateContainerSchedulingStateRequest {
            application_id: self.application.to_string(),
            allocation_key: self.one.spec.key.to_string(),
            state: SchedulingState::Failed as i32,
            reason: self.reason().to_owned(),
        }
    }
}
