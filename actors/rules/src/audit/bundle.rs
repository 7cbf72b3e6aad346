//! Declared gangs in the full search: all members get their places by plain scans of all nodes, or
//! none does; see [`crate::decide::bundle`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::search::{Looking, Search, is_within};
use super::{About, ApplicationFact, AskFact, BundleFact, Decision, NodeFact};
use crate::nodes::recount::{Counted, Picture, admits, alternatives};
use crate::nodes::{Domain, NodeSortPolicy};
use crate::order::keys::AskKey;
use crate::order::shares::{compare_shares, shares};
use crate::pending::nominations::{Nomination, Preemptor};
use crate::specs::ask::TaskGroup;
use crate::specs::declaration::Topology;
use crate::values::resources::Resources;

/// A search for places: what nodes have left, and the members that have a place.
#[derive(Clone)]
struct Places<'a> {
    left: Vec<(&'a NodeFact, Resources)>,
    /// The node of each member, in the order of the search.
    chosen: Vec<(&'a AskFact, usize)>,
    /// The domains of groups that have to stay in one, and whether a group has made way.
    domains: Vec<(usize, Domain, bool)>,
    application: &'a ApplicationFact,
    fullest: bool,
    /// Whether members may not use nodes where a start of them failed.
    elsewhere: bool,
}

/// Members that are placed together, or a single member.
struct Together<'a> {
    members: Vec<&'a AskFact>,
    topology: Option<&'a Topology>,
}

impl Together<'_> {
    fn name(&self) -> TaskGroup {
        self.members[0].task_group.clone().unwrap_or_default()
    }
}

impl Places<'_> {
    fn take_out(&mut self, them: &Together<'_>) {
        let name = Some(them.name());
        for (ask, node) in self.chosen.iter().filter(|(ask, _)| ask.task_group == name) {
            self.left[*node].1.add(&ask.resources);
        }
        self.chosen.retain(|(ask, _)| ask.task_group != name);
    }
}

/// The maximum number of domains in which predicates are asked at one offer.
const DOMAINS_ASKED: usize = 16;

