//! The part of surveys that needs private fields of a queue. The surveys themselves are in
//! `partition::surveys`, so that a new survey is a file there.

use std::sync::Arc;

use monoceros_rules::audit::QueueFact;
use monoceros_rules::decide::explain::QueueRoom;
use monoceros_rules::decide::preemption::QueueFacts as PreemptionFacts;
use monoceros_rules::limits::{LaneId, Trackers};
use monoceros_rules::nodes::NodeIndex;
use monoceros_rules::order::keys::QueueKey;
use monoceros_rules::order::ledger;
use monoceros_rules::pending::nominations::Nominations;
use monoceros_rules::queues::QueueConfig;
use monoceros_rules::values::resources::{Limits, Resources};

use super::{Queue, Rank};
use crate::events::{Event, EventKind, Message};
use crate::step::{Baton, QueueEntry, QueueSlot, RowSlot, RowUpdate};
use crate::views::rows::QueueRow;

/// The amount that a queue has left, for the scale-up signal.
pub(crate) struct Room {
    pub(crate) parent: Option<QueueSlot>,
    pub(crate) key: QueueKey,
    pub(crate) left: Limits,
    pub(crate) leave: LeaveToRun,
}

/// Whether asks are pending in a queue, and whether their applications may run, for the scale-up
/// signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaveToRun {
    /// Whether asks are pending in this leaf.
    pub(crate) is_waiting: bool,
    /// Whether the queue allows one more running application.
    pub(crate) may_start: bool,
    /// The limits of users and groups on the pending applications of this leaf.
    pub(crate) limited: LimitedUsers,
}

/// The effect of limits of users and groups on the applications of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitedUsers {
    /// No application is limited.
    None,
    /// Some applications are limited, and one more application of each user and group may run.
    MayStart,
    /// For some user or group, no further application may run.
    Full,
}

/// The limits of a queue, for an explanation.
pub(crate) struct Gate {
    pub(crate) path: Arc<str>,
    is_stopped: bool,
    max: Option<Limits>,
    used: Resources,
    running: u64,
    most_running: u64,
}

impl Gate {
    /// Whether its own maximum allows this amount in addition to usage and nominations.
    pub(crate) fn allows(&self, wanted: &Resources) -> bool {
        self.max.as_ref().is_none_or(|max| max.less(&self.used).allows(wanted))
    }

    /// Returns the queue as the rules' explanation needs it.
    pub(crate) fn room(&self) -> QueueRoom<'_> {
        QueueRoom {
            queue: &self.path,
            is_stopped: self.is_stopped,
            max: self.max.as_ref(),
            used: &self.used,
            running: self.running,
            most_running: self.most_running,
        }
    }
}

/// The settings of a queue whose change by a configuration is reported as an event.
struct Limited {
    is_leaf: bool,
    max: Option<Limits>,
    /// The maximum as it is shown.
    shown_max: Option<Limits>,
    guaranteed: Option<Resources>,
}

impl Queue {
    /// Returns the queue's slot in the directory.
    pub(crate) fn slot(&self) -> QueueSlot {
        self.facts.slot
    }

    /// Returns the queue's configuration.
    pub(crate) fn config(&self) -> &QueueConfig {
        &self.facts.config
    }

    /// Returns the slot of the parent; `None` for root.
    pub(crate) fn parent(&self) -> Option<QueueSlot> {
        self.facts.parent
    }

    /// Applies the updates of its children, and the facts that the directory has of this queue. The
    /// fair maximum is `fair_max`, which is entered in the directory, too. Returns the update for
    /// its parent.
    ///
    /// A refresh counts as a loosening, which only root notes: the survey computes every bound
    /// again on its way up, so an ask that was held back by a lower maximum is seen from root
    /// again.
    pub(crate) fn refresh(
        &mut self,
        below: Vec<RowUpdate>,
        fair_max: Option<Limits>,
        baton: &mut Baton,
    ) -> Option<RowUpdate> {
        self.rows.update_all(below, &mut baton.books.trackers);
        let slot = self.facts.slot;
        let entry = baton.directory.queue_mut(slot);
        let is_changed = !Arc::ptr_eq(&entry.facts.config, &self.facts.config);
        let quota_delay_ns = self.facts.quota_delay_ns;
        let before = Limited {
            is_leaf: self.facts.config.is_leaf,
            max: self.ledger.max.clone(),
            shown_max: self.ledger.shown_max().cloned(),
            guaranteed: self.ledger.guaranteed.clone(),
        };
        if entry.facts.fair_max != fair_max {
            // Only the directory has the changed facts until now, so this does not copy them.
            Arc::make_mut(&mut entry.facts).fair_max = fair_max;
        }
        self.facts = Arc::clone(&entry.facts);
        entry.is_stale = false;
        if is_changed {
            self.take_limits();
            let (config, used) = (&self.facts.config, self.ledger.allocated());
            baton.books.queues.configure(slot.0, config, used);
        }
        if self.is_root() {
            let capacity = baton.books.nodes.capacity().clone();
            self.ledger.capacity = ledger::stored_limits(&capacity);
            self.loosening = baton.books.loosen();
            baton.lend_again();
        }
        self.quota_reconfigured(before.max.as_ref(), quota_delay_ns, baton);
        self.tell_changes(&before, baton);
        self.parent.as_ref().map(|(_, row)| self.update(*row))
    }

