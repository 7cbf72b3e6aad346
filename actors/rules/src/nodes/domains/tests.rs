use proptest::prelude::*;

use super::*;
use crate::nodes::{Fits, NodeOrder, SetAside};

fn vcores(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity)])
}

fn set(nodes: &mut NodeIndex, slot: NodeSlot, key: &str, value: &str) {
    nodes.set_attributes(slot, &Arc::new([(key, value)].into_iter().collect()));
}

fn insert(nodes: &mut NodeIndex, id: &str, free: i64, rack: &str) -> NodeSlot {
    let slot = nodes.insert(Arc::from(id), vcores(8), vcores(free), true).unwrap();
    set(nodes, slot, "rack", rack);
    slot
}

#[test]
fn a_search_in_a_domain_finds_its_nodes_in_order_kept_or_not() {
    let mut nodes = NodeIndex::new(NodeOrder::default());
    for (at, free) in [8, 1, 5, 3, 7].iter().enumerate() {
        insert(&mut nodes, &format!("n{at}"), *free, if at % 2 == 0 { "even" } else { "odd" });
    }
    let two = vcores(2);
    let even = [Domain::new("rack", "even")];
    let nobody = [Domain::new("rack", "third")];
    for is_kept in [false, true] {
        if is_kept {
            nodes.keep_domains("rack");
        }
        let request = NodeRequest { domains: &even, ..NodeRequest::of(&two) };
        let found = nodes.several(&request, None, 9);
        let ids: Vec<&str> = found.iter().map(|slot| &**nodes.id(*slot)).collect();
        assert_eq!(ids, ["n0", "n4", "n2"]);
        assert_eq!(nodes.tightest(&request), nodes.slot_of("n2"));
        let request = NodeRequest { domains: &nobody, ..request };
        assert_eq!(nodes.first(&request), None);
        assert_eq!(nodes.lacks(&request, &Fits::Unknown).topology, 5);
    }
}

#[test]
fn what_nobody_asks_for_any_more_is_forgotten_and_what_is_asked_for_is_not() {
    let mut nodes = NodeIndex::new(NodeOrder::default());
    let n1 = insert(&mut nodes, "n1", 8, "r1");
    nodes.keep_domains("rack");
    nodes.keep_domains("zone");
    for at in 0..2 * CHANGES_LEAST {
        nodes.update(n1, None, &vcores(i64::try_from(at % 8).unwrap()));
        if at % 100 == 0 {
            nodes.keep_domains("rack");
        }
    }
    let kept: Vec<&str> = nodes.domains.kept.iter().map(|kept| &*kept.key).collect();
    assert_eq!(kept, ["rack"]);
    for at in 0..2 * KEPT_MAX {
        nodes.keep_domains(&format!("key{at}"));
    }
    assert_eq!(nodes.domains.kept.len(), KEPT_MAX);
    assert!(nodes.domains.kept("rack").is_none(), "it was asked for longest ago");
}

#[derive(Clone, Debug)]
enum Change {
    Add(usize, i64, usize),
    Remove(usize),
    Free(usize, i64),
    Attribute(usize, usize),
    Open(usize, bool),
    Reserve(usize, bool),
    Pack(bool),
}

fn change() -> impl Strategy<Value = Change> {
    let at = 0_usize..6;
    prop_oneof![
        (at.clone(), -1_i64..9, 0_usize..4)
            .prop_map(|(at, free, rack)| Change::Add(at, free, rack)),
        at.clone().prop_map(Change::Remove),
        (at.clone(), -1_i64..9).prop_map(|(at, free)| Change::Free(at, free)),
        (at.clone(), 0_usize..4).prop_map(|(at, rack)| Change::Attribute(at, rack)),
        (at.clone(), any::<bool>()).prop_map(|(at, open)| Change::Open(at, open)),
        (at, any::<bool>()).prop_map(|(at, reserved)| Change::Reserve(at, reserved)),
        any::<bool>().prop_map(Change::Pack),
    ]
}

proptest! {
    #[test]
    fn domains_are_what_the_attributes_say(
        changes in prop::collection::vec(change(), 1..40),
        keep_at in 0_usize..20,
    ) {
        use crate::nodes::NodeSortPolicy;
        let mut nodes = NodeIndex::new(NodeOrder::default());
        for (at, change) in changes.iter().enumerate() {
            if at == keep_at {
                nodes.keep_domains("rack");
            }
            // Ids between others make the index assign labels again.
            let slot = |nodes: &NodeIndex, at: &usize| nodes.slot_of(&format!("n{at}"));
            let rack = |rack: &usize| format!("r{rack}");
            match change {
                Change::Add(at, free, of) => {
                    if slot(&nodes, at).is_none() {
                        insert(&mut nodes, &format!("n{at}"), *free, &rack(of));
                    }
                }
                Change::Remove(at) => {
                    if let Some(slot) = slot(&nodes, at) {
                        nodes.remove(slot);
                    }
                }
                Change::Free(at, free) => {
                    if let Some(slot) = slot(&nodes, at) {
                        nodes.update(slot, None, &vcores(*free));
                    }
                }
                Change::Attribute(at, of) => {
                    if let Some(slot) = slot(&nodes, at) {
                        set(&mut nodes, slot, if *of == 0 { "zone" } else { "rack" }, &rack(of));
                    }
                }
                Change::Open(at, open) => {
                    if let Some(slot) = slot(&nodes, at) {
                        nodes.set_open(slot, *open);
                    }
                }
                Change::Reserve(at, reserved) => {
                    if let Some(slot) = slot(&nodes, at) {
                        nodes.set_aside(slot, if *reserved { SetAside::Bounded(0) } else { SetAside::No });
                    }
                }
                Change::Pack(packs) => {
                    let policy =
                        if *packs { NodeSortPolicy::BinPacking } else { NodeSortPolicy::Fair };
                    nodes.set_order(NodeOrder::new(policy, &[]));
                }
            }
            nodes.check();
            let two = vcores(2);
            for of in 0..4 {
                let domains = [Domain::new("rack", &rack(&of))];
                let request = NodeRequest { domains: &domains, ..NodeRequest::of(&two) };
                let mut may = nodes.iter().filter(|slot| {
                    nodes.is_open_to_all(*slot)
                        && nodes.has_room(*slot, &two)
                        && nodes.attribute(*slot, "rack") == Some(&*rack(&of))
                });
                prop_assert_eq!(nodes.first(&request), may.next());
            }
        }
    }
}
