//! Declared gangs whose predicates are answered later: all members have their places before the first
//! is asked about, and all of them run, or nothing is held.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::{PredicateQuestion, Predicates, Scope, Verdict};
use monoceros_proto::si::v1 as si;
use monoceros_proto::si::v1::node_info::ActionFromRm;

use super::shim::{World, failed, passed, play};

/// The story, with so many placements that may wait.
fn play_gang<F: Future<Output = ()>>(in_flight: usize, story: impl FnOnce(World) -> F) {
    play("{name: a}, {name: b}", in_flight, story);
}

/// A gang of so many members of two cores, of which these are asked for before any node is there.
async fn gang(world: &World, members: i32, keys: &[&str]) {
    world.declared("gang", "root.a", members, 2).await;
    for key in keys {
        world.member("gang", key, 2).await;
    }
    assert_eq!(world.heard().await, ["gang Accepted"]);
}

/// What was asked, as key and node.
fn open(world: &World) -> Vec<String> {
    let words = |open: PredicateQuestion| format!("{} on {}", open.key, open.nodes[0]);
    world.shim.open().into_iter().map(words).collect()
}

/// The places of a question's gang.
fn places(question: &PredicateQuestion) -> Vec<String> {
    let places = &question.bundle.as_ref().unwrap().places;
    places.iter().map(|place| format!("{} on {}", place.key, place.node)).collect()
}

/// How many allocations the gang has, and how many places are held for it.
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

/// Everything is charged at once, and nothing is told before the last answer.
#[test]
fn all_members_have_places_before_the_first_is_asked_about_and_run_once_the_last_has_passed() {
    play_gang(64, |world| async move {
        gang(&world, 3, &["m1", "m2"]).await;
        world.nodes(2, 4).await;
        assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
        let open = world.shim.open();
        assert_eq!(places(&open[0]), ["m1 on n001", "m2 on n002"]);
        assert_eq!(open[0].bundle, open[1].bundle);
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((6, 0), (0, 0)));
        world.shim.answer([(2, passed(Scope::Topology))]);
        assert!(world.heard().await.is_empty());
        world.shim.answer([(1, passed(Scope::Topology))]);
        assert_eq!(world.heard().await, ["gang Running", "m1 on n001", "m2 on n002"]);
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((6, 0), (2, 1)));
    });
}

#[test]
fn with_one_question_at_a_time_members_are_asked_about_one_after_the_other() {
    play_gang(1, |world| async move {
        gang(&world, 3, &["m1", "m2"]).await;
        world.nodes(2, 4).await;
        assert_eq!(world.heard().await, ["1 m1? n001"]);
        assert_eq!(world.used_and_pending().await, (6, 0), "all are charged");
        world.shim.answer([(1, passed(Scope::Topology))]);
        assert_eq!(world.heard().await, ["2 m2? n002"]);
        world.shim.answer([(2, passed(Scope::Topology))]);
        assert_eq!(world.heard().await, ["gang Running", "m1 on n001", "m2 on n002"]);
    });
}

/// Places are found for all of a gang, but no more questions leave than may wait: neither its own,
/// nor those of whoever comes after it in the same offer.
#[test]
fn no_more_questions_are_open_than_the_window_lets() {
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
fn a_member_that_is_refused_moves_to_another_node_and_its_mates_hear_of_that() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.nodes(3, 2).await;
        assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(1, failed())]);
        assert_eq!(world.heard().await, ["3 m1? n003"]);
        let moved = world.shim.open().pop().unwrap();
        assert_eq!(places(&moved), ["m1 on n003", "m2 on n002"]);
        assert_eq!(world.used_and_pending().await, (4, 0));
        world.shim.answer([(2, passed(Scope::Node)), (3, passed(Scope::Node))]);
        assert_eq!(world.heard().await, ["gang Running", "m1 on n003", "m2 on n002"]);
    });
}

/// Each has what the other leaves, and the third node is not needed by both.
#[test]
fn members_that_are_refused_together_may_have_each_others_places() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.nodes(3, 2).await;
        assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(1, failed()), (2, failed())]);
        assert_eq!(world.heard().await, ["3 m1? n003", "4 m2? n001"]);
        world.shim.answer_all(&passed(Scope::Topology));
        assert_eq!(world.heard().await, ["gang Running", "m1 on n003", "m2 on n001"]);
    });
}

