//! Tests gangs, held places, bounds, questions to the RM, and stale plans.

use std::sync::Arc;

use super::cluster::{Cluster, NOW, SECOND, vcore};
use crate::allocations::Grounds;
use crate::asks::preemption::{NoPreemption, Stale};
use crate::decide::preemption::*;
use crate::specs::ask::{Form, TaskGroup};
use crate::specs::tags::TagMap;
use crate::values::ids::{AllocationId, NodeSlot};
use crate::values::resources::Limits;

/// Builds one node of 5 for each name, on which one allocation of 5 runs; the guarantee of the
/// preemptor's queue is the sum.
fn full(names: &[&str]) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.mine", 5 * i64::try_from(names.len()).unwrap());
    for (at, name) in names.iter().enumerate() {
        let node = format!("n{at:02}");
        cluster.node(&node, 5);
        cluster.runs(name, "root.other", &node, 5);
    }
    cluster
}

fn hold(cluster: &mut Cluster, name: &str) {
    cluster.spec(name, |spec| {
        spec.form = Form::Internal;
        spec.placeholder = true;
        spec.particulars.make().task_group = Some(TaskGroup::new("tg".to_owned()));
    });
}

fn placeholder(cluster: &mut Cluster, name: &str) {
    cluster.spec(name, |spec| {
        spec.placeholder = true;
        spec.particulars.make().task_group = Some(TaskGroup::new("tg".to_owned()));
    });
}

#[test]
fn places_that_are_held_go_before_placeholders_and_these_before_work() {
    let mut cluster = full(&["work", "place", "held"]);
    placeholder(&mut cluster, "place");
    hold(&mut cluster, "held");
    let ask = cluster.ask("root.mine", 5);
    let plan = cluster.plan(ask.clone()).unwrap();
    assert_eq!(cluster.shown(&Ok(plan.clone())), "n02:  and held held");
    assert!(!plan.has_victims() && plan.weight.victims == 0);
    cluster.ends("held");
    cluster.nodes[2].is_open = false;
    // Both cost one victim, and the placeholder comes first.
    assert_eq!(cluster.planned(ask.clone()), "n01: place");
    cluster.change("place", |it| it.node = crate::values::ids::NodeSlot::at(0));
    cluster.nodes[0].total = vcore(10);
    cluster.nodes[1].is_open = false;
    assert_eq!(cluster.planned(ask), "n00: place");
}

#[test]
fn a_held_place_is_spared_like_anything_else() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.mine", 10);
    cluster.node("n1", 10);
    cluster.runs("held", "root.other", "n1", 2);
    cluster.runs("work", "root.other", "n1", 8);
    hold(&mut cluster, "held");
    let ask = cluster.ask("root.mine", 5);
    assert_eq!(cluster.planned(ask), "n1: work");
    let ask = cluster.ask("root.mine", 9);
    assert_eq!(cluster.planned(ask), "n1: work and held held");
}

#[test]
fn a_member_that_its_gang_needs_goes_after_others() {
    let mut cluster = full(&["member1", "member2", "single"]);
    let group = TaskGroup::new("tg".to_owned());
    for name in ["member1", "member2"] {
        cluster.spec(name, |spec| spec.particulars.make().task_group = Some(Arc::clone(&group)));
    }
    cluster.application("root.other", "root.other").groups = vec![(Arc::clone(&group), 2)];
    let ask = cluster.ask("root.mine", 5);
    cluster.change("member2", |it| it.created_ns = NOW);
    assert_eq!(cluster.planned(ask.clone()), "n02: single");
    cluster.application("root.other", "root.other").groups = vec![(group, 1)];
    let plan = cluster.plan(ask).unwrap();
    assert_eq!(cluster.shown(&Ok(plan.clone())), "n01: member2", "one more than it needs");
    assert_eq!((plan.weight.bits, plan.weight.victims), (0, 1));
    // Two of the gang's members are needed, and the gang needs the second one.
    let ask = cluster.gang("root.mine", &[5, 5, 5]);
    let plan = cluster.plan(ask).unwrap();
    assert_eq!(plan.victims.len(), 3);
    assert_eq!((plan.weight.bits, plan.weight.victims), (1, 3));
}

