//! Checks of a single actor, made in the step that visits it.
//!
//! # Why so little
//! [`super::Facts`] compares the facts of all actors, and visits all of them in one step for that.
//! A running service is checked again and again while it decides, so each check compares only facts
//! of one moment, and each actor is visited at its own moment.
//!
//! ```
//! use monoceros_rules::audit::sound::is_balanced;
//! use monoceros_rules::values::resources::Resources;
//! let vcores = |n| Resources::of(&[("vcore", n)]);
//! assert!(is_balanced(&vcores(8), &vcores(5), &vcores(1), &vcores(2)));
//! assert!(!is_balanced(&vcores(8), &vcores(5), &vcores(1), &vcores(3)));
//! ```

use crate::allocations::Allocation;
use crate::books::Books;
use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use crate::values::resources::Resources;

/// Whether the capacity of a node is the sum of its allocations, the use by others, and the
/// available amount.
pub fn is_balanced(
    capacity: &Resources,
    allocated: &Resources,
    occupied: &Resources,
    available: &Resources,
) -> bool {
    let parts = [allocated, occupied, available];
    let names = parts.iter().chain([&capacity]).flat_map(|amount| amount.entries());
    names.map(|(name, _)| name).all(|name| {
        let sum: i128 = parts.iter().map(|part| i128::from(part.get(name))).sum();
        sum == i128::from(capacity.get(name))
    })
}

/// The fault of an allocation that a node, or an application, lists.
#[derive(Clone, Debug)]
pub enum Orphan<'b> {
    /// No such allocation exists.
    Unknown,
    /// It belongs to another application or node.
    Strange(&'b Allocation),
}

/// Returns the fault of an allocation that a node lists. `lives`: whether its application exists.
pub fn orphan_on_node(
    id: AllocationId,
    node: NodeSlot,
    books: &Books,
    lives: impl Fn(ApplicationSlot) -> bool,
) -> Option<Orphan<'_>> {
    let Some(entry) = books.allocations.get(id) else { return Some(Orphan::Unknown) };
    let is_sound = entry.node == node && lives(entry.application);
    (!is_sound).then_some(Orphan::Strange(entry))
}

/// Returns the fault of an allocation that an application lists. `is_there`: whether its node
/// exists.
pub fn orphan_of_application(
    id: AllocationId,
    application: ApplicationSlot,
    books: &Books,
    is_there: impl Fn(NodeSlot) -> bool,
) -> Option<Orphan<'_>> {
    let Some(entry) = books.allocations.get(id) else { return Some(Orphan::Unknown) };
    let is_sound = entry.application == application && is_there(entry.node);
    (!is_sound).then_some(Orphan::Strange(entry))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::nodes::NodeOrder;
    use crate::specs::ask::AskSpec;

    #[test]
    fn a_node_is_balanced_name_by_name_also_where_a_name_is_missing() {
        let of = Resources::of;
        let balanced = |capacity: &[(&str, i64)], allocated: &[(&str, i64)], available| {
            is_balanced(&of(capacity), &of(allocated), &of(&[("m", 1)]), &of(available))
        };
        assert!(balanced(&[("m", 4)], &[("m", 2)], &[("m", 1)]));
        assert!(balanced(&[("m", 4)], &[("m", 9)], &[("m", -6)]), "over-committed is no fault");
        assert!(!balanced(&[("m", 4)], &[("m", 2)], &[]));
        assert!(!balanced(&[("m", 1)], &[("v", 2)], &[]), "a name that the node does not have");
    }

    #[test]
    fn an_allocation_without_application_or_node_is_an_orphan_until_it_goes() {
        let mut books = Books::new(NodeOrder::default());
        let mut node = |id: &str| {
            let none = Resources::new;
            books.nodes.insert(Arc::from(id), none(), none(), true).unwrap()
        };
        let (here, elsewhere) = (node("n1"), node("n2"));
        let (owner, other) = (ApplicationSlot::at(0), ApplicationSlot::at(1));
        let spec = Arc::new(AskSpec::new("k", Resources::new()));
        let id = books.allocations.insert(Allocation::new(owner, spec, here, 0, 0));
        let on = |node, lives: bool| orphan_on_node(id, node, &books, |_| lives).is_some();
        assert_eq!([on(here, true), on(here, false), on(elsewhere, true)], [false, true, true]);
        let of = |who, there: bool| orphan_of_application(id, who, &books, |_| there).is_some();
        assert_eq!([of(owner, true), of(owner, false), of(other, true)], [false, true, true]);
        books.allocations.remove(id);
        let gone = orphan_on_node(id, here, &books, |_| true);
        assert!(matches!(gone, Some(Orphan::Unknown)));
    }
}
