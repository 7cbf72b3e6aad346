//! Questions about preemption: what is asked, and what the answer decides, whether it comes at once or
//! later.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use monoceros_actors::{Predicates, PreemptionQuestions};
use monoceros_proto::si::v1::{self as si, TerminationType};

use super::shim::{World, ask, play};

/// Says how many of the victims have to go on a node: up to the one at this place.
type Says = fn(&si::PreemptionPredicatesArgs) -> Option<i32>;

/// What a shim says to questions about preemption.
#[derive(Default)]
pub(crate) struct PreemptionAnswers {
    says: Mutex<Option<Says>>,
    /// What is to be answered later.
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

    /// Answers what is open.
    fn answer(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap());
        for group in open {
            let answers = group.questions.iter().map(|args| Some(self.now(args)));
            group.answers.answer_preemption(group.id, &answers.collect::<Vec<_>>());
        }
    }
}

/// A question: for whom who would leave which node, in order, and up to which of them at least.
pub(crate) fn words(args: &si::PreemptionPredicatesArgs) -> String {
    let victims = args.preempt_allocation_keys.join(" ");
    let (key, node, start) = (&args.allocation_key, &args.node_id, args.start_index);
    format!("{key} on {node} without {victims} from {start}?")
}

/// A node: its name, its size, and what runs there, each with its key and size.
type Machine<'a> = (&'a str, i64, &'a [(&'a str, i64)]);

/// Of two queues the second has its guarantee coming, and the first has these nodes: of each its
/// size, and what runs there with the size of each, the last one newest. What is called `first` is
/// the originator of its application.
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

/// `b` asks for so much, and waits until it may preempt.
async fn preempts(world: &World, vcore: i64) -> Vec<String> {
    let policy = si::PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true };
    let preemption_policy = Some(policy);
    let ask = si::AllocationAsk { preemption_policy, max_allocations: 1, ..ask("b", "k", vcore) };
    world.ask_for(ask).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.heard().await
}

/// Why the request of `b` preempts nobody.
async fn why(world: &World) -> String {
    let explained = world.scheduler.explain("default", "b", 0).await.unwrap();
    explained[0].preemption.clone()
}

const QUEUES: &str = "{name: q1}, {name: q2, resources: {guaranteed: {vcore: 9m}}}";

const FOUR: &[Machine<'_>] = &[("n1", 8, &[("v1", 2), ("v2", 2), ("v3", 2), ("v4", 2)])];

#[test]
fn the_victims_are_those_up_to_the_place_that_was_answered() {
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
fn an_answer_that_comes_later_decides_as_one_that_comes_at_once() {
    play(QUEUES, 8, |world| async move {
        taken(&world, |_| Some(2), FOUR).await;
        world.control.set_predicates(Predicates::Remote { in_flight: 8, holds: false });
        let question = "k on n1 without v4 v3 v2 v1 from 0?";
        assert_eq!(preempts(&world, 2).await, ["b Accepted", question]);
        world.shim.preemption.answer();
        assert_eq!(world.heard().await, ["v4 released", "v3 released", "v2 released"]);
    });
}

#[test]
fn an_answer_behind_the_last_victim_is_a_refusal() {
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
fn where_every_node_is_refused_nobody_leaves() {
    play(QUEUES, 8, |world| async move {
        taken(&world, |_| None, FOUR).await;
        let question = "k on n1 without v4 v3 v2 v1 from 0?";
        assert_eq!(preempts(&world, 2).await, ["b Accepted", question]);
        assert_eq!(why(&world).await, "the resource manager refused every node that would do");
        // It may say otherwise at any time, so it is asked again after the pause.
        tokio::time::sleep(Duration::from_secs(14)).await;
        assert_eq!(world.heard().await, Vec::<String>::new());
        *world.shim.preemption.says.lock().unwrap() = Some(|_| Some(0));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.heard().await, [question, "v4 released"]);
    });
}

/// Nodes with one victim each, of which the first so many are originators.
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
    let mut heard = preempts(world, 5).await;
    heard.retain(|word| !word.contains("Accepted"));
    heard
}

#[test]
fn a_second_group_of_nodes_is_asked_about_only_where_the_first_is_refused() {
    for (says, originators, asked, victim) in [
        // Any node will do: the one with the newest victim.
        ((|_| Some(0)) as Says, 0, 10, "v12"),
        // One of the first ten will.
        (|args| (args.node_id == "n03").then_some(0), 0, 10, "v03"),
        // None of them.
        (|args| (args.node_id == "n01").then_some(0), 0, 12, "v01"),
        // Nodes without a first of an application are asked about before others.
        (|_| Some(0), 10, 10, "v12"),
        (|args| (args.node_id == "n10").then_some(0), 10, 10, "first10"),
        (|_| Some(0), 12, 10, "first12"),
    ] {
        play(QUEUES, 8, |world| async move {
            let heard = twelve_nodes(&world, says, originators).await;
            let (last, questions) = heard.split_last().unwrap();
            assert_eq!(questions.len(), asked, "{heard:?}");
            assert!(questions.iter().all(|word| word.ends_with("from 0?")), "{heard:?}");
            assert_eq!(*last, format!("{victim} released"));
        });
    }
}

#[test]
fn a_plan_is_made_anew_where_a_victim_ended_before_the_answer_came() {
    play(QUEUES, 8, |world| async move {
        let nodes: &[Machine<'_>] = &[("n1", 9, &[("v1", 3), ("v2", 3), ("v3", 3)])];
        taken(&world, |args| Some(args.start_index), nodes).await;
        world.control.set_predicates(Predicates::Remote { in_flight: 8, holds: false });
        let question = "k on n1 without v3 v2 v1 from 1?";
        assert_eq!(preempts(&world, 5).await, ["b Accepted", question]);
        world.end("a", "v3", TerminationType::StoppedByRm).await;
        assert_eq!(world.heard().await, ["v3 released"]);
        world.shim.preemption.answer();
        assert_eq!(world.heard().await, ["k on n1 without v2 v1 from 0?"]);
        world.shim.preemption.answer();
        assert_eq!(world.heard().await, ["v2 released"]);
    });
}

/// Each of three plans is out of date before it can be carried out; then it waits for a while, though
/// nothing changes after that.
#[test]
fn a_plan_that_is_out_of_date_again_and_again_is_a_try_in_vain() {
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
        assert_eq!(world.heard().await, ["k on n1 without v1 from 0?"]);
    });
}