/// Nothing is charged, nobody spins, and the gang does not wake itself with what it gives back.
#[test]
fn a_member_that_every_node_refuses_gives_all_places_back_for_a_while() {
    play_gang(64, |world| async move {
        gang(&world, 3, &["m1", "m2"]).await;
        world.nodes(3, 2).await;
        assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(1, failed())]);
        assert!(world.heard().await.is_empty() || world.shim.open_ids() != [2]);
        // Of three nodes one is m2's and one is held: m1 has no other.
        assert_eq!(world.shim.open_ids(), Vec::<u64>::new());
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((0, 6), (0, 0)));
        world.shim.answer([(2, passed_and_assumed(Scope::Topology))]);
        assert!(world.heard().await.is_empty(), "a late answer is dropped");
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert!(world.heard().await.is_empty(), "not yet");
        for wait in [1, 2, 4] {
            seconds(wait).await;
            let [first, second] = world.shim.open_ids()[..] else { panic!("both are asked about") };
            assert_eq!(open(&world), ["m1 on n001", "m2 on n002"]);
            world.shim.answer([(second, passed(Scope::Static)), (first, failed())]);
            world.run().await;
            assert!(world.shim.open_ids().is_empty());
            assert_eq!(world.used_and_pending().await, (0, 6));
        }
        world.shim.heard();
        // A node that comes is a reason to try again at once.
        world.node("n004", 2).await;
        world.run().await;
        assert_eq!(open(&world).len(), 2);
        let id = |key: &str| world.shim.open().iter().find(|it| &*it.key == key).unwrap().id.0;
        world.shim.answer([(id("m2"), passed(Scope::Static)), (id("m1"), failed())]);
        world.run().await;
        world.shim.answer([(id("m1"), passed(Scope::Static))]);
        let heard = world.heard().await;
        assert!(heard.contains(&"gang Running".to_owned()), "{heard:?}");
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((6, 0), (2, 1)));
    });
}

/// Where every answer rests on everything, what others get makes all of them void. So others get
/// nothing from the first void answer on.
#[test]
fn a_gang_settles_on_answers_that_rest_on_everything_while_another_application_is_busy() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.app("other", "root.b").await;
        for node in ["n003", "n004", "n005"] {
            world.node(node, 1).await;
        }
        world.run().await;
        world.nodes(2, 2).await;
        assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
        world.ask("other", "o1", 1).await;
        world.ask("other", "o2", 1).await;
        assert_eq!(world.heard().await, ["other Accepted", "3 o1? n003", "4 o2? n004"]);
        world.shim.answer([(3, passed(Scope::Topology))]);
        assert_eq!(world.heard().await, ["other Running", "o1 on n003"]);
        world.shim.answer([(1, passed(Scope::Topology))]);
        assert_eq!(world.heard().await, ["5 m1? n001"], "o1 came in between");
        world.ask("other", "o3", 1).await;
        assert!(world.heard().await.is_empty(), "nothing else is placed");
        world.shim.answer([(2, passed(Scope::Topology)), (4, passed(Scope::Topology))]);
        assert_eq!(world.heard().await, ["6 m2? n002"], "o2 is void, too, and waits");
        world.shim.answer([(5, passed(Scope::Topology)), (6, passed(Scope::Topology))]);
        let heard = world.heard().await;
        assert_eq!(heard[..3], ["gang Running", "m1 on n001", "m2 on n002"]);
        let mut others: Vec<_> = heard[3..].iter().map(|word| &word[2..4]).collect();
        others.sort_unstable();
        assert_eq!(others, ["o2", "o3"], "{heard:?}");
    });
}

/// The answers were good when they came. Before the last has come others are placed.
#[test]
fn an_answer_that_is_void_by_the_time_the_last_one_comes_is_asked_for_anew() {
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
            assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
            world.shim.answer([(1, passed(scope.clone()))]);
            world.ask_on("other", "o1", 1, other_node).await;
            assert_eq!(world.heard().await[1..], [format!("3 o1? {other_node}")]);
            world.shim.answer([(3, passed(Scope::Static))]);
            assert_eq!(world.heard().await, ["other Running", &format!("o1 on {other_node}")]);
            world.shim.answer([(2, passed(Scope::Static))]);
            if is_void {
                assert_eq!(world.heard().await, ["4 m1? n001"], "{scope:?} {other_node}");
                world.ask("other", "o2", 1).await;
                assert!(world.heard().await.is_empty(), "nothing else is placed meanwhile");
                world.shim.answer([(4, passed(scope))]);
            }
            let heard = world.heard().await;
            assert_eq!(heard[..3], ["gang Running", "m1 on n001", "m2 on n002"]);
        });
    }
}

