//! No allocation is evicted for a request while a node that it may use has the free capacity and
//! its queues allow it. Random histories with nodes that shrink below their usage, allocations that
//! grow in place, victims of different priorities, and creation times in the future.
//!
//! Free capacity and permissions are computed here from the snapshots of nodes and queues,
//! independently of the scheduler. The deficit of an overcommitted node reduces no other node.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use monoceros_actors::Resources;
use monoceros_actors::snapshot::{AskSnapshot, NodeSnapshot, QueueSnapshot};
use monoceros_proto::si::v1::TerminationType;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestError};

use crate::histories::{runner, which, with_end};
use crate::script::{Amounts, Item, NodeWords, QueueWords, Script, Step, Wish};
use crate::world::{BEGIN_S, How, World, in_virtual_time};

const LEAVES: [&str; 4] = ["root.a", "root.b", "root.p.c", "root.p.d"];

fn vcores(quantity: i64) -> Amounts {
    Amounts([("vcore".to_owned(), quantity)].into())
}

fn queue(path: &'static str, is_leaf: bool) -> impl Strategy<Value = QueueWords> {
    let guaranteed = prop::option::weighted(if is_leaf { 0.5 } else { 0.1 }, 5..=12_i64);
    let max = prop::option::weighted(0.2, 12..=20_i64);
    let delay = prop::sample::select(&["1ms", "1s", "30s"][..]);
    let offset =
        prop_oneof![5 => Just(None), 1 => prop::sample::select(&["-2", "2"][..]).prop_map(Some)];
    (guaranteed, max, delay, offset).prop_map(move |(guaranteed, max, delay, offset)| {
        let delay = is_leaf.then_some(("preemption.delay", delay));
        let offset = offset.map(|offset| ("priority.offset", offset));
        let properties = delay.into_iter().chain(offset);
        QueueWords {
            path: path.to_owned(),
            guaranteed: guaranteed.map(vcores),
            max: max.map(vcores),
            properties: properties.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            ..QueueWords::default()
        }
    })
}

fn tree() -> impl Strategy<Value = Vec<Step>> {
    let [a, b, c, d] = LEAVES.map(|path| queue(path, true));
    let queues = (a, b, queue("root.p", false), c, d);
    let is_valid = |queues: &Vec<QueueWords>| crate::histories::is_valid(queues);
    let queues = queues.prop_map(|(a, b, p, c, d)| vec![a, b, p, c, d]);
    let queues = queues.prop_filter("a parent is guaranteed what is below it", is_valid);
    queues.prop_map(|queues| queues.into_iter().map(Step::Queue).collect())
}

fn node() -> impl Strategy<Value = String> {
    (1..=4_u8).prop_map(|n| format!("n{n}"))
}

/// A request, whose key no other application uses.
fn wish() -> impl Strategy<Value = Wish> {
    let name =
        (1..=5_u8, 0..6_u8).prop_map(|(app, key)| (format!("a{app}"), format!("a{app}k{key}")));
    let policy = prop::sample::select(&["itself", "both", "both"][..]);
    let required = prop::option::weighted(0.1, node());
    let created = prop_oneof![
        1 => Just(None),
        2 => Just(Some(BEGIN_S - 100)),
        2 => Just(Some(BEGIN_S + 3_600)),
    ];
    (name, 1..=4_i64, policy, required, 0..=3_i32, created).prop_map(
        |((app, key), size, policy, required, priority, created)| Wish {
            policy: policy.to_owned(),
            required,
            priority,
            created: created.map(|seconds| seconds.to_string()),
            ..Wish::of(&app, &key, vcores(size))
        },
    )
}

fn machine(least: i64) -> impl Strategy<Value = NodeWords> {
    (node(), least..=9).prop_map(|(id, total)| NodeWords {
        id,
        total: Some(vcores(total)),
        ..NodeWords::default()
    })
}

fn said() -> impl Strategy<Value = Item> {
    let kind = TerminationType::StoppedByRm as i32;
    prop_oneof![
        16 => wish().prop_map(Item::Ask),
        6 => wish().prop_map(Item::Request),
        2 => (wish(), node()).prop_map(|(wish, node)| Item::Exists(wish, node)),
        2 => machine(3).prop_map(Item::Node),
        2 => machine(1).prop_map(Item::Resize),
        1 => node().prop_map(Item::Drain),
        3 => node().prop_map(Item::Undrain),
        1 => node().prop_map(Item::RemoveNode),
        2 => wish().prop_map(move |it| Item::Withdraw { app: it.app, key: it.key, kind }),
        5 => (1..=5_u8, which()).prop_map(move |(app, which)| {
            Item::Release { app: format!("a{app}"), which, kind }
        }),
    ]
}

