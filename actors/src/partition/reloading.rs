//! Another configuration for a live partition: `docs/reloading.md` and
//! `docs/partitions.md#what-a-reload-changes-of-a-queue`.
//!
//! # In two parts
//! An RM's partitions change together or not at all. So each first answers whether it could change
//! (`Input::Prepare`): whether every application would still be in a leaf. Then it halts, so that
//! its answer stays true, until the RM's session concludes ([`Conclude`]). That takes a message or
//! two on the front thread.
//!
//! # In one step
//! The change itself is one step, and no offer sees half of it. The directory is changed at once,
//! empty queues that are no longer configured are removed, new ones are added, and a survey from
//! the leaves to root gives the queues their settings and computes keys and bounds again: it visits
//! the changed queues and those above them. It counts as a loosening, because a maximum may have
//! risen: asks that were tried without result are tried again once, as far as they fit.
//!
//! # Invariants
//! * Nothing here can fail once the partition was prepared.
//! * No application is moved, failed or stopped, and no allocation is taken from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_config::difference::Concerned;
use monoceros_config::reload::{self, QueueChange, StandingQueue, Tree, TypeInUse};
use monoceros_rules::limits::{LimitEvent, Subject};
use monoceros_rules::queues::object_state::ObjectState;
use tokio::time::Instant;

use super::Task;
use super::input::{Conclude, PartitionDocument};
use super::queue_lifecycle::removal_if_over;
use super::surveys::{Dismiss, InUse, Refresh};
use super::{Partition, Proposal};
use crate::api::predicates::QuestionId;
use crate::events::{Event, EventKind};
use crate::mailbox::Receive;
use crate::queue::{QueueFacts, quota_delay_ns};
use crate::step::{Baton, Directory, Notice, Prepared, QueueEntry, QueueSlot};

/// Most queues whose usage is read before a change: each costs the partition a moment.
const MOST_CONCERNED: usize = 500;

impl Partition {
    pub(super) fn prepare(&mut self, wanted: Option<PartitionDocument>, baton: &Baton) {
        let since = Instant::now();
        let tree = standing(&baton.directory);
        let changes =
            wanted.as_ref().map(|it| reload::changes(&tree, &it.queues)).unwrap_or_default();
        match could(&tree, &changes, &baton.directory) {
            Ok(()) => {
                // If the partition is removed, all queues are concerned.
                let concerned = if wanted.is_some() {
                    Concerned::of(&tree, &changes, MOST_CONCERNED)
                } else {
                    Concerned { paths: vec![Arc::from("root")], left_out: 0 }
                };
                let paths = concerned.paths.iter();
                let slots = paths.filter_map(|path| baton.directory.queue_by_path.get(path));
                let slots = slots.copied().collect();
                let limits = wanted.as_ref().map(|wanted| &wanted.limits);
                let regrouping = limits.map(|limits| baton.books.trackers.regrouping(limits));
                let in_use = InUse::of(slots, concerned.left_out, regrouping);
                self.agenda.push_back(Task::survey(in_use));
            }
            Err(in_use) => {
                let partition = Arc::clone(&self.name);
                self.session.prepared.post(Prepared { partition, answer: Err(in_use) });
            }
        }
        self.proposal = Some(Proposal { wanted, changes, since });
    }

    /// Carries out the proposal, or forgets it.
    pub(super) fn conclude(&mut self, conclusion: Conclude, baton: &mut Baton) {
        let Some(proposal) = self.proposal.take() else { return };
        match conclusion {
            Conclude::Apply => self.reload(proposal, baton),
            Conclude::Forget => {}
        }
    }

    /// Begins the step that carries the proposal out.
    fn reload(&mut self, Proposal { wanted, changes, since, .. }: Proposal, baton: &mut Baton) {
        self.may_decide = true;
        let Some(PartitionDocument { config, limits, .. }) = wanted else {
            self.dismiss(baton);
            return;
        };
        if config.node_order != self.config.node_order {
            baton.books.nodes.set_order(config.node_order.held());
        }
        let is_switched_on = config.preemption.enabled && !baton.settings.preempts;
        baton.settings.preempts = config.preemption.enabled;
        self.config = config;
        let quotas = self.config.preemption.quota;
        let mut leaves = note_in_directory(&changes, quotas, &mut baton.directory);
        if is_switched_on {
            leaves.extend(baton.directory.all_queues().map(|entry| entry.facts.slot));
        }
        let loosening = baton.books.loosen();
        if let Some(limits) = baton.books.trackers.reload(&limits, loosening) {
            baton.record_limits(&limits.events);
            // An application that became limited, or is not any more, reports to its leaf.
            let by_path = &baton.directory.queue_by_path;
            leaves.extend(limits.leaves.iter().filter_map(|leaf| by_path.get(leaf)));
        } else if baton.settings.tracking.is_on() {
            let limits = baton.books.trackers.limits();
            baton.record_limits(&limits);
        }
        let queues = baton.directory.all_queues().rev();
        let drained: Vec<QueueSlot> = queues.map(|entry| entry.facts.slot).collect();
        for slot in drained {
            self.agenda.extend(removal_if_over(slot, baton));
        }
        for change in changes {
            if let QueueChange::Add(config) = change {
                self.agenda.push_back(Task::AddQueue(config));
            }
        }
        self.agenda.push_back(Task::survey(Refresh::of_changed(leaves)));
        self.agenda.push_back(Task::Reloaded { since });
    }

    /// Ends the step, and logs for how long the partition was halted.
    pub(super) fn reloaded(&self, since: Instant) {
        let stood_still_us = since.elapsed().as_micros();
        tracing::debug!(partition = %self.name, stood_still_us, "queues are as configured");
    }

