use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::nodes::growth::LOOKED_AT;
use crate::values::again::written_and_read;
use crate::values::epoch::Growth;
use crate::values::ids::NodeSlot;
use crate::values::resources::{Limits, Name, Resources};

fn amount(vcore: i64, memory: i64) -> Resources {
    Resources::of(&[("vcore", vcore), ("memory", memory)])
}

fn index(policy: NodeSortPolicy) -> NodeIndex {
    NodeIndex::new(NodeOrder::new(policy, &[]))
}

fn add(index: &mut NodeIndex, id: &str, total: &Resources) -> NodeSlot {
    index.insert(Arc::from(id), total.clone(), total.clone(), true).unwrap()
}

/// Places asks one after another; returns the ids of their nodes.
fn place(index: &mut NodeIndex, ask: &Resources, times: usize) -> Vec<String> {
    let mut placed = Vec::new();
    for _ in 0..times {
        let Some(slot) = index.first(&NodeRequest::of(ask)) else { break };
        let left = index.available(slot).minus(ask);
        index.update(slot, None, &left);
        placed.push(index.id(slot).to_string());
    }
    placed
}

#[test]
fn fair_spreads_and_ids_break_ties() {
    let mut nodes = index(NodeSortPolicy::Fair);
    add(&mut nodes, "n2", &amount(4, 4));
    add(&mut nodes, "n1", &amount(4, 4));
    assert_eq!(place(&mut nodes, &amount(1, 1), 4), ["n1", "n2", "n1", "n2"]);
}

#[test]
fn binpacking_fills_the_first_node_first() {
    let mut nodes = index(NodeSortPolicy::BinPacking);
    add(&mut nodes, "n2", &amount(4, 4));
    add(&mut nodes, "n1", &amount(4, 4));
    assert_eq!(place(&mut nodes, &amount(1, 1), 5), ["n1", "n1", "n1", "n1", "n2"]);
}

#[test]
fn a_type_that_the_node_lacks_never_fits() {
    let mut nodes = index(NodeSortPolicy::Fair);
    let slot = add(&mut nodes, "n1", &amount(4, 4));
    let gpu = Resources::of(&[("vcore", 1), ("gpu", 1)]);
    assert_eq!(nodes.first(&NodeRequest::of(&gpu)), None);
    // Nor if it is available, but not in the total.
    nodes.update(slot, None, &Resources::of(&[("vcore", 4), ("memory", 4), ("gpu", 1)]));
    assert_eq!(nodes.first(&NodeRequest::of(&gpu)), None);
    assert_eq!(
        nodes.first(&NodeRequest::of(&Resources::of(&[("gpu", 0)]))),
        Some(slot),
        "zero always fits"
    );
}

#[test]
fn what_is_below_zero_holds_nothing_of_it_and_hinders_nothing_else() {
    let mut nodes = index(NodeSortPolicy::Fair);
    let slot = add(&mut nodes, "n1", &amount(4, 4));
    nodes.update(slot, None, &amount(-2, 3));
    assert_eq!(nodes.first(&NodeRequest::of(&amount(1, 1))), None);
    assert_eq!(nodes.first(&NodeRequest::of(&Resources::of(&[("memory", 3)]))), Some(slot));
    let mark = nodes.growth();
    nodes.update(slot, None, &amount(-1, 3));
    assert_eq!(nodes.growth(), mark, "nothing fits that did not before");
}

