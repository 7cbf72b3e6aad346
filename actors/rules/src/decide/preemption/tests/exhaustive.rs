//! Compares every plan for a small cluster with all possible sets of victims.
//!
//! The rules are written a second time here, literally and without regard to speed: with amounts by
//! name instead of rows, and from scratch for each set.

use std::cell::OnceCell;

use proptest::prelude::*;

use super::cluster::{Cluster, NOW};
use crate::allocations::Allocation;
use crate::decide::preemption::*;
use crate::queues::{PreemptionPolicy, PriorityPolicy};
use crate::specs::ask::{Form, Preemption, TaskGroup};
use crate::values::ids::AllocationId;
use crate::values::resources::{Limits, Name, Resources};

/// The configuration of a queue, as random numbers.
#[derive(Clone, Debug)]
pub(super) struct RandomQueue {
    guaranteed: Option<(i64, i64)>,
    max: Option<i64>,
    policy: u8,
    offset: i32,
    is_priority_fence: bool,
}

#[derive(Clone, Debug)]
pub(super) struct RandomRun {
    application: usize,
    node: usize,
    size: (i64, i64),
    priority: i32,
    flags: u8,
}

#[derive(Clone, Debug)]
pub(super) struct RandomCluster {
    queues: Vec<RandomQueue>,
    /// The free amount of each node, in addition to the allocations on it.
    pub(super) nodes: Vec<(i64, i64, u8)>,
    runs: Vec<RandomRun>,
    allowances: Vec<Option<u32>>,
    goes_as_one: Vec<bool>,
    /// The number of members that the gang of each application needs.
    min_members: Vec<u32>,
    pub(super) ask: (i64, i64),
    pub(super) asks_in: usize,
    priority: i32,
}

const LEAVES: [&str; 5] = ["root.a.x", "root.a.y", "root.b", "root.c.z", "root.a.w"];
const PATHS: [&str; 7] =
    ["root.a", "root.a.x", "root.a.y", "root.a.w", "root.b", "root.c", "root.c.z"];

fn amount((vcore, memory): (i64, i64)) -> Resources {
    let all = [("vcore", vcore), ("memory", memory)];
    let some: Vec<_> = all.into_iter().filter(|(_, n)| *n > 0).collect();
    Resources::of(&some)
}

fn group() -> TaskGroup {
    TaskGroup::new("tg".to_owned())
}

fn queue() -> impl Strategy<Value = RandomQueue> {
    (
        prop::option::weighted(0.5, (0..5_i64, 0..3_i64)),
        prop::option::weighted(0.15, 6..20_i64),
        0..40_u8,
        prop_oneof![4 => Just(0), 1 => -1..=1],
        prop::bool::weighted(0.1),
    )
        .prop_map(|(guaranteed, max, policy, offset, is_priority_fence)| RandomQueue {
            guaranteed,
            max,
            policy,
            offset,
            is_priority_fence,
        })
}

fn run() -> impl Strategy<Value = RandomRun> {
    let size = (1..5_i64, prop_oneof![3 => Just(0), 1 => 1..4_i64]);
    let priority = prop_oneof![2 => Just(0), 1 => -3..=1];
    (0..6_usize, 0..6_usize, size, priority, any::<u8>()).prop_map(
        |(application, node, size, priority, flags)| RandomRun {
            application,
            node,
            size,
            priority,
            flags,
        },
    )
}

