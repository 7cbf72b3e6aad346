//! A member of the cluster as one state machine: events go in with the time, effects come out.
//!
//! # Invariants
//! * At most one request of each [`Operation`] is open, and at most one task for each RM. Both
//!   orders are those of a lock, but none that a running session needs.
//! * A session is opened only after a compare-and-set of its claim was won, and only within the
//!   lease.
//! * A member that is fenced, restored or over has no session.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::arbiter::{Reply, Request, Snapshot};
use crate::names::{Epoch, Nanos, Owner, Revision, RmId};
use crate::observed::Observed;
use crate::records::{Details, Holder, MemberRecord, Versioned};
use crate::renewal::Round;
use crate::restore::Acceptance;
use crate::rules::{Rule, Rules};
use crate::tasks::{Refusal, Task};
use crate::timing::Timing;
use crate::verdict::{CallId, Registration};

/// Purpose of a request to the arbiter. Its reply comes back with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// The member's own record, and reads of all records.
    Renewal,
    /// The claim of an RM.
    Rm(RmId),
    /// Acceptance of a restored backup.
    Acceptance,
    /// The record of a member that has been silent for long.
    Deposing,
}

/// Input of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Time has passed. Has to come several times for each [`Timing::renew`]. A member whose front
    /// does not answer its watchdog begins no renewal.
    Wake {
        /// Whether the front answers.
        front_answers: bool,
    },
    /// The arbiter answered, or a time-out passed.
    Reply(Operation, Reply),
    /// A registration arrived.
    Register(Registration),
    /// The owner answered a forwarded registration, or did not. Once for each [`Effect::Forward`],
    /// with its call. Ignored if the registration has its answer by now.
    ForwardEnded(CallId, RmId, Forwarded),
    /// The client of a registration has given up. Comes after its [`Event::Register`], and in place
    /// of [`Event::ForwardEnded`] too. The registration is refused as soon as no request of it is
    /// open, unless its claim is won meanwhile. Ignored if it has its answer.
    Abandoned(CallId, RmId),
    /// An operator wants an RM served by another member.
    HandOver(RmId, Owner),
    /// The RM deregistered in the session with this epoch. Has its turn after another task of the RM.
    Deregister(RmId, Epoch),
    /// The RM has not come for long, although the claim with this epoch names this member. The
    /// claim is freed. Ignored if the RM has a session here, or is about to get one.
    Free(RmId, Epoch),
    /// The claim of the RM was read with this epoch, and names another owner.
    ClaimedElsewhere(RmId, Epoch, Option<Owner>),
    /// The member ends in order. Its sessions go to the members named; others just end.
    Leave(BTreeMap<RmId, Owner>),
    /// The operator accepts a restored backup. All epochs from now on are above `floor`, which has
    /// to be above any epoch ever given: milliseconds since 1970 are.
    AcceptRestore {
        /// Lower bound of new epochs, exclusive.
        floor: Epoch,
    },
}

/// How a forwarded registration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Forwarded {
    /// The owner answered, and its answer went to the RM.
    Answered,
    /// The member that was asked does not own the RM (any more).
    NotOwner,
    /// No answer came in time.
    NoAnswer,
}

/// Output of a member: actions for the service, to be carried out in their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Send a request to the arbiter.
    Ask(Operation, Request),
    /// Send a request to the arbiter after a pause, in which an RM that has left may be claimed by
    /// the member where it registers.
    AskLater(Operation, Request),
    /// Answer a registration: the epoch of its session, or why there is none.
    Answer(CallId, Result<Epoch, Refusal>),
    /// Forward a registration to the owner, and report how that ended.
    Forward(CallId, RmId, Owner),
    /// End a session before anything else is done.
    EndSession(RmId, Epoch, EndReason),
    /// Notify another member that it lost an RM, so that it reads the claim
    /// ([`Event::ClaimedElsewhere`]). May be lost.
    Notify(Owner, RmId, Epoch),
    /// All hand-overs of an RM that were ordered ended: the other member that the claim names now,
    /// or `None` if it names nobody. `Err`: the claim names this member still, as far as is known.
    HandOverEnded(RmId, Result<Option<Owner>, Refusal>),
    /// A deregistration ended: the epoch of its session, and whether the claim names nobody.
    DeregistrationEnded(RmId, Epoch, bool),
    /// A restored backup was accepted: epochs will be above this floor, or above that of another
    /// acceptance which was faster.
    AcceptanceEnded(Epoch),
    /// The member may decide.
    Ready,
    /// The member may not decide: its lease is over.
    Fenced,
    /// The store went back to an earlier state. Nothing is decided until an operator accepts it.
    Restored,
    /// The incarnation is over. The process begins again with a new one ([`Member::again`]).
    BeginAgain,
    /// Another process has this member's id, and wrote this record: the process has to exit.
    Exit(MemberRecord),
    /// The member has left: the process may end.
    Left,
}

