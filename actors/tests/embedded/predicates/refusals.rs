//! An ask after a refusal: the next node, and the time of the next try.

use std::sync::atomic::Ordering;
use std::time::Duration;

use monoceros_actors::{Invalidation, Scheduler, Scope, Verdict};

use super::shim::{World, failed, passed, passed_at, play, play_with};

/// Fails all questions until none is asked any more; returns the number of candidates of each
/// question.
async fn fail_all(world: &World) -> Vec<usize> {
    let mut widths = Vec::new();
    while !world.shim.open().is_empty() {
        widths.extend(world.shim.open().iter().map(|open| open.nodes.len()));
        world.shim.answer_all(&failed());
        world.run().await;
    }
    widths
}

#[test]
fn questions_name_16_more_nodes_then_twice_as_many() {
    play("{name: a}", 64, |world| async move {
        world.nodes(100, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.run().await;
        assert_eq!(fail_all(&world).await, [1, 16, 32, 51]);
        assert_eq!(world.used_and_pending().await, (0, 1));
        assert!(world.received().await.is_empty());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.received().await, ["5 k1? n001"], "it begins anew after a second");
        assert_eq!(fail_all(&world).await, [1, 16, 32, 51]);
        tokio::time::sleep(Duration::from_millis(1_900)).await;
        assert!(world.shim.open().is_empty(), "then it waits for two");
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(world.shim.open().len(), 1);
    });
}

