//! For which requests more machines would help: told to the RM, and to whoever asks (applications
//! chapter, 3.8).
//!
//! # When it is looked at
//! An offer that comes home in vain while something waits arms a deadline of a second, unless one
//! is armed: so the RM is told once a second at most, and an idle partition does nothing. While the
//! partition is on hold nobody is told: what waits then does not wait for machines.
//!
//! # How
//! One step of three walks: the queues say what they have left, the applications that wait below
//! them what they wait for, class by class, and what the limits of their users and groups leave; [`scale_up::wanted`] decides; the applications it names
//! say which of their asks these are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::decide::scale_up::{self, QueueRoom};
use monoceros_rules::order::keys::QueueKey;
use monoceros_rules::values::resources::Limits;

use super::{Partition, Task, reads};
use crate::step::{Alarm, Baton, Purpose, QueueSlot, Walk};

/// How long after an offer in vain the RM is told, and how often at most (0.1).
const SIGNAL_INTERVAL: Duration = Duration::from_secs(1);

/// What a queue says of itself for this.
pub(crate) struct Room {
    pub(crate) parent: Option<QueueSlot>,
    pub(crate) key: QueueKey,
    pub(crate) left: Limits,
    /// Something is pending in this leaf.
    pub(crate) is_waiting: bool,
    /// One more application may run here.
    pub(crate) may_start: bool,
}

/// Whether the RM will be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Signal {
    #[default]
    Idle,
    /// When the deadline is over.
    Armed,
}

/// Whom it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// The RM's callback; each request once.
    Rm,
    /// Whoever asked, at most so many requests.
    Reader(usize),
}

impl Partition {
    /// An offer came home in vain.
    pub(super) fn arm_scale_up(&mut self, baton: &mut Baton) {
        if baton.offer.waiting && self.scale_up == Signal::Idle {
            self.scale_up = Signal::Armed;
            baton.alarms.push((SIGNAL_INTERVAL, Alarm::ScaleUp));
        }
    }

    /// The deadline is over.
    pub(super) fn signal_scale_up(&mut self, baton: &mut Baton) {
        self.scale_up = Signal::Idle;
        if self.decides() {
            self.begin_scale_up(Audience::Rm, baton);
        }
    }

    pub(super) fn begin_scale_up(&mut self, audience: Audience, baton: &mut Baton) {
        let queues = reads::queues(baton);
        baton.walk = Walk { purpose: Purpose::Room, queues, ..Walk::default() };
        self.agenda.push_back(Task::Walk);
        self.agenda.push_back(Task::AskWaiting(audience));
    }

    /// The queues have said what they have left: what do applications wait for?
    pub(super) fn ask_waiting(&mut self, audience: Audience, baton: &mut Baton) {
        baton.walk.purpose = Purpose::Waiting;
        let entries = baton.directory.applications.values();
        let rooms = &baton.walk.rooms;
        let waits = |leaf| rooms.get(leaf).is_some_and(|room: &Room| room.is_waiting);
        let waiting = entries.filter(|entry| waits(&entry.leaf));
        baton.walk.applications = waiting.map(|entry| Arc::clone(&entry.address)).collect();
        self.agenda.push_front(Task::DecideWanted(audience));
        self.agenda.push_front(Task::Walk);
    }

    /// Everything is known: who is to say which of its asks would run on more machines?
    pub(super) fn decide_wanted(&mut self, audience: Audience, baton: &mut Baton) {
        let rooms = std::mem::take(&mut baton.walk.rooms);
        let places: BTreeMap<QueueSlot, usize> = rooms.keys().copied().zip(0..).collect();
        let room = |room: Room| QueueRoom {
            parent: room.parent.and_then(|parent| places.get(&parent).copied()),
            key: room.key,
            left: room.left,
        };
        let mut waiting = std::mem::take(&mut baton.walk.waiting);
        for (leaf, application) in &mut waiting {
            application.leaf = places[leaf];
        }
        let waiting = waiting.into_iter().map(|(_, application)| application).collect();
        let limits = std::mem::take(&mut baton.walk.limits);
        let wanted = scale_up::wanted(rooms.into_values().map(room).collect(), limits, waiting);
        baton.walk.purpose = match audience {
            Audience::Rm => Purpose::Signal,
            Audience::Reader(limit) => {
                baton.walk.outstanding_limit = limit;
                Purpose::Outstanding
            }
        };
        let mut in_order = Vec::new();
        for wanted in wanted {
            let of_one = baton.walk.wanted.entry(wanted.application).or_default();
            if of_one.is_empty() {
                in_order.push(wanted.application);
            }
            of_one.push((wanted.class, wanted.count));
        }
        // The last is visited first.
        let slots = in_order.into_iter().rev();
        let entries = slots.filter_map(|slot| baton.directory.application(slot));
        baton.walk.applications = entries.map(|entry| Arc::clone(&entry.address)).collect();
        self.agenda.push_front(Task::Walk);
    }
}

impl Walk {
    /// Whether every queue from this one up to root has room for one more running application.
    pub(crate) fn may_start(&self, leaf: QueueSlot) -> bool {
        let mut at = Some(leaf);
        while let Some(room) = at.and_then(|slot| self.rooms.get(&slot)) {
            if !room.may_start {
                return false;
            }
            at = room.parent;
        }
        true
    }
}
