//! State of the model: the arbiter's store, the processes of members, the processes of RMs, and
//! the messages on their way between them.

use std::collections::BTreeMap;

use super::{Bounds, Kind};
use crate::arbiter::{Reply, Request, Snapshot};
use crate::member::{Member, Operation};
use crate::names::{Epoch, Incarnation, MemberId, Owner, ProofHash, RmId, Version};
use crate::records::{Claim, Details, Holder, Key, Record, Versioned};
use crate::rules::Rule;
use crate::timing::Timing;
use crate::verdict::{CallId, Registration};

/// Lease of the model, in ticks. A member decides for one tick less, by which clocks may
/// differ.
pub(super) const LEASE: u64 = 3;

/// The arbiter: it carries out one request at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Store {
    pub(super) all: Snapshot,
    /// When each claim last changed its epoch, in ticks.
    pub(super) changed_at: BTreeMap<RmId, u64>,
}

impl Store {
    fn current(&self, key: &Key) -> Option<Versioned<Record>> {
        match key {
            Key::Member(id) => self.all.members.get(id).map(|found| Versioned {
                version: found.version,
                value: Record::Member(found.value.clone()),
            }),
            Key::Claim(rm) => self.all.claims.get(rm).map(|found| Versioned {
                version: found.version,
                value: Record::Claim(found.value.clone()),
            }),
            Key::Era => self
                .all
                .era
                .as_ref()
                .map(|found| Versioned { version: found.version, value: Record::Era(found.value) }),
            // No member's state machine reads configurations.
            Key::Group(_) => None,
        }
    }

    /// Carries out a request. Versions count the writes of a record, and the revision those of
    /// claims: the less it grows, the harder a restore is to notice.
    pub(super) fn carry_out(&mut self, now: u64, request: &Request) -> Reply {
        let revision = self.all.revision;
        let (key, expected, record) = match request {
            Request::Read(key) => return Reply::Read(self.current(key), revision),
            Request::ReadAll => return Reply::All(self.all.clone()),
            Request::CompareAndSet { key, expected, record } => (key, expected, record),
        };
        let current = self.current(key);
        let found = current.as_ref().map(|found| found.version);
        if found != *expected {
            return Reply::Lost(current, revision);
        }
        let version = Version(found.map_or(1, |version| version.0 + 1));
        match (key, record) {
            (Key::Member(id), Record::Member(value)) => {
                let value = value.clone();
                self.all.members.insert(id.clone(), Versioned { version, value });
            }
            (Key::Claim(rm), Record::Claim(value)) => {
                self.all.revision.0 += 1;
                let value = value.clone();
                let last = self.all.claims.insert(rm.clone(), Versioned { version, value });
                let claim = &self.all.claims[rm].value;
                if last.is_none_or(|last| last.value.epoch != claim.epoch) {
                    self.changed_at.insert(rm.clone(), now);
                }
            }
            (Key::Era, Record::Era(value)) => {
                self.all.revision.0 += 1;
                self.all.era = Some(Versioned { version, value: *value });
            }
            _ => unreachable!("a record of another kind than its key"),
        }
        Reply::Won(version, self.all.revision)
    }

    pub(super) fn claim(&self, rm: &RmId) -> Option<&Claim> {
        self.all.claims.get(rm).map(|found| &found.value)
    }
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Running {
    Yes,
    /// Stands still. `looked`: it last looked at the clock when it might decide.
    Frozen {
        looked: bool,
    },
    Dead,
}

/// A process of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) member: Member,
    pub(super) running: Running,
    /// Whether requests to the arbiter take their time. Else renewals are carried out at once.
    pub(super) is_slow: bool,
    /// Whether an operator drains it.
    pub(super) is_drained: bool,
    /// The process's own clock, in ticks.
    pub(super) clock: u64,
    /// Requests that the arbiter has not carried out yet.
    pub(super) open: BTreeMap<Operation, Request>,
    /// Replies on their way back.
    pub(super) replies: BTreeMap<Operation, Reply>,
}

/// State of an RM's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Listens {
    Idle,
    /// To the answer of this attempt.
    Waiting(u64),
    To(Owner, Epoch),
    /// Another process came after it, so it stops.
    Stopped,
}

/// A process of an RM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Instance {
    pub(super) rm: RmId,
    pub(super) listens: Listens,
    /// Epoch that each attempt shows, by its number less one.
    pub(super) shown: Vec<Option<Epoch>>,
    /// Largest epoch of a session.
    pub(super) epoch: Option<Epoch>,
    /// Registrations left.
    pub(super) knocks: u8,
}

