//! Reads of claims, and of the records of their owners, for calls whose owner is not known here.
//!
//! A resource manager (RM) may have many streams and calls, which all come at once after its owner
//! was lost. They share reads ([`SharedRead`]): a stream may follow its registration at once, and a
//! read that began before the stream may have missed the claim. A failure counts for all RMs for a
//! while, so that calls do not wait one after another for an arbiter that is away.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use monoceros_cluster::{MemberId, MemberRecord, Nanos, Owner, RmId};

use super::shared_read::SharedRead;

/// Nanoseconds for which a failure counts.
const FAILURE_COUNTS: Nanos = 1_000_000_000;

/// What a record has, or `None` without one. `Err`: the arbiter has not answered.
pub(super) type Found<T> = Result<Option<T>, NoAnswer>;

/// The arbiter has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoAnswer;

/// Reads of one kind of records, by key. Those without callers are forgotten with the next key.
type Reads<K, T> = BTreeMap<K, Weak<SharedRead<Found<T>>>>;

/// Reads of claims and of records of members, and the last failure.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    /// Reads of owners.
    claims: Reads<RmId, Owner>,
    members: Reads<MemberId, MemberRecord>,
    failed_at: Option<Nanos>,
}

impl Lookups {
    /// The reads of an RM's claim, which all callers share.
    pub(super) fn of(&mut self, rm: &RmId) -> Arc<SharedRead<Found<Owner>>> {
        shared(&mut self.claims, rm)
    }

    /// The reads of a member's record, which all callers share.
    pub(super) fn of_member(&mut self, member: &MemberId) -> Arc<SharedRead<Found<MemberRecord>>> {
        shared(&mut self.members, member)
    }

    /// Notes at `now` whether the arbiter has answered.
    pub(super) fn note<T>(&mut self, found: &Found<T>, now: Nanos) {
        self.failed_at = found.is_err().then_some(now);
    }

    /// Whether the arbiter seems to be away: a read has failed of late, and neither a later one nor
    /// a renewal, the last of which read at `read_at`, has succeeded since.
    pub(super) fn is_away(&self, now: Nanos, read_at: Nanos) -> bool {
        let is_recent = |at: Nanos| read_at <= at && now.saturating_sub(at) < FAILURE_COUNTS;
        self.failed_at.is_some_and(is_recent)
    }
}

/// The reads with this key that have callers, or new ones.
fn shared<K: Clone + Ord, T>(reads: &mut Reads<K, T>, key: &K) -> Arc<SharedRead<Found<T>>> {
    if let Some(shared) = reads.get(key).and_then(Weak::upgrade) {
        return shared;
    }
    reads.retain(|_, shared| shared.strong_count() > 0);
    let shared = Arc::default();
    reads.insert(key.clone(), Arc::downgrade(&shared));
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_of_one_rm_share_its_reads() {
        let mut lookups = Lookups::default();
        let (rm, other) = (RmId("rm".into()), RmId("other".into()));
        let first = lookups.of(&rm);
        assert!(Arc::ptr_eq(&first, &lookups.of(&rm)));
        assert!(!Arc::ptr_eq(&first, &lookups.of(&other)), "each RM has its own");
        drop(first);
        drop(lookups.of(&rm));
        assert_eq!(lookups.claims.len(), 1, "reads without callers are forgotten");
        let (member, other) = (MemberId("m".into()), MemberId("other".into()));
        let first = lookups.of_member(&member);
        assert!(Arc::ptr_eq(&first, &lookups.of_member(&member)));
        assert!(!Arc::ptr_eq(&first, &lookups.of_member(&other)), "each member has its own");
    }

    #[test]
    fn a_failure_counts_until_an_answer_and_for_a_second_at_most() {
        let mut lookups = Lookups::default();
        let (failed_at, before) = (5 * FAILURE_COUNTS, 4 * FAILURE_COUNTS);
        assert!(!lookups.is_away(failed_at, before));
        lookups.note::<Owner>(&Err(NoAnswer), failed_at);
        assert!(lookups.is_away(failed_at + 1, before));
        assert!(!lookups.is_away(failed_at + 2, failed_at + 1), "renewed since");
        assert!(!lookups.is_away(failed_at + FAILURE_COUNTS, before));
        lookups.note::<Owner>(&Ok(None), failed_at + 1);
        assert!(!lookups.is_away(failed_at + 2, before));
    }
}
