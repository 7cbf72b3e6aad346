//! Random histories of preemption: queues with guarantees in a full cluster, asks with and without
//! the right to preempt, daemons, limits of users and of running applications, placement
//! constraints, victims that are confirmed late, twice or never, reloads, nodes that are added,
//! removed, and shrink below their usage, allocations that grow in place, and creation times in the
//! future. Also evictions in a cluster whose demand is constant, or starts and ends at any time: no
//! storms, and no cycles.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use monoceros_actors::Resources;
use monoceros_actors::snapshot::QueueSnapshot;
use monoceros_proto::si::v1::event_record::ChangeDetail as Detail;
use monoceros_rules::decide::preemption::STAYS;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestError};
use serde_json::json;

use crate::histories::{holds_true, run, runner, survives, which, with_end};
use crate::script::{Amounts, Item, LimitWords, NodeWords, QueueWords, Script, Step, Wish};
use crate::world::{How, World, in_virtual_time};

const LEAVES: [&str; 4] = ["root.a", "root.b", "root.p.c", "root.p.d"];

fn vcores(quantity: i64) -> Amounts {
    Amounts([("vcore".to_owned(), quantity)].into())
}

/// A leaf that may have a guarantee, and whose asks preempt soon.
fn leaf(path: &'static str) -> impl Strategy<Value = QueueWords> {
    let guaranteed = prop_oneof![1 => Just(None), 4 => (1..=8_i64).prop_map(Some)];
    let delay = prop::sample::select(&["1ms", "1s", "30s"][..]);
    let others = prop_oneof![
        4 => Just(None),
        1 => Just(Some(("preemption.policy", "fence"))),
        1 => Just(Some(("preemption.policy", "disabled"))),
        1 => Just(Some(("preemption.max.evictions", "1"))),
        1 => Just(Some(("preemption.min.runtime", "2s"))),
        1 => Just(Some(("preemption.window", "20s"))),
        1 => Just(Some(("priority.offset", "2"))),
    ];
    let limit = prop::option::weighted(0.3, (prop::sample::select(&["ann", "*"][..]), 2..=8_i64));
    let max_apps = prop_oneof![8 => Just(0), 1 => Just(1)];
    let rest = (limit, max_apps, delay, others);
    (guaranteed, rest).prop_map(move |(guaranteed, (limit, max_apps, delay, others))| {
        let limits = limit.map(|(user, most)| LimitWords {
            users: vec![user.to_owned()],
            groups: Vec::new(),
            max: vcores(most),
            max_apps: 0,
        });
        let delay = Some(("preemption.delay", delay));
        let properties = [delay, others].into_iter().flatten();
        QueueWords {
            path: path.to_owned(),
            guaranteed: guaranteed.map(vcores),
            limits: limits.into_iter().collect(),
            max_apps,
            properties: properties.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            ..QueueWords::default()
        }
    })
}

fn tree() -> impl Strategy<Value = Vec<Step>> {
    let parent = prop::option::of(2..=12_i64).prop_map(|guaranteed| QueueWords {
        path: "root.p".to_owned(),
        guaranteed: guaranteed.map(vcores),
        ..QueueWords::default()
    });
    let [a, b, c, d] = LEAVES.map(leaf);
    (a, b, parent, c, d).prop_map(|(a, b, mut parent, c, d)| {
        // A parent's guarantee is at least that of its children.
        let of = |queue: &QueueWords| {
            queue
                .guaranteed
                .as_ref()
                .map_or(0, |it| it.0.iter().map(|(_, quantity)| quantity).sum::<i64>())
        };
        let least = of(&c) + of(&d);
        if parent.guaranteed.is_some() && of(&parent) < least {
            parent.guaranteed = Some(vcores(least));
        }
        [a, b, parent, c, d].map(Step::Queue).to_vec()
    })
}

fn node() -> impl Strategy<Value = String> {
    (1..=4_u8).prop_map(|n| format!("n{n}"))
}

fn app() -> impl Strategy<Value = String> {
    (1..=6_u8).prop_map(|n| format!("a{n}"))
}

/// The constraint to run on nodes with this attribute.
fn of_node(key: &str, value: &str) -> String {
    let expression = json!({"targetKey": key, "targetOperator": "IN", "targetValues": [value]});
    json!({"simpleConstraint": {"nodeAffinityConstraint": {"targetExpressions": [expression]}}})
        .to_string()
}

