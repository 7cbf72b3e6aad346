use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::values::resources::Resources;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::partition::NewNode;
use crate::step::{Cause, Which};

mod model;

const SECOND: i64 = 1_000_000_000;

fn buffer() -> ReorderBuffer {
    ReorderBuffer::new(Duration::from_secs(10))
}

fn app(id: &str) -> WaitsFor {
    WaitsFor::Application(Arc::from(id))
}

fn spec(key: &str, form: Form) -> Arc<AskSpec> {
    Arc::new(AskSpec { form, ..AskSpec::new(key, Resources::of(&[("vcore", 1)])) })
}

fn ask(application: &str, key: &str) -> Item {
    Item::Op(Arc::from(application), Op::Ask(spec(key, Form::Ask)))
}

fn unified(application: &str, key: &str) -> Item {
    Item::Op(Arc::from(application), Op::Unified(spec(key, Form::Unified)))
}

fn running(key: &str, uuid: &str) -> Existing {
    Existing { spec: spec(key, Form::Recovered), uuid: Arc::from(uuid), node: Arc::from("n") }
}

fn existing(application: &str, key: &str, uuid: &str) -> Item {
    Item::Op(Arc::from(application), Op::Existing(Box::new(running(key, uuid))))
}

/// A node with allocations of these applications, keys and UUIDs.
fn node(id: &str, existing: &[(&str, &str, &str)]) -> Item {
    let brings = |(of, key, uuid): &(&str, &str, &str)| (Arc::from(*of), running(key, uuid));
    Item::Node(Box::new(NewNode {
        id: Arc::from(id),
        attributes: BTreeMap::new(),
        total: Resources::new(),
        occupied: Resources::new(),
        existing: existing.iter().map(brings).collect(),
        draining: false,
    }))
}

fn change(node: &str) -> Item {
    Item::NodeChange(Arc::from(node), NodeChange::Drain(true))
}

fn shown(items: &[Waiting]) -> Vec<String> {
    items.iter().map(|waiting| show(&waiting.item)).collect()
}

fn show(item: &Item) -> String {
    match item {
        Item::Op(of, Op::Existing(existing)) => format!("{} of {of}", existing.uuid),
        Item::Op(of, op) => format!("{} of {of}", op.spec().map_or("?", |spec| &spec.key)),
        Item::Node(node) => {
            let brought = node.existing.iter().map(|(of, it)| format!(" {}/{of}", it.uuid));
            format!("node {}{}", node.id, brought.collect::<String>())
        }
        Item::NodeChange(node, _) => format!("change of {node}"),
    }
}

fn release(which: Which, cause: Cause) -> Op {
    Op::Release { which, cause, reason: None, had_waiting: false }
}

fn stop(which: Which) -> Op {
    release(which, Cause::Stopped)
}

fn by_key(key: &str) -> Which {
    Which::Key(Arc::from(key))
}

fn by_uuid(uuid: &str) -> Which {
    Which::Uuid(Arc::from(uuid))
}

/// Whether the buffer and each of its sets is empty.
fn is_clear(buffer: &ReorderBuffer) -> bool {
    buffer.is_empty()
        && buffer.waiting.is_empty()
        && buffer.due.is_empty()
        && buffer.named.is_empty()
        && buffer.nodes.is_empty()
}

#[test]
fn what_waits_for_one_thing_comes_out_in_the_order_in_which_it_came() {
    let mut buffer = buffer();
    for key in ["b", "a", "c"] {
        let _ = buffer.put(app("x"), ask("x", key), SECOND);
    }
    let _ = buffer.put(app("y"), ask("y", "d"), SECOND);
    assert_eq!(shown(&buffer.came(&app("x"))), ["b of x", "a of x", "c of x"]);
    assert!(!buffer.is_empty(), "another waits for something else");
}

#[test]
fn nothing_waits_longer_than_the_window_whoever_waits_beside_it() {
    let mut buffer = buffer();
    let until = buffer.until_ns(5 * SECOND);
    assert_eq!(until, 15 * SECOND);
    assert_eq!(buffer.put(app("x"), ask("x", "late"), until), Some(until));
    assert_eq!(buffer.put(app("y"), ask("y", "later"), until + 1), None, "asked earlier anyway");
    // Its time ends earlier, since the item waited for another application before.
    assert_eq!(buffer.put(app("x"), ask("x", "early"), 7 * SECOND), Some(7 * SECOND));
    let (expired, next) = buffer.expire(7 * SECOND);
    assert_eq!((shown(&expired), next), (vec!["early of x".to_owned()], Some(until)));
    let (expired, next) = buffer.expire(until + 1);
    assert_eq!((expired.len(), next), (2, None));
    assert!(is_clear(&buffer));
}

