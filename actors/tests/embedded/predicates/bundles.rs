//! Declared gangs whose predicates are answered later: all members have places before the first
//! question, and all of them run, or nothing is held.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::{PredicateQuestion, Predicates, Scope, Verdict};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;

use super::shim::{World, failed, passed, play};

/// Plays the story with a maximum of placements that may wait.
fn play_gang<F: Future<Output = ()>>(in_flight: usize, story: impl FnOnce(World) -> F) {
    play("{name: a}, {name: b}", in_flight, story);
}

/// A gang of `members` members of two cores, of which `keys` have asked before any node exists.
async fn gang(world: &World, members: i32, keys: &[&str]) {
    world.declared("gang", "root.a", members, 2).await;
    for key in keys {
        world.member("gang", key, 2).await;
    }
    assert_eq!(world.received().await, ["gang Accepted"]);
}

/// Open questions, as key and node.
fn open(world: &World) -> Vec<String> {
    let words = |open: PredicateQuestion| format!("{} on {}", open.key, open.nodes[0]);
    world.shim.open().into_iter().map(words).collect()
}

/// Places of a question's gang.
fn places(question: &PredicateQuestion) -> Vec<String> {
    let places = &question.bundle.as_ref().unwrap().places;
    places.iter().map(|place| format!("{} on {}", place.key, place.node)).collect()
}

/// Number of allocations of the gang, and of places held for it.
async fn real_and_held(world: &World) -> (usize, usize) {
    let applications = world.scheduler.applications("default", "root.a").await.unwrap();
    let gang = applications.into_iter().find(|it| it.application_id == "gang").unwrap();
    let held = gang.allocations.iter().filter(|allocation| allocation.internal).count();
    (gang.allocations.len() - held, held)
}

fn passed_and_assumed(scope: Scope) -> Verdict {
    Verdict::Passed { position: 0, scope, assumed: true }
}

async fn seconds(number: u64) {
    tokio::time::sleep(Duration::from_secs(number)).await;
}

/// All members are charged at once, and no notification is sent before the last answer.
#[test]
fn all_members_have_places_before_the_first_question() {
    play_gang(64, |world| async move {
        gang(&world, 3, &["m1", "m2"]).await;
        world.nodes(2, 4).await;
        assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
        let open = world.shim.open();
        assert_eq!(places(&open[0]), ["m1 on n001", "m2 on n002"]);
        assert_eq!(open[0].bundle, open[1].bundle);
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((6, 0), (0, 0)));
        world.shim.answer([(2, passed(Scope::Topology))]);
        assert!(world.received().await.is_empty());
        world.shim.answer([(1, passed(Scope::Topology))]);
        assert_eq!(world.received().await, ["gang Running", "m1 on n001", "m2 on n002"]);
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((6, 0), (2, 1)));
    });
}

#[test]
fn a_window_of_one_asks_members_in_turn() {
    play_gang(1, |world| async move {
        gang(&world, 3, &["m1", "m2"]).await;
        world.nodes(2, 4).await;
        assert_eq!(world.received().await, ["1 m1? n001"]);
        assert_eq!(world.used_and_pending().await, (6, 0), "all are charged");
        world.shim.answer([(1, passed(Scope::Topology))]);
        assert_eq!(world.received().await, ["2 m2? n002"]);
        world.shim.answer([(2, passed(Scope::Topology))]);
        assert_eq!(world.received().await, ["gang Running", "m1 on n001", "m2 on n002"]);
    });
}

/// Places are found for all of a gang, but no more questions are sent than may wait: neither its
/// own, nor those of later applications in the same offer.
#[test]
fn open_questions_are_bounded_by_the_window() {
    for in_flight in [1, 2, 3, 4, 6, 8] {
        play_gang(in_flight, |world| async move {
            gang(&world, 3, &["m1", "m2", "m3"]).await;
            world.app("other", "root.a").await;
            world.ask_many("other", "o", 1, 5).await;
            world.run().await;
            world.node("n1", 20).await;
            let mut answered = 0;
            while answered < 8 {
                world.run().await;
                let open = world.shim.open_ids();
                assert!((1..=in_flight).contains(&open.len()), "{in_flight}: {open:?}");
                answered += open.len();
                world.shim.answer_all(&passed(Scope::Static));
            }
            world.run().await;
            assert_eq!((world.used_and_pending().await, answered), ((11, 0), 8));
        });
    }
}

