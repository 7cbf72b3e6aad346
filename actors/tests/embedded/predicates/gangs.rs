//! Members of a gang whose predicates are answered later: questions about the place of a
//! placeholder, the effect of an answer, and withdrawals.

use std::time::Duration;

use monoceros_actors::{Predicates, Scope, Verdict};
use monoceros_proto::si::v1::TerminationType;
use monoceros_proto::si::v1::node_info::ActionFromRm;

use super::shim::{World, assumed_at, failed, passed, passed_at, play};

/// As many placeholders of two cores as announced, one on each of the first nodes; `more` nodes of
/// two cores are empty.
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

/// Usage of a node, cores.
async fn used_on(world: &World, node: &str) -> i64 {
    let nodes = world.scheduler.nodes("default").await.unwrap();
    let node = nodes.into_iter().find(|it| it.node_id == node).unwrap();
    node.allocated.sorted().first().map_or(0, |(_, quantity)| *quantity)
}

/// Plays the story with each maximum of placements that may wait.
fn play_each<F: Future<Output = ()>>(story: impl Fn(World) -> F) {
    for in_flight in [1, 64] {
        play("{name: a}", in_flight, &story);
    }
}

/// The question about one member in the place of `p1` on n001 is open when `happens` runs. The
/// question is withdrawn, a late answer changes nothing, and the other notifications are returned.
fn after<F: Future<Output = ()>>(
    more: usize,
    happens: impl Fn(std::rc::Rc<World>) -> F,
) -> Vec<String> {
    let received = std::cell::RefCell::new(Vec::new());
    play_each(|world| {
        let (received, happens) = (&received, &happens);
        async move {
            let world = std::rc::Rc::new(world);
            gathered(&world, 1, more).await;
            world.ask_in_gang("app", "r1", 1, false).await;
            assert_eq!(world.received().await, ["2 r1? n001 in place"]);
            happens(std::rc::Rc::clone(&world)).await;
            let mut words = world.received().await;
            assert_eq!(words.iter().filter(|word| *word == "2 withdrawn").count(), 1, "{words:?}");
            words.retain(|word| word != "2 withdrawn");
            let (open, before) = (world.shim.open_ids(), world.used_and_pending().await);
            world.shim.answer([(2, assumed_at(0))]);
            assert!(world.received().await.is_empty(), "a late answer is dropped");
            assert_eq!((world.shim.open_ids(), world.used_and_pending().await), (open, before));
            *received.borrow_mut() = words;
        }
    });
    received.into_inner()
}

/// A member whose question is open holds nothing itself.
#[test]
fn a_member_in_question_uses_its_placeholders_place() {
    play_each(|world| async move {
        gathered(&world, 1, 1).await;
        world.act("n001", ActionFromRm::DrainNode).await;
        world.ask_in_gang("app", "r1", 1, false).await;
        assert_eq!(
            world.received().await,
            ["2 r1? n001 in place"],
            "a node that drains is asked, too"
        );
        assert_eq!(world.used_and_pending().await, (2, 0));
        assert_eq!(used_on(&world, "n001").await, 2);
        world.shim.answer([(2, passed(Scope::Topology))]);
        assert_eq!(world.received().await, ["p1 is to give way"]);
        assert_eq!(world.used_and_pending().await, (2, 0));
        confirm(&world, "p1").await;
        assert_eq!(world.received().await, ["r1 on n001"]);
        assert_eq!((world.used_and_pending().await, used_on(&world, "n001").await), ((1, 0), 1));
    });
}

/// Only the new node is charged twice: a member on another node is charged in queues once.
#[test]
fn a_member_refused_in_every_place_moves_on() {
    play_each(|world| async move {
        gathered(&world, 2, 1).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        assert_eq!(world.received().await, ["3 r1? n001 in place"]);
        world.shim.answer([(3, failed())]);
        assert_eq!(world.received().await, ["4 r1? n002 in place"]);
        world.shim.answer([(4, failed())]);
        assert_eq!(world.received().await, ["5 r1? n003"]);
        assert_eq!((world.used_and_pending().await, used_on(&world, "n003").await), ((4, 0), 2));
        world.shim.answer([(5, passed(Scope::Topology))]);
        assert_eq!(world.received().await, ["p1 is to give way"]);
        assert_eq!((world.used_and_pending().await, used_on(&world, "n003").await), ((4, 0), 2));
        confirm(&world, "p1").await;
        assert_eq!(world.received().await, ["r1 on n003"]);
        assert_eq!((world.used_and_pending().await, used_on(&world, "n001").await), ((4, 0), 0));
    });
}

