//! One application of the demo: of which kind it is, what it has asked for, and what runs of it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use monoceros_proto::si::v1 as si;

use super::cluster::amount;
use super::gangs::{self, Places};
use crate::chance::Chance;

/// The container that comes first and asks for the others; its end is that of its application.
pub(super) const DRIVER: &str = "driver";

/// The end of what ends when something else does.
pub(super) const FOREVER: Duration = Duration::MAX;

/// What an application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobKind {
    /// A driver, then a wave of executors; removed when they are done.
    Spark,
    /// Replicas that run until the application is removed.
    Service,
    /// Tasks; the application completes by itself.
    Batch,
    /// A gang of placeholders: ranks that run and end together, each in the place that a
    /// placeholder kept for it; the application completes by itself.
    Mpi,
    /// A declared gang: a driver and workers that run and end together; removed when they are done.
    Training,
    /// Long tasks that want more than their queue has; the application completes by itself.
    Adhoc,
    /// The same of a user who is at the limit.
    Bulk,
    /// Short tasks that take back what their queue is promised; the application completes by itself.
    Report,
    /// One container for which a node has to be kept until there is room on it; removed after a while.
    Database,
    /// One container that is larger than any node; removed after a while.
    Giant,
    /// Refused: a declared gang that is larger than its queue may ever be.
    Swarm,
    /// Refused: there is no such queue.
    Stray,
}

impl JobKind {
    /// Each as often as it comes in relation to the others.
    pub(super) const AS_THEY_COME: [Self; 7] = [
        Self::Spark,
        Self::Spark,
        Self::Service,
        Self::Batch,
        Self::Batch,
        Self::Mpi,
        Self::Training,
    ];

    /// Its queue, and what the names of its applications begin with.
    pub(super) fn names(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Spark => (&["root.spark"], "spark"),
            Self::Service => (&["root.services"], "service"),
            Self::Batch => (&["root.batch.team-a", "root.batch.team-b"], "batch"),
            Self::Mpi => (&["root.gangs.mpi"], "mpi"),
            Self::Training => (&["root.gangs.training"], "training"),
            Self::Adhoc => (&["root.shared.adhoc"], "adhoc"),
            Self::Bulk => (&["root.shared.adhoc"], "bulk"),
            Self::Report => (&["root.shared.reports"], "report"),
            Self::Database => (&["root.services"], "database"),
            Self::Giant => (&["root.spark"], "giant"),
            Self::Swarm => (&["root.gangs.training"], "swarm"),
            Self::Stray => (&["root.finance"], "stray"),
        }
    }

    /// Whether a driver asks for the other containers, and ends with the application.
    pub(super) fn has_driver(self) -> bool {
        matches!(self, Self::Spark | Self::Training)
    }

    /// Whether all containers but the driver are of use only together.
    pub(super) fn is_gang(self) -> bool {
        matches!(self, Self::Mpi | Self::Training)
    }

    /// Who submits it.
    pub(super) fn users(self) -> &'static [&'static str] {
        match self {
            Self::Adhoc => &["erin", "frank"],
            Self::Bulk => &["dave"],
            Self::Stray => &["mallory"],
            _ => &["alice", "bob", "carol"],
        }
    }

    /// Whether it completes by itself when its tasks are done.
    pub(super) fn completes(self) -> bool {
        matches!(self, Self::Batch | Self::Mpi | Self::Adhoc | Self::Bulk | Self::Report)
    }

    /// What its containers are called, the driver aside.
    pub(super) fn container(self) -> &'static str {
        match self {
            Self::Spark => "executor",
            Self::Service => "replica",
            Self::Batch | Self::Adhoc | Self::Bulk | Self::Report | Self::Stray => "task",
            Self::Mpi => "rank",
            Self::Training | Self::Swarm => "worker",
            Self::Database | Self::Giant => "server",
        }
    }
}