#[test]
fn closed_nodes_count_and_are_listed_but_never_found() {
    let mut nodes = index(NodeSortPolicy::Fair);
    let (n1, n2) = (add(&mut nodes, "n1", &amount(4, 4)), add(&mut nodes, "n2", &amount(4, 4)));
    nodes.set_open(n1, false);
    assert_eq!(nodes.first(&NodeRequest::of(&Resources::new())), Some(n2));
    nodes.set_open(n2, false);
    assert_eq!(
        nodes.first(&NodeRequest::of(&Resources::new())),
        None,
        "not even an ask for nothing"
    );
    assert!(!nodes.may_hold(&Resources::new()));
    assert_eq!(nodes.iter().collect::<Vec<_>>(), [n1, n2]);
    assert_eq!(nodes.capacity(), &amount(8, 8));
    let (mark, one) = (nodes.growth(), amount(1, 1));
    nodes.update(n1, Some(&amount(9, 9)), &amount(9, 9));
    nodes.touch(n1);
    assert!(!nodes.may_hold_since(mark, &one), "a closed node grows when it is opened");
    nodes.set_open(n1, true);
    assert!(nodes.may_hold_since(mark, &amount(9, 9)));
}

#[test]
fn a_node_that_is_set_aside_is_left_out_until_it_is_given_back() {
    let mut nodes = index(NodeSortPolicy::Fair);
    let (n1, n2) = (add(&mut nodes, "n1", &amount(4, 4)), add(&mut nodes, "n2", &amount(4, 4)));
    let one = amount(1, 1);
    nodes.set_aside(n1, SetAside::Bounded(0));
    assert_eq!(nodes.first(&NodeRequest::of(&one)), Some(n2));
    assert_eq!(nodes.next(n1, &NodeRequest::of(&one)), Some(n2));
    let named = NodeRequest { required: Some("n1"), ..NodeRequest::of(&one) };
    assert_eq!(nodes.first(&named), Some(n1), "who names it asks for it");
    nodes.set_aside(n2, SetAside::Bounded(0));
    assert!(!nodes.may_hold(&Resources::new()), "not even an ask for nothing");
    assert!(nodes.is_open(n1) && nodes.is_reserved(n1) && nodes.has_room(n1, &one));

    let mark = nodes.growth();
    nodes.update(n1, Some(&amount(9, 9)), &amount(9, 9));
    nodes.take_back(n2, &amount(9, 9));
    nodes.touch(n1);
    nodes.set_open(n1, false);
    nodes.set_open(n1, true);
    let is_grown =
        |nodes: &NodeIndex| nodes.may_hold_since(mark, &one) || nodes.may_reserve_since(mark, &one);
    assert!(!is_grown(&nodes), "what it gains is for nobody but those who reserved it");
    nodes.set_open(n2, false);
    nodes.set_aside(n2, SetAside::No);
    assert!(!is_grown(&nodes), "nor is a closed node given back to anybody");
    nodes.set_aside(n1, SetAside::No);
    assert!(nodes.may_hold_since(mark, &amount(9, 9)) && nodes.may_reserve_since(mark, &one));
}

#[test]
fn room_that_comes_and_goes_makes_no_node_to_reserve() {
    let mut nodes = index(NodeSortPolicy::Fair);
    let n1 = add(&mut nodes, "n1", &amount(4, 4));
    let mark = nodes.growth();
    nodes.update(n1, None, &amount(0, 0));
    nodes.update(n1, None, &amount(4, 4));
    assert!(nodes.may_hold_since(mark, &amount(4, 4)));
    assert!(!nodes.may_reserve_since(mark, &amount(1, 1)), "it was there before");
    nodes.update(n1, Some(&amount(5, 4)), &amount(0, 0));
    assert!(nodes.may_reserve_since(mark, &amount(5, 4)), "it has become large enough");
    assert!(!nodes.may_reserve_since(mark, &amount(6, 4)));
    nodes.set_aside(n1, SetAside::Bounded(0));
    assert!(!nodes.may_reserve_since(mark, &amount(5, 4)), "somebody else was quicker");
}

