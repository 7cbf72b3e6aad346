//! Tests victims for daemons.

use std::sync::Arc;

use proptest::prelude::*;

use super::cluster::{Cluster, vcore};
use crate::allocations::Allocation;
use crate::decide::preemption::Answer;
use crate::decide::preemption::required_node::{OnNode, RequiredNode, RequiredPlan, plan};
use crate::specs::ask::AskSpec;
use crate::values::ids::{AllocationId, NodeSlot};
use crate::values::resources::Resources;

fn daemon(size: i64) -> AskSpec {
    AskSpec::new("daemon", vcore(size)).with(|it| it.required_node = Some(Arc::from("n1")))
}

fn on_node(cluster: &Cluster) -> Vec<OnNode<'_>> {
    let here = cluster.table.iter().filter(|(_, it)| it.node == NodeSlot::at(0));
    here.map(|(id, it)| {
        let application = &cluster.applications[it.application.index()].1;
        let mates = cluster.table.iter().filter(|(mate, other)| {
            application.goes_as_one
                && *mate != id
                && other.application == it.application
                && other.leaving.is_none()
        });
        OnNode { mates: mates.collect(), ..OnNode::single(id, it) }
    })
    .collect()
}

fn planned(cluster: &Cluster, ask: &AskSpec) -> Option<RequiredPlan> {
    on_first(cluster, &|_| true, |node| plan(ask, node))
}

/// Calls a function with the first node.
fn on_first<T>(
    cluster: &Cluster,
    suits: &dyn Fn(&[AllocationId]) -> bool,
    look: impl FnOnce(&RequiredNode<'_>) -> T,
) -> T {
    let (available, holds) = (cluster.available(NodeSlot::at(0)), on_node(cluster));
    look(&RequiredNode { available: &available, holds: &holds, suits, now_ns: 0 })
}

fn shown(cluster: &Cluster, ask: &AskSpec) -> String {
    let found = planned(cluster, ask);
    found.map_or("nobody".to_owned(), |plan| cluster.names_of(&plan.victims))
}

fn full(names: &[(&str, i64)]) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node("n1", names.iter().map(|(_, size)| size).sum());
    for (name, size) in names {
        cluster.runs(name, "root.a", "n1", *size);
    }
    cluster
}

#[test]
fn on_a_full_node_a_daemon_takes_what_it_needs() {
    let mut cluster = full(&[("older", 1), ("newer", 1)]);
    assert_eq!(shown(&cluster, &daemon(1)), "newer");
    assert_eq!(shown(&cluster, &daemon(2)), "newer older");
    cluster.nodes[0].total = vcore(3);
    assert_eq!(shown(&cluster, &daemon(1)), "nobody", "there is room");
    assert_eq!(shown(&cluster, &daemon(2)), "newer", "what is free counts");
}

#[test]
fn nobody_more_important_goes_for_a_daemon() {
    let mut cluster = full(&[("a", 1), ("b", 1)]);
    cluster.priority("a", 10);
    cluster.priority("b", 10);
    assert_eq!(shown(&cluster, &daemon(1)), "nobody");
    cluster.priority("b", 0);
    assert_eq!(shown(&cluster, &daemon(1)), "b");
    assert_eq!(shown(&cluster, &daemon(2)), "nobody", "one is not enough");
}

#[test]
fn ordinary_ones_go_first_then_who_opted_out_then_first_tasks() {
    let mut cluster = full(&[("normal", 1), ("opted", 1), ("first", 1)]);
    cluster.opts_out("opted");
    cluster.is_originator("first");
    assert_eq!(shown(&cluster, &daemon(1)), "normal");
    assert_eq!(shown(&cluster, &daemon(2)), "normal opted");
    assert_eq!(shown(&cluster, &daemon(3)), "normal opted first");
}

#[test]
fn the_least_important_goes_first_then_the_newest_then_the_smallest() {
    let mut cluster = full(&[("low", 1), ("old", 1), ("new", 1)]);
    cluster.priority("low", -1);
    assert_eq!(shown(&cluster, &daemon(1)), "low");
    assert_eq!(shown(&cluster, &daemon(2)), "low new");
    let mut cluster = full(&[("large", 2), ("small", 1)]);
    let created_ns = cluster.table.get(cluster.names["large"]).unwrap().created_ns;
    cluster.change("small", |it| it.created_ns = created_ns);
    assert_eq!(shown(&cluster, &daemon(1)), "small");
    assert_eq!(shown(&cluster, &daemon(2)), "large", "the small one is spared");
}