impl Search<'_> {
    /// Returns the decision about an undecided gang, if all of its members have places.
    pub(super) fn bundle(&self, looking: &Looking<'_>, bundle: &BundleFact) -> Option<Decision> {
        let application = looking.application;
        let groups = groups(application, bundle)?;
        let mut total = Resources::new();
        for ask in groups.iter().flatten() {
            total.add(&ask.resources);
        }
        let preemptor = Preemptor::Gang(application.slot);
        let gives_way = groups.iter().flatten().any(|ask| looking.gives_way(ask));
        let has_quota = looking.has_quota_for(preemptor, &total);
        let waits = bundle.in_flight || bundle.rests || bundle.backs_off;
        if waits || gives_way || !has_quota {
            return None;
        }
        if let Some(nomination) =
            self.facts.nominations.of(preemptor).filter(|it| it.victims.is_empty())
        {
            let members = self.in_rooms(application, &groups, bundle, nomination);
            let application = Arc::clone(&application.id);
            return Some(match members {
                Some(members) => Decision::Gang { application, members },
                None => Decision::GiveUpRooms { application },
            });
        }
        let any_failed = groups.iter().flatten().any(|ask| !ask.failed_nodes.is_empty());
        let in_order = self.in_order(groups, &bundle.topologies);
        let elsewhere = any_failed.then(|| self.whole(application, &in_order, true)).flatten();
        let members = elsewhere.or_else(|| self.whole(application, &in_order, false))?;
        Some(Decision::Gang { application: Arc::clone(&application.id), members })
    }

    /// Returns places for all members, after their predicates have passed. `elsewhere`: without
    /// nodes where a start of a member failed.
    fn whole(
        &self,
        application: &ApplicationFact,
        in_order: &[Together<'_>],
        elsewhere: bool,
    ) -> Option<Vec<Member>> {
        let mut avoid = BTreeSet::new();
        let mut passing = None;
        for _ in 0..DOMAINS_ASKED {
            let by = |fullest| self.places(application, in_order, &avoid, (fullest, elsewhere));
            let mut places = by(false);
            if places.is_none() && self.order.policy() == NodeSortPolicy::Fair {
                places = by(true);
            }
            match self.where_predicates_pass(places?, in_order) {
                Ok(places) => {
                    passing = Some(places);
                    break;
                }
                // If the group has to stay in one domain, another domain is tried.
                Err(domain) => avoid.insert(domain?),
            };
        }
        passing.as_ref().map(named)
    }

    /// Returns the members on the nodes of their rooms, if each may run there.
    fn in_rooms(
        &self,
        application: &ApplicationFact,
        groups: &[Vec<&AskFact>],
        bundle: &BundleFact,
        nomination: &Nomination,
    ) -> Option<Vec<Member>> {
        let mut places = self.nothing_placed(application, (false, false));
        let capacity = &self.facts.capacity;
        let share = |amount: &Resources| shares(amount, Some(capacity));
        for (at, (group, topology)) in groups.iter().zip(&bundle.topologies).enumerate() {
            let mut members = group.clone();
            members.sort_by(|a, b| compare_shares(&share(&b.resources), &share(&a.resources)));
            let mut rooms: Vec<_> =
                nomination.rooms.iter().filter(|room| room.group == at).collect();
            rooms.sort_by(|a, b| compare_shares(&share(&b.amount), &share(&a.amount)));
            if rooms.len() != members.len() {
                return None;
            }
            for (ask, room) in members.into_iter().zip(rooms) {
                let node = places.left.iter().position(|(node, _)| node.slot == room.node)?;
                let (fact, left) = &places.left[node];
                let may_use = match &ask.required_node {
                    Some(required) => *required == fact.id,
                    None => fact.open,
                };
                let fits = room.amount.holds(&ask.resources)
                    && left.holds(&ask.resources)
                    && fact.total.holds(&ask.resources);
                let is_refused = ask.excluded.contains(&fact.id)
                    || !(self.answers.passes)(about(application, ask), &fact.id, true);
                if !may_use || !fits || is_refused || !self.is_admitted(&places, ask, node) {
                    return None;
                }
                places.left[node].1.subtract(&ask.resources);
                places.chosen.push((ask, node));
            }
            if let Some(key) = topology.as_ref().and_then(|it| it.required.as_deref()) {
                let name = &bundle.groups[at].0;
                let of =
                    places.chosen.iter().filter(|(ask, _)| ask.task_group.as_ref() == Some(name));
                let values = of.map(|(_, at)| places.left[*at].0.attributes.get(key));
                let values: BTreeSet<_> = values.collect::<Option<_>>()?;
                if values.len() > 1 {
                    return None;
                }
            }
        }
        Some(named(&places))
    }

    /// Returns all nodes as they are, including the capacity kept for the gang.
    fn nothing_placed<'a>(
        &'a self,
        application: &'a ApplicationFact,
        (fullest, elsewhere): (bool, bool),
    ) -> Places<'a> {
        let preemptor = Preemptor::Gang(application.slot);
        let left = self.nodes.iter().map(|node| {
            let own = self.facts.nominations.kept_for(node.slot, preemptor);
            (*node, node.available.plus(&own))
        });
        let (chosen, domains) = (Vec::new(), Vec::new());
        Places { left: left.collect(), chosen, domains, application, fullest, elsewhere }
    }

    /// Returns all members, each as one ask, in the order in which they are placed.
    fn in_order<'a>(
        &self,
        groups: Vec<Vec<&'a AskFact>>,
        topologies: &'a [Option<Arc<Topology>>],
    ) -> Vec<Together<'a>> {
        let share = |amount: &Resources| shares(amount, Some(&self.facts.capacity));
        let mut groups: Vec<_> = groups
            .into_iter()
            .zip(topologies)
            .map(|(mut group, topology)| {
                group.sort_by(|a, b| compare_shares(&share(&b.resources), &share(&a.resources)));
                let mut sum = Resources::new();
                for ask in &group {
                    sum.add(&ask.resources);
                }
                (share(&sum), group, topology.as_deref())
            })
            .collect();
        groups.sort_by(|a, b| compare_shares(&b.0, &a.0));
        let mut together = Vec::new();
        for (_, mut members, topology) in groups {
            if topology.is_some() {
                members.sort_by_key(|ask| ask.required_node.is_none());
                together.push(Together { members, topology });
            } else {
                let alone = |ask| Together { members: vec![ask], topology };
                together.extend(members.into_iter().map(alone));
            }
        }
        together.sort_by_key(|it| match it.topology {
            Some(topology) if topology.required.is_some() => 0,
            None if it.members[0].required_node.is_some() => 1,
            _ => 2,
        });
        together
    }

    fn places<'a>(
        &'a self,
        application: &'a ApplicationFact,
        together: &[Together<'a>],
        avoid: &BTreeSet<(TaskGroup, Domain)>,
        (fullest, elsewhere): (bool, bool),
    ) -> Option<Places<'a>> {
        let mut places = self.nothing_placed(application, (fullest, elsewhere));
        for (at, them) in together.iter().enumerate() {
            let is_placed = match them.topology {
                Some(Topology { required: Some(key), .. }) => {
                    let avoided = |domain: &Domain| avoid.contains(&(them.name(), domain.clone()));
                    let found = self.in_required(&mut places, them, key, &avoided);
                    match found {
                        Some(domain) => {
                            places.domains.push((at, domain, false));
                            true
                        }
                        None => self.after_making_way(&mut places, together, at, avoid),
                    }
                }
                Some(topology) => {
                    self.in_preferred(&mut places, them, topology, None)
                        || self.all_in(&mut places, them, &[], fullest)
                }
                None => self.all_in(&mut places, them, &[], fullest),
            };
            if !is_placed {
                return None;
            }
        }
        Some(places)
    }

    /// Moves an earlier group, the last one first, to another domain, so that this group finds one.
    fn after_making_way<'a>(
        &'a self,
        places: &mut Places<'a>,
        together: &[Together<'a>],
        at: usize,
        avoid: &BTreeSet<(TaskGroup, Domain)>,
    ) -> bool {
        let key = |at: usize| together[at].topology.and_then(|it| it.required.as_deref());
        let avoided =
            |at: usize, domain: &Domain| avoid.contains(&(together[at].name(), domain.clone()));
        for earlier in (0..places.domains.len()).rev() {
            let (group, domain, has_moved) = places.domains[earlier].clone();
            let (Some(own), Some(its)) = (key(at), key(group)) else { return false };
            if has_moved {
                continue;
            }
            let mut tried = places.clone();
            tried.take_out(&together[group]);
            let Some(found) =
                self.in_required(&mut tried, &together[at], own, &|it| avoided(at, it))
            else {
                continue;
            };
            let may_not = |it: &Domain| *it == domain || avoided(group, it);
            if let Some(other) = self.in_required(&mut tried, &together[group], its, &may_not) {
                tried.domains[earlier] = (group, other, true);
                tried.domains.push((at, found, false));
                *places = tried;
                return true;
            }
        }
        false
    }

    /// Places all of them in the best domain of the attribute that takes them all.
    fn in_required<'a>(
        &'a self,
        places: &mut Places<'a>,
        them: &Together<'a>,
        key: &str,
        avoided: &dyn Fn(&Domain) -> bool,
    ) -> Option<Domain> {
        let mut domains = self.by_fit(places, them, key, None);
        domains.retain(|domain| !avoided(domain));
        let topology = them.topology?;
        let with_inner =
            domains.iter().find(|it| self.in_preferred(places, them, topology, Some(it)));
        let one = |places: &mut Places<'a>, domain: &&Domain| {
            self.in_domains(places, them, std::slice::from_ref(*domain))
        };
        with_inner.or_else(|| domains.iter().find(|domain| one(places, domain))).cloned()
    }

    fn in_preferred<'a>(
        &'a self,
        places: &mut Places<'a>,
        them: &Together<'a>,
        topology: &Topology,
        outer: Option<&Domain>,
    ) -> bool {
        topology.preferred.iter().any(|key| {
            let domains = self.by_fit(places, them, key, outer);
            domains.into_iter().any(|inner| {
                let both: Vec<Domain> = outer.cloned().into_iter().chain([inner]).collect();
                self.in_domains(places, them, &both)
            })
        })
    }

    fn in_domains<'a>(
        &'a self,
        places: &mut Places<'a>,
        them: &Together<'a>,
        domains: &[Domain],
    ) -> bool {
        let fullest = places.fullest;
        self.all_in(places, them, domains, fullest)
            || (!fullest
                && self.order.policy() == NodeSortPolicy::Fair
                && self.all_in(places, them, domains, true))
    }

    fn all_in<'a>(
        &'a self,
        places: &mut Places<'a>,
        them: &Together<'a>,
        domains: &[Domain],
        fullest: bool,
    ) -> bool {
        let before = places.clone();
        for ask in &them.members {
            let node = self.node_for(places, ask, (domains, &BTreeSet::new()), fullest);
            let Some(node) = node else {
                *places = before;
                return false;
            };
            places.left[node].1.subtract(&ask.resources);
            places.chosen.push((ask, node));
        }
        true
    }

    /// Returns the domains of an attribute, or their parts within another domain; the one with the
    /// least capacity left afterwards comes first.
    fn by_fit(
        &self,
        places: &Places<'_>,
        them: &Together<'_>,
        key: &str,
        outer: Option<&Domain>,
    ) -> Vec<Domain> {
        let mut free: BTreeMap<&str, Resources> = BTreeMap::new();
        for (node, left) in &places.left {
            let Some(value) = node.attributes.get(key) else { continue };
            if !is_within(outer, node) {
                continue;
            }
            let sum = free.entry(value).or_default();
            if self.is_for_all(node) {
                for (name, total) in node.total.entries() {
                    let usable = left.get(name).min(total).max(0);
                    sum.set(name, sum.get(name) + usable);
                }
            }
        }
        for ask in them.members.iter().filter(|ask| ask.required_node.is_none()) {
            for sum in free.values_mut() {
                sum.subtract(&ask.resources);
            }
        }
        let share = |left: &Resources| {
            let capacity = &self.facts.capacity;
            let parts = left.entries().filter(|(name, left)| *left > 0 && capacity.get(*name) > 0);
            parts.map(|(name, left)| left as f64 / capacity.get(name) as f64).fold(0.0, f64::max)
        };
        let mut domains: Vec<(f64, Domain)> = free
            .iter()
            .filter(|(_, left)| !left.has_negative())
            .map(|(value, left)| (share(left), Domain::new(key, value)))
            .collect();
        domains.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        domains.into_iter().map(|(_, domain)| domain).collect()
    }

    /// Returns the node that takes the member: the first, or the last, in the order that nodes have
    /// with the places found before.
    fn node_for(
        &self,
        places: &Places<'_>,
        ask: &AskFact,
        (domains, refused): (&[Domain], &BTreeSet<usize>),
        fullest: bool,
    ) -> Option<usize> {
        let required = ask.required_node.as_ref();
        let can_take = |at: &usize| {
            let (node, available) = &places.left[*at];
            let may_be =
                required.map_or_else(|| self.is_for_all(node), |required| *required == node.id);
            may_be
                && !refused.contains(at)
                && domains.iter().all(|domain| is_within(Some(domain), node))
                && !ask.excluded.contains(&node.id)
                && !(places.elsewhere && ask.failed_nodes.contains(&node.id))
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
        let picture = self.picture_with(places);
        alternatives(constraint.constraint()).iter().take(*open).find_map(|alternative| {
            let admits =
                |at: &usize| alternative.admits(constraint, places.left[*at].0.slot, &picture);
            pick(&nodes.iter().copied().filter(admits).collect::<Vec<_>>())
        })
    }

    /// Returns the picture by which constraints are checked, including the members that have
    /// places.
    fn picture_with<'a>(&'a self, places: &Places<'a>) -> Picture<'a> {
        let mut picture = self.facts.picture(places.application, None);
        picture.counted.extend(places.chosen.iter().map(|(ask, at)| Counted {
            node: places.left[*at].0.slot,
            tags: ask.tags.as_deref().map(|tags| &**tags),
            is_booked: true,
        }));
        picture
    }

    fn is_admitted(&self, places: &Places<'_>, ask: &AskFact, node: usize) -> bool {
        let Some((constraint, open)) = &ask.constraint else { return true };
        let (picture, node) = (self.picture_with(places), places.left[node].0.slot);
        admits(constraint, *open, node, &picture)
    }

    /// Moves each member that a node refuses to another node. If a member finds none, returns the
    /// domain of its group.
    fn where_predicates_pass<'a>(
        &'a self,
        mut places: Places<'a>,
        together: &[Together<'a>],
    ) -> Result<Places<'a>, Option<(TaskGroup, Domain)>> {
        let application = places.application;
        let mut refusals: Vec<(u64, usize)> = Vec::new();
        for member in 0..places.chosen.len() {
            let (ask, mut node) = places.chosen[member];
            while !(self.answers.passes)(about(application, ask), &places.left[node].0.id, true) {
                refusals.push((ask.sequence, node));
                let of_ask = refusals.iter().filter(|(of, _)| *of == ask.sequence);
                let refused: BTreeSet<usize> = of_ask.map(|(_, node)| *node).collect();
                places.left[node].1.add(&ask.resources);
                let chosen = places.chosen.remove(member);
                let mut chosen_domains = places.domains.iter();
                let is_its = |(at, ..): &&(usize, Domain, bool)| {
                    Some(together[*at].name()) == ask.task_group
                };
                let domain = chosen_domains.find(is_its).map(|(_, domain, _)| domain.clone());
                let within = domain.as_slice();
                let found = self.node_for(&places, ask, (within, &refused), false);
                places.chosen.insert(member, chosen);
                let name = || ask.task_group.clone().unwrap_or_default();
                node = found.ok_or_else(|| domain.map(|domain| (name(), domain)))?;
                places.left[node].1.subtract(&ask.resources);
                places.chosen[member].1 = node;
            }
        }
        Ok(places)
    }
}

/// Returns the subject of a predicate for this ask.
fn about<'a>(application: &'a ApplicationFact, ask: &'a AskFact) -> About<'a> {
    match ask.task_group.as_deref().filter(|_| ask.internal) {
        Some(group) => About::Hold { application: &application.id, group },
        None => About::Request(&ask.key),
    }
}

/// A member and the id of its node: `false` and its key, or `true` and its task group.
type Member = (bool, Arc<str>, Arc<str>);

/// The members with their nodes, sorted.
fn named(places: &Places<'_>) -> Vec<Member> {
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
    members
}

/// Returns the asks of each group's members, one for each member: the first asks in order, then
/// internal ones. `None` if there are too few.
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