/// The RM counts on a member that it assumed: before it is asked anew it hears that it must not.
#[test]
fn an_assumption_that_is_void_by_then_is_taken_back_before_the_member_is_asked_about_anew() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.nodes(2, 3).await;
        world.run().await;
        world.shim.answer([(1, passed_and_assumed(Scope::Topology))]);
        world.run().await;
        // A node that comes may change what an answer rests on.
        world.node("n003", 9).await;
        world.run().await;
        world.shim.answer([(2, passed_and_assumed(Scope::Static))]);
        assert_eq!(world.heard().await, ["1 withdrawn", "3 m1? n001"]);
        world.shim.answer([(3, passed_and_assumed(Scope::Topology))]);
        assert_eq!(world.heard().await, ["gang Running", "m1 on n001", "m2 on n002"]);
    });
}

/// What the RM reports is taken over even where there is no room: a member that passed there before
/// has to go elsewhere, whatever its answer rests on.
#[test]
fn a_member_whose_room_was_taken_since_it_passed_moves() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.app("other", "root.b").await;
        world.run().await;
        world.nodes(3, 2).await;
        assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(1, passed_and_assumed(Scope::Static))]);
        world.run().await;
        world.request("other", "o1", 1, "n001").await;
        assert_eq!(world.heard().await, ["other Accepted", "other Running", "o1 on n001"]);
        world.shim.answer([(2, passed(Scope::Static))]);
        assert_eq!(world.heard().await, ["1 withdrawn", "3 m1? n003"]);
        world.shim.answer([(3, passed(Scope::Static))]);
        assert_eq!(world.heard().await, ["gang Running", "m1 on n003", "m2 on n002"]);
    });
}

/// Each move makes void what rests on everything. That is no fault of the answers, and the gang goes
/// on until a node is found for each member.
#[test]
fn moves_of_mates_do_not_count_as_void_answers() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.app("other", "root.b").await;
        world.run().await;
        world.nodes(8, 2).await;
        assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
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
            let heard = world.heard().await;
            if heard.contains(&"gang Running".to_owned()) {
                break;
            }
            assert!(moves < 7, "{heard:?}");
            if moves == 4 {
                // Others go on meanwhile.
                world.ask("other", "o1", 1).await;
                let heard = world.heard().await;
                assert!(heard.iter().any(|word| word.contains("o1?")), "{heard:?}");
                let o1 = world.shim.open().into_iter().find(|it| &*it.key == "o1").unwrap();
                world.shim.answer([(o1.id.0, failed())]);
                world.run().await;
            }
        }
        assert_eq!(moves, 6, "all nodes but two refuse it, and one is its mate's");
        assert_eq!(real_and_held(&world).await, (2, 0));
    });
}

/// Who was asked and did not answer is asked again, but not for ever.
#[test]
fn a_member_without_an_answer_that_counts_four_times_gives_all_places_back() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.nodes(2, 2).await;
        assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(2, passed(Scope::Static))]);
        for number in [1, 3, 4] {
            world.shim.answer([(number, Verdict::Unanswered)]);
            assert_eq!(world.heard().await, [format!("{} m1? n001", number.max(2) + 1)]);
        }
        world.shim.answer([(5, Verdict::Unanswered)]);
        assert!(world.heard().await.is_empty());
        assert_eq!(world.used_and_pending().await, (0, 4));
        seconds(1).await;
        assert_eq!(world.heard().await, ["6 m1? n001", "7 m2? n002"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.heard().await, ["gang Running", "m1 on n001", "m2 on n002"]);
    });
}