/// The constraint on the number of allocations with a tag on the node, at least and at most.
fn beside(min: i32, max: i32) -> String {
    let expression = json!({"targetKey": "app", "targetOperator": "IN", "targetValues": ["web"]});
    json!({"simpleConstraint": {"allocationAffinityAttribute": {
        "scope": "hostname", "targetExpressions": [expression], "minCardinality": min,
        "maxCardinality": max, "required": true,
    }}})
    .to_string()
}

fn wish() -> impl Strategy<Value = Wish> {
    let key = (0..12_u8).prop_map(|n| format!("k{n}"));
    let policy = prop::sample::select(&["", "none", "itself", "others", "both", "both"][..]);
    let required = prop::option::weighted(0.1, node());
    let priority = prop_oneof![2 => Just(0), 1 => -1..=2];
    let created = prop_oneof![6 => Just(None), 1 => Just(Some("4600".to_owned()))];
    let constraint = prop_oneof![
        8 => Just(String::new()),
        1 => Just(of_node("zone", "x")),
        1 => Just(beside(0, 1)),
        1 => Just(beside(2, 0)),
    ];
    let tag = prop::bool::weighted(0.5);
    let originator = prop::bool::weighted(0.1);
    let rest = (policy, required, priority, originator, 1..=2_i32, constraint, tag, created);
    (app(), key, 1..=6_i64, rest).prop_map(|(app, key, size, rest)| {
        let (policy, required, priority, originator, repeat, constraint, tag, created) = rest;
        let tags = tag.then(|| ("app".to_owned(), "web".to_owned()));
        Wish {
            policy: policy.to_owned(),
            required,
            priority,
            originator,
            repeat,
            constraint,
            created,
            tags: tags.into_iter().collect(),
            ..Wish::of(&app, &key, vcores(size))
        }
    })
}

fn machine() -> impl Strategy<Value = Item> {
    (node(), 2..=8_i64, prop::bool::ANY).prop_map(|(id, total, in_zone)| {
        let zone = in_zone.then(|| ("zone".to_owned(), "x".to_owned()));
        let (total, attributes) = (Some(vcores(total)), zone.into_iter().collect());
        Item::Node(NodeWords { id, total, attributes, ..NodeWords::default() })
    })
}

fn said() -> impl Strategy<Value = Item> {
    let stopped = monoceros_proto::si::v1::TerminationType::StoppedByRm as i32;
    prop_oneof![
        20 => wish().prop_map(Item::Ask),
        6 => wish().prop_map(|wish| Item::Request(Wish { repeat: 1, ..wish })),
        3 => (wish(), node()).prop_map(|(wish, node)| {
            Item::Exists(Wish { repeat: 1, ..wish }, node)
        }),
        3 => (wish(), node()).prop_map(|(wish, node)| {
            let tags = vec![(STAYS.to_owned(), "true".to_owned())];
            Item::Exists(Wish { repeat: 1, tags, ..wish }, node)
        }),
        2 => machine(),
        2 => (node(), 1..=8_i64).prop_map(|(id, total)| {
            Item::Resize(NodeWords { id, total: Some(vcores(total)), ..NodeWords::default() })
        }),
        1 => node().prop_map(Item::Drain),
        2 => node().prop_map(Item::Undrain),
        1 => node().prop_map(Item::RemoveNode),
        2 => (app(), (0..12_u8)).prop_map(move |(app, n)| {
            Item::Withdraw { app, key: format!("k{n}"), kind: stopped }
        }),
        4 => (app(), which()).prop_map(move |(app, which)| {
            Item::Release { app, which, kind: stopped }
        }),
    ]
}

fn step() -> impl Strategy<Value = Vec<Step>> {
    let times = &[1_u64, 1_000, 2_001, 15_000, 16_000, 31_000, 600_000, 3_600_001][..];
    let confirm = |which| vec![Step::Confirm { which, kind: None, waits: true }];
    prop_oneof![
        24 => said().prop_map(|item| vec![Step::Send { items: vec![item], waits: true }]),
        8 => prop::sample::select(times).prop_map(|ms| vec![Step::Wait(Duration::from_millis(ms))]),
        6 => any::<usize>().prop_map(move |which| confirm(Some(which))),
        2 => Just(confirm(None)),
        1 => any::<usize>().prop_map(|which| vec![Step::ConfirmAgain(which)]),
        1 => tree().prop_map(|queues| {
            [Step::Forget].into_iter().chain(queues).chain([Step::Reload]).collect()
        }),
    ]
}

