//! Answers that say what of the other nodes they depend on: what makes them void, and that nothing is
//! placed against a rule that concerns other nodes, however late answers come.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_actors::{Elsewhere, Scope, Verdict};
use monoceros_proto::si::v1::TerminationType;
use proptest::prelude::*;

use super::shim::{World, passed, play};

/// A node passes; the answer depends on these topics elsewhere, and the placement affects those.
fn passes(depends_on: &[u64], affects: &[u64]) -> Verdict {
    let elsewhere = Elsewhere { depends_on: depends_on.into(), affects: affects.into() };
    passed(Scope::Elsewhere(Arc::new(elsewhere)))
}

/// Two requests that are asked about together, on two nodes.
async fn two_are_asked_about(world: &World) {
    world.nodes(2, 10).await;
    world.app("app", "root.a").await;
    world.ask("app", "k1", 1).await;
    world.ask("app", "k2", 1).await;
    assert_eq!(world.heard().await, ["app Accepted", "1 k1? n001", "2 k2? n002"]);
}

#[test]
fn a_late_answer_is_void_if_what_was_placed_elsewhere_affects_what_it_depends_on() {
    for (placed, late, is_void) in [
        (passes(&[], &[7]), passes(&[7], &[]), true),
        (passes(&[], &[6, 7]), passes(&[5, 7], &[]), true),
        (passes(&[], &[7]), passes(&[8], &[7]), false),
        (passes(&[7], &[]), passes(&[7], &[7]), false),
        (passes(&[], &[]), passes(&[], &[]), false),
        // One of the two says nothing of other nodes.
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
            assert_eq!(world.heard().await, ["app Running", "k2 on n002"]);
            world.shim.answer([(1, late)]);
            let expected = if is_void { "3 k1? n001" } else { "k1 on n001" };
            assert_eq!(world.heard().await, [expected], "{case}");
        });
    }
}

#[test]
fn what_comes_to_the_node_itself_makes_an_answer_void_whatever_it_affects() {
    play("{name: a}", 8, |world| async move {
        world.node("n1", 10).await;
        world.app("app", "root.a").await;
        world.ask("app", "k1", 1).await;
        world.ask("app", "k2", 1).await;
        world.run().await;
        world.shim.answer([(2, passes(&[], &[]))]);
        assert_eq!(world.heard().await, ["app Running", "k2 on n1"]);
        world.shim.answer([(1, passes(&[], &[]))]);
        assert_eq!(world.heard().await, ["3 k1? n1"]);
    });
}

#[test]
fn what_ends_elsewhere_affects_what_it_affected_when_it_was_placed() {
    for (depends_on, is_void) in [(7, true), (8, false)] {
        play("{name: a}", 8, |world| async move {
            two_are_asked_about(&world).await;
            world.shim.answer([(2, passes(&[], &[7]))]);
            world.run().await;
            // It is asked about anew, so that the placement is older than the question.
            world.shim.answer([(1, passed(Scope::Topology))]);
            assert_eq!(world.heard().await, ["3 k1? n001"]);
            world.end("app", "k2", TerminationType::StoppedByRm).await;
            assert_eq!(world.heard().await, ["k2 released"]);
            world.shim.answer([(3, passes(&[depends_on], &[]))]);
            let expected = if is_void { "4 k1? n001" } else { "k1 on n001" };
            assert_eq!(world.heard().await, [expected], "it depends on {depends_on}");
        });
    }
}

#[test]
fn what_comes_to_nothing_affects_everything_as_the_shim_may_have_counted_on_it() {
    play("{name: a}", 8, |world| async move {
        two_are_asked_about(&world).await;
        world.withdraw("app", "k2").await;
        assert_eq!(world.heard().await, ["2 withdrawn"]);
        world.shim.answer([(1, passes(&[], &[]))]);
        assert_eq!(world.heard().await, ["3 k1? n001"]);
    });
}

/// What a shim says of its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// What is so.
    Truth,
    /// It leaves out whom a placement affects.
    TooLittle,
}

/// What came of a history.
#[derive(Debug, Default)]
struct Outcome {
    placed: usize,
    /// Placements beside another of their group in one zone.
    against_the_rule: usize,
}

/// A shim for clusters of four zones. Of each group, the first letter of a request, no two may run in
/// one zone; only plain requests (`p`) may run anywhere.
struct Zones {
    says: Says,
    state: u64,
    /// What runs where, as far as it was told.
    view: BTreeMap<String, String>,
    /// Answers by question. Each was found when the question came, and is given much later.
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

    /// What it hears, in order: a question is answered from what it was told before it.
    fn hear(&mut self, words: &[String], nodes_of: &BTreeMap<u64, Vec<String>>) {
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
                    // One that was withdrawn in the same turn is not open any more.
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
            let words = world.heard().await;
            let open = world.shim.open();
            let nodes = |nodes: &[Arc<str>]| nodes.iter().map(ToString::to_string).collect();
            let nodes_of = open.iter().map(|one| (one.id.0, nodes(&one.nodes))).collect();
            self.hear(&words, &nodes_of);
            // Some of what is known by now, in any order.
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
    fn no_late_answer_places_anything_against_a_rule_about_other_nodes(seed in any::<u64>()) {
        let outcome = history(seed, Says::Truth);
        prop_assert_eq!(outcome.against_the_rule, 0, "{:?}", outcome);
        prop_assert!(outcome.placed > 5, "{:?}", outcome);
    }
}

/// The histories above are such that a placement which is not known to matter does harm.
#[test]
fn a_shim_that_says_too_little_gets_what_it_does_not_want() {
    let harm: usize = (0..10).map(|seed| history(seed, Says::TooLittle).against_the_rule).sum();
    assert!(harm > 0);
}