pub(super) fn cluster() -> impl Strategy<Value = RandomCluster> {
    (
        prop::collection::vec(queue(), PATHS.len()),
        prop::collection::vec((0..2_i64, 0..2_i64, 0..20_u8), 1..=6),
        prop::collection::vec(run(), 4..=12),
        prop::collection::vec(prop::option::weighted(0.15, 0..4_u32), 6),
        prop::collection::vec(prop::bool::weighted(0.1), 6),
        prop::collection::vec(0..3_u32, 6),
        (1..6_i64, prop_oneof![3 => Just(0), 1 => 1..4_i64]),
        0..LEAVES.len(),
        prop_oneof![2 => Just(0), 1 => -1..=3],
        prop::option::weighted(0.8, (4..16_i64, 2..9_i64)),
    )
        .prop_map(
            |(
                mut queues,
                nodes,
                runs,
                allowances,
                goes_as_one,
                min_members,
                ask,
                asks_in,
                priority,
                own,
            )| {
                // Most preemptors' queues have a guarantee; otherwise few would find victims.
                let at =
                    PATHS.iter().position(|path| *path == LEAVES[asks_in]).expect("it is there");
                queues[at].guaranteed = own.or(queues[at].guaranteed);
                RandomCluster {
                    queues,
                    nodes,
                    runs,
                    allowances,
                    goes_as_one,
                    min_members,
                    ask,
                    asks_in,
                    priority,
                }
            },
        )
}

pub(super) fn built(random: &RandomCluster) -> (Cluster, Demand) {
    let mut cluster = Cluster::new();
    for (path, of) in PATHS.iter().zip(&random.queues) {
        let queue = cluster.queue(path);
        queue.guaranteed = of.guaranteed.map(amount).filter(|it| !it.is_empty());
        queue.max = of.max.map(|max| Limits::of(&[("vcore", max)]));
        queue.settings.preemption = match of.policy {
            0 => PreemptionPolicy::Fence,
            1 => PreemptionPolicy::Disabled,
            _ => PreemptionPolicy::Default,
        };
        queue.settings.priority_offset = of.offset;
        if of.is_priority_fence {
            queue.settings.priority_policy = PriorityPolicy::Fence;
        }
    }
    for (at, (vcore, memory, state)) in random.nodes.iter().enumerate() {
        let mut total = amount((*vcore, *memory));
        for run in random.runs.iter().filter(|run| run.node % random.nodes.len() == at) {
            total.add(&amount(run.size));
        }
        let node = cluster.node_of(&format!("n{at}"), total);
        node.is_open = *state != 0;
        node.claim = match state {
            1 => Claimed::ByOthers,
            2 => Claimed::GivesWay,
            _ => Claimed::Free,
        };
    }
    for at in 0..6 {
        let application = cluster.application(&format!("app{at}"), LEAVES[at % LEAVES.len()]);
        application.allowance = random.allowances[at];
        application.goes_as_one = random.goes_as_one[at];
        application.groups = vec![(group(), random.min_members[at])];
    }
    for (at, run) in random.runs.iter().enumerate() {
        let name = format!("r{at}");
        let node = format!("n{}", run.node % random.nodes.len());
        cluster.runs_of(&name, &format!("app{}", run.application), &node, amount(run.size));
        cluster.priority(&name, run.priority);
        match run.flags % 24 {
            0 => cluster.opts_out(&name),
            1 => cluster.is_originator(&name),
            2 => cluster.is_being_preempted(&name),
            3 => cluster.spec(&name, |spec| spec.form = Form::Internal),
            4 => cluster
                .spec(&name, |spec| spec.particulars.make().required_node = Some("n0".into())),
            5 => cluster.spec(&name, |spec| {
                spec.originator = true;
                spec.preemption = Preemption::Neither;
            }),
            6..=8 => cluster.spec(&name, |spec| spec.particulars.make().task_group = Some(group())),
            9 => cluster.spec(&name, |spec| {
                spec.particulars.make().task_group = Some(group());
                spec.placeholder = true;
            }),
            _ => {}
        }
    }
    let preemptor = cluster.ask_of(LEAVES[random.asks_in], amount(random.ask));
    let preemptor = Demand { priority: random.priority, ..preemptor };
    (cluster, preemptor)
}

/// The rules, written a second time.
pub(super) struct Laws<'a> {
    cluster: &'a Cluster,
    facts: Vec<QueueFacts>,
    preemptor: &'a Demand,
    ask: Resources,
    /// Candidates in order, the same for all sets. Empty until it is used.
    order: OnceCell<Vec<AllocationId>>,
}

