use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::nodes::{NodeOrder, NodeSortPolicy};

fn vcores(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity)])
}

fn index(policy: NodeSortPolicy, free: &[Resources]) -> NodeIndex {
    let mut nodes = NodeIndex::new(NodeOrder::new(policy, &[]));
    let total = Resources::of(&[("vcore", 8), ("memory", 8)]);
    for (at, free) in free.iter().enumerate() {
        nodes.insert(Arc::from(format!("n{at}")), total.clone(), free.clone(), true).unwrap();
    }
    nodes
}

fn fair(free: &[i64]) -> NodeIndex {
    index(NodeSortPolicy::Fair, &free.iter().copied().map(vcores).collect::<Vec<_>>())
}

/// The sizes of the members of each group, with the number of members of each size.
type Sizes = Vec<Vec<(Resources, u32)>>;

fn groups(sizes: &Sizes) -> Vec<Group<'_>> {
    let mut bundle = Vec::new();
    for group in sizes {
        let mut members = Vec::new();
        for (size, count) in group {
            members.push(Members { request: NodeRequest::of(size), count: *count, tags: None });
        }
        bundle.push(Group { members, ..Group::default() });
    }
    bundle
}

fn of_vcores(sizes: &[&[(i64, u32)]]) -> Sizes {
    let group =
        |sizes: &&[(i64, u32)]| sizes.iter().map(|(n, count)| (vcores(*n), *count)).collect();
    sizes.iter().map(group).collect()
}

/// Returns the places of members as `group.members@node`; or the shortage.
fn found(nodes: &mut NodeIndex, sizes: &[&[(i64, u32)]]) -> Result<String, (usize, usize, u64)> {
    let sizes = of_vcores(sizes);
    let mut found = find(nodes, &groups(&sizes))
        .map_err(|lack| (lack.of.group, lack.of.members, lack.lacks))?;
    let place =
        |place: &Place| format!("{}.{}@{}", place.of.group, place.of.members, nodes.id(place.node));
    let places: Vec<String> = found.places().iter().map(place).collect();
    found.undo(nodes);
    Ok(places.join(" "))
}

#[test]
fn each_place_counts_for_the_next() {
    let mut nodes = fair(&[8, 8]);
    let spread = found(&mut nodes, &[&[(2, 3)]]);
    assert_eq!(spread.unwrap(), "0.0@n0 0.0@n1 0.0@n0");
    let free = [vcores(8), vcores(8)];
    let packed = found(&mut index(NodeSortPolicy::BinPacking, &free), &[&[(2, 5)]]);
    assert_eq!(packed.unwrap(), "0.0@n0 0.0@n0 0.0@n0 0.0@n0 0.0@n1");
}

#[test]
fn a_member_that_requires_a_node_is_not_kept_from_it_by_a_larger_mate() {
    let mut nodes = fair(&[4, 3]);
    let (small, large) = (vcores(1), vcores(4));
    let named = NodeRequest { required: Some("n0"), ..NodeRequest::of(&small) };
    let bundle = |large| {
        let large = Members { request: NodeRequest::of(large), count: 1, tags: None };
        let named = Members { request: named, count: 1, tags: None };
        [Group { members: vec![large, named], ..Group::default() }]
    };
    assert_eq!(find(&mut nodes, &bundle(&large)).unwrap_err().lacks, 1);
    let three = vcores(3);
    let mut found = find(&mut nodes, &bundle(&three)).unwrap();
    let places: Vec<_> = found.places().iter().map(|place| nodes.id(place.node)).collect();
    assert_eq!(places.iter().map(|id| &***id).collect::<Vec<_>>(), ["n0", "n0"]);
    found.undo(&mut nodes);
    nodes.update(NodeSlot::at(0), None, &vcores(3));
    let found = find(&mut nodes, &bundle(&three)).unwrap();
    let places: Vec<_> = found.places().iter().map(|place| nodes.id(place.node)).collect();
    assert_eq!(places.iter().map(|id| &***id).collect::<Vec<_>>(), ["n0", "n1"]);
}

#[test]
fn the_group_with_the_larger_share_goes_first_and_in_it_the_larger_member() {
    let mut nodes = fair(&[8, 8]);
    // The groups want 7, 8 and 1 in all.
    let order = found(&mut nodes, &[&[(2, 1), (5, 1)], &[(4, 1), (4, 1)], &[(1, 1)]]);
    assert_eq!(order.unwrap(), "1.0@n1 1.1@n1 0.1@n0 0.0@n0 2.0@n0", "only if packed");
    let order = found(&mut nodes, &[&[(2, 1), (4, 1)], &[(4, 1), (4, 1)], &[(1, 1)]]);
    assert_eq!(order.unwrap(), "1.0@n0 1.1@n1 0.1@n0 0.0@n1 2.0@n1");
    let equal = found(&mut nodes, &[&[(3, 1)], &[(3, 1)]]);
    assert_eq!(equal.unwrap(), "0.0@n0 1.0@n1", "as declared");
}

