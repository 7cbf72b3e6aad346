//! One task for each RM at a time: a registration, a hand-over, or a deregistration.

use crate::arbiter::{Reply, Request};
use crate::hand_over::{Deregistration, HandOver};
use crate::member::{Effect, Member, Operation};
use crate::names::{Nanos, Owner, RmId, Version};
use crate::records::{Claim, Key, Record};
use crate::registration::Registering;

/// Number of times that a registration begins from the top after a lost compare-and-set, and number
/// of times that a request without a result is sent again.
pub(crate) const TRIES: u8 = 3;

/// Task that is under way for an RM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    Registering(Box<Registering>),
    HandOver(HandOver),
    Deregistration(Deregistration),
}

/// Reason why a registration has no session, or a hand-over had no effect. It may be tried again,
/// except after [`Refusal::Superseded`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// This member may not decide.
    #[error("this member may not decide now")]
    Fenced,
    /// This member ends.
    #[error("this member is ending")]
    Leaving,
    /// Another registration or deregistration of the RM is under way here.
    #[error("another change of the same resource manager is under way")]
    Busy,
    /// This member hands the RM over to another one.
    #[error("the resource manager is being handed over to member `{}`", .0.member.0)]
    HandingOver(Owner),
    /// The arbiter does not answer. The claim may have been written.
    #[error("the arbiter does not answer")]
    ArbiterUnavailable,
    /// Others changed the claim each time before this member could.
    #[error("the claim of the resource manager changed {TRIES} times meanwhile")]
    Contended,
    /// The owner is alive and could not be reached. It is asked to hand over.
    #[error("the owner, member `{}`, cannot be reached", .0.member.0)]
    OwnerUnreachable(Owner),
    /// The registration was forwarded to a member that does not own the RM.
    #[error("the owner is member `{}`", .0.member.0)]
    NotOwner(Owner),
    /// The client has given up the registration.
    #[error("the client has given up the registration")]
    Abandoned,
    /// Another process of the RM registered after this one had its session, or this registration is
    /// older than another of the same process.
    #[error("the resource manager was registered again by another process, or later")]
    Superseded,
}

impl Member {
    pub(crate) fn task_reply(&mut self, now: Nanos, rm: RmId, reply: Reply, out: &mut Vec<Effect>) {
        let of = rm.clone();
        match self.tasks.remove(&rm) {
            Some(Task::Registering(task)) => self.registration_reply(now, rm, task, reply, out),
            Some(Task::HandOver(task)) => self.hand_over_reply(rm, task, reply, out),
            Some(Task::Deregistration(task)) => self.deregistration_reply(rm, task, reply, out),
            None => {}
        }
        self.begin_waiting_deregistration(of, out);
        self.leave_when_done(out);
    }

    /// Ends all tasks: their results are of no use any more.
    pub(crate) fn refuse_all_tasks(&mut self, out: &mut Vec<Effect>) {
        for (rm, task) in std::mem::take(&mut self.tasks) {
            out.push(match task {
                Task::Registering(task) => {
                    Effect::Answer(task.registration.call, Err(Refusal::Fenced))
                }
                Task::HandOver(_) => Effect::HandOverEnded(rm, Err(Refusal::Fenced)),
                Task::Deregistration(task) => Effect::DeregistrationEnded(rm, task.epoch(), false),
            });
        }
    }

    pub(crate) fn read_claim(&mut self, rm: &RmId, out: &mut Vec<Effect>) {
        self.ask(Operation::Rm(rm.clone()), Request::Read(Key::Claim(rm.clone())), out);
    }

    pub(crate) fn write_claim(
        &mut self,
        rm: &RmId,
        claim: &Claim,
        expected: Option<Version>,
        out: &mut Vec<Effect>,
    ) {
        let (key, record) = (Key::Claim(rm.clone()), Record::Claim(claim.clone()));
        let request = Request::CompareAndSet { key, expected, record };
        self.ask(Operation::Rm(rm.clone()), request, out);
    }
}