#[test]
fn one_deadline_is_enough_for_items_that_come_and_go() {
    let mut buffer = buffer();
    assert_eq!(buffer.put(app("x"), ask("x", "a"), SECOND), Some(SECOND));
    for n in 1..1_000 {
        let _ = buffer.came(&app("x"));
        assert_eq!(buffer.put(app("x"), ask("x", "a"), SECOND + n), None, "asked anyway");
    }
    let (expired, next) = buffer.expire(SECOND);
    assert_eq!((expired.len(), next), (0, Some(SECOND + 999)));
}

#[test]
fn no_more_wait_than_may_and_none_without_a_window() {
    let mut buffer = buffer();
    buffer.set_weight_max(2);
    assert!(buffer.may_wait(&app("x"), 2) && !buffer.may_wait(&app("x"), 3));
    let _ = buffer.put(app("x"), ask("x", "a"), SECOND);
    let _ = buffer.put(app("y"), ask("y", "b"), SECOND);
    assert!(!buffer.may_wait(&app("x"), 1));
    buffer.came(&app("y"));
    assert!(buffer.may_wait(&app("x"), 1), "what is taken out makes room");
    buffer.set_window(Duration::ZERO);
    assert!(!buffer.may_wait(&app("x"), 1));
}

#[test]
fn what_is_large_counts_as_several() {
    let mut buffer = buffer();
    buffer.set_weight_max(10);
    let large = |bytes: usize| {
        let mut spec = AskSpec::new("large", Resources::new());
        spec.tags = Some(Arc::new([("tag".to_owned(), "x".repeat(bytes))].into()));
        Item::Op(Arc::from("x"), Op::Ask(Arc::new(spec)))
    };
    let _ = buffer.put(app("x"), large(40_000), SECOND);
    assert!(buffer.has_room(5) && !buffer.has_room(6), "40,000 bytes and what is beside them");
    let _ = buffer.put(app("x"), large(10), SECOND);
    assert!(buffer.has_room(4) && !buffer.has_room(5));
    buffer.came(&app("x"));
    assert!(buffer.has_room(10) && !buffer.has_room(11));
}

#[test]
fn nothing_waits_for_what_is_gone_until_it_comes_again() {
    let mut buffer = buffer();
    let _ = buffer.put(app("x"), ask("x", "a"), SECOND);
    assert_eq!(shown(&buffer.gone(app("x"))), ["a of x"]);
    let node = WaitsFor::Node(Arc::from("x"));
    assert!(!buffer.may_wait(&app("x"), 1) && buffer.may_wait(&app("y"), 1));
    assert!(buffer.may_wait(&node, 1), "a node may have the id of an application");
    assert!(buffer.gone(node.clone()).is_empty());
    assert!(!buffer.may_wait(&node, 1));
    assert!(buffer.came(&app("x")).is_empty());
    assert!(buffer.may_wait(&app("x"), 1) && !buffer.may_wait(&node, 1));
}

#[test]
fn no_more_ids_are_remembered_than_a_bound_and_none_without_a_window() {
    let mut buffer = buffer();
    for n in 0..=GONE_MAX {
        buffer.gone(app(&n.to_string()));
    }
    assert_eq!((buffer.gone.len(), buffer.gone_order.len()), (GONE_MAX, GONE_MAX));
    assert!(buffer.may_wait(&app("0"), 1) && !buffer.may_wait(&app("1"), 1));
    let mut unused = ReorderBuffer::new(Duration::ZERO);
    unused.gone(app("x"));
    assert!(unused.gone.is_empty());
}

#[test]
fn everything_comes_out_at_once_in_order_of_what_is_waited_for() {
    let mut buffer = buffer();
    let _ = buffer.put(WaitsFor::Node(Arc::from("n2")), ask("y", "b"), SECOND);
    let _ = buffer.put(app("x"), node("n1", &[]), SECOND);
    let _ = buffer.put(app("x"), ask("x", "a"), SECOND);
    let all = buffer.take_all();
    assert_eq!(all[2].awaited, WaitsFor::Node(Arc::from("n2")));
    assert_eq!(shown(&all), ["node n1", "a of x", "b of y"]);
    assert!(is_clear(&buffer));
}

#[test]
fn a_window_beyond_all_time_ends_at_the_end_of_time() {
    assert_eq!(ReorderBuffer::new(Duration::MAX).until_ns(SECOND), i64::MAX);
}

