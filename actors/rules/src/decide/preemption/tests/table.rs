//! The cases that people ask about first, one by one.

use super::cluster::{Cluster, vcore};
use crate::decide::preemption::*;
use crate::order::keys::PriorityPolicy;
use crate::queues::PreemptionPolicy;
use crate::values::resources::{Limits, Resources};

/// Two siblings that are guaranteed 5 each; the first uses all 10 of the only node.
fn siblings() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.q1", 5);
    cluster.guarantees("root.q2", 5);
    cluster.node("n1", 10);
    cluster.runs("older", "root.q1", "n1", 5);
    cluster.runs("newer", "root.q1", "n1", 5);
    cluster
}

#[test]
fn the_newer_allocation_of_a_sibling_above_its_guarantee_goes() {
    let mut cluster = siblings();
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask.clone()), "n1: newer");
    cluster.is_being_preempted("newer");
    assert_eq!(cluster.planned(ask), "NoCandidates", "the sibling has no more than its guarantee");
}

#[test]
fn the_worked_example_of_a_parent_with_a_guarantee() {
    let mut cluster = Cluster::new();
    let parent = cluster.guarantees("root.parent", 10);
    parent.max = Some(Limits::of(&[("vcore", 20)]));
    cluster.guarantees("root.parent.child1", 5);
    cluster.guarantees("root.parent.child2", 5);
    cluster.node("n1", 5);
    cluster.node("n2", 5);
    cluster.runs("a1", "root.parent.child1", "n1", 5);
    cluster.runs("a2", "root.parent.child1", "n2", 5);
    let ask = cluster.ask("root.parent.child2", 5);
    assert_eq!(cluster.planned(ask.clone()), "n1: a1", "the first node by id");
    cluster.ends("a1");
    cluster.runs("mine", "root.parent.child2", "n1", 5);
    assert_eq!(cluster.planned(ask), "BeyondGuarantee", "a second one is not guaranteed");
}

#[test]
fn without_any_guarantee_nothing_is_taken() {
    let mut cluster = siblings();
    cluster.queue("root.q1").guaranteed = None;
    cluster.queue("root.q2").guaranteed = None;
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask), "NoGuarantee");
}

#[test]
fn a_guarantee_that_is_shared_with_the_sibling_takes_nothing_from_it() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.p", 10);
    cluster.node("n1", 10);
    cluster.runs("a", "root.p.one", "n1", 5);
    cluster.runs("b", "root.p.one", "n1", 5);
    let ask = cluster.ask("root.p.two", 5);
    assert_eq!(cluster.planned(ask), "BeyondGuarantee");
    // Nor where the parent uses more than its guarantee.
    cluster.guarantees("root.p", 9);
    let ask = cluster.ask("root.p.two", 5);
    assert_eq!(cluster.planned(ask), "NoNode");
}

#[test]
fn a_leaf_with_a_guarantee_takes_from_a_sibling_without_one() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.p", 10);
    cluster.guarantees("root.p.mine", 1);
    cluster.node("n1", 2);
    cluster.runs("a", "root.p.other", "n1", 1);
    cluster.runs("b", "root.p.other", "n1", 1);
    let ask = cluster.ask("root.p.mine", 1);
    assert_eq!(cluster.planned(ask), "n1: b");
}

#[test]
fn an_ask_that_does_not_fit_the_unused_guarantee_takes_nothing() {
    let mut cluster = siblings();
    cluster.node("n2", 4);
    cluster.runs("mine", "root.q2", "n2", 4);
    let ask = cluster.ask("root.q2", 2);
    assert_eq!(cluster.planned(ask), "BeyondGuarantee");
}

#[test]
fn nothing_is_taken_that_would_leave_a_queue_below_its_guarantee() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.q1", 5);
    cluster.guarantees("root.q2", 5);
    cluster.node("n1", 6);
    cluster.runs("six", "root.q1", "n1", 6);
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask), "NoNode");
}

#[test]
fn an_ask_that_is_larger_than_every_node_takes_nothing() {
    let mut cluster = siblings();
    cluster.guarantees("root.q2", 50);
    cluster.node("n2", 10).is_open = false;
    let ask = cluster.ask("root.q2", 11);
    assert_eq!(cluster.planned(ask), "NoNode");
}

/// A node of which victims hold 4, and an ask for 5.
fn nearly_enough(total: i64) -> String {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.q2", 10);
    cluster.node("n1", total);
    cluster.node("n2", 5).is_open = false;
    cluster.runs("a", "root.q1", "n1", 2);
    cluster.runs("b", "root.q1", "n1", 2);
    let ask = cluster.ask("root.q2", 5);
    cluster.planned(ask)
}

#[test]
fn what_is_free_on_the_node_counts() {
    assert_eq!(nearly_enough(5), "n1: b a");
    assert_eq!(nearly_enough(4), "NoNode", "nobody is touched in vain");
    assert_eq!(nearly_enough(6), "n1: b a");
    assert_eq!(nearly_enough(7), "n1: b", "one is enough");
}

