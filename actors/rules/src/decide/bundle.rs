//! Places for a bundle: all members of a gang get a node at once, or none does.
//!
//! # The search
//! 1. Groups that have to stay in one domain go first (`topology`), then members that require a
//!    node, since no other will do. Then groups with the larger share
//!    of the partition, of equal ones in the order in which they were declared; the share is that of
//!    the resource of which a group wants most. Members of a group go by size, larger ones first, of
//!    equal ones in the order of their asks.
//! 2. Each takes the first node in the partition's order that has room, and what it takes counts
//!    for the next: in what the node has left, and in the order of nodes.
//! 3. If one finds none, everything is given back, and all are looked for once more, each on the
//!    fullest node with room: small members that were spread may have left no node for a large one.
//! 4. If one finds none again, nothing is kept, and the answer is how many lack a place.
//!
//! A gang that has a nomination gets the places that are kept for it instead ([`rooms`]).
//!
//! For n members that takes time in proportion to n × log(nodes), also without result; with a
//! topology, and to the number of domains. What takes longer than one step goes on in a later one
//! ([`find_within`]).
//!
//! # When to look again
//! A bundle whose members are all of one size fits exactly when the places on all nodes add up to
//! its members, in whatever order they are taken. So it is due again when the nodes that grew since
//! could have brought the places that it lacked, and there are enough in all ([`BundleWaits`]): of a
//! thousand alike gangs that wait for the same places one takes them, and the others are not looked
//! for again. For any other bundle it is enough
//! that a node grew that can take one of its members; where a group found no domain, the node has to
//! lie in one whose nodes together have enough for such a group.
//!
//! # Invariants
//! * After a search without result the index is as it was, and nobody is woken by what was taken
//!   and given back.
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
    /// Members that follow each other and are alike.
    pub members: Vec<Members<'a>>,
    /// The topology: where the members are relative to each other.
    pub topology: Option<&'a Topology>,
    /// Domains that are not chosen for it.
    pub avoid: &'a [Domain],
}

/// Members of a group that want the same of a node.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    /// The request of each for a node.
    pub request: NodeRequest<'a>,
    /// The number of members.
    pub count: u32,
    /// Their tags, by which placement constraints count them.
    pub tags: Option<&'a Tags>,
}

/// Members of a bundle, by two indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MembersAt {
    /// The index of the group in the bundle.
    pub group: usize,
    /// The index of the members in the group.
    pub members: usize,
}

/// A node for one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which member it is for: one of these.
    pub of: MembersAt,
    /// The node.
    pub node: NodeSlot,
}

/// Places for all members of a bundle. They are taken from the index until they are
/// [given back](Self::undo).
#[derive(Debug, Default)]
pub struct Found {
    places: Vec<Place>,
    taken: Taken,
    /// The domains of the groups that have to stay in one.
    chosen: Vec<Chosen>,
}

/// The domain of a group that has to stay in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The index of the group in the bundle.
    pub group: usize,
    /// The domain.
    pub domain: Domain,
    /// The group has made way for another.
    has_moved: bool,
}

/// A bundle has no places for all of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The first members of which one found none.
    pub of: MembersAt,
    /// The number of members that find none for want of room of that size; of a group without a
    /// domain, the number that found none where most did.
    pub lacks: u64,
    /// The same by groups: members of each that find none, with their number. Members of other
    /// sizes, and those that may use other nodes, were not looked for.
    pub short: Vec<(MembersAt, u64)>,
    /// No domain takes the whole group.
    pub domain: Option<NoDomain>,
}

/// No domain takes a whole group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoDomain {
    /// The attribute.
    pub key: Arc<str>,
    /// The value where most members found a place; none: no node has the attribute.
    pub value: Option<Arc<str>>,
}

/// The way in which a node is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum How {
    /// The first in the order of nodes.
    #[default]
    First,
    /// The fullest with room.
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

/// The members that lack places of one size, by groups with their number: `first` of the first in
/// order, and all behind it that are of the same size and could go nowhere else.
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

/// The members for which there are too few places even if the rest of the bundle takes none: by
/// groups, with their number. For bundles that no search has looked at. `fits` says which nodes
/// members may use by what the nodes alone say; it is asked about the first member of each group.
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
        // Members that want as much of the same nodes, and nothing else, share the places: the last
        // have none.
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

/// The number of different members for which places are counted: each looks at every node.
const LOOKED_AT: usize = 20;

impl Found {
    /// The place of each member, in the order in which they were looked for.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The domains of the groups that have to stay in one.
    pub fn domains(&self) -> &[Chosen] {
        &self.chosen
    }

    /// The domains of the groups that have to stay in one, each with the index of its group.
    pub fn chosen(&self) -> impl Iterator<Item = (usize, &Domain)> {
        self.chosen.iter().map(|chosen| (chosen.group, &chosen.domain))
    }

    /// The domain of the group at this place in the bundle, if that has to stay in one.
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

    /// Looks for another node for one member, by a request that passes over those that refused it;
    /// says which it is, if there is one. Where there is none the member has no place any more, and
    /// the bundle is to be given back.
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

    /// The places are taken: what goes there is counted as it comes.
    pub fn keep(&mut self, nodes: &mut NodeIndex) {
        self.taken.suppose_nothing(nodes);
    }

    /// Gives everything back.
    pub fn undo(&mut self, nodes: &mut NodeIndex) {
        self.taken.undo(nodes);
        self.places.clear();
        self.chosen.clear();
    }

    /// Gives everything back, and says what it was: a search goes on from there later.
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

/// The order in which members are looked for.
fn order(bundle: &[Group<'_>], total: &Resources) -> Vec<MembersAt> {
    let sums: Vec<Resources> = bundle.iter().map(Group::sum).collect();
    let groups = largest_first(sums.iter(), total);
    let of_group = |group: usize| {
        let sizes = bundle[group].members.iter().map(|members| members.request.resources);
        let mut order = largest_first(sizes, total);
        if bundle[group].topology.is_some() {
            // They are looked for together.
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

/// The places of amounts in order of their shares, the largest first, of equal ones as they come.
fn largest_first<'a>(
    amounts: impl ExactSizeIterator<Item = &'a Resources> + Clone,
    total: &Resources,
) -> Vec<usize> {
    let mut order: Vec<usize> = (0..amounts.len()).collect();
    // Most often they are all the same.
    let first = amounts.clone().next();
    if amounts.clone().any(|amount| Some(amount) != first) {
        let shares: Vec<_> = amounts.map(|amount| shares(amount, Some(total))).collect();
        order.sort_by(|left, right| compare_shares(&shares[*right], &shares[*left]));
    }
    order
}

impl Group<'_> {
    /// The attribute of which all members have to be in one domain.
    fn required(&self) -> Option<&str> {
        self.topology?.required.as_deref()
    }

    /// What its members want of open nodes together: those that require a node may use a closed
    /// one.
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

/// The number of sizes that are kept apart.
const SIZES_MAX: usize = 16;

/// The sizes, each once, in their order; of more than [`SIZES_MAX`] the first one more than that.
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
    /// What a bundle waits for that lacked this when the index had grown so far.
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