/// There are more candidates than the exact search takes.
#[test]
fn of_very_many_members_that_their_gang_needs_go_after_more_important_ones() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.mine", 40);
    cluster.node("n1", 40);
    let group = TaskGroup::new("tg".to_owned());
    cluster.application("gang", "root.other").groups = vec![(Arc::clone(&group), 10)];
    for at in 0..10 {
        let (member, single) = (format!("m{at}"), format!("s{at}"));
        cluster.runs_of(&member, "gang", "n1", vcore(2));
        cluster.spec(&member, |spec| spec.particulars.make().task_group = Some(Arc::clone(&group)));
        cluster.runs(&single, "root.other", "n1", 2);
        cluster.priority(&single, 5);
    }
    let ask = Demand { priority: 9, ..cluster.ask("root.mine", 6) };
    assert_eq!(cluster.planned(ask), "n1: s9 s8 s7");
}

#[test]
fn an_application_loses_no_more_than_it_may() {
    let mut cluster = full(&["a", "b"]);
    let ask = cluster.ask("root.mine", 5);
    cluster.application("root.other", "root.other").allowance = Some(0);
    assert_eq!(cluster.planned(ask), "NoNode");
    cluster.application("root.other", "root.other").allowance = Some(1);
    let gang = cluster.gang("root.mine", &[5, 5]);
    assert_eq!(cluster.planned(gang.clone()), "NoNode");
    hold(&mut cluster, "a");
    assert_eq!(cluster.planned(gang), "n00 n01: b and held a", "a held place is not counted");
}

#[test]
fn nothing_is_taken_before_it_has_run_for_as_long_as_it_may() {
    let mut cluster = full(&["a"]);
    cluster.least_runtime("root.other", 60);
    let ask = cluster.ask("root.mine", 5);
    cluster.change("a", |it| it.bound_ns = NOW - 59 * SECOND);
    assert_eq!(cluster.planned(ask.clone()), "NoCandidates");
    cluster.change("a", |it| it.bound_ns = NOW - 60 * SECOND);
    assert_eq!(cluster.planned(ask.clone()), "n00: a");
    // An allocation that was reported after a restart has run since its creation.
    cluster.change("a", |it| it.bound_ns = NOW);
    cluster.spec("a", |spec| spec.form = Form::Recovered);
    assert_eq!(cluster.planned(ask.clone()), "n00: a");
    cluster.change("a", |it| it.created_ns = NOW);
    assert_eq!(cluster.planned(ask.clone()), "NoCandidates");
    placeholder(&mut cluster, "a");
    assert_eq!(cluster.planned(ask), "n00: a");
}

#[test]
fn who_would_take_back_what_it_lost_takes_nothing() {
    let mut cluster = full(&["a"]);
    cluster.application("root.other", "root.other").is_barred = true;
    let ask = cluster.ask("root.mine", 5);
    assert_eq!(cluster.planned(ask), "NoCandidates");
}

#[test]
fn nominated_capacity_is_not_taken_twice() {
    let mut cluster = full(&["a", "b", "c"]);
    cluster.guarantees("root.mine", 5);
    let ask = cluster.ask("root.mine", 5);
    cluster.is_being_preempted("a");
    assert_eq!(cluster.planned(ask.clone()), "n02: c");
    cluster.queue("root.mine").nominated = vcore(5);
    assert_eq!(cluster.planned(ask), "BeyondGuarantee");
}

#[test]
fn a_gang_gets_places_for_all_members_or_takes_nothing() {
    let mut cluster = full(&["a", "b"]);
    cluster.node("n02", 5);
    cluster.node("n03", 5);
    cluster.guarantees("root.mine", 20);
    let gang = cluster.gang("root.mine", &[5, 5, 5, 5]);
    let plan = cluster.plan(gang).unwrap();
    assert_eq!(cluster.shown(&Ok(plan.clone())), "n02 n03 n01 n00: b a");
    let members: Vec<usize> = plan.places.iter().map(|place| place.member).collect();
    assert_eq!(members, [0, 1, 2, 3]);
    let five = cluster.gang("root.mine", &[5, 5, 5, 5, 5]);
    assert!(cluster.plan(five).is_err());
    cluster.guarantees("root.mine", 19);
    let gang = cluster.gang("root.mine", &[5, 5, 5, 5]);
    assert_eq!(cluster.planned(gang), "BeyondGuarantee");
}

