//! Random histories: for any messages in any order, the books are consistent, every decision equals
//! that of a full search, and the notifications obey the interface. The order that breaks a
//! scheduler is one that nobody thinks of; thousands of random ones find it.
//!
//! A failing history prints its script, shortened as far as possible: paste it into a test.

use std::time::Duration;

use monoceros_config as config;
use monoceros_proto::si::v1::TerminationType;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

use crate::script::{
    Amounts, FAILED, Item, LimitWords, NodeWords, QueueWords, Script, Show, Step, Which, Wish,
};
use crate::wire;
use crate::world::{How, Played, play};

/// Number of cases, seed, and effort of shrinking, unless the environment sets them
/// (`PROPTEST_CASES`, `PROPTEST_RNG_SEED`, `PROPTEST_MAX_SHRINK_ITERS`).
pub(crate) fn runner(cases: u32) -> TestRunner {
    let from_environment = Config::default();
    let is_given = |name| std::env::var_os(name).is_some();
    TestRunner::new(Config {
        cases: if is_given("PROPTEST_CASES") { from_environment.cases } else { cases },
        rng_seed: if is_given("PROPTEST_RNG_SEED") {
            from_environment.rng_seed
        } else {
            RngSeed::Fixed(20_240_229)
        },
        failure_persistence: None,
        max_shrink_iters: if is_given("PROPTEST_MAX_SHRINK_ITERS") {
            from_environment.max_shrink_iters
        } else {
            20_000
        },
        ..from_environment
    })
}

/// Generators and bounds of a kind of history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Whether quantities may be extreme.
    extreme: bool,
    /// Bound of the number of steps.
    steps: usize,
}

/// Largest quantity of one item.
const LARGEST: i64 = 1 << 53;

pub(crate) const USUAL: Kind = Kind { extreme: false, steps: 140 };
pub(crate) const EXTREME: Kind = Kind { extreme: true, steps: 80 };

pub(crate) fn amounts(kind: Kind, most: i64) -> BoxedStrategy<Amounts> {
    let quantity = if kind.extreme {
        prop_oneof![
            4 => 0..=most,
            1 => Just(LARGEST),
            1 => Just(LARGEST - 1),
            1 => Just(LARGEST / 2),
            1 => Just(LARGEST + 1),
            1 => Just(i64::MIN),
            1 => Just(-1_i64),
        ]
        .boxed()
    } else {
        prop_oneof![150 => 1..=most, 40 => Just(0_i64), 1 => Just(-1_i64)].boxed()
    };
    // An absent name differs from one with a quantity of zero.
    let named = |name: &'static str, share: f64| {
        prop::option::weighted(share, quantity.clone())
            .prop_map(move |quantity| quantity.map(|quantity| (name.to_owned(), quantity)))
    };
    (named("vcore", 0.95), named("memory", 0.6), named("gpu", 0.25))
        .prop_map(|(a, b, c)| Amounts([a, b, c].into_iter().flatten().collect()))
        .boxed()
}

const APPS: usize = 8;
pub(crate) const KEYS: usize = 8;
pub(crate) const NODES: usize = 6;

pub(crate) fn app() -> impl Strategy<Value = String> {
    (1..=APPS).prop_map(|number| format!("a{number}"))
}

pub(crate) fn key() -> impl Strategy<Value = String> {
    (1..=KEYS).prop_map(|number| format!("k{number}"))
}

pub(crate) fn node() -> impl Strategy<Value = String> {
    (1..=NODES).prop_map(|number| format!("n{number}"))
}

pub(crate) const LEAVES: [&str; 6] =
    ["root.a", "root.b.x", "root.b.y", "root.c.x", "root.c.y", "root.default"];

