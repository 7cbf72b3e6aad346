//! Tests that a search in slices finds what an uninterrupted one finds, and only places with
//! capacity.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::{Members, Unfound, find, find_within};
use super::*;
use crate::nodes::NodeOrder;
use crate::specs::declaration::Topology;
use crate::values::again::written_and_read;
use crate::values::resources::Resources;

fn amount(vcore: i64, memory: i64) -> Resources {
    Resources::of(&[("vcore", vcore), ("memory", memory)])
}

/// Builds nodes with this much free, each in a rack.
fn cluster(free: &[(i64, i64, usize)]) -> NodeIndex {
    let mut nodes = NodeIndex::new(NodeOrder::default());
    for (at, (vcore, memory, rack)) in free.iter().enumerate() {
        let (total, free) = (amount(20, 20), amount(*vcore, *memory));
        let slot = nodes.insert(Arc::from(format!("n{at}")), total, free, true).unwrap();
        let rack = format!("r{rack}");
        nodes.set_attributes(slot, &Arc::new([("rack", &*rack)].into_iter().collect()));
    }
    nodes
}

/// The requests of a group: its members' sizes, and whether they have to stay in one rack.
type Wants = Vec<(Vec<Resources>, bool)>;

fn bundle<'a>(wants: &'a Wants, rack: &'a Topology) -> Vec<Group<'a>> {
    let members = |size| Members { request: NodeRequest::of(size), count: 1, tags: None };
    let group = |(sizes, together): &'a (Vec<Resources>, bool)| Group {
        members: sizes.iter().map(members).collect(),
        topology: together.then_some(rack),
        avoid: &[],
    };
    wants.iter().map(group).collect()
}

fn in_one_rack() -> Topology {
    Topology::new("rack".to_owned(), Vec::new()).unwrap()
}

fn nodes() -> impl Strategy<Value = Vec<(i64, i64, usize)>> {
    prop::collection::vec((0..12_i64, 0..12_i64, 0..3_usize), 1..10)
}

fn wants() -> impl Strategy<Value = Wants> {
    let size = (1..5_i64, 0..5_i64).prop_map(|(vcore, memory)| amount(vcore, memory));
    let group = (prop::collection::vec(size, 1..6), prop::bool::weighted(0.3));
    prop::collection::vec(group, 1..4)
}

fn sorted(places: &[Place]) -> Vec<(MembersAt, NodeSlot)> {
    let mut places: Vec<_> = places.iter().map(|place| (place.of, place.node)).collect();
    places.sort_unstable();
    places
}

proptest! {
    #[test]
    fn slices_find_what_one_search_finds(free in nodes(), wants in wants(), looks in 0..12_u64) {
        let (mut nodes, rack) = (cluster(&free), in_one_rack());
        let bundle = bundle(&wants, &rack);
        let at_once = find(&mut nodes, &bundle).map(|mut found| {
            let places = sorted(found.places());
            found.undo(&mut nodes);
            places
        });
        let before = nodes.fingerprint();
        let mut paused = Paused::default();
        let in_slices = loop {
            let until = nodes.looks() + looks;
            match find_within(&mut nodes, &bundle, paused, until) {
                Ok(mut found) => {
                    let places = sorted(found.places());
                    found.undo(&mut nodes);
                    break Ok(places);
                }
                Err(Unfound::Short(shortage)) => break Err(shortage),
                Err(Unfound::Paused(later)) => {
                    prop_assert_eq!(nodes.fingerprint(), &*before, "nothing is kept meanwhile");
                    paused = written_and_read(&later);
                }
            }
        };
        prop_assert_eq!(in_slices, at_once);
    }

    #[test]
    fn what_is_found_in_slices_is_there_whatever_changed_between(
        free in nodes(),
        wants in wants(),
        changes in prop::collection::vec((0..10_usize, 0..12_i64, 0..12_i64), 0..40),
    ) {
        let (mut nodes, rack) = (cluster(&free), in_one_rack());
        let bundle = bundle(&wants, &rack);
        let mut changes = changes.into_iter();
        let mut paused = Paused::default();
        let mut before = nodes.fingerprint();
        let mut until = nodes.looks();
        let mut outcome = find_within(&mut nodes, &bundle, paused, until);
        while let Err(Unfound::Paused(later)) = outcome {
            if let Some((at, vcore, memory)) = changes.next()
                && let Some(slot) = nodes.slot_of(&format!("n{at}"))
            {
                nodes.update(slot, None, &amount(vcore, memory));
            }
            (paused, before, until) = (later, nodes.fingerprint(), nodes.looks());
            outcome = find_within(&mut nodes, &bundle, paused, until);
        }
        if let Ok(mut found) = outcome {
            for node in nodes.iter() {
                prop_assert!(!nodes.available(node).has_negative());
            }
            for Chosen { group, domain, .. } in found.domains() {
                let mut of_group = found.places().iter().filter(|it| it.of.group == *group);
                let domain = std::slice::from_ref(domain);
                prop_assert!(of_group.all(|it| nodes.is_within(it.node, domain)));
            }
            let members = wants.iter().map(|(sizes, _)| sizes.len()).sum::<usize>();
            prop_assert_eq!(found.places().len(), members);
            found.undo(&mut nodes);
        }
        prop_assert_eq!(nodes.fingerprint(), before);
    }
}

/// Half of the nodes have too little of one resource: no slice makes many more looks than it may,
/// and each finds a place.
#[test]
fn a_slice_has_a_bounded_number_of_looks() {
    const LOOKS: u64 = 2_000;
    let free: Vec<_> = (0..500).map(|at| (if at % 2 == 0 { 20 } else { 1 }, 20, 0)).collect();
    let (mut nodes, rack) = (cluster(&free), in_one_rack());
    let sizes = (0..2_000).map(|at| amount(1, 1 + at % 3)).collect();
    let wants = vec![(sizes, false)];
    let bundle = bundle(&wants, &rack);
    let (mut paused, mut n_slices) = (Paused::default(), 0);
    loop {
        let (before, known) = (nodes.looks(), paused.n_places());
        let found = find_within(&mut nodes, &bundle, paused, before + LOOKS);
        // A search may be under way when the looks are used up: it looks at each node at most once,
        // and at as many bounds of several nodes.
        assert!(nodes.looks() - before <= LOOKS + 1_000, "{}", nodes.looks() - before);
        n_slices += 1;
        match found {
            Ok(_) => break,
            Err(Unfound::Paused(later)) => {
                assert!(later.n_places() > known);
                paused = later;
            }
            Err(Unfound::Short(shortage)) => panic!("{shortage:?}"),
        }
    }
    assert!(n_slices > 3, "{n_slices}");
}
