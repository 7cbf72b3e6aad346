//! Declared gangs whose predicates are answered later: all members have their places before the first
//! is asked about, and all of them run, or nothing is held.

use monoceros_actors::{Scope, Verdict};
use monoceros_proto::si::v1::node_info::ActionFromRm;

use crate::shim::{World, passed, play};

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

/// A member is to be asked about again, when the only place in the window is taken by another
/// application. It is asked about when that place is free, whatever made it so.
fn after_void<F: Future<Output = ()>>(happens: impl FnOnce(std::rc::Rc<World>) -> F) {
    play_gang(2, |world| async move {
        let world = std::rc::Rc::new(world);
        gang(&world, 1, &["m1"]).await;
        world.app("other", "root.b").await;
        world.ask_on("other", "o1", 1, "n2").await;
        world.node("n2", 1).await;
        assert_eq!(world.heard().await, ["other Accepted", "1 o1? n2"]);
        world.node("n1", 4).await;
        assert_eq!(world.heard().await, ["2 m1? n1"]);
        world.shim.answer([(2, Verdict::Unanswered)]);
        assert!(world.heard().await.is_empty(), "one may wait now, and that is the other");
        happens(std::rc::Rc::clone(&world)).await;
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
