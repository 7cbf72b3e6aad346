//! Effects of members, carried out in the model, and the properties that are checked.

use super::world::{LEASE, Listens, Mail, Running, World, instance_of};
use crate::arbiter::{Reply, Request, Snapshot};
use crate::member::{Effect, EndReason, Event, Forwarded, Operation};
use crate::names::{Epoch, Owner, RmId};
use crate::records::{Claim, Key, Life, Record};
use crate::tasks::{Refusal, Task};
use crate::verdict::CallId;

impl World {
    /// Passes an event to a process that runs, and carries out the effects.
    pub(super) fn handle(&mut self, index: usize, event: Event) {
        let process = &mut self.processes[index];
        if !process.runs() {
            return;
        }
        let me = process.member.me().clone();
        let read = match &event {
            Event::Reply(Operation::Renewal, Reply::All(snapshot)) => Some(snapshot.clone()),
            _ => None,
        };
        let effects = process.member.handle(process.clock, event);
        if let Some(snapshot) = read {
            self.judge_hand_overs(&me, &snapshot, &effects);
        }
        for effect in effects {
            self.carry_out_effect(index, &me, effect);
        }
    }

    /// Whether RMs go, because others want them, to members that take none by the same read.
    fn judge_hand_overs(&mut self, me: &Owner, read: &Snapshot, effects: &[Effect]) {
        for effect in effects {
            let Effect::EndSession(rm, _, EndReason::Moved(Some(to))) = effect else { continue };
            let claim = read.claims.get(rm);
            let is_own = claim.is_some_and(|claim| claim.value.owner.as_ref() == Some(me));
            let takes = read.members.get(&to.member).is_some_and(|record| {
                let record = &record.value;
                record.owner == *to && record.life == Life::Alive && !record.details.draining
            });
            if is_own && !takes {
                self.violate(format!("{rm:?} goes to a member that takes none"));
            }
        }
    }

    fn carry_out_effect(&mut self, index: usize, me: &Owner, effect: Effect) {
        match effect {
            Effect::Ask(operation, request) | Effect::AskLater(operation, request) => {
                self.processes[index].open.insert(operation, request);
            }
            Effect::Answer(call, answer) => self.answer(index, me, call, &answer),
            Effect::Forward(call, rm, to) => self.forward(index, call, &rm, &to),
            Effect::EndSession(rm, epoch, reason) => {
                self.session_ended(index, me, &rm, epoch, &reason);
            }
            Effect::BeginAgain => self.begin_again(index, me),
            Effect::Exit(_) => {
                if self.life_of(me).is_some() {
                    self.violate("a process exited though its record is its own".to_owned());
                }
                self.end_process(index);
            }
            Effect::Left => self.end_process(index),
            Effect::Restored => {
                if self.restored_at.is_none() {
                    self.violate("a store that was not restored was taken for one".to_owned());
                }
            }
            // Notifying the last owner is a courtesy: here it always gets lost.
            Effect::Notify(..)
            | Effect::HandOverEnded(..)
            | Effect::DeregistrationEnded(..)
            | Effect::AcceptanceEnded(..)
            | Effect::Ready
            | Effect::Fenced => {}
        }
    }

    pub(super) fn violate(&mut self, violation: String) {
        self.violation.get_or_insert(violation);
    }

    fn end_process(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.running = Running::Dead;
        process.replies.clear();
        for request in std::mem::take(&mut process.open).into_values() {
            self.abandon(request);
        }
    }

    /// Life of an incarnation in the record of its member. `None` if the record names another one.
    fn life_of(&self, owner: &Owner) -> Option<Life> {
        let record = &self.store.all.members.get(&owner.member)?.value;
        (record.owner == *owner).then_some(record.life)
    }

    fn begin_again(&mut self, index: usize, me: &Owner) {
        if self.life_of(me) == Some(Life::Alive) && self.restored_at.is_none() {
            self.violate("a member that nobody deposed began again".to_owned());
        }
        let next = self.next_owner(&me.member);
        let process = &mut self.processes[index];
        process.member = process.member.again(next);
        process.replies.clear();
        for request in std::mem::take(&mut process.open).into_values() {
            self.abandon(request);
        }
    }

