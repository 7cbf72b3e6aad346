//! Tests the two rounds of asks that have a node reserved, and which ask reserves which node.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::asks::{Asks, Try};
use crate::books::Books;
use crate::decide::reservations::{Claim, Target, claim, displaced_by, wake_at_node};
use crate::nodes::{Exclusion, NodeOrder};
use crate::pending::reservations::{Rank, Reservation};
use crate::specs::ask::AskSpec;
use crate::values::epoch::Loosening;
use crate::values::ids::ApplicationSlot;
use crate::values::resources::{Limits, Resources};
use crate::waiting::{View, WaitSet};

fn application() -> ApplicationSlot {
    ApplicationSlot::at(0)
}

fn vcores(quantity: i64) -> Resources {
    Resources::of(&[("vcore", quantity)])
}

/// An application in a partition whose nodes have this much free of 9 vcores.
struct World {
    books: Books,
    asks: Asks,
    headroom: Limits,
    loosening: Loosening,
    asks_later: bool,
    now_ns: i64,
}

impl World {
    fn new(free: &[(&str, i64)]) -> Self {
        let mut books = Books::new(NodeOrder::default());
        for (id, free) in free {
            books.nodes.insert(Arc::from(*id), vcores(9), vcores(*free), true).unwrap();
        }
        let (headroom, loosening) = (Limits::unlimited(), Loosening::numbered(1));
        Self { books, asks: Asks::new(), headroom, loosening, asks_later: false, now_ns: 0 }
    }

    fn put(&mut self, spec: AskSpec) -> AskSlot {
        let sequence = self.books.arrival();
        self.asks.put(spec, 0, sequence).0
    }

    fn node(&self, id: &str) -> NodeSlot {
        self.books.nodes.slot_of(id).unwrap()
    }

    fn free(&mut self, id: &str, vcore: i64) {
        let node = self.node(id);
        self.books.nodes.update(node, None, &vcores(vcore));
    }

    /// Puts an ask that has a node reserved and is parked.
    fn reserved(&mut self, key: &str, vcore: i64, node: &str, required: bool) -> AskSlot {
        let required_node = required.then(|| Arc::from(node));
        let ask =
            self.put(AskSpec::new(key, vcores(vcore)).with(|it| it.required_node = required_node));
        let who = Reserver { application: application(), ask };
        let spec = Arc::clone(&self.asks.ask(ask).spec);
        let (node, since_ns) = (self.node(node), self.now_ns);
        let Books { nodes, reservations, .. } = &mut self.books;
        reservations.make(nodes, who, Reservation::new(node, spec, since_ns));
        let waits = self.with(|it| Obstacle::NoNode.waits(&it.asks.ask(ask).spec, it.view));
        self.asks.reserve(ask, node, waits);
        ask
    }

