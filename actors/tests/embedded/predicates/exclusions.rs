//! A node on which the RM says that a request can never run: for five minutes the request does not go
//! back there, whichever way predicates are asked, and nobody else is kept from the node. Elsewhere it is
//! tried after the back-off of a start that failed.

use std::time::Duration;

use monoceros_actors::{Predicates, Scope};

use super::shim::{passed, play};

/// The first back-off of a request whose start failed.
const SECOND: Duration = Duration::from_secs(1);
const FIVE_MINUTES: Duration = Duration::from_secs(300);

#[test]
fn what_is_refused_for_good_goes_elsewhere_and_back_after_five_minutes() {
    play("{name: a}", 1, |world| async move {
        world.control.set_predicates(Predicates::Local);
        world.node("n1", 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k", 2).await;
        assert_eq!(
            world.heard().await,
            ["k asked at once", "app Accepted", "app Running", "k on n1"]
        );
        world.refuse_for_good("app", "k").await;
        assert_eq!(world.heard().await, Vec::<String>::new(), "it waits; nobody is asked");
        world.ask("app", "other", 2).await;
        assert_eq!(world.heard().await, ["other asked at once", "other on n1"]);
        world.change_node("n1", Some(9), true).await;
        assert_eq!(world.heard().await, Vec::<String>::new(), "more room there is no reason");
        tokio::time::sleep(FIVE_MINUTES).await;
        assert_eq!(world.heard().await, ["k asked at once", "k on n1"]);
        world.refuse_for_good("app", "k").await;
        world.node("n2", 4).await;
        assert_eq!(world.heard().await, Vec::<String>::new(), "it backs off");
        tokio::time::sleep(SECOND * 2).await;
        assert_eq!(world.heard().await, ["k asked at once", "k on n2"]);
    });
}

#[test]
fn a_question_does_not_name_a_node_that_is_excluded() {
    play("{name: a}", 64, |world| async move {
        world.nodes(2, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k", 2).await;
        assert_eq!(world.heard().await, ["app Accepted", "1 k? n001"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.heard().await, ["app Running", "k on n001"]);
        world.refuse_for_good("app", "k").await;
        tokio::time::sleep(SECOND).await;
        assert_eq!(world.heard().await, ["2 k? n002"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.heard().await, ["k on n002"]);
    });
}

/// An ask that names its node has nowhere else to go: it waits for its time.
#[test]
fn an_ask_that_names_the_node_waits_for_five_minutes() {
    play("{name: a}", 64, |world| async move {
        world.nodes(2, 4).await;
        world.app("app", "root.a").await;
        world.ask_on("app", "k", 2, "n001").await;
        assert_eq!(world.heard().await, ["app Accepted", "1 k? n001"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.heard().await, ["app Running", "k on n001"]);
        world.refuse_for_good("app", "k").await;
        assert_eq!(world.heard().await, Vec::<String>::new());
        tokio::time::sleep(FIVE_MINUTES).await;
        assert_eq!(world.heard().await, ["2 k? n001"]);
    });
}

#[test]
fn a_request_that_is_sent_anew_is_still_kept_from_the_node() {
    play("{name: a}", 1, |world| async move {
        world.control.set_predicates(Predicates::Local);
        world.nodes(1, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "k", 2).await;
        world.run().await;
        world.refuse_for_good("app", "k").await;
        world.ask("app", "k", 1).await;
        assert_eq!(world.heard().await, Vec::<String>::new());
        world.withdraw("app", "k").await;
        world.ask("app", "k", 1).await;
        let heard = world.heard().await;
        assert!(heard.contains(&"k on n001".to_owned()), "withdrawn, it is another: {heard:?}");
    });
}

/// Two instances: one runs and is refused for good while the question about the other names the node.
#[test]
fn a_question_that_names_the_node_is_taken_back_and_asked_without_it() {
    play("{name: a}", 1, |world| async move {
        world.nodes(1, 4).await;
        world.app("app", "root.a").await;
        world.ask_many("app", "k", 2, 2).await;
        assert_eq!(world.heard().await, ["app Accepted", "1 k? n001"]);
        world.shim.answer_all(&passed(Scope::Static));
        assert_eq!(world.heard().await, ["app Running", "k#1 on n001", "2 k? n001"]);
        world.refuse_for_good("app", "k#1").await;
        assert_eq!(world.heard().await, ["2 withdrawn"]);
        world.shim.answer([(2, passed(Scope::Static))]);
        world.node("n002", 4).await;
        assert_eq!(world.heard().await, Vec::<String>::new(), "it backs off");
        tokio::time::sleep(SECOND).await;
        assert_eq!(world.heard().await, ["3 k? n002"]);
    });
}

#[test]
fn an_exclusion_that_is_renewed_ends_with_its_last_deadline() {
    play("{name: a}", 1, |world| async move {
        world.control.set_predicates(Predicates::Local);
        world.nodes(1, 4).await;
        world.app("app", "root.a").await;
        world.ask("app", "keeps it running", 1).await;
        world.run().await;
        let minute = Duration::from_secs(60);
        for renewal in 1..=2 {
            world.ask("app", "k", 2).await;
            let heard = world.heard().await;
            assert!(heard.contains(&"k on n001".to_owned()), "{renewal}: {heard:?}");
            world.refuse_for_good("app", "k").await;
            if renewal == 1 {
                // The ask ends, and one of its key comes again: it knows nothing of the first.
                world.withdraw("app", "k").await;
                tokio::time::sleep(minute).await;
            }
        }
        world.run().await;
        tokio::time::sleep(minute * 4).await;
        assert_eq!(world.heard().await, Vec::<String>::new(), "the first deadline is not its own");
        tokio::time::sleep(minute).await;
        assert_eq!(world.heard().await, ["k asked at once", "k on n001"]);
    });
}
