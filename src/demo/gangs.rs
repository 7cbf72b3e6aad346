//! The gangs of the demo, of both kinds: what is said of them when they are submitted, and the
//! placeholders of those that keep their places themselves. For people, `docs/gangs.md`.
//!
//! # Placeholders
//! A gang of placeholders announces what all of them want, and asks for one per member. When each
//! has a node it asks for its members; for each the scheduler asks that a placeholder end, and the
//! member runs once that is confirmed.
//!
//! # Declared
//! A declared gang says which members it needs, and asks for its driver alone. The scheduler gives
//! places to all at once, and holds those of the workers until the driver asks for them.

use std::collections::BTreeMap;

use monoceros_proto::si::v1 as si;

use super::cluster::amount;
use super::job::{Application, DRIVER, JobKind};

/// The task group of the members that work together, and of their placeholders.
const MEMBERS: &str = "members";

/// Says of a new application which gang it is, if any.
pub(super) fn announce(new: &mut si::AddApplicationRequest, application: &Application) {
    let members = application.later;
    match application.kind {
        JobKind::Mpi => {
            let cores = members * application.cores;
            new.placeholder_ask = Some(amount(cores, 4 * cores));
            "Soft".clone_into(&mut new.gang_scheduling_style);
        }
        JobKind::Training | JobKind::Swarm => {
            let group = |name: &str, n: u64, key: &str| si::TaskGroup {
                name: name.to_owned(),
                min_members: i32::try_from(n).unwrap_or(i32::MAX),
                member: Some(application.size(key)),
                ..Default::default()
            };
            new.task_groups = vec![group(DRIVER, 1, DRIVER), group(MEMBERS, members, MEMBERS)];
        }
        _ => {}
    }
}

/// The task group of a container; empty if it has none.
pub(super) fn task_group(kind: JobKind, key: &str) -> &'static str {
    match kind {
        JobKind::Training if key == DRIVER => DRIVER,
        JobKind::Mpi | JobKind::Training => MEMBERS,
        _ => "",
    }
}

/// Names of containers: `rank-1` to `rank-n`.
pub(super) fn numbered(name: &str, n: u64) -> Vec<String> {
    (1..=n).map(|number| format!("{name}-{number}")).collect()
}

/// The placeholders of an application, and whether each has a node.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<String, bool>);

impl Places {
    /// The placeholder is asked for.
    pub(super) fn asked(&mut self, key: &str) {
        self.0.insert(key.to_owned(), false);
    }

    /// A container got a node. Says whether it is a placeholder, and if so, whether it was the last
    /// of them without one.
    pub(super) fn placed(&mut self, key: &str) -> Option<bool> {
        *self.0.get_mut(key)? = true;
        Some(self.0.values().all(|placed| *placed))
    }

    /// A container is gone. Says whether it was a placeholder.
    pub(super) fn gone(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    /// The scheduler has given up those that have no node.
    pub(super) fn given_up(&mut self) {
        self.0.retain(|_, placed| *placed);
    }

    /// Their keys.
    #[cfg(test)]
    pub(super) fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}
