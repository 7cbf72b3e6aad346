//! Who looks for victims, and what they want of nodes: asks that are alike, one after another, or a
//! declared gang as a whole. Collected here, where the asks are, for the partition to plan with
//! (`partition/surveys/victims.rs`).

use std::cell::RefCell;
use std::sync::Arc;

use monoceros_rules::asks::Ask;
use monoceros_rules::asks::preemption::NoPreemption;
use monoceros_rules::books::Books;
use monoceros_rules::decide::preemption::{Asker, Judge, Trial};
use monoceros_rules::limits::LaneId;
use monoceros_rules::nodes::{Domain, Exclusion, NodeIndex, NodeRequest, Taken, Terms, Wish};
use monoceros_rules::pending::promises::Promisee;
use monoceros_rules::pending::reservations::EffectivePriority;
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::specs::tags::Tags;
use monoceros_rules::values::ids::{AllocationId, ApplicationSlot, AskSlot, ClassId, NodeSlot};
use monoceros_rules::values::resources::Resources;

use super::Application;
use crate::step::{Baton, QueueSlot};

/// How many asks of one class are given victims by one survey at most.
const TOGETHER: usize = 4_096;

/// Who looks for victims.
pub(crate) struct Asking {
    pub(crate) application: ApplicationSlot,
    pub(crate) leaf: QueueSlot,
    pub(crate) priority: i32,
    /// The lane of the application, if something limits its user or group.
    pub(crate) lane: Option<LaneId>,
    /// The application has no place yet among those that run.
    pub(crate) is_starting: bool,
    /// Each gets a plan of its own, in order: asks, with what they ask for; or the gang, which is none.
    pub(crate) askers: Vec<(Promisee, Option<Arc<AskSpec>>)>,
    /// What one asker consists of: one kind with one member for asks.
    kinds: Vec<Kind>,
    /// Of each member of an asker, its kind.
    members: Vec<usize>,
}

/// Why an ask with this key has no victims; without a key, a gang.
pub(crate) struct NoVictimsFor {
    pub(crate) key: Option<Arc<str>>,
    pub(crate) why: NoPreemption,
}

/// What members of an asker that are alike want of nodes.
pub(crate) struct Kind {
    amount: Resources,
    /// The key by which the RM knows them; none: it does not.
    key: Option<Arc<str>>,
    /// The place of their task group in the declaration.
    group: usize,
    required: Option<Arc<str>>,
    excluded: Vec<Exclusion>,
    /// Of their placement constraint the terms, how many of its choices may be used, and whose held
    /// places count.
    wish: Option<(Arc<Terms>, usize, Option<ApplicationSlot>)>,
    /// The domain in which their group stays already.
    domain: Option<Arc<Domain>>,
    /// The attribute of which their group has to be in one domain that is still to be chosen.
    together: Option<Arc<str>>,
    tags: Option<Tags>,
}

