//! The choice of victims in a queue that is above its maximum after the maximum was lowered.
//!
//! # One shot
//! If a queue is above its maximum for longer than `quota.preemption.delay`, it loses the excess
//! once, as far as that is possible with whole allocations and without more than the excess: usage
//! may stay above the maximum afterwards. No preemptor waits for the capacity, and none has it
//! reserved.
//!
//! # How much each leaf loses
//! The excess is the *target*. It is no more than the usage of the queue and of the queues above it
//! beyond their guarantees. A queue with children divides its target among them in proportion to
//! the usage of each beyond its own guarantee, down to the leaves, in which victims are chosen.
//! Each victim fits the target of its leaf, and so do all together.
//!
//! # Invariants
//! * In no resource is more taken than the target.
//! * No queue falls below its guarantee in any resource of a victim.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::chosen::{Chosen, HOUR_NS};
use super::hierarchy::QueueFacts;
use super::survey::{ApplicationFacts, class_of, is_running, may_be_taken, may_be_taken_by_now};
use crate::allocations::Allocation;
use crate::decide::quota_timer::{Quota, QuotaTimer};
use crate::specs::ask::TaskGroup;
use crate::values::ids::{AllocationId, ApplicationSlot};
use crate::values::resources::{Limits, Name, Resources};

/// A queue with its timer and quota.
#[derive(Debug)]
pub struct Watched<'a> {
    /// The index of its parent among the watched queues.
    pub parent: Option<usize>,
    /// The timer.
    pub timer: &'a mut QuotaTimer,
    /// The maximum and the delay. A queue that was not configured has no delay.
    pub quota: Quota<'a>,
    /// The usage.
    pub used: &'a Resources,
}

/// Returns the queues that are due, and starts a run for each. Queues are checked from root down
/// (parents stand before their children); a queue below one with a run is not checked.
pub fn due(queues: &mut [Watched<'_>], now_ns: i64) -> Vec<usize> {
    let mut is_below_run = vec![false; queues.len()];
    let mut due = Vec::new();
    for at in 0..queues.len() {
        let queue = &mut queues[at];
        if queue.parent.is_some_and(|parent| is_below_run[parent]) || queue.timer.is_running() {
            is_below_run[at] = true;
        } else if queue.timer.fires(queue.quota, queue.used, now_ns) {
            is_below_run[at] = true;
            due.push(at);
        }
    }
    due
}

/// The plan for a queue above its maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaPlan {
    /// The excess, as far as guarantees allow it.
    pub target: Resources,
    /// The part of each leaf.
    pub leaves: Vec<LeafPlan>,
}

/// The part of a leaf in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafPlan {
    /// The index of the leaf among the surveyed queues.
    pub queue: usize,
    /// Its part of the target.
    pub target: Resources,
    /// The number of candidates.
    pub candidates: usize,
    /// The amount of all chosen allocations.
    pub claimed: Resources,
    /// The choice of each victim, with the next candidate.
    pub chosen: Vec<Chosen>,
    /// The victims, which the RM has to end.
    pub victims: Vec<AllocationId>,
    /// Held places of gangs, which end at once.
    pub holds: Vec<AllocationId>,
}

/// Returns the excess of a queue that may be taken.
pub fn target(queues: &[QueueFacts], queue: usize) -> Resources {
    let Some(max) = &queues[queue].max else { return Resources::new() };
    let used = used(&queues[queue]);
    let mut target = Resources::new();
    for (name, max) in max.entries() {
        let mut over = used.get(name).saturating_sub(max);
        let mut at = Some(queue);
        while let Some(above) = at {
            let facts = &queues[above];
            if let Some(guaranteed) = facts.guaranteed.as_ref().and_then(|it| it.find(name)) {
                over = over.min(self::used(facts).get(name).saturating_sub(guaranteed).max(0));
            }
            at = facts.parent;
        }
        if over > 0 {
            target.set(name, over);
        }
    }
    target
}

/// Returns the target of a queue divided among the leaves below it; the whole target if the queue
/// is a leaf.
pub fn shares(queues: &[QueueFacts], queue: usize, target: &Resources) -> Vec<(usize, Resources)> {
    // Parents stand before their children.
    let children: Vec<usize> =
        (queue + 1..queues.len()).filter(|at| queues[*at].parent == Some(queue)).collect();
    if children.is_empty() {
        let is_some = target.is_positive();
        return is_some.then(|| (queue, target.clone())).into_iter().collect();
    }
    let surplus = |child: usize, name: Name| {
        let facts = &queues[child];
        let used = used(facts).get(name).max(0);
        match facts.guaranteed.as_ref().and_then(|it| it.find(name)) {
            Some(guaranteed) => used.saturating_sub(guaranteed).max(0),
            None => used,
        }
    };
    let sum_of =
        |name| children.iter().map(|child| i128::from(surplus(*child, name))).sum::<i128>();
    let wanted: Vec<(Name, i64, i128)> =
        target.entries().map(|(name, wanted)| (name, wanted, sum_of(name))).collect();
    let mut all = Vec::new();
    for &child in &children {
        let mut share = Resources::new();
        for &(name, wanted, sum) in &wanted {
            let own = surplus(child, name);
            if own > 0 && wanted > 0 {
                let part = i128::from(wanted) * i128::from(own) / sum;
                let part = i64::try_from(part).unwrap_or(i64::MAX).min(own);
                if part > 0 {
                    share.set(name, part);
                }
            }
        }
        if share.is_positive() {
            all.extend(shares(queues, child, &share));
        }
    }
    all
}

