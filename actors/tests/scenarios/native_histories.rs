//! Random histories of declared gangs: members that ask before or after the decision, fewer or more
//! than needed, too large, for other groups or none, while asks are withdrawn, nodes are added and
//! removed, time passes and the scheduler is restarted.

use monoceros_actors::tags::{HOLD_AGAIN, HOLD_AGAIN_SINCE};
use monoceros_proto::si::v1::TerminationType;
use proptest::prelude::*;

use crate::gang_histories::{
    Kind, app, group, history, of_group, one, roomy, rush, size, survives_at_once,
    survives_late_answers, survives_watched,
};
use crate::histories::{LEAVES, holds_true, node, run};
use crate::script::{Amounts, FAILED, Item, Which, Wish};

/// A group of a declaration. Some do not name the size of their members.
fn declared(name: &'static str) -> impl Strategy<Value = Wish> {
    let priority = prop_oneof![4 => Just(0), 1 => -2..=2];
    (1..=4, prop::option::weighted(0.85, size()), priority).prop_map(
        move |(repeat, size, priority)| {
            let size = size.unwrap_or_default();
            Wish { repeat, priority, ..Wish::of("", name, size) }
        },
    )
}

fn groups() -> impl Strategy<Value = Vec<Wish>> {
    prop_oneof![
        3 => declared("x").prop_map(|group| vec![group]),
        2 => (declared("x"), declared("y")).prop_map(|(one, other)| vec![one, other]),
    ]
}

fn declaring_app(id: BoxedStrategy<String>) -> impl Strategy<Value = Item> {
    let timeout = prop_oneof![2 => Just(0_i64), 3 => 1..8_000_i64];
    let style = prop::sample::select(&["", "Soft", "Hard"][..]);
    let leaf = prop::sample::select(&LEAVES[..]);
    (id, leaf, groups(), style, timeout).prop_map(|(id, queue, needs, style, timeout_ms)| {
        Item::App {
            id,
            queue: queue.to_owned(),
            user: "ada".to_owned(),
            groups: String::new(),
            tags: Vec::new(),
            partition: String::new(),
            gang: Amounts::default(),
            style: style.to_owned(),
            timeout_ms,
            needs,
        }
    })
}

/// A gang as an RM submits it, with some of its members, of the declared size or not.
fn gang(id: BoxedStrategy<String>) -> BoxedStrategy<Vec<Item>> {
    let members = prop::collection::vec(
        (any::<prop::sample::Index>(), prop::option::weighted(0.3, size()), 1..=2),
        0..=6,
    );
    (declaring_app(id), members, any::<bool>())
        .prop_flat_map(|(app, members, is_unified)| {
            let Item::App { id, needs, .. } = &app else { unreachable!("it is an application") };
            let asks = members.into_iter().zip(1..).map(|((which, own, repeat), number)| {
                let group = which.get(needs);
                let declared = (!group.amounts.0.is_empty()).then(|| group.amounts.clone());
                let amounts = own.or(declared).unwrap_or_else(|| needs[0].amounts.clone());
                let wish = of_group(id, &format!("k{number}"), &amounts, &group.key, false);
                if is_unified { Item::Request(wish) } else { Item::Ask(Wish { repeat, ..wish }) }
            });
            let asks: Vec<Item> = asks.collect();
            (Just(app), Just(asks).prop_shuffle())
                .prop_map(|(app, asks)| [app].into_iter().chain(asks).collect())
        })
        .boxed()
}

/// A member of a gang, or one of another group.
fn member() -> impl Strategy<Value = Item> {
    let key = (1..=9_usize).prop_map(|number| format!("k{number}"));
    (app(), key, size(), group(), 1..=3).prop_map(|(app, key, amounts, group, repeat)| {
        Item::Ask(Wish { repeat, ..of_group(&app, &key, &amounts, &group, false) })
    })
}

/// A request to hold places again, as an RM sends it after a restart.
fn hold_again() -> impl Strategy<Value = Item> {
    (app(), 990..=1_000_i64, 0..=4, 0..=4).prop_map(|(id, since, x, y)| {
        let places =
            |group: &str, places: i32| (format!("{HOLD_AGAIN}{group}"), places.to_string());
        let since = (HOLD_AGAIN_SINCE.to_owned(), since.to_string());
        Item::App {
            id,
            queue: LEAVES[0].to_owned(),
            user: "ada".to_owned(),
            groups: String::new(),
            tags: vec![since, places("x", x), places("y", y)],
            partition: String::new(),
            gang: Amounts::default(),
            style: String::new(),
            timeout_ms: 0,
            needs: Vec::new(),
        }
    })
}

fn one_of_declared() -> BoxedStrategy<Item> {
    prop_oneof![6 => one(), 3 => member(), 1 => hold_again()].boxed()
}

/// Gangs that often lose members: nodes are removed and added, starts fail, running allocations
/// fail, and members and others ask for the free capacity.
fn one_of_lossy() -> BoxedStrategy<Item> {
    let key = || (1..=9_usize).prop_map(|number| format!("k{number}"));
    let failed = TerminationType::SchedulingFailedOnRm as i32;
    let kinds = prop_oneof![4 => Just(failed), 2 => Just(FAILED), 1 => Just(1)];
    let other = (app(), key(), size(), 1..=3)
        .prop_map(|(app, key, amounts, repeat)| Wish { repeat, ..Wish::of(&app, &key, amounts) });
    prop_oneof![
        6 => member(),
        2 => other.prop_map(Item::Ask),
        4 => node().prop_map(Item::RemoveNode),
        6 => roomy(node()).prop_map(Item::Node),
        6 => (app(), key(), kinds).prop_map(|(app, key, kind)| Item::Release {
            app,
            which: Which::Key(key),
            kind,
        }),
        1 => one(),
        2 => hold_again(),
    ]
    .boxed()
}

pub(crate) const LOSSY: Kind = Kind { gang, one: one_of_lossy };

pub(crate) const DECLARED: Kind = Kind { gang, one: one_of_declared };

#[test]
fn declared_gang_histories_equal_a_full_search() {
    run(5, history(DECLARED), holds_true);
}

#[test]
fn lossy_gang_histories_equal_a_full_search() {
    run(5, history(LOSSY), holds_true);
}

#[test]
fn lossy_gangs_survive_late_predicates() {
    run(3, history(LOSSY), survives_late_answers);
}

#[test]
fn declared_gangs_in_haste_break_nothing() {
    run(3, rush(DECLARED, false), survives_watched);
}

#[test]
fn declared_gangs_survive_changing_predicates() {
    run(3, rush(DECLARED, true), survives_at_once);
}

#[test]
fn declared_gangs_survive_late_predicates() {
    run(3, rush(DECLARED, true), survives_late_answers);
}

#[test]
fn declared_gang_histories_survive_late_predicates() {
    run(3, history(DECLARED), survives_late_answers);
}
