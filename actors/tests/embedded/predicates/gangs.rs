//! Members of a gang whose predicates are answered later: what is asked about the place of a
//! placeholder, what an answer does, and who takes the question back.

use std::time::Duration;

use monoceros_actors::{Predicates, Scope, Verdict};
use monoceros_proto::si::v1::TerminationType;
use monoceros_proto::si::v1::node_info::ActionFromRm;

use super::shim::{World, assumed_at, failed, passed, passed_at, play};

/// As many placeholders of two cores as are announced, one on each of the first nodes; `more` nodes
/// of two cores are empty.
async fn gathered(world: &World, places: usize, more: usize) {
    world.nodes(places + more, 2).await;
    world.gang("app", "root.a", 2 * i64::try_from(places).unwrap(), 5_000).await;
    for number in 1..=places {
        world.ask_in_gang("app", &format!("p{number}"), 2, true).await;
        world.run().await;
        world.shim.answer_all(&passed(Scope::Static));
        world.run().await;
    }
    assert_eq!(world.used_and_pending().await, (2 * i64::try_from(places).unwrap(), 0));
}

async fn confirm(world: &World, placeholder: &str) {
    world.end("app", placeholder, TerminationType::PlaceholderReplaced).await;
}

/// The use of a node, cores.
async fn used_on(world: &World, node: &str) -> i64 {
    let nodes = world.scheduler.nodes("default").await.unwrap();
    let node = nodes.into_iter().find(|it| it.node_id == node).unwrap();
    node.allocated.sorted().first().map_or(0, |(_, quantity)| *quantity)
}

/// The story at each number of placements that may wait.
fn play_each<F: Future<Output = ()>>(story: impl Fn(World) -> F) {
    for in_flight in [1, 64] {
        play("{name: a}", in_flight, &story);
    }
}

/// One member is asked about in the place of `p1` on n001; something happens. The question is
/// withdrawn, a late answer changes nothing, and what else is heard is returned.
fn after<F: Future<Output = ()>>(
    more: usize,
    happens: impl Fn(std::rc::Rc<World>) -> F,
) -> Vec<String> {
    let heard = std::cell::RefCell::new(Vec::new());
    play_each(|world| {
        let (heard, happens) = (&heard, &happens);
        async move {
            let world = std::rc::Rc::new(world);
            gathered(&world, 1, more).await;
            world.ask_in_gang("app", "r1", 1, false).await;
            assert_eq!(world.heard().await, ["2 r1? n001 in place"]);
            happens(std::rc::Rc::clone(&world)).await;
            let mut words = world.heard().await;
            assert_eq!(words.iter().filter(|word| *word == "2 withdrawn").count(), 1, "{words:?}");
            words.retain(|word| word != "2 withdrawn");
            let (open, before) = (world.shim.open_ids(), world.used_and_pending().await);
            world.shim.answer([(2, assumed_at(0))]);
            assert!(world.heard().await.is_empty(), "a late answer is dropped");
            assert_eq!((world.shim.open_ids(), world.used_and_pending().await), (open, before));
            *heard.borrow_mut() = words;
        }
    });
    heard.into_inner()
}

#[test]
fn a_member_is_asked_about_in_the_place_of_its_placeholder_and_holds_nothing_meanwhile() {
    play_each(|world| async move {
        gathered(&world, 1, 1).await;
        world.act("n001", ActionFromRm::DrainNode).await;
        world.ask_in_gang("app", "r1", 1, false).await;
        assert_eq!(
            world.heard().await,
            ["2 r1? n001 in place"],
            "a node that drains is asked, too"
        );
        assert_eq!(world.used_and_pending().await, (2, 0));
        assert_eq!(used_on(&world, "n001").await, 2);
        world.shim.answer([(2, passed(Scope::Topology))]);
        assert_eq!(world.heard().await, ["p1 is to give way"]);
        assert_eq!(world.used_and_pending().await, (2, 0));
        confirm(&world, "p1").await;
        assert_eq!(world.heard().await, ["r1 on n001"]);
        assert_eq!((world.used_and_pending().await, used_on(&world, "n001").await), ((1, 0), 1));
    });
}

