//! Tests void answers against a log of all changes, and the continuation of a search. The engine
//! keeps only counters, so the log shows whether a counter could miss a change.

use proptest::prelude::*;

use super::*;
use crate::allocations::{Allocation, AllocationTable};
use crate::asks::{SearchEnd, Try};
use crate::nodes::NodeOrder;
use crate::specs::ask::AskSpec;
use crate::values::again::written_and_read;
use crate::values::resources::Resources;

const NODES: usize = 3;

fn vcore(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity)])
}

fn index(nodes: usize) -> (NodeIndex, Vec<NodeSlot>) {
    let mut index = NodeIndex::new(NodeOrder::default());
    let slots = (0..nodes).map(|number| {
        index.insert(Arc::from(format!("n{number:04}")), vcore(4), vcore(4), true).unwrap()
    });
    let slots = slots.collect();
    (index, slots)
}

/// Returns an arbitrary application and placement.
fn placement(node: NodeSlot) -> (ApplicationSlot, AllocationId) {
    let application = ApplicationSlot::at(0);
    let spec = Arc::new(AskSpec::new("k", Resources::new()));
    let placement = Allocation::new(application, spec, node, 0, 0);
    (application, AllocationTable::new().insert(placement))
}

#[derive(Clone, Debug)]
enum Event {
    /// A question is asked.
    Ask,
    /// A placement or release on a node, which affects these topics, or all nodes.
    Change(usize, Option<Vec<u64>>),
    /// An open question is answered, in any order, with this scope and for this node.
    Answer(prop::sample::Index, Scope, usize),
    /// Topics that no open question needs are dropped.
    Drop,
    WriteAndRead,
}

fn topics() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0_u64..4, 0..3)
}

fn happening() -> impl Strategy<Value = Event> {
    let elsewhere = (topics(), topics())
        .prop_map(|(depends_on, affects)| Arc::new(Elsewhere { depends_on, affects }));
    let scope = prop_oneof![
        Just(Scope::Topology),
        Just(Scope::Node),
        Just(Scope::Static),
        elsewhere.prop_map(Scope::Elsewhere),
    ];
    prop_oneof![
        4 => Just(Event::Ask),
        3 => (0..NODES, prop::option::weighted(0.8, topics()))
            .prop_map(|(node, affects)| Event::Change(node, affects)),
        4 => (any::<prop::sample::Index>(), scope, 0..NODES)
            .prop_map(|(which, scope, node)| Event::Answer(which, scope, node)),
        1 => Just(Event::Drop),
        1 => Just(Event::WriteAndRead),
    ]
}

/// Whether an answer of this scope about this node depends on a change, by the plain definition.
fn depends_on(
    scope: &Scope,
    node: usize,
    (where_it_was, affects): &(usize, Option<Vec<u64>>),
) -> bool {
    match scope {
        Scope::Topology => true,
        Scope::Elsewhere(elsewhere) => match affects {
            None => true,
            Some(affects) => {
                *where_it_was == node
                    || affects.iter().any(|topic| elsewhere.depends_on.contains(topic))
            }
        },
        Scope::Node => *where_it_was == node,
        Scope::Static => false,
    }
}

