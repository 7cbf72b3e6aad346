//! Hand-over and deregistration: an owner gives an RM away, to another member or to nobody.
//!
//! # Invariant
//! The session ends before the claim changes. If the claim then cannot be written, the RM has no
//! session, and its next registration is served by whom the claim names.
//!
//! # Why an RM with a proof is waited for
//! Any member may claim it at once, so it registers at the other member while the hand-over is under
//! way. Of two writes of the claim one is lost, and made anew: if it is that of the registration, the
//! RM waits for three writes in place of one. So the owner pauses before it reads the claim, which
//! names the other member by then. If it does not, the owner writes it.

use crate::arbiter::{Outcome, Reply, Request};
use crate::member::{Effect, EndReason, Member, Operation};
use crate::names::{Epoch, Nanos, Owner, RmId, Version};
use crate::records::{Claim, Key, Record, Versioned};
use crate::rules::Rule;
use crate::tasks::{Refusal, TRIES, Task};

/// A hand-over on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HandOver {
    to: Owner,
    /// Tries left: to begin again, or to send a request again.
    tries: u8,
    /// Claim to be written, and the version that it replaces. `None` while the claim is read.
    writes: Option<(Claim, Version)>,
}

impl HandOver {
    /// The member that gets the RM.
    pub(crate) fn to(&self) -> &Owner {
        &self.to
    }
}

/// A deregistration on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Deregistration {
    epoch: Epoch,
    /// Tries left to send a request again.
    resends: u8,
    /// Claim to be written, and the version that it replaces. `None` while the claim is read.
    writes: Option<(Claim, Version)>,
}

impl Deregistration {
    /// Epoch of the session that deregistered, or of the claim that is freed without one.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl Member {
    pub(crate) fn begin_hand_over(&mut self, rm: RmId, to: Owner, out: &mut Vec<Effect>) {
        match self.tasks.get(&rm) {
            // Its end is that of this order, too.
            Some(Task::HandOver(_)) => return,
            Some(_) => return out.push(Effect::HandOverEnded(rm, Err(Refusal::Busy))),
            None if to == self.me => {
                return out.push(Effect::HandOverEnded(rm, Err(Refusal::Busy)));
            }
            None => {}
        }
        let proves = self.sessions.get(&rm).is_some_and(|session| session.holder.proof.is_some());
        if self.rules.keep(Rule::EndsBeforeHandOver) {
            self.end_session(&rm, Epoch(u64::MAX), EndReason::Moved(Some(to.clone())), out);
        }
        if proves {
            let read = Request::Read(Key::Claim(rm.clone()));
            self.ask_later(Operation::Rm(rm.clone()), read, out);
        } else {
            self.read_claim(&rm, out);
        }
        self.tasks.insert(rm, Task::HandOver(HandOver { to, tries: TRIES, writes: None }));
    }

    pub(crate) fn hand_over_reply(
        &mut self,
        rm: RmId,
        mut task: HandOver,
        reply: Reply,
        out: &mut Vec<Effect>,
    ) {
        match (task.writes.take(), reply) {
            (None, Reply::Read(found, _)) => match found.and_then(Versioned::into_claim) {
                Some(found) if found.value.owner.as_ref() == Some(&self.me) => {
                    let claim = Claim {
                        epoch: found.value.epoch.max(self.known.floor).next(),
                        owner: Some(task.to.clone()),
                        wanted_by: None,
                        ..found.value
                    };
                    self.write_claim(&rm, &claim, Some(found.version), out);
                    task.writes = Some((claim, found.version));
                    self.tasks.insert(rm, Task::HandOver(task));
                }
                // Another member has claimed it since, or nobody serves it any more.
                found => {
                    let owner = found.and_then(|found| found.value.owner);
                    out.push(Effect::HandOverEnded(rm, Ok(owner)));
                }
            },
            (None, _) if task.tries == 0 => {
                out.push(Effect::HandOverEnded(rm, Err(Refusal::ArbiterUnavailable)));
            }
            (None, _) => {
                task.tries -= 1;
                self.read_claim(&rm, out);
                self.tasks.insert(rm, Task::HandOver(task));
            }
            (Some((claim, expected)), reply) => {
                match reply.outcome(&Record::Claim(claim.clone())) {
                    Outcome::Won(_) => {
                        let moved = EndReason::Moved(Some(task.to.clone()));
                        self.end_session(&rm, claim.epoch, moved, out);
                        out.push(Effect::HandOverEnded(rm, Ok(Some(task.to))));
                    }
                    Outcome::Lost(_) if task.tries == 0 => {
                        out.push(Effect::HandOverEnded(rm, Err(Refusal::Contended)));
                    }
                    Outcome::Unknown if task.tries == 0 => {
                        out.push(Effect::HandOverEnded(rm, Err(Refusal::ArbiterUnavailable)));
                    }
                    Outcome::Lost(_) => {
                        task.tries -= 1;
                        self.read_claim(&rm, out);
                        self.tasks.insert(rm, Task::HandOver(task));
                    }
                    Outcome::Unknown => {
                        task.tries -= 1;
                        self.write_claim(&rm, &claim, Some(expected), out);
                        task.writes = Some((claim, expected));
                        self.tasks.insert(rm, Task::HandOver(task));
                    }
                }
            }
        }
    }

