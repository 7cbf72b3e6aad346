//! A store that was restored from a backup: the member is fenced until an operator accepts it.
//!
//! # How it is noticed
//! A reply names a revision that is lower than one known when its request was sent; or the member's
//! own record is older than its last renewal, or gone; or the claim of a session is older than the
//! session. The last two signs remain when the restored store has grown past the revision that was
//! known.
//!
//! # How it is accepted
//! The operator's floor is written into the record of the era. Every member that reads it gives
//! epochs above the floor only, one lease after the acceptance at the latest, also for RMs whose
//! claims the backup does not have. A fenced member begins again.
//!
//! # Not promised
//! Until each member has noticed, at most a lease later, two members may serve one RM: the backup
//! has forgotten one of their claims. A request that was sent before and is carried out long after
//! the acceptance may find a version that was given again: time-outs have to be shorter than the
//! lease. A member that started after the restore cannot know of it.

use crate::arbiter::{Outcome, Reply, Request, Snapshot};
use crate::member::{Effect, EndReason, Member, Operation, Status};
use crate::names::{Epoch, Version};
use crate::records::{Era, Key, Record};

/// An acceptance on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Acceptance {
    /// Reads the era.
    Reading { floor: Epoch },
    /// Writes the era.
    Writing { era: Era, expected: Option<Version> },
}

impl Member {
    /// Fences the member: the store is older than the member's knowledge of it.
    pub(crate) fn store_went_back(&mut self, out: &mut Vec<Effect>) {
        self.status = Status::Restored;
        self.is_ready = false;
        self.end_all_sessions(&EndReason::Fenced, out);
        self.refuse_all_tasks(out);
        if !self.sent.contains_key(&Operation::Renewal) {
            self.round = crate::renewal::Round::Idle { begun: None, own: None };
        }
        out.push(Effect::Restored);
    }

    /// Begins to write the operator's floor. Any member may do so.
    pub(crate) fn accept_restore(&mut self, floor: Epoch, out: &mut Vec<Effect>) {
        if self.acceptance.is_none() {
            let floor = floor.max(self.known.epoch).max(self.known.floor.next());
            self.acceptance = Some(Acceptance::Reading { floor });
            self.ask(Operation::Acceptance, Request::Read(Key::Era), out);
        }
    }

    pub(crate) fn acceptance_reply(&mut self, reply: Reply, out: &mut Vec<Effect>) {
        match (self.acceptance.take(), reply) {
            (Some(Acceptance::Reading { floor }), Reply::Read(found, _)) => {
                let (expected, last) = match found {
                    Some(found) => match found.value {
                        Record::Era(era) => (Some(found.version), era.floor),
                        Record::Member(_) | Record::Claim(_) | Record::Group(_) => return,
                    },
                    None => (None, Epoch(0)),
                };
                // A floor that an earlier acceptance left is raised, so that all see a change.
                let floor = if floor > last { floor } else { last.next() };
                self.write_era(Era { floor }, expected, out);
            }
            (Some(Acceptance::Reading { floor }), _) => {
                self.acceptance = Some(Acceptance::Reading { floor });
                self.ask(Operation::Acceptance, Request::Read(Key::Era), out);
            }
            (Some(Acceptance::Writing { era, expected }), reply) => {
                match reply.outcome(&Record::Era(era)) {
                    Outcome::Unknown => self.write_era(era, expected, out),
                    // Lost: another acceptance won, with the same effect.
                    Outcome::Won(_) | Outcome::Lost(_) => {
                        out.push(Effect::AcceptanceEnded(era.floor));
                    }
                }
            }
            (None, _) => {}
        }
    }

    fn write_era(&mut self, era: Era, expected: Option<Version>, out: &mut Vec<Effect>) {
        self.acceptance = Some(Acceptance::Writing { era, expected });
        let (key, record) = (Key::Era, Record::Era(era));
        self.ask(Operation::Acceptance, Request::CompareAndSet { key, expected, record }, out);
    }

    /// Begins again if the era has a floor that was not known when the store went back.
    pub(crate) fn look_for_acceptance(&mut self, snapshot: &Snapshot, out: &mut Vec<Effect>) {
        let floor = snapshot.era.as_ref().map(|era| era.value.floor).unwrap_or_default();
        if floor > self.known.floor {
            self.known.floor = floor;
            self.known.revision = snapshot.revision;
            self.end(Effect::BeginAgain, out);
        }
    }
}
