use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::applications::native::Native;
use crate::nodes::NodeOrder;
use crate::specs::ask::{AskSpec, Form};
use crate::specs::declaration::{Declaration, DeclaredGroup};
use crate::values::again::written_and_read;
use crate::values::ids::ApplicationSlot;
use crate::values::resources::Resources;

fn of(vcore: i64, memory: i64) -> Resources {
    Resources::of(&[("vcore", vcore), ("memory", memory)])
}

/// Places held for members of a declared gang have one size; the place on the fullest node comes
/// last.
#[test]
fn held_places_are_taken_in_the_order_of_their_nodes() {
    let mut world = World::held(&[of(2, 2), of(2, 2), of(2, 2)], 3);
    for (at, free) in [5, 7, 6].into_iter().enumerate() {
        world.books.nodes.update(world.nodes[at], None, &of(free, free));
    }
    let (ask, mut search) = (world.wants("a", 0, of(1, 1)), Search::default());
    assert_eq!(world.next(&mut search), world.in_place(ask, 1));
    world.books.nodes.update(world.nodes[0], None, &of(8, 8));
    assert_eq!(world.next(&mut search), world.in_place(ask, 0), "the order is another one");
    let key = AskKey::new(0, 0, 1);
    for at in [0, 1] {
        search.refused_in_place(key, world.nodes[at]);
    }
    assert_eq!(world.next(&mut search), world.in_place(ask, 2));
    search.refused_in_place(key, world.nodes[2]);
    let NextPair::InPlace(Pair { placeholder, .. }) = world.in_place(ask, 0) else { panic!() };
    assert_eq!(world.next(&mut search), NextPair::Elsewhere(Pair { ask, placeholder }));
}

/// A member does not take the place that it was to take: the place comes before the others again,
/// even if it was taken when they were sorted.
#[test]
fn a_held_place_that_is_free_again_has_its_place_in_the_order() {
    for in_order_before in [true, false] {
        let mut world = World::held(&[of(2, 2), of(2, 2), of(2, 2)], 3);
        let (ask, mut search) = (world.wants("a", 0, of(1, 1)), Search::default());
        let NextPair::InPlace(first) = world.next(&mut search) else { panic!() };
        if !in_order_before {
            search = Search::default();
        }
        world.take(first.placeholder);
        let then = world.next(&mut search);
        assert!(matches!(then, NextPair::InPlace(pair) if pair.ask == ask && pair != first));
        assert_eq!(world.next(&mut search), then);
        world.put_back(first.placeholder, &mut search);
        assert_eq!(world.next(&mut search), NextPair::InPlace(first));
    }
}

#[test]
fn a_search_that_begins_anew_forgets_refusals_and_keeps_the_order() {
    let mut world = World::held(&[of(2, 2), of(2, 2), of(2, 2)], 3);
    let (ask, mut search) = (world.wants("a", 0, of(1, 1)), Search::default());
    let NextPair::InPlace(first) = world.next(&mut search) else { panic!() };
    let node = world.books.allocations.get(first.placeholder).unwrap().node;
    search.refused_in_place(world.key(ask), node);
    search.refused_elsewhere(world.key(ask));
    assert!(search.met_refusals());
    assert_ne!(world.next(&mut search), NextPair::InPlace(first));
    search.begin_again();
    assert!(!search.met_refusals());
    assert_eq!(search.held.len(), 1);
    assert_eq!(world.next(&mut search), NextPair::InPlace(first));
}