/// Why a session ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// The member's lease, or its incarnation, is over.
    Fenced,
    /// The RM registered again.
    Superseded,
    /// Another member serves the RM from now on, as far as is known which.
    Moved(Option<Owner>),
    /// The RM deregistered.
    Deregistered,
    /// The member ends.
    Leaving,
}

/// Life of an incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// No renewal has counted yet.
    Joining,
    /// Claims RMs.
    Serving,
    /// Claims no more RMs, and hands over those that it has.
    Leaving,
    /// Waits until a restored backup is accepted.
    Restored,
    /// Over. The member does nothing any more.
    Over,
}

/// An RM that this member serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// Number of the session.
    pub epoch: Epoch,
    /// The process of the RM.
    pub holder: Holder,
    /// When it was opened.
    pub opened_at: Nanos,
}

/// Knowledge of the store that a member keeps when it begins again in the same process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Known {
    /// Highest revision of the store. Requests note it, and a lower one in the reply shows that the
    /// store went back.
    pub(crate) revision: Revision,
    /// Highest epoch of any claim.
    pub(crate) epoch: Epoch,
    /// Floor of the era.
    pub(crate) floor: Epoch,
}

/// One incarnation of a member. See the head of the crate for how it is driven.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    pub(crate) me: Owner,
    pub(crate) details: Arc<Details>,
    pub(crate) timing: Timing,
    pub(crate) rules: Rules,
    pub(crate) status: Status,
    pub(crate) known: Known,
    /// Highest revision that was known when each open request was sent.
    pub(crate) sent: BTreeMap<Operation, Revision>,
    pub(crate) round: Round,
    /// First sending of the last renewal that counts.
    pub(crate) counts_from: Option<Nanos>,
    /// Whether the last effect about it was `Ready`.
    pub(crate) is_ready: bool,
    /// When it last became ready. Silence of others is long only if this member has read their
    /// records all the time.
    pub(crate) ready_since: Option<Nanos>,
    pub(crate) observed: Observed,
    pub(crate) sessions: BTreeMap<RmId, Session>,
    pub(crate) tasks: BTreeMap<RmId, Task>,
    /// Epochs of sessions whose deregistration waits for the end of another task of the RM. It ends
    /// with the session at the latest.
    pub(crate) deregistrations: BTreeMap<RmId, Epoch>,
    pub(crate) acceptance: Option<Acceptance>,
    /// Records of the last renewal's read, where a test leaves out that they are read again.
    #[cfg(test)]
    pub(crate) members_before: BTreeMap<crate::names::MemberId, Versioned<MemberRecord>>,
}

impl Member {
    /// A member that begins to join with its first [`Event::Wake`].
    pub fn new(me: Owner, details: Details, timing: Timing) -> Self {
        Self {
            me,
            details: Arc::new(details),
            timing,
            rules: Rules::default(),
            status: Status::Joining,
            known: Known::default(),
            sent: BTreeMap::new(),
            round: Round::Idle { begun: None, own: None },
            counts_from: None,
            is_ready: false,
            ready_since: None,
            observed: Observed::default(),
            sessions: BTreeMap::new(),
            tasks: BTreeMap::new(),
            deregistrations: BTreeMap::new(),
            acceptance: None,
            #[cfg(test)]
            members_before: BTreeMap::new(),
        }
    }

