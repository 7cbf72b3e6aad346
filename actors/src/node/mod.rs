//! The actor of one machine: the authority on its free capacity.
//!
//! # Why an actor
//! Two placements must never hold the same core. One mailbox makes "check, then take" a single step
//! without a lock. The node asks the RM's predicate before it confirms. An RM in this process is
//! asked within the step, so that a refusal in the middle of a run of placements is exact. An RM
//! that answers later is sent a question from here ([`Baton::ask_later`]), and the amount is held
//! until the answer. The answer comes back to the node whose predicate passed, which confirms the
//! placement or refuses it.
//!
//! # Invariants
//! * `available = total − allocated − occupied − foreign`, in the node index too, after every
//!   message (`docs/nodes.md#what-is-available`).
//! * `allocated` is the sum of the allocations in `holds`. Reported allocations that were gathered
//!   (`step::visit`) are not among them until the node gets its mail for them, before anything reads
//!   a node.
//! * A node that drains or is not ready refuses a placement unless the ask requires this very node,
//!   and still does all [work](NodeMail::Work).
//!
//! # When things go wrong
//! A predicate that panics counts as a refusal. If this actor is lost while it has the baton, the
//! baton is lost, too, which reports the loss to the Rm (see [`crate::step`]).

mod changing;
mod confirming;
mod holding;
mod imaged;
mod others;

use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::audit::NodeFact;
use monoceros_rules::books::Books;
use monoceros_rules::nodes::utilization::NodeFigures;
use monoceros_rules::nodes::{NodeIndex, attributes};
use monoceros_rules::specs::quotas::{self, Held};
use monoceros_rules::values::ids::{AllocationId, NodeSlot};
use monoceros_rules::values::rare::Rare;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::values::texts::Texts;
use prometheus::IntGauge;

pub(crate) use self::imaged::NodeImage;
pub(crate) use self::others::{Foreign, Others};
use crate::application::ApplicationMail;
use crate::metrics::{ActorKind, Counted, Metrics};
use crate::partition::NodeReported;
use crate::step::{
    Answers, Baton, Consequences, Imaged, NodeChange, NodeWork, Passed, PlaceAnswer, Placement,
    Surveyor, Visited,
};

/// Mail that the baton brings to a node.
pub(crate) enum NodeMail {
    /// A placement from its application, to be answered.
    Place(Placement),
    /// The [`NodeWork`] of a visit. The node does its part, and the baton goes on.
    Work(Box<Consequences>),
    /// The node holds the amounts that visits have gathered for it, and the baton goes on.
    Gathered,
    /// A survey that stops here.
    Survey(Box<Surveyor>),
}

/// Confirms or refuses a placement that passes here according to the RM. Sent by the partition, or
/// by the node of the answer before.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Confirm {
    pub(crate) baton: Box<Baton>,
    pub(crate) passed: Passed,
    /// The answers that are not handled yet, and the outcomes of those that were.
    pub(crate) answers: Answers,
}

/// Changes the node by order of the RM. Sent by the partition, which gets [`NodeReported`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Visit {
    pub(crate) baton: Box<Baton>,
    pub(crate) change: NodeChange,
}

/// The report of a node that was changed.
pub(crate) enum NodeReport {
    /// The change was made. `given_up` lists the allocations that have to end: placements that wait
    /// for their predicate, and places that are held for members.
    Changed { given_up: Vec<AllocationId> },
    /// The node is removed; `stranded` lists the allocations that were on it.
    Leaves { stranded: Vec<AllocationId> },
}

/// The actor of one machine: what it has, what is allocated on it, and whether it takes more.
pub(crate) struct Node {
    pub(crate) slot: NodeSlot,
    pub(crate) id: Arc<str>,
    pub(crate) attributes: Arc<Texts>,
    /// The capacity; equal nodes share one.
    pub(crate) total: Arc<Resources>,
    pub(crate) allocated: Resources,
    /// Use by others.
    pub(crate) others: Rare<Others>,
    pub(crate) holds: Vec<AllocationId>,
    pub(crate) draining: bool,
    pub(crate) ready: bool,
    available: Resources,
    pub(crate) imaged: Imaged,
    metrics: Arc<Metrics>,
    _counted: Counted,
}

