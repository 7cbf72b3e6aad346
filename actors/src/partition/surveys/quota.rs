//! Preemption by quota: queues that were above their maximum for too long give the excess back.
//!
//! # Two rounds, one step
//! The first round visits the queues: it finds those that are due, and arms a deadline for the
//! next. The second round visits the applications below the due queues, and victims are chosen. No
//! other step runs between the rounds, so a plan needs no further test, and a run ends with its
//! step.
//!
//! # Invariants
//! * If a queue and one below it are due, only the upper one runs; the lower one is checked again a
//!   second later.
//! * Queues that run in one step never take the same part of the guarantee of a queue above them
//!   twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::allocations::{Allocation, Grounds};
use monoceros_rules::decide::preemption::quota::{self, QuotaPlan, Watched};
use monoceros_rules::decide::preemption::{ApplicationFacts, Chosen, QueueFacts};
use monoceros_rules::decide::quota_timer::{Quota, QuotaTimer};
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot};
use monoceros_rules::values::resources::{Limits, Resources};

use super::Partition;
use super::eviction::Eviction;
use crate::application::Application;
use crate::events::{Event, EventKind, GivenBack, Message};
use crate::queue::Queue;
use crate::step::{Baton, QueueSlot, Route, Survey};

/// The time, ns, after which a queue below one that gives back is checked again.
const AGAIN_NS: i64 = 1_000_000_000;

/// The first round: the queues that are due.
#[derive(Default)]
pub(in crate::partition) struct QuotaScan {
    queues: BTreeMap<QueueSlot, Seen>,
}

/// A queue as the survey has seen it.
struct Seen {
    parent: Option<QueueSlot>,
    facts: QueueFacts,
    timer: QuotaTimer,
    delay_ns: i64,
    used: Resources,
}

impl Survey for QuotaScan {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        Route::default().all_queues(baton)
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        let facts = queue.preemption_facts(&baton.books.nominations);
        let seen = Seen {
            parent: queue.parent(),
            used: facts.allocated.minus(&facts.preempting),
            facts,
            timer: queue.quota_timer().clone(),
            delay_ns: queue.quota_delay_ns(),
        };
        self.queues.insert(queue.slot(), seen);
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let mut queues = self.queues;
        let slots: Vec<QueueSlot> = queues.keys().copied().collect();
        // Parents have smaller slots, so they come before their children.
        let parent_of = |seen: &Seen| slots.binary_search(&seen.parent?).ok();
        let parents: Vec<Option<usize>> = queues.values().map(parent_of).collect();
        let watched = queues.values_mut().zip(&parents).map(|(seen, parent)| Watched {
            parent: *parent,
            timer: &mut seen.timer,
            quota: Quota { max: seen.facts.max.as_ref(), delay_ns: seen.delay_ns },
            used: &seen.used,
        });
        let due = quota::due(&mut watched.collect::<Vec<_>>(), baton.now_ns);
        for seen in queues.values().filter(|seen| !seen.timer.is_running()) {
            if let Some(start_ns) = seen.timer.start_ns() {
                let again_ns = baton.now_ns.saturating_add(AGAIN_NS);
                baton.await_quota(if start_ns <= baton.now_ns { again_ns } else { start_ns });
            }
        }
        if due.is_empty() {
            return;
        }
        let mut below: Vec<Option<usize>> = vec![None; slots.len()];
        for at in 0..slots.len() {
            let above = parents[at].and_then(|parent| below[parent]);
            below[at] = due.iter().position(|due| *due == at).or(above);
        }
        let queues = queues.into_values().zip(parents);
        let queues = queues.map(|(seen, parent)| QueueFacts { parent, ..seen.facts }).collect();
        let applications = due.iter().map(|_| Vec::new()).collect();
        partition.survey_next(GiveBack { due, slots, below, queues, applications });
    }
}

/// The second round: the victims.
struct GiveBack {
    /// The due queues, by their positions.
    due: Vec<usize>,
    /// By position: the queue's slot, and the due queue that it is or is below.
    slots: Vec<QueueSlot>,
    below: Vec<Option<usize>>,
    queues: Vec<QueueFacts>,
    /// The applications below each due queue.
    applications: Vec<Vec<ApplicationFacts>>,
}