#[test]
fn a_refused_member_moves_and_its_mates_are_notified() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.nodes(3, 2).await;
        assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(1, failed())]);
        assert_eq!(world.received().await, ["3 m1? n003"]);
        let moved = world.shim.open().pop().unwrap();
        assert_eq!(places(&moved), ["m1 on n003", "m2 on n002"]);
        assert_eq!(world.used_and_pending().await, (4, 0));
        world.shim.answer([(2, passed(Scope::Node)), (3, passed(Scope::Node))]);
        assert_eq!(world.received().await, ["gang Running", "m1 on n003", "m2 on n002"]);
    });
}

/// `m2` gets the place that `m1` was refused, and `m1` gets the third node.
#[test]
fn members_refused_together_may_swap_places() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.nodes(3, 2).await;
        assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(1, failed()), (2, failed())]);
        assert_eq!(world.received().await, ["3 m1? n003", "4 m2? n001"]);
        world.shim.answer_all(&passed(Scope::Topology));
        assert_eq!(world.received().await, ["gang Running", "m1 on n003", "m2 on n001"]);
    });
}

/// After the refusal nothing stays charged, there is no busy loop, and the gang is not woken by its
/// own released places.
#[test]
fn a_member_refused_everywhere_releases_all_places_for_a_while() {
    play_gang(64, |world| async move {
        gang(&world, 3, &["m1", "m2"]).await;
        world.nodes(3, 2).await;
        assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(1, failed())]);
        assert!(world.received().await.is_empty() || world.shim.open_ids() != [2]);
        // Of three nodes one is the place of m2 and one is held: there is no other for m1.
        assert_eq!(world.shim.open_ids(), Vec::<u64>::new());
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((0, 6), (0, 0)));
        world.shim.answer([(2, passed_and_assumed(Scope::Topology))]);
        assert!(world.received().await.is_empty(), "a late answer is dropped");
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert!(world.received().await.is_empty(), "not yet");
        for wait in [1, 2, 4] {
            seconds(wait).await;
            let [first, second] = world.shim.open_ids()[..] else { panic!("both are asked about") };
            assert_eq!(open(&world), ["m1 on n001", "m2 on n002"]);
            world.shim.answer([(second, passed(Scope::Static)), (first, failed())]);
            world.run().await;
            assert!(world.shim.open_ids().is_empty());
            assert_eq!(world.used_and_pending().await, (0, 6));
        }
        world.shim.received();
        // A new node is a reason to try again at once.
        world.node("n004", 2).await;
        world.run().await;
        assert_eq!(open(&world).len(), 2);
        let id = |key: &str| world.shim.open().iter().find(|it| &*it.key == key).unwrap().id.0;
        world.shim.answer([(id("m2"), passed(Scope::Static)), (id("m1"), failed())]);
        world.run().await;
        world.shim.answer([(id("m1"), passed(Scope::Static))]);
        let received = world.received().await;
        assert!(received.contains(&"gang Running".to_owned()), "{received:?}");
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((6, 0), (2, 1)));
    });
}