/// A history of such steps.
fn history_of(step: impl Strategy<Value = Vec<Step>>) -> impl Strategy<Value = Script> {
    let refusals = prop_oneof![
        2 => Just(None),
        1 => (10..60_u8, any::<u64>())
            .prop_map(|(percent, seed)| Some(Step::RefuseSome { percent, seed })),
    ];
    let nodes = prop::collection::vec(machine(), 2..6);
    let steps = prop::collection::vec(step, 10..80);
    (tree(), refusals, nodes, steps).prop_map(|(queues, refusals, nodes, steps)| {
        let apps = (0..6).map(|n| {
            let (leaf, user) = (LEAVES[n % LEAVES.len()], ["ann", "bob"][n % 2]);
            let text = format!("app a{} in {leaf} user {user}", n + 1);
            Script::parse(&text).0.remove(0)
        });
        let nodes = nodes.into_iter().map(|item| Step::Send { items: vec![item], waits: true });
        let head = queues.into_iter().chain(refusals).chain(nodes).chain(apps);
        with_end(head.collect(), steps.into_iter().flatten().collect())
    })
}

/// A gang that may preempt, or lose members by preemption.
fn gang() -> impl Strategy<Value = Item> {
    let group = |name: &'static str| {
        (1..=3_i32, 1..=4_i64, prop::bool::weighted(0.8)).prop_map(move |(repeat, size, others)| {
            let policy = if others { "both" } else { "itself" };
            Wish { repeat, policy: policy.to_owned(), ..Wish::of("", name, vcores(size)) }
        })
    };
    let groups = prop_oneof![
        2 => group("x").prop_map(|one| vec![one]),
        1 => (group("x"), group("y")).prop_map(|(one, other)| vec![one, other]),
    ];
    let id = (7..=8_u8).prop_map(|n| format!("a{n}"));
    (id, prop::sample::select(&LEAVES[..]), groups, prop::bool::weighted(0.1)).prop_map(
        |(id, queue, needs, goes_as_one)| Item::App {
            id,
            queue: queue.to_owned(),
            user: "ada".to_owned(),
            groups: String::new(),
            tags: if goes_as_one {
                vec![("monoceros.io/disruption".to_owned(), "all".to_owned())]
            } else {
                Vec::new()
            },
            partition: String::new(),
            gang: Amounts::default(),
            style: String::new(),
            timeout_ms: 0,
            needs,
        },
    )
}

fn member() -> impl Strategy<Value = Item> {
    let app = (7..=8_u8).prop_map(|n| format!("a{n}"));
    let group = prop::sample::select(&["x", "x", "y"][..]);
    let key = (0..6_u8).prop_map(|n| format!("m{n}"));
    (app, key, group, 1..=4_i64, 1..=2_i32).prop_map(|(app, key, group, size, repeat)| {
        let (group, policy) = (group.to_owned(), "both".to_owned());
        Item::Ask(Wish { repeat, group, policy, ..Wish::of(&app, &key, vcores(size)) })
    })
}

/// A step of a history in which gangs preempt and are preempted.
fn step_of_gangs() -> impl Strategy<Value = Vec<Step>> {
    let said = prop_oneof![
        3 => gang(),
        3 => member(),
        1 => (7..=8_u8).prop_map(|n| Item::RemoveApp(format!("a{n}"))),
    ];
    prop_oneof![
        2 => said.prop_map(|item| vec![Step::Send { items: vec![item], waits: true }]),
        1 => Just(vec![Step::Wait(Duration::from_secs(31))]),
        5 => step(),
    ]
}

fn survives_late_answers(script: &Script) -> Result<(), TestCaseError> {
    survives(script, &[How::Later(64), How::Dice(1), How::Dice(5)])
}

#[test]
fn preemption_histories_equal_a_full_search() {
    run(5, history_of(step()), holds_true);
}

#[test]
fn preemption_histories_survive_late_predicates() {
    run(3, history_of(step()), survives_late_answers);
}

