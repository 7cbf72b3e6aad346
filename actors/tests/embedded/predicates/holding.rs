//! Changes of the answering callback: no placement waits for an answer that cannot come.

use monoceros_actors::{Predicates, Scope};
use monoceros_proto::si::v1::TerminationType;

use super::shim::{World, assumed_at, failed, passed, play};

/// Two questions are open; a third ask waits for capacity.
fn with_two_open<F: Future<Output = ()>>(story: impl FnOnce(World) -> F) {
    play("{name: a}", 64, |world| async move {
        world.node("n1", 4).await;
        world.app("app", "root.a").await;
        for key in ["k1", "k2", "k3"] {
            world.ask("app", key, 2).await;
        }
        assert_eq!(world.received().await, ["app Accepted", "1 k1? n1", "2 k2? n1"]);
        story(world).await;
    });
}

#[test]
fn a_pause_withdraws_placements_and_stops_decisions() {
    with_two_open(|world| async move {
        world.control.hold(true);
        assert_eq!(world.received().await, ["1 withdrawn", "2 withdrawn"]);
        assert_eq!(world.used_and_pending().await, (0, 6));
        world.ask("app", "k4", 1).await;
        world.shim.answer([(1, assumed_at(0))]);
        world.scheduler.settle().await;
        assert!(world.received().await.is_empty(), "settled is what can be done");
        assert_eq!(world.used_and_pending().await, (0, 7), "an answer comes too late");
        world.control.hold(false);
        assert_eq!(world.received().await, ["3 k1? n1", "4 k2? n1"]);
    });
}

#[test]
fn without_a_callback_releases_continue_and_placements_stop() {
    with_two_open(|world| async move {
        world.shim.answer([(1, passed(Scope::Static))]);
        world.run().await;
        world.control.set_predicates(Predicates::Hold);
        assert_eq!(world.received().await, ["2 withdrawn"]);
        world.end("app", "k1", TerminationType::StoppedByRm).await;
        assert_eq!(world.received().await, ["k1 released"]);
        world.scheduler.settle().await;
        assert!(world.received().await.is_empty());
        assert_eq!(world.used_and_pending().await, (0, 4));
        world.control.set_predicates(Predicates::Remote { in_flight: 1, holds: false });
        assert_eq!(world.received().await, ["3 k2? n1"], "whoever comes back is asked anew");
    });
}

#[test]
fn a_pause_and_a_missing_callback_end_separately() {
    with_two_open(|world| async move {
        world.control.hold(true);
        world.control.set_predicates(Predicates::Hold);
        world.run().await;
        world.control.hold(false);
        assert!(world.received().await.is_empty());
        world.control.hold(true);
        world.control.set_predicates(Predicates::Remote { in_flight: 64, holds: false });
        assert!(world.received().await.is_empty());
        world.control.hold(false);
        assert_eq!(world.received().await, ["3 k1? n1", "4 k2? n1"]);
    });
}

#[test]
fn a_returning_callback_is_asked_about_earlier_refusals() {
    with_two_open(|world| async move {
        world.shim.answer_all(&failed());
        world.run().await;
        while !world.shim.open().is_empty() {
            world.shim.answer_all(&failed());
            world.run().await;
        }
        world.control.set_predicates(Predicates::Hold);
        assert!(world.received().await.is_empty());
        world.control.set_predicates(Predicates::Remote { in_flight: 64, holds: false });
        world.run().await;
        assert_eq!(world.shim.open().len(), 2, "as many as have room");
    });
}

#[test]
fn an_rm_with_immediate_answers_is_asked_at_once() {
    with_two_open(|world| async move {
        world.control.set_predicates(Predicates::Local);
        let received = world.received().await;
        assert_eq!(
            received,
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
fn a_smaller_window_keeps_waiting_placements() {
    with_two_open(|world| async move {
        world.control.set_predicates(Predicates::Remote { in_flight: 1, holds: false });
        assert!(world.received().await.is_empty());
        world.withdraw("app", "k1").await;
        assert_eq!(world.received().await, ["1 withdrawn"], "one waits already");
        world.withdraw("app", "k2").await;
        assert_eq!(world.received().await, ["2 withdrawn", "3 k3? n1"]);
    });
}
