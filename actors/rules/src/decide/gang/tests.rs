//! Tests one gang, with an RM that refuses some nodes: its turn, its search, and its state.

use std::sync::Arc;

use super::*;
use crate::applications::application::Application;
use crate::applications::native::Stage;
use crate::asks::Bundled;
use crate::books::Books;
use crate::decide::attempt::Attempt;
use crate::decide::bundle::{Found, find};
use crate::nodes::NodeOrder;
use crate::pending::nominations::{Nomination, Preemptor};
use crate::pending::unsettled::OpenBundle;
use crate::specs::declaration::{DeclaredGroup, Topology};
use crate::specs::hold_again::HoldAgain;
use crate::values::again::written_and_read;
use crate::values::epoch::{Epoch, Growth, Loosening};
use crate::values::ids::{ApplicationSlot, NodeSlot};
use crate::values::resources::{Limits, Resources};
use crate::waiting::obstacle::Obstacle;
use crate::waiting::{BundleWaits, Parked, View};

fn vcores(n: i64) -> Resources {
    Resources::of(&[("vcore", n)])
}

/// A gang whose members take one core each, and nodes with this many free cores.
struct World {
    book: Application,
    books: Books,
    headroom: Limits,
    asks_later: bool,
}

fn workers(n: i64) -> DeclaredGroup {
    DeclaredGroup::new("w", n, Some(vcores(1)))
}

impl World {
    fn new(group: DeclaredGroup, free: &[i64]) -> Self {
        let mut books = Books::new(NodeOrder::default());
        for (at, free) in free.iter().enumerate() {
            let id = Arc::from(format!("n{at}"));
            books.nodes.insert(id, vcores(9), vcores(*free), true).unwrap();
        }
        let book = Application::small(Some(group));
        let mut world = Self { book, books, headroom: Limits::unlimited(), asks_later: false };
        world.ask_internally();
        world
    }

    fn ask_internally(&mut self) {
        let Self { book, books, .. } = self;
        book.ask_internally(ApplicationSlot::at(0), 0, || books.arrival());
    }

    fn bundled(&self) -> Bundled {
        self.book.undecided_bundle().unwrap().1
    }

    fn search(&self) -> MemberSearch {
        MemberSearch::new(&self.book.asks, &self.bundled(), self.books.nodes.growth())
    }

    /// Runs the part of one step, with an RM that refuses some nodes. Returns also the calls of the
    /// RM. Between two steps, all state is written and read.
    fn step(
        &mut self,
        search: &mut MemberSearch,
        refuses: impl Fn(NodeSlot) -> bool,
    ) -> (String, Result<Found, NotPlaced>) {
        (self.book, self.books) = (written_and_read(&self.book), written_and_read(&self.books));
        *search = written_and_read(search);
        let Self { book, books, asks_later, .. } = self;
        search.begin_step(&books.nodes, !*asks_later);
        let mut told = Vec::new();
        loop {
            let next = search.next(book, &mut books.nodes);
            let named =
                |what: &str, member: Member| format!("{what} {}", books.nodes.id(member.node));
            match next {
                Next::Ask(member) => {
                    told.push(named("ask", member));
                    search.answered(!refuses(member.node));
                }
                Next::Count(member) => {
                    told.push(named("count", member));
                    search.answered(!refuses(member.node));
                }
                Next::Assume(member) => told.push(named("assume", member)),
                Next::Forget(members) => {
                    told.extend(members.into_iter().map(|member| named("forget", member)));
                }
                Next::Over(outcome) => return (told.join(", "), outcome),
            }
        }
    }

    fn node(&self, id: &str) -> NodeSlot {
        self.books.nodes.slot_of(id).unwrap()
    }

    fn turn(&self, places: Option<BundleWaits>, asks_about_holds: bool) -> GangTurn {
        let (bundled, Self { book, books, .. }) = (self.bundled(), self);
        let view = View {
            headroom: &self.headroom,
            loosening: Loosening::numbered(1),
            may_start: true,
            nodes: Some(&books.nodes),
            limits: None,
            queues: None,
        };
        let attempt = Attempt {
            asks: &book.asks,
            gang: book.gang.as_deref(),
            owed: &[],
            application: ApplicationSlot::at(0),
            leaf: 0,
            view: &view,
            beside_nominations: None,
            lane: None,
            books,
            backoff_asks: 0,
            asks_later: self.asks_later,
        };
        let total = total(&book.asks, &bundled);
        GangTurn::of(&attempt, (&bundled, &total), places, asks_about_holds)
    }
}

