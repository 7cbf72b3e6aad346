//! Victims for an ask that requires its node: allocations there with a lower priority are evicted,
//! whatever their queue's guarantee.
//!
//! The first round visits the node, which reports its allocations, and the queues of the ask. The
//! second round visits the applications of these allocations, which report the allocations that
//! have to be evicted together. No victim is evicted for an ask that its queues, its user or its
//! group would not let run there.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::allocations::Grounds;
use monoceros_rules::asks::preemption::NoPreemption;
use monoceros_rules::decide::preemption::required_node::{
    self, OnNode, RequiredNode, RequiredPlan,
};
use monoceros_rules::decide::preemption::{Answer, Kind, Question, Together};
use monoceros_rules::limits::LaneId;
use monoceros_rules::pending::nominations::{Nomination, Preemptor};
use monoceros_rules::pending::reservations::{End, Reserver};
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, NodeSlot};

use super::super::Task;

use super::Partition;
use super::eviction::Eviction;
use super::limits_left::OtherNominations;
use crate::application::Application;
use crate::node::Node;
use crate::queue::Queue;
use crate::step::{AwaitsAnswers, Baton, NoVictims, Op, PreemptionOp, Route, Survey};

/// The first round: the node.
pub(in crate::partition) struct VictimsOnNode {
    who: Reserver,
    /// The plan that the RM was asked about, if these facts are for its test.
    tested: Option<RequiredPlan>,
    wants: Option<(Arc<AskSpec>, Kind)>,
    node: NodeSlot,
    holds: Vec<AllocationId>,
    lane: Option<LaneId>,
    /// Whether queues below root leave too little for the ask.
    is_over: bool,
}

impl VictimsOnNode {
    /// Searches victims for an ask that requires its node.
    pub(in crate::partition) fn for_ask(who: Reserver, node: NodeSlot) -> Self {
        let (tested, wants, holds) = (None, None, Vec::new());
        Self { who, tested, wants, node, holds, lane: None, is_over: false }
    }
}

impl Survey for VictimsOnNode {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let leaf = baton.directory.applications.find(self.who.application).map(|it| it.leaf);
        let path = leaf.into_iter().flat_map(|leaf| baton.directory.upward(leaf));
        let below_root = path.filter(|facts| facts.parent.is_some()).map(|facts| facts.slot);
        let applications = Route::default().applications([self.who.application]);
        applications.queues(below_root).nodes([self.node])
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        self.wants = application.preemptors(baton).pending(self.who.ask);
        self.lane = application.lane.limited();
    }

    fn at_queue(&mut self, queue: &mut Queue, baton: &mut Baton) {
        let Some((spec, _)) = &self.wants else { return };
        self.is_over |= !queue.gate(&baton.books.nominations).allows(&spec.resources);
    }

    fn at_node(&mut self, node: &mut Node, _: &mut Baton) {
        self.holds.clone_from(&node.holds);
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { who, tested, wants, node, holds, lane, is_over } = *self;
        let Some((spec, kind)) = wants else { return };
        if baton.books.nominations.of(Preemptor::Ask(who)).is_some() {
            return;
        }
        let required = spec.required_node.as_ref().and_then(|id| baton.books.nodes.slot_of(id));
        if required != Some(node) {
            return;
        }
        if baton.books.nominations.on_node(node).next().is_some() {
            // No other preemptor goes before the ask on its node.
            baton.end_rooms_on(node);
            if baton.books.nodes.has_room(node, &spec.resources) {
                return;
            }
        }
        if is_over {
            return found_none(who, &spec, NoPreemption::OverMaximum, partition);
        }
        let coming =
            baton.books.nominations.coming(baton.now_ns, baton.settings.patience.wait_timeout);
        if let Some(here) = coming.get(&node) {
            let later = baton.books.nodes.available(node).plus(&here.amount);
            if later.holds(&spec.resources) && kind.may_use(node, &here.who, &baton.books.nodes) {
                return found_none(who, &spec, NoPreemption::RoomIsComing, partition);
            }
        }
        let (together, others) = (BTreeMap::new(), OtherNominations::default());
        partition.survey_next(OnItsNode {
            who,
            tested,
            spec,
            kind,
            node,
            holds,
            lane,
            together,
            others,
        });
    }
}

/// The second round: the applications with allocations on the node.
struct OnItsNode {
    who: Reserver,
    tested: Option<RequiredPlan>,
    spec: Arc<AskSpec>,
    kind: Kind,
    node: NodeSlot,
    holds: Vec<AllocationId>,
    lane: Option<LaneId>,
    together: BTreeMap<ApplicationSlot, Together>,
    /// The applications with nominations that may count for the same limits.
    others: OtherNominations,
}

