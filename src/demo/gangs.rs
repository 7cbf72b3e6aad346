//! The gangs of the demo: declared gangs, and gangs with placeholders. `docs/gangs.md` explains
//! both.
//!
//! # Placeholders
//! A gang with placeholders is submitted with their total amount, and asks for one placeholder per
//! member. When each placeholder has a node, the gang asks for its members. For each member, the
//! scheduler requests the end of a placeholder, and the member runs once that end is confirmed.
//!
//! # Declared
//! A declared gang is submitted with its task groups, and asks only for its driver. The scheduler
//! places all members at once, and holds the workers' places until the driver asks for them.

use std::collections::BTreeMap;

use monoceros_proto::si::v1 as si;

use super::cluster::amount;
use super::job::{Application, DRIVER, JobKind};

/// The task group of the members, and of their placeholders.
const MEMBERS: &str = "members";

/// Adds the gang to a new application, if it has one.
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

/// Returns the task group of a container. Empty if it has none.
pub(super) fn task_group(kind: JobKind, key: &str) -> &'static str {
    match kind {
        JobKind::Training if key == DRIVER => DRIVER,
        JobKind::Mpi | JobKind::Training => MEMBERS,
        _ => "",
    }
}

/// Returns container names: `rank-1` to `rank-n`.
pub(super) fn numbered(name: &str, n: u64) -> Vec<String> {
    (1..=n).map(|number| format!("{name}-{number}")).collect()
}

/// The placeholders of an application, and whether each has a node.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<String, bool>);

impl Places {
    /// Adds a placeholder that is asked for.
    pub(super) fn asked(&mut self, key: &str) {
        self.0.insert(key.to_owned(), false);
    }

    /// Records that a container was placed. Returns `None` if it is no placeholder, otherwise
    /// whether all placeholders have a node now.
    pub(super) fn placed(&mut self, key: &str) -> Option<bool> {
        *self.0.get_mut(key)? = true;
        Some(self.0.values().all(|placed| *placed))
    }

    /// Removes a container. Returns whether it was a placeholder.
    pub(super) fn gone(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    /// Removes the placeholders without a node, which the scheduler has given up.
    pub(super) fn given_up(&mut self) {
        self.0.retain(|_, placed| *placed);
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}
