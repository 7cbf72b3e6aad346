//! An application whose first placement waits for its answer has its place among those that run.

use monoceros_actors::Scope;

use super::shim::{failed, passed, play};

fn queues(most: u64) -> String {
    let leaf = |name| format!("{{name: {name}, maxapplications: 1}}");
    format!("{{name: p, maxapplications: {most}, queues: [{}, {}]}}", leaf("a"), leaf("b"))
}

#[test]
fn who_is_about_to_run_counts_and_goes_on() {
    play(&queues(1), 64, |world| async move {
        world.node("n1", 8).await;
        world.app("app1", "root.p.a").await;
        world.app("app2", "root.p.b").await;
        world.ask("app1", "k1", 1).await;
        world.ask("app2", "k2", 1).await;
        assert_eq!(world.heard().await, ["app1 Accepted", "1 k1? n1", "app2 Accepted"]);
        world.ask("app1", "k3", 1).await;
        assert_eq!(world.heard().await, ["2 k3? n1"], "its next placement is allowed");
        let parent = world.root().await.descendant("root.p").unwrap();
        assert_eq!(parent.running_apps, 0);
        assert_eq!(parent.allocating_accepted_apps, Vec::<String>::new(), "nothing is allocated");

        world.shim.answer([(1, passed(Scope::Static)), (2, passed(Scope::Static))]);
        let heard = world.heard().await;
        assert_eq!(heard, ["app1 Running", "k1 on n1", "k3 on n1"], "app2 still waits");
        world.reconfigure(&queues(2)).await;
        assert_eq!(world.heard().await, ["3 k2? n1"]);
    });
}

#[test]
fn who_was_refused_leaves_its_place_to_the_next() {
    play(&queues(1), 64, |world| async move {
        world.node("n1", 8).await;
        world.app("app1", "root.p.a").await;
        world.app("app2", "root.p.b").await;
        world.ask("app1", "k1", 1).await;
        world.ask("app2", "k2", 1).await;
        world.run().await;
        world.shim.answer([(1, failed())]);
        assert_eq!(world.heard().await, ["2 k2? n1"]);
    });
}
