//! Reads of claims for calls whose owner is not known here.
//!
//! A resource manager (RM) may have many streams and calls, which all come at once after its owner
//! was lost. One read at a time is under way for each RM, and a failure counts for all RMs for a
//! while, so that calls do not wait one after another for an arbiter that is away.
//!
//! # Invariant
//! A read counts only for calls that came before it began: a stream may follow its registration at
//! once, and an earlier read may have missed the claim.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use monoceros_cluster::{Nanos, Owner, RmId};

/// Nanoseconds for which a failure counts.
const FAILURE_COUNTS: Nanos = 1_000_000_000;

/// The owner that a claim names. `Err`: the arbiter has not answered.
pub(super) type Found = Result<Option<Owner>, NoAnswer>;

/// The arbiter has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoAnswer;

type Read = BoxFuture<'static, Found>;

/// Reads that are under way, and the last failure.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    /// Reads whose last caller may have gone.
    reads: BTreeMap<RmId, WeakShared<Read>>,
    failed_at: Option<Nanos>,
}

impl Lookups {
    /// The read that is under way for an RM, or else the one that `begin` makes. The flag says
    /// whether it was under way.
    pub(super) fn join(&mut self, rm: &RmId, begin: impl FnOnce() -> Read) -> (Shared<Read>, bool) {
        if let Some(read) = self.reads.get(rm).and_then(under_way) {
            return (read, true);
        }
        self.reads.retain(|_, read| under_way(read).is_some());
        let read = begin().shared();
        if let Some(weak) = read.downgrade() {
            self.reads.insert(rm.clone(), weak);
        }
        (read, false)
    }

    /// Notes at `now` whether the arbiter has answered.
    pub(super) fn note(&mut self, found: &Found, now: Nanos) {
        self.failed_at = found.is_err().then_some(now);
    }

    /// Whether the arbiter seems to be away: a read has failed of late, and neither a later one nor
    /// a renewal, the last of which read at `read_at`, has succeeded since.
    pub(super) fn is_away(&self, now: Nanos, read_at: Nanos) -> bool {
        let is_recent = |at: Nanos| read_at <= at && now.saturating_sub(at) < FAILURE_COUNTS;
        self.failed_at.is_some_and(is_recent)
    }
}

fn under_way(read: &WeakShared<Read>) -> Option<Shared<Read>> {
    read.upgrade().filter(|read| read.peek().is_none())
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn one_read_is_under_way_for_each_rm() {
        let mut lookups = Lookups::default();
        let (rm, other) = (RmId("rm".into()), RmId("other".into()));
        let (answer, answered) = oneshot::channel();
        let (first, was_under_way) =
            lookups.join(&rm, || async { answered.await.unwrap_or(Err(NoAnswer)) }.boxed());
        assert!(!was_under_way);
        let never = || -> Read { panic!("a second read") };
        let (joined, was_under_way) = lookups.join(&rm, never);
        assert!(was_under_way);
        let at_once = || async { Ok(None) }.boxed();
        assert!(!lookups.join(&other, at_once).1, "each RM has its own");

        // The one who began it goes; the others still get the answer.
        drop(first);
        answer.send(Ok(None)).unwrap();
        assert_eq!(joined.now_or_never(), Some(Ok(None)));
        assert!(!lookups.join(&rm, at_once).1, "that one is over");
        assert_eq!(lookups.reads.len(), 1, "reads without callers are forgotten");
    }

    #[test]
    fn a_failure_counts_until_an_answer_and_for_a_second_at_most() {
        let mut lookups = Lookups::default();
        let (failed_at, before) = (5 * FAILURE_COUNTS, 4 * FAILURE_COUNTS);
        assert!(!lookups.is_away(failed_at, before));
        lookups.note(&Err(NoAnswer), failed_at);
        assert!(lookups.is_away(failed_at + 1, before));
        assert!(!lookups.is_away(failed_at + 2, failed_at + 1), "renewed since");
        assert!(!lookups.is_away(failed_at + FAILURE_COUNTS, before));
        lookups.note(&Ok(None), failed_at + 1);
        assert!(!lookups.is_away(failed_at + 2, before));
    }
}