proptest! {
    #[test]
    fn an_answer_is_void_exactly_if_what_it_rests_on_changed_since_the_question(
        history in prop::collection::vec(happening(), 1..80),
    ) {
        let (_, nodes) = index(NODES);
        let mut unsettled = Unsettled::default();
        // The changes: the node of each, and the topics that it affects.
        let mut log: Vec<(usize, Option<Vec<u64>>)> = Vec::new();
        let mut asked: BTreeMap<u64, usize> = BTreeMap::new();
        for happening in history {
            match happening {
                Event::Ask => {
                    let number =
                        unsettled.ask(placement(nodes[0]), Vec::new(), false, Growth::NONE);
                    prop_assert!(asked.insert(number, log.len()).is_none(), "never given twice");
                }
                Event::Change(node, affects) => {
                    let elsewhere = affects.clone()
                        .map(|affects| Elsewhere { affects, depends_on: vec![] });
                    unsettled.changed_by(nodes[node], elsewhere.as_ref());
                    log.push((node, affects));
                }
                Event::Answer(which, scope, node) => {
                    if asked.is_empty() { continue }
                    // An answer may be late, so it need not be about the oldest question.
                    let number = *asked.keys().nth(which.index(asked.len())).unwrap();
                    let since = asked.remove(&number).unwrap();
                    let question = unsettled.take(number).unwrap();
                    let expected =
                        log[since..].iter().any(|change| depends_on(&scope, node, change));
                    prop_assert_eq!(unsettled.is_void(&question, &scope, nodes[node]), expected);
                    prop_assert!(unsettled.take(number).is_none());
                }
                Event::Drop => {
                    let oldest = asked.values().next().copied().unwrap_or(log.len());
                    unsettled.changes.drop_until(oldest as u64);
                }
                Event::WriteAndRead => unsettled = written_and_read(&unsettled),
            }
        }
    }

    #[test]
    fn the_window_stays_between_one_and_what_was_configured(
        most in 1_usize..100,
        answers in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..5), 0..40),
    ) {
        let mut window = Window::new(most);
        for together in answers {
            let before = window.room(0);
            let any_void = together.contains(&true);
            for void in &together {
                window.answered(*void);
            }
            window.end_of_answers();
            let expected = match (any_void, together.is_empty()) {
                (true, _) => (before / 2).max(1),
                (false, true) => before,
                (false, false) => (before + 1).min(most),
            };
            prop_assert_eq!(window.room(0), expected);
            prop_assert!((1..=most).contains(&expected));
        }
    }

    /// Each node is asked about once, in order, however many candidates a question has.
    #[test]
    fn a_try_asks_every_node_that_fits_once_and_in_order(
        nodes in 1_usize..200,
        widest in 1_usize..70,
        full in prop::collection::btree_set(0_usize..200, 0..50),
    ) {
    let wanted = vcore(1);
    let request = NodeRequest::of(&wanted);
        let (mut index, slots) = index(nodes);
        for at in full.iter().filter(|at| **at < nodes) {
            index.update(slots[*at], None, &vcore(0));
        }
        let fitting: Vec<NodeSlot> =
            index.iter().filter(|slot| index.available(*slot).holds(&vcore(1))).collect();
        let mut trying = Try::new(0, index.growth());
        let mut asked = Vec::new();
        let mut last_width = 0;
        loop {
            let candidates = trying.candidates(&index, &request);
            if candidates.is_empty() {
                break;
            }
            prop_assert!(candidates.len() <= widest.max(1));
            last_width = last_width.max(candidates.len());
            let ids: Vec<_> = candidates.iter().map(|slot| Arc::clone(index.id(*slot))).collect();
            trying.refused_by(&ids, widest);
            asked.extend(candidates);
        }
        prop_assert_eq!(asked, fitting);
        let nothing = Unsettled::default();
        prop_assert_eq!(trying.out_of_candidates(&index, &request, |it| nothing.may_return(&index, it)), SearchEnd::Nothing);
    }
}

#[test]
fn after_a_refusal_a_question_names_16_then_twice_as_many_each_time() {
    let wanted = vcore(1);
    let request = NodeRequest::of(&wanted);
    let (index, _) = index(2_000);
    let mut trying = Try::new(0, index.growth());
    let mut widths = Vec::new();
    loop {
        let candidates = trying.candidates(&index, &request);
        if candidates.is_empty() {
            break;
        }
        widths.push(candidates.len());
        let ids: Vec<_> = candidates.iter().map(|slot| Arc::clone(index.id(*slot))).collect();
        trying.refused_by(&ids, 512);
    }
    assert_eq!(widths, [1, 16, 32, 64, 128, 256, 512, 512, 479]);
}

#[test]
fn several_answers_to_equally_wide_questions_widen_the_next_once() {
    let wanted = vcore(1);
    let request = NodeRequest::of(&wanted);
    let (index, _) = index(100);
    let mut trying = Try::new(0, index.growth());
    let first = [Arc::clone(index.id(index.first(&request).unwrap()))];
    for _ in 0..64 {
        trying.refused_by(&first, 512);
    }
    assert_eq!(trying.candidates(&index, &request).len(), 16);
}