/// A registration on its way to a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mail {
    pub(super) registration: Registration,
    /// Index of the process.
    pub(super) to: usize,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) now: u64,
    pub(super) store: Store,
    /// Store that a restore brings back.
    pub(super) backup: Option<Box<Store>>,
    pub(super) restored_at: Option<u64>,
    pub(super) accepted_at: Option<u64>,
    pub(super) processes: Vec<Process>,
    pub(super) instances: Vec<Instance>,
    pub(super) mail: Vec<Mail>,
    /// Requests whose sender no longer waits for them. They may still be carried out.
    pub(super) ghosts: Vec<Request>,
    /// Incarnations so far.
    pub(super) incarnations: u128,
    /// Faults left of all kinds, and ticks left in which one clock differs.
    pub(super) faults: u8,
    pub(super) drifts: u8,
    /// Largest epoch ever written for an RM.
    pub(super) epochs: BTreeMap<RmId, Epoch>,
    /// First violation of a property by a transition.
    pub(super) violation: Option<String>,
}

pub(super) fn rm(index: usize) -> RmId {
    RmId(["rm-0", "rm-1"][index].into())
}

/// Number of a call: the instance and its attempt.
pub(super) fn call(instance: usize, attempt: u64) -> CallId {
    CallId(u64::try_from(instance).unwrap() * 100 + attempt)
}

pub(super) fn instance_of(call: CallId) -> (usize, u64) {
    (usize::try_from(call.0 / 100).unwrap(), call.0 % 100)
}

impl Process {
    pub(super) fn new(owner: Owner, left_out: Option<Rule>) -> Self {
        let timing = Timing::of_ticks(LEASE, LEASE - 1, 1);
        let mut member = Member::new(owner, Details::default(), timing);
        member.rules.left_out = left_out;
        Self {
            member,
            running: Running::Yes,
            is_slow: false,
            is_drained: false,
            clock: 0,
            open: BTreeMap::new(),
            replies: BTreeMap::new(),
        }
    }

    pub(super) fn runs(&self) -> bool {
        self.running == Running::Yes
    }
}

impl World {
    /// Members that have joined, and the first instance of each RM, which is served.
    pub(super) fn new(bounds: &Bounds, left_out: Option<Rule>) -> Self {
        let mut world = Self {
            now: 0,
            store: Store::default(),
            backup: None,
            restored_at: None,
            accepted_at: None,
            processes: Vec::new(),
            instances: Vec::new(),
            mail: Vec::new(),
            ghosts: Vec::new(),
            incarnations: 0,
            faults: 0,
            drifts: 0,
            epochs: BTreeMap::new(),
            violation: None,
        };
        for member in ["a", "b", "c"].iter().take(bounds.members) {
            let owner = world.next_owner(&MemberId((*member).into()));
            world.processes.push(Process::new(owner, left_out));
        }
        let lease = LEASE + bounds.longer;
        world.processes[0].member.timing = Timing::of_ticks(lease, lease - 1, 1);
        world.tick(None);
        for (index, knocks) in bounds.knocks.iter().enumerate() {
            let instance = Instance {
                rm: rm(index / 2),
                listens: Listens::Idle,
                shown: Vec::new(),
                epoch: None,
                knocks: knocks + 1,
            };
            world.instances.push(instance);
            if index % 2 == 0 {
                world.knock(index, index / 2);
                world.settle(true);
            } else {
                world.instances[index].knocks -= 1;
            }
        }
        if bounds.has(Kind::Restores) {
            world.backup = Some(Box::new(world.store.clone()));
        }
        world.faults = bounds.faults;
        world.drifts = bounds.drifts;
        world
    }

    pub(super) fn next_owner(&mut self, member: &MemberId) -> Owner {
        self.incarnations += 1;
        Owner { member: member.clone(), incarnation: Incarnation(self.incarnations) }
    }

    /// An instance drops its session and registers at a process.
    pub(super) fn knock(&mut self, index: usize, to: usize) {
        let instance = &mut self.instances[index];
        instance.knocks = instance.knocks.saturating_sub(1);
        instance.shown.push(instance.epoch);
        let attempt = u64::try_from(instance.shown.len()).unwrap();
        instance.listens = Listens::Waiting(attempt);
        let proof = u8::try_from(index).unwrap() + 1;
        let holder = Holder {
            caller: "rm".into(),
            instance: ["0", "1", "2", "3", "4", "5"][index].into(),
            policy_group: "default".into(),
            proof: Some(ProofHash([proof; 32])),
            attempt,
        };
        let registration = Registration {
            call: call(index, attempt),
            rm: instance.rm.clone(),
            holder,
            shown_epoch: instance.epoch,
            is_forwarded: false,
            since_ms: self.restored_at.map_or(0, |_| self.now),
        };
        self.send(Mail { registration, to });
    }

    /// Puts a registration on its way. The order of mails is that of their calls, since it means
    /// nothing.
    pub(super) fn send(&mut self, mail: Mail) {
        self.mail.push(mail);
        self.mail.sort_by_key(|mail| (mail.registration.call, mail.to));
    }

    /// Leaves a request to itself: it may be carried out later or never. Reads are forgotten.
    pub(super) fn abandon(&mut self, request: Request) {
        if let Request::CompareAndSet { .. } = request {
            self.ghosts.push(request);
        }
    }

    /// Brings back the backup.
    pub(super) fn restore(&mut self) {
        if let Some(backup) = self.backup.take() {
            self.store = *backup;
            self.restored_at = Some(self.now);
            self.ghosts.clear();
        }
    }
}
