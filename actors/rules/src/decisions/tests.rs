use proptest::prelude::*;

use super::*;
use crate::decide::preemption::Choice;
use crate::nodes::{NodeIndex, NodeOrder, PassedFor};
use crate::order::keys::{SiblingOrder, Verdict};
use crate::values::resources::Resources;

fn told<'a>(key: &'a str, node: &'a str, at_ns: i64) -> Told<'a> {
    Told { at_ns, ruled: Ruled::FirstNode, key, pod: None, node }
}

/// Notes the levels above an application of a leaf two levels deep.
fn begin(decisions: &mut Decisions, application: &str) {
    let way = decisions.begin().unwrap();
    way.is_of("root.p.leaf", application);
    way.level(
        4,
        SiblingOrder::QueuesByPriority,
        Verdict::Priority { first: 9, second: 1 },
        Some("q"),
    );
    way.figures_are(true, false);
    way.level(6, SiblingOrder::Queues, Verdict::Alone, None);
    way.level(11, SiblingOrder::Fifo, Verdict::Name { is_first: true }, Some("app-2"));
}

#[test]
fn a_decision_reads_as_it_was_made() {
    let mut decisions = Decisions::new(10);
    let mut nodes = NodeIndex::new(NodeOrder::default());
    let one = Resources::of(&[("vcore", 1)]);
    let full = nodes.insert("full".into(), one.clone(), Resources::new(), true).unwrap();
    let search = decisions.search().unwrap();
    search.tried = 2;
    search.passed.note(PassedFor::Room, full);
    search.passed.note(PassedFor::Refused, full);
    begin(&mut decisions, "app-1");
    decisions.searched(|slot| &**nodes.id(slot));
    decisions.keep(&told("k", "n", 7));
    let shown = decisions.get(1).unwrap().shown();
    let of = |queue: &str, order, chosen: &str, runner_up: Option<&str>, rule: &str| ShownLevel {
        queue: queue.into(),
        order,
        chosen: chosen.into(),
        runner_up: runner_up.map(Into::into),
        runner_up_pod: "".into(),
        rule: rule.into(),
    };
    let passed = |reason, nodes| ShownPassed { reason, nodes, example: Some("full".into()) };
    assert_eq!(
        shown,
        ShownDecision {
            number: 1,
            at_ns: 7,
            decided_ns: None,
            kind: DecisionKind::Allocation,
            ruled: "placed on the first node that fits".into(),
            application: "app-1".into(),
            key: "k".into(),
            pod: "".into(),
            queue: "root.p.leaf".into(),
            node: "n".into(),
            levels: vec![
                of(
                    "root",
                    "priority, fair",
                    "root.p",
                    Some("root.q"),
                    "its priority 9 is higher than 1 (that of its fence)"
                ),
                of("root.p", "fair, priority", "root.p.leaf", None, "no rival"),
                of(
                    "root.p.leaf",
                    "fifo, priority",
                    "app-1",
                    Some("app-2"),
                    "nothing tells them apart but the name, which comes first in the alphabet"
                ),
            ],
            tried: 2,
            passed: vec![passed("not enough room", 1), passed("refused by the predicate", 1)],
            preempted_for: String::new(),
        }
    );
}

#[test]
fn an_eviction_says_for_whom_and_who_would_have_been_next() {
    let mut decisions = Decisions::new(10);
    let way = decisions.begin().unwrap();
    way.is_of("root.a", "loser");
    way.victim(Choice::Priority { first: 1, second: 5 }, Some(("other", Some("lab/other"))));
    let grounds = Grounds::Quota { queue: "root.a".into() };
    decisions.keep_eviction(&grounds, &Told { ruled: Ruled::Quota, ..told("gone", "n", 7) });
    let shown = decisions.get(1).unwrap().shown();
    assert_eq!(
        (shown.kind, &*shown.preempted_for),
        (DecisionKind::Eviction, &*grounds.to_string())
    );
    let [level] = &shown.levels[..] else { panic!("{shown:?}") };
    assert_eq!((&*level.queue, &*level.chosen, level.order), ("root.a", "gone", "preemption"));
    assert_eq!(level.runner_up.as_deref(), Some("other"));
    assert_eq!(&*level.runner_up_pod, "lab/other");
    assert_eq!(level.rule, "its priority 1 is lower than 5");
    // The preemptor of one decision is not recorded for the next.
    decisions.keep(&told("k", "n", 8));
    assert_eq!(decisions.get(2).unwrap().shown().preempted_for, "");
}