fn hold(turn: &GangTurn) -> Option<Hold> {
    match turn {
        GangTurn::Search => None,
        GangTurn::Wait { why, .. } => Some(*why),
    }
}

#[test]
fn each_member_is_asked_about_once() {
    let mut world = World::new(workers(3), &[2, 1]);
    let (told, outcome) = world.step(&mut world.search(), |_| false);
    assert_eq!(told, "ask n0, ask n0, ask n1");
    assert_eq!(outcome.unwrap().places().len(), 3);
    assert!(world.books.nodes.available(world.node("n0")).is_zero());
}

#[test]
fn nothing_is_asked_where_the_rm_answers_later() {
    let mut world = World::new(workers(2), &[2]);
    world.asks_later = true;
    let (told, outcome) = world.step(&mut world.search(), |_| true);
    assert_eq!((&*told, outcome.unwrap().places().len()), ("", 2));
}

#[test]
fn a_refused_member_moves_to_another_node() {
    let mut world = World::new(workers(2), &[1, 1, 1]);
    let refusing = world.node("n1");
    let (told, outcome) = world.step(&mut world.search(), |node| node == refusing);
    assert_eq!(told, "ask n0, ask n1, ask n2");
    assert_eq!(outcome.unwrap().places().len(), 2);
}

#[test]
fn a_member_refused_everywhere_ends_the_search() {
    let mut world = World::new(workers(2), &[1, 1]);
    let (before, refusing) = (world.books.nodes.fingerprint(), world.node("n1"));
    let mut search = world.search();
    let (told, outcome) = world.step(&mut search, |node| node == refusing);
    assert_eq!(told, "ask n0, ask n1, forget n0");
    let ask = world.bundled()[0][0].0;
    assert!(matches!(outcome, Err(NotPlaced::Refused(refused, _)) if refused == ask));
    assert_eq!(world.books.nodes.fingerprint(), before);
    assert_eq!(search.n_fit(), Some(0), "it is not counted");
}

/// A gang of three for which an earlier scheduler held three places.
fn held_before() -> World {
    let mut world = World::new(workers(3), &[1, 1, 1]);
    world.book.forget_members_without_ask();
    let native = world.book.native_mut().unwrap();
    native.decide();
    let again = HoldAgain { since_ns: None, places: vec![(Arc::new("w".to_owned()), 3)] };
    world.book.gang_mut().hold_again(&again, 0);
    world.ask_internally();
    world
}

#[test]
fn places_that_are_not_there_are_left_out() {
    let (mut world, mut gang) = (held_before(), GangSearch::new(0));
    let (ask, _) = world.bundled()[0][0];
    gang.note(GangObstacle::Places(vec![(ask, 2)]), 0);
    assert_eq!(settle_for_fewer(&mut world.book, &mut gang), Some(1));
    world.book.native_mut().unwrap().stage = Stage::InFlight;
    assert_eq!(settle_for_fewer(&mut world.book, &mut gang), None);
}

#[test]
fn a_refused_gang_settles_for_members_that_passed() {
    let (mut world, mut gang) = (held_before(), GangSearch::new(0));
    let (ask, _) = world.bundled()[0][0];
    gang.note(GangObstacle::refused(ask, &world.book.asks), 0);
    gang.note_fitting(2);
    assert_eq!(settle_for_fewer(&mut world.book, &mut gang), Some(2));
    assert_eq!(settle_for_fewer(&mut world.book, &mut gang), Some(1), "nothing is known");
}

#[test]
fn members_within_a_quota_are_counted() {
    let world = held_before();
    let native = world.book.undecided().unwrap();
    let within = |n| count_fitting(native, |amount| vcores(n).holds(amount));
    assert_eq!([0, 1, 2, 3].map(within), [0, 1, 2, 2], "all of them did not fit");
}

