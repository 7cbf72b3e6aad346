use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::decide::bundle::{Members, find};
use crate::nodes::{NodeOrder, NodeSortPolicy};
use crate::values::ids::NodeSlot;
use crate::waiting::BundleWaits;

fn vcores(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity)])
}

/// Builds nodes from (free cores, attributes as `key=value`), of at most eight cores each.
fn index(nodes: &[(i64, &str)]) -> NodeIndex {
    let mut index = NodeIndex::new(NodeOrder::default());
    for (at, (free, attributes)) in nodes.iter().enumerate() {
        let id = Arc::from(format!("n{at}"));
        let slot = index.insert(id, vcores(8), vcores(*free), true).unwrap();
        set(&mut index, slot, attributes);
    }
    index
}

fn set(index: &mut NodeIndex, slot: NodeSlot, attributes: &str) {
    let attributes = attributes.split_whitespace().map(|it| it.split_once('=').unwrap());
    index.set_attributes(slot, &Arc::new(attributes.collect()));
}

fn topology(required: &str, preferred: &[&str]) -> Topology {
    let preferred = preferred.iter().map(|&key| key.to_owned()).collect();
    Topology::new(required.to_owned(), preferred).unwrap()
}

/// A group of this many members of this size.
fn group<'a>(size: &'a Resources, count: u32, topology: &'a Topology) -> Group<'a> {
    let members = vec![Members { request: NodeRequest::of(size), count, tags: None }];
    Group { members, topology: Some(topology), avoid: &[] }
}