#[test]
fn victims_without_what_the_daemon_lacks_do_not_go() {
    let cluster = full(&[("a", 1)]);
    let gpu = AskSpec { resources: Arc::new(Resources::of(&[("gpu", 1)])), ..daemon(0) };
    assert_eq!(shown(&cluster, &gpu), "nobody");
}

#[test]
fn other_daemons_and_those_who_leave_stay() {
    let mut cluster = full(&[("a", 1), ("b", 1)]);
    cluster.spec("a", |spec| spec.particulars.make().required_node = Some(Arc::from("n1")));
    cluster.is_being_preempted("b");
    assert_eq!(shown(&cluster, &daemon(1)), "nobody");
}

#[test]
fn an_application_that_goes_as_one_goes_from_all_nodes() {
    let mut cluster = full(&[("here", 1)]);
    cluster.node("n2", 1);
    cluster.runs("there", "root.a", "n2", 1);
    cluster.application("root.a", "root.a").goes_as_one = true;
    let plan = planned(&cluster, &daemon(1)).unwrap();
    assert_eq!(cluster.names_of(&plan.victims), "here");
    assert_eq!(cluster.names_of(&plan.elsewhere), "there");
    cluster.priority("there", 1);
    assert_eq!(shown(&cluster, &daemon(1)), "nobody");
}

#[test]
fn the_rm_may_want_more_gone_and_may_refuse() {
    let cluster = full(&[("a", 1), ("b", 1), ("c", 1)]);
    let plan = planned(&cluster, &daemon(1)).unwrap();
    let (list, start) = plan.question();
    assert_eq!((&*cluster.names_of(&list), start), ("c b a", 0));
    assert_eq!(plan.answered(Answer::Refused), None);
    assert_eq!(plan.answered(Answer::Fits(3)), None);
    assert_eq!(plan.answered(Answer::Fits(-1)), None);
    let more = plan.answered(Answer::Fits(1)).unwrap();
    assert_eq!(cluster.names_of(&more.victims), "c b");
}

#[test]
fn a_plan_is_tested_again() {
    let mut cluster = full(&[("a", 1), ("b", 1), ("c", 1)]);
    let ask = daemon(2);
    let plan = planned(&cluster, &ask).unwrap();
    let [as_planned, more] = [1, 2].map(|index| plan.answered(Answer::Fits(index)).unwrap());
    let check = |cluster: &Cluster, plan: &RequiredPlan| {
        let again = on_first(cluster, &|_| true, |node| plan.recheck(&ask, node));
        again.map_or("nobody".to_owned(), |plan| cluster.names_of(&plan.victims))
    };
    assert_eq!(check(&cluster, &as_planned), "c b");
    assert_eq!(check(&cluster, &more), "c b a");
    cluster.nodes[0].total = vcore(4);
    assert_eq!(check(&cluster, &as_planned), "c", "the last one is not needed any more");
    assert_eq!(check(&cluster, &more), "c b a", "the RM wanted more gone than was needed");
    cluster.nodes[0].total = vcore(5);
    assert_eq!(check(&cluster, &as_planned), "nobody", "there is room");
    cluster.nodes[0].total = vcore(3);
    cluster.is_being_preempted("c");
    assert_eq!(check(&cluster, &as_planned), "nobody", "the rest is not enough");
    assert_eq!(check(&cluster, &more), "b a", "who cannot go any more is left out");
}

#[test]
fn what_goes_together_is_spared_together() {
    let mut cluster = full(&[("a", 1), ("b", 1)]);
    cluster.nodes[0].total = vcore(4);
    cluster.runs("c", "root.c", "n1", 2);
    let ask = daemon(4);
    cluster.application("root.a", "root.a").goes_as_one = true;
    let plan = planned(&cluster, &ask).unwrap().answered(Answer::Fits(2)).unwrap();
    let victims = |cluster: &Cluster| {
        let again = on_first(cluster, &|_| true, |node| plan.recheck(&ask, node)).unwrap();
        cluster.names_of(&again.victims)
    };
    assert_eq!(victims(&cluster), "c b a");
    cluster.nodes[0].total = vcore(5);
    assert_eq!(victims(&cluster), "c b a", "neither of both without the other");
}