/// After the first node has refused, one question asks about several of the other nodes.
#[test]
fn an_accepting_second_node_releases_the_first() {
    play_each(|world| async move {
        gathered(&world, 1, 3).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(2, failed())]);
        assert_eq!(world.received().await, ["3 r1? n002"]);
        world.shim.answer([(3, failed())]);
        assert_eq!(world.received().await, ["4 r1? n003 n004"]);
        world.shim.answer([(4, passed_at(1))]);
        assert_eq!(world.received().await, ["p1 is to give way"]);
        assert_eq!((used_on(&world, "n003").await, used_on(&world, "n004").await), (0, 2));
        confirm(&world, "p1").await;
        assert_eq!(world.received().await, ["r1 on n004"]);
    });
}

/// A member that every node refuses waits. After a while all nodes are asked again, those with
/// places first.
#[test]
fn a_member_refused_everywhere_is_retried_later() {
    play_each(|world| async move {
        gathered(&world, 1, 1).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(2, failed())]);
        world.run().await;
        world.shim.answer([(3, failed())]);
        assert!(world.received().await.is_empty());
        assert_eq!(world.used_and_pending().await, (2, 2));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.received().await, ["4 r1? n001 in place"]);
        world.shim.answer([(4, failed())]);
        assert_eq!(world.received().await, ["5 r1? n002"]);
        world.shim.answer([(5, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["p1 is to give way"]);
    });
}

#[test]
fn a_changed_node_is_asked_about_a_refused_member() {
    play_each(|world| async move {
        gathered(&world, 1, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(2, failed())]);
        assert!(world.received().await.is_empty());
        world.change_node("n001", None, true).await;
        assert_eq!(world.received().await, ["3 r1? n001 in place"]);
    });
}

#[test]
fn a_missing_answer_repeats_the_question() {
    play_each(|world| async move {
        gathered(&world, 1, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(2, Verdict::Unanswered)]);
        assert_eq!(world.received().await, ["3 r1? n001 in place"]);
        // An invalid answer is a temporary refusal; otherwise both sides would exchange it for
        // ever.
        world.shim.answer([(3, passed_at(7))]);
        assert!(world.received().await.is_empty());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.received().await, ["4 r1? n001 in place"]);
        world.shim.answer([(4, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["p1 is to give way"]);
    });
}

/// Another allocation was added to the node after the question.
#[test]
fn a_void_answer_repeats_the_question() {
    play("{name: a}", 64, |world| async move {
        world.nodes(1, 4).await;
        world.gang("app", "root.a", 2, 5_000).await;
        world.ask_in_gang("app", "p1", 2, true).await;
        world.run().await;
        world.shim.answer_all(&passed(Scope::Static));
        world.run().await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.ask("app", "other", 1).await;
        assert_eq!(world.received().await, ["2 r1? n001 in place", "3 other? n001"]);
        world.shim.answer([(3, passed(Scope::Node))]);
        world.run().await;
        world.shim.answer([(2, passed(Scope::Node))]);
        assert_eq!(world.received().await, ["4 r1? n001 in place"]);
        world.shim.answer([(4, passed(Scope::Node))]);
        assert_eq!(world.received().await, ["p1 is to give way"]);
    });
}

