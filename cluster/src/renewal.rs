//! The member's own record: joining, renewing it, and leaving.
//!
//! # When a renewal counts
//! A renewal is a compare-and-set of the own record. It counts once it was won *and* a read of all
//! records, sent after that, was answered: by then every claim that went to another member is
//! known, and its session has ended. The member may decide for [`Timing::decide`] from the first
//! sending of the last renewal that counts.
//!
//! # When it is lost
//! The record then shows why. It has been deposed: the incarnation is over. It belongs to another
//! incarnation: two processes have one id, and this one exits. It is older than the last renewal,
//! or gone: the store went back to a backup.
//!
//! [`Timing::decide`]: crate::Timing::decide

use std::collections::BTreeMap;

use crate::arbiter::{Outcome, Reply, Request, Snapshot};
use crate::member::{Effect, EndReason, Member, Operation, Status};
use crate::names::{Nanos, Owner, RmId, Version};
use crate::records::{Key, Life, MemberRecord, Record, Versioned};
use crate::rules::Rule;
use crate::tasks::Refusal;

/// The own record as it was last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Own {
    version: Version,
    beat: u64,
}

/// A renewal on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Round {
    /// None is. The next one begins a renewal's interval after the last.
    Idle { begun: Option<Nanos>, own: Option<Own> },
    /// Reads the own record before it is written for the first time.
    Looking { begun: Nanos },
    /// Deposes a silent predecessor of the same id.
    Deposing { begun: Nanos },
    /// Writes the record.
    Writing { begun: Nanos, expected: Option<Version>, record: MemberRecord },
    /// Reads all records after a renewal that was won.
    Reading { begun: Nanos, own: Own },
    /// Writes that the member has left.
    Leaving { expected: Version, record: MemberRecord },
    /// Looks whether a restored backup was accepted.
    Inquiring { begun: Nanos },
}

impl Member {
    pub(crate) fn wake(&mut self, now: Nanos, front_answers: bool, out: &mut Vec<Effect>) {
        let Round::Idle { begun, own } = self.round else { return };
        if self.leave_when_done(out)
            || !front_answers
            || begun.is_some_and(|begun| now.saturating_sub(begun) < self.timing.renew())
        {
            return;
        }
        match (self.status, own) {
            (Status::Restored, _) => {
                self.round = Round::Inquiring { begun: now };
                self.ask(Operation::Renewal, Request::ReadAll, out);
            }
            (_, None) => {
                self.round = Round::Looking { begun: now };
                let key = Key::Member(self.me.member.clone());
                self.ask(Operation::Renewal, Request::Read(key), out);
            }
            (_, Some(own)) => self.write_own(now, Some(own.version), own.beat + 1, out),
        }
    }

    fn own_record(&self, beat: u64, life: Life) -> MemberRecord {
        let lease = Some(self.timing.lease());
        MemberRecord { owner: self.me.clone(), beat, life, lease, details: self.details.clone() }
    }

    fn write_own(
        &mut self,
        begun: Nanos,
        expected: Option<Version>,
        beat: u64,
        out: &mut Vec<Effect>,
    ) {
        let record = self.own_record(beat, Life::Alive);
        self.round = Round::Writing { begun, expected, record: record.clone() };
        self.ask_write(expected, record, out);
    }

    fn ask_write(
        &mut self,
        expected: Option<Version>,
        record: MemberRecord,
        out: &mut Vec<Effect>,
    ) {
        let key = Key::Member(self.me.member.clone());
        let record = Record::Member(record);
        self.ask(Operation::Renewal, Request::CompareAndSet { key, expected, record }, out);
    }

    pub(crate) fn renewal_reply(&mut self, now: Nanos, reply: Reply, out: &mut Vec<Effect>) {
        let round = std::mem::replace(&mut self.round, Round::Idle { begun: None, own: None });
        match (round, reply) {
            (Round::Looking { begun }, Reply::Read(found, _)) => {
                self.found_own(now, begun, found.and_then(Versioned::into_member), out);
            }
            (Round::Writing { begun, expected, record }, reply) => {
                self.renewal_written(now, begun, expected, record, reply, out);
            }
            (Round::Reading { begun, own }, Reply::All(snapshot))
                if self.status == Status::Restored =>
            {
                self.round = Round::Idle { begun: Some(begun), own: Some(own) };
                self.look_for_acceptance(&snapshot, out);
            }
            (Round::Reading { begun, own }, Reply::All(snapshot)) => {
                self.round = Round::Idle { begun: Some(begun), own: Some(own) };
                self.count_renewal(now, begun, out);
                self.read_all(now, begun, &snapshot, out);
                self.leave_when_done(out);
            }
            (round @ Round::Reading { .. }, _) => {
                self.round = round;
                self.ask(Operation::Renewal, Request::ReadAll, out);
            }
            (Round::Leaving { expected, record }, Reply::Unknown) => {
                self.round = Round::Leaving { expected, record: record.clone() };
                self.ask_write(Some(expected), record, out);
            }
            (Round::Leaving { .. }, _) => self.end(Effect::Left, out),
            (Round::Inquiring { begun }, Reply::All(snapshot)) => {
                self.round = Round::Idle { begun: Some(begun), own: None };
                self.look_for_acceptance(&snapshot, out);
            }
            // The reply brings nothing: the next wake-up tries again.
            (
                Round::Looking { begun } | Round::Deposing { begun } | Round::Inquiring { begun },
                _,
            ) => self.round = Round::Idle { begun: Some(begun), own: None },
            (round @ Round::Idle { .. }, _) => self.round = round,
        }
    }

