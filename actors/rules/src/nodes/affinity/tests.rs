use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::counters::Count;
use super::scopes::Group;
use super::terms::Condition;
use super::*;
use crate::allocations::{Allocation, AllocationTable};
use crate::nodes::attributes::Attributes;
use crate::nodes::index::NodeIndex;
use crate::nodes::recount::{Counted, Picture, alternatives};
use crate::nodes::{NodeOrder, NodeRequest};
use crate::specs::ask::AskSpec;
use crate::specs::constraint::{AskConstraint, Constraint, Expression, Near, Operator, Simple};
use crate::specs::tags::{TagMap, Tags};
use crate::values::again::written_and_read;
use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use crate::values::resources::Resources;

fn vcores(n: i64) -> Resources {
    Resources::of(&[("vcore", n)])
}

fn texts(pairs: &[(&str, &str)]) -> Attributes {
    Arc::new(pairs.iter().copied().collect())
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    Arc::new(TagMap::from(texts(pairs).to_map()))
}

fn is(key: &str, value: &str) -> Expression {
    Expression { operator: Operator::In, key: key.to_owned(), values: vec![value.to_owned()] }
}

fn near(scope: &str, app: &str, min: i32, max: i32) -> Near {
    let expressions = vec![is("app", app)];
    Near { scope: scope.to_owned(), expressions, min, max, required: true }
}

fn only(near: Near) -> Constraint {
    Constraint::Simple(Simple { node: Vec::new(), near: Some(near) })
}

/// An index and the allocations on its nodes.
struct World {
    nodes: NodeIndex,
    slots: Vec<NodeSlot>,
    n_added: usize,
    attributes: BTreeMap<NodeSlot, Attributes>,
    allocations: AllocationTable,
    placed: Vec<AllocationId>,
}

impl World {
    fn new(of: &[&[(&str, &str)]]) -> Self {
        let (nodes, slots) = (NodeIndex::new(NodeOrder::default()), Vec::new());
        let (attributes, allocations) = (BTreeMap::new(), AllocationTable::new());
        let mut world =
            Self { nodes, slots, attributes, allocations, n_added: 0, placed: Vec::new() };
        for pairs in of {
            world.add(pairs);
        }
        world
    }

    fn add(&mut self, pairs: &[(&str, &str)]) {
        let id = Arc::from(format!("n{:05}", self.n_added));
        let slot = self.nodes.insert(id, vcores(8), vcores(8), true).unwrap();
        self.n_added += 1;
        self.slots.push(slot);
        self.describe(slot, texts(pairs));
    }

    fn describe(&mut self, slot: NodeSlot, attributes: Attributes) {
        self.nodes.set_attributes(slot, &attributes);
        self.attributes.insert(slot, attributes);
    }

    fn learn(&mut self, constraint: Constraint, tags: &Tags) -> Arc<Terms> {
        let constraint = AskConstraint::new(constraint, Some(tags)).unwrap().unwrap();
        self.nodes.learn(&Arc::new(constraint), &self.allocations).unwrap()
    }

    fn first(&self, terms: &Terms) -> Option<NodeSlot> {
        let one = vcores(1);
        self.nodes.first(&NodeRequest { wish: Some(Wish::of(terms)), ..NodeRequest::of(&one) })
    }

    fn put(&mut self, node: NodeSlot, tags: &Tags, is_booked: bool) -> AllocationId {
        let spec = AskSpec { tags: Some(Arc::clone(tags)), ..AskSpec::new("k", vcores(1)) };
        let mut entry = Allocation::new(ApplicationSlot::at(0), Arc::new(spec), node, 0, 0);
        entry.change().question = (!is_booked).then_some(1);
        let id = self.allocations.insert(entry);
        let left = self.nodes.available(node).minus(&vcores(1));
        self.nodes.update(node, None, &left);
        self.nodes.count(id, self.allocations.get(id).unwrap());
        self.placed.push(id);
        id
    }

    fn settle(&mut self, id: AllocationId) {
        self.allocations.get_mut(id).unwrap().answered();
        self.nodes.settled(id);
    }

