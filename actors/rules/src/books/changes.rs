//! Changes of asks and allocations that need the books: checks whether an amount may be counted,
//! and the effects of a changed amount or specification on nodes.

use std::sync::Arc;

use super::Books;
use crate::allocations::{Allocation, Leaving};
use crate::asks::Ask;
use crate::nodes::Terms;
use crate::specs::ask::AskSpec;
use crate::specs::rejection::Rejection;
use crate::values::ids::{AllocationId, NodeSlot};
use crate::values::resources::{Resources, Sum};

/// An allocation, or a placement in flight, whose amount has changed.
#[derive(Clone, Debug)]
pub struct Resized {
    /// The node that it is on.
    pub node: NodeSlot,
    /// The change of its amount; never empty.
    pub change: Resources,
    /// Whether it holds an amount on the node. A member that waits for its placeholder on the same
    /// node does not.
    pub is_on_node: bool,
    /// Whether it is a placeholder.
    pub is_placeholder: bool,
    /// Whether it is preempted.
    pub is_victim: bool,
}

impl Books {
    /// Checks whether `more` can be counted as allocated, where nodes and quotas are not checked.
    /// `reported` was counted by the same visit and is not in the sum yet.
    pub fn may_report(
        &self,
        key: &Arc<str>,
        more: &Sum,
        reported: &Resources,
    ) -> Result<(), Rejection> {
        match self.overflows(reported, more) {
            None => Ok(()),
            Some(why) => Err(Rejection::Overflow { id: Arc::clone(key), why }),
        }
    }

    /// Checks whether all allocations and placements of an ask can have this size.
    pub fn may_resize(
        &self,
        ask: &Ask,
        to: &Resources,
        reported: &Resources,
    ) -> Result<(), Rejection> {
        let ids = ask.live.iter().chain(&ask.search.unsettled);
        let mut growth = Sum::default();
        for held in ids.filter_map(|id| self.allocations.get(*id)) {
            growth.add(to);
            growth.subtract(held.resources());
        }
        self.may_report(&ask.key, &growth, reported)
    }

    /// Makes the placement constraint of an ask ready for searches. `None` if it has none.
    pub fn learn(&mut self, spec: &AskSpec) -> Result<Option<Arc<Terms>>, Rejection> {
        let Some(constraint) = &spec.constraint else { return Ok(None) };
        let terms = self.nodes.learn(constraint, &self.allocations);
        terms.map(Some).map_err(|fault| Rejection::Constraint {
            key: Arc::clone(&spec.key),
            what: fault.to_string(),
        })
    }

    /// Changes the amount of an allocation or of a placement in flight. `None` if it has that
    /// amount already.
    pub fn resize(&mut self, id: AllocationId, to: &Resources) -> Option<Resized> {
        let entry = self.allocations.get_mut(id)?;
        let change = to.minus(entry.resources()).pruned();
        if change.is_empty() {
            return None;
        }
        entry.resize(to.clone());
        Some(Resized {
            node: entry.node,
            change,
            is_on_node: entry.held_on_node().is_some(),
            is_placeholder: entry.spec.placeholder,
            is_victim: entry.leaving == Some(Leaving::Preempted),
        })
    }

    /// Changes priority, policy and tags of an allocation: they decide who may have it preempted,
    /// and for which placement constraints it counts. Returns its node; `None` if nothing changed.
    pub fn restate(&mut self, id: AllocationId, said: &AskSpec) -> Option<NodeSlot> {
        let Self { nodes, allocations, .. } = self;
        let entry: &mut Allocation =
            allocations.get_mut(id).filter(|it| it.spec.is_restated_by(said))?;
        let is_tagged_so = entry.spec.tags == said.tags;
        Arc::make_mut(&mut entry.spec).restate(said);
        if !is_tagged_so && entry.held_on_node().is_some() {
            nodes.count(id, entry);
        }
        let node = entry.node;
        // A preemptor whose search was without result may find victims now.
        self.note_change();
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::NodeOrder;
    use crate::values::ids::ApplicationSlot;

    fn vcores(n: i64) -> Resources {
        Resources::of(&[("vcore", n)])
    }

    fn spec(amount: i64) -> AskSpec {
        AskSpec::new("a", vcores(amount))
    }

    fn books(spec: AskSpec) -> (Books, AllocationId) {
        let mut books = Books::new(NodeOrder::default());
        let (application, node) = (ApplicationSlot::at(0), NodeSlot::at(0));
        let entry = Allocation::new(application, Arc::new(spec), node, 0, 0);
        let id = books.allocations.insert(entry);
        (books, id)
    }

    #[test]
    fn same_size_changes_nothing() {
        let (mut books, id) = books(spec(2));
        assert!(books.resize(id, &vcores(2)).is_none());
        let resized = books.resize(id, &vcores(5)).unwrap();
        assert_eq!((resized.change, resized.is_on_node), (vcores(3), true));
        assert_eq!(books.resize(id, &vcores(1)).unwrap().change, vcores(-4));
    }

    #[test]
    fn restated_allocation_counts_as_a_change() {
        let (mut books, id) = books(spec(2));
        let before = books.changes();
        assert!(books.restate(id, &spec(2)).is_none());
        assert_eq!(books.changes(), before);
        let urgent = AskSpec { priority: 7, ..spec(2) };
        assert!(books.restate(id, &urgent).is_some());
        assert_ne!(books.changes(), before);
    }

    #[test]
    fn report_beyond_all_quantities_is_rejected() {
        let (mut books, _) = books(spec(2));
        books.allocated = vcores(i64::MAX - 1);
        let key = Arc::from("a");
        assert!(books.may_report(&key, &Sum::from(&vcores(1)), &Resources::new()).is_ok());
        assert!(books.may_report(&key, &Sum::from(&vcores(1)), &vcores(1)).is_err());
    }
}
