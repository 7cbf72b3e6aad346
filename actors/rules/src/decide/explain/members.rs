//! Computes, from the present sums, what members of an undecided gang lack on nodes. No search for
//! the gang is needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::gang::ShortDomain;
use super::required_of;
use super::why::Why;
use crate::applications::application::Application;
use crate::asks::{Ask, Asks, Bundled};
use crate::nodes::{NodeIndex, NodeRequest};
use crate::specs::ask::TaskGroup;
use crate::values::resources::Resources;

/// The maximum number of groups with a required domain, and of required nodes, that are examined.
const COUNTED: usize = 20;

/// Returns the obstacles of members that require a node, for each such node.
pub fn required_nodes(asks: &Asks, bundled: &Bundled, nodes: &NodeIndex) -> Vec<Why> {
    let mut wanted: BTreeMap<&Arc<str>, Resources> = BTreeMap::new();
    for (slot, count) in bundled.iter().flatten() {
        let ask = asks.ask(*slot);
        let Some(node) = &ask.required_node else { continue };
        if wanted.len() < COUNTED || wanted.contains_key(node) {
            let of_node = wanted.entry(node).or_default();
            of_node.add(&ask.resources.times(i64::from(*count)));
        }
    }
    wanted.iter().filter_map(|(node, want)| required_of(nodes, node, want)).collect()
}

/// Returns the first group that has to stay in one domain and is too large for each domain by
/// itself. Only groups whose members are of one size are counted.
pub fn short_of_domain(
    book: &Application,
    bundled: &Bundled,
    nodes: &NodeIndex,
) -> Option<ShortDomain> {
    let groups = book.undecided()?.groups().iter().zip(bundled);
    let keyed = groups.filter_map(|(group, members)| Some((group.required_domain()?, members)));
    keyed.take(COUNTED).find_map(|(key, members)| {
        let (slot, _) = members.first()?;
        let ask = book.asks.ask(*slot);
        let mut short = ShortDomain {
            group: ask.task_group.clone().unwrap_or_default(),
            size: Resources::clone(&ask.resources),
            members: members.iter().map(|(_, count)| u64::from(*count)).sum(),
            lacks: 0,
            key: Arc::from(key),
            value: None,
        };
        count_places(book, &mut short, nodes);
        (short.lacks > 0).then_some(short)
    })
}

/// Counts the members of a group that are short in the domain that takes most of them. Counts
/// nothing unless all members are of one size and only capacity keeps them off nodes.
pub fn count_places(book: &Application, short: &mut ShortDomain, nodes: &NodeIndex) {
    let is_plain =
        |ask: &Ask| ask.request().wants_only_room() && ask.resources.same_amount(&short.size);
    if !asks_of(book, &short.group).iter().all(|ask| is_plain(ask)) {
        return;
    }
    let request = NodeRequest::of(&short.size);
    let places = nodes.places_by_domain(&short.key, &request, short.members);
    let nearest = places.into_iter().rev().max_by_key(|(_, places)| *places);
    match nearest {
        None => (short.lacks, short.value) = (short.members, None),
        // There are enough places for this group; other groups of the gang may have taken them.
        Some((_, places)) if places >= short.members => {}
        Some((value, places)) => {
            (short.lacks, short.value) = (short.members - places, Some(value));
        }
    }
}

/// Returns the asks that are decided for a group of an undecided gang.
pub fn asks_of<'a>(book: &'a Application, group: &TaskGroup) -> Vec<&'a Ask> {
    let bundled = book.undecided().and_then(|native| native.bundle(&book.asks).ok());
    let asks = bundled.iter().flatten().flatten().map(|(slot, _)| book.asks.ask(*slot));
    asks.filter(|ask| ask.task_group.as_ref() == Some(group)).collect()
}

/// Returns the conditions that the placement constraint of an ask sets for nodes; `None` if it has
/// none.
pub fn constraint_of(ask: &Ask, nodes: &NodeIndex) -> Option<String> {
    let conditions = nodes.excluding(&ask.wish()?.wish());
    let conditions: Vec<_> = conditions.into_iter().map(|it| it.condition).collect();
    (!conditions.is_empty()).then(|| conditions.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::NodeOrder;
    use crate::specs::declaration::{DeclaredGroup, Topology};
    use crate::values::ids::ApplicationSlot;

    #[test]
    fn a_group_is_short_where_most_have_places() {
        let vcores = |n| Resources::of(&[("vcore", n)]);
        let topology = Topology { required: Some("rack".to_owned()), ..Topology::default() };
        let workers = DeclaredGroup::new("w", 3, Some(vcores(1)));
        let workers = DeclaredGroup { topology: Some(topology), ..workers };
        let mut book = Application::small(Some(workers));
        book.ask_internally(ApplicationSlot::at(0), 0, || 1);
        let (_, bundled) = book.undecided_bundle().unwrap();
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let [_, fuller] = [("n0", "r0", 1), ("n1", "r1", 2)].map(|(id, rack, free)| {
            let node = nodes.insert(Arc::from(id), vcores(9), vcores(free), true).unwrap();
            nodes.set_attributes(node, &Arc::new([("rack", rack)].into_iter().collect()));
            node
        });
        let short = short_of_domain(&book, &bundled, &nodes).unwrap();
        assert_eq!((short.lacks, short.value.as_deref()), (1, Some("r1")));
        nodes.update(fuller, None, &vcores(3));
        assert_eq!(short_of_domain(&book, &bundled, &nodes), None);
        assert_eq!(asks_of(&book, &short.group).len(), 1, "the internal one");
    }
}