#[test]
fn an_ask_reserves_the_node_that_lacks_least_and_the_first_of_equal_ones() {
    let mut nodes = index(NodeSortPolicy::Fair);
    for (id, vcore) in [("n4", 1), ("n3", 3), ("n2", 3), ("n1", 0)] {
        let slot = add(&mut nodes, id, &amount(4, 4));
        nodes.update(slot, None, &amount(vcore, 0));
    }
    let wanted = amount(4, 4);
    let best = |nodes: &NodeIndex, request: &NodeRequest<'_>| {
        nodes.best_fit(request).map(|slot| nodes.id(slot).to_string())
    };
    assert_eq!(best(&nodes, &NodeRequest::of(&wanted)).as_deref(), Some("n2"));
    let excluded = [Exclusion { node: Arc::from("n2"), until_ns: 0 }];
    let request = NodeRequest { excluded: &excluded, ..NodeRequest::of(&wanted) };
    assert_eq!(best(&nodes, &request).as_deref(), Some("n3"));
    nodes.set_aside(nodes.slot_of("n2").unwrap(), SetAside::Bounded(0));
    nodes.set_open(nodes.slot_of("n3").unwrap(), false);
    assert_eq!(best(&nodes, &NodeRequest::of(&wanted)).as_deref(), Some("n4"));
    assert_eq!(best(&nodes, &NodeRequest::of(&amount(5, 4))), None, "none is large enough");
    let named = NodeRequest { required: Some("n3"), ..NodeRequest::of(&wanted) };
    assert_eq!(best(&nodes, &named).as_deref(), Some("n3"), "closed or not");
    let large = amount(5, 4);
    let named = NodeRequest { required: Some("n3"), ..NodeRequest::of(&large) };
    assert_eq!(best(&nodes, &named), None);
}

#[test]
fn an_open_node_without_room_takes_an_ask_for_nothing_until_it_is_closed() {
    let mut nodes = index(NodeSortPolicy::Fair);
    let closed = nodes.insert(Arc::from("n1"), amount(4, 4), amount(0, 0), false).unwrap();
    let open = nodes.insert(Arc::from("n2"), amount(4, 4), amount(0, 0), true).unwrap();
    assert_eq!(nodes.first(&NodeRequest::of(&Resources::new())), Some(open));
    nodes.check();
    nodes.set_open(open, false);
    assert_eq!(nodes.first(&NodeRequest::of(&Resources::new())), None);
    nodes.check();
    nodes.set_open(closed, true);
    assert_eq!(nodes.first(&NodeRequest::of(&Resources::new())), Some(closed));
}

#[test]
fn capacity_forgets_nothing_at_the_end_of_the_range() {
    let mut nodes = index(NodeSortPolicy::Fair);
    let all = add(&mut nodes, "n1", &amount(i64::MAX, 1));
    add(&mut nodes, "n2", &amount(i64::MAX, 0));
    add(&mut nodes, "n3", &amount(5, 0));
    assert_eq!(nodes.capacity(), &amount(i64::MAX, 1));
    nodes.remove(all);
    nodes.remove(nodes.slot_of("n2").unwrap());
    assert_eq!(nodes.capacity(), &Resources::of(&[("vcore", 5)]));
}

#[test]
fn an_id_is_known_once_and_a_slot_is_given_again() {
    let mut nodes = index(NodeSortPolicy::Fair);
    let slot = add(&mut nodes, "n1", &amount(1, 1));
    let again = nodes.insert(Arc::from("n1"), amount(9, 9), amount(9, 9), true);
    assert_eq!(again, Err(NodeExists(Arc::from("n1"))));
    assert_eq!(nodes.capacity(), &amount(1, 1));
    let mark = nodes.growth();
    nodes.touch(slot);
    nodes.remove(slot);
    assert_eq!(nodes.slot_of("n1"), None);
    let other = nodes.insert(Arc::from("n0"), amount(5, 5), amount(5, 5), false).unwrap();
    assert_eq!(other, slot);
    assert_eq!((nodes.slot_of("n0"), nodes.slot_of("n1")), (Some(slot), None));
    assert!(!nodes.may_hold_since(mark, &amount(1, 1)), "that growth was another node's");
}

