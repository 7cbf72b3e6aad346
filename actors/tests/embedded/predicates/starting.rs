//! An application whose first placement waits for an answer counts as a running one.

use monoceros_actors::Scope;

use super::shim::{failed, passed, play};

fn queues(most: u64) -> String {
    let leaf = |name| format!("{{name: {name}, maxapplications: 1}}");
    format!("{{name: p, maxapplications: {most}, queues: [{}, {}]}}", leaf("a"), leaf("b"))
}

#[test]
fn a_starting_application_counts_as_running() {
    play(&queues(1), 64, |world| async move {
        world.node("n1", 8).await;
        world.app("app1", "root.p.a").await;
        world.app("app2", "root.p.b").await;
        world.ask("app1", "k1", 1).await;
        world.ask("app2", "k2", 1).await;
        assert_eq!(world.received().await, ["app1 Accepted", "1 k1? n1", "app2 Accepted"]);
        world.ask("app1", "k3", 1).await;
        assert_eq!(world.received().await, ["2 k3? n1"], "its next placement is allowed");
        let parent = world.root().await.descendant("root.p").unwrap();
        assert_eq!(parent.running_apps, 0);
        assert_eq!(parent.allocating_accepted_apps, Vec::<String>::new(), "nothing is allocated");

        world.shim.answer([(1, passed(Scope::Static)), (2, passed(Scope::Static))]);
        let received = world.received().await;
        assert_eq!(received, ["app1 Running", "k1 on n1", "k3 on n1"], "app2 still waits");
        world.reconfigure(&queues(2)).await;
        assert_eq!(world.received().await, ["3 k2? n1"]);
    });
}

#[test]
fn a_refused_start_leaves_its_place_to_the_next() {
    play(&queues(1), 64, |world| async move {
        world.node("n1", 8).await;
        world.app("app1", "root.p.a").await;
        world.app("app2", "root.p.b").await;
        world.ask("app1", "k1", 1).await;
        world.ask("app2", "k2", 1).await;
        world.run().await;
        world.shim.answer([(1, failed())]);
        assert_eq!(world.received().await, ["2 k2? n1"]);
    });
}