#[test]
fn nobody_leaves_for_a_daemon_that_its_node_refuses() {
    let question = "d on n1 without v4 v3 v2 v1 from 0?";
    for predicates in [Predicates::Local, Predicates::Remote { in_flight: 8, holds: false }] {
        play(QUEUES, 8, |world| async move {
            taken(&world, |_| None, FOUR).await;
            world.control.set_predicates(predicates);
            world.ask_on("b", "d", 2, "n1").await;
            // What is asked at once is heard before what was decided by then.
            let heard = world.heard().await;
            assert!(heard.contains(&question.to_owned()) && heard.len() == 2, "{heard:?}");
            world.shim.preemption.answer();
            assert_eq!(world.heard().await, Vec::<String>::new());
            assert_eq!(why(&world).await, "the resource manager refused every node that would do");
            // It is asked again after a second, after two more, and so on.
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(world.heard().await, [question]);
            world.shim.preemption.answer();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(world.heard().await, Vec::<String>::new());
            *world.shim.preemption.says.lock().unwrap() = Some(|_| Some(1));
            tokio::time::sleep(Duration::from_millis(1100)).await;
            assert_eq!(world.heard().await[0], question);
            world.shim.preemption.answer();
            world.run().await;
            let root = world.root().await;
            assert_eq!(root.preempting_resource.sorted()[0].1, 4, "two of two");
        });
    }
}

/// Its node refuses it after others have left: it keeps the node, and nobody else leaves for it.
#[test]
fn who_is_refused_after_others_left_has_no_more_victims_while_it_keeps_its_node() {
    play(QUEUES, 8, |world| async move {
        taken(&world, |args| Some(args.start_index), FOUR).await;
        let question = "k on n1 without v4 v3 v2 v1 from 0?";
        assert_eq!(preempts(&world, 2).await, ["b Accepted", question, "v4 released"]);
        world.shim.refuses.store(true, Ordering::Release);
        world.end("a", "v4", TerminationType::PreemptedByScheduler).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let heard = world.heard().await;
        assert!(!heard.iter().any(|word| word.contains("without")), "{heard:?}");
        assert_eq!(why(&world).await, "victims are leaving for it already");
        assert_eq!(world.root().await.preempting_resource.sorted(), []);
    });
}

#[test]
fn what_is_switched_off_while_the_rm_thinks_is_not_carried_out() {
    play(QUEUES, 8, |world| async move {
        taken(&world, |_| Some(2), FOUR).await;
        world.control.set_predicates(Predicates::Remote { in_flight: 8, holds: false });
        let question = "k on n1 without v4 v3 v2 v1 from 0?";
        assert_eq!(preempts(&world, 2).await, ["b Accepted", question]);
        world.switch_preemption_off(QUEUES).await;
        world.shim.preemption.answer();
        assert_eq!(world.heard().await, Vec::<String>::new());
        assert_eq!(why(&world).await, "preemption is switched off in this partition");
    });
}