pub(crate) fn tree() -> impl Strategy<Value = Vec<QueueWords>> {
    let paths = ["root.a", "root.b", "root.b.x", "root.b.y", "root.c", "root.c.x", "root.c.y"];
    let queue = |path: &'static str| {
        let small = Kind { extreme: false, steps: 0 };
        let most = if path.matches('.').count() == 1 { 12 } else { 8 };
        (
            prop::option::weighted(0.5, amounts(small, most)),
            prop::option::weighted(0.4, amounts(small, 3)),
            prop_oneof![2 => Just(0_u64), 1 => 1..=4_u64],
            properties(),
        )
            .prop_map(|(max, guaranteed, max_apps, properties)| QueueWords {
                path: path.to_owned(),
                max: max.map(without_negative),
                guaranteed: guaranteed.map(without_negative),
                max_apps,
                properties,
                limits: Vec::new(),
                submit: None,
            })
    };
    let queues: Vec<_> = paths.into_iter().map(queue).collect();
    (queues, any::<bool>(), all_limits()).prop_map(|(mut queues, root_properties, limits)| {
        queues.push(QueueWords { path: "root.default".to_owned(), ..QueueWords::default() });
        if root_properties {
            let fairness = ("application.sort.priority".to_owned(), "disabled".to_owned());
            let properties = vec![fairness];
            let root = QueueWords { path: "root".to_owned(), properties, ..QueueWords::default() };
            queues.push(root);
        }
        for at in 0..queues.len() {
            fit_into_parent(&mut queues, at);
        }
        with_limits(made_valid(queues), limits)
    })
}

const USERS: [&str; 4] = ["ada", "bob", "eve", "kim"];
const GROUPS: [&str; 5] = ["", "dev", "ops,dev", "qa", "qa,ops"];

const LIMITED: [&str; 7] =
    ["root", "root.a", "root.b", "root.b.x", "root.b.y", "root.c", "root.c.x"];

/// Limits of users and groups on any queue; half of the trees have none.
fn all_limits() -> impl Strategy<Value = Vec<(String, Vec<LimitWords>)>> {
    let small = Kind { extreme: false, steps: 0 };
    let entry = move |users: &'static [&'static str], groups: &'static [&'static str]| {
        let max =
            prop::option::weighted(0.7, amounts(small, 6)).prop_map(Option::unwrap_or_default);
        let apps = prop_oneof![3 => Just(0_u64), 2 => 1..=3_u64];
        let subjects = (prop::sample::subsequence(users, 0..=users.len()), {
            prop::sample::subsequence(groups, 0..=groups.len())
        });
        let words = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        (subjects, max, apps).prop_map(move |((users, groups), max, max_apps)| LimitWords {
            users: words(users),
            groups: words(groups),
            max: without_negative(max),
            max_apps,
        })
    };
    let named = entry(&USERS[..2], &["dev", "ops", "qa"]);
    let all = entry(&["*"], &["*"]);
    let of_queue = (prop::option::weighted(0.5, named), prop::option::weighted(0.4, all));
    let of_queue = (prop::sample::select(&LIMITED[..]), of_queue)
        .prop_map(|(path, (named, all))| (path.to_owned(), named.into_iter().chain(all).collect()));
    prop_oneof![1 => Just(Vec::new()), 1 => prop::collection::vec(of_queue, 1..6)]
}

/// Adds the limits that give a valid configuration.
fn with_limits(
    mut queues: Vec<QueueWords>,
    limits: Vec<(String, Vec<LimitWords>)>,
) -> Vec<QueueWords> {
    for (path, limits) in limits {
        if queues.iter().all(|queue| queue.path != path) && path == "root" {
            queues.push(QueueWords { path: path.clone(), ..QueueWords::default() });
        }
        let Some(at) = queues.iter().position(|queue| queue.path == path) else { continue };
        for limit in limits {
            queues[at].limits.push(limit);
            if !is_valid(&queues) {
                queues[at].limits.pop();
            }
        }
    }
    queues
}

pub(crate) fn is_valid(queues: &[QueueWords]) -> bool {
    config::parse(&wire::configuration(None, queues)).is_ok()
}

/// Like [`tree`], with some queues missing, others new, and some leaves turned into parents.
fn other_tree() -> impl Strategy<Value = Vec<QueueWords>> {
    let new = ["root.a.z", "root.b.x.deep", "root.new", "root.c.z"];
    let missing = prop::collection::vec(prop::bool::weighted(0.15), 8);
    let new = new.map(|path| {
        let words = QueueWords { path: path.to_owned(), ..QueueWords::default() };
        prop::option::weighted(0.15, Just(words))
    });
    (tree(), missing, new).prop_map(|(mut queues, missing, new)| {
        let gone: Vec<String> = queues
            .iter()
            .zip(missing)
            .filter(|(_, is_missing)| *is_missing)
            .map(|(queue, _)| queue.path.clone())
            .collect();
        let is_gone = |path: &str| {
            let is_below = |gone: &String| {
                path.strip_prefix(gone.as_str()).is_some_and(|rest| rest.starts_with('.'))
            };
            gone.iter().any(|gone| gone == path || is_below(gone))
        };
        queues.retain(|queue| queue.path == "root" || !is_gone(&queue.path));
        queues.extend(new.into_iter().flatten().filter(|queue| !is_gone(&queue.path)));
        for at in 0..queues.len() {
            fit_into_parent(&mut queues, at);
        }
        made_valid(queues)
    })
}

