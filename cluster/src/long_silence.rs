//! Members that have been silent for many leases: any other member deposes them.
//!
//! A registration deposes the silent owner of its RM after one lease. A member that crashed without
//! RMs, or whose RMs came back by their proofs, is of no interest to a registration. Without this
//! rule its record would look alive for ever.
//!
//! # Why not after one lease
//! Nobody waits for it, and a member that is cut off for some leases keeps its incarnation.
//!
//! # Why nobody is deposed after an outage of the arbiter
//! No record changes while the arbiter is away. So only that silence counts during which this
//! member was never fenced.

use crate::arbiter::{Request, Snapshot};
use crate::member::{Effect, Member, Operation};
use crate::names::Nanos;
use crate::records::{Key, Life, MemberRecord, Record, Versioned};

/// Leases of silence after which a member is deposed although nobody wants its RMs.
const LEASES: Nanos = 10;

impl Member {
    /// Deposes a member that is silent for [`LEASES`], one with each renewal.
    pub(crate) fn depose_long_silent(
        &mut self,
        now: Nanos,
        snapshot: &Snapshot,
        out: &mut Vec<Effect>,
    ) {
        if !self.is_ready || self.sent.contains_key(&Operation::Deposing) {
            return;
        }
        let mut others = snapshot.members.values();
        let Some(found) = others.find(|found| self.is_silent_for_long(now, found)) else { return };
        let key = Key::Member(found.value.owner.member.clone());
        let record = MemberRecord { life: Life::Deposed, ..found.value.clone() };
        let (expected, record) = (Some(found.version), Record::Member(record));
        self.ask(Operation::Deposing, Request::CompareAndSet { key, expected, record }, out);
    }

    fn is_silent_for_long(&self, now: Nanos, found: &Versioned<MemberRecord>) -> bool {
        let record = &found.value;
        if record.life != Life::Alive || record.owner.member == self.me.member {
            return false;
        }
        let bound = LEASES.saturating_mul(self.lease_waited_for(Some(found)));
        let silence = self.observed.silence(&record.owner.member, Some(found.version), now);
        silence.is_some_and(|silence| silence >= bound)
            && self.ready_since.is_some_and(|since| now.saturating_sub(since) >= bound)
    }
}
