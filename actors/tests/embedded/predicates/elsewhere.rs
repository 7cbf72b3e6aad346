//! Answers with topics of other nodes: what makes them void, and that no placement violates a rule
//! about other nodes, however late answers are.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_actors::{Elsewhere, Scope, Verdict};
use monoceros_proto::si::v1::TerminationType;
use proptest::prelude::*;

use super::shim::{World, passed, play};

/// A node passes; the answer depends on these topics of other nodes, and the placement affects
/// those.
fn passes(depends_on: &[u64], affects: &[u64]) -> Verdict {
    let elsewhere = Elsewhere { depends_on: depends_on.into(), affects: affects.into() };
    passed(Scope::Elsewhere(Arc::new(elsewhere)))
}

/// Two requests with open questions on two nodes.
async fn two_are_asked_about(world: &World) {
    world.nodes(2, 10).await;
    world.app("app", "root.a").await;
    world.ask("app", "k1", 1).await;
    world.ask("app", "k2", 1).await;
    assert_eq!(world.received().await, ["app Accepted", "1 k1? n001", "2 k2? n002"]);
}

#[test]
fn a_placement_voids_late_answers_on_its_topics() {
    for (placed, late, is_void) in [
        (passes(&[], &[7]), passes(&[7], &[]), true),
        (passes(&[], &[6, 7]), passes(&[5, 7], &[]), true),
        (passes(&[], &[7]), passes(&[8], &[7]), false),
        (passes(&[7], &[]), passes(&[7], &[7]), false),
        (passes(&[], &[]), passes(&[], &[]), false),
        // One of the two names no topics.
        (passed(Scope::Node), passes(&[7], &[]), true),
        (passed(Scope::Node), passes(&[], &[]), true),
        (passed(Scope::Static), passes(&[], &[]), true),
        (passes(&[], &[]), passed(Scope::Topology), true),
        (passes(&[], &[7]), passed(Scope::Node), false),
    ] {
        play("{name: a}", 8, |world| async move {
            two_are_asked_about(&world).await;
            let case = format!("{placed:?}, then {late:?}");
            world.shim.answer([(2, placed)]);
            assert_eq!(world.received().await, ["app Running", "k2 on n002"]);
            world.shim.answer([(1, late)]);
            let expected = if is_void { "3 k1? n001" } else { "k1 on n001" };
            assert_eq!(world.received().await, [expected], "{case}");
        });
    }
}

#[test]
fn a_placement_on_the_node_itself_voids_an_answer() {
    play("{name: a}", 8, |world| async move {
        world.node("n1", 10).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.ask("app", "k2", 1).await;
        world.run().await;
        world.shim.answer([(2, passes(&[], &[]))]);
        assert_eq!(world.received().await, ["app Running", "k2 on n1"]);
        world.shim.answer([(1, passes(&[], &[]))]);
        assert_eq!(world.received().await, ["3 k1? n1"]);
    });
}

#[test]
fn an_end_affects_the_topics_of_its_placement() {
    for (depends_on, is_void) in [(7, true), (8, false)] {
        play("{name: a}", 8, |world| async move {
            two_are_asked_about(&world).await;
            world.shim.answer([(2, passes(&[], &[7]))]);
            world.run().await;
            // The question is repeated, so that the placement is older than the question.
            world.shim.answer([(1, passed(Scope::Topology))]);
            assert_eq!(world.received().await, ["3 k1? n001"]);
            world.end("app", "k2", TerminationType::StoppedByRm).await;
            assert_eq!(world.received().await, ["k2 released"]);
            world.shim.answer([(3, passes(&[depends_on], &[]))]);
            let expected = if is_void { "4 k1? n001" } else { "k1 on n001" };
            assert_eq!(world.received().await, [expected], "it depends on {depends_on}");
        });
    }
}

/// A shim may have used the withdrawn placement in later answers.
#[test]
fn a_withdrawn_placement_affects_every_topic() {
    play("{name: a}", 8, |world| async move {
        two_are_asked_about(&world).await;
        world.withdraw("app", "k2").await;
        assert_eq!(world.received().await, ["2 withdrawn"]);
        world.shim.answer([(1, passes(&[], &[]))]);
        assert_eq!(world.received().await, ["3 k1? n001"]);
    });
}

/// How truthful a shim's topics are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// The true topics.
    Truth,
    /// Leaves out topics that a placement affects.
    TooLittle,
}

/// Result of a history.
#[derive(Debug, Default)]
struct Outcome {
    placed: usize,
    /// Number of placements in a zone that has another placement of their group.
    against_the_rule: usize,
}

/// A shim for clusters of four zones. No two requests of a group, named by the first letter, may
/// run in one zone; plain requests (`p`) may run anywhere.
struct Zones {
    says: Says,
    state: u64,
    /// Nodes of the allocations it was notified of.
    view: BTreeMap<String, String>,
    /// Answers by question. Each was computed when the question arrived, and is sent much later.
    late: BTreeMap<u64, Verdict>,
    outcome: Outcome,
}