impl Kind {
    pub(super) fn of(ask: &Ask) -> Self {
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

    /// Whether one of them may use the node once these are gone, as far as its placement constraint and
    /// what the RM said of it are concerned.
    pub(crate) fn may_use(&self, node: NodeSlot, gone: &[AllocationId], nodes: &NodeIndex) -> bool {
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

impl Asking {
    /// Its priority in each queue of its path.
    pub(crate) fn effective(&self, books: &Books) -> EffectivePriority {
        EffectivePriority::in_leaf(&books.queues, self.leaf.0, self.priority)
    }

    /// They are a gang, of which all members get places, or none.
    pub(crate) fn is_gang(&self) -> bool {
        matches!(self.askers.first(), Some((Promisee::Gang(_), _)))
    }

    /// One asker, whose leaf stands there among the queues surveyed. The nodes that have room may have
    /// been tried for it in vain.
    pub(crate) fn asker(&self, leaf: usize, nodes_were_tried: bool) -> Asker {
        let amounts = self.members.iter().map(|kind| self.kinds[*kind].amount.clone());
        Asker {
            nodes_were_tried,
            is_gang: self.is_gang(),
            members: amounts.collect(),
            ..Asker::ask(self.application, leaf, self.priority, Resources::new())
        }
    }

    /// What one asker wants in all.
    pub(crate) fn total(&self) -> Resources {
        let mut total = Resources::new();
        for kind in &self.members {
            total.add(&self.kinds[*kind].amount);
        }
        total
    }

    /// What an ask wants of nodes, and of resources.
    pub(crate) fn wanted(&self) -> (&Kind, &Resources) {
        let kind = &self.kinds[self.members[0]];
        (kind, &kind.amount)
    }

    /// Whether the RM knows of this member of an asker.
    pub(crate) fn has_ask(&self, member: usize) -> bool {
        self.kinds[self.members[member]].key.is_some()
    }

    /// By which key it does, where this is the asker.
    pub(crate) fn key_of(&self, asker: usize, member: usize) -> Option<&Arc<str>> {
        let own = self.askers.get(asker).and_then(|(_, spec)| Some(&spec.as_ref()?.key));
        own.or(self.kinds[self.members[member]].key.as_ref())
    }

    /// What a member of an asker takes, and the place of its task group in the declaration.
    pub(crate) fn room_of(&self, member: usize) -> (usize, &Resources) {
        let kind = &self.kinds[self.members[member]];
        (kind.group, &kind.amount)
    }
}

/// Nodes that an asker may use: where its placement constraints and its topology are asked.
pub(crate) struct MayUse<'a> {
    asking: &'a Asking,
    nodes: RefCell<&'a mut NodeIndex>,
    /// Domains that were tried in vain for a group.
    avoided: &'a [(usize, Domain)],
    /// The domain that was tried last for a group of which not all members had places yet.
    tried: RefCell<Option<(usize, Domain)>>,
}

impl<'a> MayUse<'a> {
    pub(crate) fn new(
        asking: &'a Asking,
        nodes: &'a mut NodeIndex,
        avoided: &'a [(usize, Domain)],
    ) -> Self {
        Self { asking, nodes: RefCell::new(nodes), avoided, tried: RefCell::default() }
    }

    /// The domain that was tried last for a group of which not all members had places yet.
    pub(crate) fn tried(self) -> Option<(usize, Domain)> {
        self.tried.into_inner()
    }

    fn kind(&self, member: usize) -> &'a Kind {
        &self.asking.kinds[self.asking.members[member]]
    }

    /// Whether the node lies in the domain where the group of the member is, or may be.
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
        // Constraints count the other members, too, where they would be.
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

    fn looks_at_victims(&self) -> bool {
        let counts = |(terms, ..): &(Arc<Terms>, usize, Option<ApplicationSlot>)| terms.counts();
        self.asking.kinds.iter().any(|kind| kind.wish.as_ref().is_some_and(counts))
    }
}

impl Application {
    /// What is to be known of one who looks for victims; `None` where it asks no more.
    ///
    /// # Errors
    /// Why it may not have any now.
    pub(crate) fn asking(
        &self,
        who: Promisee,
        baton: &Baton,
    ) -> Option<Result<Asking, NoVictimsFor>> {
        let (asking, key) = match who {
            Promisee::Ask(who) => {
                let ask = self.book.asks.find(who.ask).filter(|ask| ask.outstanding > 0)?;
                let class = self.book.asks.class_of(who.ask)?;
                (self.asks_asking(who.ask, class, baton), Some(Arc::clone(&ask.key)))
            }
            Promisee::Gang(_) => (self.gang_asking()?, None),
        };
        let may = self.may_have_victims(who, baton);
        Some(may.map(|()| asking).map_err(|why| NoVictimsFor { key, why }))
    }

    /// An ask, and those like it that may look, too.
    fn asks_asking(&self, slot: AskSlot, class: ClassId, baton: &Baton) -> Asking {
        let ask = self.book.asks.ask(slot);
        let may_look = |other: &AskSlot| {
            let who = Promisee::Ask(self.reserver(*other));
            *other != slot
                && self.may_preempt(who, baton).is_ok()
                && self.may_have_victims(who, baton).is_ok()
        };
        let others = self.book.asks.members_of_class(class).filter(may_look);
        // Where one goes may decide where the next one may.
        let together = if ask.constraint.is_some() { 1 } else { TOGETHER };
        let asks = std::iter::once(slot).chain(others.take(together - 1));
        let named = |slot| {
            let spec = Arc::clone(&self.book.asks.ask(slot).spec);
            (Promisee::Ask(self.reserver(slot)), Some(spec))
        };
        Asking {
            application: self.slot,
            leaf: self.leaf_facts.slot,
            priority: ask.priority,
            lane: self.limited_lane(),
            is_starting: self.book.is_starting(),
            askers: asks.map(named).collect(),
            kinds: vec![Kind::of(ask)],
            members: vec![0],
        }
    }

    /// The gang, as long as places are looked for.
    fn gang_asking(&self) -> Option<Asking> {
        let (native, bundled) = self.undecided_bundle()?;
        let (mut kinds, mut members) = (Vec::new(), Vec::new());
        for (group, (of, declared)) in bundled.iter().zip(native.groups()).enumerate() {
            for (slot, count) in of {
                let ask = self.book.asks.ask(*slot);
                let together = declared.required_domain().map(Arc::from);
                members.extend(std::iter::repeat_n(kinds.len(), *count as usize));
                kinds.push(Kind { group, together, ..Kind::of(ask) });
            }
        }
        let priorities =
            bundled.iter().flatten().map(|(slot, _)| self.book.asks.ask(*slot).priority);
        Some(Asking {
            application: self.slot,
            leaf: self.leaf_facts.slot,
            priority: priorities.min()?,
            lane: self.limited_lane(),
            is_starting: self.book.is_starting(),
            askers: vec![(Promisee::Gang(self.slot), None)],
            kinds,
            members,
        })
    }
}
