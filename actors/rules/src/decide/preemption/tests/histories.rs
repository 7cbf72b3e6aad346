//! Random histories of asks, plans, commits, confirmations and losses of nodes: what holds after
//! every step.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::cluster::{Cluster, NOW, vcore};
use super::exhaustive::{self, Laws};
use crate::decide::preemption::*;
use crate::work::allocations::AllocationId;

const QUEUES: [&str; 3] = ["root.a", "root.b", "root.c"];

#[derive(Clone, Debug)]
enum Step {
    /// A queue asks for this much.
    Ask(usize, i64),
    /// The oldest victim is confirmed.
    Confirm,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3_usize, 1..4_i64).prop_map(|(queue, size)| Step::Ask(queue, size)),
        1 => Just(Step::Confirm),
    ]
}

/// What waits for victims.
struct Waiting {
    name: String,
    queue: usize,
    node: usize,
    size: i64,
    victims: Vec<AllocationId>,
}

/// A cluster as it lives.
struct Life {
    cluster: Cluster,
    waiting: Vec<Waiting>,
    history: History,
    now_ns: i64,
    n_asks: usize,
    evicted: i64,
    granted: i64,
}

impl Life {
    fn new(guarantees: [i64; 3], runs: &[(usize, usize, i64)]) -> Self {
        let mut cluster = Cluster::new();
        for (queue, guaranteed) in QUEUES.iter().zip(guarantees) {
            if guaranteed > 0 {
                cluster.guarantees(queue, guaranteed);
            }
            cluster.application(queue, queue);
        }
        for at in 0..3 {
            let here = runs.iter().filter(|(_, node, _)| *node == at);
            cluster.node(&format!("n{at}"), here.map(|(.., size)| size).sum());
        }
        for (at, (queue, node, size)) in runs.iter().enumerate() {
            cluster.runs(&format!("r{at}"), QUEUES[*queue], &format!("n{node}"), *size);
        }
        Self {
            cluster,
            waiting: Vec::new(),
            history: History::default(),
            now_ns: NOW,
            n_asks: 0,
            evicted: 0,
            granted: 0,
        }
    }

    fn promise(&mut self) {
        for (at, queue) in QUEUES.iter().enumerate() {
            let of = self.waiting.iter().filter(|it| it.queue == at);
            let promised = vcore(of.map(|it| it.size).sum());
            self.cluster.queue(queue).promised = promised.pruned();
        }
        for (at, node) in self.cluster.nodes.iter_mut().enumerate() {
            let is_reserved = self.waiting.iter().any(|it| it.node == at);
            node.claim = if is_reserved { Claimed::ByOthers } else { Claimed::Free };
        }
    }

    fn ask(&mut self, queue: usize, size: i64) -> Result<(), TestCaseError> {
        let asker = self.cluster.ask(QUEUES[queue], size);
        let Ok(plan) = self.cluster.plan(asker.clone()) else { return Ok(()) };
        // A plan holds for as long as nothing happens.
        let mut fresh = self.cluster.survey(asker.clone()).unwrap();
        prop_assert_eq!(fresh.recheck(&plan, &AnyNode), Ok(plan.clone()));
        let winner = asker.application;
        let bounds = crate::queues::EvictionBounds::default();
        if self.history.loop_with(winner, &plan.losers, self.now_ns).is_some() {
            return Ok(());
        }
        // It lets the asker run, nobody could be spared, and nobody may not be taken.
        let laws = Laws::new(&self.cluster, &asker);
        let place = &plan.places[0];
        prop_assert!(laws.lets_run(&place.order, place.node.index()));
        prop_assert!(laws.allow(&place.order));
        for spared in &place.order {
            let fewer: Vec<_> = place.order.iter().copied().filter(|id| id != spared).collect();
            prop_assert!(!laws.lets_run(&fewer, place.node.index()));
        }
        for loser in &plan.losers {
            // Nobody takes from whom it lost to within the window.
            prop_assert!(!self.history.would_loop(winner, *loser, self.now_ns));
            self.history.lost(*loser, Some(winner), 1, &bounds, self.now_ns);
        }
        for id in &plan.victims {
            let victim = self.cluster.table.get_mut(*id).unwrap();
            victim.leaving = Some(crate::work::allocations::Leaving::Preempted);
            self.evicted += victim.resources().entries().map(|(_, size)| size).sum::<i64>();
        }
        self.n_asks += 1;
        self.granted += size;
        self.waiting.push(Waiting {
            name: format!("p{}", self.n_asks),
            queue,
            node: place.node.index(),
            size,
            victims: plan.victims,
        });
        self.promise();
        Ok(())
    }