    fn with<T>(&self, look: impl FnOnce(&Attempt<'_>) -> T) -> T {
        let Self { books, asks, headroom, asks_later, .. } = self;
        let (loosening, nodes) = (self.loosening, Some(&books.nodes));
        let view =
            &View { headroom, loosening, may_start: true, nodes, limits: None, queues: None };
        let (lane, backoff_asks, asks_later) = (None, 0, *asks_later);
        let (application, gang, beside_nominations) = (application(), None, None);
        look(&Attempt {
            owed: &[],
            asks,
            gang,
            application,
            leaf: 0,
            view,
            beside_nominations,
            lane,
            books,
            backoff_asks,
            asks_later,
        })
    }

    fn next(&self) -> NextReserved {
        let patience = Patience { wait_timeout: Duration::from_nanos(100), ..Patience::default() };
        self.with(|attempt| next(attempt, &patience, self.now_ns))
    }

    /// Decides until an ask is placed or resumed, or its reservation ends. Asks that are parked or
    /// passed over before are handled as the actor does it.
    fn decided(&mut self) -> String {
        loop {
            match self.next() {
                NextReserved::Do(Next::Place(Candidate { ask, node, .. })) => {
                    return format!("{} to {}", self.asks.ask(ask).key, self.books.nodes.id(node));
                }
                NextReserved::Do(Next::Park(parking)) => self.park(&parking),
                NextReserved::PassOver(class) => self.asks.pass_over_reserved(class),
                NextReserved::Resume(ask) => return format!("{} resumes", self.asks.ask(ask).key),
                NextReserved::GiveUp(ask) => return format!("{} gives up", self.asks.ask(ask).key),
                NextReserved::Do(_) => return "nothing".to_owned(),
            }
        }
    }

    fn park(&mut self, parking: &Parking) {
        let waits = self.with(|it| parking.obstacle.waits(&it.asks.ask(parking.ask).spec, it.view));
        self.asks.set_waits(parking.class, waits);
    }
}

#[test]
fn the_reserved_nodes_of_all_asks_come_before_any_other_node() {
    let mut world = World::new(&[("n1", 0), ("n2", 0), ("n3", 0)]);
    let first = world.reserved("first", 3, "n1", false);
    let second = world.reserved("second", 3, "n2", false);
    assert_eq!(world.decided(), "nothing");
    world.free("n2", 5);
    world.free("n3", 5);
    world.asks.wake_at_reserved(second);
    assert_eq!(world.decided(), "second to n2", "the first could go to n3");
    world.asks.take_one(second);
    world.asks.unreserve(second);
    assert_eq!(world.decided(), "first to n3", "its own node has no room");
    world.free("n1", 3);
    world.asks.wake_at_reserved(first);
    assert_eq!(world.decided(), "first to n1");
}

#[test]
fn a_reserved_node_that_is_closed_or_excluded_is_passed_over_and_a_required_one_is_not() {
    let mut world = World::new(&[("n1", 9), ("n2", 9), ("n3", 9)]);
    let free = world.reserved("free", 3, "n1", false);
    let bound = world.reserved("bound", 3, "n2", true);
    world.free("n3", 0);
    for id in ["n1", "n2"] {
        let node = world.node(id);
        world.books.nodes.set_open(node, false);
    }
    world.asks.wake_at_reserved(free);
    assert_eq!(world.decided(), "nothing");
    world.asks.wake_at_reserved(bound);
    assert_eq!(world.decided(), "bound to n2");
    world.asks.take_one(bound);
    world.asks.unreserve(bound);
    let n1 = world.node("n1");
    world.books.nodes.set_open(n1, true);
    world.asks.exclude(free, Exclusion { node: Arc::from("n1"), until_ns: 9 });
    assert_eq!(world.decided(), "nothing");
}

#[test]
fn what_its_reserved_node_refused_waits_as_refused_until_that_node_changes() {
    let mut world = World::new(&[("n1", 9), ("n2", 0)]);
    let ask = world.reserved("a", 3, "n1", false);
    world.asks.wake_at_reserved(ask);
    assert_eq!(world.decided(), "a to n1");
    world.asks.ask_mut(ask).refuse_at_reserved();
    let class = world.asks.class_of(ask).unwrap();
    world.asks.set_waits(class, WaitSet::Due);
    assert_eq!(world.next(), NextReserved::PassOver(class));
    world.asks.pass_over_reserved(class);
    let refused = Parking { class, ask, obstacle: Obstacle::Refused };
    assert_eq!(world.next(), NextReserved::Do(Next::Park(refused)));
    world.park(&refused);
    assert_eq!(world.decided(), "nothing");
    world.asks.ask_mut(ask).refresh();
    world.asks.wake_at_reserved(ask);
    assert_eq!(world.decided(), "a to n1", "it has changed");

    world.asks_later = true;
    let growth = world.books.nodes.growth();
    let trying: &mut Try = world.asks.ask_mut(ask).trying_since(0, growth);
    trying.refused_by(&[Arc::from("n1")], 512);
    world.asks.set_waits(class, WaitSet::Due);
    world.asks.pass_over_reserved(class);
    assert_eq!(world.next(), NextReserved::Do(Next::Park(refused)), "an answer says so, too");
}

#[test]
fn an_ask_without_quota_gives_its_node_up_when_it_has_waited_too_long_and_not_before() {
    let mut world = World::new(&[("n1", 9)]);
    let ask = world.reserved("a", 3, "n1", false);
    world.headroom = Limits::of(&[("vcore", 2)]);
    world.asks.wake_at_reserved(ask);
    world.now_ns = 100;
    assert_eq!(world.decided(), "nothing");
    world.now_ns = 101;
    assert_eq!(world.decided(), "nothing", "nobody has it looked at");
    world.asks.wake_at_reserved(ask);
    assert_eq!(world.decided(), "a gives up");
    world.headroom = Limits::unlimited();
    world.loosening = world.loosening.next();
    assert_eq!(world.decided(), "a to n1", "with quota it takes it, however late");
}

#[test]
fn quota_that_comes_back_has_the_reserved_node_looked_at_first() {
    let mut world = World::new(&[("n1", 9), ("n2", 9)]);
    let ask = world.reserved("a", 3, "n1", false);
    world.headroom = Limits::of(&[("vcore", 2)]);
    world.asks.wake_at_reserved(ask);
    assert_eq!(world.decided(), "nothing");
    world.headroom = Limits::of(&[("vcore", 3)]);
    assert_eq!(world.decided(), "nothing", "nothing was loosened");
    world.loosening = world.loosening.next();
    assert_eq!(world.decided(), "a to n1");
}

#[test]
fn an_ask_reserves_when_it_is_old_enough_and_there_is_a_node_for_it() {
    let mut world = World::new(&[("n1", 1), ("n2", 2)]);
    let patience = Patience { delay: Some(Duration::from_nanos(50)), ..Patience::default() };
    let ask = world.put(AskSpec::new("a", vcores(3)));
    let claims = |world: &World, patience: &Patience, now_ns| {
        claim(world.asks.ask(ask), &Rank::default(), &world.books, patience, now_ns)
    };
    assert_eq!(claims(&world, &patience, 50), Claim::NotBefore(51));
    assert_eq!(claims(&world, &patience, 51), Claim::Node(world.node("n2")));
    let never = Patience { delay: None, ..patience };
    assert_eq!(claims(&world, &never, i64::MAX), Claim::Never);
    for id in ["n1", "n2"] {
        let node = world.node(id);
        world.books.nodes.set_open(node, false);
    }
    assert_eq!(claims(&world, &patience, 51), Claim::WhenThereIsOne);
    let n1 = world.node("n1");
    world.asks.reserve(ask, n1, WaitSet::Nothing);
    assert_eq!(claims(&world, &patience, 51), Claim::Never, "it has one");
}

#[test]
fn an_ask_that_requires_a_node_reserves_it_at_once_and_takes_it_from_one_that_may_go_elsewhere() {
    let mut world = World::new(&[("n1", 0), ("n2", 0)]);
    let other = world.reserved("other", 3, "n1", false);
    let for_n1 = |key, vcore| {
        AskSpec::new(key, vcores(vcore)).with(|it| it.required_node = Some(Arc::from("n1")))
    };
    let ask = world.put(for_n1("a", 3));
    let (never, rank) = (Patience { delay: None, ..Patience::default() }, Rank::default());
    let who = Reserver { application: application(), ask: other };
    assert_eq!(displaced_by(world.asks.ask(ask), &world.books), Some(who));
    let Books { nodes, reservations, .. } = &mut world.books;
    reservations.end(nodes, who);
    assert_eq!(displaced_by(world.asks.ask(ask), &world.books), None);
    let n1 = world.node("n1");
    assert_eq!(claim(world.asks.ask(ask), &rank, &world.books, &never, 0), Claim::Node(n1));
    let large = world.put(for_n1("large", 10));
    assert_eq!(claim(world.asks.ask(large), &rank, &world.books, &never, 0), Claim::Never);
    let elsewhere = for_n1("gone", 1).with(|it| it.required_node = Some(Arc::from("n9")));
    let elsewhere = world.put(elsewhere);
    assert_eq!(claim(world.asks.ask(elsewhere), &rank, &world.books, &never, 0), Claim::Never);
    assert_eq!(displaced_by(world.asks.ask(elsewhere), &world.books), None);
}

#[test]
fn what_may_run_again_has_its_node_for_itself_again_before_it_is_tried() {
    let mut world = World::new(&[("n1", 0)]);
    let large = world.reserved("large", 3, "n1", false);
    let who = Reserver { application: application(), ask: large };
    let Books { nodes, reservations, .. } = &mut world.books;
    assert!(reservations.suspend(nodes, who) && !reservations.suspend(nodes, who));
    world.asks.suspend(large);
    world.asks.wake_at_reserved(large);
    world.headroom = Limits::of(&[("vcore", 2)]);
    assert_eq!(world.decided(), "nothing", "it could not run");
    world.headroom = Limits::of(&[("vcore", 3)]);
    world.asks.wake_at_reserved(large);
    assert_eq!(world.decided(), "large resumes");
    assert!(!world.asks.reserves_any());
    let Books { nodes, reservations, .. } = &mut world.books;
    reservations.resume(nodes, who);
    world.asks.resume(large);
    world.free("n1", 3);
    assert_eq!(world.decided(), "large to n1");
    assert!(world.asks.reserves_any());
}

#[test]
fn an_allowed_node_is_reserved_while_it_is_free() {
    let mut world = World::new(&[("n1", 0), ("n2", 0)]);
    let ask = world.put(AskSpec::new("a", vcores(3)));
    let (n1, n2) = (world.node("n1"), world.node("n2"));
    let allowed =
        |world: &World, claim: Claim| claim.allowed(n1, world.asks.ask(ask), &world.books);
    let target = Some(Target { node: n1, replaces: None });
    assert_eq!(allowed(&world, Claim::Node(n1)), target);
    assert_eq!(allowed(&world, Claim::Node(n2)), target, "another is better by now");
    assert_eq!(allowed(&world, Claim::Never), None);
    world.books.nodes.set_open(n1, false);
    assert_eq!(allowed(&world, Claim::Node(n1)), None, "it is closed");
    world.books.nodes.set_open(n1, true);
    let other = world.reserved("other", 3, "n1", false);
    assert_eq!(allowed(&world, Claim::Node(n2)), None, "another ask has reserved it");
    let of = Reserver { application: application(), ask: other };
    let replaces = Some(Target { node: n1, replaces: Some(of) });
    assert_eq!(allowed(&world, Claim::Instead { node: n1, of }), replaces);
}

#[test]
fn returned_room_does_not_wake_a_resting_ask() {
    let mut world = World::new(&[("n1", 9)]);
    let ask = world.reserved("a", 3, "n1", false);
    let me = application();
    let World { asks, books, .. } = &mut world;
    assert!(wake_at_node(asks, me, "n1", true, books));
    assert!(!wake_at_node(asks, me, "n9", false, books), "there is no such node");
    assert!(!wake_at_node(asks, ApplicationSlot::at(1), "n1", false, books));
    asks.ask_mut(ask).rest();
    assert!(!wake_at_node(asks, me, "n1", true, books));
    assert!(wake_at_node(asks, me, "n1", false, books) && !asks.ask(ask).is_resting());
}

#[test]
fn reservations_ended_by_others_are_found_by_key() {
    let mut world = World::new(&[("n1", 0)]);
    let ask = world.reserved("a", 3, "n1", false);
    let asks = &mut world.asks;
    assert!(asks.reservation_suspended("a") && !asks.reservation_suspended("a"));
    assert!(!asks.reservation_suspended("b") && !asks.reservation_ended("b", true));
    assert!(asks.reservation_ended("a", true) && !asks.reservation_ended("a", false));
    assert!(asks.ask(ask).search.was_replaced && !asks.reserves_any());
}