    fn answer(&mut self, index: usize, me: &Owner, call: CallId, answer: &Result<Epoch, Refusal>) {
        if answer.is_ok() && !self.processes[index].member.may_decide(self.processes[index].clock) {
            self.violate("a registration was granted after the lease".to_owned());
        }
        if !self.ends_a_forward(index, call, answer) {
            return;
        }
        let Some(waiting) = self.waiting(call) else { return };
        if let Ok(epoch) = *answer
            && Some(epoch) <= self.instances[waiting].epoch
        {
            self.violate(format!(
                "process {waiting} was given an epoch that is not above its last"
            ));
        }
        let instance = &mut self.instances[waiting];
        instance.listens = match *answer {
            Ok(epoch) => {
                instance.epoch = instance.epoch.max(Some(epoch));
                Listens::To(me.clone(), epoch)
            }
            Err(Refusal::Superseded) => Listens::Stopped,
            Err(_) => Listens::Idle,
        };
    }

    /// Ends the forwarding of a call that another process answered. Returns whether the answer
    /// reaches the RM.
    fn ends_a_forward(
        &mut self,
        index: usize,
        call: CallId,
        answer: &Result<Epoch, Refusal>,
    ) -> bool {
        let (instance, _) = instance_of(call);
        let rm = self.instances[instance].rm.clone();
        let forwarder = self.processes.iter().position(|process| {
            matches!(process.member.tasks.get(&rm), Some(Task::Registering(task))
                if task.is_forwarding() && task.registration.call == call)
        });
        match forwarder {
            Some(forwarder) if forwarder != index => {
                let runs = self.processes[forwarder].runs();
                let is_not_owner = matches!(answer, Err(Refusal::NotOwner(_)));
                let ended = if is_not_owner { Forwarded::NotOwner } else { Forwarded::Answered };
                self.handle(forwarder, Event::ForwardEnded(call, rm, ended));
                runs && !is_not_owner
            }
            // Nobody waits for the answer to a member that has given up.
            _ => !matches!(answer, Err(Refusal::NotOwner(_))),
        }
    }

    fn forward(&mut self, index: usize, call: CallId, rm: &RmId, to: &Owner) {
        let Some(Task::Registering(task)) = self.processes[index].member.tasks.get(rm) else {
            return;
        };
        debug_assert_eq!(task.registration.call, call);
        let mut registration = task.registration.clone();
        registration.is_forwarded = true;
        let target = self.processes.iter().position(|process| process.member.me() == to);
        if let Some(to) = target {
            self.send(Mail { registration, to });
        }
    }

    fn session_ended(
        &mut self,
        index: usize,
        me: &Owner,
        rm: &RmId,
        epoch: Epoch,
        reason: &EndReason,
    ) {
        let hands_over =
            matches!(self.processes[index].member.tasks.get(rm), Some(Task::HandOver(_)));
        if let EndReason::Moved(_) = reason
            && !hands_over
            && self.restored_at.is_none()
            && self.store.claim(rm).is_none_or(|claim| claim.epoch <= epoch)
        {
            self.violate(format!("the session of {rm:?} ended without a newer claim"));
        }
        for instance in &mut self.instances {
            if instance.rm == *rm && instance.listens == Listens::To(me.clone(), epoch) {
                instance.listens = Listens::Idle;
            }
        }
    }

    /// The arbiter carries out a request. Claims that are written are judged.
    pub(super) fn ask_store(&mut self, request: &Request) -> Reply {
        let reply = self.store.carry_out(self.now, request);
        if let Reply::Won(..) = reply
            && let Request::CompareAndSet {
                key: Key::Claim(rm), record: Record::Claim(claim), ..
            } = request
        {
            self.judge_claim(rm, claim);
        }
        if self.store.all.era.is_some() {
            self.accepted_at.get_or_insert(self.now);
        }
        reply
    }

