//! Allocations that the node begins to hold: one at a time, or those that visits have gathered.

use monoceros_rules::values::ids::AllocationId;
use monoceros_rules::values::resources::Resources;

use super::Node;
use crate::metrics::ActorKind;
use crate::step::Baton;

impl Node {
    /// Holds an allocation.
    pub(super) fn hold(
        &mut self,
        allocation: AllocationId,
        resources: &Resources,
        baton: &mut Baton,
    ) {
        self.holds.push(allocation);
        self.hold_amount(resources, baton);
    }

    /// Holds the amount of allocations. If others do not use the node, the amount is subtracted from
    /// the available amount directly: the sum of all allocations is bounded (`Books::allocated`),
    /// so no difference saturates.
    fn hold_amount(&mut self, resources: &Resources, baton: &mut Baton) {
        self.allocated.add(resources);
        // The ask may name resources with the amount zero.
        self.allocated.prune();
        if self.others.occupied.is_empty() && self.others.foreign.is_empty() {
            self.available.subtract(resources);
        } else {
            self.available = self.computed_available();
        }
        self.tell_index(baton, None);
    }

    /// Holds the amounts that visits have gathered for this node.
    pub(super) fn hold_gathered(&mut self, mut baton: Box<Baton>) {
        let _timer = baton.tally.message(ActorKind::Node);
        let mut amount = Resources::new();
        while let Some((id, resources)) = baton.gathered.next_hold(self.slot) {
            self.holds.push(id);
            amount.add(&resources);
            Self::count(id, &mut baton);
        }
        self.hold_amount(&amount, &mut baton);
        baton.wake_named(self.slot, &self.id);
        baton.hold_gathered();
    }
}