/// Reduces a queue to the maximum of its parent, which comes before it.
fn fit_into_parent(queues: &mut [QueueWords], at: usize) {
    let path = queues[at].path.rsplit_once('.').map(|(parent, _)| parent.to_owned());
    let Some(parent) = queues.iter().find(|queue| Some(&queue.path) == path.as_ref()) else {
        return;
    };
    let (max, max_apps) = (parent.max.clone().unwrap_or_default(), parent.max_apps);
    let queue = &mut queues[at];
    if max_apps > 0 {
        queue.max_apps = queue.max_apps.clamp(1, max_apps);
    }
    for (name, quantity) in queue.max.iter_mut().flat_map(|max| &mut max.0) {
        if let Some((_, most)) = max.0.iter().find(|(limited, _)| limited == name) {
            *quantity = (*quantity).min(*most);
        }
    }
}

fn without_negative(amounts: Amounts) -> Amounts {
    Amounts(amounts.0.into_iter().filter(|(_, quantity)| *quantity >= 0).collect())
}

fn properties() -> impl Strategy<Value = Vec<(String, String)>> {
    let property = |name: &'static str, values: &'static [&'static str]| {
        let value = prop::sample::select(values);
        prop::option::weighted(0.4, value)
            .prop_map(move |value| value.map(|value| (name.to_owned(), value.to_owned())))
    };
    (
        property("application.sort.policy", &["fair", "fifo"]),
        property("application.sort.priority", &["disabled", "enabled"]),
        property("priority.policy", &["fence", "default"]),
        property("priority.offset", &["-3", "2", "5"]),
        property("application.unschedasks.backoff", &["1", "2", "3"]),
        property("application.unschedasks.backoff.delay", &["1ns", "1s", "5s"]),
    )
        .prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f].into_iter().flatten().collect())
}

/// Removes limits until the tree is valid.
fn made_valid(mut queues: Vec<QueueWords>) -> Vec<QueueWords> {
    for at in (0..queues.len()).rev() {
        if is_valid(&queues) {
            return queues;
        }
        queues[at].guaranteed = None;
    }
    for at in (0..queues.len()).rev() {
        if is_valid(&queues) {
            return queues;
        }
        queues[at].max = None;
        queues[at].max_apps = 0;
    }
    for at in (0..queues.len()).rev() {
        if is_valid(&queues) {
            return queues;
        }
        queues[at].limits.clear();
    }
    assert!(is_valid(&queues), "queues without limits are valid");
    queues
}

pub(crate) fn wish(kind: Kind) -> impl Strategy<Value = Wish> {
    let many = if kind.extreme { 1_000..=1_024 } else { 0..=1 };
    let repeat = prop_oneof![12 => Just(1), 7 => 2..=5, 1 => many];
    let created = prop_oneof![
        12 => Just(None),
        1 => (0..2_000_i64).prop_map(|s| Some(s.to_string())),
        1 => Just(Some("yesterday".to_owned())),
    ];
    let timeout = prop_oneof![12 => Just(0_i64), 1 => 1..40_000_i64, 1 => Just(i64::MAX)];
    (
        (app(), key(), amounts(kind, 3), repeat),
        prop_oneof![3 => Just(0), 2 => -2..=3],
        prop::option::weighted(0.12, node()),
        created,
        timeout,
    )
        .prop_map(|((app, key, amounts, repeat), priority, required, created, timeout_ms)| {
            Wish {
                repeat,
                priority,
                required,
                created,
                timeout_ms,
                ..Wish::of(&app, &key, amounts)
            }
        })
}

pub(crate) fn node_words(kind: Kind) -> impl Strategy<Value = NodeWords> {
    let held = prop::collection::vec(wish(kind), 0..2);
    (
        node(),
        prop::option::weighted(0.95, amounts(kind, 12)),
        prop::option::weighted(0.2, amounts(kind, 3)),
        prop_oneof![18 => Just(None), 1 => Just(Some("false")), 1 => Just(Some("true"))],
        any::<u8>(),
        held,
    )
        .prop_map(|(id, total, occupied, ready, chance, holds)| NodeWords {
            id,
            total,
            occupied,
            attributes: ready
                .map(|ready| ("ready".to_owned(), ready.to_owned()))
                .into_iter()
                .collect(),
            drained: chance < 10,
            // The tags of a placed ask are already empty.
            holds: if chance % 4 == 0 {
                holds.into_iter().map(as_allocation).collect()
            } else {
                Vec::new()
            },
        })
}

