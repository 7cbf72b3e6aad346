//! Tests random histories of asks, plans, commits, confirmations, and of other asks that would use
//! the freed capacity: which rules hold after every step.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::cluster::{Cluster, NOW, SECOND, vcore};
use super::exhaustive::{self, Laws};
use crate::allocations::{Allocation, Leaving};
use crate::decide::preemption::*;
use crate::pending::history::History;
use crate::pending::nominations::{Nomination, Nominations, Preemptor, Room, Victim};
use crate::pending::reservations::Reserver;
use crate::queues::EvictionBounds;
use crate::values::again::written_and_read;
use crate::values::ids::{AllocationId, ApplicationSlot, AskSlot};
use crate::values::resources::Resources;

const QUEUES: [&str; 3] = ["root.a", "root.b", "root.c"];
const BOUNDS: EvictionBounds = EvictionBounds {
    max_evictions: 3,
    window: Duration::from_secs(8),
    min_runtime: Duration::ZERO,
};

#[derive(Clone, Debug)]
enum Step {
    /// An ask of this size arrives in a queue, and preempts others if it may.
    Ask(usize, i64),
    /// The victims of the preemptor that has waited longest are confirmed, one by one.
    Confirm,
    /// A queue places this much on a node, if it has capacity that is not reserved.
    Place(usize, usize, i64),
    /// A preemptor is withdrawn.
    Withdraw,
    WriteAndRead,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_usize, 1..4_i64).prop_map(|(queue, size)| Step::Ask(queue, size)),
        4 => Just(Step::Confirm),
        3 => (0..3_usize, 0..3_usize, 1..3_i64)
            .prop_map(|(queue, node, size)| Step::Place(queue, node, size)),
        1 => Just(Step::Withdraw),
        1 => Just(Step::WriteAndRead),
    ]
}

/// A preemptor that waits for its victims to end.
struct Waiting {
    preemptor: Preemptor,
    queue: usize,
    node: usize,
    size: i64,
    victims: Vec<AllocationId>,
}

/// A cluster with the history of its preemptors.
struct Life {
    cluster: Cluster,
    waiting: Vec<Waiting>,
    nominations: Nominations,
    history: History,
    now_ns: i64,
    n_things: u32,
    /// Each eviction: its time, and the indices of the queues that lost and gained by it.
    losses: Vec<(i64, usize, usize)>,
    evicted: i64,
    /// The number of preemptors with nominations.
    n_preemptors: i64,
}

impl Life {
    fn new(guarantees: [i64; 3], spare: [i64; 3], runs: &[(usize, usize, i64)]) -> Self {
        let mut cluster = Cluster::new();
        for (queue, guaranteed) in QUEUES.iter().zip(guarantees) {
            if guaranteed > 0 {
                cluster.guarantees(queue, guaranteed);
            }
            cluster.queue(queue).settings.eviction = BOUNDS;
            cluster.application(queue, queue);
        }
        for (at, spare) in spare.into_iter().enumerate() {
            let here = runs.iter().filter(|(_, node, _)| *node == at);
            cluster.node(&format!("n{at}"), spare + here.map(|(.., size)| size).sum::<i64>());
        }
        for (at, (queue, node, size)) in (0..).zip(runs) {
            let name = format!("r{at:02}");
            cluster.runs(&name, QUEUES[*queue], &format!("n{node}"), *size);
            cluster.priority(&name, [0, -2, 0, -1][at % 4]);
        }
        Self {
            cluster,
            waiting: Vec::new(),
            nominations: Nominations::default(),
            history: History::default(),
            now_ns: NOW,
            n_things: 0,
            losses: Vec::new(),
            evicted: 0,
            n_preemptors: 0,
        }
    }

    fn application(&mut self, queue: usize) -> ApplicationSlot {
        self.cluster.slot(QUEUES[queue])
    }

    fn queue_of(&self, application: ApplicationSlot) -> usize {
        let of = &self.cluster.applications[application.index()].1.queue;
        QUEUES.iter().position(|queue| queue == of).unwrap()
    }

    /// Updates the nominations and bounds in the cluster, as this preemptor sees them.
    fn refresh(&mut self, preemptor: usize) {
        let winner = self.application(preemptor);
        for (at, queue) in QUEUES.iter().enumerate() {
            let nominated = self.nominations.nominated(queue).cloned().unwrap_or_default();
            self.cluster.queue(queue).nominated = nominated;
            let loser = self.application(at);
            let application = self.cluster.application(queue, queue);
            application.allowance = self.history.allowance(loser, &BOUNDS, self.now_ns);
            application.is_barred = self.history.is_barred(winner, loser, self.now_ns);
        }
        for (at, node) in self.cluster.nodes.iter_mut().enumerate() {
            let is_reserved = self.waiting.iter().any(|it| it.node == at);
            node.claim = if is_reserved { Claimed::Nominated } else { Claimed::Free };
        }
    }