#[test]
fn larger_members_choose_first_and_each_leaves_less_to_the_next() {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.mine", 20);
    cluster.node("n1", 6);
    cluster.node("n2", 4);
    cluster.runs("a", "root.other", "n1", 6);
    cluster.runs("b", "root.other", "n2", 4);
    let gang = cluster.gang("root.mine", &[2, 4, 4]);
    let plan = cluster.plan(gang).unwrap();
    assert_eq!(cluster.shown(&Ok(plan.clone())), "n2 n1 n1: b a");
    let members: Vec<usize> = plan.places.iter().map(|place| place.member).collect();
    assert_eq!(members, [1, 2, 0]);
}

#[test]
fn a_gang_that_was_not_planned_for_leaves_the_survey_as_it_was() {
    let mut cluster = full(&["a", "b"]);
    cluster.guarantees("root.mine", 100);
    cluster.nodes[1].total = vcore(90);
    cluster.node("n02", 200).is_open = false;
    let gang = cluster.gang("root.mine", &[5, 80, 9, 6]);
    let mut planner = cluster.survey(gang).unwrap();
    let before = format!("{:?}", (&planner.tree, &planner.gone, &planner.rooms));
    let plan = planner.plan(&AnyNode);
    assert_eq!(cluster.shown(&plan), "NoNode");
    assert_eq!(format!("{:?}", (&planner.tree, &planner.gone, &planner.rooms)), before);
}

/// Returns the questions of the next step.
fn asked(inquiry: &mut Inquiry, planner: &mut Planner) -> Vec<Question> {
    match inquiry.next(planner, &AnyNode) {
        Next::Ask(questions) => questions,
        Next::Done(plan) => panic!("{plan:?}"),
    }
}

fn done(inquiry: &mut Inquiry, planner: &mut Planner) -> Result<Plan, NoPreemption> {
    match inquiry.next(planner, &AnyNode) {
        Next::Ask(questions) => panic!("{questions:?}"),
        Next::Done(plan) => plan,
    }
}

/// Builds a node with five allocations of 1, and an ask of 2 that needs two of them.
fn five_small() -> (Cluster, Demand) {
    let mut cluster = Cluster::new();
    cluster.guarantees("root.mine", 5);
    cluster.node("n1", 5);
    for name in ["a", "b", "c", "d", "e"] {
        cluster.runs(name, "root.other", "n1", 1);
    }
    let ask = cluster.ask("root.mine", 2);
    (cluster, ask)
}

#[test]
fn the_rm_is_told_who_would_go_and_who_else_might() {
    let (cluster, ask) = five_small();
    let mut planner = cluster.survey(ask).unwrap();
    let mut inquiry = Inquiry::begin(&mut planner, |_| true).unwrap();
    let questions = asked(&mut inquiry, &mut planner);
    assert_eq!(questions.len(), 1);
    assert_eq!(cluster.names_of(&questions[0].victims), "e d c b a");
    assert_eq!(questions[0].start_index, 1);
    inquiry.answer(&mut planner, &[Answer::Fits(3)]);
    let plan = done(&mut inquiry, &mut planner).unwrap();
    assert_eq!(cluster.shown(&Ok(plan.clone())), "n1: e d c b", "it knows more");
    assert_eq!(planner.recheck(&plan, &AnyNode), Ok(plan));
}