impl Node {
    /// Builds a node as the RM created it, without allocations.
    pub(crate) fn new(
        slot: NodeSlot,
        id: Arc<str>,
        attributes: Arc<Texts>,
        total: Arc<Resources>,
        occupied: Resources,
        draining: bool,
        metrics: Arc<Metrics>,
    ) -> Self {
        let available = total.minus(&occupied).pruned();
        let mut others = Rare::<Others>::default();
        if !occupied.is_empty() {
            others.make().occupied = occupied;
        }
        let ready = is_ready(attributes.get(attributes::READY));
        let begun = NodeImage {
            slot,
            id,
            attributes,
            total,
            allocated: Resources::new(),
            others,
            holds: Vec::new(),
            draining,
            ready,
            available,
        };
        Self::restored(begun, metrics)
    }

    /// Returns the available amount of a new node, for the index.
    pub(crate) fn available(&self) -> &Resources {
        &self.available
    }

    /// Returns the use by others that the RM reports as one sum.
    pub(crate) fn occupied(&self) -> &Resources {
        &self.others.occupied
    }

    /// Whether the node takes new allocations: it is ready and does not drain. An ask that requires
    /// this node may be placed anyway.
    pub(crate) fn is_open(&self) -> bool {
        !self.draining && self.ready
    }

    fn set_draining(&mut self, draining: bool) {
        if self.draining != draining {
            self.draining = draining;
            step(&self.metrics.nodes.draining, draining);
        }
    }

    fn set_ready(&mut self, ready: bool) {
        if self.ready != ready {
            self.ready = ready;
            step(&self.metrics.nodes.unhealthy, !ready);
        }
    }

    /// Holds a placement. An RM in this process is asked for its predicate first; for an RM that
    /// answers later, the placement is held until the answer to the question that is sent from
    /// here.
    fn place(&mut self, placement: &mut Placement, baton: &mut Baton) -> PlaceAnswer {
        if placement.takes.is_some_and(|takes| takes.in_place) {
            // The placeholder holds the place, also on a draining node, and the placement takes no
            // more.
            if baton.offer.asks_later {
                return PlaceAnswer::Asked(baton.ask_later(placement, None));
            }
            if !baton.passes(placement, &self.id) {
                return PlaceAnswer::Refused;
            }
            self.swap_hold(placement, baton);
            baton.assume(placement.allocation);
            return PlaceAnswer::Held;
        }
        let is_required = placement.spec.required_node.is_some();
        let may_come = is_required || self.is_open();
        if !may_come || !self.available.holds(&placement.spec.resources) {
            debug_assert!(is_required, "the index offers only nodes that have room");
            return PlaceAnswer::NoRoom;
        }
        if baton.offer.asks_later {
            self.hold(placement.allocation, &placement.spec.resources, baton);
            let question = baton.ask_later(placement, None);
            Self::count(placement.allocation, baton);
            return PlaceAnswer::Asked(question);
        }
        if !baton.passes(placement, &self.id) {
            return PlaceAnswer::Refused;
        }
        self.hold(placement.allocation, &placement.spec.resources, baton);
        Self::count(placement.allocation, baton);
        baton.assume(placement.allocation);
        PlaceAnswer::Held
    }

    /// Gives a member the place that is held for it here. The RM need not confirm that the hold
    /// ends.
    fn swap_hold(&mut self, placement: &Placement, baton: &mut Baton) {
        let Some(takes) = placement.takes.filter(|takes| takes.hold) else { return };
        let held = baton.books.allocations.get(takes.placeholder);
        let Some(held) = held.map(|entry| entry.resources().clone()) else {
            debug_assert!(false, "a hold stays in the table while a member takes it");
            return;
        };
        let (placeholder, real) = (takes.placeholder, placement.allocation);
        let change = placement.spec.resources.minus(&held).pruned();
        if change.is_empty() {
            // The usage of the node is unchanged, so no waiting ask need be tried.
            self.let_go(placeholder, &change, baton);
            self.holds.push(real);
            return Self::count(real, baton);
        }
        self.work(NodeWork::Swap { placeholder, real, change }, baton);
    }