    fn ask(&mut self, queue: usize, size: i64) -> Result<(), TestCaseError> {
        self.refresh(queue);
        self.n_things += 1;
        let preemptor = self.cluster.ask(QUEUES[queue], size);
        let Ok(plan) = self.cluster.plan(preemptor.clone()) else { return Ok(()) };
        // A plan holds as long as nothing changes.
        let mut fresh = self.cluster.survey(preemptor.clone()).unwrap();
        prop_assert_eq!(fresh.recheck(&plan, &AnyNode), Ok(plan.clone()));
        let winner = preemptor.application;
        if let Some(with) = self.history.loop_with(winner, &plan.losers, self.now_ns) {
            self.history.bar(winner, with, &BOUNDS, self.now_ns);
            self.refresh(queue);
            let again = self.cluster.plan(preemptor);
            let avoids = again.is_err() || again.is_ok_and(|plan| !plan.losers.contains(&with));
            prop_assert!(avoids, "it takes nothing from whom it would take back");
            return Ok(());
        }
        self.judge(&preemptor, &plan)?;
        self.commit(queue, size, winner, plan);
        Ok(())
    }

    /// Checks a plan: it lets the preemptor run, no victim could be spared, and each may be
    /// evicted. If there are few choices, no other plan is better.
    fn judge(&self, preemptor: &Demand, plan: &Plan) -> Result<(), TestCaseError> {
        let laws = Laws::new(&self.cluster, preemptor);
        let place = &plan.places[0];
        prop_assert!(laws.lets_run(&place.order, place.node.index()));
        prop_assert!(laws.allow(&place.order));
        for spared in &place.order {
            let fewer: Vec<_> = place.order.iter().copied().filter(|id| id != spared).collect();
            prop_assert!(!laws.lets_run(&fewer, place.node.index()));
        }
        if laws.n_choices() <= 8 {
            prop_assert_eq!(Some(laws.cost(&place.order)), laws.optimum());
        }
        Ok(())
    }

    fn commit(&mut self, queue: usize, size: i64, winner: ApplicationSlot, plan: Plan) {
        let window_ns = i64::try_from(BOUNDS.window.as_nanos()).unwrap();
        let (now_ns, since_ns) = (self.now_ns, self.now_ns - window_ns);
        for loser in &plan.losers {
            let of = |id: &&AllocationId| self.get(**id).application == *loser;
            let count = plan.victims.iter().filter(of).count();
            let loser_queue = self.queue_of(*loser);
            let recent = |(at, ..): &&(i64, usize, usize)| *at > since_ns;
            // No preemptor evicts from an application that has just preempted it.
            let recent: Vec<_> = self.losses.iter().filter(recent).collect();
            let took =
                |(_, lost, won): &&&(i64, usize, usize)| (*lost, *won) == (queue, loser_queue);
            assert_eq!(recent.iter().filter(took).count(), 0, "in turns");
            // No application loses too many allocations in a window.
            let lost = recent.iter().filter(|(_, lost, _)| *lost == loser_queue).count();
            assert!(lost + count <= BOUNDS.max_evictions as usize);
            self.losses.extend((0..count).map(|_| (now_ns, loser_queue, queue)));
            let count = u32::try_from(count).unwrap();
            self.history.lost(*loser, Some(winner), count, &BOUNDS, now_ns);
        }
        let preemptor =
            Preemptor::Ask(Reserver { application: winner, ask: AskSlot::at(self.n_things) });
        let victims = plan.victims.iter().map(|id| {
            let it = self.get(*id);
            let queue = QUEUES[self.queue_of(it.application)].into();
            (*id, Victim { queue, node: it.node, amount: it.resources().clone() })
        });
        let nomination = Nomination {
            queue: QUEUES[queue].into(),
            amount: vcore(size),
            since_ns: now_ns,
            arrival: u64::from(self.n_things),
            victims: victims.collect(),
            losers: plan.losers.clone(),
            rooms: Vec::new(),
        };
        self.nominations.make(preemptor, nomination);
        self.n_preemptors += 1;
        for id in &plan.victims {
            let victim = self.cluster.table.get_mut(*id).unwrap();
            victim.change().leaving = Some(Leaving::Preempted);
            self.evicted += amount(victim.resources());
        }
        let node = plan.places[0].node.index();
        self.waiting.push(Waiting { preemptor, queue, node, size, victims: plan.victims });
    }

