//! Failed starts of an application: those of its asks, and those of its declared gang as a whole.
//! For people, `docs/scheduling.md#starts-that-fail`.
//!
//! # Invariant
//! * While a gang is undecided none of its asks backs off by itself.

use crate::applications::application::Application;
use crate::applications::native::Native;
use crate::asks::failed_starts::{FailedStart, FailedStarts, StartRetry};
use crate::specs::ask::TaskGroup;
use crate::values::ids::AskSlot;

impl Application {
    /// Returns the failed starts of an ask, or of the gang, since the last start that succeeded.
    pub fn failed_starts(&self, ask: Option<AskSlot>) -> Option<&FailedStarts> {
        match ask {
            Some(slot) => self.asks.ask(slot).starts(),
            None => self.native()?.starts.as_deref(),
        }
    }

    /// Records that no member of the gang, which is undecided again, could be started. Returns the
    /// end of the back-off that begins now, ns since the epoch; `None` if the gang backs off
    /// already.
    pub fn gang_start_failed(&mut self, failed: FailedStart, retry: &StartRetry) -> Option<i64> {
        self.asks.leave_starts_to_gang();
        let native = self.native_mut()?;
        native.has_real = false;
        native.starts.get_or_insert_default().note(failed, retry)
    }

    /// Ends the back-off of the gang that lasts until `until_ns`. Returns whether that is the
    /// current one.
    pub fn end_gang_backoff(&mut self, until_ns: i64) -> bool {
        let starts = self.native_mut().and_then(|native| native.starts.as_mut());
        starts.is_some_and(|starts| starts.end_backoff(until_ns))
    }

    /// Records a successful start of the ask. Returns whether a start had failed before, so that
    /// the ask is tried like any other again.
    pub fn started(&mut self, slot: AskSlot) -> bool {
        let had_failed = self.asks.started(slot);
        let group = self.asks.ask(slot).spec.member_of().cloned();
        self.member_runs(group.as_ref());
        had_failed
    }

    /// Returns the ask with this key, if it has an allocation and exactly this number of failed
    /// starts: then no start has failed since that allocation was made, so it has started.
    pub fn start_held(&self, key: &str, times: u32) -> Option<AskSlot> {
        let slot = self.asks.slot_of(key)?;
        let ask = self.asks.ask(slot);
        let is_same = ask.starts().is_some_and(|starts| starts.times() == times);
        (is_same && !ask.live.is_empty()).then_some(slot)
    }

    /// Records that a member of this task group runs, or ran.
    pub fn member_runs(&mut self, group: Option<&TaskGroup>) {
        if let Some(native) = self.native_with(group) {
            native.runs();
        }
    }

    /// Ends the back-off of the gang because a request of this task group is new, changed or
    /// withdrawn: the gang is not the same as the one that could not be started.
    pub fn gang_asks_otherwise(&mut self, group: Option<&TaskGroup>) {
        if let Some(native) = self.native_with(group) {
            native.starts = None;
        }
    }

    /// Returns the declared gang, if this task group belongs to it.
    fn native_with(&mut self, group: Option<&TaskGroup>) -> Option<&mut Native> {
        let group = group?;
        self.native_mut().filter(|native| native.has(group))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::applications::application::NewApplication;
    use crate::specs::ask::AskSpec;
    use crate::specs::declaration::DeclaredGroup;
    use crate::values::ids::AllocationId;
    use crate::values::resources::Resources;

    fn book() -> Application {
        let group = DeclaredGroup::new("w", 3, Some(Resources::of(&[("vcore", 2)])));
        let new = NewApplication::small(Some(group));
        Application::new(new, Arc::from("root.a"), 0)
    }

    fn group(name: &str) -> TaskGroup {
        TaskGroup::new(name.to_owned())
    }

    fn failed(at_ns: i64) -> FailedStart {
        FailedStart::new(None, "no image", at_ns)
    }

    #[test]
    fn a_gang_backs_off_once_at_a_time() {
        let (mut book, retry) = (book(), StartRetry::default());
        book.note_real(Some(&group("w")));
        let until_ns = book.gang_start_failed(failed(0), &retry).unwrap();
        assert_eq!(book.gang_start_failed(failed(1), &retry), None);
        assert!(!book.native().unwrap().has_real);
        assert_eq!(book.failed_starts(None).unwrap().times(), 2);
        assert!(!book.end_gang_backoff(until_ns - 1));
        assert!(book.end_gang_backoff(until_ns) && !book.end_gang_backoff(until_ns));
    }

    #[test]
    fn only_requests_of_the_gang_end_its_backoff() {
        for (name, ends) in [("x", false), ("w", true)] {
            let mut book = book();
            book.gang_start_failed(failed(0), &StartRetry::default());
            book.gang_asks_otherwise(None);
            book.gang_asks_otherwise(Some(&group(name)));
            assert_eq!(book.failed_starts(None).is_none(), ends, "{name}");
        }
    }

    #[test]
    fn a_member_that_runs_ends_the_backoff() {
        let mut book = book();
        let spec = AskSpec::new("a", Resources::of(&[("vcore", 2)]));
        let (slot, _) = book.asks.put(spec.with(|it| it.task_group = Some(group("w"))), 0, 1);
        book.gang_start_failed(failed(0), &StartRetry::default());
        assert!(!book.started(slot), "no start of the ask itself has failed");
        assert!(book.failed_starts(None).is_none() && book.native().unwrap().has_run);
    }

    #[test]
    fn a_start_holds_unless_another_failed_since() {
        let mut book = book();
        let (slot, _) = book.asks.put(AskSpec::new("a", Resources::of(&[("vcore", 1)])), 0, 1);
        book.asks.start_failed(slot, failed(0), &StartRetry::default());
        assert_eq!(book.start_held("a", 1), None, "it has no allocation");
        book.asks.ask_mut(slot).live.push(AllocationId::numbered(1));
        assert_eq!(book.start_held("a", 1), Some(slot));
        book.asks.start_failed(slot, failed(1), &StartRetry::default());
        assert_eq!((book.start_held("a", 1), book.start_held("b", 1)), (None, None));
    }
}