impl Zones {
    fn dice(&mut self, sides: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % sides
    }

    fn zone(node: &str) -> u64 {
        node[1..].parse::<u64>().unwrap() % 4
    }

    fn is_free(&self, key: &str, node: &str) -> bool {
        let group = &key[..1];
        let clashes = |(other, on): (&String, &String)| {
            other != key && other.starts_with(group) && Self::zone(on) == Self::zone(node)
        };
        group == "p" || !self.view.iter().any(clashes)
    }

    /// Handles notifications in order: a question is answered from the state before it.
    fn record(&mut self, words: &[String], nodes_of: &BTreeMap<u64, Vec<String>>) {
        for word in words {
            match &word.split(' ').collect::<Vec<_>>()[..] {
                [key, "on", node] => {
                    self.outcome.placed += 1;
                    self.outcome.against_the_rule += usize::from(!self.is_free(key, node));
                    self.view.insert((*key).to_owned(), (*node).to_owned());
                }
                [key, "released"] => _ = self.view.remove(*key),
                [number, "withdrawn"] => _ = self.late.remove(&number.parse().unwrap()),
                [number, key, ..] if key.ends_with('?') => {
                    let (number, key) = (number.parse().unwrap(), key.trim_end_matches('?'));
                    // A question withdrawn in the same turn is no longer open.
                    let Some(nodes) = nodes_of.get(&number) else { continue };
                    let verdict = self.judge(key, nodes);
                    self.late.insert(number, verdict);
                }
                _ => {}
            }
        }
    }

    fn judge(&self, key: &str, nodes: &[String]) -> Verdict {
        let Some(position) = nodes.iter().position(|node| self.is_free(key, node)) else {
            return Verdict::Failed { reasons: vec![("zone".to_owned(), 1)] };
        };
        let own = match &key[..1] {
            "p" => vec![],
            group => vec![u64::from(group.as_bytes()[0])],
        };
        let affects = if self.says == Says::Truth { own.clone() } else { vec![] };
        let elsewhere = Arc::new(Elsewhere { depends_on: own, affects });
        Verdict::Passed { position, scope: Scope::Elsewhere(elsewhere), assumed: false }
    }

    async fn play(mut self, world: &World) -> Outcome {
        world.nodes(12, 100).await;
        world.app("app", "root.a").await;
        for round in 0..60 {
            for n in 0..self.dice(4) {
                let group = ["a", "b", "p"][usize::try_from(self.dice(3)).unwrap()];
                world.ask("app", &format!("{group}{round:02}{n}"), 1).await;
            }
            if let Some(at) = usize::try_from(self.dice(40)).ok().filter(|at| *at < self.view.len())
            {
                let ends = self.view.keys().nth(at).unwrap().clone();
                world.end("app", &ends, TerminationType::StoppedByRm).await;
            }
            let words = world.received().await;
            let open = world.shim.open();
            let nodes = |nodes: &[Arc<str>]| nodes.iter().map(ToString::to_string).collect();
            let nodes_of = open.iter().map(|one| (one.id.0, nodes(&one.nodes))).collect();
            self.record(&words, &nodes_of);
            // Some of the present answers, in any order.
            let mut answers: Vec<_> = self.late.keys().map(|number| (*number, ())).collect();
            answers.retain(|_| self.dice(2) == 0);
            answers.sort_by_key(|(number, ())| number.wrapping_mul(self.state | 1));
            let answers: Vec<_> =
                answers.into_iter().filter_map(|(one, ())| self.late.remove_entry(&one)).collect();
            if !answers.is_empty() {
                world.shim.answer(answers);
            }
        }
        self.outcome
    }
}

fn history(seed: u64, says: Says) -> Outcome {
    let (view, late) = (BTreeMap::new(), BTreeMap::new());
    let zones = Zones { says, state: seed, view, late, outcome: Outcome::default() };
    let outcome = RefCell::new(Outcome::default());
    play("{name: a}", 16, |world| {
        let outcome = &outcome;
        async move { *outcome.borrow_mut() = zones.play(&world).await }
    });
    outcome.into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn late_answers_never_violate_rules_about_other_nodes(seed in any::<u64>()) {
        let outcome = history(seed, Says::Truth);
        prop_assert_eq!(outcome.against_the_rule, 0, "{:?}", outcome);
        prop_assert!(outcome.placed > 5, "{:?}", outcome);
    }
}

/// The histories above are such that leaving out a topic causes a violation.
#[test]
fn a_shim_with_missing_topics_gets_violations() {
    let harm: usize = (0..10).map(|seed| history(seed, Says::TooLittle).against_the_rule).sum();
    assert!(harm > 0);
}