/// If every answer depends on everything, placements of other applications make all of them void.
/// So nothing is placed for others from the first void answer on.
#[test]
fn a_gang_settles_on_answers_that_depend_on_everything() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.app("other", "root.b").await;
        for node in ["n003", "n004", "n005"] {
            world.node(node, 1).await;
        }
        world.run().await;
        world.nodes(2, 2).await;
        assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
        world.ask("other", "o1", 1).await;
        world.ask("other", "o2", 1).await;
        assert_eq!(world.received().await, ["other Accepted", "3 o1? n003", "4 o2? n004"]);
        world.shim.answer([(3, passed(Scope::Topology))]);
        assert_eq!(world.received().await, ["other Running", "o1 on n003"]);
        world.shim.answer([(1, passed(Scope::Topology))]);
        assert_eq!(world.received().await, ["5 m1? n001"], "o1 came in between");
        world.ask("other", "o3", 1).await;
        assert!(world.received().await.is_empty(), "nothing else is placed");
        world.shim.answer([(2, passed(Scope::Topology)), (4, passed(Scope::Topology))]);
        assert_eq!(world.received().await, ["6 m2? n002"], "o2 is void, too, and waits");
        world.shim.answer([(5, passed(Scope::Topology)), (6, passed(Scope::Topology))]);
        let received = world.received().await;
        assert_eq!(received[..3], ["gang Running", "m1 on n001", "m2 on n002"]);
        let mut others: Vec<_> = received[3..].iter().map(|word| &word[2..4]).collect();
        others.sort_unstable();
        assert_eq!(others, ["o2", "o3"], "{received:?}");
    });
}

/// The answers were valid on arrival. Before the last one arrives, an allocation of another
/// application is placed, which may make the first one void.
#[test]
fn an_answer_void_before_the_last_is_asked_again() {
    for (scope, other_node, is_void) in [
        (Scope::Topology, "n002", true),
        (Scope::Node, "n001", true),
        (Scope::Node, "n002", false),
        (Scope::Static, "n001", false),
        (Scope::Elsewhere(Arc::default()), "n002", true),
    ] {
        play_gang(64, |world| async move {
            gang(&world, 2, &["m1", "m2"]).await;
            world.app("other", "root.b").await;
            world.run().await;
            world.nodes(2, 3).await;
            assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
            world.shim.answer([(1, passed(scope.clone()))]);
            world.ask_on("other", "o1", 1, other_node).await;
            assert_eq!(world.received().await[1..], [format!("3 o1? {other_node}")]);
            world.shim.answer([(3, passed(Scope::Static))]);
            assert_eq!(world.received().await, ["other Running", &format!("o1 on {other_node}")]);
            world.shim.answer([(2, passed(Scope::Static))]);
            if is_void {
                assert_eq!(world.received().await, ["4 m1? n001"], "{scope:?} {other_node}");
                world.ask("other", "o2", 1).await;
                assert!(world.received().await.is_empty(), "nothing else is placed meanwhile");
                world.shim.answer([(4, passed(scope))]);
            }
            let received = world.received().await;
            assert_eq!(received[..3], ["gang Running", "m1 on n001", "m2 on n002"]);
        });
    }
}

/// The RM has assumed a member: before it is asked again it is notified to forget it.
#[test]
fn a_void_assumption_is_withdrawn_before_the_next_question() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.nodes(2, 3).await;
        world.run().await;
        world.shim.answer([(1, passed_and_assumed(Scope::Topology))]);
        world.run().await;
        // A new node may change the basis of an answer.
        world.node("n003", 9).await;
        world.run().await;
        world.shim.answer([(2, passed_and_assumed(Scope::Static))]);
        assert_eq!(world.received().await, ["1 withdrawn", "3 m1? n001"]);
        world.shim.answer([(3, passed_and_assumed(Scope::Topology))]);
        assert_eq!(world.received().await, ["gang Running", "m1 on n001", "m2 on n002"]);
    });
}

