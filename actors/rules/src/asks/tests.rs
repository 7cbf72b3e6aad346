//! Tests of asks against a model that sorts and adds everything again: classes, their order and the
//! running sums must not affect any answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::asks::Waiting;
use crate::nodes::{NodeIndex, NodeOrder};
use crate::order::keys::{AskKey, MIN_PRIORITY};
use crate::specs::ask::AskSpec;
use crate::values::again::written_and_read;
use crate::values::epoch::{Growth, Loosening};
use crate::values::ids::{AskSlot, ClassId};
use crate::values::resources::{Limits, Resources, Sum};
use crate::waiting::{Parked, View, WaitSet};

fn spec(key: &str, vcore: i64) -> AskSpec {
    AskSpec::new(key, Resources::of(&[("vcore", vcore)]))
}

/// Returns the keys of the first members of all classes, in order.
fn first_members(asks: &Asks) -> Vec<String> {
    asks.classes().map(|(_, slot, _)| asks.ask(slot).key.to_string()).collect()
}

fn view<'a>(headroom: &'a Limits, nodes: &'a NodeIndex) -> View<'a> {
    View {
        headroom,
        loosening: Loosening::numbered(1),
        may_start: true,
        nodes: Some(nodes),
        limits: None,
        queues: None,
    }
}

/// Returns an index with enough capacity for all asks. Whether one node holds an ask is not
/// checked.
fn roomy_nodes() -> NodeIndex {
    let mut nodes = NodeIndex::new(NodeOrder::default());
    let room = Resources::of(&[("vcore", 99), ("memory", 99)]);
    nodes.insert(Arc::from("n"), room.clone(), room, true).unwrap();
    nodes
}

#[test]
fn asks_of_one_shape_are_one_class_that_stands_where_its_first_member_does() {
    let mut asks = Asks::new();
    asks.put(spec("a", 1), 10, 1);
    asks.put(spec("b", 2), 20, 2);
    asks.put(spec("c", 1), 30, 3);
    assert_eq!(first_members(&asks), ["a", "b"]);
    let a = asks.slot_of("a").unwrap();
    asks.take_one(a);
    assert_eq!(first_members(&asks), ["b", "c"], "c is the first of its class now");
    asks.put(AskSpec { created_ns: Some(5), ..spec("d", 1) }, 40, 4);
    assert_eq!(first_members(&asks), ["d", "b"], "the class moves forward with an older member");
}

/// The clock of its RM is ahead: it has the position of its arrival, also if it is sent again.
#[test]
fn an_ask_created_ahead_counts_from_its_arrival() {
    let mut asks = Asks::new();
    let ahead = |at| AskSpec { created_ns: Some(at), ..spec("ahead", 1) };
    let (slot, _) = asks.put(ahead(9_000), 10, 1);
    asks.put(spec("later", 2), 11, 2);
    let times = |asks: &Asks| {
        let ask = asks.ask(slot);
        (ask.created_ns, ask.stated_creation_ns())
    };
    assert_eq!(times(&asks), (10, 9_000));
    assert_eq!(first_members(&asks), ["ahead", "later"]);
    for (said, expected) in [
        (ahead(9_500), (10, 9_500)),
        (spec("ahead", 1), (10, 9_500)),
        (ahead(15), (10, 15)),
        (ahead(7), (7, 7)),
        (spec("ahead", 1), (7, 7)),
        (ahead(8), (8, 8)),
    ] {
        asks.put(said, 20, 3);
        assert_eq!(times(&asks), expected);
    }
    let (slot, _) = asks.put(AskSpec { created_ns: Some(i64::MAX), ..spec("far", 3) }, 12, 4);
    assert_eq!(asks.ask(slot).created_ns, 12);
}

#[test]
fn an_ask_that_joins_a_parked_class_makes_it_due() {
    let (headroom, nodes) = (Limits::unlimited(), NodeIndex::new(NodeOrder::default()));
    let view = view(&headroom, &nodes);
    let mut asks = Asks::new();
    let (a, _) = asks.put(spec("a", 1), 10, 1);
    let parked = Parked::roomless(&asks.ask(a).resources, &view);
    asks.set_waits(asks.class_of(a).unwrap(), WaitSet::Parked(Box::new(parked)));
    assert_eq!(asks.first(&view), None);
    asks.put(spec("b", 1), 20, 2);
    assert!(asks.first(&view).is_some_and(|(_, slot)| slot == a), "the first member is tried");
}

