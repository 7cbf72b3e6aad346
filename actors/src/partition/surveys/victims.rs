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
    Answer, Asker, Grounds, Inquiry, Judge, Next, NoPreemption, PLANNED_ANEW, Plan, Planner,
    Promise, Promisee, QueueFacts, Survey as Ground, Trial, Victim,
};
use monoceros_rules::decide::reservations::{End, Reserver};
use monoceros_rules::nodes::NodeIndex;
use monoceros_rules::work::allocations::{Allocation, AllocationId, ApplicationSlot};

use super::super::inquiries::Open;
use super::super::tasks::Task;
use super::Partition;
use crate::application::{Application, Asking};
use crate::events::{Event, EventKind};
use crate::queue::Queue;
use crate::step::{Baton, Goal, Op, Preemptor, QueueSlot, Route, Survey};

/// What a plan is made for anew: room on nodes may have come meanwhile.
const ANEW: Goal = Goal::Guarantee { nodes_were_tried: false };

/// The first round: the queues, and the asks that look.
pub(in crate::partition) struct LookForVictims {
    preemptor: Preemptor,
    purpose: Purpose,
    queues: BTreeMap<QueueSlot, (Option<QueueSlot>, QueueFacts)>,
    asking: Option<Asking>,
}

/// What fresh facts are for.
enum Purpose {
    /// A plan, after so many that were out of date before they could be carried out.
    Plan { stale: u32 },
    /// The test of a plan that the RM was asked about.
    Test { plan: Box<Plan>, stale: u32 },
}

impl LookForVictims {
    /// For an ask that may preempt.
    pub(in crate::partition) fn for_ask(preemptor: Preemptor) -> Self {
        Self::with(preemptor, Purpose::Plan { stale: 0 })
    }

    fn with(preemptor: Preemptor, purpose: Purpose) -> Self {
        Self { preemptor, purpose, queues: BTreeMap::new(), asking: None }
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
        let Self { preemptor, purpose, queues, asking } = *self;
        let Some(asking) = asking else { return };
        // Parents have smaller slots, so they stand before their children.
        let places: BTreeMap<QueueSlot, usize> =
            queues.keys().enumerate().map(|(at, slot)| (*slot, at)).collect();
        let parent = |of: Option<QueueSlot>| of.and_then(|of| places.get(&of).copied());
        let facts: Vec<QueueFacts> = queues
            .into_values()
            .map(|(above, facts)| QueueFacts { parent: parent(above), ..facts })
            .collect();
        let application = preemptor.ask.application;
        let Some(&leaf) = places.get(&asking.leaf) else { return };
        let asker = Asker::ask(application, leaf, asking.priority, asking.amount.clone());
        let nodes_were_tried = preemptor.goal == Goal::Guarantee { nodes_were_tried: true };
        let asker = Asker { nodes_were_tried, ..asker };
        let search = Search { application, path: Arc::clone(&facts[leaf].path), asking, at: 0 };
        match Ground::begin(&facts, asker, baton.now_ns) {
            Ok(ground) => partition.survey_next(Victims { search, purpose, places, ground }),
            Err(why) => search.in_vain(why, partition),
        }
    }
}

/// The second round: applications that may lose something.
struct Victims {
    search: Search,
    purpose: Purpose,
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
        self.ground.application(&application.losing(leaf, Some(self.search.application), baton));
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { mut search, purpose, mut ground, .. } = *self;
        let Some((who, _)) = search.present() else { return };
        ground.books(&baton.books, &baton.books.promises, Promisee::Ask(who));
        let mut planner = ground.finish();
        match purpose {
            Purpose::Plan { stale } => search.go_on(planner, stale, partition, baton),
            Purpose::Test { plan, stale } => {
                let judge = MayUse { nodes: &baton.books.nodes, asking: &search.asking };
                match planner.recheck(&plan, &judge) {
                    Ok(plan) => {
                        if search.take(&plan, &mut planner, partition, baton) {
                            search.go_on(planner, 0, partition, baton);
                        }
                    }
                    Err(why) if stale + 1 < PLANNED_ANEW => {
                        tracing::debug!(%why, "victims are looked for anew");
                        let preemptor = Preemptor { ask: who, goal: ANEW };
                        let purpose = Purpose::Plan { stale: stale + 1 };
                        partition.survey_next(LookForVictims::with(preemptor, purpose));
                    }
                    Err(why) => search.in_vain(NoPreemption::Stale(why), partition),
                }
            }
        }
    }
}

/// A search for victims for some asks that are alike, one after another.
struct Search {
    application: ApplicationSlot,
    /// Its leaf.
    path: Arc<str>,
    asking: Asking,
    /// Which of the asks is next.
    at: usize,
}

