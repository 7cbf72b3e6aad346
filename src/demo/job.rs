//! An application of the demo: its kind, its requests, and its running containers.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use monoceros_proto::si::v1 as si;

use super::cluster::amount;
use super::gangs::{self, Places};
use crate::chance::Chance;

/// The first container, which asks for the others. Its end is the end of its application.
pub(super) const DRIVER: &str = "driver";

/// The end of a container or application that has no time of its own.
pub(super) const FOREVER: Duration = Duration::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobKind {
    /// A driver, then executors. Removed when they are done.
    Spark,
    /// Replicas that run until the application is removed.
    Service,
    /// Tasks. The application completes by itself.
    Batch,
    /// A gang with placeholders: ranks that run and end together, each in the place of a
    /// placeholder. The application completes by itself.
    Mpi,
    /// A declared gang: a driver and workers that run and end together. Removed when they are done.
    Training,
    /// Long tasks that want more than their queue's quota. The application completes by itself.
    Adhoc,
    /// Long tasks of a user at the limit. The application completes by itself.
    Bulk,
    /// Short tasks that take back their queue's guarantee. The application completes by itself.
    Report,
    /// One container for which a node is reserved until it fits. Removed after a while.
    Database,
    /// One container that is larger than any node. Removed after a while.
    Giant,
    /// Rejected: a declared gang larger than its queue's maximum.
    Swarm,
    /// Rejected: the queue does not exist.
    Stray,
}

impl JobKind {
    /// The usual kinds, each as often as its relative frequency.
    pub(super) const AS_THEY_COME: [Self; 7] = [
        Self::Spark,
        Self::Spark,
        Self::Service,
        Self::Batch,
        Self::Batch,
        Self::Mpi,
        Self::Training,
    ];

    /// Returns the queues of this kind, and the prefix of its applications' names.
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

    /// Whether all containers except the driver are only useful together.
    pub(super) fn is_gang(self) -> bool {
        matches!(self, Self::Mpi | Self::Training)
    }

    /// Returns the users who submit applications of this kind.
    pub(super) fn users(self) -> &'static [&'static str] {
        match self {
            Self::Adhoc => &["erin", "frank"],
            Self::Bulk => &["dave"],
            Self::Stray => &["mallory"],
            _ => &["alice", "bob", "carol"],
        }
    }

    /// Whether an application of this kind completes by itself when its tasks are done.
    pub(super) fn completes(self) -> bool {
        matches!(self, Self::Batch | Self::Mpi | Self::Adhoc | Self::Bulk | Self::Report)
    }

    /// Returns the name of the containers of this kind, except the driver.
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

/// A submitted application that has not ended.
#[derive(Debug)]
pub(super) struct Application {
    pub(super) kind: JobKind,
    /// Cores of a container, which has four times as many GiB of memory. A driver has one core.
    pub(super) cores: u64,
    pub(super) submitted: Duration,
    /// Containers to ask for when the first one runs, or when the placeholders have nodes.
    pub(super) later: u64,
    /// Keys of pending containers.
    pub(super) pending: BTreeSet<String>,
    /// Keys of running containers, each with its end.
    pub(super) running: BTreeMap<String, Duration>,
    pub(super) places: Places,
    /// Time at which the application is removed, whatever its state.
    pub(super) ends: Duration,
}

impl Application {
    /// Makes an application of this kind before its submission.
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

    /// Returns the amount of a container.
    pub(super) fn size(&self, key: &str) -> si::Resource {
        let cores = if key == DRIVER { 1 } else { self.cores };
        amount(cores, 4 * cores)
    }

    /// Returns the containers to ask for next, and clears `later`.
    pub(super) fn next_containers(&mut self) -> Vec<String> {
        gangs::numbered(self.kind.container(), mem::take(&mut self.later))
    }

    /// Starts a container. Members of a gang end together: their time begins when the last of them
    /// runs, and again when a lost one is replaced.
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

    /// Whether all its containers run.
    pub(super) fn is_whole(&self) -> bool {
        self.later == 0 && self.pending.is_empty()
    }

    /// Returns the cores of all its containers, running or not.
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
