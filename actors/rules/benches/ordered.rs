//! What a placement costs in the node index, from a thousand to a hundred thousand nodes.
//!
//! The design asks that it hardly grows with the number of nodes, and that the case where bounds
//! help least (each node is full in another resource) is measured as well. Run it with
//! `cargo bench -p monoceros-rules`.

use std::collections::VecDeque;
use std::sync::Arc;

use divan::{Bencher, black_box};
use monoceros_rules::nodes::{NodeIndex, NodeOrder, NodeRequest, NodeSortPolicy};
use monoceros_rules::order::tree::{Bound, OrderedTree};
use monoceros_rules::values::ids::NodeSlot;
use monoceros_rules::values::resources::{Name, Resources};

const NODES: [u32; 3] = [1_000, 10_000, 100_000];

fn main() {
    divan::main();
}

/// A fixed sequence that looks random (a linear congruential generator).
struct Scattered(u64);

impl Scattered {
    fn below(&mut self, end: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let high = u32::try_from(self.0 >> 32).expect("half of the bits");
        u32::try_from((u64::from(high) * u64::from(end)) >> 32).expect("below the end")
    }
}

fn amount(vcore: i64, memory: i64, pods: i64) -> Resources {
    Resources::of(&[("vcore", vcore), ("memory", memory), ("pods", pods)])
}

/// Nodes of the same total, with what `available` says of each.
fn index(
    policy: NodeSortPolicy,
    n: u32,
    total: &Resources,
    mut available: impl FnMut(u32) -> Resources,
) -> NodeIndex {
    let mut nodes = NodeIndex::new(NodeOrder::new(policy, &[]));
    for number in 0..n {
        let id = Arc::from(format!("node-{number:06}"));
        nodes.insert(id, total.clone(), available(number), true).expect("ids differ");
    }
    nodes
}

/// One placement: the first node that fits, charged.
fn place(nodes: &mut NodeIndex, ask: &Resources) -> Option<NodeSlot> {
    let slot = nodes.first(&NodeRequest::of(ask))?;
    let left = nodes.available(slot).minus(ask);
    nodes.update(slot, None, &left);
    Some(slot)
}

fn release(nodes: &mut NodeIndex, slot: NodeSlot, ask: &Resources) {
    let more = nodes.available(slot).plus(ask);
    nodes.update(slot, None, &more);
}

/// Equal nodes that are never full: the first moves to the end of its like each time.
#[divan::bench(args = NODES, sample_size = 2_000)]
fn place_fair_equal_nodes(bencher: Bencher, n: u32) {
    let total = amount(1 << 40, 1 << 40, 1 << 40);
    let mut nodes = index(NodeSortPolicy::Fair, n, &total, |_| total.clone());
    let ask = amount(1_000, 4_096, 1);
    bencher.bench_local(|| place(&mut nodes, &ask));
}

/// Equal nodes with room for fifty asks each, filled one after another and then emptied.
#[divan::bench(args = NODES, sample_size = 2_000)]
fn place_binpacking_equal_nodes(bencher: Bencher, n: u32) {
    let total = amount(50_000, 1 << 20, 110);
    let mut nodes = index(NodeSortPolicy::BinPacking, n, &total, |_| total.clone());
    let ask = amount(1_000, 4_096, 1);
    bencher.bench_local(|| {
        place(&mut nodes, &ask).unwrap_or_else(|| {
            let all: Vec<_> = nodes.by_id().collect();
            for slot in &all {
                nodes.update(*slot, None, &total);
            }
            all[0]
        })
    });
}

/// A cluster that is 80 % full of asks of many sizes: one is placed, the oldest is released.
#[divan::bench(args = NODES, sample_size = 2_000)]
fn place_and_release_fair_mixed(bencher: Bencher, n: u32) {
    mixed(bencher, NodeSortPolicy::Fair, n);
}

/// The same with the fullest node first: most placements search behind nodes that are too full.
#[divan::bench(args = NODES, sample_size = 2_000)]
fn place_and_release_binpacking_mixed(bencher: Bencher, n: u32) {
    mixed(bencher, NodeSortPolicy::BinPacking, n);
}