    fn end(&mut self, id: AllocationId) {
        let entry = self.allocations.remove(id).unwrap();
        self.nodes.uncount(id, entry.node);
        let left = self.nodes.available(entry.node).plus(&vcores(1));
        self.nodes.update(entry.node, None, &left);
        self.placed.retain(|other| *other != id);
    }

    fn lose(&mut self, slot: NodeSlot) {
        let on_it: Vec<_> = self.allocations.iter().filter(|(_, it)| it.node == slot).collect();
        for id in on_it.into_iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.allocations.remove(id);
            self.placed.retain(|other| *other != id);
        }
        self.nodes.remove(slot);
        self.slots.retain(|other| *other != slot);
        self.attributes.remove(&slot);
    }

    fn picture(&self) -> Picture<'_> {
        let nodes = self.attributes.iter().map(|(slot, it)| (*slot, Some(&**it))).collect();
        let counted = self.allocations.iter().map(|(_, entry)| Counted {
            node: entry.node,
            tags: entry.spec.tags.as_deref().map(|tags| &**tags),
            is_booked: entry.is_booked(),
        });
        Picture { nodes, counted: counted.collect() }
    }

    /// Returns every node that a request may use, in the order in which they are to be tried.
    fn expected(&self, terms: &Terms, open: usize) -> Vec<NodeSlot> {
        let (ask, picture) = (terms.constraint(), self.picture());
        let mut found: Vec<NodeSlot> = Vec::new();
        for alternative in alternatives(ask.constraint()).iter().take(open) {
            let in_order = self.nodes.iter().filter(|slot| {
                self.nodes.has_room(*slot, &vcores(1)) && alternative.admits(ask, *slot, &picture)
            });
            let new: Vec<_> = in_order.filter(|slot| !found.contains(slot)).collect();
            found.extend(new);
        }
        found
    }

    fn check(&self, terms: &Terms, open: usize) {
        self.check_search(terms, open);
        self.check_counters();
    }

    fn check_search(&self, terms: &Terms, open: usize) {
        let expected = self.expected(terms, open);
        let one = vcores(1);
        let wish = Wish { open, ..Wish::of(terms) };
        let request = NodeRequest { wish: Some(wish), ..NodeRequest::of(&one) };
        let next = |slot: &NodeSlot| self.nodes.next(*slot, &request);
        let found: Vec<_> = std::iter::successors(self.nodes.first(&request), next).collect();
        assert_eq!(found, expected, "{:?}", terms.constraint());
    }

    fn check_counters(&self) {
        for (family, counter) in self.nodes.affinity.counters.all().map(|it| (it, it.2)) {
            let mut counted: BTreeMap<Group, Count> = BTreeMap::new();
            for (_, entry) in self.allocations.iter() {
                if family
                    .1
                    .iter()
                    .all(|it| it.holds(entry.spec.tags.as_deref().map(|tags| &**tags)))
                {
                    let group = self.nodes.affinity.counters.group(counter.scope, entry.node);
                    let count = counted.entry(group).or_default();
                    *count = count.plus(Count::of(entry.is_booked()));
                }
            }
            let kept: BTreeMap<Group, Count> =
                counter.groups.iter().map(|(group, count)| (*group, *count)).collect();
            assert_eq!(kept, counted, "{family:?}");
        }
        self.nodes.check();
    }
}

fn web() -> Tags {
    tags(&[("app", "web")])
}

#[test]
fn requests_that_keep_apart_get_a_node_each_and_the_first_that_ends_makes_room() {
    let mut world = World::new(&[&[], &[], &[]]);
    let terms = world.learn(only(near("hostname", "web", 0, 1)), &web());
    for _ in 0..3 {
        let node = world.first(&terms).unwrap();
        world.put(node, &web(), false);
        world.check(&terms, 1);
    }
    assert_eq!(world.first(&terms), None);
    world.nodes.wait_for(&terms);
    let (mark, second) = (world.nodes.growth(), world.placed[1]);
    let node = world.allocations.get(second).unwrap().node;
    world.end(second);
    assert_eq!(world.first(&terms), Some(node));
    assert!(world.nodes.may_hold_grown_since(mark, &vcores(1)));
}