/// The new node alone is charged twice: what a member takes elsewhere is charged in queues once.
#[test]
fn a_member_refused_in_every_place_goes_to_another_node() {
    play_each(|world| async move {
        gathered(&world, 2, 1).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        assert_eq!(world.heard().await, ["3 r1? n001 in place"]);
        world.shim.answer([(3, failed())]);
        assert_eq!(world.heard().await, ["4 r1? n002 in place"]);
        world.shim.answer([(4, failed())]);
        assert_eq!(world.heard().await, ["5 r1? n003"]);
        assert_eq!((world.used_and_pending().await, used_on(&world, "n003").await), ((4, 0), 2));
        world.shim.answer([(5, passed(Scope::Topology))]);
        assert_eq!(world.heard().await, ["p1 is to give way"]);
        assert_eq!((world.used_and_pending().await, used_on(&world, "n003").await), ((4, 0), 2));
        confirm(&world, "p1").await;
        assert_eq!(world.heard().await, ["r1 on n003"]);
        assert_eq!((world.used_and_pending().await, used_on(&world, "n001").await), ((4, 0), 0));
    });
}

/// Several of the other nodes are asked about in one question, after the first has refused.
#[test]
fn another_node_that_passes_gets_the_member_and_the_first_gives_back_what_it_held() {
    play_each(|world| async move {
        gathered(&world, 1, 3).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(2, failed())]);
        assert_eq!(world.heard().await, ["3 r1? n002"]);
        world.shim.answer([(3, failed())]);
        assert_eq!(world.heard().await, ["4 r1? n003 n004"]);
        world.shim.answer([(4, passed_at(1))]);
        assert_eq!(world.heard().await, ["p1 is to give way"]);
        assert_eq!((used_on(&world, "n003").await, used_on(&world, "n004").await), (0, 2));
        confirm(&world, "p1").await;
        assert_eq!(world.heard().await, ["r1 on n004"]);
    });
}

/// It waits, and everything is asked again after a while: places first.
#[test]
fn a_member_that_nobody_takes_is_asked_about_again_after_a_while() {
    play_each(|world| async move {
        gathered(&world, 1, 1).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(2, failed())]);
        world.run().await;
        world.shim.answer([(3, failed())]);
        assert!(world.heard().await.is_empty());
        assert_eq!(world.used_and_pending().await, (2, 2));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.heard().await, ["4 r1? n001 in place"]);
        world.shim.answer([(4, failed())]);
        assert_eq!(world.heard().await, ["5 r1? n002"]);
        world.shim.answer([(5, passed(Scope::Static))]);
        assert_eq!(world.heard().await, ["p1 is to give way"]);
    });
}

#[test]
fn a_node_that_changes_is_asked_about_the_member_that_it_refused() {
    play_each(|world| async move {
        gathered(&world, 1, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(2, failed())]);
        assert!(world.heard().await.is_empty());
        world.change_node("n001", None, true).await;
        assert_eq!(world.heard().await, ["3 r1? n001 in place"]);
    });
}

#[test]
fn an_answer_that_says_nothing_has_the_member_asked_about_again() {
    play_each(|world| async move {
        gathered(&world, 1, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(2, Verdict::Unanswered)]);
        assert_eq!(world.heard().await, ["3 r1? n001 in place"]);
        // What makes no sense is a refusal for now, or the two would ask and answer for ever.
        world.shim.answer([(3, passed_at(7))]);
        assert!(world.heard().await.is_empty());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.heard().await, ["4 r1? n001 in place"]);
        world.shim.answer([(4, passed(Scope::Static))]);
        assert_eq!(world.heard().await, ["p1 is to give way"]);
    });
}

