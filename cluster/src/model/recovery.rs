//! Recovery: whether an RM is served again once faults have ended. Tried from a state by going on
//! without any.

use super::world::{Instance, Listens, Running, World, rm};
use crate::member::{Event, Forwarded, Status};
use crate::names::{Epoch, Owner, RmId};
use crate::tasks::Task;

/// Leases after which an RM has to be served: one to depose its owner, another for a process whose
/// id a predecessor had, one for an owner that hands over because another member wants the RM, and
/// as many again for coming back.
const LEASES: u64 = 6;

impl World {
    /// Says which RM is not served after faults have ended, if there is one. Members then reach the
    /// arbiter, and each other or not.
    pub(super) fn unrecovered(&self) -> Option<String> {
        let rms = self.instances.len().div_ceil(2);
        for rm in (0..rms).map(rm) {
            for do_members_meet in [true, false] {
                let mut healed = self.clone();
                healed.end_faults();
                if !healed.serves_a_newcomer(&rm, do_members_meet) {
                    let apart = if do_members_meet { "" } else { ", members apart" };
                    return Some(format!("{rm:?} is not served after all faults ended{apart}"));
                }
                if let Some(violation) = healed.violated(false) {
                    return Some(format!("after all faults ended: {violation}"));
                }
            }
        }
        None
    }

    fn end_faults(&mut self) {
        self.ghosts.clear();
        self.mail.clear();
        self.backup = None;
        for index in 0..self.processes.len() {
            match self.processes[index].running {
                Running::Dead if !self.has_twin(index) => self.restart(index),
                Running::Dead | Running::Yes => {}
                Running::Frozen { .. } => self.processes[index].running = Running::Yes,
            }
            self.processes[index].is_slow = false;
            for (operation, reply) in std::mem::take(&mut self.processes[index].replies) {
                self.handle(index, Event::Reply(operation, reply));
            }
        }
    }

    /// Whether another process has the same id.
    fn has_twin(&self, index: usize) -> bool {
        let id = &self.processes[index].member.me().member;
        let mut others = self.processes.iter().enumerate();
        others.any(|(other, process)| other != index && process.member.me().member == *id)
    }

    /// A new process of the RM registers again and again with the last member that may decide: the
    /// first ones serve when the search begins. All other processes keep still.
    fn serves_a_newcomer(&mut self, rm: &RmId, do_members_meet: bool) -> bool {
        let newcomer = self.instances.len();
        self.instances.push(Instance {
            rm: rm.clone(),
            listens: Listens::Idle,
            shown: Vec::new(),
            epoch: None,
            knocks: 0,
        });
        let leases = self.processes.iter().map(|process| process.member.timing.lease());
        for _ in 0..LEASES * leases.max().unwrap_or_default() {
            self.tick(None);
            self.go_on(do_members_meet);
            self.accept_if_restored(do_members_meet);
            if let Listens::To(owner, _) = &self.instances[newcomer].listens
                && !self.is_drained(owner)
            {
                return true;
            }
            let deciding = |process: &super::world::Process| {
                process.runs() && !process.is_drained && process.member.may_decide(process.clock)
            };
            if let Some(at) = self.processes.iter().rposition(deciding) {
                self.knock(newcomer, at);
                self.go_on(do_members_meet);
            }
        }
        false
    }

    fn is_drained(&self, owner: &Owner) -> bool {
        let mut drained = self.processes.iter().filter(|process| process.is_drained);
        drained.any(|process| process.member.me() == owner)
    }

    fn accept_if_restored(&mut self, do_members_meet: bool) {
        let waits = |process: &super::world::Process| {
            process.runs()
                && process.member.status() == Status::Restored
                && process.member.acceptance.is_none()
        };
        if self.store.all.era.is_none()
            && let Some(at) = self.processes.iter().position(waits)
        {
            self.handle(at, Event::AcceptRestore { floor: Epoch(1000) });
            self.go_on(do_members_meet);
        }
    }

    /// Carries out all requests and registrations on their way. Forwarded registrations that are not
    /// answered then time out.
    fn go_on(&mut self, do_members_meet: bool) {
        self.settle(do_members_meet);
        self.end_forwards(do_members_meet);
    }

    /// Forwarded registrations that were not answered time out.
    pub(super) fn end_forwards(&mut self, do_members_meet: bool) {
        for index in 0..self.processes.len() {
            let tasks = self.processes[index].member.tasks.iter();
            let forwarding: Vec<_> = tasks
                .filter_map(|(rm, task)| match task {
                    Task::Registering(task) if task.is_forwarding() => {
                        Some((task.registration.call, rm.clone()))
                    }
                    _ => None,
                })
                .collect();
            for (call, rm) in forwarding {
                self.handle(index, Event::ForwardEnded(call, rm, Forwarded::NoAnswer));
                self.settle(do_members_meet);
            }
        }
    }
}