    fn get(&self, id: AllocationId) -> &Allocation {
        self.cluster.table.get(id).unwrap()
    }

    fn confirm(&mut self) -> Result<(), TestCaseError> {
        let Some(first) = self.waiting.first_mut() else { return Ok(()) };
        let Some(victim) = first.victims.pop() else { return Ok(()) };
        let name = self.cluster.names_of(&[victim]);
        self.cluster.ends(&name);
        let confirmed = self.nominations.confirmed(victim).expect("it left for somebody");
        prop_assert_eq!(confirmed.preemptor, first.preemptor);
        prop_assert_eq!(confirmed.is_last, first.victims.is_empty());
        if confirmed.is_last {
            let waiting = self.waiting.remove(0);
            self.nominations.end(waiting.preemptor);
            // The capacity is still reserved for the preemptor, on its node and in every queue.
            let node = format!("n{}", waiting.node);
            let free = self.cluster.available(self.cluster.node_slot(&node));
            prop_assert!(free.holds(&vcore(waiting.size)), "{} for {}", free, waiting.size);
            prop_assert!(self.headroom() >= waiting.size);
            self.n_things += 1;
            let name = format!("p{}", self.n_things);
            self.cluster.runs(&name, QUEUES[waiting.queue], &node, waiting.size);
        }
        Ok(())
    }

    /// Returns the amount that root has left for preemptors without a nomination.
    fn headroom(&self) -> i64 {
        let root = &self.cluster.facts()[0];
        let total: i64 = root.capacity.as_ref().unwrap().entries().map(|(_, max)| max).sum();
        total - amount(&root.allocated) - self.nominations.taken_off("root").map_or(0, amount)
    }

    fn place(&mut self, queue: usize, node: usize, size: i64) {
        self.n_things += 1;
        let slot = self.application(queue);
        let is_barred = self.nominations.bars(slot, u64::from(self.n_things)).is_some();
        let is_reserved = self.waiting.iter().any(|it| it.node == node);
        let name = format!("n{node}");
        let free = self.cluster.available(self.cluster.node_slot(&name));
        if !is_barred && !is_reserved && free.holds(&vcore(size)) && self.headroom() >= size {
            let run = format!("p{}", self.n_things);
            self.cluster.runs(&run, QUEUES[queue], &name, size);
        }
    }

    fn used(&self, queue: usize) -> i64 {
        let facts = &self.cluster.facts()[self.cluster.queue_index(QUEUES[queue])];
        amount(&facts.allocated) - amount(&facts.preempting)
    }
}

