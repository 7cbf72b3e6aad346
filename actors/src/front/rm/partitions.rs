//! The partitions of a session: how they begin, where they are, and how they go.
//!
//! Reads are answered without the session, since a read must not wait behind a long request, nor
//! behind what the front has to tell: they find the partitions in its [`Roster`], on any thread.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::prelude::*;
use monoceros_config::PartitionConfig;
use monoceros_rules::specs::quotas::Held;

use super::Rm;
use super::threads::Seat;
use crate::api::outcomes::ConfigurationError;
use crate::front::rm_proxy::PartitionEntry;
use crate::front::settings::Threads;
use crate::mailbox::{Mailbox, Receive};
use crate::metrics::ActorKind;
use crate::partition::{
    Abandon, Ack, ApplyControl, Entry, Partition, PartitionParams, UnknownNodes,
};
use crate::step::{PartitionClosed, PartitionLost, SessionLink};

/// A partition is told that so many notices were taken, and not of fewer. Much less than it may have on
/// the way before it decides nothing more.
const TAKEN_TOGETHER: usize = 4_096;

/// The partitions of a session as reads find them. Written by the session.
#[derive(Clone, Default)]
pub(crate) struct Roster(Arc<Mutex<Vec<PartitionEntry>>>);

impl Roster {
    pub(crate) fn entries(&self) -> Vec<PartitionEntry> {
        self.held().clone()
    }

    fn add(&self, entry: PartitionEntry) {
        self.held().push(entry);
    }

    pub(super) fn forget(&self, names: &BTreeSet<Arc<str>>) {
        self.held().retain(|entry| !names.contains(&entry.name));
    }

    fn held(&self) -> MutexGuard<'_, Vec<PartitionEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rosters of all sessions, by RM. Written by the front.
#[derive(Clone, Default)]
pub(crate) struct Rosters(Arc<Mutex<BTreeMap<String, Roster>>>);

impl Rosters {
    /// Every partition of every RM.
    pub(crate) fn entries(&self) -> Vec<PartitionEntry> {
        self.held().values().flat_map(Roster::entries).collect()
    }

    /// A session of the RM has begun.
    pub(crate) fn enter(&self, rm_id: &str, roster: Roster) {
        self.held().insert(rm_id.to_owned(), roster);
    }

    /// The session of the RM is over.
    pub(crate) fn leave(&self, rm_id: &str) {
        self.held().remove(rm_id);
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Roster>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As [`Clone`].
impl fmt::Debug for Rosters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.held().keys()).finish()
    }
}

/// A partition as its session holds it.
pub(super) struct PartitionLink {
    pub(super) mailbox: Mailbox<Partition>,
    /// Its place among the threads; none if it lives on the front's.
    pub(super) seat: Option<Seat>,
    pub(super) waiting: VecDeque<Vec<Entry>>,
    pub(super) waiting_items: usize,
    /// Items of the last of the chunks that wait.
    pub(super) last_items: usize,
    pub(super) ahead: usize,
    /// Notices of it that were taken since it was told so.
    taken: usize,
    /// What it has, by what it told last.
    pub(super) held: Held,
    /// What it was told last of the others.
    pub(super) elsewhere: Held,
}

impl PartitionLink {
    /// The RM has taken so many notices of it. It is told of many at a time: what it has on the way
    /// matters to it only when that is much, and to be told wakes it.
    pub(super) fn took(&mut self, notices: usize) {
        self.taken += notices;
        if self.taken >= TAKEN_TOGETHER {
            self.mailbox.post(Ack(std::mem::take(&mut self.taken)));
        }
    }
}