/// Reduces the ask to fields of an `Allocation` message.
pub(crate) fn as_allocation(wish: Wish) -> Wish {
    Wish { repeat: 1, timeout_ms: 0, ..wish }
}

pub(crate) fn which() -> impl Strategy<Value = Which> {
    prop_oneof![
        4 => key().prop_map(Which::Key),
        4 => key().prop_map(Which::Uuid),
        4 => (key(), 1..6).prop_map(|(key, number)| Which::Uuid(format!("{key}#{number}"))),
        1 => Just(Which::All),
    ]
}

pub(crate) fn node_item(kind: Kind) -> impl Strategy<Value = Item> {
    node_words(kind).prop_map(Item::Node)
}

pub(crate) fn app_item() -> impl Strategy<Value = Item> {
    let user = (prop::sample::select(&USERS[..]), prop::sample::select(&GROUPS[..]));
    (app(), prop::sample::select(&LEAVES[..]), user).prop_map(|(id, queue, (user, groups))| {
        Item::App {
            id,
            queue: queue.to_owned(),
            user: user.to_owned(),
            groups: groups.to_owned(),
            tags: Vec::new(),
            partition: String::new(),
            gang: Amounts::default(),
            style: String::new(),
            timeout_ms: 0,
            needs: Vec::new(),
        }
    })
}

pub(crate) fn item(kind: Kind) -> impl Strategy<Value = Item> {
    let stopped = TerminationType::StoppedByRm as i32;
    let kinds = prop_oneof![
        6 => Just(stopped),
        1 => Just(TerminationType::Timeout as i32),
        2 => Just(TerminationType::SchedulingFailedOnRm as i32),
        1 => Just(FAILED),
        1 => Just(0),
        1 => Just(77),
        1 => Just(TerminationType::PlaceholderReplaced as i32),
    ];
    // A repeated ask with a policy may have another priority, too. No ask here preempts.
    let policy = |wish: &Wish| match (wish.priority + wish.repeat).rem_euclid(3) {
        0 => "",
        1 => "itself",
        _ => "none",
    };
    let unified = move |wish: Wish| Wish {
        policy: policy(&wish).to_owned(),
        uuid: String::new(),
        ..as_allocation(wish)
    };
    let recovered = |(wish, uuid): (Wish, String)| Wish { uuid, ..as_allocation(wish) };
    let as_update = |node: NodeWords| NodeWords { drained: false, holds: Vec::new(), ..node };
    prop_oneof![
        8 => node_item(kind),
        6 => node_words(kind).prop_map(as_update).prop_map(Item::Resize),
        3 => node().prop_map(Item::Drain),
        3 => node().prop_map(Item::Undrain),
        3 => node().prop_map(Item::RemoveNode),
        8 => app_item(),
        2 => app().prop_map(Item::RemoveApp),
        55 => wish(kind).prop_map(Item::Ask),
        10 => wish(kind).prop_map(unified).prop_map(Item::Request),
        6 => (wish(kind).prop_map(unified), node()).prop_map(|(wish, node)| Item::Exists(wish, node)),
        4 => ((wish(kind), key()).prop_map(recovered), node())
            .prop_map(|(wish, node)| Item::Exists(wish, node)),
        3 => (key(), node(), amounts(kind, 4)).prop_map(|(key, node, amounts)| Item::Foreign {
            key,
            node,
            amounts,
            kind: "default".to_owned(),
        }),
        2 => key().prop_map(Item::ForeignGone),
        3 => (app(), prop_oneof![4 => key(), 1 => Just(String::new())])
            .prop_map(move |(app, key)| Item::Withdraw { app, key, kind: stopped }),
        25 => (app(), which(), kinds).prop_map(|(app, which, kind)| Item::Release {
            app,
            which,
            kind,
        }),
    ]
}