    /// Ends a partition that is not configured any more: the RM is notified of every application,
    /// then all actors of the partition end.
    fn dismiss(&mut self, baton: &mut Baton) {
        let applications = baton.directory.application_by_id.len();
        let [nodes, allocations] = [baton.books.nodes.len(), baton.books.allocations.len()];
        if applications + nodes + allocations > 0 {
            tracing::warn!(
                partition = %self.name,
                applications,
                nodes,
                allocations,
                "the new configuration has no such partition: all that is in it goes with it"
            );
        }
        let unsettled = &baton.books.unsettled;
        let placements = unsettled.iter().map(|(number, _)| number);
        let open = placements.chain(unsettled.claims().map(|(number, _)| number));
        baton.effects.notices.extend(open.map(|number| Notice::Withdrawn(QuestionId(number))));
        self.refuse_waiting(baton);
        self.agenda.push_back(Task::survey(Dismiss));
        self.closing = true;
        self.inbox.clear();
    }
}

impl Baton {
    /// Records the events of limits as they are now.
    pub(super) fn record_limits(&mut self, limits: &[LimitEvent]) {
        for LimitEvent { subject, path, is_set } in limits {
            let (kind, whose) = match (subject, is_set) {
                (Subject::User(name), true) => (EventKind::UserLimitSet, name),
                (Subject::User(name), false) => (EventKind::UserLimitRemoved, name),
                (Subject::Group(name), true) => (EventKind::GroupLimitSet, name),
                (Subject::Group(name), false) => (EventKind::GroupLimitRemoved, name),
            };
            self.happens(|at| Event::of(kind, whose, at).referring(path));
        }
    }
}

/// Checks that the changes leave every application in a leaf.
fn could(tree: &Tree, changes: &[QueueChange], directory: &Directory) -> Result<(), TypeInUse> {
    let applications = |path: &str| {
        let slot = directory.queue_by_path.get(path);
        slot.map_or(0, |slot| directory.queue(*slot).applications)
    };
    reload::check(tree, changes, applications)
}

/// Returns the present queues, each with its configuration and state.
fn standing(directory: &Directory) -> Tree {
    let standing = |facts: &QueueFacts| StandingQueue {
        config: Arc::clone(&facts.config),
        state: facts.state,
    };
    // In the order of the tree that is built, which costs less.
    let queues = directory.queue_by_path.iter();
    queues.map(|(path, slot)| (Arc::clone(path), standing(&directory.queue(*slot).facts))).collect()
}

/// Enters the new facts of every queue in the directory; the queues take them over when they are
/// refreshed. Returns the leaves that treat their applications differently from now on, and those
/// below a changed guarantee. `preempts_for_quotas`: whether queues above their maximum have to
/// give back the excess.
fn note_in_directory(
    changes: &[QueueChange],
    preempts_for_quotas: bool,
    directory: &mut Directory,
) -> BTreeSet<QueueSlot> {
    let mut treated_otherwise = BTreeSet::new();
    let mut nominated_otherwise = BTreeSet::new();
    for change in changes {
        let (path, config) = match change {
            QueueChange::Drain(path) => (path, None),
            QueueChange::Set(config) => (&config.path, Some(config)),
            QueueChange::Add(_) => continue,
        };
        let Some(slot) = directory.queue_by_path.get(path).copied() else {
            debug_assert!(false, "a queue stays while a change of it is proposed");
            continue;
        };
        let entry = directory.queue_mut(slot);
        let mut facts = QueueFacts::clone(&entry.facts);
        match config {
            None => facts.state = ObjectState::Draining,
            Some(config) => {
                if !reload::treats_applications_alike(&facts.config, config) {
                    treated_otherwise.insert(slot);
                }
                if facts.config.guaranteed != config.guaranteed {
                    nominated_otherwise.insert(slot);
                }
                facts.state = ObjectState::Active;
                facts.config = Arc::clone(config);
            }
        }
        entry.facts = Arc::new(facts);
        entry.is_stale = true;
    }
    let parents: Vec<_> = directory
        .all_queues()
        .filter_map(|entry| Some((entry.facts.slot, entry.facts.parent?)))
        .collect();
    for (slot, parent) in parents {
        let priority_first = directory.queue(parent).facts.config.settings.priority_sort;
        let entry = directory.queue_mut(slot);
        if entry.facts.priority_first != priority_first {
            let facts = QueueFacts::clone(&entry.facts);
            entry.facts = Arc::new(QueueFacts { priority_first, ..facts });
            entry.is_stale = true;
        }
    }
    let slots: Vec<QueueSlot> = directory.all_queues().map(|entry| entry.facts.slot).collect();
    for slot in slots {
        let entry = directory.queue_mut(slot);
        let delay_ns = quota_delay_ns(&entry.facts.config, preempts_for_quotas);
        if entry.facts.quota_delay_ns != delay_ns {
            Arc::make_mut(&mut entry.facts).quota_delay_ns = delay_ns;
            entry.is_stale = true;
        }
    }
    // A queue's guarantee decides which asks below it may preempt.
    let is_below = |entry: &&QueueEntry| {
        let mut above = directory.upward(entry.facts.slot);
        above.any(|facts| nominated_otherwise.contains(&facts.slot))
    };
    let below = directory.all_queues().filter(is_below).map(|entry| entry.facts.slot);
    treated_otherwise.extend(below.collect::<Vec<_>>());
    treated_otherwise
}

impl Receive<Conclude> for Partition {
    fn receive(&mut self, conclude: Conclude, ctx: &mut Context<Self>) {
        self.inbox.conclude(conclude);
        self.turn(ctx);
    }
}
