//! Records of other members as this member has seen them: who has been silent for a whole lease.
//!
//! # Why nobody is deposed too early
//! A version is written after its member sent that renewal, and seen here after it was written. So
//! the silence that is counted here begins later than the time that the member itself counts from,
//! and the member stops earlier by the margin of [`Timing`](crate::Timing). The deposing
//! compare-and-set names the version, so that a renewal in between makes it lose.

use std::collections::BTreeMap;

use crate::arbiter::Snapshot;
use crate::member::Member;
use crate::names::{MemberId, Nanos, Version};
use crate::records::{MemberRecord, Versioned};
use crate::rules::Rule;

/// Records of all members as last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Observed {
    seen: BTreeMap<MemberId, Seen>,
}

/// One version of a record, or its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Seen {
    version: Option<Version>,
    since: Nanos,
}

impl Observed {
    /// Notes the version that a record has, seen at `now`.
    pub(crate) fn see(&mut self, member: &MemberId, version: Option<Version>, now: Nanos) {
        match self.seen.get_mut(member) {
            Some(seen) if seen.version == version => {}
            Some(seen) => *seen = Seen { version, since: now },
            None => {
                self.seen.insert(member.clone(), Seen { version, since: now });
            }
        }
    }

    /// Notes all records of a read. Members that are no longer there are forgotten.
    pub(crate) fn see_all(&mut self, snapshot: &Snapshot, now: Nanos) {
        self.seen
            .retain(|member, seen| seen.version.is_none() || snapshot.members.contains_key(member));
        for (member, record) in &snapshot.members {
            self.see(member, Some(record.version), now);
        }
    }

    /// Time since the record was first seen with this version, in nanoseconds. `None` if the
    /// version seen last is another one.
    pub(crate) fn silence(
        &self,
        member: &MemberId,
        version: Option<Version>,
        now: Nanos,
    ) -> Option<Nanos> {
        let seen = self.seen.get(member)?;
        (seen.version == version).then(|| now.saturating_sub(seen.since))
    }

    /// Time since the last change of the record that was seen, whatever version it has now. Only a
    /// test uses it, which leaves out the comparison of versions.
    pub(crate) fn silence_of_any(&self, member: &MemberId, now: Nanos) -> Option<Nanos> {
        self.seen.get(member).map(|seen| now.saturating_sub(seen.since))
    }
}

impl Member {
    /// Lease that is waited for before a member with this record counts as silent: the longer of
    /// that in the record and this member's own. Without a record, the own one.
    pub(crate) fn lease_waited_for(&self, found: Option<&Versioned<MemberRecord>>) -> Nanos {
        let own = self.timing.lease();
        let found = found.filter(|_| self.rules.keep(Rule::WaitsForLongerLease));
        found.map_or(own, |found| found.value.waited_for(own))
    }

    /// Whether a record has had the version that was found, or has been missing, for a whole lease:
    /// the longer of that of its member and this member's own.
    pub(crate) fn is_silent(
        &self,
        member: &MemberId,
        found: Option<&Versioned<MemberRecord>>,
        now: Nanos,
    ) -> bool {
        let silence = if self.rules.keep(Rule::SilenceOfThisVersion) {
            self.observed.silence(member, found.map(|found| found.version), now)
        } else {
            self.observed.silence_of_any(member, now)
        };
        let whole =
            if self.rules.keep(Rule::WaitsForLease) { self.lease_waited_for(found) } else { 0 };
        silence.is_some_and(|silence| silence >= whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_begins_again_with_each_version() {
        let member = MemberId("b".into());
        let mut observed = Observed::default();
        observed.see(&member, Some(Version(1)), 10);
        observed.see(&member, Some(Version(1)), 15);
        assert_eq!(observed.silence(&member, Some(Version(1)), 20), Some(10));
        observed.see(&member, Some(Version(2)), 20);
        assert_eq!(observed.silence(&member, Some(Version(2)), 21), Some(1));
        assert_eq!(observed.silence(&member, Some(Version(1)), 21), None);
    }

    #[test]
    fn a_missing_record_is_silent_like_any_other() {
        let member = MemberId("b".into());
        let mut observed = Observed::default();
        observed.see(&member, None, 10);
        observed.see_all(&Snapshot::default(), 12);
        assert_eq!(observed.silence(&member, None, 14), Some(4));
    }
}