    fn work(&mut self, work: NodeWork, baton: &mut Baton) {
        match work {
            NodeWork::Hold(id, resources) => {
                self.hold(id, &resources, baton);
                Self::count(id, baton);
                baton.wake_named(self.slot, &self.id);
                return;
            }
            NodeWork::Release(id, resources) => self.let_go(id, &resources, baton),
            NodeWork::Return(id, resources) => {
                baton.books.nodes.uncount_return(id, self.slot);
                self.let_go(id, &resources, baton);
                self.allocated.prune();
                self.available = self.computed_available();
                self.show(baton, |nodes, left| nodes.take_back(self.slot, left));
                baton.wake_named_by_return(self.slot, &self.id);
                return;
            }
            NodeWork::HoldAll(ids, resources) => {
                self.holds.extend(&ids);
                for id in ids {
                    Self::count(id, baton);
                }
                self.allocated.add(&resources);
                self.available = self.computed_available();
                self.show(baton, |nodes, left| nodes.take_in(self.slot, left));
                return;
            }
            NodeWork::Resize(change) => self.allocated.add(&change),
            NodeWork::Swap { placeholder, real, change } => {
                self.let_go(placeholder, &Resources::new(), baton);
                self.holds.push(real);
                Self::count(real, baton);
                self.allocated.add(&change);
            }
        }
        self.allocated.prune();
        // Computed again and not by the difference: use by others may be so large that sums
        // saturate.
        self.available = self.computed_available();
        self.tell_index(baton, None);
        baton.wake_named(self.slot, &self.id);
    }

    /// Has placement constraints count an allocation that is held here from now on.
    fn count(id: AllocationId, baton: &mut Baton) {
        let Books { nodes, allocations, .. } = &mut baton.books;
        if let Some(entry) = allocations.get(id) {
            nodes.count(id, entry);
        }
    }

    fn let_go(&mut self, id: AllocationId, resources: &Resources, baton: &mut Baton) {
        baton.books.nodes.uncount(id, self.slot);
        if let Some(at) = self.holds.iter().position(|held| *held == id) {
            self.holds.swap_remove(at);
        }
        self.allocated.subtract(resources);
    }

    fn tell_index(&mut self, baton: &mut Baton, total: Option<&Resources>) {
        self.show(baton, |nodes, left| nodes.update(self.slot, total, left));
        debug_assert!(
            self.available.same_amount(&self.computed_available()),
            "what is left is what is not used"
        );
    }

    /// Updates the index with the node's available amount, less the capacity that is kept for
    /// gangs.
    fn show(&self, baton: &mut Baton, tell: impl FnOnce(&mut NodeIndex, &Resources)) {
        match baton.books.nominations.kept(self.slot) {
            None => tell(&mut baton.books.nodes, &self.available),
            Some(kept) => {
                baton.effects.nominated_nodes.insert(self.slot);
                tell(&mut baton.books.nodes, &self.available.minus(&kept).pruned());
            }
        }
    }

    fn computed_available(&self) -> Resources {
        self.total.minus(&self.allocated).minus(&self.others()).pruned()
    }

    /// Returns the use by others.
    pub(crate) fn others(&self) -> Resources {
        self.others.sum()
    }

    /// Returns the quota usage of a node with these attributes, apart from use by others.
    pub(crate) fn counted(attributes: &Texts) -> Held {
        let bytes = quotas::NODE_BYTES + quotas::bytes_of_texts(attributes.iter());
        Held { nodes: 1, bytes, ..Held::default() }
    }

    /// Returns the capacity, and the allocated part of it.
    pub(crate) fn load(&self) -> (Resources, Resources) {
        ((*self.total).clone(), self.allocated.clone())
    }

    /// Returns the node's figures, for a recommendation of its size.
    pub(crate) fn figures(&self) -> NodeFigures {
        NodeFigures {
            capacity: (*self.total).clone(),
            allocated: self.allocated.clone(),
            others: self.others(),
            is_draining: self.draining,
            is_empty: self.holds.is_empty(),
        }
    }

    /// Returns the facts of the node, for an audit.
    pub(crate) fn fact(&self) -> NodeFact {
        NodeFact {
            slot: self.slot,
            id: Arc::clone(&self.id),
            total: (*self.total).clone(),
            allocated: self.allocated.clone(),
            available: self.available.clone().pruned(),
            holds: self.holds.clone(),
            open: self.is_open(),
            attributes: Arc::clone(&self.attributes),
            others: self.others(),
        }
    }
}