#[test]
fn the_share_is_that_of_the_resource_of_which_most_is_wanted() {
    let of = |vcore, memory| Resources::of(&[("vcore", vcore), ("memory", memory)]);
    let mut nodes = NodeIndex::new(NodeOrder::default());
    nodes.insert(Arc::from("n0"), of(100, 10), of(100, 10), true).unwrap();
    let sizes = vec![vec![(of(20, 1), 1)], vec![(of(1, 3), 1)]];
    let found = find(&mut nodes, &groups(&sizes)).unwrap();
    let order: Vec<usize> = found.places().iter().map(|place| place.of.group).collect();
    assert_eq!(order, [1, 0], "three tenths of the memory before a fifth of the cores");
}

#[test]
fn if_spreading_leaves_no_node_for_one_all_go_to_the_fullest_nodes_with_room() {
    let mut nodes = fair(&[6, 6, 2]);
    // Fair would put two members of the first group on each of the large nodes.
    let packed = found(&mut nodes, &[&[(2, 4)], &[(6, 1)]]);
    assert_eq!(packed.unwrap(), "0.0@n2 0.0@n1 0.0@n1 0.0@n1 1.0@n0");
}

#[test]
fn a_bundle_that_lacks_places_says_how_many_and_takes_none() {
    let mut nodes = fair(&[5, 3]);
    let before = nodes.fingerprint();
    assert_eq!(found(&mut nodes, &[&[(2, 5)]]), Err((0, 0, 2)));
    assert_eq!(found(&mut nodes, &[&[(2, 2)], &[(2, 3)]]), Err((0, 0, 2)), "of both groups");
    assert_eq!(found(&mut nodes, &[&[(1, 3)], &[(4, 2)]]), Err((1, 0, 1)));
    assert_eq!(found(&mut nodes, &[&[(9, 1)]]), Err((0, 0, 1)));
    assert_eq!(nodes.fingerprint(), before);
}

#[test]
fn a_member_that_names_a_node_goes_there_only_be_it_open_or_not() {
    let mut nodes = fair(&[8, 8]);
    let closed = nodes.slot_of("n1").unwrap();
    nodes.set_open(closed, false);
    let two = vcores(2);
    let named = NodeRequest { required: Some("n1"), ..NodeRequest::of(&two) };
    let members = |count| {
        vec![Group {
            members: vec![Members { request: named, count, tags: None }],
            ..Group::default()
        }]
    };
    let found = find(&mut nodes, &members(4)).unwrap();
    assert!(found.places().iter().all(|place| place.node == closed));
    assert_eq!(nodes.available(closed), &vcores(0));
    assert_eq!(find(&mut nodes, &members(1)).unwrap_err().lacks, 1);
}

#[test]
fn a_member_that_is_refused_moves_and_the_others_stay() {
    let mut nodes = fair(&[8, 6, 1]);
    let before = nodes.fingerprint();
    let three = vcores(3);
    let members = vec![Members { request: NodeRequest::of(&three), count: 2, tags: None }];
    let mut bundle = find(&mut nodes, &[Group { members, ..Group::default() }]).unwrap();
    let [n0, n1] = ["n0", "n1"].map(|id| nodes.slot_of(id).unwrap());
    assert_eq!(bundle.places().iter().map(|it| it.node).collect::<Vec<_>>(), [n0, n1]);
    let mut refused = [Arc::from("n0")].into_iter().collect();
    let request = NodeRequest::of(&three).passing_over(&refused);
    assert_eq!(bundle.move_member(&mut nodes, 0, &request, None), Some(n1));
    assert_eq!((nodes.available(n0), nodes.available(n1)), (&vcores(8), &vcores(0)));
    refused = ["n0", "n1"].map(Arc::from).into_iter().collect();
    let request = NodeRequest::of(&three).passing_over(&refused);
    assert_eq!(bundle.move_member(&mut nodes, 1, &request, None), None);
    bundle.undo(&mut nodes);
    assert_eq!(nodes.fingerprint(), before);
}

