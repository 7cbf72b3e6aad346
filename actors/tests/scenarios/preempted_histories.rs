//! Random histories of preemption: queues with guarantees in a cluster that is full, asks that may
//! take from others and asks that may not, daemons, victims that are confirmed late, twice or never,
//! queues that are configured anew, and nodes that come and go.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::histories::{holds_true, run, survives, which, with_end};
use crate::script::{Amounts, Item, NodeWords, QueueWords, Script, Step, Wish};
use crate::world::How;

const LEAVES: [&str; 4] = ["root.a", "root.b", "root.p.c", "root.p.d"];

fn vcores(quantity: i64) -> Amounts {
    Amounts([("vcore".to_owned(), quantity)].into())
}

/// A leaf that may be guaranteed something, and whose asks preempt soon.
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
    (guaranteed, delay, others).prop_map(move |(guaranteed, delay, others)| {
        let delay = Some(("preemption.delay", delay));
        let properties = [delay, others].into_iter().flatten();
        QueueWords {
            path: path.to_owned(),
            guaranteed: guaranteed.map(vcores),
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
        // A parent is guaranteed at least what those below it are.
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

fn wish() -> impl Strategy<Value = Wish> {
    let key = (0..12_u8).prop_map(|n| format!("k{n}"));
    let policy = prop::sample::select(&["", "none", "itself", "others", "both", "both"][..]);
    let required = prop::option::weighted(0.1, node());
    let priority = prop_oneof![4 => Just(0), 1 => -1..=2];
    let rest = (policy, required, priority, prop::bool::weighted(0.1), 1..=2_i32);
    (app(), key, 1..=6_i64, rest).prop_map(
        |(app, key, size, (policy, required, priority, originator, repeat))| Wish {
            policy: policy.to_owned(),
            required,
            priority,
            originator,
            repeat,
            ..Wish::of(&app, &key, vcores(size))
        },
    )
}

fn machine() -> impl Strategy<Value = Item> {
    (node(), 2..=8_i64).prop_map(|(id, total)| {
        Item::Node(NodeWords { id, total: Some(vcores(total)), ..NodeWords::default() })
    })
}

fn said() -> impl Strategy<Value = Item> {
    let stopped = monoceros_proto::si::v1::TerminationType::StoppedByRm as i32;
    prop_oneof![
        20 => wish().prop_map(Item::Ask),
        3 => wish().prop_map(|wish| Item::Request(Wish { repeat: 1, ..wish })),
        2 => machine(),
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
            let text = format!("app a{} in {}", n + 1, LEAVES[n % LEAVES.len()]);
            Script::parse(&text).0.remove(0)
        });
        let nodes = nodes.into_iter().map(|item| Step::Send { items: vec![item], waits: true });
        let head = queues.into_iter().chain(refusals).chain(nodes).chain(apps);
        with_end(head.collect(), steps.into_iter().flatten().collect())
    })
}

/// A gang that may take from others, or be short of what others take.
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
        Item::Ask(Wish { group, policy, repeat, ..Wish::of(&app, &key, vcores(size)) })
    })
}

/// A step of a history in which gangs preempt, too, and are preempted.
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
fn any_history_of_preemption_is_that_of_a_full_search_and_ends_at_zero() {
    run(30, history_of(step()), holds_true);
}

#[test]
fn no_history_of_preemption_breaks_what_waits_for_its_predicate() {
    run(12, history_of(step()), survives_late_answers);
}

#[test]
fn any_history_of_gangs_that_preempt_is_that_of_a_full_search_and_ends_at_zero() {
    run(20, history_of(step_of_gangs()), holds_true);
}

#[test]
fn no_history_of_gangs_that_preempt_breaks_what_waits_for_its_predicate() {
    run(12, history_of(step_of_gangs()), survives_late_answers);
}