/// Reports of the RM are booked even without free capacity: a member that passed there before has
/// to move, whatever its answer depends on.
#[test]
fn a_passed_member_whose_capacity_was_taken_moves() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.app("other", "root.b").await;
        world.run().await;
        world.nodes(3, 2).await;
        assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(1, passed_and_assumed(Scope::Static))]);
        world.run().await;
        world.request("other", "o1", 1, "n001").await;
        assert_eq!(world.received().await, ["other Accepted", "other Running", "o1 on n001"]);
        world.shim.answer([(2, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["1 withdrawn", "3 m1? n003"]);
        world.shim.answer([(3, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["gang Running", "m1 on n003", "m2 on n002"]);
    });
}

/// Each move makes answers void that depend on everything. That does not count against the answers,
/// and the gang continues until a node is found for each member.
#[test]
fn moves_of_mates_are_no_void_answers() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.app("other", "root.b").await;
        world.run().await;
        world.nodes(8, 2).await;
        assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
        let mut moves = 0;
        loop {
            let open = world.shim.open();
            let answer = |question: &PredicateQuestion| {
                let refuses = &*question.key == "m1" && &*question.nodes[0] < "n008";
                (question.id.0, if refuses { failed() } else { passed(Scope::Topology) })
            };
            let answers: Vec<_> = open.iter().map(answer).collect();
            moves += answers.iter().filter(|(_, verdict)| *verdict == failed()).count();
            world.shim.answer(answers);
            let received = world.received().await;
            if received.contains(&"gang Running".to_owned()) {
                break;
            }
            assert!(moves < 7, "{received:?}");
            if moves == 4 {
                // Other applications continue.
                world.ask("other", "o1", 1).await;
                let received = world.received().await;
                assert!(received.iter().any(|word| word.contains("o1?")), "{received:?}");
                let o1 = world.shim.open().into_iter().find(|it| &*it.key == "o1").unwrap();
                world.shim.answer([(o1.id.0, failed())]);
                world.run().await;
            }
        }
        assert_eq!(moves, 6, "all nodes but two refuse it, and one is its mate's");
        assert_eq!(real_and_held(&world).await, (2, 0));
    });
}

/// A question without an answer is repeated. After the fourth missing answer all places are
/// released.
#[test]
fn four_missing_answers_release_all_places() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.nodes(2, 2).await;
        assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(2, passed(Scope::Static))]);
        for number in [1, 3, 4] {
            world.shim.answer([(number, Verdict::Unanswered)]);
            assert_eq!(world.received().await, [format!("{} m1? n001", number.max(2) + 1)]);
        }
        world.shim.answer([(5, Verdict::Unanswered)]);
        assert!(world.received().await.is_empty());
        assert_eq!(world.used_and_pending().await, (0, 4));
        seconds(1).await;
        assert_eq!(world.received().await, ["6 m1? n001", "7 m2? n002"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.received().await, ["gang Running", "m1 on n001", "m2 on n002"]);
    });
}

#[test]
fn all_places_end_thirty_seconds_after_a_void_answer() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.app("other", "root.b").await;
        world.run().await;
        world.nodes(2, 2).await;
        assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
        seconds(60).await;
        assert!(world.received().await.is_empty(), "a slow answer is none that is void");
        world.shim.answer([(1, Verdict::Unanswered)]);
        assert_eq!(world.received().await, ["3 m1? n001"]);
        world.ask("other", "o1", 0).await;
        seconds(29).await;
        assert!(world.received().await.is_empty());
        seconds(1).await;
        let received = world.received().await;
        assert_eq!(received[..2], ["2 withdrawn", "3 withdrawn"], "{received:?}");
        // Other applications have their turn until the gang is tried again.
        assert!(received[2..].iter().all(|word| word.contains("o1?")), "{received:?}");
        assert_eq!(world.used_and_pending().await.1, 4);
    });
}

/// The places of the gang are found again later.
#[test]
fn without_a_callback_all_places_are_released() {
    for stop in [true, false] {
        play_gang(64, |world| async move {
            gang(&world, 3, &["m1", "m2"]).await;
            world.nodes(2, 4).await;
            assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
            world.shim.answer([(2, passed_and_assumed(Scope::Static))]);
            world.run().await;
            if stop {
                world.control.hold(true);
            } else {
                world.control.set_predicates(Predicates::Hold);
            }
            assert_eq!(world.received().await, ["1 withdrawn", "2 withdrawn"]);
            assert_eq!(world.used_and_pending().await, (0, 6));
            world.shim.answer([(1, passed(Scope::Static))]);
            seconds(60).await;
            assert!(world.received().await.is_empty());
            if stop {
                world.control.hold(false);
            } else {
                world.control.set_predicates(Predicates::Remote { in_flight: 64, holds: false });
            }
            assert_eq!(world.received().await, ["3 m1? n001", "4 m2? n002"]);
            world.control.set_predicates(Predicates::Local);
            let received = world.received().await;
            assert_eq!(received[..2], ["3 withdrawn", "4 withdrawn"]);
            assert_eq!(received[2..4], ["m1 asked at once", "m2 asked at once"]);
            assert_eq!(received[4..], ["gang Running", "m1 on n001", "m2 on n002"]);
        });
    }
}