#[test]
fn a_node_that_leaves_takes_what_waits_for_it_along_and_nothing_else() {
    let mut buffer = buffer();
    let n1 = Arc::from("n1");
    let _ = buffer.put(app("x"), node("n1", &[]), SECOND);
    let _ = buffer.put(app("x"), ask("x", "a"), SECOND);
    let _ = buffer.put(app("x"), change("n1"), SECOND);
    assert_eq!(buffer.awaited_by_node(&n1), Some(app("x")));
    assert_eq!(shown(&buffer.take_node(&n1)), ["node n1", "change of n1"]);
    assert_eq!(buffer.awaited_by_node(&n1), None);
    assert_eq!(buffer.items.len(), 1);
}

#[test]
fn a_release_makes_what_it_takes_back_wait_no_more() {
    let mut buffer = buffer();
    let x = Arc::from("x");
    let _ = buffer.put(app("x"), unified("x", "key"), SECOND);
    assert!(!buffer.release(&Arc::from("y"), &stop(by_key("key"))).any, "another application");
    assert!(!buffer.release(&x, &stop(by_key("other"))).any);
    let taken = buffer.release(&x, &stop(by_key("key")));
    assert!(taken.any && taken.existing.is_empty() && taken.freed.is_empty());
    assert!(is_clear(&buffer));
}

#[test]
fn what_runs_is_handed_out_once_by_the_release_that_names_it() {
    let mut buffer = buffer();
    let x = Arc::from("x");
    for (key, uuid) in [("k1", "u1"), ("k1", "u1"), ("k1", "u2"), ("k2", "u3")] {
        let _ = buffer.put(app("x"), existing("x", key, uuid), SECOND);
    }
    let uuids = |taken: ReleasedItems| -> Vec<String> {
        taken.existing.iter().map(|it| it.uuid.to_string()).collect()
    };
    assert_eq!(uuids(buffer.release(&x, &stop(by_uuid("u3")))), ["u3"]);
    assert_eq!(uuids(buffer.release(&x, &stop(by_key("k1")))), ["u1", "u2"]);
    assert!(is_clear(&buffer));
}

#[test]
fn each_release_takes_what_it_would_end_or_withdraw() {
    let withdrawal = |key: &str| Op::WithdrawAsks(Some(Arc::from(key)));
    let all = || Which::All;
    for (op, taken) in [
        (withdrawal("k"), vec!["ask", "unified"]),
        (withdrawal("u"), vec![]),
        (Op::WithdrawAsks(None), vec!["ask", "unified"]),
        (stop(by_key("k")), vec!["ask", "unified", "existing"]),
        (stop(by_uuid("k")), vec!["unified"]),
        (stop(by_uuid("u")), vec!["existing"]),
        (stop(all()), vec!["unified", "existing"]),
        (release(by_key("k"), Cause::ConfirmedReplacement), vec!["ask", "unified", "existing"]),
        (release(by_key("k"), Cause::ConfirmedTimeout), vec!["existing"]),
        (release(all(), Cause::ConfirmedTimeout), vec!["existing"]),
        (release(by_key("k"), Cause::SchedulingFailed), vec![]),
        (Op::Remove, vec![]),
    ] {
        let mut buffer = buffer();
        let items = [
            ("ask", ask("x", "k")),
            ("unified", unified("x", "k")),
            ("existing", existing("x", "k", "u")),
        ];
        for (_, item) in &items {
            let _ = buffer.put(app("x"), item.clone(), SECOND);
        }
        let _ = buffer.release(&Arc::from("x"), &op);
        let left = shown(&buffer.take_all());
        // Two of these items are printed alike, but asks come first.
        let expected = items.iter().filter(|(name, _)| !taken.contains(name));
        let expected: Vec<String> = expected.map(|(_, item)| show(item)).collect();
        assert_eq!(left, expected, "{op:?}");
    }
}

#[test]
fn a_release_takes_what_a_waiting_node_brings_and_the_node_that_waits_for_nothing_else() {
    let mut buffer = buffer();
    let brings = [("x", "k1", "u1"), ("y", "k2", "u2"), ("x", "k3", "u3")];
    let _ = buffer.put(app("x"), node("n1", &brings), SECOND);
    let _ = buffer.put(app("x"), change("n1"), SECOND);
    let taken = buffer.release(&Arc::from("y"), &stop(by_key("k2")));
    assert_eq!((taken.existing.len(), taken.freed.len()), (1, 0), "it waits for another");
    assert!(!buffer.release(&Arc::from("y"), &stop(by_key("k2"))).any, "once");
    let taken = buffer.release(&Arc::from("x"), &stop(by_uuid("u1")));
    assert_eq!((taken.existing.len(), taken.freed.len()), (1, 0), "one is left");
    let taken = buffer.release(&Arc::from("x"), &stop(Which::All));
    assert_eq!(shown(&taken.freed), ["node n1", "change of n1"], "without what was released");
    assert!(is_clear(&buffer));
}