fn step(kind: Kind) -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => item(kind).prop_map(|item| Step::Send { items: vec![item], waits: true }),
        1 => prop::sample::select(&[1_000_u64, 2_000, 31_000, 100_000][..])
            .prop_map(|ms| Step::Wait(Duration::from_millis(ms))),
    ]
}

/// Any step of a usual history.
pub(crate) fn some_step() -> impl Strategy<Value = Step> {
    step(USUAL)
}

/// Nodes at the beginning of a history.
pub(crate) fn there() -> impl Strategy<Value = Vec<Step>> {
    let send = |item| Step::Send { items: vec![item], waits: true };
    prop::collection::vec(node_item(USUAL).prop_map(send), 4..12)
}

/// Node order.
pub(crate) fn order() -> impl Strategy<Value = Step> {
    (any::<bool>(), 0..3_i64, 0..3_i64).prop_map(|(packs, vcore, memory)| {
        let policy = if packs { "binpacking" } else { "fair" };
        let weights = [("vcore".to_owned(), vcore), ("memory".to_owned(), memory)];
        Step::Order { policy: policy.to_owned(), weights: Amounts(weights.into()) }
    })
}

/// Another configuration.
pub(crate) fn reload() -> impl Strategy<Value = Vec<Step>> {
    (order(), other_tree()).prop_map(|(order, queues)| {
        let queues = queues.into_iter().map(Step::Queue);
        [Step::Forget, order].into_iter().chain(queues).chain([Step::Reload]).collect()
    })
}

/// Histories with many reloads, and now and then a change of the partition's state.
fn reloads() -> impl Strategy<Value = Script> {
    let state = prop::sample::select(&["Active", "Active", "Draining", "Stopped"][..]);
    let some = prop_oneof![
        30 => step(USUAL).prop_map(|step| vec![step]),
        4 => reload(),
        1 => state.prop_map(|state| vec![Step::State(state.to_owned())]),
    ];
    let there = prop::collection::vec(prop_oneof![2 => node_item(USUAL), 3 => app_item()], 8..40);
    let refusals = prop_oneof![
        3 => Just(None),
        1 => (10..60_u8, any::<u64>())
            .prop_map(|(percent, seed)| Some(Step::RefuseSome { percent, seed })),
    ];
    let steps = prop::collection::vec(some, 0..80);
    let head = (order(), patience(), tree(), refusals, there).prop_map(head);
    (head, steps).prop_map(|(head, steps)| {
        let mut steps: Vec<Step> = steps.into_iter().flatten().collect();
        steps.push(Step::State("Active".to_owned()));
        with_end(head, steps)
    })
}

/// The setup of the partition and its initial items.
fn head(
    (order, patience, queues, refusals, there): (
        Step,
        Option<Step>,
        Vec<QueueWords>,
        Option<Step>,
        Vec<Item>,
    ),
) -> Vec<Step> {
    let queues = queues.into_iter().map(Step::Queue);
    let there = there.into_iter().map(|item| Step::Send { items: vec![item], waits: true });
    [order].into_iter().chain(patience).chain(queues).chain(refusals).chain(there).collect()
}

fn history(kind: Kind) -> impl Strategy<Value = Script> {
    let refusals = prop_oneof![
        2 => Just(None),
        1 => (10..60_u8, any::<u64>())
            .prop_map(|(percent, seed)| Some(Step::RefuseSome { percent, seed })),
    ];
    // Most of the following items refer to existing objects.
    let there = prop::collection::vec(prop_oneof![2 => node_item(kind), 3 => app_item()], 8..40);
    let head = (order(), patience(), tree(), refusals, there).prop_map(head);
    let steps = prop::collection::vec(step(kind), 0..kind.steps);
    (head, steps).prop_map(|(head, steps)| with_end(head, steps))
}

/// A partition with many pending asks: less capacity and more asks than in other histories. The run
/// waits only at the end, which saves comparing the books after each line.
pub(crate) fn parked() -> impl Strategy<Value = Vec<Step>> {
    let refusals = prop_oneof![
        3 => Just(None),
        1 => (10..60_u8, any::<u64>())
            .prop_map(|(percent, seed)| Some(Step::RefuseSome { percent, seed })),
    ];
    let send = |item| Step::Send { items: vec![item], waits: false };
    let nodes = prop::collection::vec(node_item(USUAL).prop_map(send), 1..5);
    let apps = prop::collection::vec(app_item().prop_map(send), 2..8);
    let some = prop_oneof![
        4 => wish(USUAL).prop_map(Item::Ask).prop_map(send),
        1 => item(USUAL).prop_map(send),
    ];
    let steps = prop::collection::vec(some, 4..30);
    (order(), tree(), refusals, nodes, apps, steps).prop_map(
        |(order, queues, refusals, nodes, apps, steps)| {
            let queues = queues.into_iter().map(Step::Queue);
            let head = [order].into_iter().chain(queues).chain(refusals);
            head.chain(nodes).chain(apps).chain(steps).chain([Step::Settle]).collect()
        },
    )
}