/// Both gangs fit, and neither waits for the other's places for ever.
#[test]
fn two_gangs_are_asked_about_in_turn() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.declared("second", "root.b", 2, 2).await;
        world.member("second", "s1", 2).await;
        world.run().await;
        world.nodes(2, 3).await;
        assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
        world.node("n003", 4).await;
        assert!(world.received().await.is_empty());
        assert_eq!(world.used_and_pending().await, (4, 4));
        // The gang that was refused everywhere gives the other its turn.
        world.shim.answer([(1, failed())]);
        assert_eq!(world.received().await, ["3 m1? n003"]);
        world.shim.answer([(3, failed())]);
        let received = world.received().await;
        assert_eq!(received, ["2 withdrawn", "4 s1? n001"]);
        assert_eq!(world.used_and_pending().await, (4, 4));
        seconds(1).await;
        assert!(world.received().await.is_empty(), "the first waits for its turn");
        world.shim.answer([(4, passed(Scope::Topology))]);
        let received = world.received().await;
        assert_eq!(received[..2], ["second Running", "s1 on n001"]);
        assert_eq!(open(&world).len(), 2, "and has it: {received:?}");
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.received().await[0], "gang Running");
        assert_eq!(world.used_and_pending().await, (8, 0));
    });
}

/// Two gangs need the same nodes: one runs, and the other holds nothing.
#[test]
fn of_two_competing_gangs_one_waits_for_the_other() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.declared("second", "root.b", 2, 2).await;
        world.member("second", "s1", 2).await;
        world.run().await;
        world.nodes(2, 2).await;
        world.run().await;
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.received().await, ["gang Running", "m1 on n001", "m2 on n002"]);
        assert_eq!(world.used_and_pending().await, (4, 4));
        world.remove_app("gang").await;
        let received = world.received().await;
        assert!(received.last().unwrap().contains("s1? n001"), "{received:?}");
    });
}

/// A gang of three that is being placed: `m2` has passed on n002, the question about `m1` on n001
/// is open, and a place is held on n003. n004 and n005 are free. Then `story` happens.
fn in_the_air<F: Future<Output = ()>>(story: impl FnOnce(Rc<World>) -> F) {
    play_gang(64, |world| async move {
        let world = Rc::new(world);
        gang(&world, 3, &["m1", "m2"]).await;
        world.nodes(3, 2).await;
        assert_eq!(world.received().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(2, passed_and_assumed(Scope::Static))]);
        world.node("n004", 4).await;
        world.node("n005", 4).await;
        assert!(world.received().await.is_empty());
        story(world).await;
    });
}

/// Answers all questions until the gang runs; returns the notifications.
async fn let_it_run(world: &World) -> Vec<String> {
    let mut received = world.received().await;
    while !received.contains(&"gang Running".to_owned()) {
        assert!(!world.shim.open_ids().is_empty(), "{received:?}");
        world.shim.answer_all(&passed(Scope::Topology));
        received.extend(world.received().await);
    }
    received
}

#[test]
fn a_member_withdrawn_in_flight_becomes_a_held_place() {
    in_the_air(|world| async move {
        world.withdraw("gang", "m2").await;
        let received = let_it_run(&world).await;
        assert!(
            received.contains(&"2 withdrawn".to_owned()),
            "what was assumed is not: {received:?}"
        );
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((6, 0), (1, 2)));
        world.member("gang", "m3", 2).await;
        let asked = world.received().await;
        assert!(asked[0].contains("m3?") && asked[0].ends_with("in place"), "{asked:?}");
    });
}