#[test]
fn preempting_gang_histories_equal_a_full_search() {
    run(4, history_of(step_of_gangs()), holds_true);
}

#[test]
fn preempting_gang_histories_survive_late_predicates() {
    run(3, history_of(step_of_gangs()), survives_late_answers);
}

/// Longest chain of losses over which a queue must not take back its loss.
const LINKS: usize = 4;
/// The preemption window, ns: the default of every queue.
const WINDOW_NS: i64 = 600_000_000_000;

/// An eviction for a guarantee.
#[derive(Clone, Debug)]
struct Loss {
    at_ns: i64,
    loser: String,
    size: i64,
    winner: String,
    ask: String,
}

/// A cluster of three queues with one application each, named by a letter; its nodes are full.
#[derive(Clone, Debug)]
struct Fight {
    guarantees: [i64; 3],
    /// User limit in each queue, which has one user.
    limits: [Option<i64>; 3],
    /// Running allocations: queue, node and size.
    runs: Vec<(usize, usize, i64)>,
    moves: Vec<Move>,
}

#[derive(Clone, Debug)]
enum Move {
    /// A queue asks for this amount.
    Ask(usize, i64),
    /// A queue withdraws its asks, and this amount of its allocations ends.
    Ends(usize, usize),
    Wait(u64),
}

const FIGHTERS: [&str; 3] = ["a", "b", "c"];

fn fight(moves: impl Strategy<Value = Vec<Move>>) -> impl Strategy<Value = Fight> {
    // The last queue has nothing at first.
    let run = (0..2_usize, 0..3_usize, 1..4_i64);
    let limit = || prop::option::weighted(0.3, 2..9_i64);
    let limits = [limit(), limit(), limit()];
    ([0..6_i64, 2..6, 4..9], limits, prop::collection::vec(run, 5..=12), moves)
        .prop_map(|(guarantees, limits, runs, moves)| Fight { guarantees, limits, runs, moves })
}

fn asks() -> impl Strategy<Value = Move> {
    (0..3_usize, 1..4_i64).prop_map(|(queue, size)| Move::Ask(queue, size))
}

/// Asks that are added and withdrawn, and allocations that end.
fn moves() -> impl Strategy<Value = Vec<Move>> {
    // A queue loses capacity, stops asking for it, and asks again when the other one has it.
    let turn = (0..3_usize, 0..3_usize).prop_map(|(loser, winner)| {
        let takes = [Move::Ask(winner, 2), Move::Wait(16)];
        let more = [Move::Ends(loser, 9), Move::Ask(winner, 3), Move::Ask(winner, 3)];
        takes.into_iter().chain(more).chain([Move::Ask(loser, 2), Move::Wait(16)]).collect()
    });
    let step = prop_oneof![
        10 => asks().prop_map(|it| vec![it]),
        3 => (0..3_usize, 1..5_usize).prop_map(|(queue, count)| vec![Move::Ends(queue, count)]),
        5 => prop::sample::select(&[1_u64, 16, 16, 120, 601][..])
            .prop_map(|seconds| vec![Move::Wait(seconds)]),
        3 => turn,
    ];
    prop::collection::vec(step, 10..40).prop_map(|steps| steps.into_iter().flatten().collect())
}

/// A running fight.
struct Arena {
    world: World,
    guarantees: [i64; 3],
    n_asks: usize,
    /// Number of the last event that was read.
    seen: u64,
    losses: Vec<Loss>,
    /// How often a cycle was prevented.
    n_loops: usize,
}

impl Arena {
    async fn begin(fight: &Fight) -> Self {
        let world = World::new(How::Plain);
        let (guarantees, losses) = (fight.guarantees, Vec::new());
        let mut arena = Self { world, guarantees, n_asks: 0, seen: 0, losses, n_loops: 0 };
        let mut text = String::new();
        for ((name, guaranteed), limit) in FIGHTERS.iter().zip(guarantees).zip(fight.limits) {
            let limit = limit.map(|most| format!("limit users=* vcore={most}")).unwrap_or_default();
            let delay = "prop preemption.delay=1ms";
            writeln!(text, "queue root.{name} guaranteed vcore={guaranteed} {delay} {limit}")
                .expect("a string takes everything");
        }
        for node in 0..3 {
            let here = fight.runs.iter().filter(|(_, at, _)| *at == node);
            let total: i64 = here.map(|(.., size)| size).sum();
            writeln!(text, "node n{node} vcore={total}").expect("a string takes everything");
        }
        for name in FIGHTERS {
            writeln!(text, "app {name} in root.{name}").expect("a string takes everything");
        }
        for (at, (queue, node, size)) in fight.runs.iter().enumerate() {
            let name = FIGHTERS[*queue];
            writeln!(text, "exists {name} r{at} on n{node} vcore={size}")
                .expect("a string takes everything");
        }
        arena.send_lines(&text).await;
        arena
    }