    /// The same member after [`Effect::BeginAgain`], as a new incarnation that still knows how far
    /// the store was. `me` has the same id and a new random number.
    #[must_use]
    pub fn again(&self, me: Owner) -> Self {
        let mut next = Self::new(me, (*self.details).clone(), self.timing);
        next.rules = self.rules;
        next.known = self.known;
        next
    }

    /// Whether decisions may be handed over to RMs at `now`. To be asked before each hand-over.
    pub fn may_decide(&self, now: Nanos) -> bool {
        matches!(self.status, Status::Serving | Status::Leaving) && self.is_within_lease(now)
    }

    pub(crate) fn is_within_lease(&self, now: Nanos) -> bool {
        self.counts_from.is_some_and(|from| now.saturating_sub(from) < self.timing.decide())
            || (self.counts_from.is_some() && !self.rules.keep(Rule::DecidesWithinLease))
    }

    /// Time from which nothing may be decided any more unless another renewal counts. `None`:
    /// nothing may be decided now.
    pub fn decides_until(&self) -> Option<Nanos> {
        let may_decide = matches!(self.status, Status::Serving | Status::Leaving);
        let from = self.counts_from.filter(|_| may_decide)?;
        Some(from.saturating_add(self.timing.decide()))
    }

    /// The member and its incarnation.
    pub fn me(&self) -> &Owner {
        &self.me
    }

    /// Life of the incarnation.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The RMs that are served here.
    pub fn sessions(&self) -> &BTreeMap<RmId, Session> {
        &self.sessions
    }

    /// Replaces the addresses, version and load of the member's record, with the next renewal.
    pub fn set_details(&mut self, details: Details) {
        self.details = Arc::new(details);
    }

    /// Handles one event at `now`, and returns the effects that the service has to carry out.
    pub fn handle(&mut self, now: Nanos, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.status == Status::Over {
            effects.extend(refusal_of(event));
        } else {
            self.look_at_the_clock(now, &mut effects);
            self.react(now, event, &mut effects);
        }
        effects
    }