    fn confirm(&mut self) -> Result<(), TestCaseError> {
        let Some(first) = self.waiting.first_mut() else { return Ok(()) };
        if let Some(victim) = first.victims.pop() {
            let name = self.cluster.names_of(&[victim]);
            self.cluster.ends(&name);
        }
        if self.waiting[0].victims.is_empty() {
            let waiting = self.waiting.remove(0);
            // The room is the asker's: it is still there.
            let node = format!("n{}", waiting.node);
            let free = self.cluster.available(self.cluster.node_slot(&node));
            prop_assert!(free.holds(&vcore(waiting.size)), "{free} for {}", waiting.size);
            self.cluster.runs(&waiting.name, QUEUES[waiting.queue], &node, waiting.size);
            self.promise();
        }
        Ok(())
    }

    fn used(&self, queue: usize) -> i64 {
        let facts = &self.cluster.facts()[self.cluster.queue_index(QUEUES[queue])];
        facts.allocated.minus(&facts.preempting).entries().map(|(_, size)| size).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_hold_through_every_history(
        guarantees in [0..8_i64, 0..8_i64, 0..8_i64],
        runs in prop::collection::vec((0..3_usize, 0..3_usize, 1..4_i64), 1..=9),
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let mut life = Life::new(guarantees, &runs);
        let before: Vec<i64> = (0..3).map(|queue| life.used(queue)).collect();
        for step in steps {
            life.now_ns += 1;
            match step {
                Step::Ask(queue, size) => life.ask(queue, size)?,
                Step::Confirm => life.confirm()?,
            }
            for queue in 0..3 {
                // No queue that was at its guarantee falls below it.
                let least = guarantees[queue].min(before[queue]);
                prop_assert!(guarantees[queue] == 0 || life.used(queue) >= least);
            }
            let promised: i64 = guarantees.iter().sum();
            prop_assert!(life.evicted <= promised + life.granted, "a storm");
        }
    }

    #[test]
    fn plans_on_one_survey_are_those_of_fresh_ones(
        guaranteed in 0..12_i64,
        other in prop::option::of(0..6_i64),
        runs in prop::collection::vec((0..4_usize, 1..4_i64), 1..=12),
        size in 1..4_i64,
    ) {
        let mut cluster = Cluster::new();
        cluster.guarantees("root.mine", guaranteed);
        if let Some(other) = other {
            cluster.guarantees("root.other", other);
        }
        for at in 0..4 {
            let here = runs.iter().filter(|(node, _)| *node == at);
            cluster.node(&format!("n{at}"), here.map(|(_, size)| size).sum());
        }
        for (at, (node, size)) in runs.iter().enumerate() {
            cluster.runs(&format!("r{at:02}"), "root.other", &format!("n{node}"), *size);
        }
        let ask = cluster.ask("root.mine", size);
        let Ok(mut shared) = cluster.survey(ask.clone()) else { return Ok(()) };
        for _ in 0..12 {
            let fresh = cluster.plan(ask.clone());
            let plan = shared.plan(&AnyNode);
            prop_assert_eq!(plan.is_ok(), fresh.is_ok());
            let Ok(plan) = plan else { break };
            prop_assert_eq!(&plan, fresh.as_ref().unwrap());
            shared.commit(&plan);
            for id in &plan.victims {
                let name = cluster.names_of(&[*id]);
                cluster.is_being_preempted(&name);
            }
            cluster.nodes[plan.places[0].node.index()].claim = Claimed::ByOthers;
            cluster.queue("root.mine").promised.add(&vcore(size));
        }
    }
}

/// Properties of plans say little if there is none.
#[test]
fn many_random_clusters_have_a_plan() {
    let mut runner = TestRunner::deterministic();
    let (mut with_plan, mut with_several) = (0, 0);
    for _ in 0..1_000 {
        let random = exhaustive::cluster().new_tree(&mut runner).unwrap().current();
        let (cluster, asker) = exhaustive::built(&random);
        if let Ok(plan) = cluster.plan(asker) {
            with_plan += 1;
            with_several += usize::from(plan.victims.len() > 1);
        }
    }
    assert!(with_plan > 100 && with_several > 20, "{with_plan}, {with_several} of several");
}
