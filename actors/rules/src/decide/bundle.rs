//! Places for a bundle: all members of a gang get a node at once, or none does.
//!
//! # The search
//! 1. Groups that have to stay in one domain come first (`topology`), then members that require a
//!    node, since they can use no other. Then come all other groups, those with the larger share of
//!    the partition first; groups of equal shares are in the order of their declaration. The share
//!    is that of the resource of which a group wants most. Members of a group are sorted by size,
//!    the larger first, and members of equal size by the order of their asks.
//! 2. Each member takes the first node in the partition's order that has capacity. The amount that
//!    it takes counts for the next member: in what the node has left, and in the order of nodes.
//! 3. If a member finds no node, everything is given back, and all members are placed again, each
//!    on the fullest node with capacity: small members that were spread may have left no node for a
//!    large one.
//! 4. If a member finds no node again, nothing is kept, and the result is how many members lack a
//!    place.
//!
//! A gang that has a nomination gets its reserved places instead ([`rooms`]).
//!
//! The search for n members takes time in proportion to n × log(nodes), also without result. With a
//! topology, it takes time in proportion to the number of domains, too. A search that takes longer
//! than one step continues in a later one ([`find_within`]).
//!
//! # When to search again
//! If all members of a bundle are of one size, the bundle fits exactly when the places on all nodes
//! add up to its members, in whatever order they are taken. So it is due again when the nodes that
//! grew since could provide the missing places, and there are enough places in all
//! ([`BundleWaits`]). If a thousand equal gangs wait for the same places, one takes them, and no
//! other search is made for the others. Any other bundle is due again when a node grew that can
//! take one of its members; if a group found no domain, the node has to be in a domain whose nodes
//! together have enough for such a group.
//!
//! # Invariants
//! * After a search without result the index is as it was, and no ask is woken by the amounts that
//!   were taken and given back.
//! * A bundle of one size that fits now is due.
//!
//! ```
//! use monoceros_rules::decide::bundle::{self, Group, Members};
//! use monoceros_rules::nodes::{NodeIndex, NodeOrder, NodeRequest};
//! use monoceros_rules::values::resources::Resources;
//! use monoceros_rules::waiting::BundleWaits;
//! use std::sync::Arc;
//!
//! let vcores = |n| Resources::of(&[("vcore", n)]);
//! let mut nodes = NodeIndex::new(NodeOrder::default());
//! let n1 = nodes.insert(Arc::from("n1"), vcores(8), vcores(2), true)?;
//! let two = vcores(2);
//! let members = Members { request: NodeRequest::of(&two), count: 3, tags: None };
//! let group = Group { members: vec![members], ..Group::default() };
//!
//! let bundle = [group];
//! let shortage = bundle::find(&mut nodes, &bundle).unwrap_err();
//! assert_eq!(shortage.lacks, 2, "one of three would find a place");
//! let mut waits = BundleWaits::new(&bundle, &shortage, nodes.growth());
//! nodes.update(n1, None, &vcores(3));
//! assert!(!waits.is_due(&nodes), "still one place");
//! nodes.update(n1, None, &vcores(6));
//! assert!(waits.is_due(&nodes));
//! assert_eq!(bundle::find(&mut nodes, &bundle).unwrap().places().len(), 3);
//! # Ok::<(), monoceros_rules::nodes::NodeExists>(())
//! ```

pub mod rooms;
mod search;
#[cfg(test)]
mod tests;
mod topology;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::nodes::{Domain, Fits, NodeIndex, NodeRequest, Taken};
use crate::order::shares::{compare_shares, shares};
use crate::specs::declaration::Topology;
use crate::specs::tags::Tags;
use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::resources::Resources;
use crate::waiting::BundleWaits;

pub use search::{Paused, Unfound, find, find_within};

/// The members of one task group, in the order of their asks.
#[derive(Clone, Debug, Default)]
pub struct Group<'a> {
    /// Equal members that follow each other.
    pub members: Vec<Members<'a>>,
    /// The topology: where the members are relative to each other.
    pub topology: Option<&'a Topology>,
    /// Domains that the group must not use.
    pub avoid: &'a [Domain],
}

/// Members of a group with equal requests for a node.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    /// The request of each for a node.
    pub request: NodeRequest<'a>,
    /// The number of members.
    pub count: u32,
    /// Their tags, by which placement constraints count them.
    pub tags: Option<&'a Tags>,
}

