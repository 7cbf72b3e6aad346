//! Tests that obstacles are found exactly if an attempt would not place, and that the amounts that
//! they name as missing are sufficient.

use proptest::prelude::*;

use super::*;
use crate::books::Books;
use crate::decide::attempt::{Attempt, Next, next};
use crate::limits::Tables;
use crate::nodes::{Exclusion, Fits, NodeFits, NodeOrder};
use crate::queues::{LimitConfig, QueueConfig};
use crate::specs::ask::AskSpec;
use crate::values::epoch::Loosening;
use crate::values::ids::ApplicationSlot;
use crate::waiting::View;

fn amount(vcore: i64, memory: i64) -> Resources {
    let mut amount = Resources::of(&[("vcore", vcore), ("memory", memory)]);
    amount.prune();
    amount
}

fn room<'a>(
    queue: &'a Arc<str>,
    max: Option<&'a Limits>,
    used: &'a Resources,
    (running, most_running): (u64, u64),
) -> QueueRoom<'a> {
    QueueRoom { queue, is_stopped: false, max, used, running, most_running }
}

#[test]
fn a_queue_says_what_of_it_is_in_the_way_and_a_queue_with_room_says_nothing() {
    let (queue, used, wanted) = (Arc::from("root.a"), amount(3, 9), amount(2, 1));
    let max = Limits::of(&[("vcore", 4)]);
    let full = QueueRoom { is_stopped: true, ..room(&queue, Some(&max), &used, (5, 4)) };
    let causes = |found: Vec<Why>| found.iter().map(Why::cause).collect::<Vec<_>>();
    let all = [Cause::Stopped, Cause::NotRunnable, Cause::QueueQuota];
    assert_eq!(causes(full.obstacles(&wanted, true)), all);
    assert_eq!(causes(full.obstacles(&wanted, false)), [Cause::Stopped, Cause::QueueQuota]);
    assert_eq!(causes(full.obstacles(&Resources::new(), false)), [Cause::Stopped]);
    let wide = room(&queue, None, &used, (5, 0));
    assert_eq!(wide.obstacles(&wanted, true), []);
    let over = full.over(&wanted).unwrap();
    let vcores = |n| Resources::of(&[("vcore", n)]);
    assert_eq!((over.short(), over.have(), over.want()), (vcores(1), vcores(1), vcores(2)));
}

