//! Another configuration for a partition that lives (queues-and-config chapter, 4.8 and 9.2).
//!
//! # In two parts
//! An RM's partitions change together or not at all. So each first says whether it could
//! ([`Preparing`]): whether every application would still be in a leaf. From then on it stands
//! still, so that what it said stays true, until the RM's session concludes ([`Conclude`]): a
//! message or two on the front thread.
//!
//! # In one step
//! The change itself is one step, and no offer sees half of it: what the directory knows is changed
//! at once, queues that are empty and no longer configured go, new ones are planted, and a walk from
//! the leaves to root gives every queue its settings and makes every key and bound anew. It counts as
//! a loosening: whoever was tried in vain is looked at again once, as far as it fits.
//!
//! # Invariants
//! * Nothing here can fail once the partition was prepared.
//! * No application is moved, failed or stopped, and nothing is taken from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::config::PartitionConfig;
use monoceros_rules::limits::{LimitEvent, Subject};
use monoceros_rules::object_state::ObjectState;
use monoceros_rules::reload::{self, Change, Standing, Tree, TypeInUse};

use super::planting::uprooting;
use super::tasks::Task;
use super::{Partition, admission, node_order};
use crate::baton::{Baton, Directory, Purpose, QueueSlot, Saying, Walk};
use crate::events::{Event, Row};
use crate::predicates::QuestionId;
use crate::queue::QueueFacts;
use crate::rm::Prepared;

/// Could this partition have this configuration? Answered by [`Prepared`].
pub(crate) struct Preparing {
    /// `None`: it is not to be any more.
    pub(crate) config: Option<Arc<PartitionConfig>>,
}

/// What was proposed comes true, or is forgotten. From the Rm.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) enum Conclude {
    Apply,
    Forget,
}

/// See [`Partition::proposal`].
pub(super) struct Proposal {
    config: Option<Arc<PartitionConfig>>,
    changes: Vec<Change>,
}

impl Partition {
    pub(super) fn prepare(&mut self, Preparing { config }: Preparing, baton: &Baton) {
        let tree = standing(&baton.directory);
        let changes =
            config.as_ref().map(|config| reload::changes(&tree, &config.root)).unwrap_or_default();
        let answer = could(&tree, &changes, &baton.directory);
        self.proposal = Some(Proposal { config, changes });
        self.rm.do_send(Prepared { partition: Arc::clone(&self.name), answer });
    }

    /// Begins the step that makes the proposal true. The baton is at home: the partition stood
    /// still.
    fn reload(&mut self, Proposal { config, changes }: Proposal) {
        let baton = self.baton.as_mut().expect("nothing is under way while a proposal stands");
        baton.now_ns = self.clock.now_ns();
        self.may_decide = true;
        let Some(config) = config else {
            self.dismiss();
            return;
        };
        if config.node_order != self.config.node_order {
            baton.books.nodes.set_order(node_order(&config));
        }
        self.placement = admission::placement(&config);
        self.config = config;
        let mut leaves = settle_directory(&changes, &mut baton.directory);
        let loosening = baton.books.loosen();
        let limits = baton.books.trackers.reload(&self.config.root, loosening);
        tell_limits(&limits.events, baton);
        if limits.changed {
            // Whoever is held by a limit, or is not any more, tells its leaf.
            leaves.extend(baton.directory.all_queues().map(|entry| entry.facts.slot));
        }
        let queues = baton.directory.all_queues().rev();
        let drained: Vec<QueueSlot> = queues.map(|entry| entry.facts.slot).collect();
        for slot in drained {
            self.agenda.extend(uprooting(slot, baton));
        }
        for change in changes {
            if let Change::Plant(config) = change {
                self.agenda.push_back(Task::Plant(config));
            }
        }
        self.agenda.push_back(Task::Refresh(leaves));
    }

    /// Not configured any more: the RM is told of every application, then everything ends.
    fn dismiss(&mut self) {
        let baton = self.baton.as_mut().expect("nothing is under way while a proposal stands");
        let mut entries: Vec<_> = baton.directory.applications.iter().flatten().collect();
        let [applications, nodes, allocations] =
            [entries.len(), baton.books.nodes.len(), baton.books.allocations.len()];
        if applications + nodes + allocations > 0 {
            tracing::warn!(
                partition = %self.name,
                applications,
                nodes,
                allocations,
                "the new configuration has no such partition: all that is in it goes with it"
            );
        }
        // A walk goes from the last to the first.
        entries.sort_by(|a, b| b.id.cmp(&a.id));
        let applications = entries.into_iter().map(|entry| Arc::clone(&entry.address)).collect();
        let unsettled = baton.books.unsettled.iter();
        baton.said.extend(unsettled.map(|(number, _)| Saying::Withdrawn(QuestionId(number))));
        baton.walk = Walk { purpose: Purpose::Dismiss, applications, ..Walk::default() };
        self.agenda.push_back(Task::Walk);
        self.closing = true;
        self.door.clear();
    }
}

/// The events of limits as they are now.
pub(super) fn tell_limits(limits: &[LimitEvent], baton: &mut Baton) {
    for LimitEvent { subject, path, is_set } in limits {
        let (row, whose) = match (subject, is_set) {
            (Subject::User(name), true) => (Row::UserLimitSet, name),
            (Subject::User(name), false) => (Row::UserLimitRemoved, name),
            (Subject::Group(name), true) => (Row::GroupLimitSet, name),
            (Subject::Group(name), false) => (Row::GroupLimitRemoved, name),
        };
        baton.happens(|at| Event::of(row, whose, at).referring(path));
    }
}

/// Whether the changes leave every application in a leaf.
fn could(tree: &Tree, changes: &[Change], directory: &Directory) -> Result<(), TypeInUse> {
    let applications = |path: &str| {
        let slot = directory.queue_by_path.get(path);
        slot.map_or(0, |slot| directory.queue(*slot).applications)
    };
    reload::check(tree, changes, applications)
}

/// The queues as they stand.
fn standing(directory: &Directory) -> Tree {
    let standing =
        |facts: &QueueFacts| Standing { config: Arc::clone(&facts.config), state: facts.state };
    let queues = directory.all_queues().map(|entry| &entry.facts);
    queues.map(|facts| (Arc::clone(&facts.config.path), standing(facts))).collect()
}

/// Notes for every queue that is there what it is to be; the queues hear of it when they are
/// refreshed. Returns the leaves that order their applications otherwise.
fn settle_directory(changes: &[Change], directory: &mut Directory) -> BTreeSet<QueueSlot> {
    let mut reordered = BTreeSet::new();
    for change in changes {
        let (path, config) = match change {
            Change::Drain(path) => (path, None),
            Change::Set(config) => (&config.path, Some(config)),
            Change::Plant(_) => continue,
        };
        let Some(slot) = directory.queue_by_path.get(path).copied() else { continue };
        let entry = directory.queue_mut(slot);
        let mut facts = QueueFacts::clone(&entry.facts);
        match config {
            None => facts.state = ObjectState::Draining,
            Some(config) => {
                if !reload::orders_applications_alike(&facts.config, config) {
                    reordered.insert(slot);
                }
                facts.state = ObjectState::Active;
                facts.config = Arc::clone(config);
            }
        }
        entry.facts = Arc::new(facts);
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
        }
    }
    reordered
}

impl Handler<Conclude> for Partition {
    type Result = ();

    fn handle(&mut self, conclude: Conclude, ctx: &mut Self::Context) {
        let Some(proposal) = self.proposal.take() else { return };
        if matches!(conclude, Conclude::Apply) && !self.closing {
            self.reload(proposal);
        }
        self.turn(ctx);
    }
}