/// The position of members in a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MembersAt {
    /// The index of the group in the bundle.
    pub group: usize,
    /// The index of the members in the group.
    pub members: usize,
}

/// A node for one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The members that it is for: one of them.
    pub of: MembersAt,
    /// The node.
    pub node: NodeSlot,
}

/// Places for all members of a bundle. They are taken from the index until they are
/// [given back](Self::undo).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    places: Vec<Place>,
    taken: Taken,
    /// The domains of the groups that have to stay in one domain.
    chosen: Vec<Chosen>,
}

/// The domain of a group that has to stay in one domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// The index of the group in the bundle.
    pub group: usize,
    /// The domain.
    pub domain: Domain,
    /// Whether the group has moved to this domain to make way for another.
    has_moved: bool,
}

/// The missing places of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    /// The first members of which one found no place.
    pub of: MembersAt,
    /// The number of members that find no place of that size. For a group without a domain, the
    /// number that found no place in the domain where most did.
    pub lacks: u64,
    /// The same number by groups: members of each group that find no place, with their number.
    /// Members of other sizes, and members that may use other nodes, were not tried.
    pub short: Vec<(MembersAt, u64)>,
    /// Set if no domain takes the whole group.
    pub domain: Option<NoDomain>,
}

/// The attribute, and the best domain, of a group that no domain takes as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoDomain {
    /// The attribute.
    pub key: Arc<str>,
    /// The value where most members found a place; `None`: no node has the attribute.
    pub value: Option<Arc<str>>,
}

/// How a node is chosen for a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum How {
    /// The first node with capacity, in the order of nodes.
    #[default]
    First,
    /// The fullest node with capacity.
    Tightest,
}

impl How {
    fn choose(self, nodes: &NodeIndex, request: &NodeRequest<'_>) -> Option<NodeSlot> {
        match self {
            Self::First => nodes.first(request),
            Self::Tightest => nodes.tightest(request),
        }
    }
}