    /// Writes the first record, unless a predecessor may still be alive.
    fn found_own(
        &mut self,
        now: Nanos,
        begun: Nanos,
        found: Option<Versioned<MemberRecord>>,
        out: &mut Vec<Effect>,
    ) {
        let Some(found) = found else { return self.write_own(begun, None, 0, out) };
        let is_over = found.value.life != Life::Alive || found.value.owner == self.me;
        if is_over || !self.rules.keep(Rule::WaitsForPredecessor) {
            return self.write_own(begun, Some(found.version), found.value.beat + 1, out);
        }
        self.observed.see(&self.me.member, Some(found.version), now);
        if self.is_silent(&self.me.member, Some(&found), now) {
            self.round = Round::Deposing { begun };
            self.ask_write(
                Some(found.version),
                MemberRecord { life: Life::Deposed, ..found.value },
                out,
            );
        } else {
            self.round = Round::Idle { begun: Some(begun), own: None };
        }
    }

    fn renewal_written(
        &mut self,
        now: Nanos,
        begun: Nanos,
        expected: Option<Version>,
        record: MemberRecord,
        reply: Reply,
        out: &mut Vec<Effect>,
    ) {
        let begun = if self.rules.keep(Rule::CountsFromFirstSending) { begun } else { now };
        let outcome = if self.rules.keep(Rule::OwnContentsAreWon) {
            reply.outcome(&Record::Member(record.clone()))
        } else {
            match reply {
                Reply::Lost(current, _) => Outcome::Lost(current),
                reply => reply.outcome(&Record::Era(crate::records::Era::default())),
            }
        };
        match outcome {
            Outcome::Unknown => {
                self.round = Round::Writing { begun, expected, record: record.clone() };
                self.ask_write(expected, record, out);
            }
            Outcome::Won(version) => {
                let own = Own { version, beat: record.beat };
                if !self.rules.keep(Rule::ReadsClaimsAfterRenewal) {
                    self.round = Round::Idle { begun: Some(begun), own: Some(own) };
                    return self.count_renewal(now, begun, out);
                }
                self.round = Round::Reading { begun, own };
                self.ask(Operation::Renewal, Request::ReadAll, out);
            }
            // The member left while it joined, and its record was never written.
            Outcome::Lost(_) if self.status == Status::Leaving && self.counts_from.is_none() => {
                self.end(Effect::Left, out);
            }
            // Another process was faster: its record is read with the next wake-up.
            Outcome::Lost(_) if self.status == Status::Joining => {
                self.round = Round::Idle { begun: Some(begun), own: None };
            }
            Outcome::Lost(current) => {
                self.round = Round::Idle { begun: Some(begun), own: None };
                match current.and_then(Versioned::into_member).map(|current| current.value) {
                    Some(current) if current.owner != self.me => {
                        self.end(Effect::Exit(current), out);
                    }
                    Some(current) if current.life != Life::Alive => {
                        self.end(Effect::BeginAgain, out);
                    }
                    Some(_) | None => self.store_went_back(out),
                }
            }
        }
    }

    /// Counts a renewal from its first sending.
    fn count_renewal(&mut self, now: Nanos, begun: Nanos, out: &mut Vec<Effect>) {
        self.counts_from = Some(begun);
        if self.status == Status::Joining {
            self.status = Status::Serving;
        }
        if !self.is_ready && self.may_decide(now) {
            self.is_ready = true;
            self.ready_since = Some(now);
            out.push(Effect::Ready);
        }
    }