#[test]
fn a_gang_without_asks_has_no_questions() {
    in_the_air(|world| async move {
        world.withdraw("gang", "").await;
        let received = world.received().await;
        assert_eq!(received, ["1 withdrawn", "2 withdrawn", "gang Running"]);
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((6, 0), (0, 3)));
    });
}

#[test]
fn a_member_arriving_in_flight_takes_a_held_place() {
    in_the_air(|world| async move {
        world.member("gang", "m3", 2).await;
        world.member("gang", "m4", 2).await;
        world.ask("gang", "free", 1).await;
        assert!(world.received().await.is_empty(), "they wait");
        assert_eq!(world.used_and_pending().await, (6, 5));
        world.shim.answer([(1, passed(Scope::Static))]);
        let received = world.received().await;
        assert_eq!(received[..3], ["gang Running", "m1 on n001", "m2 on n002"]);
        let held = |word: &&String| word.ends_with("in place");
        let in_place: Vec<_> = received.iter().filter(held).map(|word| &word[2..4]).collect();
        assert_eq!(in_place, ["m3"], "one place is held: {received:?}");
        while !world.shim.open_ids().is_empty() {
            world.shim.answer_all(&passed(Scope::Static));
            world.run().await;
        }
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((9, 0), (5, 0)));
    });
}

/// The questions about the whole gang are repeated with its new size.
#[test]
fn a_member_changed_in_flight_is_asked_about_again() {
    in_the_air(|world| async move {
        world.request("gang", "m1", 3, "").await;
        let received = let_it_run(&world).await;
        assert_eq!(received.iter().filter(|word| word.contains("m1?")).count(), 1, "{received:?}");
        assert!(received.contains(&"1 withdrawn".to_owned()), "{received:?}");
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((7, 0), (2, 1)));
    });
    in_the_air(|world| async move {
        // The member is larger than any node: the whole gang waits.
        world.request("gang", "m1", 5, "").await;
        assert_eq!(world.received().await, ["1 withdrawn", "2 withdrawn"]);
        assert_eq!(world.used_and_pending().await, (0, 9));
        world.request("gang", "m1", 1, "").await;
        let_it_run(&world).await;
        assert_eq!(world.used_and_pending().await, (5, 0));
    });
}

/// The node is removed, drained or shrunk while a member is in flight on it.
#[test]
fn a_lost_node_in_flight_moves_its_member() {
    type Change = fn(&World) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>>;
    let changes: [Change; 5] = [
        |world| Box::pin(world.act("n001", ActionFromRm::Decomission)),
        |world| Box::pin(world.act("n001", ActionFromRm::DrainNode)),
        |world| Box::pin(world.change_node("n001", None, false)),
        |world| Box::pin(world.change_node("n001", Some(1), true)),
        // On this node only a place is held.
        |world| Box::pin(world.act("n003", ActionFromRm::Decomission)),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        in_the_air(|world| async move {
            change(&world).await;
            let received = let_it_run(&world).await;
            let gone = if at == 4 { "n003" } else { "n001" };
            assert!(
                !received.iter().any(|word| word.contains(&format!("on {gone}"))),
                "{received:?}"
            );
            // Only the moving member has a new question, not the mate that passed.
            let asked = received.iter().filter(|it| it.contains("? n"));
            let asked = asked.filter_map(|it| it.split_once(' '));
            let asked: BTreeSet<_> = asked.map(|(_, of)| of).collect();
            let to = if at == 4 { "m1? n001" } else { "m1? n004" };
            assert_eq!(asked, BTreeSet::from([to]), "{at}: {received:?}");
            assert_eq!(real_and_held(&world).await, (2, 1), "{at}: {received:?}");
            assert_eq!(world.used_and_pending().await, (6, 0));
        });
    }
    // Without free capacity elsewhere nothing is held, and a node that is opened again is enough.
    in_the_air(|world| async move {
        for node in ["n004", "n005", "n003"] {
            world.change_node(node, Some(0), true).await;
        }
        world.run().await;
        assert!(world.shim.open_ids().is_empty());
        assert_eq!(world.used_and_pending().await, (0, 6));
        world.change_node("n004", Some(4), true).await;
        let_it_run(&world).await;
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((6, 0), (2, 1)));
    });
}