fn mixed(bencher: Bencher, policy: NodeSortPolicy, n: u32) {
    let total = amount(64_000, 256_000, 110);
    let mut nodes = index(policy, n, &total, |_| total.clone());
    let mut random = Scattered(1);
    let asks: Vec<_> = (0..997)
        .map(|_| {
            let (vcore, memory) = (100 * random.below(80), 100 * random.below(320));
            amount(i64::from(vcore + 100), i64::from(memory + 100), 1)
        })
        .collect();
    let mut asks = asks.iter().cycle();
    // About 4,000 millicores each: thirteen fill 80 % of a node.
    let mut running: VecDeque<_> = (0..13 * n)
        .filter_map(|_| asks.next().and_then(|ask| Some((place(&mut nodes, ask)?, ask))))
        .collect();
    bencher.bench_local(|| {
        let ask = asks.next().expect("it cycles");
        if let Some(slot) = place(&mut nodes, ask) {
            running.push_back((slot, ask));
        }
        // Of those that run, one of the oldest: releases are scattered over the nodes.
        let at = random.below(1_000) as usize;
        let (slot, ask) = running.swap_remove_front(at).expect("thousands run");
        release(&mut nodes, slot, ask);
    });
}

/// Nodes that are each full in another of three resources, and an ask for all three.
fn each_full_in_another(n: u32, least: i64) -> NodeIndex {
    let total = amount(1_000, 1_000, 1_000);
    let mut random = Scattered(2);
    index(NodeSortPolicy::Fair, n, &total, |number| {
        let mut free = [0; 3].map(|_| i64::from(random.below(900)) + 100);
        free[number as usize % 3] = least;
        amount(free[0], free[1], free[2])
    })
}

/// No node has any of what it lacks: the search ends in vain.
#[divan::bench(args = NODES)]
fn search_in_vain_each_full_in_another(bencher: Bencher, n: u32) {
    let nodes = each_full_in_another(n, 0);
    let ask = amount(10, 10, 10);
    bencher.bench_local(|| nodes.first(black_box(&NodeRequest::of(&ask))));
}

/// The same with a little left of it, but too little.
#[divan::bench(args = NODES)]
fn search_in_vain_each_nearly_full_in_another(bencher: Bencher, n: u32) {
    let nodes = each_full_in_another(n, 5);
    let ask = amount(10, 10, 10);
    bencher.bench_local(|| nodes.first(black_box(&NodeRequest::of(&ask))));
}

/// An ask that no node has enough of one resource for: the maximum at the root says so.
#[divan::bench(args = NODES)]
fn search_in_vain_too_large(bencher: Bencher, n: u32) {
    let nodes = each_full_in_another(n, 0);
    let ask = amount(1_001, 10, 10);
    bencher.bench_local(|| nodes.first(black_box(&NodeRequest::of(&ask))));
}

#[derive(Clone, PartialEq)]
struct Free(Resources);

impl Bound for Free {
    fn join(&mut self, other: &Self) {
        self.0.raise_to(&other.0);
    }

    fn covers(&self, other: &Self) -> bool {
        self.0.holds(&other.0)
    }
}

/// The tree alone: a random entry moves anywhere.
#[divan::bench(args = NODES, sample_size = 2_000)]
fn rekey_anywhere(bencher: Bencher, n: u32) {
    rekey(bencher, n, |random, _| u64::from(random.below(1 << 30)));
}

/// The tree alone: a random entry moves by a thousandth of the range.
#[divan::bench(args = NODES, sample_size = 2_000)]
fn rekey_nearby(bencher: Bencher, n: u32) {
    rekey(bencher, n, |random, old| old + u64::from(random.below(1 << 20)) - (1 << 19));
}

fn rekey(bencher: Bencher, n: u32, mut next: impl FnMut(&mut Scattered, u64) -> u64) {
    let mut random = Scattered(3);
    let mut tree = OrderedTree::new();
    let mut keys: Vec<(u64, u64)> = Vec::new();
    for number in 0..n {
        let key = (u64::from(random.below(1 << 30)) + (1 << 40), u64::from(number));
        tree.insert(key, number, Free(amount(1_000, 1_000, 1_000)));
        keys.push(key);
    }
    bencher.bench_local(|| {
        let at = random.below(n) as usize;
        let new = (next(&mut random, keys[at].0), keys[at].1);
        let mut free = Resources::new();
        free.set(Name::MEMORY, i64::from(random.below(1_000)));
        free.set(Name::VCORE, i64::from(random.below(1_000)));
        tree.rekey(&keys[at], new, Free(free));
        keys[at] = new;
    });
}