/// Many asks arrive while no node is open; then the nodes open one by one, and each of many offers
/// makes many decisions.
fn waves() -> impl Strategy<Value = Script> {
    let wave = prop::collection::vec(
        prop_oneof![
            20 => wish(USUAL).prop_map(Item::Ask),
            1 => (app(), which()).prop_map(|(app, which)| Item::Release { app, which, kind: 1 }),
        ],
        1..25,
    );
    let nodes = prop::collection::vec(amounts(USUAL, 15), NODES);
    let apps = prop::collection::vec(app_item(), 2 * APPS);
    let waves = prop::collection::vec(wave, 1..4);
    (patience(), tree(), nodes, apps, waves).prop_map(|(patience, queues, nodes, apps, waves)| {
        let send = |item| Step::Send { items: vec![item], waits: true };
        let all = |act: fn(String) -> Item| (1..=NODES).map(move |n| send(act(format!("n{n}"))));
        let mut steps: Vec<Step> = patience.into_iter().collect();
        steps.extend(queues.into_iter().map(Step::Queue));
        steps.extend((1..).zip(nodes).map(|(number, total)| {
            let id = format!("n{number}");
            send(Item::Node(NodeWords { id, total: Some(total), ..NodeWords::default() }))
        }));
        steps.extend(apps.into_iter().map(send));
        let mut said = Vec::new();
        for wave in waves {
            said.extend(all(Item::Drain));
            said.extend(wave.into_iter().map(send));
            said.extend(all(Item::Undrain));
        }
        with_end(steps, said)
    })
}

/// Appends steps that end everything: releases or not, then the removal of every application and
/// node.
pub(crate) fn with_end(head: Vec<Step>, steps: Vec<Step>) -> Script {
    let mut all = head;
    let releases_first = steps.len().is_multiple_of(2);
    all.extend(steps);
    let mut send_lines = |item| all.push(Step::Send { items: vec![item], waits: true });
    for app in (1..=APPS).map(|number| format!("a{number}")) {
        if releases_first {
            let kind = TerminationType::StoppedByRm as i32;
            send_lines(Item::Withdraw { app: app.clone(), key: String::new(), kind });
            send_lines(Item::Release { app: app.clone(), which: Which::All, kind });
        }
        send_lines(Item::RemoveApp(app));
    }
    for node in (1..=NODES).map(|number| format!("n{number}")) {
        send_lines(Item::RemoveNode(node));
    }
    all.push(Step::Show(Show::Queues));
    Script(all)
}

pub(crate) fn holds_true(script: &Script) -> Result<(), TestCaseError> {
    let plain = play(script, How::Plain);
    prop_assert_eq!(&plain.wrong, &Vec::<String>::new());
    prop_assert!(!plain.text.contains("resync"), "a partition was lost");
    prop_assert_eq!(left_over(&plain), Vec::<&str>::new());
    prop_assert_eq!(on_its_way(&plain), Vec::<&str>::new());
    let again = play(script, How::Plain);
    prop_assert_eq!(&again, &plain, "a second run differs");
    for how in [How::OneAtATime, How::Watched] {
        let other = play(script, how);
        prop_assert_eq!(&other, &plain, "{:?} differs from the default", how);
    }
    if reserves_after_a_while(script) || moves_members(script) || backs_off_after_refusals(script) {
        return survives(script, &[How::Later(1)]);
    }
    prop_assert_eq!(&play(script, How::Later(1)), &plain, "asking later differs from the default");
    Ok(())
}

/// While an RM is asked whether a node may be reserved, others may be placed there.
fn reserves_after_a_while(script: &Script) -> bool {
    !script.0.iter().any(|step| matches!(step, Step::Reservations { delay: None, .. }))
}