/// The member stays on its required node while that drains, and moves nowhere else.
#[test]
fn a_member_with_a_required_node_stays_there() {
    let tag = ("yunikorn.apache.org/requiredNode".to_owned(), "n002".to_owned());
    let required = si::AllocationAsk {
        allocation_key: "m1".to_owned(),
        application_id: "gang".to_owned(),
        task_group_name: "g".to_owned(),
        max_allocations: 1,
        resource_ask: Some(super::shim::resource(2)),
        tags: [tag].into(),
        ..Default::default()
    };
    let launch = |in_flight, story: fn(World) -> std::pin::Pin<Box<dyn Future<Output = ()>>>| {
        let required = required.clone();
        play_gang(in_flight, |world| async move {
            gang(&world, 2, &[]).await;
            world.ask_for(required).await;
            world.node("n001", 9).await;
            assert!(world.received().await.is_empty(), "its node is not there");
            world.node("n002", 2).await;
            assert_eq!(world.received().await, ["1 m1? n002"]);
            story(world).await;
        });
    };
    launch(64, |world| {
        Box::pin(async move {
            world.act("n002", ActionFromRm::DrainNode).await;
            assert!(world.received().await.is_empty());
            world.shim.answer([(1, passed(Scope::Topology))]);
            assert_eq!(world.received().await, ["gang Running", "m1 on n002"]);
            assert_eq!(real_and_held(&world).await, (1, 1));
        })
    });
    launch(1, |world| {
        Box::pin(async move {
            world.shim.answer([(1, failed())]);
            assert_eq!(
                world.received().await,
                Vec::<String>::new(),
                "there is no other node for it"
            );
            assert_eq!(world.used_and_pending().await, (0, 4));
            seconds(1).await;
            assert_eq!(world.received().await, ["2 m1? n002"]);
            world.act("n002", ActionFromRm::Decomission).await;
            assert_eq!(world.received().await, ["2 withdrawn"]);
            seconds(60).await;
            assert!(world.received().await.is_empty());
            world.node("n002", 2).await;
            assert_eq!(world.received().await, ["3 m1? n002"]);
        })
    });
}

#[test]
fn an_application_removed_in_flight_leaves_nothing() {
    in_the_air(|world| async move {
        world.remove_app("gang").await;
        let received = world.received().await;
        assert_eq!(received, ["1 withdrawn", "2 withdrawn", "m1 given up", "m2 given up"]);
        assert_eq!(world.used_and_pending().await, (0, 0));
        world.declared("gang", "root.a", 1, 2).await;
        world.member("gang", "m1", 2).await;
        let_it_run(&world).await;
    });
}

/// A member reported as running was decided before, by an earlier scheduler.
#[test]
fn a_member_reported_in_flight_decides_the_gang() {
    in_the_air(|world| async move {
        world.request("gang", "m2", 2, "n003").await;
        let received = world.received().await;
        assert_eq!(received[..2], ["1 withdrawn", "2 withdrawn"]);
        assert!(received.contains(&"gang Running".to_owned()), "{received:?}");
        world.shim.answer_all(&passed(Scope::Static));
        world.run().await;
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((4, 0), (2, 0)));
    });
}

