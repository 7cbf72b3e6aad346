//! Keeps, during one search for pairs, the members that found no place, so that equal members are
//! not each compared with every place.
//!
//! # Invariants
//! * An entry holds as long as nothing changes, and is dropped with its search.
//! * A member is passed over only if an examination of each place would find none that it may take,
//!   and none that is too small for it.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use crate::allocations::Allocation;
use crate::asks::Ask;
use crate::books::Books;
use crate::nodes::NodeRequest;
use crate::specs::ask::TaskGroup;
use crate::values::ids::{AllocationId, NodeSlot};
use crate::values::resources::Resources;

/// The members of each task group that found no place while nothing changes. If the first of a
/// thousand members may take none of a thousand places, equal members need not examine each place.
#[derive(Default)]
pub(super) struct WithoutResult<'a> {
    groups: Vec<InGroup<'a>>,
}

/// The free places of a task group, and the requests that may take none of them.
struct InGroup<'a> {
    name: &'a TaskGroup,
    /// The least amount of any of the places, by resource type.
    least: Resources,
    nodes: FxHashSet<NodeSlot>,
    /// The last few different requests that found no place.
    requests: VecDeque<NodeRequest<'a>>,
}

/// The maximum number of requests without result that are kept.
const KNOWN_MOST: usize = 8;

impl<'a> WithoutResult<'a> {
    /// Notes that this member may take none of the free places of its group.
    pub(super) fn note<'p>(
        &mut self,
        member: &'a Ask,
        free: impl Iterator<Item = (AllocationId, &'p Allocation)>,
    ) {
        let (request, Some(name)) = (member.request(), member.member_of()) else { return };
        if !request.excluded.is_empty() {
            return;
        }
        let known = self.groups.iter().position(|it| it.name == name);
        let at = known.unwrap_or_else(|| {
            self.groups.push(InGroup::of(name, free));
            self.groups.len() - 1
        });
        let requests = &mut self.groups[at].requests;
        if requests.len() == KNOWN_MOST {
            requests.pop_front();
        }
        requests.push_back(request);
    }

    /// Whether this member may take none of the places either, and none is too small for it.
    pub(super) fn covers(&self, member: &Ask, books: &Books) -> bool {
        let of_group = |it: &&InGroup<'_>| Some(it.name) == member.member_of();
        let Some(group) = self.groups.iter().find(of_group) else { return false };
        let request = member.request();
        let is_elsewhere =
            |node: &str| books.nodes.slot_of(node).is_none_or(|node| !group.nodes.contains(&node));
        group.least.holds(&member.resources)
            && (request.required.is_some_and(is_elsewhere)
                || group.requests.iter().any(|other| may_use_the_same(other, &request)))
    }
}

impl<'a> InGroup<'a> {
    fn of<'p>(
        name: &'a TaskGroup,
        free: impl Iterator<Item = (AllocationId, &'p Allocation)>,
    ) -> Self {
        let mut nodes = FxHashSet::default();
        let mut least: Option<Resources> = None;
        for (_, place) in free {
            nodes.insert(place.node);
            match &mut least {
                None => least = Some(place.resources().clone()),
                Some(least) if least != place.resources() => {
                    for (name, quantity) in least.clone().entries() {
                        least.set(name, quantity.min(place.resources().get(name)));
                    }
                }
                Some(_) => {}
            }
        }
        Self { name, least: least.unwrap_or_default(), nodes, requests: VecDeque::new() }
    }
}

/// Whether two members of one group may use the same nodes according to their requests.
fn may_use_the_same(one: &NodeRequest<'_>, other: &NodeRequest<'_>) -> bool {
    let is_same_wish = match (&one.wish, &other.wish) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            one.terms.constraint() == other.terms.constraint()
                && (one.open, one.mates) == (other.open, other.mates)
        }
        _ => false,
    };
    is_same_wish && one.required == other.required && one.domains == other.domains
}
