//! A registration, from its arrival to its answer.
//!
//! # Steps
//! 1. Read the claim, and judge it (`verdict`). A free claim, one of this member, or one whose
//!    proof was shown is claimed at once.
//! 2. Else read the owner's record, *after* the claim: a claim of an incarnation that its record no
//!    longer names, or names as left or deposed, is free. A record that was read before the claim
//!    could be older than the owner's incarnation.
//! 3. An owner that was silent for a whole lease is deposed, and all is looked at again.
//! 4. A live owner gets the registration forwarded. If it does not answer, the claim notes that it
//!    is wanted here, and the RM is asked to register again.
//!
//! # Invariants
//! An owner ends its session before it claims the RM for another registration. Once the claim names
//! the new process, that one may take the RM to a third member at once, while the reply is still on
//! its way here and this member would serve the old process.
//!
//! A registration is answered with an epoch only after the compare-and-set that wrote this epoch
//! was won, and after the clock was looked at once more. A registration that gives up without
//! knowing its result is harmless: its compare-and-set names a version, so it is void as soon as
//! any other is won.
//!
//! A registration whose client has given up begins nothing new: it is not forwarded, writes no wish
//! and claims nothing. The client may have a session at another member by now, which the
//! registration would end. Only a claim that is already being written goes on.

use crate::arbiter::{Outcome, Reply, Request};
use crate::member::{Effect, EndReason, Forwarded, Member, Operation, Session, Status};
use crate::names::{Epoch, Nanos, Owner, RmId, Version};
use crate::records::{Claim, Key, Life, MemberRecord, Record, Versioned};
use crate::rules::Rule;
use crate::tasks::{Refusal, TRIES, Task};
use crate::verdict::{CallId, Registration, Verdict, claim_for, judge};

/// A registration on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Registering {
    pub(crate) registration: Registration,
    /// Tries left to begin again from the top.
    tries: u8,
    /// Tries left to send the compare-and-set again.
    resends: u8,
    /// Whether the client has given up. The next reply of the arbiter ends the registration, unless
    /// it shows that a claim was won.
    pub(crate) is_abandoned: bool,
    step: Step,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    ReadingClaim,
    ReadingOwner {
        claim: Versioned<Claim>,
        owner: Owner,
    },
    Forwarding {
        claim: Versioned<Claim>,
        owner: Owner,
    },
    Claiming {
        claim: Claim,
        expected: Option<Version>,
        leaves: Option<Owner>,
    },
    /// Writes that this member wants the RM.
    Wanting {
        claim: Claim,
        expected: Version,
        owner: Owner,
    },
    Deposing {
        record: MemberRecord,
        expected: Option<Version>,
    },
}

impl Member {
    pub(crate) fn register(
        &mut self,
        now: Nanos,
        registration: Registration,
        out: &mut Vec<Effect>,
    ) {
        let refusal = if self.status == Status::Leaving {
            Some(Refusal::Leaving)
        } else if !self.may_decide(now) {
            Some(Refusal::Fenced)
        } else {
            match self.tasks.get(&registration.rm) {
                Some(Task::HandOver(task)) => Some(Refusal::HandingOver(task.to().clone())),
                Some(Task::Registering(_) | Task::Deregistration(_)) => Some(Refusal::Busy),
                None => None,
            }
        };
        if let Some(refusal) = refusal {
            return out.push(Effect::Answer(registration.call, Err(refusal)));
        }
        let rm = registration.rm.clone();
        if !self.rules.keep(Rule::ClaimsBeforeAnswer)
            && let Some(session) = self.sessions.get_mut(&rm)
        {
            session.holder = registration.holder;
            return out.push(Effect::Answer(registration.call, Ok(session.epoch)));
        }
        let task = Registering {
            registration,
            tries: TRIES,
            resends: TRIES,
            is_abandoned: false,
            step: Step::ReadingClaim,
        };
        self.begin_from_the_top(rm, Box::new(task), out);
    }

    /// Ends a registration whose client has given up: at once if it was forwarded, else with the
    /// reply to the request that is open.
    pub(crate) fn abandoned(&mut self, call: CallId, rm: &RmId, out: &mut Vec<Effect>) {
        let Some(Task::Registering(task)) = self.tasks.get_mut(rm) else { return };
        if task.registration.call != call {
            return;
        }
        task.is_abandoned = true;
        self.refuse_forwarded(rm, Refusal::Abandoned, out);
        self.leave_when_done(out);
    }

    /// Refuses the registration of an RM if it was forwarded. It has no request to the arbiter open,
    /// and the end of its forward, which comes later, is ignored.
    pub(crate) fn refuse_forwarded(&mut self, rm: &RmId, refusal: Refusal, out: &mut Vec<Effect>) {
        let Some(Task::Registering(task)) = self.tasks.get(rm) else { return };
        if task.is_forwarding() {
            refuse(task, refusal, out);
            self.tasks.remove(rm);
            self.begin_waiting_deregistration(rm.clone(), out);
        }
    }