/// First the places at the front are sorted, then twice as many, and at last all.
#[test]
fn beyond_as_many_as_are_put_in_order_at_first_the_next_are_found() {
    let mut world = World::held(&vec![of(2, 2); 4 * HOLDS_AT_FIRST], 1);
    let (ask, mut search) = (world.wants("a", 0, of(1, 1)), Search::default());
    let mut in_order = world.nodes.clone();
    in_order.sort_by_key(|node| world.books.nodes.position(*node));
    let place = |world: &World, node: NodeSlot| {
        world.nodes.iter().position(|other| *other == node).unwrap()
    };
    for (at, node) in in_order.iter().enumerate() {
        assert_eq!(world.next(&mut search), world.in_place(ask, place(&world, *node)));
        let kept = search.held.values().next().unwrap().ids.len();
        match at / HOLDS_AT_FIRST {
            0 => assert_eq!(kept, HOLDS_AT_FIRST),
            1 => assert_eq!(kept, 2 * HOLDS_AT_FIRST),
            _ => assert_eq!(kept, 4 * HOLDS_AT_FIRST),
        }
        search.refused_in_place(AskKey::new(0, 0, 1), *node);
    }
    assert!(matches!(world.next(&mut search), NextPair::Elsewhere(_)));
    // Another search, in which all of these nodes have refused before any place is sorted.
    let mut search = Search::default();
    for node in &in_order[..3 * HOLDS_AT_FIRST] {
        search.refused_in_place(AskKey::new(0, 0, 1), *node);
    }
    let next = place(&world, in_order[3 * HOLDS_AT_FIRST]);
    assert_eq!(world.next(&mut search), world.in_place(ask, next));
}

/// A member that requires a node may not use the others; a refusal counts for one member only.
#[test]
fn free_places_are_counted_as_one_member_sees_them() {
    let mut world = World::new(&[of(2, 2), of(2, 2), of(2, 2)]);
    let (ask, other) = (world.wants("a", 0, of(1, 1)), world.wants("b", 0, of(1, 1)));
    let mut search = Search::default();
    let seen = |world: &World, ask: AskSlot, search: &Search| {
        let it = free_places(&world.asks, ask, &world.gang, search, &world.books);
        (it.untried, it.refused, it.forbidden)
    };
    assert_eq!(seen(&world, ask, &search), (3, 0, 0));
    world.refuses(ask, 0, &mut search);
    assert_eq!(seen(&world, ask, &search), (2, 1, 0));
    assert_eq!(seen(&world, other, &search), (3, 0, 0));
    let NextPair::InPlace(pair) = world.next(&mut search) else { panic!() };
    world.take(pair.placeholder);
    assert_eq!(seen(&world, ask, &search), (1, 1, 0));
    world.put_back(pair.placeholder, &mut search);
    let spec = AskSpec::new("c", of(1, 1));
    let (group, node) = (Some(Arc::new("g".to_owned())), Some(Arc::from("n2")));
    let spec = spec.with(|it| (it.task_group, it.required_node) = (group, node));
    let sequence = world.books.arrival();
    let tied = world.asks.put(spec, 0, sequence).0;
    assert_eq!(seen(&world, tied, &search), (1, 0, 2));
}

#[test]
fn no_order_is_kept_of_places_that_are_all_taken() {
    let mut world = World::held(&[of(2, 2)], 1);
    world.wants("a", 0, of(1, 1));
    let mut search = Search::default();
    let NextPair::InPlace(only) = world.next(&mut search) else { panic!() };
    world.take(only.placeholder);
    assert_eq!(world.next(&mut search), NextPair::Nothing);
    assert!(search.held.is_empty());
}

