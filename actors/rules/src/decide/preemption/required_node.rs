//! The choice of victims on the node that an ask requires.
//!
//! # How it differs
//! A daemon has to run on its node, whatever guarantee its queue has. So neither delays, fences and
//! guarantees nor the eviction bounds of queues count. Only its own priority does: no victim has a
//! higher one. Any application may lose allocations, its own included. The ask has its node
//! reserved already, so only the victims are to be chosen.
//!
//! Held places are evicted first, then placeholders, ordinary allocations, and members of a gang
//! that needs them. After all of these come, in the same order, allocations that asked not to be
//! preempted, then the first allocations of their applications, then those that are both. Among
//! equals the least important comes first, then the newest, then the smallest, then the lower UUID.

use std::cmp::Reverse;

use super::chosen::{Chosen, those_who_stay};
use super::inquiry::Answer;
use super::survey::may_be_taken;
use crate::allocations::Allocation;
use crate::asks::preemption::TRY_AGAIN;
use crate::specs::ask::AskSpec;
use crate::values::ids::AllocationId;
use crate::values::instant::after;
use crate::values::resources::Resources;

/// An allocation on the node of the ask.
#[derive(Clone, Debug)]
pub struct OnNode<'a> {
    /// The allocation.
    pub id: AllocationId,
    /// The allocation itself.
    pub allocation: &'a Allocation,
    /// Whether it is a member of a gang that has no more members than it needs.
    pub is_short: bool,
    /// The other allocations of its application that are not being released, on any node, if they
    /// are preempted together or not at all.
    pub mates: Vec<(AllocationId, &'a Allocation)>,
}

impl<'a> OnNode<'a> {
    /// A candidate that is preempted by itself.
    pub fn single(id: AllocationId, allocation: &'a Allocation) -> Self {
        Self { id, allocation, is_short: false, mates: Vec::new() }
    }
}

/// The plan: the victims on the required node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredPlan {
    /// The victims on the node, in order.
    pub victims: Vec<AllocationId>,
    /// The victims of the same applications on other nodes.
    pub elsewhere: Vec<AllocationId>,
    /// Held places, which end in the step of the commit.
    pub holds: Vec<AllocationId>,
    /// Further candidates, in order, from which the RM may add victims.
    pub others: Vec<AllocationId>,
    /// The choice of each victim on the node, with the next candidate.
    pub chosen: Vec<Chosen>,
    /// Whether the RM added victims.
    wants_more: bool,
}

/// A node that an ask requires.
#[derive(Clone, Copy)]
pub struct RequiredNode<'a> {
    /// The free amount of the node.
    pub available: &'a Resources,
    /// The allocations on the node.
    pub holds: &'a [OnNode<'a>],
    /// Whether the placement constraint of the ask admits the node once these allocations are
    /// evicted.
    pub suits: &'a dyn Fn(&[AllocationId]) -> bool,
    /// The present time, ns since the epoch.
    pub now_ns: i64,
}

/// Chooses the victims that are needed so that the ask may run on the node that it requires. `None`
/// if no victim is needed, or if all candidates are not enough.
pub fn plan(ask: &AskSpec, node: &RequiredNode<'_>) -> Option<RequiredPlan> {
    let mut candidates: Vec<&OnNode<'_>> =
        node.holds.iter().filter(|it| may_go(ask, it, node.now_ns)).collect();
    candidates
        .sort_by(|left, right| order(left).cmp(&order(right)).then_with(|| finer(left, right)));

    let mut chosen: Vec<&OnNode<'_>> = Vec::new();
    if node.is_met(ask, &chosen) {
        return None;
    }
    let mut is_met = false;
    for &candidate in &candidates {
        if is_met {
            break;
        }
        if !chosen.iter().any(|it| goes_with(it, candidate)) {
            chosen.push(candidate);
            is_met = node.is_met(ask, &chosen);
        }
    }
    if !is_met {
        return None;
    }
    for at in (0..chosen.len()).rev() {
        let spared = chosen.remove(at);
        if !node.is_met(ask, &chosen) {
            chosen.insert(at, spared);
        }
    }
    Some(in_order(&candidates, &chosen, node.holds))
}