    async fn send_lines(&mut self, text: &str) {
        self.world.play(text).await;
    }

    async fn ask(&mut self, name: &str, size: i64) {
        self.n_asks += 1;
        let key = self.n_asks;
        self.send_lines(&format!("ask {name} k{key} vcore={size} policy=both")).await;
    }

    /// Losses since the last call.
    fn news(&mut self) -> Vec<Loss> {
        let range = self.world.scheduler.events().range(self.seen, u64::MAX);
        self.seen = range.highest + 1;
        let mut news = Vec::new();
        for event in range.records {
            self.n_loops += usize::from(event.event_change_detail() == Detail::PreemptionLoop);
            let Some(words) = event.message.strip_prefix("preempted for ask ") else { continue };
            let names: Vec<&str> = words.split('`').collect();
            news.push(Loss {
                at_ns: event.timestamp_nano,
                loser: event.reference_id.clone(),
                size: event.resource.as_ref().unwrap().resources["vcore"].value,
                winner: names[3].to_owned(),
                ask: names[1].to_owned(),
            });
        }
        self.losses.extend(news.iter().cloned());
        news
    }

    /// Amounts of each queue without those being evicted.
    async fn kept(&self) -> BTreeMap<String, i64> {
        let root = self.world.scheduler.queues("default").await.unwrap();
        let vcore = |it: &Resources| it.sorted().first().map_or(0, |(_, quantity)| *quantity);
        let kept = |queue: &QueueSnapshot| {
            vcore(&queue.allocated_resource) - vcore(&queue.preempting_resource)
        };
        let name = |path: &str| path.trim_start_matches("root.").to_owned();
        root.children.iter().map(|queue| (name(&queue.queue_name), kept(queue))).collect()
    }

    /// Keys of all allocations.
    async fn placed(&self) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        for name in FIGHTERS {
            let queue = format!("root.{name}");
            let apps = self.world.scheduler.applications("default", &queue).await.unwrap();
            let held = apps.iter().flat_map(|app| &app.allocations);
            keys.extend(held.map(|it| it.allocation_key.clone()));
        }
        keys
    }

    fn guaranteed(&self, name: &str) -> i64 {
        self.guarantees[FIGHTERS.iter().position(|it| *it == name).unwrap()]
    }

    /// Checks that no application got back an earlier loss from its winner, directly or over other
    /// applications.
    fn check_no_cycles(&self) -> Result<(), TestCaseError> {
        for (at, loss) in self.losses.iter().enumerate() {
            // Evictions of one commit are not earlier losses of each other.
            let is_before = |it: &&Loss| it.at_ns < loss.at_ns && loss.at_ns - it.at_ns < WINDOW_NS;
            let before: Vec<&Loss> = self.losses[..at].iter().filter(is_before).collect();
            let mut reached = BTreeSet::from([loss.winner.as_str()]);
            for _ in 0..LINKS {
                let on = before.iter().filter(|it| reached.contains(it.loser.as_str()));
                let on: Vec<&str> = on.map(|it| it.winner.as_str()).collect();
                reached.extend(on);
            }
            reached.remove(loss.winner.as_str());
            prop_assert!(!reached.contains(loss.loser.as_str()), "{:?}: {:?}", loss, self.losses);
        }
        Ok(())
    }
}