#[test]
fn one_size_waits_for_as_many_places_as_it_lacks_and_several_for_any_place() {
    let mut nodes = fair(&[3, 0, 0]);
    let slot = |at: usize| format!("n{at}");
    let grow = |nodes: &mut NodeIndex, at: usize, free: i64| {
        let slot = nodes.slot_of(&slot(at)).unwrap();
        nodes.update(slot, None, &vcores(free));
    };
    let of_one = of_vcores(&[&[(2, 4)]]);
    let shortage = find(&mut nodes, &groups(&of_one)).unwrap_err();
    assert_eq!(shortage.lacks, 3);
    let mut one = BundleWaits::new(&groups(&of_one), &shortage, nodes.growth());
    let of_two = of_vcores(&[&[(2, 4), (1, 1)]]);
    let mut two = BundleWaits::new(&groups(&of_two), &shortage, nodes.growth());
    assert!(!one.is_due(&nodes) && !two.is_due(&nodes), "nothing grew");
    assert_eq!((one.least(), one.lacks()), (vcores(2), 3));
    assert_eq!((two.least(), two.lacks()), (vcores(1), 1));
    let before = nodes.growth();
    grow(&mut nodes, 1, 4);
    assert!(!one.is_due(&nodes), "two places came");
    assert_eq!((one.lacks(), one.at()), (1, nodes.growth()));
    assert!(two.is_due(&nodes) && two.at() == before);
    grow(&mut nodes, 2, 1);
    assert!(!one.is_due(&nodes), "none came");
    grow(&mut nodes, 2, 2);
    assert!(one.is_due(&nodes) && one.is_due(&nodes));
}

#[test]
fn a_member_that_may_not_go_everywhere_waits_for_any_place() {
    let (mut nodes, two) = (fair(&[0]), vcores(2));
    let refused = [Arc::from("n1")].into_iter().collect();
    let request = NodeRequest::of(&two).passing_over(&refused);
    let bundle =
        [Group { members: vec![Members { request, count: 3, tags: None }], ..Group::default() }];
    let shortage = find(&mut nodes, &bundle).unwrap_err();
    assert_eq!(BundleWaits::new(&bundle, &shortage, nodes.growth()).lacks(), 1);
}

/// A node as a plain search sees it.
#[derive(Clone)]
struct Plain {
    slot: NodeSlot,
    id: Arc<str>,
    total: Resources,
    free: Resources,
}

/// Finds all places by plain search: sorts all nodes again for each member.
fn plainly(
    nodes: &NodeIndex,
    order: &NodeOrder,
    sizes: &Sizes,
    fullest: bool,
) -> Option<Vec<(usize, usize, NodeSlot)>> {
    let plain = |slot: NodeSlot| Plain {
        slot,
        id: Arc::clone(nodes.id(slot)),
        total: (**nodes.total(slot)).clone(),
        free: nodes.available(slot).clone(),
    };
    let mut open: Vec<Plain> =
        nodes.by_id().filter(|slot| nodes.is_open(*slot)).map(plain).collect();
    let share = |amount: &Resources| {
        let total = nodes.capacity();
        shares(amount, Some(total)).into_iter().rev().collect::<Vec<f64>>()
    };
    let sum = |group: &Vec<(Resources, u32)>| {
        let mut sum = Resources::new();
        for (size, count) in group {
            sum.add(&size.times(i64::from(*count)));
        }
        sum
    };
    let mut members = Vec::new();
    for (group, sizes) in sizes.iter().enumerate() {
        for (at, (size, count)) in sizes.iter().enumerate() {
            members.push((share(&sum(sizes)), group, share(size), at, size, *count));
        }
    }
    let descending = |l: &Vec<f64>, r: &Vec<f64>| {
        compare_shares(
            &r.iter().rev().copied().collect::<Vec<_>>(),
            &l.iter().rev().copied().collect::<Vec<_>>(),
        )
    };
    members.sort_by(|l, r| {
        let by_group = descending(&l.0, &r.0).then(l.1.cmp(&r.1));
        by_group.then_with(|| descending(&l.2, &r.2)).then(l.3.cmp(&r.3))
    });
    let mut places = Vec::new();
    for (_, group, _, at, size, count) in members {
        for _ in 0..count {
            open.sort_by(|l, r| {
                let score = |node: &Plain| order.score(&node.total, &node.free) + 0.0;
                score(l).total_cmp(&score(r)).then_with(|| l.id.cmp(&r.id))
            });
            let holds = |node: &&mut Plain| node.free.holds(size) && node.total.holds(size);
            let chosen =
                if fullest { open.iter_mut().rfind(holds) } else { open.iter_mut().find(holds) };
            let chosen = chosen?;
            chosen.free.subtract(size);
            places.push((group, at, chosen.slot));
        }
    }
    Some(places)
}