impl RequiredNode<'_> {
    /// Returns the time at which another try is useful without a change on the node, ns since the
    /// epoch: the end of the first time for which an allocation stays. If allocations are preempted
    /// together with others on other nodes, [`TRY_AGAIN`] from now at the latest. `None` if only a
    /// change on the node can help.
    pub fn bound_ends_ns(&self) -> Option<i64> {
        let on_node = self.holds.iter().map(|it| it.allocation);
        let mates = self.holds.iter().flat_map(|it| it.mates.iter().map(|(_, mate)| *mate));
        let stay = on_node.chain(mates).map(|it| it.stays_until_ns);
        let has_mates = self.holds.iter().any(|it| !it.mates.is_empty());
        let later = has_mates.then(|| after(self.now_ns, TRY_AGAIN));
        stay.filter(|until_ns| *until_ns > self.now_ns).chain(later).min()
    }

    /// Whether the ask may run on the node once these allocations are evicted, each with its mates.
    fn is_met(&self, ask: &AskSpec, chosen: &[&OnNode<'_>]) -> bool {
        let mut room = self.available.clone();
        let goes = |it: &&OnNode<'_>| chosen.iter().any(|chosen| goes_with(chosen, it));
        for it in self.holds.iter().filter(goes) {
            room.add(it.allocation.resources());
        }
        room.holds(&ask.resources) && {
            let mates = chosen.iter().flat_map(|it| it.mates.iter().map(|(id, _)| *id));
            let gone: Vec<AllocationId> = chosen.iter().map(|it| it.id).chain(mates).collect();
            (self.suits)(&gone)
        }
    }
}

impl RequiredPlan {
    /// Returns all allocations that are evicted.
    pub fn all(&self) -> impl Iterator<Item = &AllocationId> {
        self.holds.iter().chain(&self.victims).chain(&self.elsewhere)
    }

    /// Returns the question to the RM: the victims on the node and the further candidates, in
    /// order, and the index of the last one that is evicted in any case (-1: none). If only held
    /// places end, it is an ordinary question with an empty list, since the RM knows of no
    /// eviction.
    pub fn question(&self) -> (Vec<AllocationId>, i32) {
        if self.victims.is_empty() {
            return (Vec::new(), -1);
        }
        let list = self.victims.iter().chain(&self.others).copied().collect();
        (list, i32::try_from(self.victims.len()).unwrap_or(i32::MAX) - 1)
    }

    /// Returns the plan by the answer of the RM. `None` if the RM refused, or if its answer is
    /// invalid.
    pub fn answered(&self, answer: Answer) -> Option<Self> {
        let Answer::Fits(index) = answer else { return None };
        let taken = usize::try_from(i64::from(index) + 1).ok()?;
        let (list, _) = self.question();
        if taken < self.victims.len() || taken > list.len() {
            return None;
        }
        let (victims, wants_more) = (list[..taken].to_vec(), taken > self.victims.len());
        let chosen = those_who_stay(&self.chosen, &victims);
        Some(Self { victims, others: Vec::new(), chosen, wants_more, ..self.clone() })
    }

    /// Tests the plan again on fresh facts, after the RM was asked about it. Victims that may not
    /// be evicted any more are left out, and victims that are no longer needed are spared. The RM
    /// answered about this order, so victims are spared only from the end of the list, and none if
    /// the RM added victims: it may know of further conditions. `None` if the rest is not enough,
    /// or if no victim is needed any more.
    pub fn recheck(&self, ask: &AskSpec, node: &RequiredNode<'_>) -> Option<Self> {
        let on_node = node.holds;
        let may_still = |id: &&AllocationId| {
            on_node.iter().any(|it| it.id == **id && may_go(ask, it, node.now_ns))
        };
        let still = |of: &[AllocationId]| of.iter().filter(may_still).copied().collect::<Vec<_>>();
        let (mut holds, mut victims) = (still(&self.holds), still(&self.victims));
        let is_enough = |holds: &[AllocationId], victims: &[AllocationId]| {
            let goes = |it: &&OnNode<'_>| holds.contains(&it.id) || victims.contains(&it.id);
            let chosen: Vec<&OnNode<'_>> = on_node.iter().filter(goes).collect();
            node.is_met(ask, &chosen)
        };
        if is_enough(&[], &[]) || !is_enough(&holds, &victims) {
            return None;
        }
        let mates = |id: &AllocationId| {
            let it = on_node.iter().find(|it| it.id == *id);
            it.into_iter().flat_map(|it| &it.mates).map(|(mate, _)| *mate)
        };
        while !self.wants_more
            && let Some(last) = victims.last()
        {
            let together: Vec<AllocationId> = mates(last).chain([*last]).collect();
            let fewer = victims.iter().take_while(|id| !together.contains(id)).count();
            let are_last = victims[fewer..].iter().all(|id| together.contains(id));
            if !are_last || !is_enough(&holds, &victims[..fewer]) {
                break;
            }
            victims.truncate(fewer);
        }
        for at in (0..holds.len()).rev() {
            let spared = holds.remove(at);
            if !is_enough(&holds, &victims) {
                holds.insert(at, spared);
            }
        }
        let goes = |id: &AllocationId| victims.contains(id) || holds.contains(id);
        let mut elsewhere: Vec<AllocationId> = Vec::new();
        for mate in victims.iter().chain(&holds).flat_map(mates) {
            if !goes(&mate) && !elsewhere.contains(&mate) {
                elsewhere.push(mate);
            }
        }
        let chosen = those_who_stay(&self.chosen, &victims);
        let (others, wants_more) = (Vec::new(), self.wants_more);
        Some(Self { victims, elsewhere, holds, others, chosen, wants_more })
    }
}

