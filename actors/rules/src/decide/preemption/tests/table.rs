//! Tests the most common cases, one by one.

use super::cluster::{Cluster, vcore};
use crate::allocations::Grounds;
use crate::decide::preemption::*;
use crate::queues::{PreemptionPolicy, PriorityPolicy};
use crate::values::resources::{Limits, Resources};

/// Two siblings with a guarantee of 5 each; the first uses all 10 of the only node.
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
    assert_eq!(cluster.planned(ask.clone()), "n2: a2", "the newer one");
    cluster.ends("a2");
    cluster.runs("mine", "root.parent.child2", "n2", 5);
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
    // The same holds if the parent uses more than its guarantee.
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

/// Plans for a node on which victims hold 4, and an ask for 5.
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
    assert_eq!(cluster.planned(Demand { priority: 1, ..ask }), "n1: newer");
}

/// Three queues with a guarantee of 6 each; the middle one uses all 18.
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
    let ask = Demand { priority: 5, ..cluster.ask("root.q2", 5) };
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
    // If one allocation may not be evicted, none of them may.
    cluster.priority("c", 1);
    assert_eq!(cluster.planned(ask.clone()), "NoCandidates");
    // An allocation that is already being released does not keep the others.
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

/// On one node of 10 there are an old allocation of low priority and a new one of a higher
/// priority.
#[test]
fn of_two_victims_on_a_node_the_less_important_goes_though_it_is_older() {
    let mut cluster = siblings();
    cluster.priority("newer", 100);
    let ask = Demand { priority: 1000, ..cluster.ask("root.q2", 5) };
    assert_eq!(cluster.planned(ask), "n1: older");
}

#[test]
fn of_two_nodes_the_one_with_the_less_important_victim_is_taken() {
    let planned = |priorities: [i32; 2]| {
        let mut cluster = Cluster::new();
        cluster.guarantees("root.q2", 10);
        for (name, node, priority) in [("a", "n1", priorities[0]), ("b", "n2", priorities[1])] {
            cluster.node(node, 5);
            cluster.runs(name, "root.q1", node, 5);
            cluster.priority(name, priority);
        }
        let ask = Demand { priority: 1000, ..cluster.ask("root.q2", 5) };
        cluster.planned(ask)
    };
    assert_eq!(planned([0, 100]), "n1: a");
    assert_eq!(planned([100, 0]), "n2: b");
    assert_eq!(planned([7, 7]), "n2: b", "of equal ones the newest goes");
}

#[test]
fn two_of_low_priority_go_before_one_of_a_higher() {
    let planned = |priority: i32, guaranteed: i64, is_one_node: bool| {
        let mut cluster = Cluster::new();
        cluster.guarantees("root.q2", guaranteed);
        cluster.node("n1", if is_one_node { 10 } else { 5 });
        cluster.node("n2", if is_one_node { 0 } else { 5 });
        cluster.runs("low1", "root.q1", "n1", 3);
        cluster.runs("low2", "root.q1", "n1", 2);
        cluster.runs("one", "root.q1", if is_one_node { "n1" } else { "n2" }, 5);
        cluster.priority("one", priority);
        let ask = Demand { priority: 1000, ..cluster.ask("root.q2", 5) };
        cluster.planned(ask)
    };
    for is_one_node in [true, false] {
        assert_eq!(planned(100, 5, is_one_node), "n1: low2 low1");
    }
    assert_eq!(planned(0, 5, true), "n1: one", "of equal ones the fewest go");
    assert_eq!(planned(0, 5, false), "n2: one");
}

/// No victim could have been spared: of two sets that are enough, the smaller one is chosen.
#[test]
fn nobody_goes_who_could_be_spared_however_unimportant() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.q2", 10);
    cluster.node("n1", 10);
    cluster.runs("low", "root.q1", "n1", 3);
    cluster.runs("high", "root.q1", "n1", 7);
    cluster.priority("high", 100);
    let ask = Demand { priority: 1000, ..cluster.ask("root.q2", 5) };
    assert_eq!(cluster.planned(ask), "n1: high", "without it there is no room");
}