/// Members of a declared gang that predicates refuse move to other nodes one by one, in the order
/// of the answers.
fn moves_members(script: &Script) -> bool {
    let declares = |item: &Item| matches!(item, Item::App { needs, .. } if !needs.is_empty());
    let says = |step: &Step| matches!(step, Step::Send { items, .. } if items.iter().any(declares));
    refuses(script) && script.0.iter().any(says)
}

/// An application with an open question counts as running until it is refused, and then tries all
/// of its asks again. One without a question does not, and so backs off at other times.
fn backs_off_after_refusals(script: &Script) -> bool {
    let backs_off = |(name, _): &(String, String)| name == "application.unschedasks.backoff";
    let says = |step: &Step| matches!(step, Step::Queue(it) if it.properties.iter().any(backs_off));
    refuses(script) && script.0.iter().any(says)
}

fn refuses(script: &Script) -> bool {
    script.0.iter().any(|step| matches!(step, Step::RefuseSome { .. }))
}

/// Whether asks of some age reserve nodes: in half of the histories.
pub(crate) fn patience() -> impl Strategy<Value = Option<Step>> {
    let never = Step::Reservations { delay: None, timeout: Duration::from_secs(3_600) };
    prop::option::of(Just(never))
}

/// Messages of several items, sent without waiting, now and then a new session; predicates change
/// their answers, if they `may_change`.
fn rush(may_change: bool, reloads: bool) -> impl Strategy<Value = Script> {
    let items = prop::collection::vec(item(USUAL), 1..6).prop_map(|items| {
        let of = kind_of(&items[0]);
        items.into_iter().filter(|item| kind_of(item) == of).collect()
    });
    let send =
        (items, prop::bool::weighted(0.2)).prop_map(|(items, waits)| Step::Send { items, waits });
    let asked = || {
        let any = || Just("*".to_owned());
        (prop_oneof![4 => key(), 1 => any()], prop_oneof![4 => node(), 1 => any()])
    };
    let mind = prop_oneof![
        1 => asked().prop_map(|(key, node)| Step::Refuse { key, node }),
        1 => asked().prop_map(|(key, node)| Step::Explode { key, node }),
        1 => asked().prop_map(|(key, node)| Step::Waver { key, node }),
        2 => asked().prop_map(|(key, node)| Step::Allow { key, node }),
    ];
    let mind = if may_change { mind.boxed() } else { Just(Step::Settle).boxed() };
    let step = prop_oneof![
        30 => send,
        4 => mind,
        1 => Just(Step::Register),
        1 => Just(Step::Settle),
        1 => Just(Step::Wait(Duration::from_secs(31))),
    ];
    let one = |step| vec![step];
    let step = if reloads {
        prop_oneof![9 => step.prop_map(one), 1 => reload()].boxed()
    } else {
        step.prop_map(one).boxed()
    };
    let there = prop::collection::vec(prop_oneof![2 => node_item(USUAL), 3 => app_item()], 8..40);
    let steps = prop::collection::vec(step, 0..60);
    (tree(), there, steps, any::<bool>()).prop_map(|(queues, there, steps, by_time)| {
        let mut steps: Vec<Step> = steps.into_iter().flatten().collect();
        let queues = queues.into_iter().map(Step::Queue);
        let there = there.into_iter().map(|item| Step::Send { items: vec![item], waits: false });
        steps.extend([Step::Settle, Step::Allow { key: "*".to_owned(), node: "*".to_owned() }]);
        if by_time {
            // The longest wait of an ask before its next try.
            steps.push(Step::Wait(Duration::from_secs(30)));
        } else {
            // Any change of a node may change predicates.
            let touch = |number: usize| {
                Item::Resize(NodeWords { id: format!("n{number}"), ..NodeWords::default() })
            };
            let touch = |number| Step::Send { items: vec![touch(number)], waits: true };
            steps.extend((1..=NODES).map(touch));
        }
        steps.push(Step::Quiet);
        with_end(queues.chain(there).collect(), steps)
    })
}

/// Kind of message of an item; items of one kind fit in one message.
pub(crate) fn kind_of(item: &Item) -> u8 {
    match item {
        Item::App { .. } | Item::RemoveApp(_) => 0,
        Item::Node(_)
        | Item::Resize(_)
        | Item::Drain(_)
        | Item::Undrain(_)
        | Item::RemoveNode(_)
        | Item::Act { .. } => 1,
        _ => 2,
    }
}