/// A change of held places while members search for them.
#[derive(Clone, Debug)]
enum Step {
    /// Members are about to take the next places.
    Take(usize),
    /// A member takes its place, which ends.
    Arrive(usize),
    /// All members that are about to take places take them.
    ArriveAll,
    /// A member does not take its place.
    Return(usize),
    /// The node of the next place refuses the member.
    Refuse,
    /// This node changes.
    Change(usize, i64),
    BeginAnew,
    WriteAndRead,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..100_usize).prop_map(Step::Take),
        2 => any::<usize>().prop_map(Step::Arrive),
        1 => Just(Step::ArriveAll),
        3 => any::<usize>().prop_map(Step::Return),
        2 => Just(Step::Refuse),
        1 => (any::<usize>(), 3..9_i64).prop_map(|(node, free)| Step::Change(node, free)),
        1 => Just(Step::BeginAnew),
        1 => Just(Step::WriteAndRead),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The kept state of a search does not change its results.
    #[test]
    fn a_search_that_keeps_an_order_finds_what_one_that_does_not_finds(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = World::held(&vec![of(2, 2); 5 * HOLDS_AT_FIRST], 1);
        let ask = world.wants("a", 0, of(1, 1));
        let (mut search, mut on_their_way) = (Search::default(), Vec::new());
        for step in steps {
            let next = world.next(&mut search);
            let afresh = world.next(&mut Search { held: SeededMap::default(), ..search.clone() });
            prop_assert_eq!(next, afresh);
            match step {
                Step::Take(how_many) => {
                    for _ in 0..how_many {
                        let NextPair::InPlace(pair) = world.next(&mut search) else { break };
                        world.take(pair.placeholder);
                        on_their_way.push(pair.placeholder);
                    }
                }
                Step::Arrive(_) | Step::Return(_) if on_their_way.is_empty() => {}
                Step::Arrive(at) => {
                    let place = on_their_way.swap_remove(at % on_their_way.len());
                    world.books.allocations.remove(place);
                }
                Step::ArriveAll => {
                    for place in on_their_way.drain(..) {
                        world.books.allocations.remove(place);
                    }
                }
                Step::Return(at) => {
                    let place = on_their_way.swap_remove(at % on_their_way.len());
                    world.put_back(place, &mut search);
                }
                Step::Refuse => {
                    if let NextPair::InPlace(pair) = next {
                        let node = world.books.allocations.get(pair.placeholder).unwrap().node;
                        search.refused_in_place(world.key(ask), node);
                    }
                }
                Step::Change(node, free) => {
                    let node = world.nodes[node % world.nodes.len()];
                    world.books.nodes.update(node, None, &of(free, free));
                }
                Step::BeginAnew => search.begin_again(),
                Step::WriteAndRead => {
                    (search, world.books) = (written_and_read(&search), written_and_read(&world.books));
                    (world.asks, world.gang) = (written_and_read(&world.asks), written_and_read(&world.gang));
                }
            }
        }
    }
}

/// A member of a task group: its creation time, its size, and the node that it requires. That node
/// may have no place, or may not exist.
fn member() -> impl Strategy<Value = (i64, i64, Option<usize>)> {
    (0..5_i64, 1..4_i64, prop::option::of(0..6_usize))
}