/// Returns the plan for a queue that is due. `applications` are those below it, with their
/// `allocations`.
pub fn plan<'a>(
    queues: &[QueueFacts],
    due: usize,
    applications: &[ApplicationFacts],
    allocations: impl Iterator<Item = (AllocationId, &'a Allocation)>,
    now_ns: i64,
) -> QuotaPlan {
    let target = target(queues, due);
    let mut choice = Choice {
        queues,
        used: queues.iter().map(used).collect(),
        max: queues[due].max.clone().unwrap_or_default(),
        applications: applications.iter().map(|facts| (facts.slot, (facts, 0))).collect(),
        real: BTreeMap::new(),
        now_ns,
    };
    let mut by_leaf: BTreeMap<usize, Vec<(AllocationId, &Allocation)>> = BTreeMap::new();
    for (id, allocation) in allocations.filter(|(_, it)| it.leaving.is_none()) {
        if let Some((facts, _)) = choice.applications.get(&allocation.application) {
            by_leaf.entry(facts.queue).or_default().push((id, allocation));
            if let Some(group) = allocation.spec.member_of().filter(|_| is_running(allocation)) {
                let group = (allocation.application, TaskGroup::clone(group));
                *choice.real.entry(group).or_default() += 1;
            }
        }
    }
    let leaves = shares(queues, due, &target);
    let leaf_plan = |(queue, target): (usize, Resources)| {
        choice.of_leaf(queue, target, by_leaf.get(&queue).map_or(&[], Vec::as_slice))
    };
    QuotaPlan { leaves: leaves.into_iter().map(leaf_plan).collect(), target }
}

/// The state of the choice of victims.
struct Choice<'a> {
    queues: &'a [QueueFacts],
    /// The usage of each queue, without the chosen victims.
    used: Vec<Resources>,
    /// The maximum that is exceeded.
    max: Limits,
    /// The applications, each with the number of its chosen victims.
    applications: BTreeMap<ApplicationSlot, (&'a ApplicationFacts, u32)>,
    /// The number of running members of each gang.
    real: BTreeMap<(ApplicationSlot, TaskGroup), u32>,
    now_ns: i64,
}

/// Allocations that are taken together.
type Unit<'a> = Vec<(AllocationId, &'a Allocation)>;