/// If a step meets offers in flight, the order of decisions may depend on the way of running. Each
/// way is still reproducible and obeys the interface.
pub(crate) fn survives(script: &Script, ways: &[How]) -> Result<(), TestCaseError> {
    for how in ways {
        let played = play(script, *how);
        prop_assert_eq!(&played.wrong, &Vec::<String>::new(), "{:?}", how);
        prop_assert!(!played.text.contains("resync"), "a partition was lost, {:?}", how);
        prop_assert_eq!(left_over(&played), Vec::<&str>::new());
        prop_assert_eq!(on_its_way(&played), Vec::<&str>::new());
        prop_assert_eq!(&play(script, *how), &played, "a second run differs, {:?}", how);
    }
    Ok(())
}

fn survives_in_every_way(script: &Script) -> Result<(), TestCaseError> {
    survives(script, &[How::Plain, How::OneAtATime, How::Watched])
}

fn survives_unwatched(script: &Script) -> Result<(), TestCaseError> {
    survives(script, &[How::Plain, How::OneAtATime])
}

fn survives_late_answers(script: &Script) -> Result<(), TestCaseError> {
    survives(script, &[How::Later(64), How::Dice(1), How::Dice(5)])
}

/// Lines about queues that are not zero at the end.
pub(crate) fn left_over(played: &Played) -> Vec<&str> {
    let lines = played.text.lines();
    let queues = lines.filter(|line| line.starts_with("root") && line.contains("headroom"));
    let is_zero = |line: &&str| {
        // Empty draining queues were removed.
        !line.contains("(Draining)")
            && line.contains(": used nothing, pending nothing,")
            && line.ends_with("running 0, priority none")
    };
    queues.filter(|line| !is_zero(line)).collect()
}

/// Returns applications that a history showed in a transient state.
fn on_its_way(played: &Played) -> Vec<&str> {
    let states = ["Completing", "Resuming", "Failing"].map(|state| format!(" is {state} since "));
    let lines = played.text.lines();
    lines.filter(|line| states.iter().any(|state| line.contains(state))).collect()
}

pub(crate) fn run(
    cases: u32,
    scripts: impl Strategy<Value = Script>,
    property: fn(&Script) -> Result<(), TestCaseError>,
) {
    let result = runner(cases).run(&scripts, |script| property(&script));
    if let Err(TestError::Fail(why, script)) = result {
        panic!("{why}\n\n{script}");
    }
}

#[test]
fn histories_equal_a_full_search() {
    run(9, history(USUAL), holds_true);
}

#[test]
fn histories_with_reloads_equal_a_full_search() {
    run(7, reloads(), holds_true);
}

#[test]
fn histories_with_extreme_quantities_equal_a_full_search() {
    run(4, history(EXTREME), holds_true);
}

#[test]
fn haste_changes_the_order_and_breaks_nothing() {
    run(5, rush(false, false), survives_in_every_way);
}

#[test]
fn histories_with_preferences_equal_a_full_search() {
    let prefer = (key(), node(), -2..3_i64, any::<bool>())
        .prop_map(|(key, node, by, among_all)| Step::Prefer { key, node, by, among_all });
    let preferences = prop::collection::vec(prefer, 4..16);
    let scripts = (preferences, history(USUAL)).prop_map(|(preferences, Script(mut steps))| {
        let first = steps.iter().position(|step| matches!(step, Step::Send { .. })).unwrap_or(0);
        steps.splice(first..first, preferences);
        Script(steps)
    });
    run(3, scripts, |script| {
        let plain = play(script, How::Plain);
        prop_assert_eq!(&plain.wrong, &Vec::<String>::new());
        prop_assert!(!plain.text.contains("resync"), "a partition was lost");
        for how in [How::OneAtATime, How::Watched] {
            prop_assert_eq!(&play(script, how), &plain, "{:?} differs from the default", how);
        }
        // Another RM, whose predicates are answered later, has no preferences.
        survives(script, &[How::Later(1)])
    });
}

#[test]
fn changing_predicates_break_nothing() {
    run(5, rush(true, false), survives_unwatched);
}

#[test]
fn late_changing_predicates_break_nothing() {
    run(4, rush(true, false), survives_late_answers);
}

#[test]
fn changing_limits_during_answers_break_nothing() {
    run(4, rush(true, true), survives_late_answers);
}

#[test]
fn histories_survive_late_predicates() {
    run(3, history(USUAL), survives_late_answers);
}

#[test]
fn many_decisions_per_offer_equal_single_ones() {
    run(7, waves(), holds_true);
}
