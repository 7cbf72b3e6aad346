//! Preemption predicates: the content of the questions, and the effect of answers, at once or
//! later.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use monoceros_actors::{Predicates, PreemptionQuestions};
use monoceros_proto::si::v1::{self as si, TerminationType};

use super::shim::{World, ask, play};

/// Returns the index of the last victim that has to leave a node.
type Says = fn(&si::PreemptionPredicatesArgs) -> Option<i32>;

/// Answers of a shim to preemption questions.
#[derive(Default)]
pub(crate) struct PreemptionAnswers {
    says: Mutex<Option<Says>>,
    /// Questions to be answered later.
    open: Mutex<Vec<PreemptionQuestions>>,
}

impl PreemptionAnswers {
    pub(crate) fn now(
        &self,
        args: &si::PreemptionPredicatesArgs,
    ) -> si::PreemptionPredicatesResponse {
        let says = self.says.lock().unwrap().expect("the test says what is answered");
        let index = says(args);
        si::PreemptionPredicatesResponse {
            success: index.is_some(),
            index: index.unwrap_or_default(),
        }
    }

    pub(crate) fn later(&self, group: PreemptionQuestions) {
        self.open.lock().unwrap().push(group);
    }

    /// Answers all open questions.
    fn answer(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap());
        for group in open {
            let answers = group.questions.iter().map(|args| Some(self.now(args)));
            group.answers.answer_preemption(group.id, &answers.collect::<Vec<_>>());
        }
    }
}

/// Formats a question: preemptor, node, victims in order, and the index up to which they leave at
/// least.
pub(crate) fn words(args: &si::PreemptionPredicatesArgs) -> String {
    let victims = args.preempt_allocation_keys.join(" ");
    let (key, node, start) = (&args.allocation_key, &args.node_id, args.start_index);
    format!("{key} on {node} without {victims} from {start}?")
}

/// A node: its name, its size, and its allocations, each with key and size.
type Machine<'a> = (&'a str, i64, &'a [(&'a str, i64)]);

