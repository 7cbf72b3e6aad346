//! Nodes on which a request can never run, as reported by the RM: the request does not return to
//! the node for five minutes, however predicates are evaluated, and other requests may use the
//! node. On other nodes it is tried after the back-off of a failed start.

use std::time::Duration;

use monoceros_actors::{Predicates, Scope};

use super::shim::{passed, play};

/// The first back-off of a request whose start failed.
const SECOND: Duration = Duration::from_secs(1);
const FIVE_MINUTES: Duration = Duration::from_secs(300);

#[test]
fn an_excluded_request_returns_after_five_minutes() {
    play("{name: a}", 1, |world| async move {
        world.control.set_predicates(Predicates::Local);
        world.node("n1", 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k", 2).await;
        assert_eq!(
            world.received().await,
            ["k asked at once", "app Accepted", "app Running", "k on n1"]
        );
        world.refuse_for_good("app", "k").await;
        assert_eq!(world.received().await, Vec::<String>::new(), "it waits; nobody is asked");
        world.ask("app", "other", 2).await;
        assert_eq!(world.received().await, ["other asked at once", "other on n1"]);
        world.change_node("n1", Some(9), true).await;
        assert_eq!(world.received().await, Vec::<String>::new(), "more room there is no reason");
        tokio::time::sleep(FIVE_MINUTES).await;
        assert_eq!(world.received().await, ["k asked at once", "k on n1"]);
        world.refuse_for_good("app", "k").await;
        world.node("n2", 4).await;
        assert_eq!(world.received().await, Vec::<String>::new(), "it backs off");
        tokio::time::sleep(SECOND * 2).await;
        assert_eq!(world.received().await, ["k asked at once", "k on n2"]);
    });
}

#[test]
fn a_question_skips_an_excluded_node() {
    play("{name: a}", 64, |world| async move {
        world.nodes(2, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k", 2).await;
        assert_eq!(world.received().await, ["app Accepted", "1 k? n001"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.received().await, ["app Running", "k on n001"]);
        world.refuse_for_good("app", "k").await;
        tokio::time::sleep(SECOND).await;
        assert_eq!(world.received().await, ["2 k? n002"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.received().await, ["k on n002"]);
    });
}

/// An ask that names its node has no alternative: it waits for its time.
#[test]
fn an_ask_naming_an_excluded_node_waits_five_minutes() {
    play("{name: a}", 64, |world| async move {
        world.nodes(2, 4).await;
        world.app("app", "root.a").await;
        world.ask_on("app", "k", 2, "n001").await;
        assert_eq!(world.received().await, ["app Accepted", "1 k? n001"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.received().await, ["app Running", "k on n001"]);
        world.refuse_for_good("app", "k").await;
        assert_eq!(world.received().await, Vec::<String>::new());
        tokio::time::sleep(FIVE_MINUTES).await;
        assert_eq!(world.received().await, ["2 k? n001"]);
    });
}

#[test]
fn a_repeated_request_keeps_its_exclusion() {
    play("{name: a}", 1, |world| async move {
        world.control.set_predicates(Predicates::Local);
        world.nodes(1, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k", 2).await;
        world.run().await;
        world.refuse_for_good("app", "k").await;
        world.ask("app", "k", 1).await;
        assert_eq!(world.received().await, Vec::<String>::new());
        world.withdraw("app", "k").await;
        world.ask("app", "k", 1).await;
        let received = world.received().await;
        assert!(
            received.contains(&"k on n001".to_owned()),
            "withdrawn, it is another: {received:?}"
        );
    });
}

/// Two instances: one runs and is refused for good while the question about the other names the
/// node.
#[test]
fn a_question_naming_an_excluded_node_is_repeated_without_it() {
    play("{name: a}", 1, |world| async move {
        world.nodes(1, 4).await;
        world.app("app", "root.a").await;
        world.ask_many("app", "k", 2, 2).await;
        assert_eq!(world.received().await, ["app Accepted", "1 k? n001"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.received().await, ["app Running", "k#1 on n001", "2 k? n001"]);
        world.refuse_for_good("app", "k#1").await;
        assert_eq!(world.received().await, ["2 withdrawn"]);
        world.shim.answer([(2, passed(Scope::Static))]);
        world.node("n002", 4).await;
        assert_eq!(world.received().await, Vec::<String>::new(), "it backs off");
        tokio::time::sleep(SECOND).await;
        assert_eq!(world.received().await, ["3 k? n002"]);
    });
}

#[test]
fn a_renewed_exclusion_ends_with_its_last_deadline() {
    play("{name: a}", 1, |world| async move {
        world.control.set_predicates(Predicates::Local);
        world.nodes(1, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "keeps it running", 1).await;
        world.run().await;
        let minute = Duration::from_secs(60);
        for renewal in 1..=2 {
            world.ask("app", "k", 2).await;
            let received = world.received().await;
            assert!(received.contains(&"k on n001".to_owned()), "{renewal}: {received:?}");
            world.refuse_for_good("app", "k").await;
            if renewal == 1 {
                // The ask ends, and a new one with its key arrives, without the exclusion of the
                // first.
                world.withdraw("app", "k").await;
                tokio::time::sleep(minute).await;
            }
        }
        world.run().await;
        tokio::time::sleep(minute * 4).await;
        assert_eq!(
            world.received().await,
            Vec::<String>::new(),
            "the first deadline is not its own"
        );
        tokio::time::sleep(minute).await;
        assert_eq!(world.received().await, ["k asked at once", "k on n001"]);
    });
}