#[test]
fn thirty_seconds_after_the_first_void_answer_all_places_are_given_back() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.app("other", "root.b").await;
        world.run().await;
        world.nodes(2, 2).await;
        assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
        seconds(60).await;
        assert!(world.heard().await.is_empty(), "a slow answer is none that is void");
        world.shim.answer([(1, Verdict::Unanswered)]);
        assert_eq!(world.heard().await, ["3 m1? n001"]);
        world.ask("other", "o1", 0).await;
        seconds(29).await;
        assert!(world.heard().await.is_empty());
        seconds(1).await;
        let heard = world.heard().await;
        assert_eq!(heard[..2], ["2 withdrawn", "3 withdrawn"], "{heard:?}");
        // Others have their turn until it is tried again.
        assert!(heard[2..].iter().all(|word| word.contains("o1?")), "{heard:?}");
        assert_eq!(world.used_and_pending().await.1, 4);
    });
}

#[test]
fn when_nobody_can_be_asked_all_places_are_given_back_and_found_anew_later() {
    for stop in [true, false] {
        play_gang(64, |world| async move {
            gang(&world, 3, &["m1", "m2"]).await;
            world.nodes(2, 4).await;
            assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
            world.shim.answer([(2, passed_and_assumed(Scope::Static))]);
            world.run().await;
            if stop {
                world.control.hold(true);
            } else {
                world.control.set_predicates(Predicates::Hold);
            }
            assert_eq!(world.heard().await, ["1 withdrawn", "2 withdrawn"]);
            assert_eq!(world.used_and_pending().await, (0, 6));
            world.shim.answer([(1, passed(Scope::Static))]);
            seconds(60).await;
            assert!(world.heard().await.is_empty());
            if stop {
                world.control.hold(false);
            } else {
                world.control.set_predicates(Predicates::Remote { in_flight: 64, holds: false });
            }
            assert_eq!(world.heard().await, ["3 m1? n001", "4 m2? n002"]);
            world.control.set_predicates(Predicates::Local);
            let heard = world.heard().await;
            assert_eq!(heard[..2], ["3 withdrawn", "4 withdrawn"]);
            assert_eq!(heard[2..4], ["m1 asked at once", "m2 asked at once"]);
            assert_eq!(heard[4..], ["gang Running", "m1 on n001", "m2 on n002"]);
        });
    }
}

/// Both have room, and neither waits for the other's places for ever.
#[test]
fn of_two_gangs_one_is_asked_about_at_a_time() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.declared("second", "root.b", 2, 2).await;
        world.member("second", "s1", 2).await;
        world.run().await;
        world.nodes(2, 3).await;
        assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
        world.node("n003", 4).await;
        assert!(world.heard().await.is_empty());
        assert_eq!(world.used_and_pending().await, (4, 4));
        // One is refused everywhere: the other has its turn.
        world.shim.answer([(1, failed())]);
        assert_eq!(world.heard().await, ["3 m1? n003"]);
        world.shim.answer([(3, failed())]);
        let heard = world.heard().await;
        assert_eq!(heard, ["2 withdrawn", "4 s1? n001"]);
        assert_eq!(world.used_and_pending().await, (4, 4));
        seconds(1).await;
        assert!(world.heard().await.is_empty(), "the first waits for its turn");
        world.shim.answer([(4, passed(Scope::Topology))]);
        let heard = world.heard().await;
        assert_eq!(heard[..2], ["second Running", "s1 on n001"]);
        assert_eq!(open(&world).len(), 2, "and has it: {heard:?}");
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.heard().await[0], "gang Running");
        assert_eq!(world.used_and_pending().await, (8, 0));
    });
}

/// Of two that need the same nodes one runs, and the other holds nothing.
#[test]
fn of_two_gangs_without_room_for_both_the_second_waits_for_the_end_of_the_first() {
    play_gang(64, |world| async move {
        gang(&world, 2, &["m1", "m2"]).await;
        world.declared("second", "root.b", 2, 2).await;
        world.member("second", "s1", 2).await;
        world.run().await;
        world.nodes(2, 2).await;
        world.run().await;
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.heard().await, ["gang Running", "m1 on n001", "m2 on n002"]);
        assert_eq!(world.used_and_pending().await, (4, 4));
        world.remove_app("gang").await;
        let heard = world.heard().await;
        assert!(heard.last().unwrap().contains("s1? n001"), "{heard:?}");
    });
}