#[test]
fn one_large_victim_is_better_than_a_small_one_that_does_not_help_enough() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.q2", 5);
    cluster.node("n1", 6);
    cluster.runs("five", "root.q1", "n1", 5);
    cluster.runs("one", "root.q1", "n1", 1);
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask), "n1: five");
}

#[test]
fn one_victim_is_better_than_five() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.q2", 5);
    cluster.node("n1", 10);
    cluster.runs("five", "root.q1", "n1", 5);
    for name in ["a", "b", "c", "d", "e"] {
        cluster.runs(name, "root.q1", "n1", 1);
    }
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask), "n1: five");
}

#[test]
fn a_reservation_that_gives_way_does_not_keep_the_node() {
    assert!(gives_way(false, false, 0, 0), "an equal ask");
    assert!(!gives_way(true, false, 0, 0), "an ask that requires the node");
    assert!(!gives_way(false, true, 0, 0), "victims leave for it");
    assert!(!gives_way(false, false, 1, 0), "a more important ask");
    let mut cluster = siblings();
    cluster.nodes[0].claim = Claimed::GivesWay;
    let ask = cluster.ask("root.q2", 5);
    let plan = cluster.plan(ask.clone()).unwrap();
    assert!(plan.places[0].cancels);
    cluster.nodes[0].claim = Claimed::ByOthers;
    assert_eq!(cluster.planned(ask), "NoNode");
}

#[test]
fn a_node_that_takes_nothing_new_is_left_alone() {
    let mut cluster = siblings();
    cluster.nodes[0].is_open = false;
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask), "NoNode");
}

#[test]
fn all_victims_that_are_needed_in_some_resource_go_or_none() {
    let amount = |vcore, memory| Resources::of(&[("vcore", vcore), ("memory", memory)]);
    let planned = |n: i64| {
        let mut cluster = Cluster::new();
        cluster.queue("root.q2").guaranteed = Some(amount(8, 8));
        cluster.node_of("n1", amount(2 * n, n));
        cluster.node_of("n2", amount(8, 8)).is_open = false;
        cluster.application("app", "root.q1");
        for name in ["a", "b", "c", "d"].into_iter().take(usize::try_from(n).unwrap()) {
            cluster.runs_of(name, "app", "n1", amount(2, 1));
        }
        let ask = cluster.ask_of("root.q2", amount(1, 4));
        cluster.planned(ask)
    };
    assert_eq!(planned(4), "n1: d c b a");
    assert_eq!(planned(3), "NoNode");
}

#[test]
fn where_a_queue_has_too_little_room_victims_may_be_anywhere() {
    let mut cluster = Cluster::new();
    cluster.queue("root.p").max = Some(Limits::of(&[("vcore", 15)]));
    cluster.guarantees("root.p.q2", 10);
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n3")] {
        cluster.node(node, 20);
        cluster.runs(name, "root.p.q1", node, 5);
    }
    let ask = cluster.ask("root.p.q2", 10);
    assert_eq!(cluster.planned(ask), "n1: c b");
}

#[test]
fn where_node_and_queue_have_too_little_room_both_get_it() {
    let mut cluster = Cluster::new();
    cluster.queue("root.p").max = Some(Limits::of(&[("vcore", 10)]));
    cluster.guarantees("root.p.q2", 10);
    cluster.node("n1", 5);
    cluster.node("n2", 8);
    cluster.runs("small", "root.p.q1", "n1", 2);
    cluster.runs("large", "root.p.q1", "n2", 8);
    let ask = cluster.ask("root.p.q2", 5);
    assert_eq!(cluster.planned(ask.clone()), "n2: large");
    cluster.nodes[1].is_open = false;
    assert_eq!(cluster.planned(ask), "n1: large small");
}

#[test]
fn a_fence_keeps_preemption_below_it() {
    let with_fence = |path: &str| {
        let mut cluster = Cluster::new();
        cluster.guarantees("root.p.mine", 5);
        cluster.queue("root.p");
        cluster.node("n1", 10);
        cluster.runs("inside", "root.p.other", "n1", 5);
        cluster.runs("outside", "root.q", "n1", 5);
        cluster.queue(path).settings.preemption = PreemptionPolicy::Fence;
        let ask = cluster.ask("root.p.mine", 5);
        cluster.planned(ask)
    };
    assert_eq!(with_fence("root.p.mine"), "AtItsFence { queue: \"root.p.mine\" }");
    assert_eq!(with_fence("root.p"), "n1: inside");
    assert_eq!(with_fence("root"), "n1: outside", "the newer of both");
}

#[test]
fn a_leaf_at_its_maximum_takes_nothing() {
    let mut cluster = siblings();
    cluster.queue("root.q2").max = Some(Limits::of(&[("vcore", 4)]));
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask), "AtItsFence { queue: \"root.q2\" }");
}