    /// Ends sessions whose RM was claimed by others, and hands over the RMs that others want.
    fn read_all(&mut self, now: Nanos, begun: Nanos, snapshot: &Snapshot, out: &mut Vec<Effect>) {
        let seen = if self.rules.keep(Rule::SilenceFromReply) { now } else { begun };
        self.observed.see_all(snapshot, seen);
        if !self.rules.keep(Rule::ReadsOwnerAfterClaim) {
            self.keep_records(snapshot);
        }
        let floor = snapshot.era.as_ref().map(|era| era.value.floor).unwrap_or_default();
        self.known.floor = self.known.floor.max(floor);
        if self.rules.keep(Rule::NoticesRestore) && self.has_lost_a_claim(begun, snapshot) {
            return self.store_went_back(out);
        }
        for (rm, claim) in &snapshot.claims {
            let claim = &claim.value;
            self.known.epoch = self.known.epoch.max(claim.epoch);
            if claim.owner.as_ref() != Some(&self.me) {
                if !self.rules.keep(Rule::EndsClaimedSessions) {
                    continue;
                }
                let epoch = if self.rules.keep(Rule::EndsByEpoch) {
                    claim.epoch
                } else {
                    crate::names::Epoch(u64::MAX)
                };
                self.claimed_elsewhere(rm, epoch, claim.owner.clone(), out);
                continue;
            }
            if self.tasks.contains_key(rm) {
                continue;
            }
            // A registration here was won without an answer, and ended the session before it.
            if self.sessions.get(rm).is_some_and(|session| session.epoch < claim.epoch) {
                self.end_session(rm, claim.epoch, EndReason::Superseded, out);
            }
            if let Some(wanted_by) = &claim.wanted_by
                && self.may_hand_over(now, rm)
                && self.takes_rms(now, wanted_by, snapshot)
            {
                self.begin_hand_over(rm.clone(), wanted_by.clone(), out);
            }
        }
        self.depose_long_silent(now, snapshot, out);
    }

    /// Whether the claim of a session is older than the session, though the read was sent after the
    /// session was opened. A claim of the same epoch with another owner is from another history,
    /// too.
    fn has_lost_a_claim(&self, begun: Nanos, snapshot: &Snapshot) -> bool {
        let mut settled = self.sessions.iter().filter(|(_, session)| session.opened_at < begun);
        settled.any(|(rm, session)| {
            snapshot.claims.get(rm).is_none_or(|claim| {
                let claim = &claim.value;
                claim.epoch < session.epoch
                    || claim.epoch == session.epoch && claim.owner.as_ref() != Some(&self.me)
            })
        })
    }

    /// Whether an RM may go to a member that wants it: not within a lease after it registered, so
    /// that it does not go back and forth.
    fn may_hand_over(&self, now: Nanos, rm: &RmId) -> bool {
        let opened = self.sessions.get(rm).map(|session| session.opened_at);
        self.rules.keep(Rule::HandsOverWanted)
            && opened.is_none_or(|opened| now.saturating_sub(opened) >= self.timing.lease())
    }

    /// Whether a member takes RMs: its record says that it lives and is not drained, and has changed
    /// within a lease.
    fn takes_rms(&self, now: Nanos, owner: &Owner, snapshot: &Snapshot) -> bool {
        if !self.rules.keep(Rule::SparesMembersThatTakeNone) {
            return true;
        }
        let Some(record) = snapshot.members.get(&owner.member) else { return false };
        let is_silent = self.is_silent(&owner.member, Some(record), now);
        let record = &record.value;
        record.owner == *owner
            && record.life == Life::Alive
            && !record.details.draining
            && !is_silent
    }

    /// Ends in order: refuses the registrations that wait for an owner, hands over the RMs that have
    /// a target, ends all other sessions, then writes `left`. A member that is joining writes it if
    /// its record may have been written.
    pub(crate) fn leave(&mut self, targets: &BTreeMap<RmId, Owner>, out: &mut Vec<Effect>) {
        if self.status == Status::Joining
            && matches!(self.round, Round::Writing { .. } | Round::Reading { .. })
        {
            // Goes on with the reply.
            self.status = Status::Leaving;
            return;
        }
        if self.status != Status::Serving {
            if !matches!(self.status, Status::Leaving | Status::Over) {
                self.end(Effect::Left, out);
            }
            return;
        }
        self.status = Status::Leaving;
        for rm in self.tasks.keys().cloned().collect::<Vec<_>>() {
            self.refuse_forwarded(&rm, Refusal::Leaving, out);
        }
        let served: Vec<_> =
            self.sessions.iter().map(|(rm, session)| (rm.clone(), session.epoch)).collect();
        for (rm, epoch) in served {
            match targets.get(&rm) {
                Some(target) if !self.tasks.contains_key(&rm) => {
                    self.begin_hand_over(rm, target.clone(), out);
                }
                _ if self.rules.keep(Rule::EndsBeforeLeaving) => {
                    self.end_session(&rm, epoch, EndReason::Leaving, out);
                }
                _ => {}
            }
        }
        self.leave_when_done(out);
    }

    /// Writes `left` once nothing is open any more. Returns whether it does.
    pub(crate) fn leave_when_done(&mut self, out: &mut Vec<Effect>) -> bool {
        let Round::Idle { own: Some(own), .. } = self.round else { return false };
        if self.status != Status::Leaving || !self.tasks.is_empty() {
            return false;
        }
        let record = self.own_record(own.beat + 1, Life::Left);
        self.round = Round::Leaving { expected: own.version, record: record.clone() };
        self.ask_write(Some(own.version), record, out);
        true
    }
}