#[test]
fn members_that_pass_are_counted_for_fewer_places() {
    let mut world = held_before();
    let (mut search, refusing) = (world.search(), world.node("n1"));
    let (told, outcome) = world.step(&mut search, |node| node == refusing);
    assert_eq!(told, "ask n0, ask n1, count n2, forget n0");
    assert!(matches!(outcome, Err(NotPlaced::Refused(..))));
    assert_eq!(search.n_fit(), Some(2));
}

#[test]
fn a_refused_group_tries_another_domain() {
    let topology = Topology { required: Some("rack".to_owned()), ..Topology::default() };
    let group = DeclaredGroup { topology: Some(topology), ..workers(2) };
    let mut world = World::new(group, &[2, 2]);
    for (id, rack) in [("n0", "r0"), ("n1", "r1")] {
        let node = world.node(id);
        let attributes = Arc::new([("rack", rack)].into_iter().collect());
        world.books.nodes.set_attributes(node, &attributes);
    }
    let refusing = world.node("n0");
    let (told, outcome) = world.step(&mut world.search(), |node| node == refusing);
    assert_eq!(told, "ask n0, ask n1, ask n1");
    assert_eq!(&*outcome.unwrap().domain_of(0).unwrap().value, "r1");
}

/// The nodes that refuse a member are looked at again and again, so that a step ends before the RM
/// was asked about all nodes.
#[test]
fn a_search_goes_on_in_later_steps() {
    let mut world = World::new(workers(2), &vec![1; 1_200]);
    let passing = [world.node("n0"), world.node("n999")];
    let (mut search, before) = (world.search(), world.books.nodes.fingerprint());
    let (told, outcome) = world.step(&mut search, |node| !passing.contains(&node));
    assert!(matches!(outcome, Err(NotPlaced::Unfinished)));
    assert!(told.starts_with("ask n0, ask n1, ") && told.ends_with(", forget n0"), "{told}");
    assert_eq!((search.n_places(), world.books.nodes.fingerprint()), (2, before));
    let mut later_step = || {
        let (told, outcome) = world.step(&mut search, |node| !passing.contains(&node));
        assert!(told.starts_with("assume n0, ask n"), "what passed is not asked again: {told}");
        outcome.ok().map(|found| (told, found.places().len()))
    };
    let (told, n_places) = (0..20).find_map(|_| later_step()).unwrap();
    let again = ", ask n999, forget n999, forget n0, ask n0, ask n999";
    assert!(told.ends_with(again), "all are asked in the step that books them: {told}");
    assert_eq!(n_places, 2);
}

#[test]
fn a_gang_over_its_quota_waits() {
    let mut world = World::new(workers(3), &[9]);
    world.headroom = Limits::of(&[("vcore", 2)]);
    assert_eq!(hold(&world.turn(None, false)), Some(Hold::OverQuota(Obstacle::Quota)));
    world.headroom = Limits::of(&[("vcore", 3)]);
    assert_eq!(hold(&world.turn(None, false)), None);
}

#[test]
fn only_obstacles_of_the_gang_are_noted() {
    let total = vcores(3);
    let limits = Hold::OverQuota(Obstacle::Limits).obstacle(total.clone());
    assert_eq!(limits, Some(GangObstacle::Limits(total.clone())));
    assert_eq!(Hold::GivesWay.obstacle(total.clone()), Some(GangObstacle::GivesWay));
    assert_eq!(Hold::OtherInFlight.obstacle(total), None);
}

#[test]
fn a_gang_waits_until_enough_places_come() {
    let mut world = World::new(workers(3), &[1, 0]);
    let (mut search, node) = (world.search(), world.node("n1"));
    let (_, outcome) = world.step(&mut search, |_| false);
    let Err(NotPlaced::Short(short)) = outcome else { panic!("{outcome:?}") };
    world.books.nodes.update(node, None, &vcores(1));
    let turn = world.turn(Some(short.1), false);
    assert_eq!(hold(&turn), Some(Hold::TooFewPlaces));
    let GangTurn::Wait { places, .. } = turn else { unreachable!() };
    world.books.nodes.update(node, None, &vcores(2));
    assert_eq!(hold(&world.turn(places, false)), None);
}