#[test]
fn a_window_of_one_asks_members_in_turn() {
    play("{name: a}", 1, |world| async move {
        gathered(&world, 2, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.ask_in_gang("app", "r2", 2, false).await;
        assert_eq!(world.received().await, ["3 r1? n001 in place"]);
        world.shim.answer([(3, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["p1 is to give way", "4 r2? n002 in place"]);
    });
}

/// A place that refused another member is free for the next one.
#[test]
fn members_in_flight_have_separate_places() {
    play("{name: a}", 64, |world| async move {
        gathered(&world, 2, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.ask_in_gang("app", "r2", 2, false).await;
        assert_eq!(world.received().await, ["3 r1? n001 in place", "4 r2? n002 in place"]);
        world.shim.answer([(4, failed())]);
        assert!(world.received().await.is_empty(), "the other place is asked about");
        world.shim.answer([(3, failed())]);
        assert_eq!(world.received().await, ["5 r1? n002 in place", "6 r2? n001 in place"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.received().await, ["p2 is to give way", "p1 is to give way"]);
    });
}

#[test]
fn a_withdrawn_member_leaves_its_place_to_the_next() {
    play_each(|world| async move {
        gathered(&world, 1, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.ask_in_gang("app", "r2", 2, false).await;
        assert_eq!(world.received().await, ["2 r1? n001 in place"]);
        world.withdraw("app", "r1").await;
        assert_eq!(world.received().await, ["2 withdrawn", "3 r2? n001 in place"]);
        world.shim.answer([(2, passed(Scope::Static))]);
        assert!(world.received().await.is_empty(), "a late answer is dropped");
    });
}

/// The application runs, so only its placeholders end; the member is placed like any other when
/// they are gone.
#[test]
fn the_end_of_a_placeholder_withdraws_the_question() {
    play_each(|world| async move {
        gathered(&world, 1, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(world.received().await, ["2 withdrawn", "p1 is to end"]);
        world.end("app", "p1", TerminationType::Timeout).await;
        assert_eq!(world.received().await, ["3 r1? n001"]);
        world.shim.answer([(2, passed(Scope::Static)), (3, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["r1 on n001"]);
    });
}

/// Not all of its placeholders were placed: the member with the open question is rejected, too.
#[test]
fn a_gang_timeout_rejects_the_member_in_flight() {
    play_each(|world| async move {
        world.nodes(1, 2).await;
        world.gang("app", "root.a", 4, 5_000).await;
        world.ask_in_gang("app", "p1", 2, true).await;
        world.ask_in_gang("app", "p2", 2, true).await;
        world.run().await;
        world.shim.answer_all(&passed(Scope::Static));
        world.run().await;
        world.ask_in_gang("app", "r1", 2, false).await;
        assert_eq!(world.received().await, ["2 r1? n001 in place"]);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let received = world.received().await;
        let (last, first) = received.split_last().unwrap();
        assert_eq!(first, ["app Resuming", "2 withdrawn", "p1 is to end", "p2 given up"]);
        assert_eq!(last, "r1 given up");
        world.end("app", "p1", TerminationType::Timeout).await;
        assert_eq!(world.received().await, ["app Accepted"]);
        assert_eq!(world.used_and_pending().await, (0, 0));
    });
}

#[test]
fn stopping_the_placeholder_withdraws_the_question() {
    let received = after(0, |world| async move {
        world.end("app", "p1", TerminationType::StoppedByRm).await;
    });
    assert_eq!(received, ["p1 released", "3 r1? n001"]);
}

#[test]
fn removing_the_placeholders_node_withdraws_the_question() {
    let received = after(1, |world| async move {
        world.act("n001", ActionFromRm::Decomission).await;
    });
    assert_eq!(received, ["p1 released", "3 r1? n002"]);
}

#[test]
fn removing_the_other_node_frees_the_place() {
    play_each(|world| async move {
        gathered(&world, 1, 1).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(2, failed())]);
        assert_eq!(world.received().await, ["3 r1? n002"]);
        world.act("n002", ActionFromRm::Decomission).await;
        assert_eq!(world.received().await, ["3 withdrawn"]);
        assert_eq!(world.used_and_pending().await, (2, 2));
        world.node("n003", 2).await;
        assert_eq!(
            world.received().await,
            ["4 r1? n001 in place"],
            "a node came: all is asked again"
        );
    });
}

#[test]
fn removing_an_application_withdraws_its_questions() {
    let received = after(0, |world| async move { world.remove_app("app").await });
    assert_eq!(received, ["p1 released", "r1 given up"]);
}

#[test]
fn a_pause_withdraws_the_question_and_repeats_it_later() {
    play_each(|world| async move {
        gathered(&world, 1, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.control.hold(true);
        assert_eq!(world.received().await, ["2 withdrawn"]);
        assert_eq!(world.used_and_pending().await, (2, 2));
        world.shim.answer([(2, passed(Scope::Static))]);
        assert!(world.received().await.is_empty());
        world.control.hold(false);
        assert_eq!(world.received().await, ["3 r1? n001 in place"]);
    });
}

/// A swap whose release was sent continues without a callback to ask.
#[test]
fn without_a_callback_swaps_continue_and_questions_end() {
    play_each(|world| async move {
        gathered(&world, 2, 0).await;
        world.ask_in_gang("app", "r1", 2, false).await;
        world.run().await;
        world.shim.answer([(3, passed(Scope::Static))]);
        assert_eq!(world.received().await, ["p1 is to give way"]);
        world.ask_in_gang("app", "r2", 2, false).await;
        assert_eq!(world.received().await, ["4 r2? n002 in place"]);
        world.control.set_predicates(Predicates::Hold);
        assert_eq!(world.received().await, ["4 withdrawn"]);
        confirm(&world, "p1").await;
        assert_eq!(world.received().await, ["r1 on n001"]);
        world.control.set_predicates(Predicates::Remote { in_flight: 1, holds: false });
        assert_eq!(world.received().await, ["5 r2? n002 in place"], "whoever comes back is asked");
    });
}

/// A member larger than its placeholder ends the placeholder.
#[test]
fn a_resized_member_is_asked_about_again() {
    let received = after(0, |world| async move { world.request("app", "r1", 2, "").await });
    assert_eq!(received, ["3 r1? n001 in place"]);
    let received = after(0, |world| async move { world.request("app", "r1", 3, "").await });
    assert_eq!(received, ["p1 is to end"]);
}

/// The RM's assumption ended with the place: the RM is notified that the member was not placed.
#[test]
fn an_unrequested_confirmation_withdraws_the_question() {
    let received = after(0, |world| async move { confirm(&world, "p1").await });
    assert_eq!(received, ["3 r1? n001"]);
}