#[test]
fn a_node_that_grew_meanwhile_is_a_reason_to_begin_anew_and_what_came_back_is_not() {
    let wanted = vcore(1);
    let request = NodeRequest::of(&wanted);
    let (mut index, slots) = index(2);
    let unsettled = Unsettled::default();
    let mut trying = Try::new(0, index.growth());
    let ids: Vec<_> = index.by_id().map(|slot| Arc::clone(index.id(slot))).collect();
    trying.refused_by(&ids, 512);
    index.update(slots[0], None, &vcore(3));
    index.take_back(slots[0], &vcore(4));
    assert_eq!(
        trying.out_of_candidates(&index, &request, |it| unsettled.may_return(&index, it)),
        SearchEnd::Nothing
    );
    index.touch(slots[1]);
    assert_eq!(
        trying.out_of_candidates(&index, &request, |it| unsettled.may_return(&index, it)),
        SearchEnd::Anew
    );
}

#[test]
fn a_node_that_was_not_asked_because_it_was_held_is_worth_waiting_for() {
    let wanted = vcore(1);
    let request = NodeRequest::of(&wanted);
    let (mut index, slots) = index(2);
    let mut unsettled = Unsettled::default();
    let held = Arc::clone(index.id(slots[1]));
    index.update(slots[1], None, &vcore(0));
    let number = unsettled.ask(placement(slots[1]), vec![Arc::clone(&held)], false, Growth::NONE);
    let mut trying = Try::new(0, index.growth());
    trying.refused_by(&[Arc::clone(index.id(slots[0]))], 512);
    assert!(trying.candidates(&index, &request).is_empty());
    assert_eq!(
        trying.out_of_candidates(&index, &request, |it| unsettled.may_return(&index, it)),
        SearchEnd::Returns
    );
    trying.refused_by(&[held], 512);
    assert_eq!(
        trying.out_of_candidates(&index, &request, |it| unsettled.may_return(&index, it)),
        SearchEnd::Nothing,
        "it refused, too"
    );
    unsettled.take(number);
    assert!(unsettled.is_empty());
}

/// However many topics there are, and however late an answer is, the table is bounded; an answer in
/// doubt is void.
#[test]
fn topics_are_kept_while_a_question_needs_them_and_never_too_many() {
    let (_, slots) = index(2);
    let mut unsettled = Unsettled::default();
    let on =
        |topic| Scope::Elsewhere(Arc::new(Elsewhere { depends_on: vec![topic], affects: vec![] }));
    let affecting = |topic| Elsewhere { affects: vec![topic], depends_on: vec![] };
    let change = |unsettled: &mut Unsettled, topics: std::ops::Range<u64>| {
        for topic in topics {
            unsettled.changed_by(slots[0], Some(&affecting(topic)));
        }
    };
    // There is no open question, so no topic is needed.
    change(&mut unsettled, 0..10_000);
    assert!(unsettled.changes.n_topics() <= 1_024);
    let number = unsettled.ask(placement(slots[1]), vec![], false, Growth::NONE);
    change(&mut unsettled, 0..10_000);
    assert_eq!(unsettled.changes.n_topics(), 10_000, "all since the question");
    let question = unsettled.get(number).unwrap();
    assert!(unsettled.is_void(question, &on(0), slots[1]));
    assert!(!unsettled.is_void(question, &on(77_777), slots[1]));
    change(&mut unsettled, 10_000..200_000);
    assert!(unsettled.changes.n_topics() < 65_536);
    let question = unsettled.get(number).unwrap();
    assert!(unsettled.is_void(question, &on(0), slots[1]));
    assert!(unsettled.is_void(question, &on(777_777), slots[1]), "not known any more");
    let later = unsettled.ask(placement(slots[1]), vec![], false, Growth::NONE);
    change(&mut unsettled, 0..1);
    let later = unsettled.get(later).unwrap();
    assert!(unsettled.is_void(later, &on(0), slots[1]));
    assert!(!unsettled.is_void(later, &on(1), slots[1]));
}

#[test]
fn no_two_partitions_give_a_number_twice() {
    let numbers = [0, 1, 2].map(|nth| {
        let mut unsettled = Unsettled::default();
        unsettled.number_as(nth);
        let (_, slots) = index(1);
        let question = unsettled.ask(placement(slots[0]), vec![], false, Growth::NONE);
        (question, unsettled.next_bundle(), unsettled.next_bundle())
    });
    let questions: BTreeSet<u64> = numbers.iter().map(|(question, ..)| *question).collect();
    let bundles: BTreeSet<u64> = numbers.iter().flat_map(|(_, one, two)| [*one, *two]).collect();
    assert_eq!((questions.len(), bundles.len()), (3, 6));
    assert!(!bundles.contains(&0), "zero names none");
}
