//! Random histories of placement constraints: few nodes in few zones and racks with changing
//! attributes, and requests with affinity, anti-affinity or node constraints, with any kind of
//! alternative. A full search reads every constraint as it was sent, and counts from scratch for
//! every node.

use std::time::Duration;

use monoceros_rules::nodes::attributes::REMOVED;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};

use crate::histories::{
    USUAL, app, app_item, holds_true, item, key, node, order, reload, run, survives, tree, which,
    with_end,
};
use crate::script::{Amounts, Item, NodeWords, Script, Step, Wish};
use crate::world::How;

fn size() -> impl Strategy<Value = Amounts> {
    (1..=3_i64).prop_map(|vcore| Amounts(vec![("vcore".to_owned(), vcore)]))
}

fn machine() -> impl Strategy<Value = NodeWords> {
    let value = || prop::option::weighted(0.8, prop::sample::select(&["a", "b", "c"][..]));
    let machine = (node(), 2..=6_i64, value(), value(), any::<bool>());
    machine.prop_map(|(id, vcore, zone, rack, takes_off)| {
        let said = [("zone", zone), ("rack", rack)];
        let removed = said.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| *name);
        let removed = removed.collect::<Vec<_>>().join(",");
        let removed = (takes_off && !removed.is_empty()).then_some((REMOVED, removed));
        let attributes =
            said.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned())));
        let attributes = attributes.chain(removed);
        NodeWords {
            id,
            total: Some(Amounts(vec![("vcore".to_owned(), vcore)])),
            attributes: attributes.map(|(name, value)| (name.to_owned(), value)).collect(),
            ..NodeWords::default()
        }
    })
}

fn of_node() -> impl Strategy<Value = Value> {
    let operator = prop::sample::select(&["IN", "IN", "NOT_IN", "EXIST", "NOT_EXIST"][..]);
    let key = prop::sample::select(&["zone", "rack"][..]);
    (operator, key, prop::sample::select(&["a", "b"][..])).prop_map(|(operator, key, value)| {
        let one = json!({"targetOperator": operator, "targetKey": key, "targetValues": [value]});
        json!({"simpleConstraint": {"nodeAffinityConstraint": {"targetExpressions": [one]}}})
    })
}

fn near(required: bool) -> impl Strategy<Value = Value> {
    let scope = prop::sample::select(&["hostname", "", "rack", "zone"][..]);
    let range =
        prop_oneof![5 => (Just(0), 1..=2), 2 => (Just(2), Just(0)), 1 => (Just(2), Just(3))];
    let app = prop::sample::select(&["web", "db"][..]);
    (scope, range, app, any::<bool>()).prop_map(move |(scope, (min, max), app, is_required)| {
        let of = json!([{"targetKey": "app", "targetValues": [app]}]);
        json!({"simpleConstraint": {"allocationAffinityAttribute": {
            "scope": scope, "targetExpressions": of, "minCardinality": min, "maxCardinality": max,
            "required": required || is_required,
        }}})
    })
}

fn constraint() -> impl Strategy<Value = String> {
    let one = |required| prop_oneof![1 => of_node(), 2 => near(required)];
    let composite = |kind: &'static str| move |children: Vec<Value>| json!({"compositeConstraint": {"compositeType": kind, "childConstraints": children}});
    let any = prop::collection::vec(one(true), 1..3).prop_map(composite("OR"));
    let all = prop::collection::vec(prop_oneof![3 => one(false), 1 => any], 1..3);
    let all = all.prop_map(composite("AND"));
    let usual = prop_oneof![4 => one(false), 2 => all];
    let unit = prop::sample::select(&["MILLISECONDS", "OPPORTUNITIES"][..]);
    let timed = (usual.clone(), 0..4_i64, unit).prop_map(|(constraint, delay, unit)| {
        let delay = if unit == "MILLISECONDS" { delay * 700 } else { delay };
        json!({"placementConstraint": constraint, "schedulingDelay": delay, "delayUnit": unit})
    });
    let in_turn = prop::collection::vec(timed, 1..4).prop_map(|children| {
        json!({"compositeConstraint": {
            "compositeType": "DELAYED_OR", "timedChildConstraints": children,
        }})
    });
    let or = prop::collection::vec(usual.clone(), 1..3).prop_map(composite("OR"));
    prop_oneof![6 => usual, 2 => or, 2 => in_turn].prop_map(|value| value.to_string())
}