#[test]
fn beyond_64_grown_nodes_the_maximum_answers() {
    let mut nodes = index(NodeSortPolicy::Fair);
    let first = add(&mut nodes, "a", &amount(9, 9));
    let mark = nodes.growth();
    nodes.touch(first);
    for at in 0..64 {
        add(&mut nodes, &format!("n{at}"), &amount(1, 1));
    }
    assert!(nodes.may_hold_since(mark, &amount(9, 9)), "the 65th holds it");
    let small = nodes.growth().number() - 64;
    assert!(!nodes.may_hold_since(Growth::numbered(small), &amount(2, 2)), "64 were looked at");
    assert!(nodes.may_hold_since(Growth::numbered(small - 1), &amount(9, 9)));
    nodes.update(first, None, &amount(0, 9));
    assert!(!nodes.may_hold_since(mark, &amount(2, 2)), "no node has two cores");
}

#[test]
fn ids_break_ties_in_whatever_order_the_nodes_came() {
    let mut nodes = index(NodeSortPolicy::Fair);
    add(&mut nodes, "z", &amount(1, 1));
    for at in 0..400 {
        // Two sequences that halve gaps each time, until labels are spread.
        add(&mut nodes, &format!("m{at:04}"), &amount(1, 1));
        add(&mut nodes, &format!("b{:04}", 999 - at), &amount(1, 1));
    }
    nodes.check();
    assert!(nodes.iter().eq(nodes.by_id()));
    let ids: Vec<_> = nodes.by_id().map(|slot| nodes.id(slot)).collect();
    assert!(ids.is_sorted());
    for id in ["", "b0500", "b05001", "m0399", "z", "zz"] {
        let behind: Vec<_> = nodes.behind(id).collect();
        let expected: Vec<_> = nodes.by_id().filter(|slot| **nodes.id(*slot) > *id).collect();
        assert_eq!(behind, expected, "behind `{id}`");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, Resources, Resources, bool),
    Remove(u16),
    Update(u16, Option<Resources>, Resources),
    Place(Resources),
    SetOpen(u16, bool),
    SetReserved(u16, bool),
    Touch(u16),
    SetOrder(usize),
    WriteAndRead(Resources),
}

const IDS: u16 = 200;

fn resources(least: i64) -> impl Strategy<Value = Resources> {
    let quantity = move || prop_oneof![3 => Just(None), 7 => (least..12_i64).prop_map(Some)];
    (quantity(), quantity(), quantity()).prop_map(|(a, b, c)| {
        let named = [("vcore", a), ("gpu", b), ("memory", c)];
        let present: Vec<_> =
            named.iter().filter_map(|(name, quantity)| quantity.map(|q| (*name, q))).collect();
        Resources::of(&present)
    })
}

fn step() -> impl Strategy<Value = Step> {
    let id = || 0..IDS;
    prop_oneof![
        6 => (id(), resources(0), resources(-3), prop::bool::weighted(0.8))
            .prop_map(|(id, total, available, open)| Step::Insert(id, total, available, open)),
        2 => id().prop_map(Step::Remove),
        4 => (id(), prop::option::weighted(0.3, resources(0)), resources(-3))
            .prop_map(|(id, total, available)| Step::Update(id, total, available)),
        4 => resources(0).prop_map(Step::Place),
        1 => (id(), any::<bool>()).prop_map(|(id, open)| Step::SetOpen(id, open)),
        2 => (id(), any::<bool>()).prop_map(|(id, reserved)| Step::SetReserved(id, reserved)),
        1 => id().prop_map(Step::Touch),
        1 => (0..4_usize).prop_map(Step::SetOrder),
        1 => resources(0).prop_map(Step::WriteAndRead),
    ]
}

/// The model of the index: every answer is a scan.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<String, ModelNode>,
    order: usize,
}

struct ModelNode {
    total: Resources,
    available: Resources,
    open: bool,
    reserved: bool,
    /// The growth number after its last growth; zero before the first.
    grown: Growth,
    /// The growth number after it last became available for a reservation.
    vacant: Growth,
}