fn history() -> impl Strategy<Value = Script> {
    let times = prop::sample::select(&[1_u64, 1_000, 15_000, 31_000, 3_601_000][..]);
    let step = prop_oneof![
        24 => said().prop_map(|item| Step::Send { items: vec![item], waits: true }),
        8 => times.prop_map(|ms| Step::Wait(Duration::from_millis(ms))),
        6 => any::<usize>().prop_map(|which| {
            Step::Confirm { which: Some(which), kind: None, waits: true }
        }),
        2 => Just(Step::Confirm { which: None, kind: None, waits: true }),
    ];
    // The first allocations fill the nodes.
    let run = (1..=5_u8, 0..4_usize, 1..=3_i64, -2..=1_i32);
    let runs = prop::collection::vec(run, 8..16);
    let spare = prop::collection::vec(prop_oneof![3 => Just(0_i64), 1 => 1..=2_i64], 4);
    let steps = prop::collection::vec(step, 20..60);
    (tree(), spare, runs, steps).prop_map(|(queues, spare, runs, steps)| {
        let nodes = spare.iter().enumerate().map(|(at, spare)| {
            let here = runs.iter().filter(|(_, node, ..)| *node == at);
            let total = spare + here.map(|(_, _, size, _)| size).sum::<i64>();
            let (id, total) = (format!("n{}", at + 1), Some(vcores(total.max(1))));
            Item::Node(NodeWords { id, total, ..NodeWords::default() })
        });
        let runs = runs.iter().enumerate().map(|(at, (app, node, size, priority))| {
            let (app, key) = (format!("a{app}"), format!("a{app}r{at}"));
            let wish = Wish { priority: *priority, ..Wish::of(&app, &key, vcores(*size)) };
            Item::Exists(wish, format!("n{}", node + 1))
        });
        let send = |item| Step::Send { items: vec![item], waits: true };
        let apps = (0..5).map(|n| {
            let text = format!("app a{} in {}", n + 1, LEAVES[n % LEAVES.len()]);
            Script::parse(&text).0.remove(0)
        });
        let head = queues.into_iter().chain(nodes.map(send)).chain(apps);
        with_end(head.chain(runs.map(send)).collect(), steps)
    })
}

/// Snapshots of a partition.
struct Shown {
    nodes: Vec<NodeSnapshot>,
    root: QueueSnapshot,
    /// Pending requests with their queues.
    pending: Vec<(String, AskSnapshot)>,
}

impl Shown {
    async fn of(world: &World) -> Self {
        let mut pending = Vec::new();
        for leaf in LEAVES {
            let apps = world.scheduler.applications("default", leaf).await.unwrap();
            let asks = apps.into_iter().flat_map(|app| app.requests);
            pending.extend(asks.map(|ask| (leaf.to_owned(), ask)));
        }
        let nodes = world.scheduler.nodes("default").await.unwrap();
        Self { nodes, root: world.scheduler.queues("default").await.unwrap(), pending }
    }

    /// A node on which the request could run now without evictions.
    fn free_node_for(&self, key: &str) -> Option<&str> {
        let (leaf, ask) = self.pending.iter().find(|(_, ask)| ask.allocation_key == key)?;
        let may_use = |node: &&NodeSnapshot| {
            let is_open = if ask.required_node_id.is_empty() {
                node.schedulable && node.reservations.iter().all(|other| other == key)
            } else {
                node.node_id == ask.required_node_id
            };
            is_open && node.available.holds(&ask.resource)
        };
        let node = self.nodes.iter().find(may_use)?;
        self.queues_allow(leaf, ask).then_some(&*node.node_id)
    }

    /// Whether the configured maxima allow the request, in addition to pending requests with
    /// reserved nodes.
    fn queues_allow(&self, leaf: &str, ask: &AskSnapshot) -> bool {
        let is_reserved = |key: &str| {
            self.nodes.iter().any(|node| node.reservations.iter().any(|other| other == key))
        };
        let mut queue = &self.root;
        while queue.queue_name != leaf {
            let is_above = |below: &&QueueSnapshot| {
                let rest = leaf.strip_prefix(&below.queue_name);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            queue = queue.children.iter().find(is_above).expect("the leaf is there");
            let mut wanted: Resources = ask.resource.clone();
            for (of, other) in &self.pending {
                let is_other = other.allocation_key != ask.allocation_key;
                if is_other
                    && of.starts_with(&queue.queue_name)
                    && is_reserved(&other.allocation_key)
                {
                    wanted.add(&other.resource);
                }
            }
            if !queue.max_resource.less(&queue.allocated_resource).allows(&wanted) {
                return false;
            }
        }
        true
    }
}

/// Plays a history. Returns the number of requests for which victims were evicted.
async fn needless_evictions(script: &Script) -> Result<usize, TestCaseError> {
    let mut world = World::new(How::Plain);
    let (mut seen, mut notified) = (0, 0);
    for step in &script.0 {
        world.step(step).await;
        world.settle().await;
        let range = world.scheduler.events().range(seen, u64::MAX);
        seen = range.highest + 1;
        let keys = range.records.iter().filter_map(|event| {
            let words = event.message.strip_prefix("preempted for ask `")?;
            Some(words.split('`').next()?.to_owned())
        });
        let keys: BTreeSet<String> = keys.collect();
        if keys.is_empty() {
            continue;
        }
        let shown = Shown::of(&world).await;
        notified += keys.len();
        for key in keys {
            let node = shown.free_node_for(&key);
            prop_assert_eq!(node, None, "others left for `{}` in vain: {}", key, step);
        }
    }
    prop_assert_eq!(world.take_played().wrong, Vec::<String>::new());
    world.scheduler.shutdown().await;
    Ok(notified)
}

#[test]
fn no_eviction_while_capacity_is_free() {
    const CASES: u32 = 24;
    let notified = Cell::new(0);
    let result = runner(CASES).run(&history(), |script| {
        notified.set(notified.get() + in_virtual_time(needless_evictions(&script))?);
        Ok(())
    });
    if let Err(TestError::Fail(why, script)) = result {
        panic!("{why}\n\n{script}");
    }
    let notified = notified.get();
    assert!(notified > CASES as usize / 2, "a property of {notified} requests says little");
}
