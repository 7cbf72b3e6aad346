//! One actor per machine: the authority on what it has free.
//!
//! # Why an actor
//! Two placements must never hold the same core. One mailbox makes "look, then take" a single step
//! without a lock. The node asks the RM's predicate before it confirms, wherever the RM is: one in
//! this process inside the very step, so that a refusal in the middle of a run of placements is
//! exact; one that answers later by a question that leaves from here ([`Baton::ask_later`]), while the
//! amount is held. The answer comes back to the node that passes, which confirms the placement or
//! refuses it.
//!
//! # Invariants
//! * `available = total − allocated − occupied − foreign`, in the node index too, after every
//!   message (`docs/nodes.md#what-is-available`).
//! * `allocated` is the sum of the allocations in `holds`.
//! * A node that drains or is not ready refuses a placement unless the ask requires this very node,
//!   and still honours all [work](NodeMail::Work).
//!
//! # When things go wrong
//! A predicate that panics counts as a refusal. If this actor is lost, the baton in its hands is
//! lost with it, and that tells the Rm (see [`crate::step`]).

mod confirming;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::audit::NodeFact;
use monoceros_rules::books::Books;
use monoceros_rules::nodes::utilization::NodeFigures;
use monoceros_rules::nodes::{NodeIndex, attributes};
use monoceros_rules::pending::reservations::End;
use monoceros_rules::specs::quotas::{self, Held};
use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::ids::{AllocationId, NodeSlot};
use monoceros_rules::values::rare::{Nothing, Rare};
use monoceros_rules::values::resources::Resources;
use monoceros_rules::values::texts::Texts;
use prometheus::IntGauge;

use crate::application::ApplicationMail;
use crate::events::{Event, EventKind, Message};
use crate::metrics::{ActorKind, Counted, Metrics};
use crate::partition::NodeReported;
use crate::step::{
    Answers, Baton, Consequences, ForeignReport, NodeChange, NodeWork, Passed, PlaceAnswer,
    Placement, Surveyor, Visited,
};

/// What the baton brings to a node.
pub(crate) enum NodeMail {
    /// A placement, from its application, which is answered.
    Place(Placement),
    /// The last piece of a visit's [`NodeWork`], after which the baton goes on.
    Work(Box<Consequences>),
    /// A survey, from whoever it was at before.
    Survey(Box<Surveyor>),
}

/// The RM says that a placement passes here: confirms it, or refuses it. From the partition or from
/// the node of the answer before.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Confirm {
    pub(crate) baton: Box<Baton>,
    pub(crate) passed: Passed,
    /// What else was answered, and what became of it so far.
    pub(crate) answers: Answers,
}

/// The RM changes the node itself. From the partition, which gets [`NodeReported`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Visit {
    pub(crate) baton: Box<Baton>,
    pub(crate) change: NodeChange,
}

/// What a node says when it was changed.
pub(crate) enum NodeReport {
    /// The change was made. What is in the list has to leave: placements that wait for their
    /// predicate, and places that are held for members.
    Changed { given_up: Vec<AllocationId> },
    /// The node leaves; the list is what was on it.
    Leaves { stranded: Vec<AllocationId> },
}

/// A foreign allocation: something on the node that no application of this scheduler has.
#[derive(Clone)]
pub(crate) struct Foreign {
    pub(crate) resources: Resources,
    pub(crate) tags: Option<Tags>,
    pub(crate) priority: i32,
    pub(crate) preemptable: bool,
    /// When it was created, as far as that was said, or when it came.
    pub(crate) since_ns: i64,
}

/// What others use of a node.
#[derive(Default)]
pub(crate) struct Others {
    /// As one sum.
    occupied: Resources,
    /// By key; counts beside `occupied`.
    pub(crate) foreign: BTreeMap<Arc<str>, Foreign>,
    /// What quotas count of these.
    foreign_bytes: u64,
}

impl Nothing for Others {
    const NOTHING: &'static Self =
        &Self { occupied: Resources::NONE, foreign: BTreeMap::new(), foreign_bytes: 0 };
}

impl Foreign {
    /// What quotas count of it.
    fn bytes(&self, key: &str) -> u64 {
        let tags = self.tags.iter().map(|tags| quotas::bytes_of_texts(tags.iter())).sum::<u64>();
        quotas::ALLOCATION_BYTES + key.len() as u64 + tags
    }
}

/// The actor of one machine: what it has, what is allocated on it, and whether it takes more.
pub(crate) struct Node {
    pub(crate) slot: NodeSlot,
    pub(crate) id: Arc<str>,
    pub(crate) attributes: Arc<Texts>,
    /// Equal nodes have one.
    pub(crate) total: Arc<Resources>,
    pub(crate) allocated: Resources,
    /// Use by others.
    pub(crate) others: Rare<Others>,
    pub(crate) holds: Vec<AllocationId>,
    pub(crate) draining: bool,
    pub(crate) ready: bool,
    available: Resources,
    metrics: Arc<Metrics>,
    _counted: Counted,
}

