//! Snapshots of the health check of the scheduler's accounting: `/ws/v1/scheduler/healthcheck`.

use serde::Serialize;

/// The result of a health check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HealthSnapshot {
    /// Whether all checks succeeded; read by existing dashboards.
    pub healthy: bool,
    /// Whether the scheduler itself is sound: each check succeeded, or failed because of external input.
    pub sound: bool,
    /// The checks, in a fixed order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub health_checks: Vec<HealthCheckSnapshot>,
}

/// A check with its result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HealthCheckSnapshot {
    /// The name of the check. Checks with the same name differ in their descriptions.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: &'static str,
    /// Whether it found no fault.
    pub succeeded: bool,
    /// Whether the fault is external input, such as refused messages, or nodes that shrank below the
    /// allocations on them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_outside: bool,
    /// The fault that it checks for.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub description: &'static str,
    /// The findings.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diagnosis_message: String,
}