#[test]
fn what_ends_in_a_rack_wakes_for_every_node_of_it_and_what_is_taken_back_only_as_a_return() {
    let (a, b) = ([("rack", "a")], [("rack", "b")]);
    let mut world = World::new(&[&a, &a, &b, &b]);
    let terms = world.learn(only(near("rack", "web", 0, 1)), &web());
    let ids: Vec<_> = [0, 2].map(|at| world.put(world.slots[at], &web(), at == 0)).into();
    assert_eq!(world.first(&terms), None);
    // The nodes with allocations are full: only their neighbours could take another.
    for at in [0, 2] {
        let slot = world.slots[at];
        world.nodes.update(slot, None, &vcores(0));
    }
    world.nodes.wait_for(&terms);
    let mark = world.nodes.growth();
    world.nodes.uncount_return(ids[1], world.slots[2]);
    world.allocations.remove(ids[1]);
    assert_eq!(world.first(&terms), Some(world.slots[3]));
    assert!(!world.nodes.may_hold_grown_since(mark, &vcores(1)), "it is no growth");
    assert!(world.nodes.may_hold_since(mark, &vcores(1)));
    world.nodes.wait_for(&terms);
    let mark = world.nodes.growth();
    world.nodes.uncount(ids[0], world.slots[0]);
    assert!(world.nodes.may_hold_grown_since(mark, &vcores(1)));
}

#[test]
fn the_first_of_its_kind_goes_anywhere_and_the_others_to_it_once_it_is_booked() {
    let (a, b) = ([("rack", "a")], [("rack", "b")]);
    let mut world = World::new(&[&a, &b, &b]);
    let terms = world.learn(only(near("rack", "web", 2, 0)), &web());
    let stranger = world.learn(only(near("rack", "web", 2, 0)), &tags(&[("app", "db")]));
    assert_eq!(world.first(&stranger), None, "it is not of that kind");
    assert_eq!(world.first(&terms), Some(world.slots[0]));
    let first = world.put(world.slots[1], &web(), false);
    assert_eq!(world.first(&terms), None, "the first waits for its predicate");
    world.nodes.wait_for(&terms);
    let mark = world.nodes.growth();
    world.settle(first);
    assert_eq!(world.first(&terms), Some(world.slots[2]));
    assert!(world.nodes.may_hold_grown_since(mark, &vcores(1)));
    let gone = [first];
    let wish = Wish { gone: &gone, ..Wish::of(&terms) };
    assert!(world.nodes.is_as_wished(world.slots[0], &wish), "as if it were not there");
    world.check(&terms, 1);
}

#[test]
fn nodes_that_are_excluded_in_great_numbers_are_passed_over_at_once() {
    let of: Vec<&[(&str, &str)]> = vec![&[]; 1_000];
    let mut world = World::new(&of);
    let terms = world.learn(only(near("", "web", 0, 1)), &web());
    for placed in 0..1_000 {
        let node = world.first(&terms).unwrap();
        world.put(node, &web(), true);
        if placed % 100 == 0 {
            world.check(&terms, 1);
        }
    }
    assert!(world.first(&terms).is_none());
    let Some(Condition::Near(near)) = terms.conditions().next() else { panic!("it has one") };
    let bit = world.nodes.affinity.counters.range_at(near.range).flag.bit();
    assert!(bit != 0 && !world.nodes.tree.bound().unwrap().has_flags(bit), "one comparison");
}

#[test]
fn a_range_on_large_groups_has_a_flag_only_where_there_are_many_of_them() {
    for (racks, of_nodes, has_flag) in [(10, 100, true), (4, 100, false), (4, 60, true)] {
        let names: Vec<String> = (0..racks).map(|rack| rack.to_string()).collect();
        let rack_of = |at: usize| [("rack", names[at / of_nodes].as_str())];
        let pairs: Vec<_> = (0..racks * of_nodes).map(rack_of).collect();
        let mut world = World::new(&pairs.iter().map(|it| &it[..]).collect::<Vec<_>>());
        let terms = world.learn(only(near("rack", "web", 0, 1)), &web());
        for _ in 0..racks - 1 {
            let node = world.first(&terms).unwrap();
            world.put(node, &web(), true);
        }
        let Some(Condition::Near(near)) = terms.conditions().next() else { panic!("one") };
        let flag = world.nodes.affinity.counters.range_at(near.range).flag.bit();
        assert_eq!(flag != 0, has_flag, "{racks} racks of {of_nodes}");
        world.check(&terms, 1);
        let first = world.placed[0];
        world.end(first);
        world.check(&terms, 1);
    }
}