/// Returns the nodes of each group, or which group is short and by how many members.
fn places(nodes: &mut NodeIndex, bundle: &[Group<'_>]) -> Result<Vec<String>, String> {
    let before = nodes.fingerprint();
    let found = find(nodes, bundle);
    let told = match found {
        Ok(mut found) => {
            let mut of_groups = vec![String::new(); bundle.len()];
            let mut places: Vec<Place> = found.places().to_vec();
            places.sort_by_key(|place| (place.of.group, nodes.id(place.node).to_string()));
            for place in places {
                let of_group = &mut of_groups[place.of.group];
                if !of_group.is_empty() {
                    of_group.push(' ');
                }
                of_group.push_str(nodes.id(place.node));
            }
            found.undo(nodes);
            Ok(of_groups)
        }
        Err(shortage) => {
            let domain = shortage
                .domain
                .map(|it| format!(" in {} {}", it.key, it.value.as_deref().unwrap_or("nowhere")));
            let group = shortage.of.group;
            Err(format!("{group} lacks {}{}", shortage.lacks, domain.unwrap_or_default()))
        }
    };
    assert_eq!(nodes.fingerprint(), before, "as it was");
    told
}

fn places_of_one(
    nodes: &mut NodeIndex,
    members: u32,
    required: &str,
    preferred: &[&str],
) -> Result<String, String> {
    let (one, topology) = (vcores(1), topology(required, preferred));
    places(nodes, &[group(&one, members, &topology)]).map(|mut places| places.remove(0))
}

#[test]
fn the_domain_with_least_room_left_takes_a_group() {
    let mut nodes = index(&[(2, "rack=r1"), (4, "rack=r2"), (8, "rack=r3"), (8, "")]);
    assert_eq!(places_of_one(&mut nodes, 4, "rack", &[]).unwrap(), "n1 n1 n1 n1");
    assert_eq!(places_of_one(&mut nodes, 5, "rack", &[]).unwrap(), "n2 n2 n2 n2 n2");
    assert_eq!(places_of_one(&mut nodes, 2, "rack", &[]).unwrap(), "n0 n0");
    assert_eq!(places_of_one(&mut nodes, 9, "rack", &[]).unwrap_err(), "0 lacks 1 in rack r3");
}

#[test]
fn of_equal_domains_the_first_by_value_is_taken_and_is_the_one_that_is_short() {
    let mut nodes = index(&[(3, "rack=r2"), (3, "rack=r1")]);
    assert_eq!(places_of_one(&mut nodes, 3, "rack", &[]).unwrap(), "n1 n1 n1");
    assert_eq!(places_of_one(&mut nodes, 4, "rack", &[]).unwrap_err(), "0 lacks 1 in rack r1");
    assert_eq!(places_of_one(&mut nodes, 4, "", &["rack"]).unwrap(), "n0 n0 n1 n1");
}

#[test]
fn a_node_without_the_attribute_is_in_no_domain() {
    let mut nodes = index(&[(8, ""), (8, "zone=a")]);
    assert_eq!(places_of_one(&mut nodes, 1, "rack", &[]).unwrap_err(), "0 lacks 1 in rack nowhere");
    assert_eq!(places_of_one(&mut nodes, 2, "", &["rack"]).unwrap(), "n0 n1");
}

#[test]
fn of_preferred_attributes_the_first_decides_that_has_a_domain_for_all() {
    let hosts = [(2, "host=a rack=r1"), (2, "host=b rack=r1"), (2, "host=c rack=r2")];
    let mut nodes = index(&hosts);
    assert_eq!(places_of_one(&mut nodes, 2, "", &["host", "rack"]).unwrap(), "n0 n0");
    assert_eq!(places_of_one(&mut nodes, 3, "", &["host", "rack"]).unwrap(), "n0 n0 n1");
    assert_eq!(places_of_one(&mut nodes, 5, "", &["host", "rack"]).unwrap(), "n0 n0 n1 n1 n2");
}

#[test]
fn a_required_domain_with_a_preferred_one_inside_comes_before_one_that_fits_better() {
    // The better fit, r1, has its three places on two hosts; r2 has one host for all.
    let hosts = [(2, "host=a rack=r1"), (1, "host=b rack=r1"), (4, "host=c rack=r2")];
    let mut nodes = index(&hosts);
    assert_eq!(places_of_one(&mut nodes, 3, "rack", &[]).unwrap(), "n0 n0 n1");
    assert_eq!(places_of_one(&mut nodes, 3, "rack", &["host"]).unwrap(), "n2 n2 n2");
    // Only hosts inside of the required domain count.
    let rows = [(2, "row=a rack=r1"), (4, "row=a rack=r2"), (4, "row=b rack=r3")];
    let mut nodes = index(&rows);
    assert_eq!(places_of_one(&mut nodes, 4, "rack", &["row"]).unwrap(), "n1 n1 n1 n1");
    assert_eq!(places_of_one(&mut nodes, 4, "row", &["rack"]).unwrap(), "n2 n2 n2 n2");
}

#[test]
fn a_group_makes_way_for_a_later_one_that_finds_no_other_domain() {
    // The larger group is placed first and takes r1, which fits it better; the later group fits
    // only there.
    let mut nodes = index(&[(8, "rack=r1"), (4, "rack=r2"), (4, "rack=r2"), (2, "rack=r2")]);
    let (small, large, topology) = (vcores(1), vcores(7), topology("rack", &[]));
    let bundle = [group(&small, 8, &topology), group(&large, 1, &topology)];
    let places = places(&mut nodes, &bundle).unwrap();
    assert_eq!(places[1], "n0");
    assert!(places[0].split(' ').all(|node| node != "n0"), "{places:?}");
    // If there is no other domain for the earlier group, it keeps its own.
    let mut nodes = index(&[(8, "rack=r1"), (4, "rack=r2")]);
    assert_eq!(super::tests::places(&mut nodes, &bundle).unwrap_err(), "1 lacks 1 in rack r1");
}

#[test]
fn members_of_several_sizes_find_places_where_the_fullest_nodes_come_first() {
    let mut nodes = index(&[(6, "rack=r"), (6, "rack=r"), (2, "rack=r"), (8, "")]);
    let (two, six, topology) = (vcores(2), vcores(6), topology("rack", &[]));
    let members = |size, count| Members { request: NodeRequest::of(size), count, tags: None };
    let all = vec![members(&two, 4), members(&six, 1)];
    let bundle = [Group { members: all, topology: Some(&topology), avoid: &[] }];
    assert_eq!(places(&mut nodes, &bundle).unwrap(), ["n0 n1 n1 n1 n2"]);
}

#[test]
fn domains_to_be_avoided_are_not_chosen() {
    let mut nodes = index(&[(2, "rack=r1"), (4, "rack=r2")]);
    let (one, topology) = (vcores(1), topology("rack", &[]));
    let avoid = [Domain::new("rack", "r1")];
    let bundle = [Group { avoid: &avoid, ..group(&one, 2, &topology) }];
    assert_eq!(places(&mut nodes, &bundle).unwrap(), ["n1 n1"]);
}

#[test]
fn a_group_is_looked_for_again_when_a_domain_that_may_take_it_has_grown() {
    let mut nodes = index(&[(2, "rack=r1"), (1, "rack=r1"), (1, "rack=r2"), (2, "")]);
    let (one, topology) = (vcores(1), topology("rack", &[]));
    let bundle = [group(&one, 4, &topology)];
    let shortage = find(&mut nodes, &bundle).unwrap_err();
    let mut waits = BundleWaits::new(&bundle, &shortage, nodes.growth());
    let [a, c, none] = ["n0", "n2", "n3"].map(|id| nodes.slot_of(id).unwrap());
    nodes.update(none, None, &vcores(8));
    assert!(!waits.is_due(&nodes), "it is in no domain");
    nodes.update(c, None, &vcores(3));
    assert!(!waits.is_due(&nodes), "the other rack is still too small");
    set(&mut nodes, none, "rack=r2");
    nodes.touch(none);
    assert!(waits.is_due(&nodes), "it has come to the rack");
    set(&mut nodes, none, "");
    let mut waits = BundleWaits::new(&bundle, &shortage, nodes.growth());
    nodes.update(a, None, &vcores(3));
    assert!(waits.is_due(&nodes));
    assert_eq!(places(&mut nodes, &bundle).unwrap(), ["n0 n0 n0 n1"]);
}

/// The domains of one attribute that take this many of one size, with the amount that would be
/// left.
fn taking(nodes: &NodeIndex, key: &str, size: i64, count: i64) -> Vec<(i64, String)> {
    let mut domains: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for slot in nodes.iter() {
        let free = nodes.available(slot).get(crate::values::resources::Name::VCORE);
        if let Some(value) = nodes.attribute(slot, key) {
            let (places, sum) = domains.entry(value).or_default();
            *places += free / size;
            *sum += free;
        }
    }
    let taking = domains.into_iter().filter(|(_, (places, _))| *places >= count);
    let mut taking: Vec<_> =
        taking.map(|(value, (_, sum))| (sum - size * count, value.to_owned())).collect();
    taking.sort();
    taking
}

proptest! {
    #[test]
    fn one_group_goes_where_a_look_at_every_domain_says(
        free in prop::collection::vec((0_i64..=8, 0_usize..4, 0_usize..3), 1..8),
        (size, count) in (1_i64..4, 1_u32..7),
        packs in any::<bool>(),
        grown in prop::collection::vec((0_usize..8, 0_i64..=8, 0_usize..4), 0..6),
    ) {
        let policy = if packs { NodeSortPolicy::BinPacking } else { NodeSortPolicy::Fair };
        let mut nodes = index(&[]);
        nodes.set_order(NodeOrder::new(policy, &[]));
        let said = |rack: usize, host: usize| match rack {
            0 => format!("host=h{host}"),
            rack => format!("rack=r{rack} host=r{rack}h{host}"),
        };
        for (at, (free, rack, host)) in free.iter().enumerate() {
            let id = Arc::from(format!("n{at}"));
            let slot = nodes.insert(id, vcores(8), vcores(*free), true).unwrap();
            set(&mut nodes, slot, &said(*rack, *host));
        }
        let wanted = vcores(size);
        let required = topology("rack", &[]);
        let bundle = [group(&wanted, count, &required)];
        let mut waits: Option<BundleWaits> = None;
        for step in std::iter::once(None).chain(grown.iter().map(Some)) {
            if let Some((at, free, rack)) = step {
                let Some(slot) = nodes.slot_of(&format!("n{at}")) else { continue };
                if free % 2 == 0 {
                    set(&mut nodes, slot, &said(*rack, 0));
                    nodes.touch(slot);
                } else {
                    nodes.update(slot, None, &vcores(*free));
                }
            }
            let before = nodes.fingerprint();
            let taking = taking(&nodes, "rack", size, i64::from(count));
            match find(&mut nodes, &bundle) {
                Ok(mut found) => {
                    let chosen = found.domains()[0].domain.clone();
                    prop_assert_eq!(Some(&*chosen.value), taking.first().map(|it| &*it.1));
                    prop_assert_eq!(found.places().len(), count as usize);
                    let in_it = |place: &Place| {
                        nodes.is_within(place.node, std::slice::from_ref(&chosen))
                    };
                    prop_assert!(found.places().iter().all(in_it));
                    found.undo(&mut nodes);
                    let is_due = |it: BundleWaits| it.clone().is_due(&nodes);
                    prop_assert!(waits.take().is_none_or(is_due));
                }
                Err(shortage) => {
                    prop_assert!(taking.is_empty(), "{:?} takes it", taking[0]);
                    prop_assert!(shortage.lacks > 0);
                    waits = Some(BundleWaits::new(&bundle, &shortage, nodes.growth()));
                }
            }
            prop_assert_eq!(nodes.fingerprint(), before);
        }
    }

    #[test]
    fn preferred_groups_take_the_narrowest_domain_that_holds_them(
        free in prop::collection::vec((0_i64..=8, 0_usize..4, 0_usize..3), 1..8),
        (size, count) in (1_i64..4, 1_u32..7),
        is_required in any::<bool>(),
    ) {
        let mut nodes = index(&[]);
        for (at, (free, rack, host)) in free.iter().enumerate() {
            let id = Arc::from(format!("n{at}"));
            let slot = nodes.insert(id, vcores(8), vcores(*free), true).unwrap();
            set(&mut nodes, slot, &format!("rack=r{rack} host=r{rack}h{host}"));
        }
        let wanted = vcores(size);
        let topology = topology(if is_required { "rack" } else { "" }, &["host", "rack"]);
        let hosts = taking(&nodes, "host", size, i64::from(count));
        let racks = taking(&nodes, "rack", size, i64::from(count));
        // Every rack that takes all members is a preferred domain, too: the best rack decides
        // first.
        let expected = if is_required { None } else { hosts.first() }.or(racks.first());
        let expected = if is_required {
            racks.first().map(|(_, rack)| {
                let inside = hosts.iter().find(|(_, host)| host.starts_with(&**rack));
                inside.map_or(rack, |(_, host)| host)
            })
        } else {
            expected.map(|(_, value)| value)
        };
        let found = find(&mut nodes, &[group(&wanted, count, &topology)]);
        prop_assert_eq!(found.is_ok(), match (is_required, expected) {
            (true, expected) => expected.is_some(),
            (false, _) => nodes.places_now(&wanted, u64::from(count)) >= u64::from(count)
                || found.is_ok(),
        });
        if let (Ok(found), Some(expected)) = (&found, expected) {
            let key = if expected.contains('h') { "host" } else { "rack" };
            let domain = Domain::new(key, expected);
            for place in found.places() {
                prop_assert!(nodes.is_within(place.node, std::slice::from_ref(&domain)));
            }
        }
    }

    #[test]
    fn every_group_that_is_to_stay_together_does(
        free in prop::collection::vec((0_i64..=8, 0_usize..3), 1..8),
        sizes in prop::collection::vec((1_i64..5, 1_u32..4, any::<bool>()), 1..4),
    ) {
        let mut nodes = index(&[]);
        for (at, (free, rack)) in free.iter().enumerate() {
            let id = Arc::from(format!("n{at}"));
            let slot = nodes.insert(id, vcores(8), vcores(*free), true).unwrap();
            set(&mut nodes, slot, &format!("rack=r{rack}"));
        }
        let required = topology("rack", &[]);
        let amounts: Vec<Resources> = sizes.iter().map(|(size, ..)| vcores(*size)).collect();
        let bundle: Vec<Group<'_>> = amounts
            .iter()
            .zip(&sizes)
            .map(|(size, (_, count, is_required))| {
                let topology = is_required.then_some(&required);
                Group { topology, ..group(size, *count, &required) }
            })
            .collect();
        let before = nodes.fingerprint();
        if let Ok(mut found) = find(&mut nodes, &bundle) {
            let members = sizes.iter().map(|(_, count, _)| *count as usize).sum::<usize>();
            prop_assert_eq!(found.places().len(), members);
            let chosen: BTreeSet<usize> = found.domains().iter().map(|it| it.group).collect();
            let required = (0..sizes.len()).filter(|at| sizes[*at].2).collect();
            prop_assert_eq!(chosen, required);
            for Chosen { group, domain, .. } in found.domains() {
                let mut of_group = found.places().iter().filter(|it| it.of.group == *group);
                let domain = std::slice::from_ref(domain);
                prop_assert!(of_group.all(|it| nodes.is_within(it.node, domain)));
            }
            for slot in nodes.iter() {
                prop_assert!(!nodes.available(slot).has_negative());
            }
            found.undo(&mut nodes);
        }
        prop_assert_eq!(nodes.fingerprint(), before);
    }
}