impl ModelNode {
    fn holds(&self, ask: &Resources) -> bool {
        self.is_open_to_all() && self.available.holds(ask) && self.total.holds(ask)
    }

    fn is_open_to_all(&self) -> bool {
        self.open && !self.reserved
    }

    fn lends(&self, ask: &Resources) -> bool {
        self.open && self.reserved && self.available.holds(ask) && self.total.holds(ask)
    }

    /// Returns the sum of the missing parts of the requested amounts.
    fn lack(&self, ask: &Resources) -> f64 {
        let parts = ask.sorted().into_iter().map(|(name, wanted)| {
            let available = self.available.get(Name::keep(&name)).max(0);
            (wanted - available).max(0) as f64 / wanted.max(1) as f64
        });
        parts.sum()
    }

    /// Returns the score by its definition: the weighted mean of used shares, or one minus it for
    /// bin packing.
    fn score(&self, order: usize) -> f64 {
        let (binpacking, weights) = ORDERS[order];
        let (mut sum, mut sum_of_weights) = (0.0, 0.0);
        for (name, weight) in weights {
            let name = Name::keep(name);
            let Some(total) = self.total.find(name) else { continue };
            let share = 1.0 - self.available.get(name) as f64 / total as f64;
            if !share.is_nan() {
                sum += weight * share;
                sum_of_weights += weight;
            }
        }
        let usage = if sum_of_weights == 0.0 { 0.0 } else { sum / sum_of_weights };
        let usage = if usage.is_nan() { 0.0 } else { usage };
        if binpacking { 1.0 - usage } else { usage }
    }
}

type Weights = &'static [(&'static str, f64)];

/// Weights are in alphabetical order, in which they are summed.
const ORDERS: [(bool, Weights); 4] = [
    (false, &[("memory", 1.0), ("vcore", 1.0)]),
    (true, &[("memory", 1.0), ("vcore", 1.0)]),
    (false, &[("memory", 1.0), ("vcore", 4.0)]),
    (true, &[("gpu", 0.3), ("memory", 0.1)]),
];

fn order(number: usize) -> NodeOrder {
    let (binpacking, weights) = ORDERS[number];
    let policy = if binpacking { NodeSortPolicy::BinPacking } else { NodeSortPolicy::Fair };
    let weights: Vec<_> = weights.iter().rev().map(|(k, w)| ((*k).to_owned(), *w)).collect();
    NodeOrder::new(policy, &weights)
}

/// Returns ids whose order is not that of their numbers, and that share few gaps.
fn id(number: u16) -> String {
    format!("{}{:03}", ["m", "a", "mm"][usize::from(number % 3)], IDS - number)
}

impl Model {
    fn in_order(&self) -> Vec<&str> {
        let mut scored: Vec<_> =
            self.nodes.iter().map(|(id, node)| (node.score(self.order), id)).collect();
        scored.sort_by(|a, b| (a.0 + 0.0).total_cmp(&(b.0 + 0.0)).then_with(|| a.1.cmp(b.1)));
        scored.into_iter().map(|(_, id)| id.as_str()).collect()
    }

    fn capacity(&self) -> Resources {
        let mut sum = Resources::new();
        self.nodes.values().for_each(|node| sum.add(&node.total));
        sum.pruned()
    }

    fn left(&self) -> Limits {
        let mut left = Resources::new();
        for (name, _) in self.capacity().entries() {
            let of = |node: &ModelNode| node.available.get(name).max(0);
            left.set(name, self.nodes.values().map(of).sum());
        }
        left.into()
    }