/// An application that was submitted and is not over.
#[derive(Debug)]
pub(super) struct Application {
    pub(super) kind: JobKind,
    /// Cores of one container; each has four times as many GiB of memory. A driver has one core.
    pub(super) cores: u64,
    pub(super) submitted: Duration,
    /// Containers that it will ask for when its first one runs, or its placeholders have their
    /// nodes.
    pub(super) later: u64,
    /// Keys of containers asked for.
    pub(super) pending: BTreeSet<String>,
    /// Keys of containers that run, each with its end.
    pub(super) running: BTreeMap<String, Duration>,
    /// Its placeholders.
    pub(super) places: Places,
    /// The time at which it is removed, whatever it does.
    pub(super) ends: Duration,
}

impl Application {
    /// One of this kind that is about to be submitted.
    pub(super) fn new(kind: JobKind, now: Duration, chance: &mut Chance) -> Self {
        let (cores, later, ends) = match kind {
            JobKind::Spark => (chance.one_of(&[2, 4]), chance.between(8, 32), FOREVER),
            JobKind::Service => {
                (4, chance.between(2, 6), now.saturating_add(chance.seconds(120, 480)))
            }
            JobKind::Batch => (chance.one_of(&[1, 2]), chance.between(10, 50), FOREVER),
            JobKind::Mpi => (4, chance.between(6, 16), FOREVER),
            JobKind::Training => (chance.one_of(&[8, 16]), chance.between(4, 8), FOREVER),
            JobKind::Adhoc | JobKind::Bulk => (2, chance.between(20, 32), FOREVER),
            JobKind::Report => (4, 11, FOREVER),
            JobKind::Database => (40, 1, now.saturating_add(chance.seconds(80, 110))),
            JobKind::Giant => (96, 1, now.saturating_add(chance.seconds(120, 150))),
            JobKind::Swarm => (16, 20, FOREVER),
            JobKind::Stray => (1, 1, FOREVER),
        };
        Self {
            kind,
            cores,
            submitted: now,
            later,
            pending: BTreeSet::new(),
            running: BTreeMap::new(),
            places: Places::default(),
            ends,
        }
    }

    /// What one of its containers needs.
    pub(super) fn size(&self, key: &str) -> si::Resource {
        let cores = if key == DRIVER { 1 } else { self.cores };
        amount(cores, 4 * cores)
    }

    /// The containers that it asks for next, which are not asked for later any more.
    pub(super) fn next_containers(&mut self) -> Vec<String> {
        gangs::numbered(self.kind.container(), mem::take(&mut self.later))
    }

    /// A container begins to run. Containers that work together end together: their time begins
    /// when the last of them runs, and anew when one that was lost is back.
    pub(super) fn runs(&mut self, key: &str, now: Duration, chance: &mut Chance) {
        self.pending.remove(key);
        let until = match self.kind {
            _ if key == DRIVER => FOREVER,
            JobKind::Spark => now.saturating_add(chance.seconds(20, 60)),
            JobKind::Batch => now.saturating_add(chance.seconds(10, 40)),
            JobKind::Adhoc | JobKind::Bulk => now.saturating_add(chance.seconds(60, 150)),
            JobKind::Report => now.saturating_add(chance.seconds(15, 25)),
            JobKind::Service
            | JobKind::Mpi
            | JobKind::Training
            | JobKind::Database
            | JobKind::Giant
            | JobKind::Swarm
            | JobKind::Stray => FOREVER,
        };
        self.running.insert(key.to_owned(), until);
        if self.kind.is_gang() && key != DRIVER && self.is_whole() {
            let end = now.saturating_add(chance.seconds(20, 45));
            let members = self.running.iter_mut().filter(|(key, _)| *key != DRIVER);
            members.for_each(|(_, until)| *until = end);
        }
    }

    /// Whether everything that it wants runs.
    pub(super) fn is_whole(&self) -> bool {
        self.later == 0 && self.pending.is_empty()
    }

    /// What its containers need when all of them run.
    pub(super) fn cores(&self) -> u64 {
        (self.later + (self.pending.len() + self.running.len()) as u64) * self.cores
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_whole() && self.running.is_empty()
    }

    pub(super) fn is_done_but_for(&self, key: &str) -> bool {
        self.is_whole() && self.running.len() == 1 && self.running.contains_key(key)
    }
}