fn amount(resources: &Resources) -> i64 {
    resources.entries().map(|(_, quantity)| quantity).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_hold_through_every_history(
        guarantees in [0..8_i64, 0..8_i64, 0..8_i64],
        spare in [0..2_i64, 0..2_i64, 0..2_i64],
        runs in prop::collection::vec((0..3_usize, 0..3_usize, 1..4_i64), 1..=9),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut life = Life::new(guarantees, spare, &runs);
        for step in steps {
            life.now_ns += SECOND;
            let before: Vec<i64> = (0..3).map(|queue| life.used(queue)).collect();
            match step {
                Step::Ask(queue, size) => life.ask(queue, size)?,
                Step::Confirm => life.confirm()?,
                Step::Place(queue, node, size) => life.place(queue, node, size),
                Step::Withdraw => {
                    if let Some(last) = life.waiting.pop() {
                        life.nominations.end(last.preemptor);
                        // Victims end even if their preemptor is gone.
                        let gone: Vec<_> =
                            last.victims.iter().map(|id| life.cluster.names_of(&[*id])).collect();
                        for name in &gone {
                            life.cluster.ends(name);
                        }
                    }
                }
                Step::WriteAndRead => {
                    life.nominations = written_and_read(&life.nominations);
                    life.history = written_and_read(&life.history);
                    life.cluster.table = written_and_read(&life.cluster.table);
                }
            }
            for queue in 0..3 {
                // No queue falls below its guarantee, and none that is below it falls further.
                let least = guarantees[queue].min(before[queue]);
                prop_assert!(guarantees[queue] == 0 || life.used(queue) >= least);
            }
        }
    }

    /// With constant demand evictions come to an end. They take no more than the guarantees of the
    /// preemptors' queues, and one victim more per preemptor, since the last victim may be larger
    /// than the shortage.
    #[test]
    fn there_is_no_storm(
        guarantees in [1..8_i64, 1..8_i64, 1..8_i64],
        runs in prop::collection::vec((0..3_usize, 0..3_usize, 1..4_i64), 1..=9),
        asks in prop::collection::vec((0..3_usize, 1..4_i64), 1..6),
    ) {
        let mut life = Life::new(guarantees, [0; 3], &runs);
        for _ in 0..30 {
            for (queue, size) in &asks {
                life.now_ns += 16 * SECOND;
                life.ask(*queue, *size)?;
            }
            while !life.waiting.is_empty() {
                life.confirm()?;
            }
        }
        let asking = (0..3).filter(|queue| asks.iter().any(|(asks, _)| asks == queue));
        let most: i64 = asking.map(|queue| guarantees[queue]).sum();
        let largest = runs.iter().map(|(.., size)| *size).max().unwrap_or_default();
        let most = most + life.n_preemptors * (largest - 1);
        prop_assert!(life.evicted <= most, "{} of {}", life.evicted, most);
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
            prop_assert_eq!(&plan, &fresh);
            let Ok(plan) = plan else { break };
            shared.commit(&plan);
            for id in &plan.victims {
                let name = cluster.names_of(&[*id]);
                cluster.is_being_preempted(&name);
            }
            cluster.nodes[plan.places[0].node.index()].claim = Claimed::Nominated;
            cluster.queue("root.mine").nominated.add(&vcore(size));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn gangs_on_one_survey_are_those_of_fresh_ones(
        guaranteed in 4..20_i64,
        runs in prop::collection::vec((0..4_usize, 1..4_i64), 1..=12),
        spare in prop::collection::vec(0..3_i64, 4),
        members in prop::collection::vec(1..4_i64, 1..4),
    ) {
        let mut cluster = Cluster::new();
        cluster.guarantees("root.mine", guaranteed);
        for (at, spare) in spare.iter().enumerate() {
            let here = runs.iter().filter(|(node, _)| *node == at);
            let total: i64 = here.map(|(_, size)| size).sum();
            cluster.node(&format!("n{at}"), total + spare);
        }
        for (at, (node, size)) in runs.iter().enumerate() {
            cluster.runs(&format!("r{at:02}"), "root.other", &format!("n{node}"), *size);
        }
        let gang = cluster.gang("root.mine", &members);
        let Ok(mut shared) = cluster.survey(gang.clone()) else { return Ok(()) };
        for number in 0..4 {
            let fresh = cluster.plan(gang.clone());
            let plan = shared.plan(&AnyNode);
            prop_assert_eq!(&plan, &fresh);
            let Ok(plan) = plan else { break };
            let mut again = cluster.survey(gang.clone()).unwrap();
            prop_assert_eq!(again.recheck(&plan, &AnyNode), Ok(plan.clone()));
            shared.commit(&plan);
            let mut victims = std::collections::BTreeMap::new();
            for id in &plan.victims {
                let name = cluster.names_of(&[*id]);
                cluster.is_being_preempted(&name);
                let it = cluster.table.get(*id).unwrap();
                let (node, amount) = (it.node, it.resources().clone());
                victims.insert(*id, Victim { queue: "root.other".into(), node, amount });
            }
            let room = |it: &Place| {
                Room { group: 0, node: it.node, amount: vcore(members[it.member]) }
            };
            let rooms: Vec<Room> = plan.places.iter().map(room).collect();
            // Every place has its capacity once the victims are released.
            for node in 0..4 {
                let slot = crate::values::ids::NodeSlot::at(node);
                let mut room = cluster.available(slot);
                for victim in victims.values().filter(|victim| victim.node == slot) {
                    room.add(&victim.amount);
                }
                let wanted = rooms.iter().filter(|room| room.node == slot);
                let wanted: i64 = wanted.map(|room| amount(&room.amount)).sum();
                prop_assert!(amount(&room) >= wanted);
            }
            let total = vcore(members.iter().sum());
            cluster.queue("root.mine").nominated.add(&total);
            let nomination = Nomination {
                queue: "root.mine".into(),
                amount: total,
                since_ns: 0,
                arrival: 0,
                victims,
                losers: plan.losers,
                rooms,
            };
            cluster.nominations.make(Preemptor::Gang(ApplicationSlot::at(100 + number)), nomination);
        }
    }
}

/// Tests on random clusters prove little if few clusters have a plan.
#[test]
fn many_random_clusters_have_a_plan() {
    let mut runner = TestRunner::deterministic();
    let (mut with_plan, mut with_several) = (0, 0);
    for _ in 0..1_000 {
        let random = exhaustive::cluster().new_tree(&mut runner).unwrap().current();
        let (cluster, preemptor) = exhaustive::built(&random);
        if let Ok(plan) = cluster.plan(preemptor) {
            with_plan += 1;
            with_several += usize::from(plan.victims.len() > 1);
        }
    }
    assert!(with_plan > 200 && with_several > 20, "{with_plan}, {with_several} of several");
}