/// The place that is asked about stays when the other places expire. If the answer refuses it, it
/// ends.
#[test]
fn a_place_in_question_is_held_until_the_answer() {
    for passes in [true, false] {
        play_gang(64, |world| async move {
            world.nodes(2, 2).await;
            world.declared_for("gang", "root.a", (2, 2), 5_000).await;
            assert_eq!(world.received().await, ["gang Accepted", "gang Running"]);
            world.member("gang", "m1", 2).await;
            assert_eq!(world.received().await, ["1 m1? n001 in place"]);
            seconds(5).await;
            assert!(world.received().await.is_empty());
            assert_eq!(
                (world.used_and_pending().await, real_and_held(&world).await),
                ((2, 0), (0, 1))
            );
            world.shim.answer([(1, if passes { passed(Scope::Static) } else { failed() })]);
            let received = world.received().await;
            if passes {
                assert_eq!(received, ["m1 on n001"]);
                assert_eq!(real_and_held(&world).await, (1, 0));
            } else {
                assert_eq!(real_and_held(&world).await, (0, 0));
                let (last, nothing) = received.split_last().unwrap();
                assert!(nothing.is_empty() && last.starts_with("2 m1? n00"), "{received:?}");
                assert!(!last.ends_with("in place"), "as any other: {received:?}");
            }
            assert_eq!(world.used_and_pending().await, (2, 0));
        });
    }
}

/// The excluded member takes none of the remaining places on that node.
#[test]
fn an_excluded_member_takes_a_held_place_elsewhere() {
    in_the_air(|world| async move {
        world.shim.answer([(1, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["gang Running", "m1 on n001", "m2 on n002"]);
        assert_eq!(real_and_held(&world).await, (2, 1));
        world.refuse_for_good("gang", "m1").await;
        seconds(1).await;
        assert_eq!(world.received().await, ["3 m1? n003 in place"]);
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((4, 0), (1, 1)));
        world.shim.answer([(3, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["m1 on n003"]);
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((4, 0), (2, 0)));
        // No place is held for it any more, and it may not return to its node.
        world.refuse_for_good("gang", "m1").await;
        seconds(2).await;
        assert_eq!(world.received().await, ["4 m1? n004"]);
    });
}

/// A refusal for lack of an answer does not count as a refusal.
#[test]
fn a_presumed_refusal_counts_as_unanswered() {
    play_gang(64, |world| async move {
        gang(&world, 1, &["m1"]).await;
        world.nodes(2, 2).await;
        world.run().await;
        let count = |outcome| world.count("monoceros_predicate_answers_total", outcome);
        let reasons = vec![("no answer".to_owned(), 1)];
        world.shim.answer([(1, Verdict::Presumed { reasons })]);
        assert_eq!(world.received().await, ["2 m1? n002"]);
        world.shim.answer([(2, failed())]);
        world.run().await;
        assert!((count("unanswered") - 1.0).abs() < 0.1 && (count("failed") - 1.0).abs() < 0.1);
    });
}

/// The question about a member has to be repeated when another application uses the only place in
/// the window. The member is asked about when that place is free, for whatever reason.
fn after_void<F: Future<Output = ()>>(happens: impl FnOnce(Rc<World>) -> F) {
    play_gang(2, |world| async move {
        let world = Rc::new(world);
        gang(&world, 1, &["m1"]).await;
        world.app("other", "root.b").await;
        world.ask_on("other", "o1", 1, "n2").await;
        world.node("n2", 1).await;
        assert_eq!(world.received().await, ["other Accepted", "1 o1? n2"]);
        world.node("n1", 4).await;
        assert_eq!(world.received().await, ["2 m1? n1"]);
        world.shim.answer([(2, Verdict::Unanswered)]);
        assert!(world.received().await.is_empty(), "one may wait now, and that is the other");
        happens(Rc::clone(&world)).await;
        let words = world.received().await;
        assert_eq!(words.last().map(String::as_str), Some("3 m1? n1"), "{words:?}");
        world.shim.answer([(3, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["gang Running", "m1 on n1"]);
    });
}

#[test]
fn withdrawn_questions_free_the_window_for_members() {
    after_void(|world| async move { world.withdraw("other", "o1").await });
    after_void(|world| async move { world.remove_app("other").await });
    after_void(|world| async move { world.act("n2", ActionFromRm::Decomission).await });
}