#[test]
fn no_question_names_more_than_was_set() {
    let builder = Scheduler::builder().reservation_delay(None).candidates_per_question(20);
    play_with(builder, "{name: a}", 64, |world| async move {
        world.nodes(60, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.run().await;
        assert_eq!(fail_all(&world).await, [1, 16, 20, 20, 3]);
    });
}

#[test]
fn after_a_success_one_node_is_asked_again() {
    play("{name: a}", 1, |world| async move {
        world.nodes(30, 4).await;
        world.app("app", "root.a").await;
        world.ask_many("app", "k", 1, 2).await;
        world.run().await;
        world.shim.answer([(1, failed())]);
        world.run().await;
        world.shim.answer([(2, passed_at(3))]);
        assert_eq!(world.received().await, ["app Running", "k#1 on n005", "3 k? n001"]);
    });
}

#[test]
fn asks_refused_everywhere_do_not_wake_each_other() {
    play("{name: a}", 64, |world| async move {
        world.nodes(3, 1).await;
        world.app("app", "root.a").await;
        for key in ["k1", "k2", "k3", "k4", "k5"] {
            world.ask("app", key, 1).await;
        }
        world.ask_on("app", "r1", 1, "n001").await;
        world.ask_on("app", "r2", 1, "n001").await;
        world.run().await;
        let asked = fail_all(&world).await.len();
        assert!(asked < 40, "{asked} questions");
        assert_eq!(world.used_and_pending().await, (0, 7));
        assert!(world.received().await.is_empty());
    });
}

/// Two asks, one node that refuses the first and one that would not: a node that was skipped
/// because another ask held it is asked about once it is free, without waiting for a second.
#[test]
fn a_released_node_is_asked_if_skipped_before() {
    play("{name: a}", 64, |world| async move {
        world.nodes(2, 1).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.ask("app", "k2", 1).await;
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n001", "2 k2? n002"]);
        world.shim.answer([(1, failed())]);
        assert!(world.received().await.is_empty(), "n002 is held for k2");
        world.shim.answer([(2, failed())]);
        assert_eq!(world.received().await, ["3 k1? n002", "4 k2? n001"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.received().await, ["app Running", "k1 on n002", "k2 on n001"]);
    });
}

#[test]
fn a_node_that_grows_is_asked_at_once() {
    play("{name: a}", 64, |world| async move {
        world.nodes(2, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.run().await;
        assert_eq!(fail_all(&world).await, [1, 1]);
        world.change_node("n002", Some(5), true).await;
        assert_eq!(world.received().await.len(), 1);
    });
}

#[test]
fn a_node_that_grew_meanwhile_is_asked_again() {
    play("{name: a}", 64, |world| async move {
        world.nodes(2, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.run().await;
        world.shim.answer([(1, failed())]);
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n001", "2 k1? n002"][2..]);
        world.change_node("n001", Some(5), true).await;
        world.run().await;
        world.shim.answer([(2, failed())]);
        assert_eq!(world.received().await, ["3 k1? n001"]);
        assert_eq!(fail_all(&world).await, [1, 1], "and then no more");
    });
}

#[test]
fn invalidated_refusals_are_asked_again_at_once() {
    let named: [fn() -> Invalidation; 4] = [
        || Invalidation { all: true, ..Invalidation::default() },
        || Invalidation { keys: vec!["k1".to_owned()], ..Invalidation::default() },
        || Invalidation { nodes: vec!["n001".to_owned()], ..Invalidation::default() },
        // No other ask may use a node that is reserved for an ask which requires it.
        || Invalidation { nodes: vec!["n003".to_owned()], ..Invalidation::default() },
    ];
    for (invalidation, asked) in named.into_iter().zip([3, 1, 2, 1]) {
        play("{name: a}", 64, |world| async move {
            world.nodes(3, 9).await;
            world.app("app", "root.a").await;
            world.ask("app", "k1", 1).await;
            world.ask("app", "k2", 1).await;
            world.ask_on("app", "k3", 1, "n003").await;
            world.run().await;
            fail_all(&world).await;
            world.control.invalidate(invalidation());
            world.run().await;
            assert_eq!(world.shim.open().len(), asked, "{:?}", invalidation());
            fail_all(&world).await;
            let other = Invalidation {
                keys: vec!["unknown".to_owned()],
                nodes: vec!["unknown".to_owned()],
                ..Invalidation::default()
            };
            world.control.invalidate(other);
            assert!(world.received().await.is_empty());
        });
    }
}

#[test]
fn an_invalidation_restarts_a_try_in_progress() {
    play("{name: a}", 1, |world| async move {
        world.nodes(3, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.run().await;
        world.shim.answer([(1, failed())]);
        world.run().await;
        let keys = vec!["k1".to_owned()];
        world.control.invalidate(Invalidation { keys, ..Invalidation::default() });
        world.run().await;
        world.shim.answer([(2, Verdict::Unanswered)]);
        assert_eq!(world.received().await, ["3 k1? n001"]);
    });
}

#[test]
fn unanswered_questions_are_repeated() {
    play("{name: a}", 64, |world| async move {
        world.nodes(2, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.run().await;
        world.shim.answer([(1, Verdict::Unanswered)]);
        assert_eq!(world.received().await, ["2 k1? n001"]);
        world.shim.answer([(1, passed(Scope::Static))]);
        assert!(world.received().await.is_empty(), "the first question is over");
    });
}

#[test]
fn a_panicking_callback_is_asked_again_after_a_second() {
    play("{name: a}", 64, |world| async move {
        world.shim.panics.store(true, Ordering::Release);
        world.nodes(2, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.scheduler.settle().await;
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n001"]);
        assert_eq!(world.used_and_pending().await, (0, 1));
        world.shim.panics.store(false, Ordering::Release);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.received().await, ["2 k1? n001"]);
    });
}

#[test]
fn an_answer_about_an_unnamed_candidate_counts_as_none() {
    play("{name: a}", 64, |world| async move {
        world.nodes(2, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.run().await;
        world.shim.answer([(1, passed_at(1))]);
        assert!(world.received().await.is_empty());
        assert_eq!(world.used_and_pending().await, (0, 1));
    });
}

/// Waiting for a held node has one deadline, however often the holder releases it and holds it
/// again.
#[test]
fn an_ask_waiting_for_a_held_node_retries_within_a_second() {
    play("{name: a}", 64, |world| async move {
        world.nodes(2, 2).await;
        world.app("app", "root.a").await;
        world.ask_first_on("app", "k1", 1, "n002").await;
        world.ask("app", "k2", 2).await;
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n002", "2 k2? n001"]);
        world.shim.answer([(2, failed())]);
        assert!(world.received().await.is_empty());
        for number in [1, 3, 4] {
            world.shim.answer([(number, Verdict::Unanswered)]);
            assert_eq!(world.received().await.len(), 1, "only about k1, which comes first");
        }
        assert_eq!(world.shim.open_ids(), [5]);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.received().await, ["6 k2? n001"]);
    });
}