#[test]
fn the_rm_is_not_told_of_places_that_are_held() {
    let mut cluster = full(&[("held", 1), ("work", 1)]);
    cluster.spec("held", |spec| spec.form = crate::specs::ask::Form::Internal);
    let plan = planned(&cluster, &daemon(1)).unwrap();
    assert_eq!((&*cluster.names_of(&plan.holds), plan.victims.len()), ("held", 0));
    assert_eq!(plan.question(), (Vec::new(), -1));
    assert_eq!(plan.answered(Answer::Fits(-1)).unwrap().holds, plan.holds);
    assert_eq!(plan.answered(Answer::Fits(0)), None);
}

#[test]
fn who_must_not_be_beside_a_daemon_goes() {
    let mut cluster = full(&[("enemy", 1), ("other", 1)]);
    let enemy = cluster.names["enemy"];
    let suits = |gone: &[AllocationId]| gone.contains(&enemy);
    let victims = |cluster: &Cluster, size| {
        let found = on_first(cluster, &suits, |node| plan(&daemon(size), node));
        found.map_or("nobody".to_owned(), |plan| cluster.names_of(&plan.victims))
    };
    assert_eq!(victims(&cluster, 1), "enemy");
    assert_eq!(victims(&cluster, 2), "other enemy");
    cluster.nodes[0].total = vcore(9);
    assert_eq!(victims(&cluster, 1), "enemy", "even where there is room");
    cluster.priority("enemy", 1);
    assert_eq!(victims(&cluster, 1), "nobody");
}

/// An allocation on the node of a daemon: its size and priority, whether it asked not to be
/// preempted, and whether it is a first task.
type RandomRun = (i64, i32, bool, bool);

/// Returns the kind and priority of the most important allocation.
fn importance(cluster: &Cluster, set: &[AllocationId]) -> Option<(u8, i32)> {
    let of = set.iter().map(|id| cluster.table.get(*id).unwrap());
    let kind = |it: &Allocation| {
        2 * u8::from(it.spec.originator) + u8::from(!it.spec.preemption.of_itself())
    };
    of.map(|it| (kind(it), it.spec.priority)).max()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// The most important victim of the chosen set is no more important than that of any other set
    /// that is enough, and none of the chosen victims can be spared.
    #[test]
    fn a_daemon_takes_from_the_least_important(
        runs in prop::collection::vec((1..4_i64, -2..=2_i32, any::<bool>(), any::<bool>()), 1..8),
        size in 1..8_i64,
        priority in 0..=2_i32,
    ) {
        let runs: Vec<RandomRun> = runs;
        let names: Vec<String> = (0..runs.len()).map(|at| format!("r{at}")).collect();
        let sizes: Vec<(&str, i64)> =
            names.iter().zip(&runs).map(|(name, run)| (&**name, run.0)).collect();
        let mut cluster = full(&sizes);
        for (name, (_, priority, opts_out, is_first)) in names.iter().zip(&runs) {
            cluster.priority(name, *priority);
            if *opts_out {
                cluster.opts_out(name);
            }
            if *is_first {
                cluster.is_originator(name);
            }
        }
        let ask = AskSpec { priority, ..daemon(size) };
        let may_go = names.iter().zip(&runs).filter(|(_, run)| run.1 <= priority);
        let may_go: Vec<AllocationId> = may_go.map(|(name, _)| cluster.names[name]).collect();
        let frees = |set: &[AllocationId]| -> i64 {
            let sizes = set.iter().map(|id| cluster.table.get(*id).unwrap().resources());
            sizes.map(|it| it.entries().map(|(_, n)| n).sum::<i64>()).sum()
        };
        let sets = (1..1_u32 << may_go.len()).map(|mask| -> Vec<AllocationId> {
            let chosen = may_go.iter().enumerate().filter(|(at, _)| mask & (1 << at) != 0);
            chosen.map(|(_, id)| *id).collect()
        });
        let best = sets.filter(|set| frees(set) >= size).map(|set| importance(&cluster, &set)).min();
        let plan = planned(&cluster, &ask);
        let found = plan.as_ref().map(|plan| importance(&cluster, &plan.victims));
        prop_assert_eq!(found, best);
        for spared in plan.iter().flat_map(|plan| &plan.victims) {
            let victims = plan.iter().flat_map(|plan| &plan.victims);
            let fewer: Vec<AllocationId> = victims.copied().filter(|id| id != spared).collect();
            prop_assert!(frees(&fewer) < size, "one could be spared");
        }
    }
}