fn may_go(ask: &AskSpec, it: &OnNode<'_>, now_ns: i64) -> bool {
    let may = |allocation: &Allocation| {
        may_be_taken(allocation)
            && allocation.stays_until_ns <= now_ns
            && allocation.spec.priority <= ask.priority
    };
    let shares = |allocation: &Allocation| {
        let mut names = allocation.resources().entries();
        names.any(|(name, quantity)| quantity > 0 && ask.resources.get(name) > 0)
    };
    may(it.allocation) && shares(it.allocation) && it.mates.iter().all(|(_, mate)| may(mate))
}

fn goes_with(chosen: &OnNode<'_>, it: &OnNode<'_>) -> bool {
    chosen.id == it.id || chosen.mates.iter().any(|(id, _)| *id == it.id)
}

fn in_order(
    candidates: &[&OnNode<'_>],
    chosen: &[&OnNode<'_>],
    on_node: &[OnNode<'_>],
) -> RequiredPlan {
    let mut plan = RequiredPlan::default();
    let is_chosen = |it: &OnNode<'_>| chosen.iter().any(|chosen| goes_with(chosen, it));
    for it in candidates {
        let kind = match (it.allocation.is_hold(), is_chosen(it)) {
            (true, true) => &mut plan.holds,
            (false, true) => &mut plan.victims,
            (false, false) if it.mates.is_empty() => &mut plan.others,
            _ => continue,
        };
        kind.push(it.id);
    }
    // Mates on the node that have no resource in common with the ask are evicted, too.
    for (id, _) in chosen.iter().flat_map(|it| &it.mates) {
        let is_known = plan.victims.contains(id) || plan.holds.contains(id);
        if !is_known && !plan.elsewhere.contains(id) {
            plan.elsewhere.push(*id);
        }
    }
    debug_assert!(chosen.iter().all(|it| on_node.iter().any(|on| on.id == it.id)));
    let rank = |id: &AllocationId| {
        let (class, priority, _) = candidates.iter().find(|it| it.id == *id).map(|it| order(it))?;
        Some((u16::from(class), i64::from(priority)))
    };
    let next = plan.others.first().copied();
    let second = next.as_ref().and_then(rank).unwrap_or_default();
    let chosen = |victim: &AllocationId| {
        let first = rank(victim).unwrap_or_default();
        let (kinds, priorities) = ((first.0, second.0), (first.1, second.1));
        Chosen { victim: *victim, next, kinds, priorities }
    };
    plan.chosen = plan.victims.iter().map(chosen).collect();
    plan
}

fn order(it: &OnNode<'_>) -> (u8, i32, Reverse<i64>) {
    let allocation = it.allocation;
    let spec = &allocation.spec;
    let class = if allocation.is_hold() {
        0
    } else {
        let kind = if spec.placeholder { 1 } else { 2 + u8::from(it.is_short) };
        3 * (2 * u8::from(spec.originator) + u8::from(!spec.preemption.of_itself())) + kind
    };
    (class, spec.priority, Reverse(allocation.created_ns))
}

fn finer(left: &OnNode<'_>, right: &OnNode<'_>) -> std::cmp::Ordering {
    let (left, right) = (left.allocation, right.allocation);
    left.resources().alphabetical(right.resources()).then_with(|| left.uuid.cmp(&right.uuid))
}