#[test]
fn what_nobody_uses_is_forgotten_and_what_is_too_much_refused() {
    let mut world = World::new(&[&[], &[]]);
    let keep = world.learn(only(near("", "web", 0, 1)), &web());
    let mut kept = Vec::new();
    for n in 1..COUNTERS_MAX {
        kept.push(world.learn(only(near("", &n.to_string(), 0, 1)), &web()));
    }
    let one_more = AskConstraint::new(only(near("", "more", 0, 1)), None).unwrap().unwrap();
    let one_more = Arc::new(one_more);
    assert_eq!(world.nodes.learn(&one_more, &world.allocations).unwrap_err(), TooManyCounters);
    kept.pop();
    let more = world.nodes.learn(&one_more, &world.allocations).unwrap();
    drop((kept, keep, more));
    world.nodes.affinity.sweep();
    assert!(!world.nodes.affinity.is_used());
    assert_eq!(world.nodes.affinity.counters.all().count(), 0);
    assert!(world.nodes.affinity.selectors.is_empty());
}

#[test]
fn a_condition_says_what_it_leaves() {
    let (a, b) = ([("zone", "a")], [("zone", "b")]);
    let mut world = World::new(&[&a, &a, &b]);
    let constraint = Simple { node: vec![is("zone", "b")], near: Some(near("", "web", 0, 1)) };
    let terms = world.learn(Constraint::Simple(constraint), &web());
    world.put(world.slots[2], &web(), true);
    let said = world.nodes.excluding(&Wish::of(&terms));
    let said: Vec<_> = said.iter().map(|it| (&*it.condition, it.excluded, it.left)).collect();
    let per_node = ("at most 1 of app IN [web] per node", 1, 2);
    assert_eq!(said, [("zone IN [b]", 2, 1), per_node]);
}

fn expression() -> impl Strategy<Value = Expression> {
    let operator = prop_oneof![
        4 => Just(Operator::In),
        1 => Just(Operator::NotIn),
        1 => Just(Operator::Exist),
        1 => Just(Operator::NotExist),
    ];
    (operator, prop_oneof!["zone", "rack"], proptest::collection::vec("[ab]", 1..3))
        .prop_map(|(operator, key, values)| Expression { operator, key, values })
}

fn simple(required: bool) -> impl Strategy<Value = Constraint> {
    let of =
        |key: &'static str| expression().prop_map(move |it| Expression { key: key.into(), ..it });
    let near = (prop_oneof!["", "hostname", "rack", "zone"], 0..4_i32, 0..4_i32, any::<bool>());
    let near = (near, proptest::collection::vec(of("app"), 0..2)).prop_map(
        move |((scope, min, max, is_required), expressions)| Near {
            scope,
            expressions,
            min,
            max,
            required: required || is_required,
        },
    );
    (proptest::collection::vec(expression(), 0..2), proptest::option::of(near))
        .prop_map(|(node, near)| Constraint::Simple(Simple { node, near }))
}

fn constraint() -> impl Strategy<Value = Constraint> {
    let any = proptest::collection::vec(simple(true), 0..3).prop_map(Constraint::Any);
    let all = (proptest::collection::vec(simple(false), 0..3), any).prop_map(|(mut all, any)| {
        all.push(any);
        Constraint::All(all)
    });
    let one = prop_oneof![4 => simple(false), 1 => all];
    prop_oneof![2 => one.clone(), 1 => proptest::collection::vec(one, 1..3).prop_map(Constraint::Any)]
}