    /// Checks loosened lanes again, and applies updates of children. Returns the update for its
    /// parent, if the parent sees a difference.
    pub(crate) fn look_again(
        &mut self,
        below: Vec<RowUpdate>,
        lanes: &[LaneId],
        baton: &mut Baton,
    ) -> Option<RowUpdate> {
        if lanes.is_empty() && below.is_empty() {
            return None;
        }
        let before = self.waits_from_above();
        let trackers = &mut baton.books.trackers;
        self.rows.update_all(below, trackers);
        self.rows.look_again(lanes, trackers);
        let (_, row) = self.parent.as_ref()?;
        (self.waits_from_above() != before).then(|| self.update(*row))
    }

    /// Records events of the settings that have changed.
    fn tell_changes(&self, before: &Limited, baton: &mut Baton) {
        let (config, ledger) = (&self.facts.config, &self.ledger);
        if config.is_leaf != before.is_leaf {
            let text = if config.is_leaf { "leaf queue: true" } else { "leaf queue: false" };
            let event = |at| Event::of(EventKind::QueueType, &config.path, at);
            baton.happens(|at| event(at).with_message(Message::Says(text)));
        }
        if ledger.shown_max() != before.shown_max.as_ref() {
            let max = ledger.shown_max().map(Limits::as_resources).unwrap_or_default();
            baton.happens(|at| Event::of(EventKind::QueueMax, &config.path, at).amount(&max));
        }
        if ledger.guaranteed != before.guaranteed {
            let guaranteed = ledger.guaranteed.clone().unwrap_or_default();
            let event = |at| Event::of(EventKind::QueueGuaranteed, &config.path, at);
            baton.happens(|at| event(at).amount(&guaranteed));
        }
    }

    /// Returns what the queue has left, for the scale-up signal.
    pub(crate) fn room(&self, trackers: &Trackers) -> Room {
        let (allocated, pending) = (self.ledger.allocated(), self.ledger.pending().shown());
        let left = match &self.ledger.max {
            Some(max) => max.less(allocated),
            None => Limits::unlimited(),
        };
        let lanes = self.rows.lanes();
        let limited = if lanes.is_empty() {
            LimitedUsers::None
        } else if lanes.may_start(trackers) {
            LimitedUsers::MayStart
        } else {
            LimitedUsers::Full
        };
        Room {
            parent: self.facts.parent,
            key: self.facts.key(self.priority(), allocated, pending),
            left,
            leave: LeaveToRun {
                is_waiting: self.facts.config.is_leaf && !pending.is_empty(),
                may_start: self.may_start(),
                limited,
            },
        }
    }

    /// Returns the facts for preemption. The survey adds the index of the parent.
    pub(crate) fn preemption_facts(&self, nominations: &Nominations) -> PreemptionFacts {
        let config = &self.facts.config;
        PreemptionFacts::of(&config.path, None, &self.ledger, config.settings, nominations)
    }

    /// Returns the queue's limits, for an explanation.
    pub(crate) fn gate(&self, nominations: &Nominations) -> Gate {
        let taken_off = nominations.taken_off(&self.facts.config.path);
        let capacity = self.ledger.capacity.as_ref().map(Limits::as_resources);
        let countable = capacity.map(|capacity| self.ledger.countable_max(&capacity));
        Gate {
            path: Arc::clone(&self.facts.config.path),
            is_stopped: !self.facts.state.is_scheduled(),
            max: self.ledger.max.clone().or(countable.filter(|max| !max.is_unlimited())),
            used: match taken_off {
                Some(taken_off) => self.ledger.allocated().plus(taken_off),
                None => self.ledger.allocated().clone(),
            },
            running: self.ledger.running().saturating_add(self.ledger.starting()),
            most_running: self.ledger.max_running,
        }
    }

    /// Returns the rank of a child among those with pending asks.
    pub(crate) fn rank(&self, row: RowSlot) -> Option<Rank> {
        self.rows.rank(row)
    }

    /// Returns the amount allocated below the queue.
    pub(crate) fn allocated(&self) -> &Resources {
        self.ledger.allocated()
    }

    /// Returns the facts of the queue, for an audit and for a survey of usage.
    pub(crate) fn fact(&self) -> QueueFact {
        QueueFact {
            parent: self.facts.parent.map(|parent| parent.0),
            slot: self.facts.slot.0,
            ledger: self.ledger.clone(),
            priority: self.priority(),
            config: Arc::clone(&self.facts.config),
            state: self.facts.state,
            fair_max: self.facts.fair_max.clone(),
        }
    }

    /// Returns the queue's row in a list.
    pub(crate) fn row(&self, entry: &QueueEntry, nodes: &NodeIndex) -> QueueRow {
        let left = if self.is_root() { nodes.left() } else { Limits::unlimited() };
        QueueRow {
            headroom: self.ledger.headroom(&left),
            facts: Arc::clone(&self.facts),
            ledger: self.ledger.clone(),
            used_names: self.used_names.clone(),
            priority: self.priority(),
            quota_timer: self.quota_timer.clone(),
            counts: entry.counts.clone(),
            allocating: entry.allocating.iter().cloned().collect(),
        }
    }
}
