//! The cluster as a member last read it: for people, lists and metrics. Nothing is decided by it.

use std::collections::BTreeMap;

use monoceros_cluster::{Claim, Life, MemberId, Nanos, RmId, Versioned};

use crate::driver::Members;

/// All records of one read.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Records of all members, by id.
    pub members: Members,
    /// Claims of all RMs, by id.
    pub claims: BTreeMap<RmId, Versioned<Claim>>,
    /// When the records were read, by the member's clock. 0: never.
    pub read_at: Nanos,
    /// When each member's record was first read with its present version.
    seen_at: BTreeMap<MemberId, Nanos>,
}

impl View {
    /// The view of a read at `now`, after the view `last`.
    pub(crate) fn of(
        members: Members,
        claims: BTreeMap<RmId, Versioned<Claim>>,
        last: &Self,
        now: Nanos,
    ) -> Self {
        let seen_at = members
            .iter()
            .map(|(id, record)| {
                let before = last.members.get(id).filter(|before| before.version == record.version);
                let since = before.and_then(|_| last.seen_at.get(id).copied());
                (id.clone(), since.unwrap_or(now))
            })
            .collect();
        Self { members, claims, read_at: now, seen_at }
    }

    /// Time for which a member's record has not changed, in nanoseconds at `now`. `None` for an
    /// unknown member.
    pub fn silence(&self, member: &MemberId, now: Nanos) -> Option<Nanos> {
        self.seen_at.get(member).map(|since| now.saturating_sub(*since))
    }

    /// Number of RMs whose claims name each live member.
    pub fn owned(&self) -> BTreeMap<MemberId, usize> {
        let mut counts = BTreeMap::new();
        for claim in self.claims.values() {
            let Some(owner) = &claim.value.owner else { continue };
            let record = self.members.get(&owner.member).map(|record| &record.value);
            if record.is_some_and(|it| it.owner == *owner && it.life == Life::Alive) {
                *counts.entry(owner.member.clone()).or_default() += 1;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use monoceros_cluster::{Details, Incarnation, MemberRecord, Owner, Version};

    use super::*;

    fn members(version: u64) -> Members {
        let owner = Owner { member: MemberId("a".into()), incarnation: Incarnation(1) };
        let details = Arc::new(Details::default());
        let value = MemberRecord { owner, beat: 0, life: Life::Alive, lease: None, details };
        let record = Versioned { version: Version(version), value };
        Arc::new(BTreeMap::from([(MemberId("a".into()), record)]))
    }

    #[test]
    fn silence_begins_again_with_each_version() {
        let member = MemberId("a".into());
        let view = View::of(members(1), BTreeMap::new(), &View::default(), 10);
        let view = View::of(members(1), BTreeMap::new(), &view, 20);
        assert_eq!(view.silence(&member, 25), Some(15));
        let view = View::of(members(2), BTreeMap::new(), &view, 30);
        assert_eq!(view.silence(&member, 31), Some(1));
        assert_eq!(view.silence(&MemberId("b".into()), 31), None);
        assert!(view.owned().is_empty());
    }
}