fn wish() -> impl Strategy<Value = Wish> {
    let repeat = prop_oneof![4 => Just(1), 2 => 2..=4];
    let tag = prop::option::weighted(0.8, prop::sample::select(&["web", "db"][..]));
    let constraint = prop_oneof![1 => Just(String::new()), 4 => constraint()];
    let required = prop::option::weighted(0.1, node());
    (app(), key(), size(), repeat, tag, constraint, required).prop_map(
        |(app, key, amounts, repeat, tag, constraint, required)| Wish {
            repeat,
            required,
            tags: tag.map(|app| ("app".to_owned(), app.to_owned())).into_iter().collect(),
            constraint,
            ..Wish::of(&app, &key, amounts)
        },
    )
}

/// A request or report that may be repeated with other tags.
fn again() -> impl Strategy<Value = Wish> {
    let policy = prop::sample::select(&["", "itself"][..]).prop_map(str::to_owned);
    (wish(), policy).prop_map(|(wish, policy)| Wish { repeat: 1, policy, ..wish })
}

fn said() -> impl Strategy<Value = Item> {
    let stopped = monoceros_proto::si::v1::TerminationType::StoppedByRm as i32;
    let failed = monoceros_proto::si::v1::TerminationType::SchedulingFailedOnRm as i32;
    let kind = prop_oneof![5 => Just(stopped), 1 => Just(failed)];
    prop_oneof![
        20 => wish().prop_map(Item::Ask),
        6 => again().prop_map(Item::Request),
        4 => (again(), node()).prop_map(|(wish, node)| Item::Exists(wish, node)),
        3 => machine().prop_map(Item::Node),
        8 => machine().prop_map(Item::Resize),
        1 => node().prop_map(Item::Drain),
        2 => node().prop_map(Item::Undrain),
        2 => node().prop_map(Item::RemoveNode),
        3 => (app(), key()).prop_map(move |(app, key)| Item::Withdraw { app, key, kind: stopped }),
        12 => (app(), which(), kind).prop_map(|(app, which, kind)| Item::Release { app, which, kind }),
        3 => item(USUAL),
    ]
}

fn step() -> impl Strategy<Value = Vec<Step>> {
    let send = |waits| move |item| vec![Step::Send { items: vec![item], waits }];
    let times = &[1_u64, 500, 1_000, 2_000, 5_001, 31_000][..];
    prop_oneof![
        24 => said().prop_map(send(true)),
        4 => prop::sample::select(times).prop_map(|ms| vec![Step::Wait(Duration::from_millis(ms))]),
        1 => reload(),
    ]
}

fn history() -> impl Strategy<Value = Script> {
    let refusals = prop_oneof![
        3 => Just(None),
        1 => (10..40_u8, any::<u64>())
            .prop_map(|(percent, seed)| Some(Step::RefuseSome { percent, seed })),
    ];
    let never = Step::Reservations { delay: None, timeout: Duration::from_secs(60) };
    let soon =
        Step::Reservations { delay: Some(Duration::from_secs(2)), timeout: Duration::from_secs(5) };
    let patience = prop_oneof![2 => Just(never), 1 => Just(soon)];
    let nodes = prop::collection::vec(machine().prop_map(Item::Node), 3..9);
    let apps = prop::collection::vec(app_item(), 6..12);
    let steps = prop::collection::vec(step(), 10..70);
    (patience, order(), tree(), refusals, nodes, apps, steps).prop_map(
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
fn constraint_histories_equal_a_full_search() {
    run(10, history(), holds_true);
}

#[test]
fn constraint_histories_survive_late_predicates() {
    run(5, history(), survives_late_answers);
}