/// Two queues: the second is below its guarantee, and the first uses these nodes, given as size and
/// allocations, the last one newest. An allocation named `first` is the originator of its
/// application.
async fn taken(world: &World, says: Says, nodes: &[Machine<'_>]) {
    *world.shim.preemption.says.lock().unwrap() = Some(says);
    world.control.set_predicates(Predicates::Local);
    world.app("a", "root.q1").await;
    world.app("b", "root.q2").await;
    for (node, vcore, runs) in nodes {
        world.node(node, *vcore).await;
        for (key, vcore) in *runs {
            let originator = key.starts_with("first");
            let ask = si::AllocationAsk { originator, max_allocations: 1, ..ask("a", key, *vcore) };
            world.ask_for(ask).await;
            // The next one is newer.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    world.run().await;
}

/// `b` asks for this amount, and waits until it may preempt.
async fn preempts(world: &World, vcore: i64) -> Vec<String> {
    let policy = si::PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true };
    let preemption_policy = Some(policy);
    let ask = si::AllocationAsk { preemption_policy, max_allocations: 1, ..ask("b", "k", vcore) };
    world.ask_for(ask).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.received().await
}

/// The reason why the request of `b` does not preempt.
async fn why(world: &World) -> String {
    let explained = world.scheduler.explain("default", "b", 0).await.unwrap();
    explained[0].preemption.clone()
}

const QUEUES: &str = "{name: q1}, {name: q2, resources: {guaranteed: {vcore: 9m}}}";

const FOUR: &[Machine<'_>] = &[("n1", 8, &[("v1", 2), ("v2", 2), ("v3", 2), ("v4", 2)])];

#[test]
fn the_answered_index_bounds_the_victims() {
    play(QUEUES, 8, |world| async move {
        taken(&world, |_| Some(2), FOUR).await;
        assert_eq!(
            preempts(&world, 2).await,
            [
                "b Accepted",
                "k on n1 without v4 v3 v2 v1 from 0?",
                "v4 released",
                "v3 released",
                "v2 released"
            ]
        );
    });
}

#[test]
fn a_late_answer_decides_like_an_immediate_one() {
    play(QUEUES, 8, |world| async move {
        taken(&world, |_| Some(2), FOUR).await;
        world.control.set_predicates(Predicates::Remote { in_flight: 8, holds: false });
        let question = "k on n1 without v4 v3 v2 v1 from 0?";
        assert_eq!(preempts(&world, 2).await, ["b Accepted", question]);
        world.shim.preemption.answer();
        assert_eq!(world.received().await, ["v4 released", "v3 released", "v2 released"]);
    });
}

#[test]
fn an_index_beyond_the_victims_is_a_refusal() {
    play(QUEUES, 8, |world| async move {
        let says: Says = |args| Some(if args.node_id == "n2" { 99 } else { 0 });
        taken(&world, says, &[("n1", 5, &[("v1", 5)]), ("n2", 5, &[("v2", 5)])]).await;
        assert_eq!(
            preempts(&world, 5).await,
            [
                "b Accepted",
                "k on n2 without v2 from 0?",
                "k on n1 without v1 from 0?",
                "v1 released"
            ]
        );
    });
}

#[test]
fn refusals_on_every_node_prevent_evictions() {
    play(QUEUES, 8, |world| async move {
        taken(&world, |_| None, FOUR).await;
        let question = "k on n1 without v4 v3 v2 v1 from 0?";
        assert_eq!(preempts(&world, 2).await, ["b Accepted", question]);
        assert_eq!(why(&world).await, "the resource manager refused every node that would do");
        // The answer may change at any time, so the question is repeated after the pause.
        tokio::time::sleep(Duration::from_secs(14)).await;
        assert_eq!(world.received().await, Vec::<String>::new());
        *world.shim.preemption.says.lock().unwrap() = Some(|_| Some(0));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.received().await, [question, "v4 released"]);
    });
}

/// Nodes with one victim each, of which the first `originators` are originators.
async fn twelve_nodes(world: &World, says: Says, originators: usize) -> Vec<String> {
    let names: Vec<_> = (1..=12)
        .map(|at| {
            let kind = if at <= originators { "first" } else { "v" };
            (format!("n{at:02}"), format!("{kind}{at:02}"))
        })
        .collect();
    let runs: Vec<_> = names.iter().map(|(_, key)| [(key.as_str(), 5)]).collect();
    let nodes: Vec<_> =
        names.iter().zip(&runs).map(|((node, _), runs)| (node.as_str(), 5, &runs[..])).collect();
    taken(world, says, &nodes).await;
    let mut received = preempts(world, 5).await;
    received.retain(|word| !word.contains("Accepted"));
    received
}

#[test]
fn a_second_group_of_nodes_follows_a_refused_first() {
    for (says, originators, asked, victim) in [
        // Any node passes: the one with the newest victim.
        ((|_| Some(0)) as Says, 0, 10, "v12"),
        // One of the first ten passes.
        (|args| (args.node_id == "n03").then_some(0), 0, 10, "v03"),
        // None of the first ten passes.
        (|args| (args.node_id == "n01").then_some(0), 0, 12, "v01"),
        // Nodes without an originator are asked about before others.
        (|_| Some(0), 10, 10, "v12"),
        (|args| (args.node_id == "n10").then_some(0), 10, 10, "first10"),
        (|_| Some(0), 12, 10, "first12"),
    ] {
        play(QUEUES, 8, |world| async move {
            let received = twelve_nodes(&world, says, originators).await;
            let (last, questions) = received.split_last().unwrap();
            assert_eq!(questions.len(), asked, "{received:?}");
            assert!(questions.iter().all(|word| word.ends_with("from 0?")), "{received:?}");
            assert_eq!(*last, format!("{victim} released"));
        });
    }
}

#[test]
fn an_early_end_of_a_victim_changes_the_plan() {
    play(QUEUES, 8, |world| async move {
        let nodes: &[Machine<'_>] = &[("n1", 9, &[("v1", 3), ("v2", 3), ("v3", 3)])];
        taken(&world, |args| Some(args.start_index), nodes).await;
        world.control.set_predicates(Predicates::Remote { in_flight: 8, holds: false });
        let question = "k on n1 without v3 v2 v1 from 1?";
        assert_eq!(preempts(&world, 5).await, ["b Accepted", question]);
        world.end("a", "v3", TerminationType::StoppedByRm).await;
        assert_eq!(world.received().await, ["v3 released"]);
        world.shim.preemption.answer();
        assert_eq!(world.received().await, ["k on n1 without v2 v1 from 0?"]);
        world.shim.preemption.answer();
        assert_eq!(world.received().await, ["v2 released"]);
    });
}

/// Each of three plans is outdated before it can be carried out; then the preemptor waits for a
/// while, though nothing changes after that.
#[test]
fn repeatedly_outdated_plans_are_a_failed_try() {
    play(QUEUES, 8, |world| async move {
        let nodes: &[Machine<'_>] = &[("n1", 9, &[("v1", 3), ("v2", 2), ("v3", 2), ("v4", 2)])];
        taken(&world, |args| Some(args.start_index), nodes).await;
        world.control.set_predicates(Predicates::Remote { in_flight: 8, holds: false });
        preempts(&world, 9).await;
        for victim in ["v4", "v3", "v2"] {
            world.end("a", victim, TerminationType::StoppedByRm).await;
            world.run().await;
            world.shim.preemption.answer();
            world.run().await;
        }
        let stale =
            "what was planned was no longer so: a victim had left or may not be taken any more";
        assert!(why(&world).await.contains(stale), "it is said of the last look");
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(world.received().await, ["k on n1 without v1 from 0?"]);
    });
}

#[test]
fn a_daemon_refused_by_its_node_has_no_victims() {
    let question = "d on n1 without v4 v3 v2 v1 from 0?";
    for predicates in [Predicates::Local, Predicates::Remote { in_flight: 8, holds: false }] {
        play(QUEUES, 8, |world| async move {
            taken(&world, |_| None, FOUR).await;
            world.control.set_predicates(predicates);
            world.ask_on("b", "d", 2, "n1").await;
            // Questions that are answered at once are received before the notifications of earlier
            // decisions.
            let received = world.received().await;
            assert!(received.contains(&question.to_owned()) && received.len() == 2, "{received:?}");
            world.shim.preemption.answer();
            assert_eq!(world.received().await, Vec::<String>::new());
            assert_eq!(why(&world).await, "the resource manager refused every node that would do");
            // The question is repeated after a second, after two more, and so on.
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(world.received().await, [question]);
            world.shim.preemption.answer();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(world.received().await, Vec::<String>::new());
            *world.shim.preemption.says.lock().unwrap() = Some(|_| Some(1));
            tokio::time::sleep(Duration::from_millis(1100)).await;
            assert_eq!(world.received().await[0], question);
            world.shim.preemption.answer();
            world.run().await;
            let root = world.root().await;
            assert_eq!(root.preempting_resource.sorted()[0].1, 4, "two of two");
        });
    }
}

/// A preemptor that its node refuses after the victims have left keeps the node, and no further
/// victim is evicted for it.
#[test]
fn a_refused_preemptor_keeps_its_node_without_further_victims() {
    play(QUEUES, 8, |world| async move {
        taken(&world, |args| Some(args.start_index), FOUR).await;
        let question = "k on n1 without v4 v3 v2 v1 from 0?";
        assert_eq!(preempts(&world, 2).await, ["b Accepted", question, "v4 released"]);
        world.shim.refuses.store(true, Ordering::Release);
        world.end("a", "v4", TerminationType::PreemptedByScheduler).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let received = world.received().await;
        assert!(!received.iter().any(|word| word.contains("without")), "{received:?}");
        assert_eq!(why(&world).await, "victims are leaving for it already");
        assert_eq!(world.root().await.preempting_resource.sorted(), []);
    });
}

#[test]
fn switching_preemption_off_cancels_a_plan_in_question() {
    play(QUEUES, 8, |world| async move {
        taken(&world, |_| Some(2), FOUR).await;
        world.control.set_predicates(Predicates::Remote { in_flight: 8, holds: false });
        let question = "k on n1 without v4 v3 v2 v1 from 0?";
        assert_eq!(preempts(&world, 2).await, ["b Accepted", question]);
        world.switch_preemption_off(QUEUES).await;
        world.shim.preemption.answer();
        assert_eq!(world.received().await, Vec::<String>::new());
        assert_eq!(why(&world).await, "preemption is switched off in this partition");
    });
}