    /// Begins again with a read of the claim, unless the client has given up.
    fn begin_from_the_top(&mut self, rm: RmId, mut task: Box<Registering>, out: &mut Vec<Effect>) {
        if task.is_abandoned {
            return refuse(&task, Refusal::Abandoned, out);
        }
        if task.tries == 0 {
            return refuse(&task, Refusal::Contended, out);
        }
        task.tries -= 1;
        task.resends = TRIES;
        task.step = Step::ReadingClaim;
        self.read_claim(&rm, out);
        self.tasks.insert(rm, Task::Registering(task));
    }

    pub(crate) fn registration_reply(
        &mut self,
        now: Nanos,
        rm: RmId,
        task: Box<Registering>,
        reply: Reply,
        out: &mut Vec<Effect>,
    ) {
        match (task.step.clone(), reply) {
            (Step::ReadingClaim | Step::ReadingOwner { .. }, _) if task.is_abandoned => {
                refuse(&task, Refusal::Abandoned, out);
            }
            (Step::ReadingClaim, Reply::Read(found, _)) => {
                self.claim_read(now, rm, task, found.and_then(Versioned::into_claim), out);
            }
            (Step::ReadingOwner { claim, owner }, Reply::Read(found, _)) => {
                let found = found.and_then(Versioned::into_member);
                self.owner_read(now, rm, task, claim, owner, found, out);
            }
            (Step::Claiming { claim, expected, leaves }, reply) => {
                match reply.outcome(&Record::Claim(claim.clone())) {
                    Outcome::Won(_) => self.claimed(now, rm, &task, &claim, leaves, out),
                    Outcome::Lost(_) => self.begin_from_the_top(rm, task, out),
                    Outcome::Unknown => {
                        if let Some(task) = count_resend(task, out) {
                            self.write_claim(&rm, &claim, expected, out);
                            self.tasks.insert(rm, Task::Registering(task));
                        }
                    }
                }
            }
            (Step::Wanting { claim, expected, owner }, reply) => {
                match reply.outcome(&Record::Claim(claim.clone())) {
                    Outcome::Won(_) => refuse(&task, Refusal::OwnerUnreachable(owner), out),
                    Outcome::Lost(_) => self.begin_from_the_top(rm, task, out),
                    Outcome::Unknown => {
                        if let Some(task) = count_resend(task, out) {
                            self.write_claim(&rm, &claim, Some(expected), out);
                            self.tasks.insert(rm, Task::Registering(task));
                        }
                    }
                }
            }
            (Step::Deposing { record, expected }, reply) => {
                match reply.outcome(&Record::Member(record.clone())) {
                    Outcome::Won(_) | Outcome::Lost(_) => self.begin_from_the_top(rm, task, out),
                    Outcome::Unknown => {
                        if let Some(task) = count_resend(task, out) {
                            self.depose(rm, task, record, expected, out);
                        }
                    }
                }
            }
            (Step::ReadingClaim | Step::ReadingOwner { .. } | Step::Forwarding { .. }, _) => {
                refuse(&task, Refusal::ArbiterUnavailable, out);
            }
        }
    }

    fn claim_read(
        &mut self,
        now: Nanos,
        rm: RmId,
        mut task: Box<Registering>,
        found: Option<Versioned<Claim>>,
        out: &mut Vec<Effect>,
    ) {
        let claim = found.as_ref().map(|found| &found.value);
        if let Some(claim) = claim {
            self.known.epoch = self.known.epoch.max(claim.epoch);
        }
        match judge(&self.me, claim, &task.registration, self.rules) {
            Verdict::Superseded => refuse(&task, Refusal::Superseded, out),
            Verdict::Claims { leaves } => self.claim(rm, task, found, leaves, out),
            Verdict::AsksAbout(owner) => {
                let Some(claim) = found else { return };
                if !self.rules.keep(Rule::ReadsOwnerAfterClaim) {
                    let found = self.record_before(&owner);
                    return self.owner_read(now, rm, task, claim, owner, found, out);
                }
                let key = Key::Member(owner.member.clone());
                task.step = Step::ReadingOwner { claim, owner };
                self.tasks.insert(rm.clone(), Task::Registering(task));
                self.ask(Operation::Rm(rm), Request::Read(key), out);
            }
        }
    }

    fn claim(
        &mut self,
        rm: RmId,
        mut task: Box<Registering>,
        found: Option<Versioned<Claim>>,
        leaves: Option<Owner>,
        out: &mut Vec<Effect>,
    ) {
        if self.rules.keep(Rule::EndsBeforeClaim) {
            self.end_session(&rm, Epoch(u64::MAX), EndReason::Superseded, out);
        }
        let last = found.as_ref().map(|found| &found.value);
        let claim = claim_for(&self.me, last, &task.registration, self.known.floor, self.rules);
        let expected = found.map(|found| found.version);
        self.write_claim(&rm, &claim, expected, out);
        task.step = Step::Claiming { claim, expected, leaves };
        self.tasks.insert(rm, Task::Registering(task));
    }