/// The priority of a victim is that seen by the queue that it shares with the preemptor: its own
/// priority counts only up to its fence.
#[test]
fn a_victim_is_as_important_as_its_fence_lets_it_be() {
    let planned = |offset: i32, is_fence: bool| {
        let mut cluster = Cluster::new();
        cluster.guarantees("root.mine", 10);
        cluster.node("n1", 10);
        cluster.runs("inside", "root.team.leaf", "n1", 5);
        cluster.runs("outside", "root.other", "n1", 5);
        cluster.priority("inside", 500);
        cluster.priority("outside", 10);
        let team = cluster.queue("root.team");
        team.settings.priority_offset = offset;
        if is_fence {
            team.settings.priority_policy = PriorityPolicy::Fence;
        }
        let ask = Demand { priority: 1000, ..cluster.ask("root.mine", 5) };
        cluster.planned(ask)
    };
    assert_eq!(planned(9, true), "n1: inside");
    assert_eq!(planned(11, true), "n1: outside");
    assert_eq!(planned(10, true), "n1: outside", "equally important, and newer");
    assert_eq!(planned(0, false), "n1: outside");
    assert_eq!(planned(-491, false), "n1: inside");
}

/// Kinds come before priorities: allocations that asked not to be preempted come after all others,
/// whatever their priorities.
#[test]
fn a_wish_to_stay_counts_more_than_priority() {
    let mut cluster = siblings();
    cluster.opts_out("older");
    cluster.priority("newer", 100);
    let ask = Demand { priority: 1000, ..cluster.ask("root.q2", 5) };
    assert_eq!(cluster.planned(ask), "n1: newer");
}

#[test]
fn a_gang_takes_the_less_important_and_members_go_by_their_priority() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.mine", 20);
    for (name, priority) in [("a", 5), ("b", 1), ("c", 7), ("d", 3)] {
        let node = format!("n-{name}");
        cluster.node(&node, 5);
        cluster.runs(name, "root.other", &node, 5);
        cluster.priority(name, priority);
    }
    let gang = Demand { priority: 9, ..cluster.gang("root.mine", &[5, 5]) };
    assert_eq!(cluster.planned(gang.clone()), "n-b n-d: b d");
    let all = Demand { priority: 5, ..gang };
    assert_eq!(cluster.planned(all), "n-b n-d: b d");
    cluster.is_being_preempted("d");
    let gang = Demand { priority: 5, ..cluster.gang("root.mine", &[5, 5]) };
    assert_eq!(cluster.planned(gang), "n-b n-a: b a", "nobody more important goes for it");
}

/// There are more candidates than the exact search takes.
#[test]
fn of_very_many_on_a_node_the_least_important_go() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.mine", 20);
    cluster.node("n1", 40);
    for at in 0..20 {
        let name = format!("r{at:02}");
        cluster.runs(&name, "root.other", "n1", 2);
        cluster.priority(&name, 20 - at);
    }
    cluster.priority("r03", 1);
    let ask = Demand { priority: 99, ..cluster.ask("root.mine", 5) };
    assert_eq!(cluster.planned(ask), "n1: r19 r03 r18");
}

/// The text names the priorities that were compared, which need not be those of the requests.
#[test]
fn a_choice_by_priority_says_what_was_compared() {
    let mut cluster = siblings();
    cluster.application("b", "root.q3");
    cluster.ends("newer");
    cluster.runs("fenced", "root.q3", "n1", 5);
    cluster.priority("fenced", 100);
    cluster.guarantees("root.q1", 0);
    let settings = &mut cluster.queue("root.q3").settings;
    (settings.priority_policy, settings.priority_offset) = (PriorityPolicy::Fence, -7);
    let ask = Demand { priority: 1000, ..cluster.ask("root.q2", 5) };
    let plan = cluster.plan(ask).unwrap();
    assert_eq!(cluster.shown(&Ok(plan.clone())), "n1: fenced");
    let chosen = plan.chosen[0];
    let grounds = Grounds::Guarantee {
        application: "a".into(),
        key: None,
        pod: None,
        queue: "root.q2".into(),
    };
    let of = |id| cluster.table.get(id).unwrap();
    let choice = chosen.choice(&grounds, of(chosen.victim), chosen.next.map(of));
    assert_eq!(choice, Choice::Priority { first: -7, second: 0 });
    assert_eq!(choice.to_string(), "its priority -7 is lower than 0");
}