/// Returns the members that lack places of one size, by groups with their number: `first` of the
/// first members in `order`, and all members behind them that are of the same size and could use no
/// other nodes.
fn short_of_room(bundle: &[Group<'_>], order: &[MembersAt], first: u32) -> Vec<(MembersAt, u64)> {
    let Some((of, later)) = order.split_first() else { return Vec::new() };
    let request = &of.within(bundle).request;
    let mut short = vec![(*of, u64::from(first))];
    for at in later {
        let other = at.within(bundle);
        let is_bound_alike =
            at.group == of.group || (request.wants_only_room() && other.request.wants_only_room());
        if !is_bound_alike || !other.request.resources.same_amount(request.resources) {
            continue;
        }
        match short.iter_mut().find(|(known, _)| known.group == at.group) {
            Some((_, lacks)) => *lacks += u64::from(other.count),
            None => short.push((*at, u64::from(other.count))),
        }
    }
    short
}

/// Returns the members for which there are too few places even if the rest of the bundle takes
/// none, by groups with their number. It is for bundles that no search has tried. `fits` returns
/// which nodes members may use according to the nodes alone; it is called for the first member of
/// each group.
pub fn short_alone(
    nodes: &NodeIndex,
    bundle: &[Group<'_>],
    fits: impl Fn(MembersAt) -> Fits,
) -> Vec<(MembersAt, u64)> {
    let order = order(bundle, nodes.capacity());
    let is_free = |of: &&MembersAt| of.within(bundle).request.required.is_none();
    let order: Vec<MembersAt> = order.iter().filter(is_free).copied().collect();
    let mut of_groups = vec![Fits::Unknown; bundle.len()];
    for (group, fits_of) in of_groups.iter_mut().enumerate() {
        let first = order.iter().find(|of| of.group == group);
        *fits_of = first.map(|of| fits(*of)).unwrap_or_default();
    }
    let mut known: SmallVec<[(&Resources, &Fits); 4]> = SmallVec::new();
    let mut looked_at = 0;
    for (at, of) in order.iter().enumerate() {
        let members = of.within(bundle);
        let request = &members.request;
        let fits = &of_groups[of.group];
        let shares = |(size, of): &(&Resources, &Fits)| {
            of.is_same(fits) && size.same_amount(request.resources)
        };
        // Members that want the same amount of the same nodes, and have no other condition, share
        // the places: the last of them have none.
        if request.wants_only_room() && known.iter().any(shares) {
            continue;
        }
        looked_at += 1;
        if looked_at > LOOKED_AT {
            break;
        }
        if !request.wants_only_room() {
            let all = u64::from(members.count);
            let lacks = all - nodes.places(request, fits, all);
            if lacks > 0 {
                return vec![(*of, lacks)];
            }
            continue;
        }
        known.push((request.resources, fits));
        let is_alike = |other: &&MembersAt| {
            let request = &other.within(bundle).request;
            request.wants_only_room()
                && request.resources.same_amount(members.request.resources)
                && of_groups[other.group].is_same(fits)
        };
        let alike: Vec<&MembersAt> = order[at..].iter().filter(is_alike).collect();
        let all = alike.iter().map(|of| u64::from(of.within(bundle).count)).sum();
        let mut places = nodes.places(request, fits, all);
        if places == all {
            continue;
        }
        let mut short: Vec<(MembersAt, u64)> = Vec::new();
        for of in alike {
            let count = u64::from(of.within(bundle).count);
            let n_placed = places.min(count);
            places -= n_placed;
            match short.iter_mut().find(|(known, _)| known.group == of.group) {
                _ if n_placed == count => {}
                Some((_, lacks)) => *lacks += count - n_placed,
                None => short.push((*of, count - n_placed)),
            }
        }
        return short;
    }
    Vec::new()
}

/// The number of different members whose places are counted: each count reads every node.
const LOOKED_AT: usize = 20;

impl Found {
    /// Returns the place of each member, in the order of the search.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Returns the domains of the groups that have to stay in one domain.
    pub fn domains(&self) -> &[Chosen] {
        &self.chosen
    }

    /// Returns the domains of the groups that have to stay in one domain, each with the index of
    /// its group.
    pub fn chosen(&self) -> impl Iterator<Item = (usize, &Domain)> {
        self.chosen.iter().map(|chosen| (chosen.group, &chosen.domain))
    }

    /// Returns the domain of the group at this index of the bundle, if it has to stay in one
    /// domain.
    pub fn domain_of(&self, group: usize) -> Option<&Domain> {
        self.chosen.iter().find(|chosen| chosen.group == group).map(|chosen| &chosen.domain)
    }

    fn take(&mut self, nodes: &mut NodeIndex, members: &Members<'_>, place: Place) {
        self.taken.take(nodes, place.node, members.request.resources);
        self.taken.suppose(nodes, place.node, members.tags);
        self.places.push(place);
    }

    fn give(&mut self, nodes: &mut NodeIndex, members: &Members<'_>, place: Place) {
        self.taken.give(nodes, place.node, members.request.resources);
        self.taken.suppose_less(nodes, place.node, members.tags);
    }

    /// Moves one member to another node. `request` excludes the nodes that refused the member.
    /// Returns the node. If there is none, the member has no place any more, and the caller has to
    /// give back the bundle.
    pub fn move_member(
        &mut self,
        nodes: &mut NodeIndex,
        place: usize,
        request: &NodeRequest<'_>,
        tags: Option<&Tags>,
    ) -> Option<NodeSlot> {
        let place = &mut self.places[place];
        self.taken.give(nodes, place.node, request.resources);
        self.taken.suppose_less(nodes, place.node, tags);
        let of = place.of.group;
        let domain = self.chosen.iter().find(|chosen| chosen.group == of);
        let domains = domain.map_or(request.domains, |it| std::slice::from_ref(&it.domain));
        let node = nodes.first(&NodeRequest { domains, ..*request })?;
        self.taken.take(nodes, node, request.resources);
        self.taken.suppose(nodes, node, tags);
        place.node = node;
        Some(node)
    }

    /// Keeps the places taken. Constraints no longer count the members as supposed allocations;
    /// each is counted when it is booked.
    pub fn keep(&mut self, nodes: &mut NodeIndex) {
        self.taken.suppose_nothing(nodes);
    }

    /// Gives back all places.
    pub fn undo(&mut self, nodes: &mut NodeIndex) {
        self.taken.undo(nodes);
        self.places.clear();
        self.chosen.clear();
    }

    /// Gives back all places, and returns them for a search that continues later.
    pub fn pause(mut self, nodes: &mut NodeIndex) -> Paused {
        self.taken.undo(nodes);
        Paused::with(self.places, self.chosen)
    }
}

impl MembersAt {
    fn within<'b, 'a>(&self, bundle: &'b [Group<'a>]) -> &'b Members<'a> {
        &bundle[self.group].members[self.members]
    }
}

/// Returns the order in which members are placed.
fn order(bundle: &[Group<'_>], total: &Resources) -> Vec<MembersAt> {
    let sums: Vec<Resources> = bundle.iter().map(Group::sum).collect();
    let groups = largest_first(sums.iter(), total);
    let of_group = |group: usize| {
        let sizes = bundle[group].members.iter().map(|members| members.request.resources);
        let mut order = largest_first(sizes, total);
        if bundle[group].topology.is_some() {
            // Members of a group with a topology are placed together, those that require a node
            // first.
            order.sort_by_key(|at| bundle[group].members[*at].request.required.is_none());
        }
        order.into_iter().map(move |members| MembersAt { group, members })
    };
    let mut order: Vec<MembersAt> = groups.into_iter().flat_map(of_group).collect();
    order.sort_by_key(|of| match bundle[of.group].topology {
        Some(topology) if topology.required.is_some() => 0,
        None if of.within(bundle).request.required.is_some() => 1,
        _ => 2,
    });
    order
}

/// Returns the indices of amounts in order of their shares, the largest first. Equal amounts keep
/// their order.
fn largest_first<'a>(
    amounts: impl ExactSizeIterator<Item = &'a Resources> + Clone,
    total: &Resources,
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..amounts.len()).collect();
    // In the usual case all amounts are equal.
    let first = amounts.clone().next();
    if amounts.clone().any(|amount| Some(amount) != first) {
        let shares: Vec<_> = amounts.map(|amount| shares(amount, Some(total))).collect();
        order.sort_by(|left, right| compare_shares(&shares[*right], &shares[*left]));
    }
    order
}