#[test]
fn a_disabled_leaf_loses_nothing_and_may_take() {
    let mut cluster = siblings();
    cluster.queue("root.q1").settings.preemption = PreemptionPolicy::Disabled;
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask), "NoCandidates");
    cluster.queue("root.q1").settings.preemption = PreemptionPolicy::Default;
    cluster.queue("root.q2").settings.preemption = PreemptionPolicy::Disabled;
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask), "n1: newer");
}

#[test]
fn a_victim_of_a_higher_priority_is_spared() {
    let mut cluster = siblings();
    cluster.priority("newer", 1);
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask.clone()), "n1: older");
    cluster.priority("older", 1);
    assert_eq!(cluster.planned(ask.clone()), "NoCandidates");
    assert_eq!(cluster.planned(Asker { priority: 1, ..ask }), "n1: newer");
}

/// Three queues that are guaranteed 6 each, of which the middle one uses all 18.
fn three_ranks() -> Cluster {
    let mut cluster = Cluster::new();
    for (path, offset) in [("root.high", 100), ("root.norm", 0), ("root.low", -100)] {
        cluster.guarantees(path, 6).settings.priority_offset = offset;
    }
    cluster.node("n1", 18);
    for at in 0..9 {
        cluster.runs(&format!("t{at}"), "root.norm", "n1", 2);
    }
    cluster
}

#[test]
fn a_queue_of_a_higher_rank_takes_until_its_guarantee_and_a_lower_one_nothing() {
    let mut cluster = three_ranks();
    let low = cluster.ask("root.low", 2);
    assert_eq!(cluster.planned(low), "NoCandidates");
    for taken in ["t8", "t7", "t6"] {
        let high = cluster.ask("root.high", 2);
        assert_eq!(cluster.planned(high), format!("n1: {taken}"));
        cluster.ends(taken);
        cluster.runs(&format!("h{taken}"), "root.high", "n1", 2);
    }
    let high = cluster.ask("root.high", 2);
    assert_eq!(cluster.planned(high), "BeyondGuarantee");
}

#[test]
fn offsets_above_both_play_no_part() {
    let mut cluster = Cluster::new();
    cluster.queue("root.p").settings.priority_offset = 100;
    cluster.guarantees("root.p.a", 5);
    cluster.node("n1", 5);
    cluster.runs("important", "root.p.b", "n1", 5);
    cluster.priority("important", 50);
    let ask = cluster.ask("root.p.a", 5);
    assert_eq!(cluster.planned(ask), "NoCandidates");
}

#[test]
fn behind_a_priority_fence_only_its_offset_is_seen() {
    let mut cluster = siblings();
    cluster.priority("newer", 1000);
    let queue = cluster.queue("root.q1");
    queue.settings.priority_policy = PriorityPolicy::Fence;
    let ask = Asker { priority: 5, ..cluster.ask("root.q2", 5) };
    assert_eq!(cluster.planned(ask.clone()), "n1: newer");
    cluster.queue("root.q1").settings.priority_offset = 6;
    assert_eq!(cluster.planned(ask), "NoCandidates");
}

#[test]
fn who_asked_not_to_be_preempted_goes_last_and_goes() {
    let mut cluster = siblings();
    cluster.opts_out("newer");
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask.clone()), "n1: older");
    cluster.opts_out("older");
    assert_eq!(cluster.planned(ask), "n1: newer");
}

#[test]
fn a_node_without_a_first_task_is_better() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.q2", 5);
    cluster.node("n1", 5);
    cluster.node("n2", 5);
    cluster.runs("first", "root.q1", "n1", 5);
    cluster.runs("small", "root.q1", "n2", 2);
    cluster.runs("other", "root.q1", "n2", 3);
    cluster.is_originator("first");
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask), "n2: other small");
}

#[test]
fn an_application_that_goes_as_one_loses_all_or_nothing() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.q2", 20);
    cluster.application("gang", "root.q1").goes_as_one = true;
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n3")] {
        cluster.node(node, 5);
        cluster.runs_of(name, "gang", node, vcore(5));
    }
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask.clone()), "n1: c b a");
    // One that may not go keeps all of them.
    cluster.priority("c", 1);
    assert_eq!(cluster.planned(ask.clone()), "NoCandidates");
    // One that leaves already does not.
    cluster.priority("c", 0);
    cluster.is_being_preempted("c");
    assert_eq!(cluster.planned(ask), "n1: b a");
}

#[test]
fn another_victim_is_better_than_an_application_that_goes_as_one() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.q2", 20);
    cluster.application("gang", "root.q1").goes_as_one = true;
    for (name, node) in [("a", "n1"), ("b", "n2")] {
        cluster.node(node, 5);
        cluster.runs_of(name, "gang", node, vcore(5));
    }
    cluster.node("n3", 5);
    cluster.runs("single", "root.q1", "n3", 5);
    let ask = cluster.ask("root.q2", 5);
    assert_eq!(cluster.planned(ask), "n3: single");
}
