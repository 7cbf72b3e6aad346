//! The preemptors that one search for victims serves, and their requests for nodes: asks of one
//! class, one after another, or a declared gang as a whole.

use std::cell::RefCell;
use std::sync::Arc;

use super::{Demand, Judge, Preemptors, Trial};
use crate::asks::Ask;
use crate::asks::preemption::NoPreemption;
use crate::books::Books;
use crate::limits::LaneId;
use crate::nodes::{Domain, Exclusion, NodeIndex, NodeRequest, Taken, Terms, Wish};
use crate::pending::nominations::Preemptor;
use crate::pending::reservations::EffectivePriority;
use crate::specs::ask::{AskSpec, Form};
use crate::specs::tags::Tags;
use crate::values::ids::{AllocationId, ApplicationSlot, AskSlot, ClassId, NodeSlot};
use crate::values::resources::Resources;

/// The maximum number of asks of one class that one search serves.
const TOGETHER: usize = 4_096;

/// The preemptors of one search, all of one application.
pub struct Asking {
    /// Their application.
    pub application: ApplicationSlot,
    /// The slot of their leaf.
    pub leaf: u32,
    /// The priority of each preemptor; of a gang, the lowest priority of its members.
    pub priority: i32,
    /// The lane of the application, if its user or group has limits.
    pub lane: Option<LaneId>,
    /// Whether the application does not count among the running applications yet.
    pub is_starting: bool,
    /// The preemptors, in the order in which each gets its own plan. A gang has no specification.
    pub preemptors: Vec<(Preemptor, Option<Arc<AskSpec>>)>,
    /// The kinds of members of one preemptor. An ask has one kind with one member.
    kinds: Vec<Kind>,
    /// The kind of each member of a preemptor, as an index into `kinds`.
    members: Vec<usize>,
}

/// The reason why an ask, or a gang, may have no victims now.
pub struct NoVictimsFor {
    /// The key of the ask; `None` for a gang.
    pub key: Option<Arc<str>>,
    /// The reason.
    pub why: NoPreemption,
}

/// The request of equal members of a preemptor for nodes.
pub struct Kind {
    amount: Resources,
    /// The key by which the RM knows them; `None` if it does not know them.
    key: Option<Arc<str>>,
    /// The index of their task group in the declaration.
    group: usize,
    required: Option<Arc<str>>,
    excluded: Vec<Exclusion>,
    /// The terms of their placement constraint, how many of its choices may be used, and the
    /// application whose held places count.
    wish: Option<(Arc<Terms>, usize, Option<ApplicationSlot>)>,
    /// The domain in which their group has to stay, if it has one already.
    domain: Option<Arc<Domain>>,
    /// The attribute of the domain that is still to be chosen for their group, if the group has to
    /// stay in one.
    together: Option<Arc<str>>,
    tags: Option<Tags>,
}

impl Kind {
    /// The kind of a single ask.
    pub fn of(ask: &Ask) -> Self {
        let is_known = ask.form != Form::Internal;
        Self {
            amount: Resources::clone(&ask.resources),
            key: is_known.then(|| Arc::clone(&ask.key)),
            group: 0,
            required: ask.required_node.clone(),
            excluded: ask.request().excluded.to_vec(),
            wish: ask.wish().map(|wish| (Arc::clone(wish.terms()), wish.open(), wish.wish().mates)),
            domain: ask.search.domain.clone(),
            together: None,
            tags: ask.spec.tags.clone(),
        }
    }

    /// Whether one of them may use the node once the allocations `gone` are evicted, by its
    /// placement constraint and the nodes that the RM excluded.
    pub fn may_use(&self, node: NodeSlot, gone: &[AllocationId], nodes: &NodeIndex) -> bool {
        nodes.admits(node, &self.request(gone))
    }

    fn request<'a>(&'a self, gone: &'a [AllocationId]) -> NodeRequest<'a> {
        NodeRequest {
            excluded: &self.excluded,
            wish: self.wish.as_ref().map(|(terms, open, mates)| Wish {
                terms,
                open: *open,
                gone,
                mates: *mates,
            }),
            domains: self.domain.as_deref().map_or(&[], std::slice::from_ref),
            ..NodeRequest::of(&self.amount)
        }
    }
}