    #[expect(clippy::too_many_arguments, reason = "what was read, beside the task")]
    fn owner_read(
        &mut self,
        now: Nanos,
        rm: RmId,
        mut task: Box<Registering>,
        claim: Versioned<Claim>,
        owner: Owner,
        found: Option<Versioned<MemberRecord>>,
        out: &mut Vec<Effect>,
    ) {
        let is_over = found
            .as_ref()
            .is_some_and(|found| found.value.owner != owner || found.value.life != Life::Alive);
        if is_over && self.rules.keep(Rule::ClaimsOfTheDeadAreFree) {
            return self.claim(rm, task, Some(claim), None, out);
        }
        let version = found.as_ref().map(|found| found.version);
        if self.is_silent(&owner.member, found.as_ref(), now) {
            let record = match found {
                Some(found) => MemberRecord { life: Life::Deposed, ..found.value },
                None => MemberRecord {
                    owner,
                    beat: 0,
                    life: Life::Deposed,
                    lease: None,
                    details: std::sync::Arc::default(),
                },
            };
            return self.depose(rm, task, record, version, out);
        }
        self.observed.see(&owner.member, version, now);
        if task.registration.is_forwarded {
            return refuse(&task, Refusal::NotOwner(owner), out);
        }
        // An owner may take seconds to answer.
        if self.status == Status::Leaving {
            return refuse(&task, Refusal::Leaving, out);
        }
        out.push(Effect::Forward(task.registration.call, rm.clone(), owner.clone()));
        task.step = Step::Forwarding { claim, owner };
        self.tasks.insert(rm, Task::Registering(task));
    }

    fn depose(
        &mut self,
        rm: RmId,
        mut task: Box<Registering>,
        record: MemberRecord,
        expected: Option<Version>,
        out: &mut Vec<Effect>,
    ) {
        let key = Key::Member(record.owner.member.clone());
        let written = Record::Member(record.clone());
        task.step = Step::Deposing { record, expected };
        self.tasks.insert(rm.clone(), Task::Registering(task));
        let request = Request::CompareAndSet { key, expected, record: written };
        self.ask(Operation::Rm(rm), request, out);
    }

    /// Opens the session, in place of an older one, if the lease has not ended meanwhile.
    fn claimed(
        &mut self,
        now: Nanos,
        rm: RmId,
        task: &Registering,
        claim: &Claim,
        leaves: Option<Owner>,
        out: &mut Vec<Effect>,
    ) {
        self.known.epoch = self.known.epoch.max(claim.epoch);
        self.end_session(&rm, claim.epoch, EndReason::Superseded, out);
        if self.status != Status::Serving {
            return refuse(task, Refusal::Leaving, out);
        }
        if !self.may_decide(now) && self.rules.keep(Rule::LooksAgainBeforeAnswer) {
            return refuse(task, Refusal::Fenced, out);
        }
        let holder = claim.holder.clone();
        let session = Session { epoch: claim.epoch, holder, opened_at: now };
        self.sessions.insert(rm.clone(), session);
        out.push(Effect::Answer(task.registration.call, Ok(claim.epoch)));
        if let Some(owner) = leaves {
            out.push(Effect::Notify(owner, rm, claim.epoch));
        }
    }

    pub(crate) fn forward_ended(
        &mut self,
        call: CallId,
        rm: &RmId,
        ended: Forwarded,
        out: &mut Vec<Effect>,
    ) {
        let Some(Task::Registering(task)) = self.tasks.get(rm) else { return };
        if task.registration.call != call {
            return;
        }
        let Step::Forwarding { claim, owner } = task.step.clone() else { return };
        let Some(Task::Registering(mut task)) = self.tasks.remove(rm) else { return };
        match ended {
            Forwarded::Answered => {}
            Forwarded::NotOwner => self.begin_from_the_top(rm.clone(), task, out),
            // The wish of another member is replaced: the RM has come here since, and that member
            // may have ended.
            Forwarded::NoAnswer if claim.value.wanted_by.as_ref() == Some(&self.me) => {
                refuse(&task, Refusal::OwnerUnreachable(owner), out);
            }
            Forwarded::NoAnswer => {
                let expected = claim.version;
                let claim = Claim { wanted_by: Some(self.me.clone()), ..claim.value };
                self.write_claim(rm, &claim, Some(expected), out);
                task.step = Step::Wanting { claim, expected, owner };
                self.tasks.insert(rm.clone(), Task::Registering(task));
            }
        }
        self.begin_waiting_deregistration(rm.clone(), out);
        self.leave_when_done(out);
    }
}

fn refuse(task: &Registering, refusal: Refusal, out: &mut Vec<Effect>) {
    out.push(Effect::Answer(task.registration.call, Err(refusal)));
}

/// Counts that a compare-and-set is sent again. Refuses after the last time, and if the client has
/// given up.
fn count_resend(mut task: Box<Registering>, out: &mut Vec<Effect>) -> Option<Box<Registering>> {
    if task.resends == 0 || task.is_abandoned {
        refuse(&task, Refusal::ArbiterUnavailable, out);
        return None;
    }
    task.resends -= 1;
    Some(task)
}

impl Registering {
    /// Whether it waits for another member.
    pub(crate) fn is_forwarding(&self) -> bool {
        matches!(self.step, Step::Forwarding { .. })
    }
}