#[test]
fn every_limit_of_user_and_group_is_looked_at_and_the_outermost_queue_comes_first() {
    let limit = |users: &[&str], groups: &[&str], vcore, max_applications| {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let max_resources = Some(Limits::of(&[("vcore", vcore)]));
        let (users, groups) = (names(users), names(groups));
        LimitConfig { users, groups, max_resources, max_applications, ..LimitConfig::default() }
    };
    let mut root = QueueConfig::bare("root", false);
    root.limits.push(limit(&["ann"], &[], 4, 1));
    root.children.push(QueueConfig::bare("root.a", true));
    root.children[0].limits.push(limit(&[], &["dev"], 3, 0));
    let mut trackers = Trackers::default();
    trackers.reload(&Arc::new(Tables::of(&root)), Loosening::NONE);
    let [ann, app, leaf]: [Arc<str>; 3] = ["ann", "app", "root.a"].map(Arc::from);
    let groups = ["dev".to_owned()];
    let lane = trackers.join(&ann, &groups, &app, &leaf).lane;
    trackers.charge(lane, &amount(2, 0), Loosening::NONE);
    trackers.start(lane, &app);
    let shown = |wanted: i64, starts| {
        let mut found = limits(&trackers, lane, &amount(wanted, 0), starts);
        found.extend(
            room(&leaf, Some(&Limits::of(&[("vcore", 0)])), &amount(0, 0), (0, 0))
                .over(&amount(1, 0)),
        );
        in_order(&mut found);
        let text = |why: &Why| format!("{} {}", why.cause().text(), why.object().unwrap());
        found.iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(shown(1, false), ["queueQuota root.a"]);
    assert_eq!(shown(2, false), ["queueQuota root.a", "userQuota dev"]);
    let all = ["notRunnable ann", "userQuota ann", "queueQuota root.a", "userQuota dev"];
    assert_eq!(shown(3, true), all);
}

#[test]
fn an_excluded_node_with_room_is_a_refusal_until_its_time_is_over() {
    let mut books = Books::new(NodeOrder::default());
    books.nodes.insert(Arc::from("n1"), amount(4, 4), amount(4, 4), true).unwrap();
    books.nodes.insert(Arc::from("n2"), amount(4, 4), amount(0, 0), true).unwrap();
    let mut asks = Asks::new();
    let (slot, _) = asks.put(AskSpec::new("a", amount(2, 1)), 0, 1);
    asks.exclude(slot, Exclusion { node: Arc::from("n1"), until_ns: 7 });
    let ask = asks.ask(slot);
    let lacks = books.nodes.lacks(&request(ask), &Fits::Unknown);
    let why = nodes(&books, ask, &WaitSet::Due, &lacks, &Fits::Unknown).unwrap();
    assert_eq!(why.cause(), Cause::Predicates);
    assert_eq!(cure(&[why]), [Change::Time { at_ns: Some(7) }]);
    let excluded = books.nodes.slot_of("n1").unwrap();
    books.nodes.update(excluded, None, &amount(1, 4));
    let lacks = books.nodes.lacks(&request(ask), &Fits::Unknown);
    let why = nodes(&books, ask, &WaitSet::Due, &lacks, &Fits::Unknown).unwrap();
    assert_eq!((why.cause(), &**why.object().unwrap()), (Cause::NoNode, "n2"));
}

/// Four nodes: `a` in its own pool, full or not; `b` and `c` empty; `t` small.
fn pools(free_on_a: i64) -> Books {
    let mut books = Books::new(NodeOrder::default());
    for (id, total, free) in [("a", 4, free_on_a), ("b", 4, 4), ("c", 4, 4), ("t", 1, 1)] {
        books.nodes.insert(Arc::from(id), amount(total, 4), amount(free, 4), true).unwrap();
    }
    books
}

/// Returns the obstacle of an ask of two cores in the pools, if these nodes themselves refuse it.
fn why_in_pools(free_on_a: i64, refusing: &[(&str, &str)]) -> Option<(Why, String)> {
    let books = pools(free_on_a);
    let mut asks = Asks::new();
    let (slot, _) = asks.put(AskSpec::new("k", amount(2, 1)), 0, 1);
    let ask = asks.ask(slot);
    let fits = Fits::Known(Arc::new(refusing.iter().copied().collect::<NodeFits>()));
    let lacks = books.nodes.lacks(&request(ask), &fits);
    let why = nodes(&books, ask, &WaitSet::Due, &lacks, &fits)?;
    let text = format!(
        "{}; {}",
        why.sentence(Some("this ask")),
        sentence(&cure(std::slice::from_ref(&why)))
    );
    Some((why, text))
}

#[test]
fn of_several_pools_the_one_counts_that_an_ask_may_use() {
    let others = [("b", "no match"), ("c", "no match"), ("t", "tainted")];
    let (why, text) = why_in_pools(1, &others).unwrap();
    assert_eq!((why.cause(), why.object().map(|node| &**node)), (Cause::NoNode, Some("a")));
    assert_eq!(
        text,
        "no node that it may use has room (4 nodes: 1 lacks cores, `no match` on 2, `tainted` on 1); \
         0.001 cores more on a, which comes nearest, would let this ask run; free 0.001 \
         cores on node a"
    );
    assert_eq!(why_in_pools(2, &others), None, "it has room where it may run");
}

#[test]
fn a_node_that_only_drains_is_opened() {
    let mut books = Books::new(NodeOrder::default());
    let slots = ["a", "b", "c"]
        .map(|id| books.nodes.insert(Arc::from(id), amount(4, 4), amount(4, 4), false).unwrap());
    // Node `a` is not ready.
    books.nodes.note_drained(slots[1], true);
    books.nodes.note_drained(slots[2], true);
    let mut asks = Asks::new();
    let (slot, _) = asks.put(AskSpec::new("k", amount(2, 1)), 0, 1);
    let ask = asks.ask(slot);
    let why = |books: &Books| {
        let lacks = books.nodes.lacks(&request(ask), &Fits::Unknown);
        nodes(books, ask, &WaitSet::Due, &lacks, &Fits::Unknown).unwrap()
    };
    let drained = why(&books);
    assert_eq!(drained.object().map(|node| &**node), Some("b"));
    assert_eq!(cure(&[drained]), [Change::OpenNode { node: Arc::from("b") }]);
    for slot in slots {
        books.nodes.note_drained(slot, false);
    }
    assert!(matches!(&cure(&[why(&books)])[..], [Change::Node { node: None, .. }]));
}

#[test]
fn where_an_ask_may_use_no_node_time_is_no_cure() {
    let all = [("a", "no match"), ("b", "no match"), ("c", "no match"), ("t", "tainted")];
    let (why, text) = why_in_pools(4, &all).unwrap();
    assert_eq!((why.cause(), why.object()), (Cause::Predicates, None));
    assert_eq!(
        text,
        "it may use none of the nodes (4 nodes: `no match` on 3, `tainted` on 1); add a node with at \
         least 0.002 cores and 1 B of memory that it may use: others say `no match` and \
         `tainted`"
    );
    let (why, text) = why_in_pools(4, &all[..3]).unwrap();
    assert_eq!(why.cause(), Cause::NoNode);
    assert!(
        text.starts_with("no node that it may use has room (4 nodes: 1 is too small, "),
        "{text}"
    );
}

fn some_amount(most: i64) -> impl Strategy<Value = Resources> {
    (0..=most, 0..=most).prop_map(|(vcore, memory)| amount(vcore, memory))
}

proptest! {
    #[test]
    fn what_is_short_is_enough_and_no_less_would_do(
        max in some_amount(9),
        limited in any::<[bool; 2]>(),
        used in some_amount(12),
        wanted in some_amount(9),
    ) {
        let kept = max.sorted().into_iter().zip(limited).filter(|(_, is_limited)| *is_limited);
        let kept: Vec<_> = kept.map(|(limit, _)| limit).collect();
        let kept: Vec<(&str, i64)> = kept.iter().map(|(name, most)| (&**name, *most)).collect();
        let limits = Limits::of(&kept);
        let over = Over::of(&limits, &used, &wanted);
        prop_assert_eq!(over.is_none(), limits.less(&used).allows(&wanted));
        if let Some(over) = over {
            let raised = |by: &Resources| {
                let mut raised = limits.as_resources();
                raised.add(by);
                Limits::from(raised)
            };
            prop_assert!(raised(&over.short()).less(&used).allows(&wanted));
            for (name, short) in over.short().entries() {
                prop_assert!(short > 0);
                let mut less = over.short();
                less.set(name, short - 1);
                prop_assert!(!raised(&less).less(&used).allows(&wanted));
            }
        }
    }

    #[test]
    fn there_is_an_obstacle_exactly_where_an_attempt_places_nothing(
        free in prop::collection::vec((some_amount(9), any::<bool>()), 0..6),
        max in some_amount(9),
        used in some_amount(6),
        wanted in some_amount(9),
        required in prop::option::of(0..7_usize),
    ) {
        let mut books = Books::new(NodeOrder::default());
        for (at, (free, open)) in free.iter().enumerate() {
            let id = Arc::from(format!("n{at}"));
            books.nodes.insert(id, amount(6, 9), free.clone(), *open).unwrap();
        }
        let required_node = required.map(|at| Arc::from(format!("n{at}")));
        let mut asks = Asks::new();
        let spec = AskSpec::new("a", wanted.clone()).with(|it| it.required_node = required_node);
        let (slot, _) = asks.put(spec, 0, 1);
        let (queue, max) = (Arc::from("root.a"), Limits::from(max));
        let mut obstacles = room(&queue, Some(&max), &used, (0, 0)).obstacles(&wanted, true);
        let lacks = books.nodes.lacks(&request(asks.ask(slot)), &Fits::Unknown);
        obstacles.extend(nodes(&books, asks.ask(slot), &WaitSet::Due, &lacks, &Fits::Unknown));
        let headroom = max.less(&used);
        let (loosening, nodes) = (Loosening::NONE, Some(&books.nodes));
        let view = View { headroom: &headroom, loosening, may_start: true, nodes, limits: None, queues: None };
        let attempt = Attempt {
            owed: &[],
            application: ApplicationSlot::at(0),
            leaf: 0,
            beside_nominations: None,
            asks: &asks,
            gang: None,
            view: &view,
            lane: None,
            books: &books,
            backoff_asks: 0,
            asks_later: false,
        };
        let is_placed = matches!(next(&attempt), Next::Place(_));
        prop_assert_eq!(obstacles.is_empty(), is_placed, "{:?}", obstacles);
        for why in &obstacles {
            // The shortage is the requested amount less the available one.
            prop_assert_eq!(why.want().minus(&why.have()).pruned(), why.short().pruned());
            prop_assert!(!why.sentence(Some("this ask")).is_empty());
        }
    }
}
