//! Random histories of reservations: nearly full nodes and large asks of any age, some of which
//! require a node. Time passes in steps about as long as the age for a reservation and the time
//! until it is given up.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::histories::{
    USUAL, app, app_item, holds_true, item, key, node, node_item, order, reload, run, survives,
    tree, which, with_end,
};
use crate::script::{Amounts, Item, NodeWords, Script, Step, Wish};
use crate::world::How;

/// The age for a reservation, and the time until it is given up.
fn patience() -> impl Strategy<Value = Step> {
    let delay = prop_oneof![
        4 => Just(Some(Duration::from_secs(2))),
        2 => Just(Some(Duration::ZERO)),
        1 => Just(None),
    ];
    let timeout = prop::sample::select(&[1_u64, 5, 60, 3_600][..]).prop_map(Duration::from_secs);
    (delay, timeout).prop_map(|(delay, timeout)| Step::Reservations { delay, timeout })
}

fn size(most: i64) -> impl Strategy<Value = Amounts> {
    let memory = prop_oneof![3 => Just(None), 2 => (1..=most).prop_map(Some)];
    (1..=most, memory).prop_map(|(vcore, memory)| {
        let memory = memory.map(|quantity| ("memory".to_owned(), quantity));
        Amounts([("vcore".to_owned(), vcore)].into_iter().chain(memory).collect())
    })
}

fn large() -> impl Strategy<Value = Wish> {
    let created = prop_oneof![
        3 => Just(None),
        2 => (990..1_020_i64).prop_map(|s| Some(s.to_string())),
    ];
    let repeat = prop_oneof![4 => Just(1), 1 => 2..=3];
    let required = prop::option::weighted(0.2, node());
    let priority = prop_oneof![3 => Just(0), 1 => -1..=2];
    (app(), key(), size(7), repeat, created, required, priority).prop_map(
        |(app, key, amounts, repeat, created, required, priority)| Wish {
            repeat,
            priority,
            required,
            created,
            ..Wish::of(&app, &key, amounts)
        },
    )
}

fn machine() -> impl Strategy<Value = NodeWords> {
    (node(), size(8)).prop_map(|(id, total)| NodeWords {
        id,
        total: Some(total),
        ..NodeWords::default()
    })
}

fn said() -> impl Strategy<Value = Item> {
    let stopped = monoceros_proto::si::v1::TerminationType::StoppedByRm as i32;
    let foreign = |(key, node, amounts)| {
        let kind = "default".to_owned();
        Item::Foreign { key, node, amounts, kind }
    };
    prop_oneof![
        20 => large().prop_map(Item::Ask),
        4 => large().prop_map(|wish| Item::Request(Wish { repeat: 1, ..wish })),
        6 => machine().prop_map(Item::Node),
        4 => machine().prop_map(Item::Resize),
        2 => node().prop_map(Item::Drain),
        3 => node().prop_map(Item::Undrain),
        2 => node().prop_map(Item::RemoveNode),
        3 => (key(), node(), size(6)).prop_map(foreign),
        3 => key().prop_map(Item::ForeignGone),
        3 => (app(), key()).prop_map(move |(app, key)| Item::Withdraw { app, key, kind: stopped }),
        12 => (app(), which())
            .prop_map(move |(app, which)| Item::Release { app, which, kind: stopped }),
        6 => item(USUAL),
    ]
}

fn step() -> impl Strategy<Value = Vec<Step>> {
    let send = |waits| move |item| vec![Step::Send { items: vec![item], waits }];
    let times = &[1_u64, 500, 1_000, 2_000, 2_001, 5_001, 31_000, 3_600_001][..];
    prop_oneof![
        24 => said().prop_map(send(true)),
        4 => prop::sample::select(times).prop_map(|ms| vec![Step::Wait(Duration::from_millis(ms))]),
        1 => reload(),
    ]
}

fn history() -> impl Strategy<Value = Script> {
    let refusals = prop_oneof![
        2 => Just(None),
        1 => (10..60_u8, any::<u64>())
            .prop_map(|(percent, seed)| Some(Step::RefuseSome { percent, seed })),
    ];
    let nodes = prop::collection::vec(
        prop_oneof![6 => machine().prop_map(Item::Node), 1 => node_item(USUAL)],
        3..9,
    );
    let apps = prop::collection::vec(app_item(), 6..16);
    let steps = prop::collection::vec(step(), 10..90);
    (patience(), order(), tree(), refusals, nodes, apps, steps).prop_map(
        |(patience, order, queues, refusals, nodes, apps, steps)| {
            let queues = queues.into_iter().map(Step::Queue);
            let there = nodes.into_iter().chain(apps);
            let there = there.map(|item| Step::Send { items: vec![item], waits: true });
            let head = [patience, order].into_iter().chain(queues).chain(refusals).chain(there);
            with_end(head.collect(), steps.into_iter().flatten().collect())
        },
    )
}

fn survives_late_answers(script: &Script) -> Result<(), TestCaseError> {
    survives(script, &[How::Later(64), How::Dice(1), How::Dice(5)])
}

#[test]
fn reservation_histories_equal_a_full_search() {
    run(5, history(), holds_true);
}

#[test]
fn reservation_histories_survive_late_predicates() {
    run(3, history(), survives_late_answers);
}