/// All demand stays, and every loss is asked for again. The evicted amount is bounded by the
/// guarantees of the preemptors, plus for each preemptor one victim larger than needed. The
/// evictions come to an end, and every preemptor with victims gets placed.
async fn without_storm(fight: &Fight) -> Result<[usize; 1], TestCaseError> {
    let mut arena = Arena::begin(fight).await;
    for step in &fight.moves {
        if let Move::Ask(queue, size) = step {
            arena.ask(FIGHTERS[*queue], *size).await;
        }
    }
    let mut last_round = 0;
    for round in 0..24 {
        let before = arena.kept().await;
        arena.send_lines("wait 16s").await;
        let news = arena.news();
        for (name, kept) in arena.kept().await {
            let least = before[&name].min(arena.guaranteed(&name));
            prop_assert!(kept >= least, "{} has {} and had {}", name, kept, before[&name]);
        }
        if !news.is_empty() {
            last_round = round;
        }
        let served: BTreeSet<String> = news.iter().map(|it| it.ask.clone()).collect();
        for loss in news {
            arena.ask(&loss.loser, loss.size).await;
        }
        arena.send_lines("confirm *").await;
        let in_vain: Vec<_> = served.difference(&arena.placed().await).cloned().collect();
        prop_assert_eq!(in_vain, Vec::<String>::new(), "others left for them");
    }
    prop_assert!(last_round < 16, "it does not end: {:?}", arena.losses);
    let losses = &arena.losses;
    let winners: BTreeSet<&str> = losses.iter().map(|it| it.winner.as_str()).collect();
    let preemptors: BTreeSet<&str> = losses.iter().map(|it| it.ask.as_str()).collect();
    let largest = fight.runs.iter().map(|(.., size)| *size).max().unwrap_or_default();
    let guaranteed: i64 = winners.iter().map(|name| arena.guaranteed(name)).sum();
    let most = guaranteed + i64::try_from(preemptors.len()).unwrap() * (largest - 1);
    let evicted: i64 = losses.iter().map(|it| it.size).sum();
    prop_assert!(evicted <= most, "{} of {}: {:?}", evicted, most, losses);
    arena.check_no_cycles()?;
    prop_assert_eq!(arena.world.take_played().wrong, Vec::<String>::new());
    Ok([losses.len()])
}

/// Asks are added and withdrawn and allocations end, so that a preemptor may soon be above its
/// guarantee.
async fn without_turns(fight: &Fight) -> Result<[usize; 2], TestCaseError> {
    let mut arena = Arena::begin(fight).await;
    for step in &fight.moves {
        match step {
            Move::Ask(queue, size) => arena.ask(FIGHTERS[*queue], *size).await,
            Move::Ends(queue, count) => {
                let (name, queue) = (FIGHTERS[*queue], format!("root.{}", FIGHTERS[*queue]));
                let apps = arena.world.scheduler.applications("default", &queue).await.unwrap();
                let held = apps.iter().flat_map(|app| &app.allocations).take(*count);
                let ends = held.map(|it| format!("release {name} key={}\n", it.allocation_key));
                let ends = ends.collect::<String>();
                arena.send_lines(&format!("withdraw {name} *\n{ends}")).await;
            }
            Move::Wait(seconds) => arena.send_lines(&format!("wait {seconds}s\nconfirm *")).await,
        }
        arena.news();
    }
    arena.check_no_cycles()?;
    prop_assert_eq!(arena.world.take_played().wrong, Vec::<String>::new());
    Ok([arena.losses.len(), arena.n_loops])
}

/// Plays a number of fights and returns their counts of each kind.
fn played<const KINDS: usize>(
    cases: u32,
    fights: impl Strategy<Value = Fight>,
    play: &impl AsyncFn(&Fight) -> Result<[usize; KINDS], TestCaseError>,
) -> [usize; KINDS] {
    let sums = Cell::new([0; KINDS]);
    let result = runner(cases).run(&fights, |fight| {
        let outcome = in_virtual_time(play(&fight))?;
        sums.set(std::array::from_fn(|kind| sums.get()[kind] + outcome[kind]));
        Ok(())
    });
    if let Err(TestError::Fail(why, fight)) = result {
        panic!("{why}\n\n{fight:?}");
    }
    sums.get()
}

/// With constant demand, evictions take no more than is guaranteed, and come to an end.
#[test]
fn with_constant_demand_evictions_end() {
    let [evicted] = played(40, fight(prop::collection::vec(asks(), 1..8)), &without_storm);
    assert!(evicted > 20, "a property of {evicted} evictions says little");
}

#[test]
fn no_loser_takes_back_within_the_window() {
    let [evicted, loops] = played(40, fight(moves()), &without_turns);
    assert!(evicted > 20 && loops > 0, "{evicted} evictions and {loops} loops say little");
}