/// A gang of three in the air: `m1` and `m2` are asked about on n001 and n002, a place is held on
/// n003, and `m2` has passed. There is room on two more nodes. Something happens.
fn in_the_air<F: Future<Output = ()>>(story: impl FnOnce(Rc<World>) -> F) {
    play_gang(64, |world| async move {
        let world = Rc::new(world);
        gang(&world, 3, &["m1", "m2"]).await;
        world.nodes(3, 2).await;
        assert_eq!(world.heard().await, ["1 m1? n001", "2 m2? n002"]);
        world.shim.answer([(2, passed_and_assumed(Scope::Static))]);
        world.node("n004", 4).await;
        world.node("n005", 4).await;
        assert!(world.heard().await.is_empty());
        story(world).await;
    });
}

/// Answers everything that is asked, until the gang runs; what was heard.
async fn let_it_run(world: &World) -> Vec<String> {
    let mut heard = world.heard().await;
    while !heard.contains(&"gang Running".to_owned()) {
        assert!(!world.shim.open_ids().is_empty(), "{heard:?}");
        world.shim.answer_all(&passed(Scope::Topology));
        heard.extend(world.heard().await);
    }
    heard
}

#[test]
fn a_member_that_is_withdrawn_in_the_air_is_a_held_place_afterwards() {
    in_the_air(|world| async move {
        world.withdraw("gang", "m2").await;
        let heard = let_it_run(&world).await;
        assert!(heard.contains(&"2 withdrawn".to_owned()), "what was assumed is not: {heard:?}");
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((6, 0), (1, 2)));
        world.member("gang", "m3", 2).await;
        let asked = world.heard().await;
        assert!(asked[0].contains("m3?") && asked[0].ends_with("in place"), "{asked:?}");
    });
}

#[test]
fn without_any_member_that_asks_nobody_is_asked() {
    in_the_air(|world| async move {
        world.withdraw("gang", "").await;
        let heard = world.heard().await;
        assert_eq!(heard, ["1 withdrawn", "2 withdrawn", "gang Running"]);
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((6, 0), (0, 3)));
    });
}

#[test]
fn a_member_that_arrives_in_the_air_takes_what_is_held_when_the_gang_is_decided() {
    in_the_air(|world| async move {
        world.member("gang", "m3", 2).await;
        world.member("gang", "m4", 2).await;
        world.ask("gang", "free", 1).await;
        assert!(world.heard().await.is_empty(), "they wait");
        assert_eq!(world.used_and_pending().await, (6, 5));
        world.shim.answer([(1, passed(Scope::Static))]);
        let heard = world.heard().await;
        assert_eq!(heard[..3], ["gang Running", "m1 on n001", "m2 on n002"]);
        let held = |word: &&String| word.ends_with("in place");
        let in_place: Vec<_> = heard.iter().filter(held).map(|word| &word[2..4]).collect();
        assert_eq!(in_place, ["m3"], "one place is held: {heard:?}");
        while !world.shim.open_ids().is_empty() {
            world.shim.answer_all(&passed(Scope::Static));
            world.run().await;
        }
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((9, 0), (5, 0)));
    });
}

/// The whole gang is asked about anew, in its new size.
#[test]
fn a_member_that_changes_in_the_air_is_asked_about_anew() {
    in_the_air(|world| async move {
        world.request("gang", "m1", 3, "").await;
        let heard = let_it_run(&world).await;
        assert_eq!(heard.iter().filter(|word| word.contains("m1?")).count(), 1, "{heard:?}");
        assert!(heard.contains(&"1 withdrawn".to_owned()), "{heard:?}");
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((7, 0), (2, 1)));
    });
    in_the_air(|world| async move {
        // Larger than any node: it waits, and with it all.
        world.request("gang", "m1", 5, "").await;
        assert_eq!(world.heard().await, ["1 withdrawn", "2 withdrawn"]);
        assert_eq!(world.used_and_pending().await, (0, 9));
        world.request("gang", "m1", 1, "").await;
        let_it_run(&world).await;
        assert_eq!(world.used_and_pending().await, (5, 0));
    });
}

