//! Limits the log lines about failed requests.
//!
//! A missing right fails every request. The log has one line per kind of call and minute, with the
//! number of lines left out. The line names the verb and the resource, as a role does.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Pause between two log lines about one kind of call.
const APART: Duration = Duration::from_secs(60);

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    Bind,
    ReadPod,
    Evict,
    DeletePod,
    PatchClaim,
    PatchVolume,
    PatchPodStatus,
    PatchGroupStatus,
    CreateEvent,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bind => "create pods/binding",
            Self::ReadPod => "get pods",
            Self::Evict => "create pods/eviction",
            Self::DeletePod => "delete pods",
            Self::PatchClaim => "patch persistentvolumeclaims",
            Self::PatchVolume => "patch persistentvolumes",
            Self::PatchPodStatus => "patch pods/status",
            Self::PatchGroupStatus => "patch podgroups/status",
            Self::CreateEvent => "create events",
        })
    }
}

/// Time of the last line of each kind of call, and the number of lines left out since.
#[derive(Debug, Default)]
pub(super) struct FailureLog(Mutex<BTreeMap<Call, (Instant, u64)>>);

impl FailureLog {
    /// Returns whether a line is due, as the number of lines left out since the last one.
    pub(super) fn take(&self, call: Call, now: Instant) -> Option<u64> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((last, left_out)) = lines.get_mut(&call) else {
            lines.insert(call, (now, 0));
            return Some(0);
        };
        if now < *last + APART {
            *left_out += 1;
            return None;
        }
        *last = now;
        Some(std::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_each_kind_of_call_once_a_minute() {
        let failure_log = FailureLog::default();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(failure_log.take(Call::Bind, at(0)), Some(0));
        assert_eq!(failure_log.take(Call::Bind, at(1)), None);
        assert_eq!(failure_log.take(Call::CreateEvent, at(1)), Some(0), "another kind");
        assert_eq!(failure_log.take(Call::Bind, at(59)), None);
        assert_eq!(failure_log.take(Call::Bind, at(60)), Some(2));
        assert_eq!(failure_log.take(Call::Bind, at(61)), None);
    }
}
