//! Evictions: the effects of a plan on the applications that lose allocations by it. They are the
//! same for all three kinds of preemption: for a guarantee, for a required node, and for usage
//! above a maximum.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::allocations::{Allocation, Grounds};
use monoceros_rules::decide::preemption::Chosen;
use monoceros_rules::pending::nominations::Victim;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot};

use super::super::Task;
use crate::step::{Baton, Op, PreemptionOp};

/// Allocations to be evicted.
#[derive(Default)]
pub(super) struct Eviction {
    by_loser: BTreeMap<ApplicationSlot, Vec<AllocationId>>,
    /// The victims that the RM has to end. Places held for members of gangs end at once and are not
    /// among them.
    pub(super) victims: BTreeMap<AllocationId, Victim>,
    /// For each application, the number of its allocations that count as evictions.
    counted: BTreeMap<ApplicationSlot, u32>,
}

impl Eviction {
    /// Groups these allocations, as far as they still exist.
    pub(super) fn of<'a>(ids: impl IntoIterator<Item = &'a AllocationId>, baton: &Baton) -> Self {
        let mut eviction = Self::default();
        for id in ids {
            let Some(entry) = baton.books.allocations.get(*id) else { continue };
            eviction.by_loser.entry(entry.application).or_default().push(*id);
            if entry.is_hold() {
                continue;
            }
            if !entry.spec.placeholder {
                *eviction.counted.entry(entry.application).or_default() += 1;
            }
            eviction.victims.insert(*id, victim(entry, baton));
        }
        eviction
    }

    /// Returns the applications that lose allocations.
    pub(super) fn losers(&self) -> Vec<ApplicationSlot> {
        self.by_loser.keys().copied().collect()
    }

    /// Counts the evictions of each application against its bounds, and for the winner. There is no
    /// winner if a queue gives back what is above its maximum.
    pub(super) fn count(&self, winner: Option<ApplicationSlot>, baton: &mut Baton) {
        for (loser, count) in &self.counted {
            let leaf = baton.directory.applications[*loser].leaf;
            let bounds = baton.directory.queue(leaf).facts.config.settings.eviction;
            baton.books.evictions.lost(*loser, winner, *count, &bounds, baton.now_ns);
        }
    }

    /// Returns an order to each application that loses allocations, with the reasons why each
    /// victim was `chosen`.
    pub(super) fn orders(
        self,
        grounds: &Arc<Grounds>,
        chosen: &[Chosen],
    ) -> impl Iterator<Item = Task> {
        let (grounds, chosen) = (Arc::clone(grounds), Arc::new(chosen.to_vec()));
        self.by_loser.into_iter().map(move |(loser, ids)| {
            let (grounds, chosen) = (Arc::clone(&grounds), Arc::clone(&chosen));
            Task::Visit(
                loser,
                vec![Op::Preemption(PreemptionOp::Preempted { ids, grounds, chosen })],
            )
        })
    }
}

fn victim(entry: &Allocation, baton: &Baton) -> Victim {
    let leaf = baton.directory.applications[entry.application].leaf;
    let queue = Arc::clone(&baton.directory.queue(leaf).facts.config.path);
    Victim { queue, node: entry.node, amount: entry.resources().clone() }
}