#[test]
fn a_node_that_is_lost_drained_or_shrunk_in_the_air_loses_its_member_to_another() {
    type Change = fn(&World) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>>;
    let changes: [Change; 5] = [
        |world| Box::pin(world.act("n001", ActionFromRm::Decomission)),
        |world| Box::pin(world.act("n001", ActionFromRm::DrainNode)),
        |world| Box::pin(world.change_node("n001", None, false)),
        |world| Box::pin(world.change_node("n001", Some(1), true)),
        // Where only a place is held.
        |world| Box::pin(world.act("n003", ActionFromRm::Decomission)),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        in_the_air(|world| async move {
            change(&world).await;
            let heard = let_it_run(&world).await;
            let gone = if at == 4 { "n003" } else { "n001" };
            assert!(!heard.iter().any(|word| word.contains(&format!("on {gone}"))), "{heard:?}");
            // Only who has to move is asked about elsewhere, and the mate that passed not again.
            let asked = heard.iter().filter(|it| it.contains("? n"));
            let asked = asked.filter_map(|it| it.split_once(' '));
            let asked: BTreeSet<_> = asked.map(|(_, of)| of).collect();
            let to = if at == 4 { "m1? n001" } else { "m1? n004" };
            assert_eq!(asked, BTreeSet::from([to]), "{at}: {heard:?}");
            assert_eq!(real_and_held(&world).await, (2, 1), "{at}: {heard:?}");
            assert_eq!(world.used_and_pending().await, (6, 0));
        });
    }
    // Without room elsewhere nothing is held, and a node that comes back is enough.
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

/// It stays there while the node drains, and goes nowhere else.
#[test]
fn a_member_that_requires_a_node_is_asked_about_there_alone() {
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
            assert!(world.heard().await.is_empty(), "its node is not there");
            world.node("n002", 2).await;
            assert_eq!(world.heard().await, ["1 m1? n002"]);
            story(world).await;
        });
    };
    launch(64, |world| {
        Box::pin(async move {
            world.act("n002", ActionFromRm::DrainNode).await;
            assert!(world.heard().await.is_empty());
            world.shim.answer([(1, passed(Scope::Topology))]);
            assert_eq!(world.heard().await, ["gang Running", "m1 on n002"]);
            assert_eq!(real_and_held(&world).await, (1, 1));
        })
    });
    launch(1, |world| {
        Box::pin(async move {
            world.shim.answer([(1, failed())]);
            assert_eq!(world.heard().await, Vec::<String>::new(), "there is no other node for it");
            assert_eq!(world.used_and_pending().await, (0, 4));
            seconds(1).await;
            assert_eq!(world.heard().await, ["2 m1? n002"]);
            world.act("n002", ActionFromRm::Decomission).await;
            assert_eq!(world.heard().await, ["2 withdrawn"]);
            seconds(60).await;
            assert!(world.heard().await.is_empty());
            world.node("n002", 2).await;
            assert_eq!(world.heard().await, ["3 m1? n002"]);
        })
    });
}

#[test]
fn an_application_that_is_removed_in_the_air_leaves_nothing() {
    in_the_air(|world| async move {
        world.remove_app("gang").await;
        let heard = world.heard().await;
        assert_eq!(heard, ["1 withdrawn", "2 withdrawn", "m1 given up", "m2 given up"]);
        assert_eq!(world.used_and_pending().await, (0, 0));
        world.declared("gang", "root.a", 1, 2).await;
        world.member("gang", "m1", 2).await;
        let_it_run(&world).await;
    });
}

/// A member that the RM says runs was decided before, by a scheduler that is no more.
#[test]
fn a_member_that_is_reported_in_the_air_decides_the_gang() {
    in_the_air(|world| async move {
        world.request("gang", "m2", 2, "n003").await;
        let heard = world.heard().await;
        assert_eq!(heard[..2], ["1 withdrawn", "2 withdrawn"]);
        assert!(heard.contains(&"gang Running".to_owned()), "{heard:?}");
        world.shim.answer_all(&passed(Scope::Static));
        world.run().await;
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((4, 0), (2, 0)));
    });
}

