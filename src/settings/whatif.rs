//! Section `whatif`: questions of what would happen, answered in the service.

use std::time::Duration;

use serde::Deserialize;

use super::seconds;

/// Section `whatif`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `whatif.KEY` or MONOCEROS__WHATIF__KEY)"
)]
pub struct WhatIfSettings {
    /// Whether `POST /ws/v1/whatif` is answered. Default false.
    pub enabled: bool,
    /// Seconds after which a question gets no answer any more. Default 60; not 0.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub deadline: Duration,
    /// Most allocations, requests and nodes of a resource manager about which is asked. Default
    /// 1,000,000.
    pub objects: usize,
}

impl WhatIfSettings {
    /// Returns the values out of their bounds.
    pub(super) fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.deadline.is_zero() {
            found.push("`whatif.deadline` is 0: no question could be answered in time".to_owned());
        }
        found
    }
}