fn amount(most: i64) -> impl Strategy<Value = Resources> {
    let quantity = move || prop::option::weighted(0.8, 0..=most);
    (quantity(), quantity()).prop_map(|(vcore, memory)| {
        let named = [("vcore", vcore), ("memory", memory)];
        let there = named.into_iter().filter_map(|(name, q)| q.map(|q| (name, q)));
        Resources::of(&there.collect::<Vec<_>>())
    })
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let size = amount(5).prop_filter("a member wants something", Resources::is_positive);
    prop::collection::vec(prop::collection::vec((size, 1..6_u32), 1..4), 1..4)
}

fn cluster() -> impl Strategy<Value = (NodeSortPolicy, Vec<(Resources, Resources, bool)>)> {
    let policy = prop_oneof![Just(NodeSortPolicy::Fair), Just(NodeSortPolicy::BinPacking)];
    let node = (amount(12), amount(12), prop::bool::weighted(0.9));
    (policy, prop::collection::vec(node, 0..12))
}

fn of_cluster(
    policy: NodeSortPolicy,
    all: &[(Resources, Resources, bool)],
) -> (NodeIndex, NodeOrder) {
    let order = NodeOrder::new(policy, &[]);
    let mut nodes = NodeIndex::new(order.clone());
    for (at, (total, free, open)) in all.iter().enumerate() {
        let id = Arc::from(format!("n{at}"));
        nodes.insert(id, total.clone(), free.clone(), *open).unwrap();
    }
    (nodes, order)
}

proptest! {
    #[test]
    fn places_are_those_of_a_plain_search_and_nothing_is_kept_in_vain(
        (policy, cluster) in cluster(),
        sizes in sizes(),
    ) {
        let (mut nodes, order) = of_cluster(policy, &cluster);
        let (before, bundle) = (nodes.fingerprint(), groups(&sizes));
        let plain = plainly(&nodes, &order, &sizes, false);
        let plain = plain.or_else(|| {
            let fullest = policy == NodeSortPolicy::Fair;
            fullest.then(|| plainly(&nodes, &order, &sizes, true)).flatten()
        });
        match find(&mut nodes, &bundle) {
            Ok(mut found) => {
                let places = found.places().iter();
                let places = places.map(|it| (it.of.group, it.of.members, it.node)).collect();
                prop_assert_eq!(Some(places), plain);
                for slot in nodes.by_id() {
                    let (_, free, _) = &cluster[nodes.id(slot)[1..].parse::<usize>().unwrap()];
                    let mut taken = Resources::new();
                    for place in found.places().iter().filter(|place| place.node == slot) {
                        taken.add(&sizes[place.of.group][place.of.members].0);
                    }
                    prop_assert!(nodes.available(slot).same_amount(&free.minus(&taken)));
                }
                found.undo(&mut nodes);
            }
            Err(shortage) => {
                prop_assert_eq!(plain, None);
                let all = sizes.iter().flatten().map(|(_, count)| u64::from(*count)).sum::<u64>();
                prop_assert!((1..=all).contains(&shortage.lacks));
            }
        }
        prop_assert_eq!(nodes.fingerprint(), before);
    }

    #[test]
    fn a_bundle_of_one_size_is_due_exactly_when_it_fits_and_lacks_what_is_missing(
        (policy, cluster) in cluster(),
        size in amount(3).prop_filter("a member wants something", Resources::is_positive),
        count in 1..12_u32,
        changes in prop::collection::vec((0..12_usize, amount(12), 0..4_u8), 0..30),
    ) {
        let (mut nodes, _) = of_cluster(policy, &cluster);
        let sizes = vec![vec![(size.clone(), count)]];
        let bundle = groups(&sizes);
        let Err(shortage) = find(&mut nodes, &bundle) else { return Ok(()) };
        let places = nodes.places_since(Growth::NONE, &size, u64::MAX);
        prop_assert_eq!(shortage.lacks, u64::from(count) - places, "every open node has grown once");
        let mut waits = BundleWaits::new(&bundle, &shortage, nodes.growth());
        for (at, free, kind) in changes {
            let Some(slot) = nodes.slot_of(&format!("n{at}")) else { continue };
            match kind {
                0 => nodes.take_back(slot, &free),
                1 => nodes.set_open(slot, !nodes.is_open(slot)),
                _ => nodes.update(slot, None, &free),
            }
            let mark = (waits.at(), waits.lacks());
            let fits = find(&mut nodes, &bundle).map(|mut found| found.undo(&mut nodes)).is_ok();
            let is_due = waits.is_due(&nodes);
            prop_assert_eq!(is_due, fits);
            if fits {
                prop_assert!(nodes.may_place_since(mark.0, &size, mark.1), "and the bound says so");
                prop_assert!(nodes.may_place(&size, waits.needs()), "and that there are enough");
            }
            if is_due {
                return Ok(());
            }
        }
    }
}