/// The other places end in time. This one does when it is given back.
#[test]
fn a_place_that_a_member_is_asked_about_is_held_until_the_answer_comes() {
    for passes in [true, false] {
        play_gang(64, |world| async move {
            world.nodes(2, 2).await;
            world.declared_for("gang", "root.a", (2, 2), 5_000).await;
            assert_eq!(world.heard().await, ["gang Accepted", "gang Running"]);
            world.member("gang", "m1", 2).await;
            assert_eq!(world.heard().await, ["1 m1? n001 in place"]);
            seconds(5).await;
            assert!(world.heard().await.is_empty());
            assert_eq!(
                (world.used_and_pending().await, real_and_held(&world).await),
                ((2, 0), (0, 1))
            );
            world.shim.answer([(1, if passes { passed(Scope::Static) } else { failed() })]);
            let heard = world.heard().await;
            if passes {
                assert_eq!(heard, ["m1 on n001"]);
                assert_eq!(real_and_held(&world).await, (1, 0));
            } else {
                assert_eq!(real_and_held(&world).await, (0, 0));
                let (last, nothing) = heard.split_last().unwrap();
                assert!(nothing.is_empty() && last.starts_with("2 m1? n00"), "{heard:?}");
                assert!(!last.ends_with("in place"), "as any other: {heard:?}");
            }
            assert_eq!(world.used_and_pending().await, (2, 0));
        });
    }
}

/// Of the places that are left it takes none on that node.
#[test]
fn a_member_that_can_never_run_on_a_node_takes_what_is_held_on_another() {
    in_the_air(|world| async move {
        world.shim.answer([(1, passed(Scope::Static))]);
        assert_eq!(world.heard().await, ["gang Running", "m1 on n001", "m2 on n002"]);
        assert_eq!(real_and_held(&world).await, (2, 1));
        world.refuse_for_good("gang", "m1").await;
        seconds(1).await;
        assert_eq!(world.heard().await, ["3 m1? n003 in place"]);
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((4, 0), (1, 1)));
        world.shim.answer([(3, passed(Scope::Static))]);
        assert_eq!(world.heard().await, ["m1 on n003"]);
        assert_eq!((world.used_and_pending().await, real_and_held(&world).await), ((4, 0), (2, 0)));
        // Nothing is held for it any more, and it may not be where it was.
        world.refuse_for_good("gang", "m1").await;
        seconds(2).await;
        assert_eq!(world.heard().await, ["4 m1? n004"]);
    });
}

/// A refusal for want of an answer is no refusal to whoever counts them.
#[test]
fn a_presumed_refusal_counts_as_unanswered() {
    play_gang(64, |world| async move {
        gang(&world, 1, &["m1"]).await;
        world.nodes(2, 2).await;
        world.run().await;
        let count = |outcome| world.count("monoceros_predicate_answers_total", outcome);
        let reasons = vec![("no answer".to_owned(), 1)];
        world.shim.answer([(1, Verdict::Presumed { reasons })]);
        assert_eq!(world.heard().await, ["2 m1? n002"]);
        world.shim.answer([(2, failed())]);
        world.run().await;
        assert!((count("unanswered") - 1.0).abs() < 0.1 && (count("failed") - 1.0).abs() < 0.1);
    });
}

/// A member is to be asked about again, when the only place in the window is taken by another
/// application. It is asked about when that place is free, whatever made it so.
fn after_void<F: Future<Output = ()>>(happens: impl FnOnce(Rc<World>) -> F) {
    play_gang(2, |world| async move {
        let world = Rc::new(world);
        gang(&world, 1, &["m1"]).await;
        world.app("other", "root.b").await;
        world.ask_on("other", "o1", 1, "n2").await;
        world.node("n2", 1).await;
        assert_eq!(world.heard().await, ["other Accepted", "1 o1? n2"]);
        world.node("n1", 4).await;
        assert_eq!(world.heard().await, ["2 m1? n1"]);
        world.shim.answer([(2, Verdict::Unanswered)]);
        assert!(world.heard().await.is_empty(), "one may wait now, and that is the other");
        happens(Rc::clone(&world)).await;
        let words = world.heard().await;
        assert_eq!(words.last().map(String::as_str), Some("3 m1? n1"), "{words:?}");
        world.shim.answer([(3, passed(Scope::Static))]);
        assert_eq!(world.heard().await, ["gang Running", "m1 on n1"]);
    });
}

#[test]
fn members_are_asked_about_as_soon_as_others_questions_are_taken_back() {
    after_void(|world| async move { world.withdraw("other", "o1").await });
    after_void(|world| async move { world.remove_app("other").await });
    after_void(|world| async move { world.act("n2", ActionFromRm::Decomission).await });
}