#[test]
fn what_is_told_later_has_its_number_from_then_and_its_way_from_before() {
    let mut decisions = Decisions::new(10);
    let id = AllocationId::numbered;
    let of = ("root.p.leaf", "app");
    begin(&mut decisions, "early");
    decisions.put_aside(Later::Allocation(id(1)), 5, |_| true);
    begin(&mut decisions, "late");
    decisions.is_about(id(2));
    decisions.keep_allocation(id(2), of, &told("l", "n", 6));
    decisions.keep_allocation(id(1), of, &told("e", "m", 9));
    decisions.keep_allocation(id(3), of, &told("u", "m", 9));
    let shown: Vec<_> = (1..=3).map(|number| decisions.get(number).unwrap().shown()).collect();
    let of = |at: usize| (&*shown[at].application, shown[at].decided_ns, shown[at].levels.len());
    assert_eq!((of(0), of(1)), (("late", None, 3), ("early", Some(5), 3)));
    assert_eq!(of(2), ("app", None, 0), "nothing is known of how it was decided");
    assert!(!decisions.keep_aside(Later::Allocation(id(1)), &told("e", "m", 9)), "once");
}

#[test]
fn what_is_put_aside_for_nothing_is_forgotten() {
    let mut decisions = Decisions::new(10);
    let the_one = Later::Claim(0);
    for number in 0..10_000 {
        begin(&mut decisions, "app");
        decisions.put_aside(Later::Claim(number), 5, |what| what == the_one);
    }
    assert!(decisions.aside.len() <= 4 * ASIDE_LEAST, "{}", decisions.aside.len());
    assert!(decisions.keep_aside(the_one, &told("k", "n", 9)), "that one is there");
}

#[test]
fn nothing_is_noted_where_nothing_is_kept() {
    let mut decisions = Decisions::new(0);
    assert!(decisions.begin().is_none() && decisions.search().is_none());
    assert_eq!((decisions.len(), decisions.bytes()), (0, 0));
    assert!(decisions.get(0).is_none() && decisions.get(1).is_none());
}

#[test]
fn names_of_any_length_harm_nobody() {
    let mut decisions = Decisions::new(1);
    let long = "x".repeat(100_000);
    begin(&mut decisions, "app");
    decisions.keep(&told(&long, "n", 1));
    let shown = decisions.get(1).unwrap().shown();
    assert_eq!((&*shown.key, &*shown.node, shown.levels.len()), ("", "n", 3));
}

proptest! {
    #[test]
    fn the_last_ones_are_kept_and_memory_stays_what_it_was(
        most in 1..20_usize,
        lengths in prop::collection::vec((0..3_000_usize, 1..20_usize), 1..80),
    ) {
        let mut decisions = Decisions::new(most);
        let bytes = decisions.bytes();
        for ((length, levels), nth) in lengths.iter().zip(0_i64..) {
            let way = decisions.begin().unwrap();
            way.is_of("root.a", &format!("app-{nth}"));
            for _ in 0..*levels {
                way.level(4, SiblingOrder::Queues, Verdict::Alone, Some("b"));
            }
            decisions.keep(&told(&"k".repeat(*length), "n", nth));
            prop_assert_eq!(decisions.last(), nth.cast_unsigned() + 1);
            let there: Vec<u64> =
                (0..=decisions.last() + 1).filter(|number| decisions.get(*number).is_some()).collect();
            prop_assert_eq!(there.last(), Some(&decisions.last()), "the last one is always there");
            prop_assert!(there.len() <= most);
            prop_assert_eq!(there.len(), decisions.len());
            for number in there {
                let kept = decisions.get(number).unwrap();
                let (length, levels) = lengths[usize::try_from(number).unwrap() - 1];
                prop_assert_eq!(kept.application(), format!("app-{}", number - 1));
                prop_assert_eq!((kept.key().len(), kept.shown().levels.len()), (length, levels));
            }
        }
        prop_assert_eq!(decisions.bytes(), bytes);
    }
}