#[test]
fn one_bundle_is_in_flight_at_a_time() {
    let mut world = World::new(workers(1), &[1]);
    world.asks_later = true;
    let application = ApplicationSlot::at(7);
    world.books.unsettled.bundle =
        Some(OpenBundle { application, unasked: 0, to_ask: 0, stops_offers: false });
    assert_eq!(hold(&world.turn(None, true)), Some(Hold::OtherInFlight));
    assert_eq!(hold(&world.turn(None, false)), None, "nobody is asked about places that are held");
}

#[test]
fn a_gang_gives_way_to_an_earlier_preemptor() {
    let mut world = World::new(workers(1), &[1]);
    let nomination = Nomination {
        queue: Arc::from("root.b"),
        amount: vcores(1),
        since_ns: 0,
        arrival: 0,
        victims: [].into(),
        losers: vec![ApplicationSlot::at(0)],
        rooms: Vec::new(),
    };
    world.books.nominations.make(Preemptor::Gang(ApplicationSlot::at(1)), nomination);
    assert_eq!(hold(&world.turn(None, false)), Some(Hold::GivesWay));
}

#[test]
fn rooms_are_free_once_all_victims_are_gone() {
    let mut world = World::new(workers(1), &[1]);
    let application = ApplicationSlot::at(0);
    assert_eq!(GangRooms::of(application, &world.books.nominations), GangRooms::None);
    let nomination = Nomination {
        queue: Arc::from("root.a"),
        amount: vcores(1),
        since_ns: 0,
        arrival: 0,
        victims: [].into(),
        losers: Vec::new(),
        rooms: Vec::new(),
    };
    world.books.nominations.make(Preemptor::Gang(application), nomination);
    assert_eq!(GangRooms::of(application, &world.books.nominations), GangRooms::Free);
    let (bundled, Books { nominations, nodes, .. }) = (world.bundled(), &mut world.books);
    let taken = take_rooms(application, &world.book, &bundled, (nominations, nodes));
    assert!(matches!(taken, Err(NotPlaced::Unfit)), "there is no room for its member");
}

#[test]
fn an_obstacle_counts_from_when_it_came() {
    let mut gang = GangSearch::new(0);
    gang.note(GangObstacle::Quota(vcores(1)), 5);
    gang.note(GangObstacle::Quota(vcores(2)), 9);
    assert_eq!(gang.over_since().map(|(_, since_ns)| since_ns), Some(5));
    gang = written_and_read(&gang);
    gang.note(GangObstacle::GivesWay, 11);
    gang.note(GangObstacle::Limits(vcores(2)), 12);
    assert_eq!(gang.over_since().map(|(_, since_ns)| since_ns), Some(12));
}

#[test]
fn a_refused_gang_is_tried_after_growing_pauses() {
    let at = Epoch { loosening: Loosening::NONE, growth: Growth::NONE };
    let refused = || Box::new(Parked::refused(&vcores(1), at));
    let mut gang = GangSearch::new(0);
    let (pause, first) = gang.park_refused(refused(), 0);
    gang = written_and_read(&gang);
    assert!(gang.is_refused() && gang.retry(first));
    gang.wake();
    gang.begin_by_time();
    let (longer, second) = gang.park_refused(refused(), 0);
    assert_eq!(longer, pause * 2);
    assert!(!gang.retry(first) && gang.retry(second), "an earlier deadline is stale");
    assert!(!gang.invalidate(false) && gang.is_refused(), "it is decided");
    assert!(gang.invalidate(true) && gang.is_due());
}

#[test]
fn a_shortage_names_asks_or_a_domain() {
    let mut world = World::new(workers(3), &[1]);
    let (bundled, asks) = (world.bundled(), &world.book.asks);
    let native = world.book.undecided().unwrap().groups();
    let avoided = AvoidedDomains::new();
    let bundle = groups(asks, native, &bundled, &avoided, AllowedNodes::Any);
    let shortage = find(&mut world.books.nodes, &bundle).unwrap_err();
    let obstacle = GangObstacle::of(shortage, asks, &bundled);
    assert_eq!(obstacle, GangObstacle::Places(vec![(bundled[0][0].0, 2)]));
    assert!(obstacle.may_be_gone_with_fewer() && obstacle.may_be_gone_by_preemption());
    assert!(!GangObstacle::GivesWay.may_be_gone_with_fewer());
}