impl Choice<'_> {
    fn of_leaf(
        &mut self,
        queue: usize,
        target: Resources,
        alive: &[(AllocationId, &Allocation)],
    ) -> LeafPlan {
        let mut units = self.units(queue, &target, alive);
        units.sort_by_cached_key(|unit| self.order(&target, unit));
        let mut plan = LeafPlan {
            queue,
            candidates: units.iter().map(Vec::len).sum(),
            claimed: Resources::new(),
            victims: Vec::new(),
            holds: Vec::new(),
            chosen: Vec::new(),
            target,
        };
        let mut spared: Option<(AllocationId, u16, i64)> = None;
        for unit in units {
            let mut size = Resources::new();
            for (_, it) in &unit {
                size.add(it.resources());
            }
            let sum = plan.claimed.plus(&size);
            let fits = plan.target.entries().all(|(name, most)| sum.get(name) <= most);
            if !fits || !self.keeps_guarantees(queue, &size) || !self.may_lose(&unit) {
                let priority = |it: &Allocation| i64::from(it.spec.priority);
                let first =
                    unit.first().map(|(id, it)| (*id, self.kind(&plan.target, it), priority(it)));
                spared = spared.or(first);
                continue;
            }
            self.take(queue, &size, &unit);
            plan.claimed = sum;
            for (id, it) in unit {
                if it.is_hold() {
                    plan.holds.push(id);
                    continue;
                }
                plan.victims.push(id);
                let kinds = (self.kind(&plan.target, it), 0);
                let priorities = (it.spec.priority.into(), 0);
                plan.chosen.push(Chosen { victim: id, next: None, kinds, priorities });
            }
        }
        if let Some((next, kind, priority)) = spared {
            for chosen in &mut plan.chosen {
                (chosen.next, chosen.kinds.1, chosen.priorities.1) = (Some(next), kind, priority);
            }
        }
        plan
    }

    /// Returns the candidates. All allocations of an application that are preempted together are
    /// one unit.
    fn units<'a>(
        &self,
        queue: usize,
        target: &Resources,
        alive: &[(AllocationId, &'a Allocation)],
    ) -> Vec<Unit<'a>> {
        let least = self.queues[queue].settings.eviction.min_runtime;
        let may = |it: &Allocation| may_be_taken(it) && may_be_taken_by_now(it, least, self.now_ns);
        let is_of_use = |it: &Allocation| {
            it.resources().entries().any(|(name, quantity)| quantity > 0 && target.get(name) > 0)
        };
        let mut together: BTreeMap<ApplicationSlot, Unit<'a>> = BTreeMap::new();
        let mut units = Vec::new();
        for &(id, it) in alive {
            if self.applications[&it.application].0.goes_as_one {
                together.entry(it.application).or_default().push((id, it));
            } else if may(it) && is_of_use(it) {
                units.push(vec![(id, it)]);
            }
        }
        let whole = together.into_values();
        units.extend(whole.filter(|unit| {
            unit.iter().all(|(_, it)| may(it)) && unit.iter().any(|(_, it)| is_of_use(it))
        }));
        units
    }

    fn order(&self, target: &Resources, unit: &Unit<'_>) -> impl Ord + use<> {
        let of = |it: &Allocation| {
            (
                self.kind(target, it),
                it.spec.priority,
                Reverse(it.created_ns.div_euclid(HOUR_NS)),
                self.share(target, it.resources()),
                it.uuid.clone(),
            )
        };
        // A unit of several allocations has the position of its last one.
        unit.iter().map(|(_, it)| of(it)).max()
    }

    /// Returns the kind of the allocation combined with the percentage of its resource types that
    /// are of no use here.
    fn kind(&self, target: &Resources, it: &Allocation) -> u16 {
        let names = it.resources().entries().len();
        let common = it.resources().entries().filter(|(name, _)| target.find(*name).is_some());
        let matching = (common.count() * 100).checked_div(names).unwrap_or(0);
        let missing = u16::try_from(100 - matching).unwrap_or(0);
        u16::from(class_of(it, self.is_short(it))) * 128 + missing
    }

    fn is_short(&self, it: &Allocation) -> bool {
        let Some(name) = it.spec.member_of() else { return false };
        let groups = &self.applications[&it.application].0.groups;
        let group = groups.iter().find(|group| group.name == *name);
        let real = self.real.get(&(it.application, TaskGroup::clone(name)));
        group.zip(real).is_some_and(|(group, real)| *real <= group.min_members)
    }

    /// Returns the largest share of the maximum that an amount takes, in billionths.
    fn share(&self, target: &Resources, size: &Resources) -> i128 {
        let of = |(name, _): (Name, i64)| {
            let max = self.max.find(name).filter(|max| *max > 0)?;
            Some(i128::from(size.get(name)) * 1_000_000_000 / i128::from(max))
        };
        target.entries().map(|entry| of(entry).unwrap_or(i128::MAX)).max().unwrap_or(0)
    }

    fn path(&self, queue: usize) -> impl Iterator<Item = usize> + use<'_> {
        std::iter::successors(Some(queue), |at| self.queues[*at].parent)
    }

    fn keeps_guarantees(&self, queue: usize, size: &Resources) -> bool {
        self.path(queue).all(|at| {
            let guaranteed = self.queues[at].guaranteed.as_ref();
            size.entries().filter(|(_, quantity)| *quantity > 0).all(|(name, quantity)| {
                let least = guaranteed.and_then(|guaranteed| guaranteed.find(name));
                least.is_none_or(|least| self.used[at].get(name) - quantity >= least)
            })
        })
    }

    fn may_lose(&self, unit: &Unit<'_>) -> bool {
        let Some((_, first)) = unit.first() else { return false };
        let (facts, lost) = self.applications[&first.application];
        facts.allowance.is_none_or(|most| lost + counted(unit) <= most)
    }

    fn take(&mut self, queue: usize, size: &Resources, unit: &Unit<'_>) {
        let path: Vec<usize> = self.path(queue).collect();
        for at in path {
            self.used[at].subtract(size);
        }
        if let Some((_, first)) = unit.first()
            && let Some((_, lost)) = self.applications.get_mut(&first.application)
        {
            *lost += counted(unit);
        }
    }
}

/// Returns the number of allocations of the unit that count as evictions.
fn counted(unit: &Unit<'_>) -> u32 {
    let counted = unit.iter().filter(|(_, it)| !it.is_hold() && !it.spec.placeholder);
    u32::try_from(counted.count()).unwrap_or(u32::MAX)
}

fn used(queue: &QueueFacts) -> Resources {
    queue.allocated.minus(&queue.preempting)
}