fn step(gauge: &IntGauge, up: bool) {
    if up { gauge.inc() } else { gauge.dec() }
}

/// Reads the `ready` attribute as bool text; missing or unparsable means ready.
pub(crate) fn is_ready(said: Option<&str>) -> bool {
    !matches!(said, Some("0" | "f" | "F" | "false" | "FALSE" | "False"))
}

impl Actor for Node {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.metrics.nodes.active.dec();
        self.set_draining(false);
        self.set_ready(true);
    }
}

impl Visited for Node {
    type Baton = Baton;
    type Mail = NodeMail;

    fn mail(baton: &mut Baton) -> &mut Option<NodeMail> {
        &mut baton.mail.node
    }

    fn visit(&mut self, mut baton: Box<Baton>, mail: NodeMail, _ctx: &mut Self::Context) {
        self.give_image(&mut baton);
        match mail {
            NodeMail::Place(placement) => self.asked(baton, placement),
            NodeMail::Work(consequences) => self.worked(baton, *consequences),
            NodeMail::Gathered => self.hold_gathered(baton),
            NodeMail::Survey(surveyor) => self.surveyed(baton, surveyor),
        }
    }
}

impl Node {
    /// Handles a survey that stops here.
    fn surveyed(&mut self, mut baton: Box<Baton>, mut surveyor: Box<Surveyor>) {
        let _timer = baton.tally.message(ActorKind::Node);
        surveyor.survey.at_node(self, &mut baton);
        surveyor.go_on(baton);
    }

    /// Does this node's work of a visit.
    fn worked(&mut self, mut baton: Box<Baton>, mut consequences: Consequences) {
        let _timer = baton.tally.message(ActorKind::Node);
        let work = &mut consequences.node_work;
        // All consecutive work for this node is done at once.
        while work.last().is_some_and(|(slot, _)| *slot == self.slot)
            && let Some((_, work)) = work.pop()
        {
            self.work(work, &mut baton);
        }
        baton.follow(consequences);
    }

    /// Handles a placement of an application, and answers whether it is held, or why not.
    fn asked(&mut self, mut baton: Box<Baton>, mut placement: Placement) {
        let _timer = baton.tally.message(ActorKind::Node);
        baton.tally.node_try_begins();
        let answer = self.place(&mut placement, &mut baton);
        if matches!(answer, PlaceAnswer::NoRoom | PlaceAnswer::Refused) {
            baton.tally.node_refused();
        } else {
            baton.tally.node_took();
        }
        let application = Arc::clone(&baton.directory.applications[placement.application].address);
        baton.tally.post(ActorKind::Application);
        application.hand(baton, ApplicationMail::Placed(placement, answer));
    }
}

impl Handler<Confirm> for Node {
    type Result = ();

    fn handle(&mut self, confirm: Confirm, _ctx: &mut Self::Context) {
        let Confirm { mut baton, passed, mut answers } = confirm;
        self.give_image(&mut baton);
        let _timer = baton.tally.message(ActorKind::Node);
        let settlement = self.confirm(&passed, &mut baton);
        answers.settled.extend(settlement.map(|settlement| (passed.question, settlement)));
        baton.take_answers(answers);
    }
}

impl Handler<Visit> for Node {
    type Result = ();

    fn handle(&mut self, Visit { mut baton, change }: Visit, _ctx: &mut Self::Context) {
        self.give_image(&mut baton);
        let _timer = baton.tally.message(ActorKind::Node);
        let leaves = matches!(change, NodeChange::Leave);
        let report = self.change(change, &mut baton);
        if !leaves {
            let mut counted = Self::counted(&self.attributes);
            counted.bytes += self.others.bytes();
            baton.note_node(self.slot, counted);
        }
        NodeReported { baton, report }.go_home();
    }
}

impl Handler<crate::Halt> for Node {
    type Result = ();

    fn handle(&mut self, _: crate::Halt, ctx: &mut Self::Context) {
        let _timer = self.metrics.handles(ActorKind::Node);
        ctx.stop();
    }
}
