//! A declared gang in the full search: all members get their places by plain scans of all nodes, or
//! none does; see [`crate::decide::bundle`].

use std::collections::BTreeSet;
use std::sync::Arc;

use super::constraints::{Counted, alternatives};
use super::search::Search;
use super::{ApplicationFact, AskFact, BundleFact, Decision, NodeFact};
use crate::nodes::NodeSortPolicy;
use crate::order::keys::AskKey;
use crate::order::shares::{compare_shares, shares};
use crate::values::resources::{Limits, Resources};

/// What nodes have left while places are looked for, and where members have theirs.
struct Places<'a> {
    left: Vec<(&'a NodeFact, Resources)>,
    /// The node of each member, in the order in which they were looked for.
    chosen: Vec<(&'a AskFact, usize)>,
}

impl Search<'_> {
    /// The decision about an undecided gang, if all of its members have places.
    pub(super) fn bundle(
        &self,
        application: &ApplicationFact,
        bundle: &BundleFact,
        headroom: &Limits,
    ) -> Option<Decision> {
        let groups = groups(application, bundle)?;
        let mut total = Resources::new();
        for ask in groups.iter().flatten() {
            total.add(&ask.resources);
        }
        let of_user = self.facts.user_headroom(application);
        if bundle.in_the_air || bundle.rests || !headroom.allows(&total) || !of_user.allows(&total)
        {
            return None;
        }
        let in_order = self.in_order(groups);
        let mut places = self.places(application, &in_order, false);
        if places.is_none() && self.order.policy() == NodeSortPolicy::Fair {
            places = self.places(application, &in_order, true);
        }
        let places = self.where_predicates_pass(application, places?)?;
        let member = |(ask, node): &(&AskFact, usize)| {
            let name = if ask.internal {
                Arc::from(ask.task_group.as_deref().map_or("", String::as_str))
            } else {
                Arc::clone(&ask.key)
            };
            (ask.internal, name, Arc::clone(&places.left[*node].0.id))
        };
        let mut members: Vec<_> = places.chosen.iter().map(member).collect();
        members.sort();
        Some(Decision::Gang { application: Arc::clone(&application.id), members })
    }

    /// All members, each as one ask, in the order in which places are looked for.
    fn in_order<'a>(&self, groups: Vec<Vec<&'a AskFact>>) -> Vec<&'a AskFact> {
        let share = |amount: &Resources| shares(amount, Some(&self.facts.capacity));
        let mut groups: Vec<_> = groups
            .into_iter()
            .map(|mut group| {
                group.sort_by(|a, b| compare_shares(&share(&b.resources), &share(&a.resources)));
                let mut sum = Resources::new();
                for ask in &group {
                    sum.add(&ask.resources);
                }
                (share(&sum), group)
            })
            .collect();
        groups.sort_by(|a, b| compare_shares(&b.0, &a.0));
        let mut members: Vec<_> = groups.into_iter().flat_map(|(_, group)| group).collect();
        members.sort_by_key(|ask| ask.required_node.is_none());
        members
    }

    fn places<'a>(
        &'a self,
        application: &ApplicationFact,
        members: &[&'a AskFact],
        fullest: bool,
    ) -> Option<Places<'a>> {
        let left = self.nodes.iter().map(|node| (*node, node.available.clone())).collect();
        let mut places = Places { left, chosen: Vec::new() };
        for ask in members {
            let node = self.node_for(&places, application, ask, &BTreeSet::new(), fullest)?;
            places.left[node].1.subtract(&ask.resources);
            places.chosen.push((ask, node));
        }
        Some(places)
    }

    /// The node that comes first, or last, in the order of nodes as they would be, and can take the
    /// member.
    fn node_for(
        &self,
        places: &Places<'_>,
        application: &ApplicationFact,
        ask: &AskFact,
        refused: &BTreeSet<usize>,
        fullest: bool,
    ) -> Option<usize> {
        let required = ask.required_node.as_ref();
        let can_take = |at: &usize| {
            let (node, available) = &places.left[*at];
            let may_be =
                required.map_or_else(|| self.is_for_all(node), |required| *required == node.id);
            may_be
                && !refused.contains(at)
                && !ask.excluded.contains(&node.id)
                && node.total.holds(&ask.resources)
                && available.holds(&ask.resources)
        };
        let mut nodes: Vec<usize> = (0..places.left.len()).filter(can_take).collect();
        nodes.sort_by(|a, b| {
            let score = |at: usize| {
                let (node, available) = &places.left[at];
                self.order.score(&node.total, available) + 0.0
            };
            let id = |at: usize| &places.left[at].0.id;
            score(*a).total_cmp(&score(*b)).then_with(|| id(*a).cmp(id(*b)))
        });
        let pick = |nodes: &[usize]| {
            if fullest { nodes.last().copied() } else { nodes.first().copied() }
        };
        let Some((constraint, open)) = &ask.constraint else { return pick(&nodes) };
        let mut picture = self.facts.picture(application, None);
        picture.counted.extend(places.chosen.iter().map(|(ask, at)| Counted {
            node: places.left[*at].0.slot,
            tags: ask.tags.as_deref(),
            is_booked: true,
        }));
        alternatives(constraint.constraint()).iter().take(*open).find_map(|alternative| {
            let admits =
                |at: &usize| alternative.admits(constraint, places.left[*at].0.slot, &picture);
            pick(&nodes.iter().copied().filter(admits).collect::<Vec<_>>())
        })
    }

    /// Moves each member away from nodes that refuse it; none, if one has nowhere to go.
    fn where_predicates_pass<'a>(
        &'a self,
        application: &ApplicationFact,
        mut places: Places<'a>,
    ) -> Option<Places<'a>> {
        let mut refusals: Vec<(Arc<str>, usize)> = Vec::new();
        for member in 0..places.chosen.len() {
            let (ask, mut node) = places.chosen[member];
            while !ask.internal && !(self.passes)(&ask.key, &places.left[node].0.id, true) {
                refusals.push((Arc::clone(&ask.key), node));
                let of_ask = refusals.iter().filter(|(key, _)| *key == ask.key);
                let refused: BTreeSet<usize> = of_ask.map(|(_, node)| *node).collect();
                places.left[node].1.add(&ask.resources);
                let chosen = places.chosen.remove(member);
                let found = self.node_for(&places, application, ask, &refused, false);
                places.chosen.insert(member, chosen);
                node = found?;
                places.left[node].1.subtract(&ask.resources);
                places.chosen[member].1 = node;
            }
        }
        Some(places)
    }
}

/// The asks of each group's members, one for each member: the first in order, then internal ones.
/// None, if there are too few.
fn groups<'a>(
    application: &'a ApplicationFact,
    bundle: &BundleFact,
) -> Option<Vec<Vec<&'a AskFact>>> {
    let mut groups = Vec::new();
    for (name, needed) in &bundle.groups {
        let of_group = application.asks.iter().filter(|ask| ask.task_group.as_ref() == Some(name));
        let mut asks: Vec<&AskFact> = of_group.collect();
        asks.sort_by_key(|ask| {
            (ask.internal, AskKey::new(ask.priority, ask.created_ns, ask.sequence))
        });
        let each = asks.into_iter().flat_map(|ask| (0..ask.repeat).map(move |_| ask));
        let needed = *needed as usize;
        let members: Vec<&AskFact> = each.take(needed).collect();
        if members.len() < needed {
            return None;
        }
        groups.push(members);
    }
    Some(groups)
}