    /// Takes a step in both. The growth counter has to rise by one if a node grew in the step, or
    /// the free capacity of all nodes together did.
    fn take(&mut self, index: &mut NodeIndex, step: &Step) {
        let (mark, left) = (index.growth(), self.left().as_resources());
        let grown = self.grown_by(index, step);
        let risen = index.growth().number() - mark.number();
        let has_more = !left.holds(&self.left().as_resources());
        let may_rise = matches!(step, Step::Insert(..) | Step::Update(..)) || grown.is_some();
        assert!(risen <= u64::from(may_rise), "{step:?}");
        assert!(risen == 1 || (grown.is_none() && !has_more), "{step:?}");
        if let Some((id, is_vacancy)) = grown {
            let node = self.nodes.get_mut(&id).unwrap();
            node.grown = index.growth();
            if is_vacancy {
                node.vacant = node.grown;
            }
        }
    }

    /// Returns the node that grew, and whether it became available for a reservation.
    fn grown_by(&mut self, index: &mut NodeIndex, step: &Step) -> Option<(String, bool)> {
        let known = |index: &NodeIndex, number: u16| index.slot_of(&id(number));
        match step {
            Step::Insert(number, total, available, open) => {
                let id = id(*number);
                let (total, available) = (total.clone(), available.clone());
                let inserted =
                    index.insert(Arc::from(&*id), total.clone(), available.clone(), *open);
                assert_eq!(inserted.is_err(), self.nodes.contains_key(&id));
                inserted.ok()?;
                let (reserved, grown, vacant) = (false, Growth::NONE, Growth::NONE);
                let node = ModelNode { total, available, open: *open, reserved, grown, vacant };
                self.nodes.insert(id.clone(), node);
                open.then_some((id, true))
            }
            Step::Remove(number) => {
                let slot = known(index, *number)?;
                index.remove(slot);
                self.nodes.remove(&id(*number));
                None
            }
            Step::Update(number, total, available) => {
                let slot = known(index, *number)?;
                index.update(slot, total.as_ref(), available);
                let node = self.nodes.get_mut(&id(*number)).unwrap();
                let mut grew = larger(available, &node.available);
                let extends = total.as_ref().is_some_and(|total| larger(total, &node.total));
                grew |= extends;
                if let Some(total) = total {
                    node.total = total.clone();
                }
                node.available = available.clone();
                let is_vacancy = extends && !node.reserved;
                (grew && node.open).then(|| (id(*number), is_vacancy))
            }
            Step::Place(ask) => {
                let slot = index.first(&NodeRequest::of(ask))?;
                let left = index.available(slot).minus(ask);
                index.update(slot, None, &left);
                self.nodes.get_mut(&**index.id(slot)).unwrap().available = left;
                None
            }
            Step::SetOpen(number, open) => {
                let slot = known(index, *number)?;
                index.set_open(slot, *open);
                let node = self.nodes.get_mut(&id(*number)).unwrap();
                let was_open = std::mem::replace(&mut node.open, *open);
                let is_vacancy = !node.reserved;
                (!was_open && node.open).then(|| (id(*number), is_vacancy))
            }
            Step::SetReserved(number, reserved) => {
                let slot = known(index, *number)?;
                index.set_aside(slot, if *reserved { SetAside::Bounded(0) } else { SetAside::No });
                let node = self.nodes.get_mut(&id(*number)).unwrap();
                let was_reserved = std::mem::replace(&mut node.reserved, *reserved);
                (was_reserved && node.is_open_to_all()).then(|| (id(*number), true))
            }
            Step::Touch(number) => {
                let slot = known(index, *number)?;
                index.touch(slot);
                self.nodes[&id(*number)].open.then(|| (id(*number), false))
            }
            Step::SetOrder(number) => {
                index.set_order(order(*number));
                self.order = *number;
                None
            }
            Step::WriteAndRead(ask) => {
                let read = written_and_read(index);
                // A search that pauses after a number of looks pauses where it would have.
                let found =
                    [&*index, &read].map(|it| (it.first(&NodeRequest::of(ask)), it.looks()));
                assert_eq!(found[0], found[1]);
                *index = read;
                None
            }
        }
    }