impl Group<'_> {
    /// Returns the attribute whose domain has to hold all members.
    fn required(&self) -> Option<&str> {
        self.topology?.required.as_deref()
    }

    /// Returns the amount that its members want of open nodes together. Members that require a node
    /// are not counted, since they may use a closed one.
    fn wants_open(&self) -> Resources {
        let mut sum = Resources::new();
        for members in self.members.iter().filter(|it| it.request.required.is_none()) {
            sum.add(&members.request.resources.times(i64::from(members.count)));
        }
        sum
    }

    fn sum(&self) -> Resources {
        let mut sum = Resources::new();
        for members in &self.members {
            sum.add(&members.request.resources.times(i64::from(members.count)));
        }
        sum
    }
}

/// The number of sizes that are distinguished.
const SIZES_MAX: usize = 16;

/// Returns the different sizes in their order; at most one more than [`SIZES_MAX`].
fn distinct_sizes<'a>(all: impl Iterator<Item = &'a Resources>) -> SmallVec<[Resources; 1]> {
    let mut sizes: SmallVec<[Resources; 1]> = SmallVec::new();
    for size in all {
        if !sizes.iter().any(|known| known.same_amount(size)) {
            sizes.push(size.clone());
        }
        if sizes.len() > SIZES_MAX {
            break;
        }
    }
    sizes
}

impl BundleWaits {
    /// What a bundle waits for after this shortage, at this growth of the index.
    pub fn new(bundle: &[Group<'_>], shortage: &Shortage, at: Growth) -> Self {
        let members = || bundle.iter().flat_map(|group| &group.members);
        let mut sizes = distinct_sizes(members().map(|members| members.request.resources));
        let are_alike = sizes.len() == 1;
        if sizes.len() > SIZES_MAX {
            let mut least = sizes[0].clone();
            members().for_each(|members| least.lower_to(members.request.resources));
            sizes = SmallVec::from_elem(least, 1);
        }
        let only_room_counts = members().all(|members| members.request.wants_only_room())
            && bundle.iter().all(|group| group.required().is_none());
        let is_of_one_size = are_alike && only_room_counts;
        let (lacks, needs) = if is_of_one_size {
            (shortage.lacks, members().map(|members| u64::from(members.count)).sum())
        } else {
            (1, 0)
        };
        let domains = if shortage.domain.is_some() {
            let wants =
                |group: &Group<'_>| Some((Arc::from(group.required()?), group.wants_open()));
            bundle.iter().filter_map(wants).collect()
        } else {
            Vec::new()
        };
        Self::with(at, sizes, lacks, needs, domains)
    }
}
