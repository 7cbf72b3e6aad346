//! The machine's time, for timestamps that people read. No decision depends on it: the scheduler
//! has a clock of its own.

/// Returns nanoseconds since the epoch.
pub(crate) fn now_ns() -> i64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "tells people when, and one run of the process from another; decides nothing"
    )]
    let now = std::time::SystemTime::now();
    let since_epoch = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)
}
