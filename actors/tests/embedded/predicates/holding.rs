//! Who answers changes, or nobody is there: nothing waits that nobody will answer.

use monoceros_actors::{Predicates, Scope};
use monoceros_proto::si::v1::TerminationType;

use super::shim::{World, assumed_at, failed, passed, play};

/// Two questions are open; a third ask waits for room.
fn with_two_open<F: Future<Output = ()>>(story: impl FnOnce(World) -> F) {
    play("{name: a}", 64, |world| async move {
        world.node("n1", 4).await;
        world.app("app", "root.a").await;
        for key in ["k1", "k2", "k3"] {
            world.ask("app", key, 2).await;
        }
        assert_eq!(world.heard().await, ["app Accepted", "1 k1? n1", "2 k2? n1"]);
        story(world).await;
    });
}

#[test]
fn a_hold_takes_back_what_waits_and_decides_nothing_until_it_is_lifted() {
    with_two_open(|world| async move {
        world.control.hold(true);
        assert_eq!(world.heard().await, ["1 withdrawn", "2 withdrawn"]);
        assert_eq!(world.used_and_pending().await, (0, 6));
        world.ask("app", "k4", 1).await;
        world.shim.answer([(1, assumed_at(0))]);
        world.scheduler.settle().await;
        assert!(world.heard().await.is_empty(), "settled is what can be done");
        assert_eq!(world.used_and_pending().await, (0, 7), "an answer comes too late");
        world.control.hold(false);
        assert_eq!(world.heard().await, ["3 k1? n1", "4 k2? n1"]);
    });
}

#[test]
fn without_anybody_to_ask_nothing_is_placed_and_releases_go_on() {
    with_two_open(|world| async move {
        world.shim.answer([(1, passed(Scope::Static))]);
        world.run().await;
        world.control.set_predicates(Predicates::Hold);
        assert_eq!(world.heard().await, ["2 withdrawn"]);
        world.end("app", "k1", TerminationType::StoppedByRm).await;
        assert_eq!(world.heard().await, ["k1 released"]);
        world.scheduler.settle().await;
        assert!(world.heard().await.is_empty());
        assert_eq!(world.used_and_pending().await, (0, 4));
        world.control.set_predicates(Predicates::Remote { in_flight: 1, holds: false });
        assert_eq!(world.heard().await, ["3 k2? n1"], "whoever comes back is asked anew");
    });
}

#[test]
fn a_hold_and_nobody_to_ask_are_lifted_each_by_its_own() {
    with_two_open(|world| async move {
        world.control.hold(true);
        world.control.set_predicates(Predicates::Hold);
        world.run().await;
        world.control.hold(false);
        assert!(world.heard().await.is_empty());
        world.control.hold(true);
        world.control.set_predicates(Predicates::Remote { in_flight: 64, holds: false });
        assert!(world.heard().await.is_empty());
        world.control.hold(false);
        assert_eq!(world.heard().await, ["3 k1? n1", "4 k2? n1"]);
    });
}

#[test]
fn whoever_comes_back_is_asked_about_what_was_refused_before() {
    with_two_open(|world| async move {
        world.shim.answer_all(&failed());
        world.run().await;
        while !world.shim.open().is_empty() {
            world.shim.answer_all(&failed());
            world.run().await;
        }
        world.control.set_predicates(Predicates::Hold);
        assert!(world.heard().await.is_empty());
        world.control.set_predicates(Predicates::Remote { in_flight: 64, holds: false });
        world.run().await;
        assert_eq!(world.shim.open().len(), 2, "as many as have room");
    });
}

#[test]
fn an_rm_that_answers_at_once_is_asked_at_once() {
    with_two_open(|world| async move {
        world.control.set_predicates(Predicates::Local);
        let heard = world.heard().await;
        assert_eq!(
            heard,
            [
                "1 withdrawn",
                "2 withdrawn",
                "k1 asked at once",
                "k2 asked at once",
                "app Running",
                "k1 on n1",
                "k2 on n1"
            ]
        );
    });
}

#[test]
fn a_smaller_window_lets_what_waits_wait() {
    with_two_open(|world| async move {
        world.control.set_predicates(Predicates::Remote { in_flight: 1, holds: false });
        assert!(world.heard().await.is_empty());
        world.withdraw("app", "k1").await;
        assert_eq!(world.heard().await, ["1 withdrawn"], "one waits already");
        world.withdraw("app", "k2").await;
        assert_eq!(world.heard().await, ["2 withdrawn", "3 k3? n1"]);
    });
}
