//! Victims for an ask whose queue is below what it is guaranteed: looked for, and told to leave.
//!
//! # Two rounds
//! The queues come first: where no leaf may lose anything, that is the end. Then the applications of
//! the leaves that may are visited, and a plan is made of what nodes and allocations the books have.
//! The asks like the one that looks get plans of their own on the same survey, one after another.
//!
//! # The commit
//! A plan is carried out in the step that made it, or, where the RM is asked first, in the step in
//! which its last answer came, after a test on fresh facts: nothing happens in between that could
//! make it wrong. Carrying it out is a list of orders to the applications that it concerns.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::decide::preemption::{
    Asker, Grounds, Judge, NoPreemption, Plan, Planner, Promise, Promisee, QueueFacts,
    Survey as Ground, Trial, Victim,
};
use monoceros_rules::decide::reservations::{End, Reserver};
use monoceros_rules::nodes::NodeIndex;
use monoceros_rules::work::allocations::{Allocation, AllocationId, ApplicationSlot};

use super::super::tasks::Task;
use super::Partition;
use crate::application::{Application, Asking};
use crate::events::{Event, EventKind};
use crate::queue::Queue;
use crate::step::{Baton, Op, Preemptor, QueueSlot, Route, Survey};

/// The first round: the queues, and the asks that look.
pub(in crate::partition) struct LookForVictims {
    preemptor: Preemptor,
    queues: BTreeMap<QueueSlot, (Option<QueueSlot>, QueueFacts)>,
    asking: Option<Asking>,
}

impl LookForVictims {
    /// For an ask that may preempt.
    pub(in crate::partition) fn for_ask(preemptor: Preemptor) -> Self {
        Self { preemptor, queues: BTreeMap::new(), asking: None }
    }
}

impl Survey for LookForVictims {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        Route::default().applications([self.preemptor.ask.application]).all_queues(baton)
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        self.asking = application.asking(self.preemptor.ask.ask, baton);
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        let facts = queue.preemption_facts(&baton.books.promises);
        self.queues.insert(queue.slot(), (queue.parent(), facts));
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { preemptor, queues, asking } = *self;
        let Some(asking) = asking else { return };
        // Parents have smaller slots, so they stand before their children.
        let places: BTreeMap<QueueSlot, usize> =
            queues.keys().enumerate().map(|(at, slot)| (*slot, at)).collect();
        let facts: Vec<QueueFacts> = queues
            .into_values()
            .map(|(parent, facts)| QueueFacts {
                parent: parent.and_then(|parent| places.get(&parent).copied()),
                ..facts
            })
            .collect();
        let application = preemptor.ask.application;
        let Some(&leaf) = places.get(&asking.leaf) else { return };
        let asker = Asker::ask(application, leaf, asking.priority, asking.amount.clone());
        let asker = Asker { nodes_were_tried: preemptor.nodes_were_tried, ..asker };
        match Ground::begin(&facts, asker, baton.now_ns) {
            Ok(ground) => {
                let path = Arc::clone(&facts[leaf].path);
                partition.survey_next(Victims { application, asking, path, places, ground });
            }
            Err(why) => partition.tell_no_victims(application, &asking, 0, why),
        }
    }
}

/// The second round: applications that may lose something.
struct Victims {
    application: ApplicationSlot,
    asking: Asking,
    /// The leaf of the asker.
    path: Arc<str>,
    places: BTreeMap<QueueSlot, usize>,
    ground: Ground,
}

impl Survey for Victims {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let (places, ground) = (&self.places, &self.ground);
        Route::default().applications_that(baton, |entry| {
            places.get(&entry.leaf).is_some_and(|leaf| ground.may_lose(*leaf))
        })
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        let Some(&leaf) = self.places.get(&application.leaf_slot()) else { return };
        let winner = Promisee::Gang(self.application);
        self.ground.application(&application.losing(leaf, winner, baton));
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { application, asking, path, mut ground, .. } = *self;
        let Some((first, _)) = asking.members.first() else { return };
        let asker = Promisee::Ask(Reserver { application, ask: *first });
        ground.books(&baton.books, &baton.books.promises, asker);
        let mut planner = ground.finish();
        let mut orders = Vec::new();
        for (at, (ask, key)) in asking.members.iter().enumerate() {
            let plan = match plan(&mut planner, key, &asking, partition, baton) {
                Ok(plan) => plan,
                Err(why) => {
                    partition.agenda.extend(std::mem::take(&mut orders));
                    return partition.tell_no_victims(application, &asking, at, why);
                }
            };
            let losers = &plan.losers;
            let closes = baton.books.evictions.loop_with(application, losers, baton.now_ns);
            if let Some(loser) = closes {
                let why = break_loop(application, loser, baton);
                partition.agenda.extend(std::mem::take(&mut orders));
                return partition.tell_no_victims(application, &asking, at, why);
            }
            planner.commit(&plan);
            let who = Reserver { application, ask: *ask };
            orders.extend(carry_out(&plan, who, key, &asking, &path, baton));
        }
        partition.agenda.extend(orders);
    }
}

