//! A node on which the RM says that a request can never run: for five minutes the request does not go
//! back there, whichever way predicates are asked, and nobody else is kept from the node.

use std::time::Duration;

use monoceros_actors::{Predicates, Scope};

use crate::shim::{passed, play};

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