#[derive(Clone, Debug)]
enum Change {
    Place { by: usize, is_booked: bool, app: usize },
    Settle(usize),
    End(usize),
    Describe(usize, usize, usize),
    Add(usize, usize),
    Lose(usize),
    Forget(usize),
    WriteAndRead,
}

fn change() -> impl Strategy<Value = Change> {
    let n = 0..99_usize;
    prop_oneof![
        6 => (n.clone(), any::<bool>(), n.clone())
            .prop_map(|(by, is_booked, app)| Change::Place { by, is_booked, app }),
        2 => n.clone().prop_map(Change::Settle),
        2 => n.clone().prop_map(Change::End),
        1 => (n.clone(), n.clone(), n.clone()).prop_map(|(at, zone, rack)| Change::Describe(at, zone, rack)),
        1 => (n.clone(), n.clone()).prop_map(|(zone, rack)| Change::Add(zone, rack)),
        1 => n.clone().prop_map(Change::Lose),
        1 => n.prop_map(Change::Forget),
        1 => Just(Change::WriteAndRead),
    ]
}

proptest! {
    /// A search with a constraint finds, one after the other, the nodes that a full recount for
    /// each node finds, after any changes; and the counters agree with the recount.
    #[test]
    fn searches_agree_with_a_count_of_everything(
        constraints in proptest::collection::vec(constraint(), 1..5),
        changes in proptest::collection::vec(change(), 1..60),
        many in any::<bool>(),
    ) {
        let value = |n: usize| ["a", "b", "c"].get(n % 4).copied();
        let described = |zone: usize, rack: usize| {
            let pairs = [("zone", value(zone)), ("rack", value(rack))];
            let pairs: Vec<_> = pairs.iter().filter_map(|(key, it)| Some((*key, (*it)?))).collect();
            pairs
        };
        let mut world = World::new(&[]);
        for at in 0..if many { 90 } else { 6 } {
            world.add(&described(at, at / 4));
        }
        let apps = ["a", "b", "c"].map(|app| tags(&[("app", app)]));
        let mut known = Vec::new();
        for (at, constraint) in constraints.into_iter().enumerate() {
            let tags = &apps[at % 3];
            if AskConstraint::new(constraint.clone(), None).is_ok_and(|it| it.is_some()) {
                known.push(world.learn(constraint, tags));
            }
        }
        for change in changes {
            match change {
                Change::Place { by, is_booked, app } => {
                    let terms = known.get(by % 7);
                    let node = match terms {
                        Some(terms) => world.first(terms),
                        None => world.slots.get(by % world.slots.len().max(1)).copied(),
                    };
                    if let Some(node) = node {
                        world.put(node, &apps[app % 3], is_booked);
                    }
                }
                Change::Settle(at) if !world.placed.is_empty() => {
                    world.settle(world.placed[at % world.placed.len()]);
                }
                Change::End(at) if !world.placed.is_empty() => {
                    world.end(world.placed[at % world.placed.len()]);
                }
                Change::Describe(at, zone, rack) if !world.slots.is_empty() => {
                    let slot = world.slots[at % world.slots.len()];
                    world.describe(slot, texts(&described(zone, rack)));
                }
                Change::Add(zone, rack) => world.add(&described(zone, rack)),
                Change::Lose(at) if world.slots.len() > 2 => {
                    world.lose(world.slots[at % world.slots.len()]);
                }
                Change::Forget(at) if known.len() > 1 => {
                    let gone = known.swap_remove(at % known.len());
                    let again = Arc::clone(gone.constraint());
                    drop(gone);
                    world.nodes.affinity.sweep();
                    if at % 2 == 0 {
                        known.push(world.nodes.learn(&again, &world.allocations).unwrap());
                    }
                }
                Change::WriteAndRead => {
                    world.nodes = written_and_read(&world.nodes);
                    world.allocations = written_and_read(&world.allocations);
                    for terms in &mut known {
                        *terms = Arc::clone(world.nodes.terms_of(terms.constraint()).unwrap());
                    }
                }
                _ => {}
            }
            for terms in &known {
                for open in 1..=terms.len() {
                    world.check_search(terms, open);
                }
            }
            world.check_counters();
        }
    }
}