/// The plan for one ask.
fn plan(
    planner: &mut Planner,
    _key: &Arc<str>,
    asking: &Asking,
    _partition: &Partition,
    baton: &mut Baton,
) -> Result<Plan, NoPreemption> {
    let judge = MayUse { nodes: &baton.books.nodes, asking };
    planner.plan(&judge)
}

/// Nodes that the asks may use.
struct MayUse<'a> {
    nodes: &'a NodeIndex,
    asking: &'a Asking,
}

impl Judge for MayUse<'_> {
    fn suits(&self, trial: &Trial<'_>) -> bool {
        let id = self.nodes.id(trial.node);
        !self.asking.excluded.contains(id)
    }
}

/// The orders by which a plan is carried out for an ask.
fn carry_out(
    plan: &Plan,
    who: Reserver,
    key: &Arc<str>,
    asking: &Asking,
    path: &Arc<str>,
    baton: &mut Baton,
) -> Vec<Task> {
    let mut by_loser: BTreeMap<ApplicationSlot, Vec<AllocationId>> = BTreeMap::new();
    let mut victims = BTreeMap::new();
    let mut counted: BTreeMap<ApplicationSlot, u32> = BTreeMap::new();
    for id in plan.holds.iter().chain(&plan.victims) {
        let Some(entry) = baton.books.allocations.get(*id) else { continue };
        by_loser.entry(entry.application).or_default().push(*id);
        if entry.is_hold() {
            continue;
        }
        if !entry.spec.placeholder {
            *counted.entry(entry.application).or_default() += 1;
        }
        victims.insert(*id, victim(entry, baton));
    }
    for (loser, count) in counted {
        let leaf = baton.directory.applications[loser].leaf;
        let bounds = baton.directory.queue(leaf).facts.config.settings.eviction;
        let winner = Some(who.application);
        baton.books.evictions.lost(loser, winner, count, &bounds, baton.now_ns);
    }
    let grounds = Arc::new(Grounds::Guarantee {
        application: baton.directory.application_id(who.application),
        key: Some(Arc::clone(key)),
        queue: Arc::clone(path),
    });
    let orders = by_loser.into_iter().map(|(loser, ids)| {
        Task::Visit(loser, vec![Op::Preempted { ids, grounds: Arc::clone(&grounds) }])
    });
    let mut orders: Vec<Task> = orders.collect();
    let Some(place) = plan.places.first() else { return orders };
    if place.cancels {
        let others = baton.books.reservations.on_node(place.node).map(|(other, _)| other);
        for other in others.filter(|other| *other != who).collect::<Vec<_>>() {
            baton.unreserve(other, End::Preempted);
        }
    }
    let promise = Promise {
        queue: Arc::clone(path),
        amount: asking.amount.clone(),
        since_ns: baton.now_ns,
        arrival: baton.books.last_arrival(),
        victims,
        losers: plan.losers.clone(),
        rooms: Vec::new(),
    };
    let node = Arc::clone(baton.books.nodes.id(place.node));
    baton.books.promises.make(Promisee::Ask(who), promise);
    let promised = Op::Promised { key: Arc::clone(key), node };
    orders.push(Task::Visit(who.application, vec![promised]));
    orders
}

fn victim(entry: &Allocation, baton: &Baton) -> Victim {
    let leaf = baton.directory.applications[entry.application].leaf;
    let queue = Arc::clone(&baton.directory.queue(leaf).facts.config.path);
    Victim { queue, node: entry.node, amount: entry.resources().clone() }
}

/// The winner would take back what it lost: it takes nothing from this loser for a while.
fn break_loop(winner: ApplicationSlot, loser: ApplicationSlot, baton: &mut Baton) -> NoPreemption {
    let leaf = baton.directory.applications[winner].leaf;
    let bounds = baton.directory.queue(leaf).facts.config.settings.eviction;
    baton.books.evictions.bar(winner, loser, &bounds, baton.now_ns);
    let [winner, with] = [winner, loser].map(|slot| baton.directory.application_id(slot));
    tracing::warn!(application = %winner, from = %with, kind = %winner,
        "would take back what it lost a moment ago: nothing is preempted");
    let why = NoPreemption::Loop { with: Arc::clone(&with) };
    let event = |at| Event::of(EventKind::PreemptionLoop, &winner, at).referring(&with);
    baton.happens(event);
    why
}

impl Partition {
    /// Has the ask at this place told that there are no victims for it.
    fn tell_no_victims(
        &mut self,
        application: ApplicationSlot,
        asking: &Asking,
        at: usize,
        why: NoPreemption,
    ) {
        let Some((_, key)) = asking.members.get(at) else { return };
        let op = Op::NotPreempted { key: Arc::clone(key), why };
        self.agenda.push_back(Task::Visit(application, vec![op]));
    }
}
