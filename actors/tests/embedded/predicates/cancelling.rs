//! The step that makes a placement impossible withdraws it and notifies the RM: the table in
//! `docs/engine.md#placements-in-flight`.

use std::time::Duration;

use monoceros_actors::Scope;
use monoceros_proto::si::v1::TerminationType;
use monoceros_proto::si::v1::node_info::ActionFromRm;

use super::shim::{World, assumed_at, passed, play};

/// One question is open, about `k1` of two cores on n001; `n002` takes nothing. Then `happens`
/// runs. The question is withdrawn, and the other notifications are returned. A late answer changes
/// nothing.
fn after<F: Future<Output = ()>>(happens: impl FnOnce(std::rc::Rc<World>) -> F) -> Vec<String> {
    let received = std::cell::RefCell::new(Vec::new());
    play("{name: a}", 64, |world| {
        let received = &received;
        async move {
            let world = std::rc::Rc::new(world);
            world.nodes(2, 4).await;
            world.act("n002", ActionFromRm::DrainNode).await;
            world.app("app", "root.a").await;
            world.ask("app", "k1", 2).await;
            assert_eq!(world.received().await, ["app Accepted", "1 k1? n001"]);
            happens(std::rc::Rc::clone(&world)).await;
            let mut words = world.received().await;
            assert_eq!(words.iter().filter(|word| *word == "1 withdrawn").count(), 1, "{words:?}");
            words.retain(|word| word != "1 withdrawn");
            let open = world.shim.open_ids();
            let before = (world.used_and_pending().await, passes(&world));
            world.shim.answer([(1, assumed_at(0))]);
            assert!(world.received().await.is_empty(), "a late answer is dropped");
            assert_eq!(world.shim.open_ids(), open);
            assert_eq!((world.used_and_pending().await, passes(&world)), before);
            if open.is_empty() {
                assert_eq!(world.used_and_pending().await.0, 0);
            }
            *received.borrow_mut() = words;
        }
    });
    received.into_inner()
}

/// Number of answers that placed an allocation, as text.
fn passes(world: &World) -> String {
    world.count("monoceros_predicate_answers_total", "passed").to_string()
}

#[test]
fn withdrawing_an_ask_withdraws_its_placement() {
    let received = after(|world| async move { world.withdraw("app", "k1").await });
    assert_eq!(received, ["app Completing"]);
    let received = after(|world| async move { world.withdraw("app", "").await });
    assert_eq!(received, ["app Completing"]);
}

#[test]
fn a_replaced_ask_is_asked_about_again() {
    let received = after(|world| async move { world.ask("app", "k1", 1).await });
    assert_eq!(received, ["2 k1? n001"]);
}

#[test]
fn a_resized_ask_is_asked_about_again() {
    let received = after(|world| async move { world.request("app", "k1", 3, "").await });
    assert_eq!(received, ["2 k1? n001"]);
}

#[test]
fn placements_by_the_rm_need_no_answer() {
    let received = after(|world| async move {
        world.request("app", "k1", 2, "n002").await;
        world.end("app", "k1", TerminationType::StoppedByRm).await;
    });
    assert_eq!(received, ["app Running", "k1 on n002", "k1 released", "app Completing"]);
}

#[test]
fn removing_an_application_withdraws_its_placements() {
    let received = after(|world| async move { world.remove_app("app").await });
    assert_eq!(received, ["k1 given up"], "nothing was allocated");
}

#[test]
fn removing_a_node_withdraws_unsettled_placements() {
    let received = after(|world| async move {
        world.act("n001", ActionFromRm::Decomission).await;
        world.act("n002", ActionFromRm::DrainToSchedulable).await;
    });
    assert_eq!(received, ["2 k1? n002"]);
}

#[test]
fn a_draining_or_unready_node_withdraws_its_question() {
    assert!(
        after(|world| async move { world.act("n001", ActionFromRm::DrainNode).await }).is_empty()
    );
    assert!(after(|world| async move { world.change_node("n001", None, false).await }).is_empty());
}

#[test]
fn a_node_shrunk_below_its_usage_withdraws_the_placement() {
    assert!(
        after(|world| async move { world.change_node("n001", Some(1), true).await }).is_empty()
    );
}

#[test]
fn a_node_shrunk_within_its_capacity_keeps_the_placement() {
    play("{name: a}", 64, |world| async move {
        world.node("n1", 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 2).await;
        world.run().await;
        world.change_node("n1", Some(2), true).await;
        assert!(world.received().await.is_empty());
        world.shim.answer([(1, passed(Scope::Topology))]);
        assert_eq!(world.received().await, ["app Running", "k1 on n1"]);
    });
}

#[test]
fn a_required_node_that_drains_keeps_the_placement() {
    play("{name: a}", 64, |world| async move {
        world.node("n1", 4).await;
        world.app("app", "root.a").await;
        world.ask_on("app", "k1", 2, "n1").await;
        world.run().await;
        world.act("n1", ActionFromRm::DrainNode).await;
        assert!(world.received().await.is_empty());
        world.shim.answer([(1, passed(Scope::Topology))]);
        assert_eq!(world.received().await, ["app Running", "k1 on n1"]);
    });
}

/// A waiting placement stays.
#[test]
fn an_unbound_allocation_is_asked_about_again() {
    play("{name: a}", 64, |world| async move {
        world.node("n1", 4).await;
        world.app("app", "root.a").await;
        world.ask_many("app", "k", 1, 2).await;
        world.run().await;
        world.shim.answer([(1, assumed_at(0))]);
        world.run().await;
        world.end("app", "k#1", TerminationType::SchedulingFailedOnRm).await;
        assert!(world.received().await.is_empty(), "its request backs off");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.received().await, ["3 k? n1"]);
        assert_eq!(world.shim.open_ids(), [2, 3]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.received().await, ["k#2 on n1", "k#3 on n1"]);
    });
}
