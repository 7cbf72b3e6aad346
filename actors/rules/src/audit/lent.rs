//! Lending of reserved nodes in the full search.

use std::cmp::Ordering;

use super::search::{Looking, Search, fits};
use super::{AskFact, Facts, Foreseen, QueueFact, ReservationFact};
use crate::pending::reservations::EffectivePriority;
use crate::values::resources::Resources;

/// Whether a reserved node is lent to an ask.
enum Lends {
    Yes,
    /// The ask of the reservation could not run even with the capacity. Whether the live scheduler
    /// knows that depends on which asks it has tried.
    Perhaps,
    No,
}

impl Search<'_> {
    /// Returns the first node that others have reserved and lend to an ask that finds no other.
    pub(super) fn lent(&self, looking: &Looking<'_>, ask: &AskFact) -> Option<Foreseen> {
        let nodes = self.nodes.iter().copied();
        let reserved = nodes.filter_map(|node| {
            let mut reservations = self.facts.reservations.iter();
            Some((node, reservations.find(|it| it.node == node.slot && it.is_bounded)?))
        });
        // The RM is asked last, so only about nodes on which the ask would be placed.
        let mut usable = reserved.filter(|(node, _)| {
            node.open
                && !ask.failed_nodes.contains(&node.id)
                && fits(ask, node)
                && self.may_use(looking.application, ask, node.slot, None)
                && self.takes(ask, node.slot, true)
        });
        usable.find_map(|(node, it)| match self.lends(looking, ask, it) {
            Lends::Yes => Some(looking.places(ask, node)),
            Lends::Perhaps => Some(Foreseen::Unknown),
            Lends::No => None,
        })
    }

    fn lends(&self, looking: &Looking<'_>, ask: &AskFact, it: &ReservationFact) -> Lends {
        let facts = self.facts;
        let is_own = it.application == looking.application.slot && it.key == ask.key;
        let (own, theirs) = (looking.application.leaf, it.holder.leaf);
        let comes_first = || {
            let own = facts.effective(own, ask.priority);
            own.compare(&facts.effective(theirs, it.priority)) == Ordering::Greater
        };
        if is_own {
            Lends::No
        } else if comes_first()
            || (facts.is_owed(own, &ask.resources, |unused, wanted| wanted <= unused)
                && !facts.is_owed(theirs, &it.resources, |unused, _| unused > 0))
        {
            Lends::Yes
        } else if facts.could_run(it) {
            Lends::No
        } else {
            Lends::Perhaps
        }
    }
}

impl Facts {
    /// Returns the effective priorities of a request of this priority in a leaf.
    pub(super) fn effective(&self, leaf: u32, priority: i32) -> EffectivePriority {
        let upward = self.path_of(leaf);
        EffectivePriority::of(priority, upward.map(|queue| (queue.slot, &queue.config.settings)))
    }

    /// Whether `is` holds for all requested resources that are guaranteed to the leaf or to the
    /// nearest queue above. It gets the unused amount of the guarantee and the requested amount.
    fn is_owed(&self, leaf: u32, wanted: &Resources, is: impl Fn(i64, i64) -> bool) -> bool {
        let guaranteed = |queue: &&QueueFact| queue.config.guaranteed.is_some();
        let Some(queue) = self.path_of(leaf).find(guaranteed) else { return false };
        let entries = queue.config.guaranteed.iter().flat_map(Resources::entries);
        let both: Vec<(i64, i64)> = entries
            .map(|(name, all)| (all - queue.ledger.allocated().get(name), wanted.get(name)))
            .filter(|(_, wanted)| *wanted > 0)
            .collect();
        !both.is_empty() && both.into_iter().all(|(unused, wanted)| is(unused, wanted))
    }

    /// Whether the ask of a reservation could run if there were capacity.
    fn could_run(&self, it: &ReservationFact) -> bool {
        let is_allowed = self.path_of(it.holder.leaf).all(|queue| {
            let Some(max) = &queue.ledger.max else { return true };
            let nominated = self.nominations.taken_off(&queue.config.path);
            let used = queue.ledger.allocated().plus(nominated.unwrap_or(&Resources::new()));
            max.less(&used).allows(&it.resources)
        });
        let of = self.applications.iter().find(|application| application.slot == it.application);
        is_allowed && of.is_none_or(|of| self.user_headroom(of).allows(&it.resources))
    }
}