    fn react(&mut self, now: Nanos, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::Wake { front_answers } => self.wake(now, front_answers, out),
            Event::Reply(operation, reply) => self.hear(now, operation, reply, out),
            Event::Register(registration) => self.register(now, registration, out),
            Event::ForwardEnded(call, rm, ended) => self.forward_ended(call, &rm, ended, out),
            Event::Abandoned(call, rm) => self.abandoned(call, &rm, out),
            Event::HandOver(rm, to) => self.begin_hand_over(rm, to, out),
            Event::Deregister(rm, epoch) => self.begin_deregistration(rm, epoch, out),
            Event::Free(rm, epoch) => self.begin_freeing(now, rm, epoch, out),
            Event::ClaimedElsewhere(rm, epoch, owner) => {
                self.claimed_elsewhere(&rm, epoch, owner, out);
            }
            Event::Leave(targets) => self.leave(&targets, out),
            Event::AcceptRestore { floor } => self.accept_restore(floor, out),
        }
    }

    /// Passes a reply to its operation, after the store's revision was looked at.
    fn hear(&mut self, now: Nanos, operation: Operation, reply: Reply, out: &mut Vec<Effect>) {
        let Some(known) = self.sent.remove(&operation) else { return };
        if let Some(revision) = reply.revision() {
            if revision < known && self.rules.keep(Rule::NoticesRestore) {
                if self.status != Status::Restored {
                    self.store_went_back(out);
                    return;
                }
            } else {
                self.known.revision = self.known.revision.max(revision);
            }
        }
        match operation {
            Operation::Renewal => self.renewal_reply(now, reply, out),
            Operation::Rm(rm) => self.task_reply(now, rm, reply, out),
            Operation::Acceptance => self.acceptance_reply(reply, out),
            // The next renewal reads what came of it.
            Operation::Deposing => {}
        }
    }

    /// Sends a request, and notes the highest revision that is known before.
    pub(crate) fn ask(&mut self, operation: Operation, request: Request, out: &mut Vec<Effect>) {
        self.note_sent(&operation);
        out.push(Effect::Ask(operation, request));
    }

    /// Sends a request after a pause.
    pub(crate) fn ask_later(
        &mut self,
        operation: Operation,
        request: Request,
        out: &mut Vec<Effect>,
    ) {
        self.note_sent(&operation);
        out.push(Effect::AskLater(operation, request));
    }

    fn note_sent(&mut self, operation: &Operation) {
        debug_assert!(!self.sent.contains_key(operation), "one request of each operation");
        self.sent.insert(operation.clone(), self.known.revision);
    }

    /// Ends the sessions if the lease is over.
    fn look_at_the_clock(&mut self, now: Nanos, out: &mut Vec<Effect>) {
        if self.is_ready && !self.may_decide(now) {
            self.fence(out);
        }
    }

    /// Ends all sessions: nothing is decided until a renewal counts again.
    pub(crate) fn fence(&mut self, out: &mut Vec<Effect>) {
        self.is_ready = false;
        self.end_all_sessions(&EndReason::Fenced, out);
        out.push(Effect::Fenced);
    }

    /// Ends the incarnation, and refuses all registrations that wait.
    pub(crate) fn end(&mut self, last: Effect, out: &mut Vec<Effect>) {
        self.status = Status::Over;
        self.is_ready = false;
        self.end_all_sessions(&EndReason::Fenced, out);
        self.refuse_all_tasks(out);
        out.push(last);
    }

    pub(crate) fn end_all_sessions(&mut self, reason: &EndReason, out: &mut Vec<Effect>) {
        for (rm, session) in std::mem::take(&mut self.sessions) {
            out.push(Effect::EndSession(rm.clone(), session.epoch, reason.clone()));
            self.refuse_deregistration(rm, out);
        }
    }

    /// Ends the deregistration that waits for its turn, if there is one: its session is over.
    fn refuse_deregistration(&mut self, rm: RmId, out: &mut Vec<Effect>) {
        if let Some(epoch) = self.deregistrations.remove(&rm) {
            out.push(Effect::DeregistrationEnded(rm, epoch, false));
        }
    }

    /// Ends a session, if there is one and its epoch is not larger than `epoch`.
    pub(crate) fn end_session(
        &mut self,
        rm: &RmId,
        epoch: Epoch,
        reason: EndReason,
        out: &mut Vec<Effect>,
    ) {
        if self.sessions.get(rm).is_some_and(|session| session.epoch <= epoch)
            && let Some(session) = self.sessions.remove(rm)
        {
            out.push(Effect::EndSession(rm.clone(), session.epoch, reason));
            self.refuse_deregistration(rm.clone(), out);
        }
    }

    /// Ends the session that another member's claim with a larger epoch has ended.
    pub(crate) fn claimed_elsewhere(
        &mut self,
        rm: &RmId,
        epoch: Epoch,
        owner: Option<Owner>,
        out: &mut Vec<Effect>,
    ) {
        if self.sessions.get(rm).is_some_and(|session| session.epoch < epoch) {
            self.end_session(rm, epoch, EndReason::Moved(owner), out);
        }
    }
}

/// The answer of a member that is over to an event that has to be answered.
fn refusal_of(event: Event) -> Option<Effect> {
    match event {
        Event::Register(registration) => {
            Some(Effect::Answer(registration.call, Err(Refusal::Fenced)))
        }
        Event::HandOver(rm, _) => Some(Effect::HandOverEnded(rm, Err(Refusal::Fenced))),
        Event::Deregister(rm, epoch) => Some(Effect::DeregistrationEnded(rm, epoch, false)),
        _ => None,
    }
}

/// Records of members from before a claim was read, for the test that leaves out reading them
/// again.
impl Member {
    #[cfg(test)]
    pub(crate) fn keep_records(&mut self, snapshot: &Snapshot) {
        self.members_before.clone_from(&snapshot.members);
    }

    #[cfg(test)]
    pub(crate) fn record_before(&self, owner: &Owner) -> Option<Versioned<MemberRecord>> {
        self.members_before.get(&owner.member).cloned()
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests keep records")]
    pub(crate) fn keep_records(&mut self, _snapshot: &Snapshot) {}

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests keep records")]
    pub(crate) fn record_before(&self, _owner: &Owner) -> Option<Versioned<MemberRecord>> {
        None
    }
}