impl Preemptors<'_> {
    /// Returns a preemptor whose turn it is, together with the asks of its class that may preempt,
    /// too. `None` if it is not pending any more.
    ///
    /// # Errors
    /// The reason why it may have no victims now.
    pub fn asking(&self, who: Preemptor) -> Option<Result<Asking, NoVictimsFor>> {
        let (asking, key) = match who {
            Preemptor::Ask(of) => {
                let asks = &self.book.asks;
                let ask = asks.find(of.ask).filter(|ask| ask.outstanding > 0)?;
                let class = asks.class_of(of.ask)?;
                (Asking::of_asks(self, ask, self.like(of.ask, class)), Some(ask.key.clone()))
            }
            Preemptor::Gang(_) => (Asking::of_gang(self)?, None),
        };
        Some(match self.may_have_victims(who) {
            Ok(()) => Ok(asking),
            Err(why) => Err(NoVictimsFor { key, why }),
        })
    }

    /// Returns an ask, and those of its class that may preempt, too.
    fn like(&self, slot: AskSlot, class: ClassId) -> impl Iterator<Item = AskSlot> {
        let may_look = move |other: &AskSlot| {
            let who = self.ask(*other);
            *other != slot && self.may_try(who).is_ok() && self.may_have_victims(who).is_ok()
        };
        let others = self.book.asks.members_of_class(class).filter(may_look);
        // With a constraint, the node of one ask may decide which nodes the next ask may use.
        let has_constraint = self.book.asks.ask(slot).constraint.is_some();
        let together = if has_constraint { 1 } else { TOGETHER };
        std::iter::once(slot).chain(others.take(together - 1))
    }
}

impl Asking {
    /// Preemptors for asks of one class.
    fn of_asks(who: &Preemptors<'_>, ask: &Ask, preemptors: impl Iterator<Item = AskSlot>) -> Self {
        let named = |slot| {
            let spec = Arc::clone(&who.book.asks.ask(slot).spec);
            (who.ask(slot), Some(spec))
        };
        Self {
            application: who.slot,
            leaf: who.leaf,
            priority: ask.priority,
            lane: who.lane,
            is_starting: who.book.is_starting(),
            preemptors: preemptors.map(named).collect(),
            kinds: vec![Kind::of(ask)],
            members: vec![0],
        }
    }

    /// A preemptor for the gang, if it is still undecided.
    fn of_gang(who: &Preemptors<'_>) -> Option<Self> {
        let (native, bundled) = who.book.undecided_bundle()?;
        let asks = &who.book.asks;
        let (mut kinds, mut members) = (Vec::new(), Vec::new());
        for (group, (of, declared)) in bundled.iter().zip(native.groups()).enumerate() {
            for (slot, count) in of {
                let together = declared.required_domain().map(Arc::from);
                members.extend(std::iter::repeat_n(kinds.len(), *count as usize));
                kinds.push(Kind { group, together, ..Kind::of(asks.ask(*slot)) });
            }
        }
        let priorities = bundled.iter().flatten().map(|(slot, _)| asks.ask(*slot).priority);
        Some(Self {
            application: who.slot,
            leaf: who.leaf,
            priority: priorities.min()?,
            lane: who.lane,
            is_starting: who.book.is_starting(),
            preemptors: vec![(Preemptor::Gang(who.slot), None)],
            kinds,
            members,
        })
    }

    /// Returns the priority of a preemptor in each queue of its path.
    pub fn effective(&self, books: &Books) -> EffectivePriority {
        EffectivePriority::in_leaf(&books.queues, self.leaf, self.priority)
    }

    /// Whether the preemptor is a gang: all members are placed, or none.
    pub fn is_gang(&self) -> bool {
        matches!(self.preemptors.first(), Some((Preemptor::Gang(_), _)))
    }

    /// Returns one preemptor for a plan. `leaf` is the index of its leaf among the surveyed queues.
    /// `nodes_were_tried`: nodes with capacity were tried for it without result.
    pub fn preemptor(&self, leaf: usize, nodes_were_tried: bool) -> Demand {
        let amounts = self.members.iter().map(|kind| self.kinds[*kind].amount.clone());
        Demand {
            nodes_were_tried,
            is_gang: self.is_gang(),
            members: amounts.collect(),
            ..Demand::ask(self.application, leaf, self.priority, Resources::new())
        }
    }

    /// Returns the amount of all members of one preemptor.
    pub fn total(&self) -> Resources {
        let mut total = Resources::new();
        for kind in &self.members {
            total.add(&self.kinds[*kind].amount);
        }
        total
    }

