//! Steps of the model: those that are possible in a state, and how each changes it.

use super::world::{Listens, Mail, Process, Running, World, instance_of};
use super::{Bounds, Kind};
use crate::arbiter::Reply;
use crate::member::{Event, Forwarded, Operation, Status};
use crate::names::{Epoch, Owner, RmId};
use crate::records::Details;
use crate::tasks::Task;

/// One step of the model. Processes, instances and mails are named by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Time passes everywhere. The clock of one process may go on by none or two instead of one.
    Tick(Option<(usize, u64)>),
    /// The arbiter carries out a request, and the reply arrives.
    Step(usize, Operation),
    /// The arbiter carries out a request, and the reply is on its way.
    CarryOut(usize, Operation),
    /// A reply that was on its way arrives.
    Receive(usize, Operation),
    /// The arbiter carries out a request, and the reply is lost.
    LoseReply(usize, Operation),
    /// No reply came in time. The request is still on its way.
    TimeOut(usize, Operation),
    /// The arbiter carries out a request that nobody waits for any more.
    Ghost(usize),
    /// A registration arrives.
    Arrive(usize),
    /// A registration arrives, and will once more.
    ArriveTwice(usize),
    /// A forwarded registration was not answered in time.
    ForwardTimeOut(usize, RmId),
    /// A member notices that the client of a registration has given up.
    Abandon(usize, RmId),
    /// An RM's process leaves its session, if any, and registers at a member.
    Knock(usize, usize),
    Freeze(usize),
    Thaw(usize),
    /// Requests of a process to the arbiter begin to take their time.
    Slow(usize),
    Mend(usize),
    Crash(usize),
    Restart(usize),
    /// Another process is started with the id of a process.
    Twin(usize),
    HandOver(usize, RmId, usize),
    /// A member takes no RMs any more, and hands over those that it has.
    Drain(usize),
    Deregister(usize),
    /// A member frees the claim of an RM that names it and has no session there.
    Free(usize, RmId),
    /// A member ends. Its RMs go to the next process, or to nobody.
    Leave(usize, bool),
    Restore,
    Accept(usize),
}