#[test]
fn an_answer_that_means_nothing_is_a_refusal() {
    for (answer, why) in [
        (Answer::Fits(99), NoPreemption::Refused),
        (Answer::Fits(-2), NoPreemption::Refused),
        (Answer::Refused, NoPreemption::Refused),
        (Answer::Fits(0), NoPreemption::Short),
        (Answer::Fits(-1), NoPreemption::Short),
    ] {
        let (cluster, ask) = five_small();
        let mut planner = cluster.survey(ask).unwrap();
        let mut inquiry = Inquiry::begin(&mut planner, |_| true).unwrap();
        asked(&mut inquiry, &mut planner);
        inquiry.answer(&mut planner, &[answer]);
        assert_eq!(done(&mut inquiry, &mut planner), Err(why), "{answer:?}");
    }
}

/// Builds twelve nodes, each with one allocation of this priority.
fn ranks(priorities: [i32; 12]) -> (Cluster, Demand) {
    let names: Vec<String> = (0..12).map(|at| format!("r{at:02}")).collect();
    let mut cluster = full(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    for (name, priority) in names.iter().zip(priorities) {
        cluster.priority(name, priority);
    }
    let ask = Demand { priority: 9, ..cluster.ask("root.mine", 5) };
    (cluster, ask)
}

fn nodes_asked(questions: &[Question]) -> Vec<usize> {
    questions.iter().map(|question| question.node.index()).collect()
}

#[test]
fn nodes_that_lose_least_are_asked_about_first() {
    let (mut cluster, ask) = ranks([3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2]);
    cluster.opts_out("r10");
    let mut planner = cluster.survey(ask).unwrap();
    let mut inquiry = Inquiry::begin(&mut planner, |_| true).unwrap();
    let first = asked(&mut inquiry, &mut planner);
    assert_eq!(nodes_asked(&first), [7, 4, 1, 11, 8, 5, 2, 9, 6, 3], "the newest of equal ones");
    inquiry.answer(&mut planner, &[Answer::Refused; 10]);
    let second = asked(&mut inquiry, &mut planner);
    assert_eq!(nodes_asked(&second), [0, 10], "who asked not to be preempted is the last");
    inquiry.answer(&mut planner, &[Answer::Refused, Answer::Fits(0)]);
    assert_eq!(cluster.shown(&done(&mut inquiry, &mut planner)), "n10: r10");
}

#[test]
fn a_second_group_is_asked_about_only_where_it_may_lose_less() {
    let (mut cluster, ask) = ranks([0; 12]);
    cluster.nodes[11].total = vcore(10);
    cluster.runs("important", "root.other", "n11", 5);
    cluster.priority("important", 7);
    let fits = |index| {
        std::array::from_fn::<_, 10, _>(
            |at| if at == 0 { Answer::Fits(index) } else { Answer::Refused },
        )
    };
    // One group of questions is enough if no other answer could be better.
    let mut planner = cluster.survey(ask.clone()).unwrap();
    let mut inquiry = Inquiry::begin(&mut planner, |_| true).unwrap();
    assert_eq!(asked(&mut inquiry, &mut planner)[0].node.index(), 11);
    inquiry.answer(&mut planner, &fits(0));
    assert_eq!(cluster.shown(&done(&mut inquiry, &mut planner)), "n11: r11");
    // The RM adds an important victim: other nodes may do without it.
    let mut planner = cluster.survey(ask).unwrap();
    let mut inquiry = Inquiry::begin(&mut planner, |_| true).unwrap();
    asked(&mut inquiry, &mut planner);
    inquiry.answer(&mut planner, &fits(1));
    assert_eq!(nodes_asked(&asked(&mut inquiry, &mut planner)), [1, 0]);
    let mut refused = inquiry;
    refused.answer(&mut planner, &[Answer::Refused, Answer::Fits(0)]);
    assert_eq!(cluster.shown(&done(&mut refused, &mut planner)), "n00: r00");
}

#[test]
fn only_members_with_asks_are_asked_about() {
    let mut cluster = full(&["a", "b"]);
    cluster.node("n02", 5);
    cluster.guarantees("root.mine", 15);
    let gang = cluster.gang("root.mine", &[5, 5, 5]);
    let mut planner = cluster.survey(gang).unwrap();
    let mut inquiry = Inquiry::begin(&mut planner, |member| member == 1).unwrap();
    let questions = asked(&mut inquiry, &mut planner);
    assert!(questions.iter().all(|question| question.member == 1));
    assert_eq!(cluster.names_of(&questions[0].victims), "b", "the free node has the first member");
    inquiry.answer(&mut planner, &[Answer::Refused, Answer::Fits(0)]);
    assert_eq!(cluster.shown(&done(&mut inquiry, &mut planner)), "n02 n00 n01: a b");
}

#[test]
fn a_member_for_which_there_is_room_is_asked_about_with_an_empty_list() {
    let mut cluster = full(&["a"]);
    cluster.node("n01", 5);
    cluster.guarantees("root.mine", 10);
    let gang = cluster.gang("root.mine", &[5, 5]);
    let mut planner = cluster.survey(gang).unwrap();
    let mut inquiry = Inquiry::begin(&mut planner, |_| true).unwrap();
    let questions = asked(&mut inquiry, &mut planner);
    assert_eq!((questions[0].victims.len(), questions[0].start_index), (0, -1));
    inquiry.answer(&mut planner, &[Answer::Fits(-1), Answer::Refused]);
    assert_eq!(asked(&mut inquiry, &mut planner)[0].start_index, 0);
}

/// Tests the plan for a cluster again after a change.
fn rechecked(
    cluster: &mut Cluster,
    ask: &Demand,
    change: impl FnOnce(&mut Cluster),
) -> Result<String, Stale> {
    let plan = cluster.plan(ask.clone()).unwrap();
    change(cluster);
    let mut planner = match cluster.survey(ask.clone()) {
        Ok(planner) => planner,
        Err(why) => panic!("{why}"),
    };
    planner.recheck(&plan, &AnyNode).map(|plan| cluster.shown(&Ok(plan)))
}

#[test]
fn a_plan_that_still_holds_is_carried_out() {
    let (mut cluster, ask) = five_small();
    assert_eq!(rechecked(&mut cluster, &ask, |_| {}), Ok("n1: e d".to_owned()));
}

#[test]
fn a_plan_with_a_victim_that_left_is_out_of_date() {
    let (mut cluster, ask) = five_small();
    let leaves = |cluster: &mut Cluster| cluster.is_being_preempted("d");
    assert_eq!(rechecked(&mut cluster, &ask, leaves), Err(Stale::Victim));
}

#[test]
fn what_is_not_needed_any_more_is_spared() {
    let (mut cluster, ask) = five_small();
    let grows = |cluster: &mut Cluster| cluster.nodes[0].total = vcore(6);
    assert_eq!(rechecked(&mut cluster, &ask, grows), Ok("n1: e".to_owned()));
    let (mut cluster, ask) = five_small();
    let grows = |cluster: &mut Cluster| cluster.nodes[0].total = vcore(7);
    assert_eq!(rechecked(&mut cluster, &ask, grows), Err(Stale::NotNeeded));
}

#[test]
fn a_plan_is_out_of_date_when_its_node_its_guarantee_or_its_room_is_gone() {
    let (mut cluster, ask) = five_small();
    let closes = |cluster: &mut Cluster| cluster.nodes[0].is_open = false;
    assert_eq!(rechecked(&mut cluster, &ask, closes), Err(Stale::Node));
    let (mut cluster, ask) = five_small();
    let nominated = |cluster: &mut Cluster| {
        cluster.guarantees("root.other", 4);
    };
    assert_eq!(rechecked(&mut cluster, &ask, nominated), Err(Stale::Guarantee));
    let (mut cluster, ask) = five_small();
    let less = |cluster: &mut Cluster| {
        cluster.guarantees("root.mine", 1);
    };
    assert_eq!(rechecked(&mut cluster, &ask, less), Err(Stale::Guarantee));
    let (mut cluster, ask) = five_small();
    cluster.node("n2", 2);
    cluster.nodes[1].is_open = false;
    let shrinks = |cluster: &mut Cluster| cluster.nodes[0].total = vcore(4);
    assert_eq!(rechecked(&mut cluster, &ask, shrinks), Err(Stale::Room));
}

#[test]
fn of_victims_that_the_rm_knows_in_order_only_the_last_are_spared() {
    let (mut cluster, ask) = five_small();
    let mut planner = cluster.survey(ask.clone()).unwrap();
    let mut inquiry = Inquiry::begin(&mut planner, |_| true).unwrap();
    asked(&mut inquiry, &mut planner);
    inquiry.answer(&mut planner, &[Answer::Fits(1)]);
    let plan = done(&mut inquiry, &mut planner).unwrap();
    cluster.nodes[0].total = vcore(6);
    let mut planner = cluster.survey(ask.clone()).unwrap();
    let fewer = planner.recheck(&plan, &AnyNode).unwrap();
    assert_eq!(cluster.shown(&Ok(fewer)), "n1: e");

    // The RM added a victim, so the plan is kept.
    cluster.nodes[0].total = vcore(5);
    let mut planner = cluster.survey(ask.clone()).unwrap();
    let mut inquiry = Inquiry::begin(&mut planner, |_| true).unwrap();
    asked(&mut inquiry, &mut planner);
    inquiry.answer(&mut planner, &[Answer::Fits(2)]);
    let plan = done(&mut inquiry, &mut planner).unwrap();
    cluster.nodes[0].total = vcore(6);
    let mut planner = cluster.survey(ask).unwrap();
    assert_eq!(planner.recheck(&plan, &AnyNode), Ok(plan));
}

/// Nodes that may be used only once an allocation is evicted.
struct Avoids(AllocationId);

impl Judge for Avoids {
    fn suits(&self, trial: &Trial<'_>) -> bool {
        trial.gone.contains(&self.0)
    }

    fn searches_victims(&self) -> bool {
        true
    }
}

#[test]
fn who_must_not_be_beside_the_ask_goes() {
    let (cluster, ask) = five_small();
    let mut planner = cluster.survey(ask).unwrap();
    let plan = planner.plan(&Avoids(cluster.names["a"])).unwrap();
    assert_eq!(cluster.shown(&Ok(plan)), "n1: e a");
    // This holds even if the node has capacity.
    let mut cluster = full(&["a"]);
    cluster.nodes[0].total = vcore(50);
    let ask = cluster.ask("root.mine", 5);
    let mut planner = cluster.survey(ask).unwrap();
    let plan = planner.plan(&Avoids(cluster.names["a"])).unwrap();
    assert_eq!(cluster.shown(&Ok(plan)), "n00: a");
}

/// Nodes that may never be used, whatever is evicted.
struct Elsewhere;

impl Judge for Elsewhere {
    fn suits(&self, _: &Trial<'_>) -> bool {
        unreachable!("nothing is looked at on a node that can never do")
    }

    fn could_suit(&self, _: usize, _: NodeSlot) -> bool {
        false
    }

    fn searches_victims(&self) -> bool {
        true
    }
}

#[test]
fn nothing_is_tried_on_a_node_that_can_never_do() {
    let (cluster, ask) = five_small();
    let mut planner = cluster.survey(ask).unwrap();
    assert_eq!(planner.plan(&Elsewhere), Err(NoPreemption::NoNode));
}

/// All nodes except one.
struct But(usize);

impl Judge for But {
    fn suits(&self, trial: &Trial<'_>) -> bool {
        trial.node.index() != self.0
    }
}

#[test]
fn a_node_that_does_not_suit_is_left_out() {
    let mut cluster = full(&["a", "b"]);
    let ask = cluster.ask("root.mine", 5);
    let mut planner = cluster.survey(ask).unwrap();
    let plan = planner.plan(&But(0));
    assert_eq!(cluster.shown(&plan), "n01: b");
}

#[test]
fn nodes_that_have_room_are_left_out_where_they_were_tried() {
    let mut cluster = full(&["a"]);
    cluster.node("n01", 5);
    cluster.guarantees("root.mine", 5);
    let ask = cluster.ask("root.mine", 5);
    assert_eq!(cluster.planned(ask.clone()), "NotNeeded");
    assert_eq!(cluster.planned(Demand { nodes_were_tried: true, ..ask }), "n00: a");
}

#[test]
fn where_many_could_help_a_queue_the_newest_few_go() {
    let mut cluster = Cluster::new();
    cluster.queue("root.p").max = Some(Limits::of(&[("vcore", 40)]));
    cluster.guarantees("root.p.mine", 10);
    for at in 0..40 {
        let node = format!("n{at:02}");
        cluster.node(&node, 20);
        cluster.runs(&format!("r{at:02}"), "root.p.other", &node, 1);
    }
    let ask = cluster.ask("root.p.mine", 3);
    assert_eq!(cluster.planned(ask), "n00: r39 r38 r37");
}

#[test]
fn a_node_nominated_to_another_is_waited_for() {
    let mut cluster = full(&["a"]);
    cluster.guarantees("root.mine", 10);
    let ask = cluster.ask("root.mine", 5);
    let mut planner = cluster.survey(ask.clone()).unwrap();
    let plan = planner.plan(&AnyNode).unwrap();
    planner.commit(&plan);
    cluster.runs("b", "root.other", "n00", 5);
    cluster.nodes[0].claim = Claimed::Nominated;
    assert_eq!(cluster.planned(ask.clone()), "NodesAreNominated");
    cluster.nodes[0].claim = Claimed::ByOthers;
    assert_eq!(cluster.planned(ask), "NoNode");
}

#[test]
fn every_reason_is_a_sentence_without_a_full_stop() {
    let queue = || Arc::from("root.a");
    let all = [
        NoPreemption::SwitchedOff,
        NoPreemption::MayNotPreempt,
        NoPreemption::HasPreempted,
        NoPreemption::RequiresNode,
        NoPreemption::TooYoung { until_ns: 0 },
        NoPreemption::TriedLately { until_ns: 0 },
        NoPreemption::NothingChanged,
        NoPreemption::NoGuarantee,
        NoPreemption::AtItsFence { queue: queue() },
        NoPreemption::BeyondGuarantee,
        NoPreemption::NoCandidates,
        NoPreemption::NoNode,
        NoPreemption::NodesAreNominated,
        NoPreemption::Refused,
        NoPreemption::Short,
        NoPreemption::NotNeeded,
        NoPreemption::Loop { with: Arc::from("app") },
        NoPreemption::Stale(Stale::Guarantee),
    ];
    let mut texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    let application: Arc<str> = Arc::from("app");
    let key: Arc<str> = Arc::from("key");
    for grounds in [
        Grounds::Guarantee {
            application: application.clone(),
            key: None,
            pod: None,
            queue: queue(),
        },
        Grounds::Guarantee {
            application: application.clone(),
            key: Some(key.clone()),
            pod: None,
            queue: queue(),
        },
        Grounds::RequiredNode { application, key, pod: None, node: Arc::from("n1") },
        Grounds::Quota { queue: queue() },
    ] {
        texts.push(grounds.to_string());
    }
    for text in &texts {
        assert!(text.len() > 20 && !text.ends_with('.'), "{text}");
    }
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), all.len() + 4);
}

#[test]
fn a_pod_for_which_others_leave_is_named_and_not_its_key() {
    let (application, key) = (Arc::from("app"), Arc::from("uid"));
    let pod = Some(Arc::from("lab/p"));
    let guarantee = Grounds::Guarantee {
        application: Arc::clone(&application),
        key: Some(Arc::clone(&key)),
        pod: pod.clone(),
        queue: Arc::from("root.a"),
    };
    assert_eq!(
        guarantee.to_string(),
        "preempted for pod `lab/p` of application `app`: queue `root.a` takes back what it is \
         guaranteed"
    );
    let node = Grounds::RequiredNode { application, key, pod, node: Arc::from("n1") };
    assert_eq!(
        node.to_string(),
        "preempted for pod `lab/p` of application `app`, which runs on node `n1` only"
    );
}

#[test]
fn an_application_says_by_a_tag_that_it_goes_as_one() {
    let tags = |value: &str| Arc::new(TagMap::from([(DISRUPTION.to_owned(), value.to_owned())]));
    assert!(goes_as_one(Some(&tags("all"))));
    assert!(!goes_as_one(Some(&tags("any"))));
    assert!(!goes_as_one(None));
}