type Remaining = Option<Vec<(Name, i64)>>;

/// The cost by which sets are compared: the kinds of victims, the highest priority among them,
/// their number, the same for held places, and the position of the first victim among all
/// candidates.
type Cost = (u64, i64, usize, (i64, usize), usize);

impl<'a> Laws<'a> {
    pub(super) fn new(cluster: &'a Cluster, preemptor: &'a Demand) -> Self {
        let ask = preemptor.members[0].clone();
        Self { cluster, facts: cluster.facts(), preemptor, ask, order: OnceCell::new() }
    }

    fn path(&self, queue: usize) -> Vec<usize> {
        let mut path = vec![queue];
        while let Some(above) = self.facts[path[path.len() - 1]].parent {
            path.push(above);
        }
        path.reverse();
        path
    }

    fn leaf(&self, it: &Allocation) -> usize {
        self.cluster.queue_index(&self.cluster.applications[it.application.index()].1.queue)
    }

    fn get(&self, id: AllocationId) -> &Allocation {
        self.cluster.table.get(id).unwrap()
    }

    /// Returns the usage of a queue once these allocations are evicted, and after the preemptor has
    /// grown by those taken before.
    fn used(&self, queue: usize, gone: &[AllocationId], grown: &[AllocationId]) -> Resources {
        let facts = &self.facts[queue];
        let mut used = facts.allocated.minus(&facts.preempting);
        for id in gone {
            let it = self.get(*id);
            if self.path(self.leaf(it)).contains(&queue) {
                used.subtract(it.resources());
            }
        }
        if self.path(self.preemptor.queue).contains(&queue) {
            for id in grown {
                used.add(self.get(*id).resources());
            }
        }
        used
    }