    /// Returns the request of an ask for nodes, and its amount.
    pub fn wanted(&self) -> (&Kind, &Resources) {
        let kind = &self.kinds[self.members[0]];
        (kind, &kind.amount)
    }

    /// Whether the RM knows this member of a preemptor.
    pub fn has_ask(&self, member: usize) -> bool {
        self.kinds[self.members[member]].key.is_some()
    }

    /// Returns the key by which the RM knows this member of this preemptor.
    pub fn key_of(&self, preemptor: usize, member: usize) -> Option<&Arc<str>> {
        let own = self.preemptors.get(preemptor).and_then(|(_, spec)| Some(&spec.as_ref()?.key));
        own.or(self.kinds[self.members[member]].key.as_ref())
    }

    /// Returns the index of a member's task group in the declaration, and the member's amount.
    pub fn room_of(&self, member: usize) -> (usize, &Resources) {
        let kind = &self.kinds[self.members[member]];
        (kind.group, &kind.amount)
    }
}

/// Judges which nodes a preemptor may use, by its placement constraints and its topology.
pub struct MayUse<'a> {
    asking: &'a Asking,
    nodes: RefCell<&'a mut NodeIndex>,
    /// Domains that were tried without result for a group.
    avoided: &'a [(usize, Domain)],
    /// The domain that was tried last for a group of which some members had places already.
    tried: RefCell<Option<(usize, Domain)>>,
}

impl<'a> MayUse<'a> {
    /// A judge that has tried no domain yet.
    pub fn new(
        asking: &'a Asking,
        nodes: &'a mut NodeIndex,
        avoided: &'a [(usize, Domain)],
    ) -> Self {
        Self { asking, nodes: RefCell::new(nodes), avoided, tried: RefCell::default() }
    }

    /// Returns the domain that was tried last for a group of which some members had places already.
    pub fn tried(self) -> Option<(usize, Domain)> {
        self.tried.into_inner()
    }

    fn kind(&self, member: usize) -> &'a Kind {
        &self.asking.kinds[self.asking.members[member]]
    }

    /// Whether the node is in the domain of the member's group, or in one that may be chosen for
    /// it.
    fn is_with_its_group(&self, kind: &Kind, trial: &Trial<'_>, nodes: &NodeIndex) -> bool {
        let Some(key) = &kind.together else { return true };
        let domain = |node: NodeSlot| Some(Domain::new(key, nodes.attribute(node, key)?));
        let Some(here) = domain(trial.node) else { return false };
        let mut mates = trial.mates.iter();
        let mate = mates.find(|(member, _)| self.kind(*member).group == kind.group);
        let Some((_, mate)) = mate else {
            return !self.avoided.contains(&(kind.group, here));
        };
        let chosen = domain(*mate);
        let is_it = chosen.as_ref() == Some(&here);
        *self.tried.borrow_mut() = chosen.map(|chosen| (kind.group, chosen));
        is_it
    }
}

impl Judge for MayUse<'_> {
    fn suits(&self, trial: &Trial<'_>) -> bool {
        let kind = self.kind(trial.member);
        let nodes: &mut NodeIndex = &mut self.nodes.borrow_mut();
        let is_required =
            kind.required.as_ref().is_none_or(|required| required == nodes.id(trial.node));
        if !is_required || !self.is_with_its_group(kind, trial, nodes) {
            return false;
        }
        let request = kind.request(trial.gone);
        if kind.wish.is_none() || trial.mates.is_empty() {
            return nodes.admits(trial.node, &request);
        }
        // Constraints count the other members, too, on the nodes of their places.
        let mut there = Taken::default();
        for (mate, node) in trial.mates {
            there.suppose(nodes, *node, self.kind(*mate).tags.as_ref());
        }
        let admits = nodes.admits(trial.node, &request);
        there.undo(nodes);
        admits
    }

    fn could_suit(&self, member: usize, node: NodeSlot) -> bool {
        self.nodes.borrow().could_admit(node, &self.kind(member).request(&[]))
    }

    fn searches_victims(&self) -> bool {
        let counts = |(terms, ..): &(Arc<Terms>, usize, Option<ApplicationSlot>)| terms.counts();
        self.asking.kinds.iter().any(|kind| kind.wish.as_ref().is_some_and(counts))
    }
}