/// Something else came to the node since the question.
#[test]
fn an_answer_that_is_void_has_the_member_asked_about_again() {
    play("{name: a}", 64, |world| async move {
        world.nodes(1, 4).await;
        world.gang("app", "root.a", 2, 5_000).await;
        world.ask_in_gang("app", "p1", 2, true).await;
        world.run().await;
        world.shim.answer_all(&passed(Scope::Static));
        world.run().await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.ask("app", "other", 1).await;
        assert_eq!(world.heard().await, ["2 r1? n001 in place", "3 other? n001"]);
        world.shim.answer([(3, passed(Scope::Node))]);
        world.run().await;
        world.shim.answer([(2, passed(Scope::Node))]);
        assert_eq!(world.heard().await, ["4 r1? n001 in place"]);
        world.shim.answer([(4, passed(Scope::Node))]);
        assert_eq!(world.heard().await, ["p1 is to give way"]);
    });
}

#[test]
fn with_one_question_at_a_time_members_are_asked_about_one_after_the_other() {
    play("{name: a}", 1, |world| async move {
        gathered(&world, 2, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.ask_in_gang("app", "r2", 2, false).await;
        assert_eq!(world.heard().await, ["3 r1? n001 in place"]);
        world.shim.answer([(3, passed(Scope::Static))]);
        assert_eq!(world.heard().await, ["p1 is to give way", "4 r2? n002 in place"]);
    });
}

/// A place that another member was refused in is free for whoever comes back.
#[test]
fn of_several_members_in_the_air_each_has_a_place_of_its_own() {
    play("{name: a}", 64, |world| async move {
        gathered(&world, 2, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.ask_in_gang("app", "r2", 2, false).await;
        assert_eq!(world.heard().await, ["3 r1? n001 in place", "4 r2? n002 in place"]);
        world.shim.answer([(4, failed())]);
        assert!(world.heard().await.is_empty(), "the other place is asked about");
        world.shim.answer([(3, failed())]);
        assert_eq!(world.heard().await, ["5 r1? n002 in place", "6 r2? n001 in place"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.heard().await, ["p2 is to give way", "p1 is to give way"]);
    });
}

#[test]
fn a_member_that_is_withdrawn_leaves_its_place_to_the_next() {
    play_each(|world| async move {
        gathered(&world, 1, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.ask_in_gang("app", "r2", 2, false).await;
        assert_eq!(world.heard().await, ["2 r1? n001 in place"]);
        world.withdraw("app", "r1").await;
        assert_eq!(world.heard().await, ["2 withdrawn", "3 r2? n001 in place"]);
        world.shim.answer([(2, passed(Scope::Static))]);
        assert!(world.heard().await.is_empty(), "a late answer is dropped");
    });
}

/// It runs, so its placeholders alone end; the member is placed like any other when they are gone.
#[test]
fn a_placeholder_that_ends_takes_the_question_back() {
    play_each(|world| async move {
        gathered(&world, 1, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(world.heard().await, ["2 withdrawn", "p1 is to end"]);
        world.end("app", "p1", TerminationType::Timeout).await;
        assert_eq!(world.heard().await, ["3 r1? n001"]);
        world.shim.answer([(2, passed(Scope::Static)), (3, passed(Scope::Static))]);
        assert_eq!(world.heard().await, ["r1 on n001"]);
    });
}

/// Not all of its placeholders were placed: the member that is asked about is given up, too.
#[test]
fn a_gang_that_times_out_gives_up_the_member_in_the_air() {
    play_each(|world| async move {
        world.nodes(1, 2).await;
        world.gang("app", "root.a", 4, 5_000).await;
        world.ask_in_gang("app", "p1", 2, true).await;
        world.ask_in_gang("app", "p2", 2, true).await;
        world.run().await;
        world.shim.answer_all(&passed(Scope::Static));
        world.run().await;
        world.ask_in_gang("app", "r1", 2, false).await;
        assert_eq!(world.heard().await, ["2 r1? n001 in place"]);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let heard = world.heard().await;
        let (last, first) = heard.split_last().unwrap();
        assert_eq!(first, ["app Resuming", "2 withdrawn", "p1 is to end", "p2 given up"]);
        assert_eq!(last, "r1 given up");
        world.end("app", "p1", TerminationType::Timeout).await;
        assert_eq!(world.heard().await, ["app Accepted"]);
        assert_eq!(world.used_and_pending().await, (0, 0));
    });
}

#[test]
fn a_placeholder_that_the_rm_stops_takes_the_question_back() {
    let heard = after(0, |world| async move {
        world.end("app", "p1", TerminationType::StoppedByRm).await;
    });
    assert_eq!(heard, ["p1 released", "3 r1? n001"]);
}

#[test]
fn the_node_of_the_placeholder_takes_the_question_with_it() {
    let heard = after(1, |world| async move {
        world.act("n001", ActionFromRm::Decomission).await;
    });
    assert_eq!(heard, ["p1 released", "3 r1? n002"]);
}

#[test]
fn the_other_node_takes_its_question_with_it_and_the_place_is_free_again() {
    play_each(|world| async move {
        gathered(&world, 1, 1).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(2, failed())]);
        assert_eq!(world.heard().await, ["3 r1? n002"]);
        world.act("n002", ActionFromRm::Decomission).await;
        assert_eq!(world.heard().await, ["3 withdrawn"]);
        assert_eq!(world.used_and_pending().await, (2, 2));
        world.node("n003", 2).await;
        assert_eq!(world.heard().await, ["4 r1? n001 in place"], "a node came: all is asked again");
    });
}

#[test]
fn an_application_that_leaves_takes_its_questions_with_it() {
    let heard = after(0, |world| async move { world.remove_app("app").await });
    assert_eq!(heard, ["p1 released", "r1 given up"]);
}

#[test]
fn a_hold_takes_the_question_back_and_it_is_asked_anew() {
    play_each(|world| async move {
        gathered(&world, 1, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.control.hold(true);
        assert_eq!(world.heard().await, ["2 withdrawn"]);
        assert_eq!(world.used_and_pending().await, (2, 2));
        world.shim.answer([(2, passed(Scope::Static))]);
        assert!(world.heard().await.is_empty());
        world.control.hold(false);
        assert_eq!(world.heard().await, ["3 r1? n001 in place"]);
    });
}

/// A swap that the RM was asked for goes on without anybody to ask.
#[test]
fn without_anybody_to_ask_questions_are_taken_back_and_swaps_go_on() {
    play_each(|world| async move {
        gathered(&world, 2, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(3, passed(Scope::Static))]);
        assert_eq!(world.heard().await, ["p1 is to give way"]);
        world.ask_in_gang("app", "r2", 2, false).await;
        assert_eq!(world.heard().await, ["4 r2? n002 in place"]);
        world.control.set_predicates(Predicates::Hold);
        assert_eq!(world.heard().await, ["4 withdrawn"]);
        confirm(&world, "p1").await;
        assert_eq!(world.heard().await, ["r1 on n001"]);
        world.control.set_predicates(Predicates::Remote { in_flight: 1, holds: false });
        assert_eq!(world.heard().await, ["5 r2? n002 in place"], "whoever comes back is asked");
    });
}

#[test]
fn a_member_of_another_size_is_asked_about_anew_and_one_too_large_ends_its_placeholder() {
    let heard = after(0, |world| async move { world.request("app", "r1", 2, "").await });
    assert_eq!(heard, ["3 r1? n001 in place"]);
    let heard = after(0, |world| async move { world.request("app", "r1", 3, "").await });
    assert_eq!(heard, ["p1 is to end"]);
}

/// What the RM assumed is gone with its place: the RM hears that it was not taken.
#[test]
fn a_confirmation_of_a_placeholder_that_was_not_asked_to_end_takes_the_question_back() {
    let heard = after(0, |world| async move { confirm(&world, "p1").await });
    assert_eq!(heard, ["3 r1? n001"]);
}