impl World {
    /// All steps that are possible within the bounds.
    pub(super) fn actions(&self, bounds: &Bounds) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.now < bounds.ticks {
            actions.push(Action::Tick(None));
            if self.drifts > 0 {
                for index in 0..self.processes.len() {
                    actions.push(Action::Tick(Some((index, 0))));
                    actions.push(Action::Tick(Some((index, 2))));
                }
            }
        }
        for (index, process) in self.processes.iter().enumerate() {
            self.process_actions(bounds, index, process, &mut actions);
        }
        for index in 0..self.ghosts.len() {
            actions.push(Action::Ghost(index));
        }
        for (index, mail) in self.mail.iter().enumerate() {
            if self.processes[mail.to].runs() {
                actions.push(Action::Arrive(index));
                if self.may_fail(bounds) {
                    actions.push(Action::ArriveTwice(index));
                }
            }
        }
        for (index, instance) in self.instances.iter().enumerate() {
            if instance.knocks > 0 && instance.listens != Listens::Stopped {
                for to in 0..self.processes.len() {
                    if self.processes[to].running != Running::Dead {
                        actions.push(Action::Knock(index, to));
                    }
                }
            }
            if let Listens::To(..) = instance.listens
                && self.faults > 0
                && bounds.has(Kind::Orders)
            {
                actions.push(Action::Deregister(index));
            }
        }
        if self.backup.is_some() && bounds.has(Kind::Restores) {
            actions.push(Action::Restore);
        }
        actions
    }

    fn process_actions(
        &self,
        bounds: &Bounds,
        index: usize,
        process: &Process,
        actions: &mut Vec<Action>,
    ) {
        match process.running {
            Running::Dead => return actions.push(Action::Restart(index)),
            Running::Frozen { .. } => actions.push(Action::Thaw(index)),
            Running::Yes => {}
        }
        let may_fail = self.may_fail(bounds);
        for operation in process.open.keys() {
            if process.runs() {
                actions.push(Action::Step(index, operation.clone()));
            }
            if may_fail || process.is_slow || !process.runs() {
                actions.push(Action::CarryOut(index, operation.clone()));
            }
            if may_fail && process.runs() {
                actions.push(Action::LoseReply(index, operation.clone()));
                actions.push(Action::TimeOut(index, operation.clone()));
            }
        }
        if process.runs() {
            for operation in process.replies.keys() {
                actions.push(Action::Receive(index, operation.clone()));
            }
            for (rm, task) in &process.member.tasks {
                let Task::Registering(task) = task else { continue };
                if task.is_forwarding() {
                    actions.push(Action::ForwardTimeOut(index, rm.clone()));
                }
                let is_awaited = self.waiting(task.registration.call).is_some();
                if bounds.has(Kind::Abandons) && !task.is_abandoned && !is_awaited {
                    actions.push(Action::Abandon(index, rm.clone()));
                }
            }
            if process.is_slow {
                actions.push(Action::Mend(index));
            }
            if bounds.has(Kind::Orders) {
                self.claims_to_free(index, process, actions);
            }
            if process.member.status() == Status::Restored
                && process.member.acceptance.is_none()
                && self.is_to_be_accepted()
            {
                actions.push(Action::Accept(index));
            }
        }
        if self.faults > 0 {
            self.faults_of(bounds, index, process, actions);
        }
    }

    /// Claims that name a process and have no task there. A session makes the member ignore the
    /// step, which leads to no other state then.
    fn claims_to_free(&self, index: usize, process: &Process, actions: &mut Vec<Action>) {
        for (rm, claim) in &self.store.all.claims {
            let is_own = claim.value.owner.as_ref() == Some(process.member.me());
            if is_own && !process.member.tasks.contains_key(rm) {
                actions.push(Action::Free(index, rm.clone()));
            }
        }
    }

    /// Whether faults other than a slow line may follow.
    fn may_fail(&self, bounds: &Bounds) -> bool {
        self.faults > 0 && !bounds.has(Kind::OnlySlowLines)
    }

    fn faults_of(
        &self,
        bounds: &Bounds,
        index: usize,
        process: &Process,
        actions: &mut Vec<Action>,
    ) {
        if process.runs() {
            if self.may_fail(bounds) {
                actions.push(Action::Freeze(index));
            }
            if !process.is_slow {
                actions.push(Action::Slow(index));
            }
        }
        if bounds.has(Kind::Crashes) {
            actions.push(Action::Crash(index));
        }
        if bounds.has(Kind::Twins) && self.processes.len() == bounds.members {
            actions.push(Action::Twin(index));
        }
        if bounds.has(Kind::Drains)
            && process.runs()
            && !process.is_drained
            && self.next_taker(index).is_some()
        {
            actions.push(Action::Drain(index));
        }
        if bounds.has(Kind::Orders) && process.runs() {
            for rm in process.member.sessions().keys() {
                for to in 0..self.processes.len() {
                    if to != index && !self.processes[to].is_drained {
                        actions.push(Action::HandOver(index, rm.clone(), to));
                    }
                }
            }
            actions.push(Action::Leave(index, true));
            actions.push(Action::Leave(index, false));
        }
    }

    /// Whether the operator has not accepted the restore yet.
    fn is_to_be_accepted(&self) -> bool {
        self.restored_at.is_some() && self.store.all.era.is_none()
    }

    /// Carries out one step.
    pub(super) fn act(&mut self, bounds: &Bounds, action: &Action) {
        match action {
            Action::Tick(drift) => {
                self.drifts -= u8::from(drift.is_some());
                self.tick(*drift);
                if bounds.has(Kind::StoppedClocks) {
                    self.stop_frozen_clocks();
                }
            }
            Action::Step(index, operation) => self.step(*index, operation),
            Action::CarryOut(index, operation) => {
                let process = &self.processes[*index];
                self.faults -= u8::from(!process.is_slow && process.runs());
                self.carry_out(*index, operation);
            }
            Action::Receive(index, operation) => {
                let reply = self.processes[*index].replies.remove(operation).unwrap();
                self.handle(*index, Event::Reply(operation.clone(), reply));
            }
            Action::LoseReply(index, operation) => {
                self.faults -= 1;
                self.carry_out(*index, operation);
                self.processes[*index].replies.remove(operation);
                self.handle(*index, Event::Reply(operation.clone(), Reply::Unknown));
            }
            Action::TimeOut(index, operation) => {
                self.faults -= 1;
                let request = self.processes[*index].open.remove(operation).unwrap();
                self.abandon(request);
                self.handle(*index, Event::Reply(operation.clone(), Reply::Unknown));
            }
            Action::Ghost(index) => {
                let request = self.ghosts.remove(*index);
                self.ask_store(&request);
            }
            Action::Arrive(index) => {
                let mail = self.mail.remove(*index);
                self.arrive(mail);
            }
            Action::ArriveTwice(index) => {
                self.faults -= 1;
                let mail = self.mail[*index].clone();
                self.arrive(mail);
            }
            Action::ForwardTimeOut(index, rm) => {
                if let Some(Task::Registering(task)) = self.processes[*index].member.tasks.get(rm) {
                    let call = task.registration.call;
                    let event = Event::ForwardEnded(call, rm.clone(), Forwarded::NoAnswer);
                    self.handle(*index, event);
                }
            }
            Action::Abandon(index, rm) => {
                if let Some(Task::Registering(task)) = self.processes[*index].member.tasks.get(rm) {
                    let call = task.registration.call;
                    self.handle(*index, Event::Abandoned(call, rm.clone()));
                }
            }
            Action::Knock(index, to) => self.knock(*index, *to),
            other => self.act_on_process(other),
        }
    }

    fn act_on_process(&mut self, action: &Action) {
        if !matches!(
            action,
            Action::Thaw(_)
                | Action::Mend(_)
                | Action::Restart(_)
                | Action::Free(..)
                | Action::Restore
                | Action::Accept(_)
        ) {
            self.faults -= 1;
        }
        match action {
            Action::Freeze(index) => {
                let process = &mut self.processes[*index];
                let looked = process.member.may_decide(process.clock);
                process.running = Running::Frozen { looked };
            }
            Action::Thaw(index) => self.processes[*index].running = Running::Yes,
            Action::Slow(index) => self.processes[*index].is_slow = true,
            Action::Mend(index) => {
                self.processes[*index].is_slow = false;
                self.renew(*index);
            }
            Action::Crash(index) => self.crash(*index),
            Action::Restart(index) => self.restart(*index),
            Action::Twin(index) => {
                let me = self.processes[*index].member.me().clone();
                let left_out = self.processes[*index].member.rules.left_out;
                let owner = self.next_owner(&me.member);
                let mut twin = Process::new(owner, left_out);
                twin.clock = self.processes[*index].clock;
                self.processes.push(twin);
            }
            Action::HandOver(index, rm, to) => {
                let target = self.processes[*to].member.me().clone();
                self.handle(*index, Event::HandOver(rm.clone(), target));
            }
            Action::Drain(index) => {
                let process = &mut self.processes[*index];
                process.is_drained = true;
                process.member.set_details(Details { draining: true, ..Details::default() });
                self.hand_over_all(*index);
            }
            Action::Deregister(index) => self.deregister(*index),
            Action::Free(index, rm) => {
                let epoch = self.store.claim(rm).map(|claim| claim.epoch).unwrap_or_default();
                self.handle(*index, Event::Free(rm.clone(), epoch));
            }
            Action::Leave(index, false) => {
                self.handle(*index, Event::Leave(std::collections::BTreeMap::new()));
            }
            Action::Leave(index, true) => {
                let to = self.next_taker(*index);
                let sessions = self.processes[*index].member.sessions();
                let targets = sessions.keys().map(|rm| Some((rm.clone(), to.clone()?)));
                self.handle(*index, Event::Leave(targets.flatten().collect()));
            }
            Action::Restore => self.restore(),
            Action::Accept(index) => {
                let floor = Epoch(1000);
                self.handle(*index, Event::AcceptRestore { floor });
            }
            _ => unreachable!("handled before"),
        }
    }

    /// The next process after this one that is not drained.
    fn next_taker(&self, index: usize) -> Option<Owner> {
        let n = self.processes.len();
        let mut others = (1..n).map(|distance| &self.processes[(index + distance) % n]);
        others.find(|process| !process.is_drained).map(|process| process.member.me().clone())
    }

    /// Hands over the RMs of a drained member. Some may have been claimed for registrations that
    /// were on their way.
    fn hand_over_all(&mut self, index: usize) {
        let sessions = self.processes[index].member.sessions().keys();
        for rm in sessions.cloned().collect::<Vec<_>>() {
            if let Some(to) = self.next_taker(index) {
                self.handle(index, Event::HandOver(rm, to));
            }
        }
    }

    /// A registration arrives. A drained member refuses it, as the service does, unless another
    /// member takes it for the owner.
    fn arrive(&mut self, mail: Mail) {
        if self.processes[mail.to].is_drained && !mail.registration.is_forwarded {
            if let Some(waiting) = self.waiting(mail.registration.call) {
                self.instances[waiting].listens = Listens::Idle;
            }
            return;
        }
        self.handle(mail.to, Event::Register(mail.registration));
    }

    fn crash(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.running = Running::Dead;
        process.replies.clear();
        let me = process.member.me().clone();
        for request in std::mem::take(&mut process.open).into_values() {
            self.abandon(request);
        }
        for instance in &mut self.instances {
            if matches!(&instance.listens, Listens::To(owner, _) if *owner == me) {
                instance.listens = Listens::Idle;
            }
        }
    }

    pub(super) fn restart(&mut self, index: usize) {
        let old = &self.processes[index];
        let (left_out, clock) = (old.member.rules.left_out, old.clock);
        let (member, timing) = (old.member.me().member.clone(), old.member.timing);
        let owner = self.next_owner(&member);
        self.processes[index] = Process::new(owner, left_out);
        self.processes[index].member.timing = timing;
        self.processes[index].clock = clock;
    }

    fn deregister(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        let Listens::To(owner, epoch) = std::mem::replace(&mut instance.listens, Listens::Idle)
        else {
            return;
        };
        let rm = instance.rm.clone();
        let at = self.processes.iter().position(|process| *process.member.me() == owner);
        if let Some(at) = at.filter(|at| self.processes[*at].runs()) {
            self.handle(at, Event::Deregister(rm, epoch));
        }
    }

    /// Time passes: every process that runs is woken, and renews unless it is slow.
    pub(super) fn tick(&mut self, drift: Option<(usize, u64)>) {
        self.now += 1;
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            process.clock += match drift {
                Some((drifting, by)) if drifting == index => by,
                _ => 1,
            };
            if process.runs() {
                self.handle(index, Event::Wake { front_answers: true });
                if !self.processes[index].is_slow {
                    self.renew(index);
                }
                if self.processes[index].is_drained {
                    self.hand_over_all(index);
                }
            }
        }
    }

    /// Takes the last tick back from the clocks of processes that stand still.
    fn stop_frozen_clocks(&mut self) {
        for process in &mut self.processes {
            process.clock -= u64::from(matches!(process.running, Running::Frozen { .. }));
        }
    }

    /// Carries out the requests of a process about its own record.
    fn renew(&mut self, index: usize) {
        while self.processes[index].open.contains_key(&Operation::Renewal) {
            self.step(index, &Operation::Renewal);
        }
    }

    pub(super) fn carry_out(&mut self, index: usize, operation: &Operation) {
        let request = self.processes[index].open.remove(operation).unwrap();
        let reply = self.ask_store(&request);
        self.processes[index].replies.insert(operation.clone(), reply);
    }

    pub(super) fn step(&mut self, index: usize, operation: &Operation) {
        self.carry_out(index, operation);
        let reply = self.processes[index].replies.remove(operation).unwrap();
        self.handle(index, Event::Reply(operation.clone(), reply));
    }

    /// Carries out everything that is on its way, in order. Forwarded registrations are lost if
    /// members do not reach each other.
    pub(super) fn settle(&mut self, do_members_meet: bool) {
        loop {
            self.mail.retain(|mail| do_members_meet || !mail.registration.is_forwarded);
            let next = self.processes.iter().enumerate().find_map(|(index, process)| {
                let operation = process.open.keys().next()?;
                process.runs().then(|| (index, operation.clone()))
            });
            if let Some((index, operation)) = next {
                self.step(index, &operation);
            } else if let Some(at) =
                self.mail.iter().position(|mail| self.processes[mail.to].runs())
            {
                let mail = self.mail.remove(at);
                self.arrive(mail);
            } else {
                return;
            }
        }
    }

    /// Instance that a call belongs to, if it still waits for this attempt.
    pub(super) fn waiting(&self, call: crate::verdict::CallId) -> Option<usize> {
        let (index, attempt) = instance_of(call);
        let instance = self.instances.get(index)?;
        (instance.listens == Listens::Waiting(attempt)).then_some(index)
    }
}