impl Node {
    /// A node as the RM created it, without allocations.
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
        metrics.nodes.active.inc();
        if draining {
            metrics.nodes.draining.inc();
        }
        if !ready {
            metrics.nodes.unhealthy.inc();
        }
        Self {
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
            _counted: metrics.counted(ActorKind::Node),
            metrics,
        }
    }

    /// What a new node offers, for the index.
    pub(crate) fn available(&self) -> &Resources {
        &self.available
    }

    /// What others use, as far as that is one sum.
    pub(crate) fn occupied(&self) -> &Resources {
        &self.others.occupied
    }

    /// Whether new allocations may come: it neither drains nor is unready. Asks that require this
    /// node may come anyway.
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

    /// Holds what is to be placed: once the predicate of an RM in this process passed, or until the
    /// RM has answered the question that leaves from here.
    fn place(&mut self, placement: &mut Placement, baton: &mut Baton) -> PlaceAnswer {
        if placement.takes.is_some_and(|takes| takes.in_place) {
            // Its placeholder holds the place, on a node that drains too, and it takes no more.
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

    /// A member takes the place that is held for it here: nobody has to be asked to make room.
    fn swap_hold(&mut self, placement: &Placement, baton: &mut Baton) {
        let Some(takes) = placement.takes.filter(|takes| takes.hold) else { return };
        let held = baton.books.allocations.get(takes.placeholder);
        let Some(held) = held.map(|entry| entry.resources().clone()) else { return };
        let (placeholder, real) = (takes.placeholder, placement.allocation);
        let change = placement.spec.resources.minus(&held).pruned();
        if change.is_empty() {
            // The node has what it had: nobody who waits for it need look.
            self.let_go(placeholder, &change, baton);
            self.holds.push(real);
            return Self::count(real, baton);
        }
        self.work(NodeWork::Swap { placeholder, real, change }, baton);
    }

    /// Takes an allocation in. Where nobody else uses the node, what is left is what was left without
    /// it: everything that is allocated has a sum ([`Books::allocated`]), so that none of these saturates.
    fn hold(&mut self, allocation: AllocationId, resources: &Resources, baton: &mut Baton) {
        self.holds.push(allocation);
        self.allocated.add(resources);
        // What is asked for may name resources of which nothing is wanted.
        self.allocated.prune();
        if self.others.occupied.is_empty() && self.others.foreign.is_empty() {
            self.available.subtract(resources);
        } else {
            self.available = self.available_anew();
        }
        self.tell_index(baton, None);
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
                self.available = self.available_anew();
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
                self.available = self.available_anew();
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
        // Computed anew and not by the difference: what others use may be so large that sums saturate.
        self.available = self.available_anew();
        self.tell_index(baton, None);
        baton.wake_named(self.slot, &self.id);
    }

    /// Placement constraints count what is held here from now on.
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

    /// What has to leave the node, of which the RM need not be asked: placements that wait for their
    /// predicate, all of them if the node has less than it holds, and those that may go elsewhere if
    /// it is closed; and as many of the places held for members as the node has no room for.
    fn given_up(&self, baton: &Baton) -> Vec<AllocationId> {
        let is_short = self.available.has_negative();
        if self.is_open() && !is_short {
            return Vec::new();
        }
        let waits = baton.books.unsettled.placements() > 0;
        let mut given_up: Vec<AllocationId> = if waits { self.holds.clone() } else { Vec::new() };
        given_up.retain(|id| {
            let Some(entry) = baton.books.allocations.get(*id) else { return false };
            let question = entry.question.and_then(|number| baton.books.unsettled.get(number));
            let required = match question {
                Some(question) => question.required,
                None if entry.is_in_bundle() => entry.spec.required_node.is_some(),
                None => return false,
            };
            (!self.is_open() && !required) || entry.resources().overdraws(&self.available)
        });
        given_up.sort_unstable();
        if is_short {
            let table = &baton.books.allocations;
            let gone = given_up.iter().filter_map(|id| table.get(*id));
            let left = gone.fold(self.available.clone(), |left, it| left.plus(it.resources()));
            given_up.extend(self.shed(left, baton));
        }
        given_up
    }

    /// The places held for members that the node has to lose, the newest first, until what is left
    /// is not below nothing.
    fn shed(&self, mut left: Resources, baton: &Baton) -> Vec<AllocationId> {
        let place = |id: &AllocationId| {
            let entry = baton.books.allocations.get(*id)?;
            (entry.is_hold() && !entry.is_in_bundle()).then_some((*id, entry))
        };
        let mut places: Vec<_> = self.holds.iter().filter_map(place).collect();
        places.sort_unstable_by(|(_, one), (_, other)| other.newness().cmp(&one.newness()));
        places.retain(|(_, entry)| {
            let goes = entry.resources().overdraws(&left);
            if goes {
                left.add(entry.resources());
            }
            goes
        });
        places.into_iter().map(|(id, _)| id).collect()
    }

    fn tell_index(&mut self, baton: &mut Baton, total: Option<&Resources>) {
        self.show(baton, |nodes, left| nodes.update(self.slot, total, left));
        debug_assert!(
            self.available.same_amount(&self.available_anew()),
            "what is left is what is not used"
        );
    }

    /// Tells the index what the node has left for anybody: without what gangs keep of it.
    fn show(&self, baton: &mut Baton, tell: impl FnOnce(&mut NodeIndex, &Resources)) {
        match baton.books.promises.kept(self.slot) {
            None => tell(&mut baton.books.nodes, &self.available),
            Some(kept) => {
                baton.effects.nominated_nodes.insert(self.slot);
                tell(&mut baton.books.nodes, &self.available.minus(&kept).pruned());
            }
        }
    }

    /// A closed node protects room for nobody who may go elsewhere: that one is to look there.
    fn unreserve_if_closed(&self, baton: &mut Baton) {
        if self.is_open() {
            return;
        }
        for who in baton.books.reservations.not_bound_to(self.slot) {
            baton.unreserve(who, End::NodeClosed);
        }
    }

    fn available_anew(&self) -> Resources {
        self.total.minus(&self.allocated).minus(&self.others()).pruned()
    }

    /// What anybody else uses.
    pub(crate) fn others(&self) -> Resources {
        let foreign = self.others.foreign.values();
        foreign.fold(self.others.occupied.clone(), |sum, foreign| sum.plus(&foreign.resources))
    }

    fn change(&mut self, change: NodeChange, baton: &mut Baton) -> NodeReport {
        match change {
            NodeChange::Update { total, occupied, attributes } => {
                let was_ready = self.ready;
                self.set_ready(is_ready(attributes.get(attributes::READY).map(String::as_str)));
                if was_ready != self.ready {
                    let text = if self.ready { "ready: true" } else { "ready: false" };
                    let event = |at| Event::of(EventKind::NodeReady, &self.id, at);
                    baton.happens(|at| event(at).with_message(Message::Says(text)));
                }
                let mut known = self.attributes.to_map();
                attributes::update(&mut known, attributes);
                self.attributes = Arc::new(known.into());
                baton.books.nodes.set_attributes(self.slot, &self.attributes);
                baton.directory.note_instance_type(self.slot, &self.attributes);
                baton.books.nodes.set_open(self.slot, self.is_open());
                baton.effects.nominated_nodes.insert(self.slot);
                baton.books.nodes.touch(self.slot);
                let is_new = |new: &Resources| !new.same_amount(&self.others.occupied);
                if let Some(occupied) = occupied.filter(is_new) {
                    self.others.make().occupied = occupied;
                    let event = |at| Event::of(EventKind::NodeOccupied, &self.id, at);
                    baton.happens(|at| event(at).amount(&self.others.occupied));
                }
                if let Some(total) = total {
                    let changed = !total.same_amount(&self.total);
                    self.total = Arc::new(total);
                    if changed {
                        let event = |at| Event::of(EventKind::NodeCapacity, &self.id, at);
                        baton.happens(|at| event(at).amount(&self.total));
                    }
                }
                self.recount(baton);
                let books = &baton.books;
                for who in books.reservations.too_large_for(&books.nodes, self.slot) {
                    baton.unreserve(who, End::NodeTooSmall);
                }
                self.unreserve_if_closed(baton);
            }
            NodeChange::Drain(draining) => {
                if self.draining != draining {
                    baton.happens(|at| Event::schedulable(&self.id, !draining, at));
                }
                self.set_draining(draining);
                baton.books.nodes.set_open(self.slot, self.is_open());
                baton.effects.nominated_nodes.insert(self.slot);
                self.unreserve_if_closed(baton);
                if baton.books.nodes.is_reserved(self.slot) {
                    baton.wake_named(self.slot, &self.id);
                }
            }
            NodeChange::Leave => {
                let mut stranded = std::mem::take(&mut self.holds);
                stranded.sort_unstable();
                return NodeReport::Leaves { stranded };
            }
            NodeChange::Foreign(report) => {
                let ForeignReport { key, resources, tags, priority, preemptable, created_ns } =
                    *report;
                let before = self.others.foreign.get(&key).map(|before| before.since_ns);
                if before.is_none() {
                    let event = |at| Event::of(EventKind::NodeAllocationAdded, &self.id, at);
                    let pod = tags.as_ref().and_then(|tags| tags.pod());
                    baton.happens(|at| event(at).referring(&key).of_pod(pod).amount(&resources));
                }
                let since_ns = created_ns.or(before).unwrap_or(baton.now_ns);
                let foreign = Foreign { resources, tags, priority, preemptable, since_ns };
                let others = self.others.make();
                others.foreign_bytes += foreign.bytes(&key);
                if let Some(before) = others.foreign.insert(Arc::clone(&key), foreign) {
                    others.foreign_bytes -= before.bytes(&key);
                }
                self.recount(baton);
            }
            NodeChange::ForeignGone(key) => {
                let others = self.others.find_mut();
                if let Some(others) = others
                    && let Some(gone) = others.foreign.remove(&key)
                {
                    others.foreign_bytes -= gone.bytes(&key);
                    let event = |at| Event::of(EventKind::NodeAllocationRemoved, &self.id, at);
                    let pod = gone.tags.as_ref().and_then(|tags| tags.pod());
                    let event = |at| event(at).referring(&key).of_pod(pod);
                    baton.happens(|at| event(at).amount(&gone.resources));
                    self.recount(baton);
                }
            }
        }
        if baton.books.nodes.is_reserved(self.slot) {
            // Growths count where a node is open to all; victims may be found on this one, too.
            baton.books.note_change();
        }
        NodeReport::Changed { given_up: self.given_up(baton) }
    }

    /// After a change that is not that of one allocation.
    fn recount(&mut self, baton: &mut Baton) {
        self.available = self.available_anew();
        let total = Arc::clone(&self.total);
        self.tell_index(baton, Some(&total));
        self.total = Arc::clone(baton.books.nodes.total(self.slot));
        baton.wake_named(self.slot, &self.id);
        if let Some((name, _)) = self.available.entries().find(|(_, quantity)| *quantity < 0) {
            tracing::info!(node = %self.id, resource = %name, "node is over-committed");
        }
    }

    /// What a node with these attributes counts as in quotas, apart from use by others.
    pub(crate) fn counted(attributes: &Texts) -> Held {
        let bytes = quotas::NODE_BYTES + quotas::bytes_of_texts(attributes.iter());
        Held { nodes: 1, bytes, ..Held::default() }
    }

    /// Its capacity, and how much of that is allocated.
    pub(crate) fn load(&self) -> (Resources, Resources) {
        ((*self.total).clone(), self.allocated.clone())
    }

    /// What is accounted of it, for a recommendation of its size.
    pub(crate) fn figures(&self) -> NodeFigures {
        NodeFigures {
            capacity: (*self.total).clone(),
            allocated: self.allocated.clone(),
            others: self.others(),
            is_draining: self.draining,
            is_empty: self.holds.is_empty(),
        }
    }

    /// What the node says of itself to an audit.
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

/// The `ready` attribute as bool text; missing or unparsable means ready.
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

    fn visit(&mut self, baton: Box<Baton>, mail: NodeMail, _ctx: &mut Self::Context) {
        match mail {
            NodeMail::Place(placement) => self.asked(baton, placement),
            NodeMail::Work(consequences) => self.worked(baton, *consequences),
            NodeMail::Survey(surveyor) => self.surveyed(baton, surveyor),
        }
    }
}

impl Node {
    /// A survey is here.
    fn surveyed(&mut self, mut baton: Box<Baton>, mut surveyor: Box<Surveyor>) {
        let _timer = baton.tally.message(ActorKind::Node);
        surveyor.survey.at_node(self, &mut baton);
        surveyor.go_on(baton);
    }

    /// A visit concerns this node.
    fn worked(&mut self, mut baton: Box<Baton>, mut consequences: Consequences) {
        let _timer = baton.tally.message(ActorKind::Node);
        let work = &mut consequences.node_work;
        // Everything in a row that is for this node is done at once.
        while work.last().is_some_and(|(slot, _)| *slot == self.slot)
            && let Some((_, work)) = work.pop()
        {
            self.work(work, &mut baton);
        }
        baton.follow(consequences);
    }

    /// An application wants a placement held, and is told whether it is, or why not.
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
        let _timer = baton.tally.message(ActorKind::Node);
        let settlement = self.confirm(&passed, &mut baton);
        answers.settled.extend(settlement.map(|settlement| (passed.question, settlement)));
        baton.take_answers(answers);
    }
}

impl Handler<Visit> for Node {
    type Result = ();

    fn handle(&mut self, Visit { mut baton, change }: Visit, _ctx: &mut Self::Context) {
        let _timer = baton.tally.message(ActorKind::Node);
        let leaves = matches!(change, NodeChange::Leave);
        let report = self.change(change, &mut baton);
        if !leaves {
            let mut counted = Self::counted(&self.attributes);
            counted.bytes += self.others.foreign_bytes;
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