    /// The claim, if it names this member.
    fn own_claim(&self, found: Option<Versioned<Record>>) -> Option<Versioned<Claim>> {
        let claim = found.and_then(Versioned::into_claim)?;
        (claim.value.owner.as_ref() == Some(&self.me)).then_some(claim)
    }

    /// Ends the session of an RM that deregistered, and then its claim. Waits while another task of
    /// the RM is under way. Ignored if the session is over by then.
    pub(crate) fn begin_deregistration(&mut self, rm: RmId, epoch: Epoch, out: &mut Vec<Effect>) {
        let serves = self.sessions.get(&rm).is_some_and(|session| session.epoch == epoch);
        if !serves {
            return out.push(Effect::DeregistrationEnded(rm, epoch, false));
        }
        if self.tasks.contains_key(&rm) {
            self.deregistrations.insert(rm, epoch);
            return;
        }
        self.end_session(&rm, epoch, EndReason::Deregistered, out);
        self.read_claim(&rm, out);
        let task = Deregistration { epoch, resends: TRIES, writes: None };
        self.tasks.insert(rm, Task::Deregistration(task));
    }

    /// Frees a claim without a session, as a deregistration does.
    pub(crate) fn begin_freeing(
        &mut self,
        now: Nanos,
        rm: RmId,
        epoch: Epoch,
        out: &mut Vec<Effect>,
    ) {
        let is_served = self.sessions.contains_key(&rm) && self.rules.keep(Rule::FreesOnlyUnserved);
        if is_served || self.tasks.contains_key(&rm) || !self.may_decide(now) {
            return;
        }
        self.read_claim(&rm, out);
        let task = Deregistration { epoch, resends: TRIES, writes: None };
        self.tasks.insert(rm, Task::Deregistration(task));
    }

    /// Begins the deregistration that waited for the end of another task of the RM.
    pub(crate) fn begin_waiting_deregistration(&mut self, rm: RmId, out: &mut Vec<Effect>) {
        if !self.tasks.contains_key(&rm)
            && let Some(epoch) = self.deregistrations.remove(&rm)
        {
            self.begin_deregistration(rm, epoch, out);
        }
    }

    pub(crate) fn deregistration_reply(
        &mut self,
        rm: RmId,
        mut task: Deregistration,
        reply: Reply,
        out: &mut Vec<Effect>,
    ) {
        match (task.writes.take(), reply) {
            (None, Reply::Read(found, _)) => match self.ended_claim(found, task.epoch) {
                Some(found) => {
                    let claim = Claim { owner: None, wanted_by: None, ..found.value };
                    self.write_claim(&rm, &claim, Some(found.version), out);
                    task.writes = Some((claim, found.version));
                    self.tasks.insert(rm, Task::Deregistration(task));
                }
                None => out.push(Effect::DeregistrationEnded(rm, task.epoch, false)),
            },
            (None, _) if task.resends == 0 => {
                out.push(Effect::DeregistrationEnded(rm, task.epoch, false));
            }
            (None, _) => {
                task.resends -= 1;
                self.read_claim(&rm, out);
                self.tasks.insert(rm, Task::Deregistration(task));
            }
            (Some((claim, expected)), reply) => {
                match reply.outcome(&Record::Claim(claim.clone())) {
                    Outcome::Unknown if task.resends > 0 => {
                        task.resends -= 1;
                        self.write_claim(&rm, &claim, Some(expected), out);
                        task.writes = Some((claim, expected));
                        self.tasks.insert(rm, Task::Deregistration(task));
                    }
                    Outcome::Won(_) => out.push(Effect::DeregistrationEnded(rm, task.epoch, true)),
                    // Lost: somebody has claimed the RM since. Never tried from the top.
                    Outcome::Lost(_) | Outcome::Unknown => {
                        out.push(Effect::DeregistrationEnded(rm, task.epoch, false));
                    }
                }
            }
        }
    }

    /// The claim, if it is that of the epoch which was ended here.
    fn ended_claim(
        &self,
        found: Option<Versioned<Record>>,
        epoch: Epoch,
    ) -> Option<Versioned<Claim>> {
        if !self.rules.keep(Rule::DeregistersOwnEpoch) {
            return found.and_then(Versioned::into_claim);
        }
        self.own_claim(found).filter(|found| found.value.epoch == epoch)
    }
}