fn to_signal(class: ClassId, vcores: i64, count: u64) -> ToSignal {
    ToSignal::first(class, Resources::of(&[("vcore", vcores)]), count)
}

#[test]
fn a_class_is_told_of_in_parts_and_what_is_of_another_size_by_then_is_not() {
    let (headroom, nodes) = (Limits::unlimited(), NodeIndex::new(NodeOrder::default()));
    let view = view(&headroom, &nodes);
    let mut asks = Asks::new();
    for (at, key) in (1..).zip(["a", "b", "c", "d", "e"]) {
        asks.put(AskSpec { instances: 2, ..spec(key, 1) }, at, at.unsigned_abs());
    }
    let first = asks.slot_of("a").unwrap();
    let class = asks.class_of(first).unwrap();
    asks.ask_mut(first).attempted = true;
    let parked = Parked::roomless(&asks.ask(first).resources, &view);
    asks.set_waits(class, WaitSet::Parked(Box::new(parked)));
    // Seven allocations: three asks, and half of the fourth.
    let mut left = to_signal(class, 1, 7);
    let mut part = |asks: &mut Asks| -> String {
        let Signalled { due, .. } = asks.signal(&mut left, None, 2);
        let keys = due.iter().map(|slot| asks.ask(*slot).key.to_string());
        format!("{}{}", keys.collect::<String>(), if left.is_over() { "." } else { "" })
    };
    assert_eq!([0, 1, 2].map(|_| part(&mut asks)), ["ab", "cd.", "."]);
    let other = asks.signal(&mut to_signal(class, 2, 10), None, 9);
    assert_eq!(other, Signalled::default(), "of another size");
    // Requests with a signal are examined again, also in parts.
    let mut left = to_signal(class, 1, 10);
    let parts = [0, 1, 2].map(|_| asks.signal(&mut left, None, 2));
    assert_eq!(parts.map(|part| (part.due.len(), part.looked_at)), [(0, 2), (0, 2), (1, 1)]);
    assert!(left.is_over() && !asks.any_unsignalled());
}

#[test]
fn behind_the_last_request_that_is_not_told_nothing_is_looked_at() {
    let (headroom, nodes) = (Limits::unlimited(), NodeIndex::new(NodeOrder::default()));
    let view = view(&headroom, &nodes);
    let mut asks = Asks::new();
    for (at, key) in (1..).zip(["b", "c", "d"]) {
        asks.put(spec(key, 1), at, at.unsigned_abs());
    }
    let park = |asks: &mut Asks| {
        let first = asks.iter().min_by_key(|ask| ask.created_ns).map(|ask| Arc::clone(&ask.key));
        let first = asks.slot_of(&first.unwrap()).unwrap();
        asks.ask_mut(first).attempted = true;
        let parked = Parked::roomless(&asks.ask(first).resources, &view);
        let class = asks.class_of(first).unwrap();
        asks.set_waits(class, WaitSet::Parked(Box::new(parked)));
        class
    };
    let class = park(&mut asks);
    assert_eq!(asks.signal(&mut to_signal(class, 1, 9), None, 9).due.len(), 3);
    let (a, _) = asks.put(spec("a", 1), 0, 4);
    let class = park(&mut asks);
    let mut left = to_signal(class, 1, 9);
    let signalled = asks.signal(&mut left, None, 9);
    assert_eq!(signalled, Signalled { due: vec![a], looked_at: 1 });
    assert!(left.is_over());
}