impl Rm {
    pub(super) fn start_partition(&mut self, name: Arc<str>, config: Arc<PartitionConfig>) {
        let users = self.users.of(&name, &config.resolver);
        self.names.hold_all_of(&config.names);
        self.metrics.actor_named(ActorKind::Partition, &name);
        let nth = self.partitions_so_far;
        self.partitions_so_far += 1;
        let unknown_nodes = if self.settings.intake.rejects_node_updates {
            UnknownNodes::Rejected
        } else {
            UnknownNodes::Ignored
        };
        let params = PartitionParams {
            name: Arc::clone(&name),
            nth,
            config,
            names: Arc::clone(&self.names),
            quotas: self.quotas,
            session: self.link(),
            callback: Arc::clone(&self.callback),
            clock: self.clock,
            reorder_window: self.settings.reorder_window,
            unknown_nodes,
            ended_applications: self.settings.ended_applications,
            decisions: self.settings.decisions,
            metrics: Arc::clone(&self.metrics),
            watch: self.settings.watch.clone(),
            tracking: self.settings.events.tracking(),
        };
        let is_first = self.partitions.is_empty();
        let seat = match self.settings.threads {
            Threads::PerPartition => self.threads.seat(&self.id, &name, is_first),
            Threads::One => None,
        };
        let (seat, address) = match seat {
            Some((seat, thread)) => {
                let partition =
                    Partition::start_in_arbiter(&thread, |ctx| Partition::new(params, ctx));
                (Some(seat), partition)
            }
            None => (None, Partition::create(|ctx| Partition::new(params, ctx))),
        };
        let mailbox = Mailbox::new(address, &self.metrics);
        for control in &self.controls {
            mailbox.post(ApplyControl(control.clone()));
        }
        self.roster.add(PartitionEntry {
            rm_id: Arc::clone(&self.id),
            name: Arc::clone(&name),
            build_info: Arc::clone(&self.build_info),
            mailbox: mailbox.clone(),
        });
        let waiting = VecDeque::new();
        let held = PartitionLink {
            mailbox,
            seat,
            waiting,
            waiting_items: 0,
            last_items: 0,
            ahead: 0,
            taken: 0,
            held: Held::default(),
            elsewhere: Held::default(),
        };
        self.translator.partitions.open(Arc::clone(&name), users);
        self.partitions.insert(name, held);
    }

    /// The mailboxes by which a partition reaches its session.
    pub(super) fn link(&self) -> SessionLink {
        SessionLink {
            said: self.mailbox.destination(),
            held: self.mailbox.destination(),
            prepared: self.mailbox.destination(),
            lost: self.mailbox.destination(),
            closed: self.mailbox.destination(),
        }
    }
}

impl Receive<PartitionLost> for Rm {
    fn receive(&mut self, PartitionLost { partition }: PartitionLost, ctx: &mut Context<Self>) {
        let Some(held) = self.partitions.remove(&partition) else { return };
        self.translator.partitions.close(&partition);
        held.mailbox.post(Abandon);
        if let Some(seat) = &held.seat {
            seat.was_lost();
        }
        drop(held);
        if self.is_ending {
            if self.partitions.is_empty() {
                self.end(ctx);
            }
            return;
        }
        if self.left_as_wanted(&partition) {
            return;
        }
        self.metrics.actor_lost(ActorKind::Partition, &partition);
        tracing::error!(rm = %self.id, %partition, "partition lost, its RM must register again");
        if !self.silence.reigns() {
            self.callback.resync_required(&format!("partition `{partition}` was lost"));
        }
        self.translator.partitions.lose(Arc::clone(&partition));
        let lost = ConfigurationError::PartitionLost(self.id.to_string());
        self.answered(&partition, Err(lost));
        self.pump();
    }
}

impl Receive<PartitionClosed> for Rm {
    fn receive(&mut self, closed: PartitionClosed, ctx: &mut Context<Self>) {
        let PartitionClosed { partition, removed } = closed;
        if self.partitions.remove(&partition).is_some() {
            self.translator.partitions.close(&partition);
        }
        self.removed.add(removed);
        if self.is_ending {
            if self.partitions.is_empty() {
                self.end(ctx);
            }
        } else {
            self.left_as_wanted(&partition);
        }
    }
}
