//! Tests a gang whose members take one core each and are in flight on one node: what answers mean
//! for them.

use std::sync::Arc;

use super::*;
use crate::allocations::{Allocation, Pairing};
use crate::nodes::{NodeOrder, Taken};
use crate::specs::declaration::DeclaredGroup;
use crate::values::again::written_and_read;
use crate::values::epoch::Growth;

fn own() -> ApplicationSlot {
    ApplicationSlot::at(0)
}

fn vcores(n: i64) -> Resources {
    Resources::of(&[("vcore", n)])
}

struct World {
    book: Application,
    books: Books,
    flight: BundleInFlight,
}

impl World {
    /// Builds a bundle of this many members, which take all of `n0`. Places are held for them
    /// (`is_held`), or they have asks.
    fn new(n_members: i64, is_held: bool) -> Self {
        let mut books = Books::new(NodeOrder::default());
        let node = books.nodes.insert(Arc::from("n0"), vcores(9), vcores(n_members), true).unwrap();
        let workers = DeclaredGroup::new("w", n_members, Some(vcores(1)));
        let mut book = Application::small(Some(workers));
        book.ask_internally(own(), 0, || books.arrival());
        let (_, bundled) = book.undecided_bundle().unwrap();
        let (ask, count) = bundled[0][0];
        let spec = Arc::clone(&book.asks.ask(ask).spec);
        let mut members = Vec::new();
        for _ in 0..count {
            Taken::default().take(&mut books.nodes, node, &vcores(1));
            let mut entry = Allocation::new(own(), Arc::clone(&spec), node, 0, 0);
            entry.change().pairing = Pairing::InBundle;
            let id = books.allocations.insert(entry);
            book.asks.hold_one(ask, id);
            book.held(id, &vcores(1));
            members.push(MemberInFlight::new((id, ask), 0, is_held, true));
        }
        book.native_mut().unwrap().stage = Stage::InFlight;
        Self { book, books, flight: BundleInFlight::new(1, members) }
    }

    fn add_node(&mut self, id: &str) -> NodeSlot {
        self.books.nodes.insert(Arc::from(id), vcores(9), vcores(1), true).unwrap()
    }

    /// Opens the questions about all members that the RM has still to be asked about.
    fn ask(&mut self) -> Vec<u64> {
        let Self { books, flight, .. } = self;
        let mut questions = Vec::new();
        while let Some(at) = flight.next_to_ask() {
            let id = flight.members()[at].id;
            let node = books.allocations.get(id).unwrap().node;
            let candidates = vec![Arc::clone(books.nodes.id(node))];
            let question = books.unsettled.ask((own(), id), candidates, false, Growth::NONE);
            books.allocations.get_mut(id).unwrap().change().question = Some(question);
            flight.asked(at, question);
            questions.push(question);
        }
        questions
    }

    /// Takes an answer, before which all state was written and read.
    fn take(&mut self, question: u64, answer: MemberAnswer) -> Outcome {
        (self.book, self.books) = (written_and_read(&self.book), written_and_read(&self.books));
        self.flight = written_and_read(&self.flight);
        self.flight.take(question, answer, &self.book.asks, &mut self.books, 7)
    }

    fn nodes_of_mates(&mut self) -> Vec<String> {
        let mates = self.flight.mates(&self.books);
        mates.places.iter().map(|place| place.node.to_string()).collect()
    }
}

fn passes(is_assumed: bool) -> MemberAnswer {
    MemberAnswer::Passes { scope: Scope::Node, is_assumed }
}

fn withdrawal(outcome: &Outcome) -> Option<WithdrawReason> {
    match &outcome.next {
        NextStep::Withdraw(withdrawal) => Some(withdrawal.why),
        NextStep::Wait | NextStep::Move(_) => None,
    }
}

#[test]
fn a_bundle_is_settled_once_all_members_pass() {
    let mut world = World::new(2, false);
    let questions = world.ask();
    assert_eq!(world.flight.note(own()).unasked, 0);
    world.take(questions[0], passes(false));
    assert!(!world.flight.has_passed());
    world.take(questions[1], passes(true));
    assert!(world.flight.is_settled());
    let members = world.flight.into_members();
    assert_eq!([0, 1].map(|at| members[at].is_assumed()), [false, true]);
}