    fn judge_claim(&mut self, rm: &RmId, claim: &Claim) {
        let last = self.epochs.get(rm).copied().unwrap_or_default();
        // Registrations that began before the acceptance was known may be given epochs again.
        let is_accepted = self.restored_at.is_none()
            || self.accepted_at.is_some_and(|at| claim.since_ms > at + LEASE);
        // A wish or a deregistration keeps the epoch that the restored store has.
        let keeps_epoch = claim.wanted_by.is_some() || claim.owner.is_none();
        if claim.epoch < last && is_accepted && !keeps_epoch {
            self.violate(format!("the epoch of {rm:?} went back from {last} to {}", claim.epoch));
        }
        if claim.epoch > last {
            self.epochs.insert(rm.clone(), claim.epoch);
        }
        let index = usize::from(claim.holder.proof.expect("all have one").0[0]) - 1;
        let attempt = usize::try_from(claim.holder.attempt).unwrap();
        let shown = self.instances[index].shown[attempt - 1];
        let is_registration = claim.epoch > last && self.restored_at.is_none();
        if is_registration
            && let Some(shown) = shown
            && self.was_displaced(index, rm, shown)
        {
            self.violate(format!("process {index} of {rm:?} took its session back"));
        }
    }

    /// Whether another process of the RM has had a session after the epoch that this one shows, and
    /// this one none since.
    fn was_displaced(&self, index: usize, rm: &RmId, shown: Epoch) -> bool {
        self.instances[index].epoch == Some(shown)
            && self.instances.iter().enumerate().any(|(other, instance)| {
                other != index && instance.rm == *rm && instance.epoch > Some(shown)
            })
    }

    /// First property that the state itself violates.
    pub(super) fn violated(&self, has_standing_writes: bool) -> Option<String> {
        self.violation.clone().or_else(|| {
            let is_unnoticed = self.restored_at.is_some_and(|at| self.now <= at + LEASE);
            if is_unnoticed { None } else { self.two_owners(has_standing_writes) }
                .or_else(|| self.stale_session())
        })
    }

    /// Whether the process decides for an RM, and which epoch: it has the session, and looks at the
    /// clock first.
    pub(super) fn decides(
        &self,
        index: usize,
        rm: &RmId,
        has_standing_writes: bool,
    ) -> Option<Epoch> {
        let process = &self.processes[index];
        let looked = match process.running {
            Running::Dead => return None,
            Running::Yes => false,
            Running::Frozen { looked } => looked && has_standing_writes,
        };
        let session = process.member.sessions().get(rm)?;
        (looked || process.member.may_decide(process.clock)).then_some(session.epoch)
    }

    fn two_owners(&self, has_standing_writes: bool) -> Option<String> {
        let listened = |index: usize, rm: &RmId| {
            let epoch = self.decides(index, rm, has_standing_writes)?;
            let me = self.processes[index].member.me();
            self.instances
                .iter()
                .any(|instance| {
                    instance.rm == *rm && instance.listens == Listens::To(me.clone(), epoch)
                })
                .then_some(index)
        };
        for instance in &self.instances {
            let rm = &instance.rm;
            let owners: Vec<_> =
                (0..self.processes.len()).filter_map(|index| listened(index, rm)).collect();
            if owners.len() > 1 {
                return Some(format!("processes {owners:?} both decide for {rm:?}"));
            }
        }
        None
    }

    /// A session that is kept for more than a lease after its RM went to another member.
    fn stale_session(&self) -> Option<String> {
        for (index, process) in self.processes.iter().enumerate() {
            for (rm, session) in process.member.sessions() {
                let Some(claim) = self.store.claim(rm) else { continue };
                if self.decides(index, rm, false).is_some()
                    && claim.owner.as_ref() != Some(process.member.me())
                    && claim.epoch > session.epoch
                    && self.now > self.store.changed_at[rm] + process.member.timing.lease()
                {
                    return Some(format!("process {index} still serves {rm:?}, which moved"));
                }
            }
        }
        None
    }
}