    fn remaining(&self, queue: usize, gone: &[AllocationId], grown: &[AllocationId]) -> Remaining {
        let facts = &self.facts[queue];
        let above = facts.parent.and_then(|above| self.remaining(above, gone, grown));
        let own: Option<Vec<(Name, i64)>> = facts.guaranteed.as_ref().map(|guaranteed| {
            let used = self.used(queue, gone, grown);
            let nominated = if queue == self.preemptor.queue {
                facts.nominated.clone()
            } else {
                Resources::new()
            };
            let left = |name| guaranteed.get(name) - used.get(name) - nominated.get(name);
            guaranteed.entries().map(|(name, _)| (name, left(name))).collect()
        });
        let preemptor_has_own = self.facts[self.preemptor.queue].guaranteed.is_some();
        let is_above_preemptor =
            queue != self.preemptor.queue && self.path(self.preemptor.queue).contains(&queue);
        match (own, above) {
            (None, above) => above,
            (Some(own), above) if queue == self.preemptor.queue => {
                let above = above.unwrap_or_default();
                let lacks = |(name, _): &&(Name, i64)| own.iter().all(|(known, _)| known != name);
                Some(own.iter().copied().chain(above.iter().filter(lacks).copied()).collect())
            }
            (Some(_), _) if is_above_preemptor && facts.parent.is_some() && preemptor_has_own => {
                None
            }
            (Some(own), None) => Some(own),
            (Some(mut own), Some(above)) => {
                for (name, left) in above {
                    match own.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, own)) => *own = (*own).min(left),
                        None => own.push((name, left)),
                    }
                }
                Some(own)
            }
        }
    }

    fn fence(&self) -> usize {
        let path = self.path(self.preemptor.queue);
        for at in (1..path.len()).rev() {
            let facts = &self.facts[path[at]];
            let allocated = facts.allocated.plus(&self.ask);
            let bears = path[..=at].iter().all(|above| {
                let facts = &self.facts[*above];
                let mut limits = facts.max.iter().chain(&facts.capacity);
                limits.all(|max| max.entries().all(|(name, max)| allocated.get(name) <= max))
            });
            if facts.settings.preemption == PreemptionPolicy::Fence || !bears {
                return path[at];
            }
        }
        path[0]
    }

    fn seen(&self, from: usize, below: usize, priority: i32) -> i64 {
        let mut seen = i64::from(priority);
        let mut at = from;
        while at != below {
            let settings = &self.facts[at].settings;
            let offset = i64::from(settings.priority_offset);
            seen = match settings.priority_policy {
                PriorityPolicy::Default => seen + offset,
                PriorityPolicy::Fence => offset,
            };
            at = self.facts[at].parent.unwrap();
        }
        seen
    }

    fn shared(&self, leaf: usize) -> usize {
        let preemptor = self.path(self.preemptor.queue);
        let of = self.path(leaf);
        of.into_iter().zip(preemptor).take_while(|(a, b)| a == b).last().unwrap().0
    }

    /// Returns the priority as seen by the queue that the allocation shares with the preemptor.
    fn importance(&self, it: &Allocation) -> i64 {
        let leaf = self.leaf(it);
        self.seen(leaf, self.shared(leaf), it.spec.priority)
    }

    fn may_be_candidate(&self, it: &Allocation) -> bool {
        let leaf = self.leaf(it);
        let fence = self.fence();
        let is_barred = self.cluster.applications[it.application.index()].1.is_barred;
        let is_own = fence == self.preemptor.queue || leaf == self.preemptor.queue;
        if is_own || is_barred || !may_be_taken(it) {
            return false;
        }
        let left = self.remaining(leaf, &[], &[]);
        let is_within = left.is_some_and(|left| left.iter().all(|(_, left)| *left >= 0));
        let shared = self.shared(leaf);
        self.path(leaf).contains(&fence)
            && self.facts[leaf].settings.preemption != PreemptionPolicy::Disabled
            && !is_within
            && self.importance(it)
                <= self.seen(self.preemptor.queue, shared, self.preemptor.priority)
    }

    /// Whether the gang needs the allocation once this many of its members are evicted.
    fn is_short(&self, it: &Allocation, gone: usize) -> bool {
        let is_mate = |mate: &Allocation| {
            mate.application == it.application
                && mate.leaving.is_none()
                && !mate.is_hold()
                && mate.spec.member_of().is_some()
        };
        let real = self.cluster.table.iter().filter(|(_, mate)| is_mate(mate)).count();
        let groups = &self.cluster.applications[it.application.index()].1.groups;
        let min_members = groups.first().map_or(0, |(_, min_members)| *min_members);
        !it.is_hold() && it.spec.member_of().is_some() && real - gone <= min_members as usize
    }

    /// Returns all candidates, in order.
    fn in_order(&self) -> &[AllocationId] {
        self.order.get_or_init(|| self.sorted())
    }

    fn sorted(&self) -> Vec<AllocationId> {
        let mut all: Vec<_> =
            self.cluster.table.iter().filter(|(_, it)| self.may_be_candidate(it)).collect();
        all.sort_by_key(|(_, it)| {
            let kind = if it.spec.placeholder { 0 } else { 1 + u8::from(self.is_short(it, 0)) };
            let opted_out = !it.spec.preemption.of_itself();
            let class =
                if it.is_hold() { None } else { Some((opted_out, it.spec.originator, kind)) };
            let age = std::cmp::Reverse(it.created_ns);
            (class, self.importance(it), age, it.uuid.clone())
        });
        all.into_iter().map(|(id, _)| id).collect()
    }

    /// Returns the candidates as units; an application whose allocations are preempted together is
    /// one unit.
    fn candidates(&self) -> Vec<Vec<AllocationId>> {
        let all: Vec<_> = self.in_order().iter().map(|id| (*id, self.get(*id))).collect();
        let mut units: Vec<Vec<AllocationId>> = Vec::new();
        for (id, it) in &all {
            let application = &self.cluster.applications[it.application.index()].1;
            if !application.goes_as_one {
                if it.resources().entries().any(|(name, n)| n > 0 && self.ask.get(name) > 0) {
                    units.push(vec![*id]);
                }
                continue;
            }
            let mates =
                self.cluster.table.iter().filter(|(_, mate)| {
                    mate.application == it.application && mate.leaving.is_none()
                });
            let together: Vec<_> =
                all.iter().filter(|(_, mate)| mate.application == it.application).collect();
            if mates.count() == together.len() && together[0].0 == *id {
                units.push(together.iter().map(|(id, _)| *id).collect());
            }
        }
        units
    }

    /// Whether these allocations may be evicted, one after another.
    pub(super) fn allow(&self, set: &[AllocationId]) -> bool {
        for (at, id) in set.iter().enumerate() {
            let (before, after) = (&set[..at], &set[..=at]);
            let it = self.get(*id);
            let leaf = self.leaf(it);
            let left = self.remaining(leaf, before, before);
            let is_above = left.is_none_or(|left| {
                left.iter().any(|(name, left)| *left < 0 && self.ask.get(*name) > 0)
            });
            let shared = self.shared(leaf);
            let path = self.path(leaf);
            let below = path.iter().skip_while(|queue| **queue != shared).skip(1);
            let keeps = below.clone().all(|queue| {
                let guaranteed = self.facts[*queue].guaranteed.clone().unwrap_or_default();
                let used = self.used(*queue, after, before);
                it.resources().entries().all(|(name, _)| {
                    guaranteed.find(name).is_none_or(|guaranteed| used.get(name) >= guaranteed)
                })
            });
            let room = self.remaining(self.preemptor.queue, after, before).unwrap_or_default();
            let fits = room.iter().all(|(name, left)| {
                let size = it.resources().get(*name);
                size == 0 || size <= *left
            });
            if !is_above || !keeps || !fits {
                return false;
            }
        }
        self.cluster.applications.iter().enumerate().all(|(at, (_, application))| {
            let of = |id: &&AllocationId| {
                let it = self.get(**id);
                it.application.index() == at && !it.is_hold() && !it.spec.placeholder
            };
            application.allowance.is_none_or(|most| set.iter().filter(of).count() <= most as usize)
        })
    }

    /// Whether the ask can run on the node once these allocations are evicted.
    pub(super) fn lets_run(&self, set: &[AllocationId], node: usize) -> bool {
        let of = &self.cluster.nodes[node];
        if !of.is_open || matches!(of.claim, Claimed::ByOthers | Claimed::Nominated) {
            return false;
        }
        let slot = self.cluster.node_slot(&of.name);
        let mut room = self.cluster.available(slot);
        for id in set {
            let it = self.get(*id);
            if it.node == slot {
                room.add(it.resources());
            }
        }
        let bears = self.path(self.preemptor.queue).iter().all(|queue| {
            let used = self.used(*queue, set, &[]).plus(&self.facts[*queue].nominated);
            let max = self.facts[*queue].max.as_ref();
            max.is_none_or(|max| {
                self.ask.entries().all(|(name, wanted)| {
                    max.find(name).is_none_or(|max| used.get(name) + wanted <= max)
                })
            })
        });
        of.total.holds(&self.ask) && room.holds(&self.ask) && bears
    }

    fn has_guarantee(&self) -> bool {
        let left = |gone: &[AllocationId]| self.remaining(self.preemptor.queue, gone, &[]);
        let fits = |left: &Remaining, zero: bool| {
            left.as_ref().is_some_and(|left| {
                left.iter().all(|(name, left)| {
                    let wanted = self.ask.get(*name);
                    wanted == 0 || if zero { *left - wanted >= 0 } else { wanted <= *left }
                })
            })
        };
        let all: Vec<_> = self.candidates().concat();
        fits(&left(&[]), false) || fits(&left(&all), true)
    }

    pub(super) fn cost(&self, set: &[AllocationId]) -> Cost {
        let of = set.iter().map(|id| self.get(*id)).filter(|it| !it.is_hold());
        let class = of.clone().fold(0, |class, it| {
            let opted_out = if it.spec.preemption.of_itself() { 0 } else { 1_u64 << 34 };
            let originator = if it.spec.originator { 1 << 33 } else { 0 };
            class | opted_out | originator
        });
        let class = set.iter().fold(class, |class, id| {
            let it = self.get(*id);
            let before = set.iter().map(|id| self.get(*id)).filter(|mate| {
                mate.application == it.application
                    && !mate.is_hold()
                    && mate.spec.member_of().is_some()
            });
            let before = before.count().saturating_sub(1);
            class | if self.is_short(it, before) { 1 << 31 } else { 0 }
        });
        let importance = |is_hold: bool| {
            let of = set.iter().map(|id| self.get(*id)).filter(|it| it.is_hold() == is_hold);
            (of.clone().map(|it| self.importance(it)).max().unwrap_or(i64::MIN), of.count())
        };
        let (priority, count) = importance(false);
        let first = self.in_order().iter().position(|id| set.contains(id));
        (class, priority, count, importance(true), first.unwrap_or(usize::MAX))
    }

    /// Returns the number of units, each of which may be chosen or not.
    pub(super) fn n_choices(&self) -> usize {
        self.candidates().len()
    }

    /// Returns the least cost of any allowed set that lets the ask run.
    pub(super) fn optimum(&self) -> Option<Cost> {
        if !self.has_guarantee() {
            return None;
        }
        let units = self.candidates();
        let mut best = None;
        for mask in 1..1_u32 << units.len() {
            let chosen = units.iter().enumerate().filter(|(at, _)| mask & (1 << at) != 0);
            let set: Vec<_> = chosen.flat_map(|(_, unit)| unit.iter().copied()).collect();
            let cost = self.cost(&set);
            if best.is_some_and(|best| best <= cost) {
                continue;
            }
            let runs = (0..self.cluster.nodes.len()).any(|node| self.lets_run(&set, node));
            if runs && self.allow(&set) {
                best = Some(cost);
            }
        }
        best
    }

    fn runs_already(&self) -> bool {
        (0..self.cluster.nodes.len()).any(|node| self.lets_run(&[], node))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_is_as_good_as_the_best_of_all_sets(random in cluster()) {
        let (cluster, preemptor) = built(&random);
        let laws = Laws::new(&cluster, &preemptor);
        if laws.runs_already() {
            return Ok(());
        }
        let found = cluster.plan(preemptor.clone());
        let best = laws.optimum();
        let shown = cluster.shown(&found);
        match (&found, best) {
            (Err(_), None) => {}
            (Ok(plan), Some(best)) => {
                let all: Vec<_> = plan.holds.iter().chain(&plan.victims).copied().collect();
                prop_assert_eq!(laws.cost(&all), best, "{} at {}", shown, NOW);
            }
            _ => prop_assert!(false, "{shown} instead of {best:?}"),
        }
    }

    #[test]
    fn whoever_goes_is_allowed_to_and_nobody_goes_in_vain(random in cluster()) {
        let (cluster, preemptor) = built(&random);
        let laws = Laws::new(&cluster, &preemptor);
        let Ok(plan) = cluster.plan(preemptor.clone()) else { return Ok(()) };
        let place = &plan.places[0];
        let order = &place.order;
        prop_assert!(laws.allow(order), "{}", cluster.shown(&Ok(plan.clone())));
        prop_assert!(laws.lets_run(order, place.node.index()));
        for spared in order {
            let application = laws.get(*spared).application;
            let goes_as_one = cluster.applications[application.index()].1.goes_as_one;
            let fewer: Vec<_> = order
                .iter()
                .copied()
                .filter(|id| {
                    let it = laws.get(*id);
                    id != spared && !(goes_as_one && it.application == application)
                })
                .collect();
            let still = laws.lets_run(&fewer, place.node.index()) && laws.allow(&fewer);
            prop_assert!(!still, "{} could be spared", cluster.names_of(&[*spared]));
        }
    }
}