    fn compare(&self, index: &NodeIndex, asks: &[Resources]) {
        index.check();
        let in_order = self.in_order();
        let id = |slot: NodeSlot| &**index.id(slot);
        assert_eq!(index.len(), self.nodes.len());
        assert_eq!(index.iter().map(id).collect::<Vec<_>>(), in_order);
        assert!(index.by_id().map(id).eq(self.nodes.keys()));
        assert_eq!(index.capacity(), &self.capacity());
        assert_eq!(index.left(), self.left());
        for ask in asks {
            let fits = |id: &&&str| self.nodes[**id].holds(ask);
            let first = in_order.iter().find(fits).copied();
            assert_eq!(index.first(&NodeRequest::of(ask)).map(id), first);
            assert!(first.is_none() || index.may_hold(ask));
            for (at, after) in in_order.iter().enumerate().step_by(7) {
                let next = in_order[at + 1..].iter().find(fits).copied();
                let after = index.slot_of(after).unwrap();
                assert_eq!(index.next(after, &NodeRequest::of(ask)).map(id), next);
            }
            for back in [0, 1, 3, 20, 100, u64::MAX] {
                let mark = Growth::numbered(index.growth().number().saturating_sub(back));
                let grown: Vec<_> = self.nodes.values().filter(|n| n.grown > mark).collect();
                let holds = grown.iter().any(|node| node.holds(ask));
                let answer = index.may_hold_since(mark, ask);
                assert!(answer || !holds, "a node that grew after {mark:?} holds {ask}");
                assert!(!answer || holds || grown.len() > LOOKED_AT, "{mark:?} {ask}");
                let lent = grown.iter().any(|node| node.lends(ask));
                let answer = index.may_lend_since(mark, ask, Some(1), true);
                assert!(answer || !lent, "a node that grew after {mark:?} lends {ask}");
                assert!(!answer || lent || grown.len() > LOOKED_AT, "{mark:?} {ask}");
                assert!(!index.may_lend_since(mark, ask, Some(0), true) || grown.len() > LOOKED_AT);
                let vacant = self.nodes.values().filter(|n| n.vacant > mark && n.is_open_to_all());
                let large = vacant.clone().any(|n| n.total.holds(ask));
                let answer = index.may_reserve_since(mark, ask);
                assert!(answer || !large, "a node that was vacant after {mark:?} is for {ask}");
                assert!(!answer || large || vacant.count() > LOOKED_AT, "{mark:?} {ask}");
            }
            let lends = |id: &&&str| self.nodes[**id].lends(ask);
            let first = in_order.iter().find(lends).copied();
            let request = NodeRequest::of(ask);
            assert_eq!(index.first_lent(None, &request, Some).map(id), first);
            assert!(first.is_none() || index.may_lend(ask));
            let may_be = |id: &&&str| {
                let node = &self.nodes[**id];
                node.is_open_to_all() && node.total.holds(ask)
            };
            // Sums of the model that differ only in their last bits count as equal.
            let best = in_order.iter().filter(may_be).copied().reduce(|best, next| {
                let gain = self.nodes[best].lack(ask) - self.nodes[next].lack(ask);
                if gain > 1e-9 { next } else { best }
            });
            assert_eq!(index.best_fit(&NodeRequest::of(ask)).map(id), best, "{ask}");
        }
    }
}

/// Whether any quantity above zero is larger than before.
fn larger(now: &Resources, before: &Resources) -> bool {
    now.entries().any(|(name, quantity)| quantity > before.get(name).max(0))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_history_agrees_with_a_scan_of_sorted_nodes(
        steps in prop::collection::vec(step(), 1..300),
        asks in prop::collection::vec(resources(0), 4),
    ) {
        let mut nodes = NodeIndex::new(order(0));
        // The bound on the capacity set aside has its own tests.
        nodes.set_reservation_share(1_000_000);
        let mut model = Model::default();
        for (at, step) in steps.iter().enumerate() {
            model.take(&mut nodes, step);
            if at % 32 == 0 {
                model.compare(&nodes, &asks);
            }
        }
        model.compare(&nodes, &asks);
    }
}