impl Search {
    /// The ask that is next, with its key.
    fn present(&self) -> Option<(Reserver, &Arc<str>)> {
        let (ask, key) = self.asking.members.get(self.at)?;
        Some((Reserver { application: self.application, ask: *ask }, key))
    }

    /// Looks for victims for the asks that are left, as long as some are found.
    fn go_on(
        mut self,
        mut planner: Planner,
        stale: u32,
        partition: &mut Partition,
        baton: &mut Baton,
    ) {
        while self.present().is_some() {
            let inquiry = match Inquiry::begin(&mut planner, |_| true) {
                Ok(inquiry) => inquiry,
                Err(why) => return self.in_vain(why, partition),
            };
            let asked = Asked { search: self, planner, inquiry, stale };
            // If there is none, the answers come later.
            let Some((search, back, plan)) = asked.proceed(partition, baton) else { return };
            (self, planner) = (search, back);
            match plan {
                Ok(plan) if self.take(&plan, &mut planner, partition, baton) => {}
                Ok(_) => return,
                Err(why) => return self.in_vain(why, partition),
            }
        }
    }

    /// A plan is carried out for the ask that is next. Says whether it is: not where its application
    /// would take back what it lost.
    fn take(
        &mut self,
        plan: &Plan,
        planner: &mut Planner,
        partition: &mut Partition,
        baton: &mut Baton,
    ) -> bool {
        let (winner, now_ns) = (self.application, baton.now_ns);
        if let Some(loser) = baton.books.evictions.loop_with(winner, &plan.losers, now_ns) {
            let why = break_loop(winner, loser, baton);
            self.in_vain(why, partition);
            return false;
        }
        let Some((who, key)) = self.present() else { return false };
        planner.commit(plan);
        partition.agenda.extend(carry_out(plan, who, key, &self.asking, &self.path, baton));
        self.at += 1;
        // Where only held places end, and where reservations of others do, there is room at once.
        partition.may_decide = true;
        true
    }

    /// There are no victims for the ask that is next.
    fn in_vain(&self, why: NoPreemption, partition: &mut Partition) {
        let Some((who, key)) = self.present() else { return };
        let op = Op::NotPreempted { key: Arc::clone(key), why };
        partition.agenda.push_back(Task::Visit(who.application, vec![op]));
    }
}

/// A search whose plan the RM is asked about.
pub(in crate::partition) struct Asked {
    search: Search,
    planner: Planner,
    inquiry: Inquiry,
    stale: u32,
}

impl Asked {
    /// Goes on until the plan is there, or answers have to be waited for.
    fn proceed(
        mut self,
        partition: &mut Partition,
        baton: &mut Baton,
    ) -> Option<(Search, Planner, Result<Plan, NoPreemption>)> {
        loop {
            let judge = MayUse { nodes: &baton.books.nodes, asking: &self.search.asking };
            let questions = match self.inquiry.next(&mut self.planner, &judge) {
                Next::Ask(questions) => questions,
                Next::Done(plan) => return Some((self.search, self.planner, plan)),
            };
            let (_, key) = self.search.present()?;
            match partition.ask_about_victims(&Arc::clone(key), &questions, baton) {
                Ok(answers) => self.inquiry.answer(&mut self.planner, &answers),
                Err(number) => {
                    partition.await_victims(number, Open::Guarantee(Box::new(self)));
                    return None;
                }
            }
        }
    }

    /// The RM answered, some steps later: a plan is tested before it is carried out.
    pub(in crate::partition) fn answered(
        mut self: Box<Self>,
        answers: &[Answer],
        partition: &mut Partition,
        baton: &mut Baton,
    ) {
        self.inquiry.answer(&mut self.planner, answers);
        let stale = self.stale;
        let Some((search, _, plan)) = self.proceed(partition, baton) else { return };
        let Some((who, _)) = search.present() else { return };
        match plan {
            Ok(plan) => {
                let preemptor = Preemptor { ask: who, goal: ANEW };
                let purpose = Purpose::Test { plan: Box::new(plan), stale };
                let test = LookForVictims::with(preemptor, purpose);
                partition.agenda.push_back(Task::survey(test));
            }
            Err(why) => search.in_vain(why, partition),
        }
    }
}

/// Nodes that the asks may use.
struct MayUse<'a> {
    nodes: &'a NodeIndex,
    asking: &'a Asking,
}

impl Judge for MayUse<'_> {
    fn suits(&self, trial: &Trial<'_>) -> bool {
        self.asking.may_use(trial.node, trial.gone, self.nodes)
    }

    fn looks_at_victims(&self) -> bool {
        self.asking.wish.is_some()
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
    baton.watch_promises();
    let promised = Op::Promised { key: Arc::clone(key), node };
    orders.push(Task::Visit(who.application, vec![promised]));
    orders
}

pub(super) fn victim(entry: &Allocation, baton: &Baton) -> Victim {
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