/// Finds what [`next`] finds if every member examines every place.
fn next_of_all(world: &World, search: &mut Search) -> Option<NextPair> {
    let has_free =
        |group: &TaskGroup| world.gang.group(group).is_some_and(|it| !it.free.is_empty());
    while let Some((key, ask)) = world.asks.next_member(search.passed.as_ref(), has_free) {
        let places = free(&world.asks, ask, &world.gang, &world.books);
        let found = first_usable(places, (&key, ask), &search.refused, &world.asks, &world.books);
        if found.is_some() {
            return found;
        }
        search.passed = Some(key);
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The kept facts about equal members and places do not change the results.
    #[test]
    fn members_that_are_passed_over_would_find_no_place(
        places in prop::collection::vec(1..4_i64, 1..6),
        members in prop::collection::vec(member(), 1..12),
        refusals in prop::collection::vec((any::<prop::sample::Index>(), 0..5_usize), 0..8),
    ) {
        let sizes: Vec<_> = places.iter().map(|size| of(*size, 4 - size)).collect();
        let mut world = World::new(&sizes);
        let mut asked = Vec::new();
        for (at, (created, size, node)) in members.into_iter().enumerate() {
            let node = node.map(|at| Arc::from(format!("n{at}")));
            let group = Some(Arc::new("g".to_owned()));
            let spec = AskSpec::new(format!("m{at}"), of(size, 1));
            let spec = spec.with(|it| (it.task_group, it.required_node) = (group, node));
            let sequence = world.books.arrival();
            asked.push(world.asks.put(spec, created, sequence).0);
        }
        let mut search = Search::default();
        for (member, node) in refusals {
            if node < world.nodes.len() {
                world.refuses(*member.get(&asked), node, &mut search);
            }
        }
        let mut slow = search.clone();
        loop {
            let expected = next_of_all(&world, &mut slow);
            let found = world.next(&mut search);
            match expected {
                Some(expected) => prop_assert_eq!(found, expected),
                None => prop_assert!(matches!(found, NextPair::Nothing | NextPair::Elsewhere(_))),
            }
            prop_assert_eq!(search.passed, slow.passed);
            match found {
                // A place that is too small ends; a place that is taken is not free any more.
                NextPair::TooSmall(pair) | NextPair::InPlace(pair) => world.take(pair.placeholder),
                NextPair::Nothing | NextPair::Elsewhere(_) => break,
            }
        }
    }
}

/// The first place is refused, and the members take the places behind it one after the other: ended
/// places are not skipped again for each member.
#[test]
fn places_that_are_gone_are_taken_out_of_the_order() {
    let mut world = World::held(&vec![of(2, 2); 4 * HOLDS_AT_FIRST], 1);
    let (ask, mut search) = (world.wants("a", 0, of(1, 1)), Search::default());
    let group = "g".to_owned();
    let NextPair::InPlace(first) = world.next(&mut search) else { panic!() };
    let node = world.books.allocations.get(first.placeholder).unwrap().node;
    search.refused_in_place(world.key(ask), node);
    for _ in 1..4 * HOLDS_AT_FIRST {
        let NextPair::InPlace(pair) = world.next(&mut search) else { panic!() };
        world.take(pair.placeholder);
        world.books.allocations.remove(pair.placeholder);
        let held = &search.held[&group];
        let gone = |id: &&AllocationId| world.books.allocations.get(**id).is_none();
        assert!(held.ids.iter().filter(gone).count() <= GONE_AT_MOST + 2);
    }
    assert!(matches!(world.next(&mut search), NextPair::Elsewhere(_)));
}

/// An application with placeholders on nodes `n1`, `n2` and so on, one on each.
struct World {
    asks: Asks,
    gang: Gang,
    books: Books,
    nodes: Vec<NodeSlot>,
}

impl World {
    fn new(sizes: &[Resources]) -> Self {
        Self::with(sizes, Form::Ask)
    }

    fn with(sizes: &[Resources], form: Form) -> Self {
        let mut books = Books::new(NodeOrder::default());
        let (mut gang, mut nodes) = (Gang::default(), Vec::new());
        let group = Arc::new("g".to_owned());
        for (at, size) in sizes.iter().enumerate() {
            let id: Arc<str> = Arc::from(format!("n{}", at + 1));
            let node = books.nodes.insert(id, of(9, 9), Resources::new(), true).unwrap();
            let spec = AskSpec {
                placeholder: true,
                form,
                ..AskSpec::new(format!("p{}", at + 1), size.clone())
            };
            let spec = spec.with(|it| it.task_group = Some(Arc::clone(&group)));
            let (spec, created) = (Arc::new(spec), 10 - i64::try_from(at).unwrap());
            let entry = Allocation::new(ApplicationSlot::at(0), spec, node, created, 0);
            let id = books.allocations.insert(entry);
            gang.add(&group, size, 1);
            gang.put_free(&group, id, books.allocations.get(id).unwrap());
            nodes.push(node);
        }
        Self { asks: Asks::new(), gang, books, nodes }
    }

    /// Builds the application with a declared gang of this many members, whose places are held.
    fn held(sizes: &[Resources], members: i64) -> Self {
        let mut world = Self::with(sizes, Form::Internal);
        let declared = DeclaredGroup::new("g", members, Some(of(2, 2)));
        let declaration = Declaration::new(vec![declared]).unwrap();
        world.gang.native = Some(Box::new(Native::new(&declaration)));
        world
    }

    fn wants(&mut self, key: &str, priority: i32, size: Resources) -> AskSlot {
        let group = Some(Arc::new("g".to_owned()));
        let spec = AskSpec { priority, ..AskSpec::new(key, size) };
        let spec = spec.with(|it| it.task_group = group);
        let sequence = self.books.arrival();
        self.asks.put(spec, 0, sequence).0
    }

    /// Has a member about to take this place.
    fn take(&mut self, place: AllocationId) {
        let entry = self.books.allocations.get(place).unwrap();
        self.gang.take_free(&"g".to_owned(), place, entry);
    }

    /// Makes the place free again: the member does not take it.
    fn put_back(&mut self, place: AllocationId, search: &mut Search) {
        let group = Arc::new("g".to_owned());
        self.gang.put_free(&group, place, self.books.allocations.get(place).unwrap());
        search.freed(&group, place);
    }

    fn next(&self, search: &mut Search) -> NextPair {
        next(&self.asks, &self.gang, search, &self.books)
    }

    fn in_place(&self, ask: AskSlot, at: usize) -> NextPair {
        let of = |(_, entry): &(AllocationId, &Allocation)| entry.node == self.nodes[at];
        let (placeholder, _) = self.books.allocations.iter().find(of).unwrap();
        NextPair::InPlace(Pair { ask, placeholder })
    }

    fn refuses(&self, ask: AskSlot, at: usize, search: &mut Search) {
        search.refused_in_place(self.key(ask), self.nodes[at]);
    }

    fn key(&self, ask: AskSlot) -> AskKey {
        let ask = self.asks.ask(ask);
        AskKey::new(ask.priority, ask.created_ns, ask.sequence)
    }
}

#[test]
fn members_and_placeholders_are_paired_in_their_orders() {
    let mut world = World::new(&[of(2, 2), of(2, 2)]);
    world.wants("later", 0, of(1, 1));
    let urgent = world.wants("urgent", 5, of(2, 2));
    // The placeholder on the second node was created first.
    assert_eq!(world.next(&mut Search::default()), world.in_place(urgent, 1));
}

#[test]
fn a_member_is_tried_with_every_placeholder_before_the_next_member_is() {
    let mut world = World::new(&[of(2, 2), of(2, 2)]);
    let (first, second) = (world.wants("a", 0, of(1, 1)), world.wants("b", 0, of(1, 1)));
    let mut search = Search::default();
    assert_eq!(world.next(&mut search), world.in_place(first, 1));
    world.refuses(first, 1, &mut search);
    assert_eq!(world.next(&mut search), world.in_place(first, 0));
    world.refuses(first, 0, &mut search);
    assert_eq!(world.next(&mut search), world.in_place(second, 1), "asked anew for another member");
    for at in [1, 0] {
        world.refuses(second, at, &mut search);
        world.next(&mut search);
    }
    assert!(search.met_refusals());
    let NextPair::Elsewhere(pair) = world.next(&mut search) else { panic!("nobody has it") };
    assert_eq!(pair.ask, first, "another node is looked for");
}

#[test]
fn the_first_member_goes_elsewhere_when_no_placeholder_will_do_for_any() {
    let mut world = World::new(&[of(2, 2)]);
    let first = world.wants("a", 0, of(1, 1));
    let second = world.wants("b", 0, of(1, 1));
    let mut search = Search::default();
    while let NextPair::InPlace(pair) = world.next(&mut search) {
        world.refuses(pair.ask, 0, &mut search);
    }
    let NextPair::Elsewhere(pair) = world.next(&mut search) else { panic!("one is left") };
    assert_eq!(pair.ask, first);
    let key = world.key(first);
    search.refused_elsewhere(key);
    assert_eq!(world.next(&mut search), NextPair::Nothing);
    // The ask is withdrawn, so another ask is the first.
    world.asks.withdraw(first);
    let NextPair::Elsewhere(pair) = world.next(&mut search) else { panic!("another is left") };
    assert_eq!(pair.ask, second);
}

#[test]
fn a_placeholder_that_lacks_anything_has_to_go() {
    let mut world = World::new(&[of(2, 2)]);
    let gpu = Resources::of(&[("vcore", 1), ("gpu", 1)]);
    world.wants("a", 0, gpu);
    assert!(matches!(world.next(&mut Search::default()), NextPair::TooSmall(_)));
    let mut other = World::new(&[of(2, 2)]);
    other.wants("a", 0, of(3, 1));
    assert!(matches!(other.next(&mut Search::default()), NextPair::TooSmall(_)));
}

#[test]
fn a_member_that_requires_a_node_takes_no_place_on_another() {
    let mut world = World::new(&[of(2, 2), of(2, 2)]);
    let spec = AskSpec::new("a", of(1, 1)).with(|it| {
        it.required_node = Some(Arc::from("n1"));
        it.task_group = Some(Arc::new("g".to_owned()));
    });
    let (ask, _) = world.asks.put(spec, 0, 1);
    assert_eq!(world.next(&mut Search::default()), world.in_place(ask, 0));
}

#[test]
fn nobody_is_paired_while_no_placeholder_is_free_in_the_group() {
    let mut world = World::new(&[of(2, 2)]);
    world.asks.put(AskSpec::new("of no group", of(1, 1)), 0, 7);
    assert_eq!(world.next(&mut Search::default()), NextPair::Nothing);
}