#[test]
fn a_class_was_tried_with_its_first_member_and_each_member_is_signalled_once() {
    let (headroom, nodes) = (Limits::unlimited(), NodeIndex::new(NodeOrder::default()));
    let view = view(&headroom, &nodes);
    let mut asks = Asks::new();
    let (a, _) = asks.put(AskSpec { instances: 3, ..spec("a", 1) }, 10, 1);
    asks.put(spec("b", 1), 20, 2);
    asks.put(spec("c", 1), 30, 3);
    assert_eq!(asks.tried(None), [], "nothing was tried");
    let class = asks.class_of(a).unwrap();
    let park = |asks: &mut Asks| {
        asks.ask_mut(a).attempted = true;
        let parked = Parked::roomless(&asks.ask(a).resources, &view);
        asks.set_waits(class, WaitSet::Parked(Box::new(parked)));
    };
    park(&mut asks);
    let tried = |asks: &Asks| asks.tried(None).iter().map(|tried| tried.count).collect::<Vec<_>>();
    assert_eq!(tried(&asks), [5]);
    let due = |asks: &mut Asks, count: u64| {
        let Signalled { due, .. } = asks.signal(&mut to_signal(class, 1, count), None, usize::MAX);
        due.iter().map(|slot| asks.ask(*slot).key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(due(&mut asks, 2), ["a"], "two of the three of `a` fit");
    assert_eq!(due(&mut asks, 4), ["b"]);
    assert_eq!(due(&mut asks, 4), Vec::<String>::new());
    asks.put(spec("d", 1), 40, 4);
    assert_eq!(tried(&asks), [3], "of a class that is due only `a` was tried for certain");
    park(&mut asks);
    asks.take_one(a);
    assert_eq!(tried(&asks), [5]);
    assert_eq!(due(&mut asks, 9), ["c", "d"]);
    let b = asks.slot_of("b").unwrap();
    asks.withdraw(b);
    asks.resize(asks.slot_of("c").unwrap(), Resources::of(&[("vcore", 2)]));
    assert_eq!(due(&mut asks, 9), Vec::<String>::new());
}

#[test]
fn a_bundle_was_tried_if_each_of_its_asks_was_and_only_what_it_takes_counts() {
    let mut asks = Asks::new();
    let (a, _) = asks.put(AskSpec { instances: 3, ..spec("a", 1) }, 10, 1);
    let (b, _) = asks.put(AskSpec { instances: 4, ..spec("b", 1) }, 20, 2);
    let (c, _) = asks.put(spec("c", 2), 30, 3);
    let bundled = vec![vec![(c, 1)], vec![(a, 3), (b, 2)]];
    for slot in [a, b] {
        assert_eq!(asks.tried_together(&bundled), []);
        asks.ask_mut(slot).attempted = true;
    }
    assert_eq!(asks.tried_together(&bundled), [], "c came later");
    asks.ask_mut(c).attempted = true;
    let of = |slot, count| {
        let class = asks.class_of(slot).unwrap();
        let resources = (*asks.ask(slot).resources).clone();
        Waiting { class, resources, count }
    };
    assert_eq!(asks.tried_together(&bundled), [of(c, 1), of(a, 5)]);
}

#[test]
fn an_ask_that_is_singled_out_leaves_its_class_as_it_was() {
    let (headroom, nodes) = (Limits::unlimited(), NodeIndex::new(NodeOrder::default()));
    let view = view(&headroom, &nodes);
    let mut asks = Asks::new();
    let (a, _) = asks.put(spec("a", 1), 10, 1);
    let (b, _) = asks.put(spec("b", 1), 20, 2);
    let parked = Parked::roomless(&asks.ask(a).resources, &view);
    asks.single_out(a, WaitSet::Parked(Box::new(parked)));
    assert_ne!(asks.class_of(a), asks.class_of(b));
    assert!(asks.first(&view).is_some_and(|(_, slot)| slot == b));
    asks.put(spec("a", 1), 30, 3);
    assert_eq!(asks.class_of(a), asks.class_of(b), "an ask sent anew is one of many again");
}

#[test]
fn an_ask_is_singled_out_once_while_it_awaits_a_return() {
    let mut asks = Asks::new();
    let (a, _) = asks.put(spec("a", 1), 10, 1);
    assert_eq!(asks.await_return(a, WaitSet::Nothing), Some(WaitSet::Nothing), "nobody refused it");
    asks.ask_mut(a).trying_since(0, Growth::NONE);
    assert_eq!(asks.await_return(a, WaitSet::Nothing), Some(WaitSet::Nothing));
    assert_eq!(asks.await_return(a, WaitSet::Nothing), None);
    assert_eq!(asks.waits(), WaitSet::Nothing);
}

#[test]
fn an_ask_that_may_not_reserve_is_due_after_a_placement() {
    let mut asks = Asks::new();
    let (a, _) = asks.put(spec("a", 1), 10, 1);
    let class = asks.class_of(a).unwrap();
    asks.set_waits(class, WaitSet::Nothing);
    asks.begin_instance(a);
    assert_eq!(asks.waits(), WaitSet::Nothing);
    asks.ask_mut(a).forbid_to_reserve();
    asks.begin_instance(a);
    assert_eq!(asks.waits(), WaitSet::Due);
}

#[test]
fn an_open_claim_keeps_an_ask_apart() {
    let mut asks = Asks::new();
    let (a, _) = asks.put(spec("a", 1), 10, 1);
    let (b, _) = asks.put(spec("b", 1), 20, 2);
    asks.ask_to_reserve(a, 7, WaitSet::Nothing);
    assert_ne!(asks.class_of(a), asks.class_of(b));
    assert_eq!([asks.ask_mut(a).take_claim(), asks.ask_mut(a).take_claim()], [Some(7), None]);
    assert!(asks.try_again(a) && *asks.waits_of(asks.class_of(a).unwrap()) == WaitSet::Due);
}

#[test]
fn reasons_of_refusals_add_up_to_a_bound() {
    let mut asks = Asks::new();
    let (a, _) = asks.put(spec("a", 1), 10, 1);
    let ask = asks.ask_mut(a);
    let reasons = |count: usize| (0..count).map(|nth| (nth.to_string(), 1)).collect::<Vec<_>>();
    ask.note_reasons(reasons(REASONS_MAX));
    ask.note_reasons(reasons(REASONS_MAX + 1));
    let noted = &ask.refusals().unwrap().reasons;
    assert_eq!((noted.len(), noted["0"]), (REASONS_MAX, 2));
    ask.refused_by_all(BTreeMap::new());
    assert!(ask.attempted && ask.refusals().unwrap().reasons.is_empty());
}

#[test]
fn an_ask_is_remembered_until_it_is_done() {
    let mut asks = Asks::new();
    let (a, _) = asks.put(spec("a", 1), 10, 1);
    asks.drop_if_done(a);
    assert_eq!(asks.slot_of("a"), Some(a), "something is outstanding");
    asks.take_one(a);
    assert_eq!(asks.slot_of("a"), Some(a), "the caller has still to note what lives");
    asks.drop_if_done(a);
    assert_eq!((asks.slot_of("a"), asks.len()), (None, 0));
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Put {
        key: u8,
        vcore: i64,
        memory: Option<i64>,
        repeat: u32,
        priority: i32,
        created: Option<i64>,
        node: bool,
    },
    Take(u8),
    Withdraw(u8),
    Resize(u8, i64),
    GiveBack(u8),
    SingleOut(u8),
    Done(u8),
    WriteAndRead,
}

#[derive(Clone, Debug)]
struct ModelAsk {
    resources: Resources,
    repeat: u32,
    priority: i32,
    /// The creation time, if the request stated one.
    stated: Option<i64>,
    arrived: i64,
    created: i64,
    sequence: u64,
    node: bool,
    /// The number under which it was singled out; 0 if it was not.
    single: u64,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..5_u8;
    let put = (
        key(),
        0..3_i64,
        prop::option::of(0..2_i64),
        0..3_u32,
        0..2,
        prop::option::of(0..50_i64),
        any::<bool>(),
    )
        .prop_map(|(key, vcore, memory, repeat, priority, created, node)| Op::Put {
            key,
            vcore,
            memory,
            repeat,
            priority,
            created,
            node,
        });
    prop_oneof![
        6 => put,
        4 => key().prop_map(Op::Take),
        1 => key().prop_map(Op::Withdraw),
        1 => (key(), 0..3_i64).prop_map(|(key, vcore)| Op::Resize(key, vcore)),
        1 => key().prop_map(Op::GiveBack),
        2 => key().prop_map(Op::SingleOut),
        1 => key().prop_map(Op::Done),
        2 => Just(Op::WriteAndRead),
    ]
}

#[derive(Default)]
struct Model {
    asks: BTreeMap<u8, ModelAsk>,
}

impl Model {
    fn pending(&self) -> Resources {
        let mut sum = Resources::new();
        for ask in self.asks.values() {
            sum.add(&ask.resources.times(i64::from(ask.repeat)));
        }
        sum.pruned()
    }

    /// Returns the first member of each class, in order.
    fn first_members(&self) -> Vec<String> {
        let mut pending: Vec<_> = self.asks.iter().filter(|(_, ask)| ask.repeat > 0).collect();
        pending.sort_by_key(|(_, ask)| AskKey::new(ask.priority, ask.created, ask.sequence));
        let mut seen = Vec::new();
        pending.retain(|(_, ask)| {
            let shape = (ask.resources.clone(), ask.priority, ask.node, ask.single);
            let is_new = !seen.contains(&shape);
            seen.push(shape);
            is_new
        });
        pending.into_iter().map(|(key, _)| key.to_string()).collect()
    }
}

impl Model {
    /// Returns the end of a pass by its definition, ask by ask: the pass has reached `end`, and the
    /// asks before it that fit have no node.
    fn last_of_pass(&self, limit: u64, headroom: &Limits, end: Option<AskKey>) -> Option<AskKey> {
        let pending = self.asks.values().filter(|ask| ask.repeat > 0);
        let key = |ask: &ModelAsk| AskKey::new(ask.priority, ask.created, ask.sequence);
        let mut in_order: Vec<_> = pending.map(|ask| (key(ask), ask)).collect();
        in_order.sort_by_key(|(key, _)| *key);
        let (mut n_unplaceable, mut last) = (0, None);
        for (key, ask) in in_order {
            if n_unplaceable >= limit {
                return last;
            }
            if Some(key) == end {
                return None;
            }
            if !ask.node && headroom.allows(&ask.resources) {
                n_unplaceable += 1;
                last = Some(key);
            }
        }
        None
    }
}

fn apply(asks: &mut Asks, model: &mut Model, op: Op, now: i64) -> Result<(), TestCaseError> {
    let sequence = u64::try_from(now).unwrap();
    let before = model.pending();
    let slot_of = |asks: &Asks, key: u8| asks.slot_of(&key.to_string());
    let change = match op {
        Op::Put { key, vcore, memory, repeat, priority, created, node } => {
            let mut entries = vec![("vcore", vcore)];
            entries.extend(memory.map(|memory| ("memory", memory)));
            let resources = Resources::of(&entries);
            let required_node = node.then(|| Arc::from("n"));
            let spec = AskSpec {
                resources: Arc::new(resources.clone()),
                instances: repeat,
                priority,
                created_ns: created,
                ..spec(&key.to_string(), 0)
            };
            let spec = spec.with(|it| it.required_node = required_node);
            let old = model.asks.get(&key);
            let stated = created.or(old.and_then(|old| old.stated));
            let arrived = old.map_or(now, |old| old.arrived);
            let created = stated.into_iter().chain([arrived]).min().unwrap();
            let single = 0;
            let ask = ModelAsk {
                resources,
                repeat,
                priority,
                stated,
                arrived,
                created,
                sequence,
                node,
                single,
            };
            model.asks.insert(key, ask);
            asks.put(spec, now, sequence).1
        }
        Op::Take(key) => {
            let Some(ask) = model.asks.get_mut(&key).filter(|ask| ask.repeat > 0) else {
                return Ok(());
            };
            ask.repeat -= 1;
            let taken = ask.resources.clone();
            asks.take_one(slot_of(asks, key).unwrap());
            Sum::times(&taken, -1)
        }
        Op::Withdraw(key) => {
            let Some(slot) = slot_of(asks, key) else { return Ok(()) };
            model.asks.remove(&key);
            asks.withdraw(slot).reversed()
        }
        Op::Resize(key, vcore) => {
            let Some(ask) = model.asks.get_mut(&key) else { return Ok(()) };
            ask.resources = Resources::of(&[("vcore", vcore)]);
            ask.single = 0;
            asks.resize(slot_of(asks, key).unwrap(), Resources::of(&[("vcore", vcore)]))
        }
        Op::GiveBack(key) => {
            let Some(ask) = model.asks.get_mut(&key) else { return Ok(()) };
            ask.repeat += 1;
            asks.give_back(slot_of(asks, key).unwrap())
        }
        Op::SingleOut(key) => {
            let Some(ask) = model.asks.get_mut(&key).filter(|ask| ask.repeat > 0) else {
                return Ok(());
            };
            ask.single = ask.sequence;
            asks.single_out(slot_of(asks, key).unwrap(), WaitSet::Due);
            Sum::default()
        }
        Op::Done(key) => {
            let Some(slot) = slot_of(asks, key) else { return Ok(()) };
            asks.drop_if_done(slot);
            if model.asks[&key].repeat == 0 {
                model.asks.remove(&key);
            }
            Sum::default()
        }
        Op::WriteAndRead => {
            *asks = written_and_read(asks);
            Sum::default()
        }
    };
    let expected = model.pending().minus(&before);
    prop_assert!(change.shown().same_amount(&expected), "change of pending {change:?}");
    Ok(())
}

fn passes_end_as_in(model: &Model, asks: &Asks) -> Result<(), TestCaseError> {
    let (headroom, nodes) = (Limits::of(&[("vcore", 1)]), roomy_nodes());
    let view = view(&headroom, &nodes);
    let classes: Vec<ClassId> = asks.order.iter().map(|(_, class, _)| *class).collect();
    for next in classes.into_iter().map(Some).chain([None]) {
        let end = next.map(|class| asks.class(class).key);
        for limit in 1..=5 {
            prop_assert_eq!(
                asks.last_of_pass(limit, &view, next, |_| false),
                model.last_of_pass(limit, &headroom, end),
                "limit {} before {:?}",
                limit,
                end
            );
        }
    }
    Ok(())
}

#[test]
fn asks_behind_the_end_of_a_pass_were_not_tried() {
    let (headroom, nodes) = (Limits::unlimited(), roomy_nodes());
    let view = view(&headroom, &nodes);
    let mut asks = Asks::new();
    for (at, (key, vcore)) in (1..).zip([("a", 1), ("b", 2), ("c", 1), ("d", 2), ("e", 1)]) {
        asks.put(AskSpec { instances: 2, ..spec(key, vcore) }, at, at.unsigned_abs());
    }
    for key in ["a", "b"] {
        let slot = asks.slot_of(key).unwrap();
        let parked = Parked::roomless(&asks.ask(slot).resources, &view);
        asks.set_waits(asks.class_of(slot).unwrap(), WaitSet::Parked(Box::new(parked)));
        asks.ask_mut(slot).attempted = true;
    }
    let reached = asks.last_of_pass(3, &view, None, |_| false);
    assert_eq!(reached, Some(AskKey::new(0, 3, 3)), "c is the third, and d follows");
    let counts =
        |asks: &Asks, reached| asks.tried(reached).iter().map(|it| it.count).collect::<Vec<_>>();
    assert_eq!(counts(&asks, reached), [4, 2], "a, c and b");
    assert_eq!(counts(&asks, None), [6, 4]);
    let of_first = asks.class_of(asks.slot_of("a").unwrap()).unwrap();
    let slots = |asks: &Asks, keys: &[&str]| -> Vec<AskSlot> {
        keys.iter().map(|key| asks.slot_of(key).unwrap()).collect()
    };
    let due =
        |asks: &mut Asks, reached| asks.signal(&mut to_signal(of_first, 1, 9), reached, 99).due;
    assert_eq!(due(&mut asks, reached), slots(&asks, &["a", "c"]));
    assert_eq!(due(&mut asks, None), slots(&asks, &["e"]));
    let a = asks.slot_of("a").unwrap();
    asks.withdraw(a);
    assert_eq!(counts(&asks, reached), [2, 2], "b, and c speaks for its class from now on");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn pending_classes_and_order_are_those_of_a_model(ops in prop::collection::vec(op(), 0..40)) {
        let (mut asks, mut model) = (Asks::new(), Model::default());
        for (now, op) in (1..).zip(ops) {
            apply(&mut asks, &mut model, op, now)?;
            prop_assert_eq!(asks.pending().shown(), &model.pending());
            prop_assert_eq!(first_members(&asks), model.first_members());
            prop_assert_eq!(asks.len(), model.asks.len());
            let highest = model.asks.values().filter(|ask| ask.repeat > 0).map(|ask| ask.priority);
            prop_assert_eq!(asks.priority(), highest.max().unwrap_or(MIN_PRIORITY));
            for ask in asks.iter() {
                let slot = asks.slot_of(&ask.key).unwrap();
                prop_assert_eq!(asks.class_of(slot).is_some(), ask.outstanding > 0);
            }
            let is_idle = asks.pending_keys(None).is_empty();
            prop_assert_eq!(asks.waits() == WaitSet::Nothing, is_idle);
            passes_end_as_in(&model, &asks)?;
        }
    }
}
