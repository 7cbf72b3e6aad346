//! A program without replays, which answers no question of what would happen.

use axum::body::Body;
use monoceros_actors::SchedulerBuilder;

use super::failures::Failure;
use super::replies::EndpointReply;
use super::{Reads, RestEdge};
use crate::settings::WhatIfSettings;

/// No answers to what would happen.
#[derive(Clone, Debug)]
pub struct WhatIf;

impl WhatIf {
    /// Answers nothing.
    pub fn new(_: WhatIfSettings, _: SchedulerBuilder) -> Self {
        Self
    }

    /// Whether questions are answered.
    pub(super) fn is_on(&self) -> bool {
        let Self = self;
        false
    }

    /// Answers nothing.
    pub fn off() -> Self {
        Self
    }
}

/// Refuses a question.
#[expect(clippy::unused_async, reason = "as with the feature")]
pub(super) async fn answer<S: Reads>(_: &RestEdge<S>, _: Body) -> Result<EndpointReply, Failure> {
    Err(Failure::WhatIfAbsent)
}
