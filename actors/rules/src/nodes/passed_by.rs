//! Growths that leave too little for an ask. Their count distinguishes a large ask that growths
//! keep passing by from an ask that the next release serves.
//!
//! # Why
//! In a full cluster of equal asks each release serves the next one, and a reservation would only
//! keep a node from others. No release serves a large ask among a constant flow of small ones: each
//! frees a little capacity, which a small ask takes. So an ask for more than the free capacity of
//! all nodes together reserves only after three consecutive growths of usable nodes have left too
//! little for it.
//!
//! # Invariants
//! * The last growths of nodes that were open to all are listed, up to 64 of them.
//! * [`NodeIndex::may_be_passed_by`] never returns `false` if [`NodeIndex::passed_by`] has counted
//!   enough for an ask that wants at least `least` and at most `most`.

use super::index::NodeIndex;
use super::last_growths::{Grown, PASSED_BY, PassedBy};
use super::request::NodeRequest;
use crate::values::epoch::Growth;
use crate::values::resources::Resources;

impl NodeIndex {
    /// Counts further growths of nodes that the request may use. A growth that left capacity for
    /// the request restarts the count.
    pub fn passed_by(&self, request: &NodeRequest<'_>, before: PassedBy) -> PassedBy {
        let (mut times, mut is_in_a_row) = (0_u8, true);
        for grown in self.last_growths.newest_since(before.at) {
            if !self.may_ever_hold(grown.node, request) {
                continue;
            }
            if grown.available.holds(request.resources) {
                is_in_a_row = false;
                break;
            }
            times = times.saturating_add(1);
        }
        let earlier = if is_in_a_row { before.times } else { 0 };
        PassedBy { at: self.growth(), times: times.saturating_add(earlier).min(PASSED_BY) }
    }

    /// Whether `times` growths after `mark` may have left too little for an ask of at least `least`
    /// and at most `most`. `true` may be wrong, `false` never is.
    pub fn may_be_passed_by(
        &self,
        mark: Growth,
        least: &Resources,
        most: &Resources,
        times: u8,
    ) -> bool {
        let left_none =
            |grown: &&Grown| self.total(grown.node).holds(least) && !grown.available.holds(most);
        let mut since = self.last_growths.newest_since(mark).filter(left_none);
        times == 0 || since.nth(usize::from(times) - 1).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::nodes::NodeOrder;
    use crate::nodes::last_growths::LISTED;

    fn of(vcore: i64) -> Resources {
        Resources::of(&[("vcore", vcore)])
    }

    const NEVER: PassedBy = PassedBy { at: Growth::NONE, times: 0 };

    #[test]
    fn growths_without_room_are_counted_until_one_has_room() {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let n1 = nodes.insert(Arc::from("n1"), of(10), of(0), true).unwrap();
        let small = nodes.insert(Arc::from("small"), of(3), of(0), true).unwrap();
        let (large, one) = (of(8), of(2));
        let [large, one] = [&large, &one].map(NodeRequest::of);
        let mut from = PassedBy { at: nodes.growth(), times: 0 };
        let first = from;
        for expected in 1..=4_u8 {
            nodes.update(n1, None, &of(2));
            nodes.update(small, None, &of(1));
            nodes.update(n1, None, &of(0));
            nodes.update(small, None, &of(0));
            from = nodes.passed_by(&large, from);
            assert_eq!(from.times, expected.min(3), "the small node is of no use to it");
            assert_eq!(nodes.passed_by(&large, first).times, expected.min(3), "at once");
            assert_eq!(nodes.passed_by(&one, first).times, 1, "the one before left room for it");
            let may = |mark, want: &Resources| nodes.may_be_passed_by(mark, want, want, 3);
            assert_eq!(may(first.at, &of(8)), expected >= 3);
            assert!(!may(from.at, &of(8)));
        }
        assert!(from.is_enough());
        nodes.update(n1, None, &of(9));
        nodes.update(n1, None, &of(1));
        nodes.update(n1, None, &of(2));
        assert_eq!(nodes.passed_by(&large, from).times, 1, "one had room: it begins anew");
    }

    #[test]
    fn what_is_counted_is_of_nodes_that_are_there_and_open() {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let n1 = nodes.insert(Arc::from("n1"), of(10), of(0), true).unwrap();
        let grow = |nodes: &mut NodeIndex| {
            nodes.update(n1, None, &of(0));
            nodes.update(n1, None, &of(1));
        };
        let from = nodes.passed_by(&NodeRequest::of(&of(8)), NEVER);
        assert_eq!(from.times, 1, "it came, and had no room");
        nodes.set_open(n1, false);
        grow(&mut nodes);
        assert_eq!(nodes.passed_by(&NodeRequest::of(&of(8)), from).times, 1);
        nodes.set_open(n1, true);
        assert_eq!(nodes.passed_by(&NodeRequest::of(&of(8)), from).times, 2);
        grow(&mut nodes);
        nodes.remove(n1);
        assert_eq!(nodes.passed_by(&NodeRequest::of(&of(8)), from).times, 1);
    }

    #[test]
    fn a_list_that_is_full_forgets_the_oldest() {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let n1 = nodes.insert(Arc::from("n1"), of(10), of(0), true).unwrap();
        for _ in 0..200 {
            nodes.update(n1, None, &of(1));
            nodes.update(n1, None, &of(0));
        }
        assert_eq!(nodes.last_growths.0.len(), LISTED);
        assert!(nodes.passed_by(&NodeRequest::of(&of(8)), NEVER).is_enough());
    }
}
