//! The run of one allocation, as it is counted when the allocation ends.

use std::sync::Arc;
use std::time::Duration;

use super::histogram::RunLength;
use crate::allocations::Allocation;
use crate::specs::release::Cause;
use crate::values::resources::Resources;

/// The run of an allocation that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The amount that the allocation held.
    pub resources: &'a Arc<Resources>,
    /// The time from its begin to its end.
    pub lasted: Duration,
    /// Whether `lasted` is its length, or it would have lasted longer.
    pub length: RunLength,
}

impl RunLength {
    /// Returns what a release tells of the length of a run; `None` if the run never began.
    pub fn released(cause: Cause) -> Option<Self> {
        match cause {
            Cause::Stopped | Cause::Failed => Some(Self::Whole),
            Cause::ConfirmedPreemption | Cause::ConfirmedReplacement | Cause::ConfirmedTimeout => {
                Some(Self::AtLeast)
            }
            Cause::SchedulingFailed | Cause::RefusedForGood => None,
        }
    }
}

impl<'a> Run<'a> {
    /// Returns the run of an allocation that ends now. `None` for a placeholder, and for a placement
    /// that its RM was never notified of: no program ran there.
    ///
    /// The length is unknown if the scheduler asked for the end, or if it ran before it was reported.
    pub fn of(entry: &'a Allocation, length: RunLength, now_ns: i64) -> Option<Self> {
        if entry.spec.placeholder || entry.is_hold() || !entry.is_booked() {
            return None;
        }
        let is_whole = entry.leaving.is_none() && !entry.ran_before;
        let lasted_ns = now_ns.saturating_sub(entry.bound_ns).max(0).unsigned_abs();
        Some(Self {
            resources: &entry.spec.resources,
            lasted: Duration::from_nanos(lasted_ns),
            length: if is_whole { length } else { RunLength::AtLeast },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocations::Leaving;
    use crate::specs::ask::AskSpec;
    use crate::values::ids::{ApplicationSlot, NodeSlot};

    #[test]
    fn only_a_run_that_ended_by_itself_is_whole() {
        let spec = Arc::new(AskSpec::new("a", Resources::of(&[("vcore", 1)])));
        let (application, node) = (ApplicationSlot::at(0), NodeSlot::at(0));
        let mut entry = Allocation::new(application, Arc::clone(&spec), node, 0, 5_000_000_000);
        let length = |entry: &Allocation, cause| {
            Run::of(entry, RunLength::released(cause)?, 8_000_000_000).map(|run| run.length)
        };
        let run = Run::of(&entry, RunLength::Whole, 8_000_000_000).unwrap();
        assert_eq!(run.lasted, Duration::from_secs(3));
        assert_eq!(Run::of(&entry, RunLength::Whole, 0).unwrap().lasted, Duration::ZERO);
        assert_eq!(length(&entry, Cause::Stopped), Some(RunLength::Whole));
        assert_eq!(length(&entry, Cause::Failed), Some(RunLength::Whole));
        assert_eq!(length(&entry, Cause::ConfirmedPreemption), Some(RunLength::AtLeast));
        assert_eq!(length(&entry, Cause::ConfirmedTimeout), Some(RunLength::AtLeast));
        assert_eq!(length(&entry, Cause::SchedulingFailed), None);
        entry.ran_before = true;
        assert_eq!(length(&entry, Cause::Stopped), Some(RunLength::AtLeast));
        entry.ran_before = false;
        entry.change().leaving = Some(Leaving::Preempted);
        assert_eq!(length(&entry, Cause::Stopped), Some(RunLength::AtLeast));
        let placeholder = AskSpec { placeholder: true, ..AskSpec::clone(&spec) };
        let entry = Allocation::new(application, Arc::new(placeholder), node, 0, 0);
        assert_eq!(length(&entry, Cause::Stopped), None);
    }
}