impl GiveBack {
    /// Returns the position of a leaf, and the due queue that it is or is below.
    fn concerned(&self, leaf: QueueSlot) -> Option<(usize, usize)> {
        let place = self.slots.binary_search(&leaf).ok()?;
        Some((place, self.below[place]?))
    }

    /// Returns the victims for each of the due queues.
    fn plans(&mut self, baton: &Baton) -> Vec<QuotaPlan> {
        let whose: BTreeMap<ApplicationSlot, usize> = self
            .applications
            .iter()
            .enumerate()
            .flat_map(|(nth, all)| all.iter().map(move |facts| (facts.slot, nth)))
            .collect();
        let mut held: Vec<Vec<(AllocationId, &Allocation)>> =
            self.due.iter().map(|_| Vec::new()).collect();
        for (id, entry) in baton.books.allocations.iter() {
            if let Some(nth) = whose.get(&entry.application) {
                held[*nth].push((id, entry));
            }
        }
        let mut plans = Vec::with_capacity(self.due.len());
        for ((due, applications), held) in self.due.iter().zip(&self.applications).zip(held) {
            let held = held.into_iter();
            let plan = quota::plan(&self.queues, *due, applications, held, baton.now_ns);
            for leaf in &plan.leaves {
                let mut at = Some(leaf.queue);
                while let Some(place) = at {
                    self.queues[place].preempting.add(&leaf.claimed);
                    at = self.queues[place].parent;
                }
            }
            plans.push(plan);
        }
        plans
    }

    /// Reports the amount that a queue gives back, and each leaf in which victims could be chosen.
    fn report(&self, due: usize, plan: &QuotaPlan, baton: &mut Baton) {
        let mut all = GivenBack { planned: plan.target.clone(), ..GivenBack::default() };
        for leaf in &plan.leaves {
            let given = GivenBack {
                planned: leaf.target.clone(),
                claimed: leaf.claimed.clone(),
                candidates: leaf.candidates,
                victims: leaf.victims.len() + leaf.holds.len(),
            };
            all.claimed.add(&given.claimed);
            all.candidates += given.candidates;
            all.victims += given.victims;
            if given.candidates > 0 {
                self.happens(leaf.queue, given, baton);
            }
        }
        let path = &self.queues[due].path;
        tracing::info!(queue = %path, kind = %path, planned = %all.planned, claimed = %all.claimed,
            candidates = all.candidates, victims = all.victims,
            "a queue was above its maximum for too long, and gives back what it may");
        let is_leaf = plan.leaves.iter().any(|leaf| leaf.queue == due);
        if all.victims > 0 && !is_leaf {
            self.happens(due, all, baton);
        }
    }

    fn happens(&self, queue: usize, given: GivenBack, baton: &mut Baton) {
        let QueueFacts { path, max, .. } = &self.queues[queue];
        let max = max.as_ref().map(Limits::as_resources).unwrap_or_default();
        let event = |at| Event::of(EventKind::QueuePreempted, path, at).amount(&max);
        baton.happens(|at| event(at).with_message(Message::GivesBack(Box::new(given))));
    }
}

impl Survey for GiveBack {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let due = self.due.iter().map(|place| self.slots[*place]);
        let route = Route::default().queues(due);
        route.applications_that(baton, |entry| self.concerned(entry.leaf).is_some())
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        let Some((leaf, nth)) = self.concerned(application.leaf_facts.slot) else { return };
        self.applications[nth].push(application.loser(baton).facts(leaf, None));
    }

    fn at_queue(&mut self, queue: &mut Queue, _: &mut Baton) {
        queue.quota_run_is_over();
    }

    fn home(mut self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let plans = self.plans(baton);
        for (due, plan) in self.due.iter().zip(&plans) {
            self.report(*due, plan, baton);
            let chosen = plan.leaves.iter().flat_map(|leaf| leaf.holds.iter().chain(&leaf.victims));
            let eviction = Eviction::of(chosen, baton);
            eviction.count(None, baton);
            let (nominations, now_ns) = (&mut baton.books.nominations, baton.now_ns);
            for (id, victim) in &eviction.victims {
                nominations.add_orphan(*id, victim, now_ns);
            }
            let queue = Arc::clone(&self.queues[*due].path);
            let chosen: Vec<Chosen> =
                plan.leaves.iter().flat_map(|leaf| leaf.chosen.iter().copied()).collect();
            partition.agenda.extend(eviction.orders(&Arc::new(Grounds::Quota { queue }), &chosen));
        }
    }
}