impl Survey for OnItsNode {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        let table = &baton.books.allocations;
        let of = self.holds.iter().filter_map(|id| Some(table.get(*id)?.application));
        let mut to_ask = OtherNominations::to_ask(self.lane, baton);
        to_ask.extend(of);
        Route::default().applications(to_ask)
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        self.others.ask(application);
        self.together.insert(application.slot, application.loser(baton).together());
    }

    fn home(self: Box<Self>, partition: &mut Partition, baton: &mut Baton) {
        let Self { who, tested, spec, kind, node, holds, lane, together, others } = *self;
        if !others.left(Preemptor::Ask(who), lane, baton).allow(&spec.resources) {
            return found_none(who, &spec, NoPreemption::OverLimits, partition);
        }
        let books = &baton.books;
        let on_node: Vec<OnNode<'_>> = holds
            .iter()
            .filter_map(|id| {
                let allocation = books.allocations.get(*id)?;
                let of = &together[&allocation.application];
                let mates = of.mates.iter().filter(|mate| *mate != id);
                let mates = mates.filter_map(|mate| Some((*mate, books.allocations.get(*mate)?)));
                Some(OnNode {
                    is_short: of.short.contains(id),
                    mates: mates.collect(),
                    ..OnNode::single(*id, allocation)
                })
            })
            .collect();
        let (plan, bound_ends_ns) = {
            let suits = |gone: &[AllocationId]| kind.may_use(node, gone, &books.nodes);
            let available = books.nodes.available(node);
            let now_ns = baton.now_ns;
            let there = RequiredNode { available, holds: &on_node, suits: &suits, now_ns };
            let plan = match &tested {
                None => required_node::plan(&spec, &there),
                Some(plan) => plan.recheck(&spec, &there),
            };
            (plan, there.bound_ends_ns())
        };
        drop(on_node);
        let Some(plan) = plan else {
            let why = NoPreemption::NotOnItsNode;
            return found_none_until(who, &spec, why, bound_ends_ns, partition);
        };
        if tested.is_some() {
            return carry_out(&plan, who, &spec, node, partition, baton);
        }
        let (victims, start_index) = plan.question();
        let question = Question { member: 0, node, victims, start_index };
        let asked = AskedForNode { who, spec: Arc::clone(&spec), node, plan };
        let questions = [(Arc::clone(&spec.key), question)];
        match partition.ask_about_victims(who.application, &questions, baton) {
            Ok(answers) => match asked.plan.answered(first(&answers)) {
                Some(plan) => carry_out(&plan, who, &spec, node, partition, baton),
                None => found_none(who, &spec, NoPreemption::Refused, partition),
            },
            Err(number) => partition.await_victims(number, Box::new(asked)),
        }
    }
}

/// A plan that the RM is asked about.
pub(in crate::partition) struct AskedForNode {
    who: Reserver,
    spec: Arc<AskSpec>,
    node: NodeSlot,
    plan: RequiredPlan,
}

impl AwaitsAnswers for AskedForNode {
    /// Tests the plan on fresh facts before it is carried out, since steps have run since it was
    /// made.
    fn answered(
        self: Box<Self>,
        answers: &[Answer],
        partition: &mut Partition,
        _baton: &mut Baton,
    ) {
        let Self { who, spec, node, plan } = *self;
        match plan.answered(first(answers)) {
            Some(plan) => {
                let tested = Some(plan);
                let test = VictimsOnNode { tested, ..VictimsOnNode::for_ask(who, node) };
                partition.agenda.push_back(Task::survey(test));
            }
            None => found_none(who, &spec, NoPreemption::Refused, partition),
        }
    }
}

fn first(answers: &[Answer]) -> Answer {
    answers.first().copied().unwrap_or(Answer::Refused)
}

fn found_none(who: Reserver, spec: &AskSpec, why: NoPreemption, partition: &mut Partition) {
    found_none_until(who, spec, why, None, partition);
}

/// Reports that there are no victims: the ask waits for its node to change, or for this time if
/// there is one.
fn found_none_until(
    who: Reserver,
    spec: &AskSpec,
    why: NoPreemption,
    bound_ends_ns: Option<i64>,
    partition: &mut Partition,
) {
    let key = Some(Arc::clone(&spec.key));
    let found = NoVictims { why, nodes_were_tried: true, changes: 0, bound_ends_ns };
    let op = Op::Preemption(PreemptionOp::NotPreempted { key, found });
    partition.agenda.push_back(Task::Visit(who.application, vec![op]));
}

fn carry_out(
    plan: &RequiredPlan,
    who: Reserver,
    spec: &AskSpec,
    node: NodeSlot,
    partition: &mut Partition,
    baton: &mut Baton,
) {
    if let Some(other) = baton.books.reservations.normal_on(node) {
        baton.unreserve(other, End::Displaced);
    }
    let mut eviction = Eviction::of(plan.all(), baton);
    let grounds = Arc::new(Grounds::RequiredNode {
        application: baton.directory.application_id(who.application),
        key: Arc::clone(&spec.key),
        pod: spec.pod().cloned(),
        node: Arc::clone(baton.books.nodes.id(node)),
    });
    let leaf = baton.directory.applications[who.application].leaf;
    let nomination = Nomination {
        queue: Arc::clone(&baton.directory.queue(leaf).facts.config.path),
        amount: (*spec.resources).clone(),
        since_ns: baton.now_ns,
        arrival: baton.books.last_arrival(),
        victims: std::mem::take(&mut eviction.victims),
        losers: eviction.losers(),
        rooms: Vec::new(),
    };
    // If the plan ends only holds, there is capacity at once.
    partition.may_decide = true;
    baton.nominate(Preemptor::Ask(who), nomination);
    partition.agenda.extend(eviction.orders(&grounds, &plan.chosen));
    let (key, node) = (Arc::clone(&spec.key), Arc::clone(baton.books.nodes.id(node)));
    partition.agenda.push_back(Task::Visit(
        who.application,
        vec![Op::Preemption(PreemptionOp::Nominated { key, node })],
    ));
}