#[test]
fn a_refused_member_moves_and_its_mates_stay() {
    let mut world = World::new(2, false);
    let questions = world.ask();
    let other = world.add_node("n1");
    assert_eq!(world.nodes_of_mates(), ["n0", "n0"]);
    let outcome = world.take(questions[0], MemberAnswer::Refused { is_presumed: false });
    let NextStep::Move(moved) = outcome.next else { panic!("{outcome:?}") };
    assert_eq!((outcome.is_refusal, moved.to, moved.from.is_some()), (true, other, true));
    assert_eq!(world.nodes_of_mates(), ["n1", "n0"]);
    assert_eq!(world.ask().len(), 1, "it is asked about there");
}

#[test]
fn a_member_without_another_node_ends_the_bundle() {
    for (is_presumed, why) in [(false, WithdrawReason::Refused), (true, WithdrawReason::Unanswered)]
    {
        let mut world = World::new(1, false);
        let question = world.ask()[0];
        let outcome = world.take(question, MemberAnswer::Refused { is_presumed });
        assert_eq!(withdrawal(&outcome), Some(why));
    }
}

#[test]
fn the_rm_does_not_count_on_held_places() {
    let mut world = World::new(1, true);
    let question = world.ask()[0];
    let outcome = world.take(question, passes(true));
    assert_eq!(outcome.cancelled.as_slice(), [question]);
    assert!(!world.flight.members()[0].is_assumed());
}

#[test]
fn a_bundle_ends_after_the_fourth_void_answer() {
    let mut world = World::new(1, false);
    for nth in 1..=4 {
        let question = world.ask()[0];
        let outcome = world.take(question, MemberAnswer::Void { is_assumed: true });
        assert_eq!(outcome.cancelled.as_slice(), [question]);
        assert_eq!(outcome.is_first_void, nth == 1);
        assert_eq!(withdrawal(&outcome), (nth == 4).then_some(WithdrawReason::Unanswered));
    }
    assert!(world.flight.is_void_since(7) && world.flight.note(own()).stops_offers);
}

#[test]
fn answers_that_a_move_made_void_do_not_count() {
    let mut world = World::new(2, false);
    let questions = world.ask();
    world.add_node("n1");
    world.take(questions[0], MemberAnswer::NotTaken { is_assumed: false });
    let outcome = world.take(questions[1], MemberAnswer::Void { is_assumed: false });
    assert!(!outcome.is_first_void && !world.flight.note(own()).stops_offers);
    assert_eq!(world.ask().len(), 2, "both are asked about again");
}

#[test]
fn a_changed_node_makes_a_pass_void() {
    let mut world = World::new(1, false);
    let question = world.ask()[0];
    world.take(question, passes(true));
    let check = |world: &mut World| {
        let World { book, books, flight } = world;
        flight.check(0, &book.asks, books, 7)
    };
    assert!(check(&mut world).cancelled.is_empty() && world.flight.is_settled());
    let node = world.books.nodes.slot_of("n0").unwrap();
    world.books.unsettled.changed(node);
    assert_eq!(check(&mut world).cancelled.as_slice(), [question]);
    assert!(!world.flight.is_settled());
}

#[test]
fn a_node_that_is_gone_gets_nothing_back() {
    let mut world = World::new(1, false);
    let question = world.ask()[0];
    let (other, gone) = (world.add_node("n1"), world.books.nodes.slot_of("n0"));
    let id = world.flight.members()[0].id;
    let outcome = world.flight.displace(id, gone, &world.book.asks, &mut world.books);
    assert_eq!(outcome.cancelled.as_slice(), [question]);
    let NextStep::Move(moved) = outcome.next else { panic!("{outcome:?}") };
    assert_eq!((moved.from, moved.to), (None, other));
    assert!(world.books.unsettled.get(question).is_none());
}

#[test]
fn a_withdrawn_bundle_leaves_nothing_behind() {
    let mut world = World::new(3, false);
    let questions = world.ask();
    world.take(questions[1], passes(true));
    world.take(questions[2], passes(false));
    let (mut delta, World { mut book, mut books, flight }) = (LedgerDelta::default(), world);
    let withdrawn = flight.withdraw(None, &mut book, &mut books, &mut delta);
    assert_eq!(withdrawn.cancelled, questions[..2], "one is open, and the RM counts on one");
    assert_eq!((withdrawn.returned.len(), books.allocations.len()), (3, 0));
    assert!(book.seeks_places() && book.allocated().is_zero() && book.unsettled.is_empty());
    assert_eq!(delta.pending, vcores(3).into());
    assert!(delta.allocated.same_amount(&vcores(-3)));
}
