//! Whether what the scheduler has counted and accounted is sound, as
//! `/ws/v1/scheduler/healthcheck` shows it.

use serde::Serialize;

/// What a look over the scheduler found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HealthSnapshot {
    /// Whether all checks succeeded, as dashboards of the interface read it.
    pub healthy: bool,
    /// Whether nothing is wrong with the scheduler itself: all checks succeeded, or failed for what came
    /// from outside.
    pub sound: bool,
    /// The checks, in an order that does not change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<HealthCheckSnapshot>,
}

/// One check, and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HealthCheckSnapshot {
    /// What is checked. Two checks may have one name; their descriptions tell them apart.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: &'static str,
    /// Whether nothing wrong was found.
    pub succeeded: bool,
    /// Where something was found: whether it came from outside, such as messages that were refused or nodes
    /// that shrank below what runs on them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_outside: bool,
    /// What would be wrong.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub description: &'static str,
    /// What was found.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diagnosis_message: String,
}
