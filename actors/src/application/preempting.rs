//! Asks of this application that would preempt others, and allocations of it that are preempted:
//! `docs/preemption.md`.
//!
//! Whether an ask may look for victims is decided by a rule ([`Wish`]); an ask that may is put on the
//! baton, and the partition looks for them when the step is home (`partition/surveys/victims.rs`).
//! What it finds comes back as an order to each application that it concerns.
//!
//! # Invariants
//! * What is preempted holds what it held until its RM confirms that it is gone; it counts as
//!   *preempting* in every queue of its path exactly as long.
//! * One deadline is armed for the next ask that may look, however many there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::decide::parking::Obstacle;
use monoceros_rules::decide::preemption::{
    ApplicationFacts, Grounds, GroupFacts, NoPreemption, Promisee, TRY_AGAIN, Wish, goes_as_one,
};
use monoceros_rules::nodes::{Domain, NodeIndex, NodeSlot, Terms, Wish as NodeWish};
use monoceros_rules::order::waits::WaitSet;
use monoceros_rules::values::resources::Resources;
use monoceros_rules::work::allocations::{Allocation, AllocationId, ApplicationSlot, Leaving};
use monoceros_rules::work::asks::{AskSlot, AskSpec};

use super::Application;
use super::ops::VisitEffects;
use crate::events::{Event, EventKind, Message};
use crate::partition::surveys::Together;
use crate::step::{Alarm, Baton, Ending, Goal, Notice, Preemptor, QueueSlot, Released};

/// How many asks of one class are given victims by one survey at most.
const TOGETHER: usize = 4_096;

/// When asks of an application may look for victims.
#[derive(Default)]
pub(super) struct Preempting {
    /// When the one deadline is over that is armed, ns since the epoch.
    armed_ns: Option<i64>,
    /// The asks that may look from then on; whether the nodes with room were tried for them.
    due: BTreeMap<AskSlot, Due>,
}

#[derive(Clone, Copy)]
struct Due {
    /// ns since the epoch; none: as soon as something changes.
    at_ns: Option<i64>,
    nodes_were_tried: bool,
}

/// An ask that looks for victims, and those like it.
pub(crate) struct Asking {
    pub(crate) leaf: QueueSlot,
    pub(crate) amount: Resources,
    pub(crate) priority: i32,
    /// The asks, in order, each with its key.
    pub(crate) members: Vec<(AskSlot, Arc<str>)>,
    /// Nodes that they may not use for a while.
    pub(crate) excluded: Vec<Arc<str>>,
    /// What their placement constraint expects of nodes: the terms, how many of their choices may be
    /// used, and whose held places count.
    pub(crate) wish: Option<(Arc<Terms>, usize, Option<ApplicationSlot>)>,
    /// The domain in which their task group stays.
    pub(crate) domain: Option<Arc<Domain>>,
}

impl Asking {
    /// Whether they may use the node if these allocations were gone.
    pub(crate) fn may_use(&self, node: NodeSlot, gone: &[AllocationId], nodes: &NodeIndex) -> bool {
        let is_wished = self.wish.as_ref().is_none_or(|(terms, open, mates)| {
            nodes.is_as_wished(node, &NodeWish { terms, open: *open, gone, mates: *mates })
        });
        let domains = self.domain.as_deref().map_or(&[][..], std::slice::from_ref);
        is_wished && nodes.is_within(node, domains) && !self.excluded.contains(nodes.id(node))
    }
}

/// Looking for victims.
impl Application {
    /// An ask was parked: if it may preempt others, victims are looked for when the step is home.
    pub(super) fn would_preempt(&mut self, slot: AskSlot, obstacle: Obstacle, baton: &mut Baton) {
        if self.book.asks.ask(slot).required_node.is_some() {
            return self.would_clear_its_node(slot, obstacle, baton);
        }
        let nodes_were_tried = match obstacle {
            Obstacle::Quota => false,
            Obstacle::NoNode | Obstacle::Constraints | Obstacle::Refused => true,
            _ => return,
        };
        self.wish(slot, nodes_were_tried, baton);
    }

    /// An ask found no room on the node that it requires, or none in a cluster that is full: what is
    /// less important leaves the node, if no other quota keeps the ask.
    fn would_clear_its_node(&mut self, slot: AskSlot, obstacle: Obstacle, baton: &mut Baton) {
        let ask = self.book.asks.ask(slot);
        let fits_below_root = || {
            let mut below = baton.offer.frames.iter().skip(1);
            below.all(|frame| {
                let max = frame.facts.config.max.as_ref();
                max.is_none_or(|max| max.less(&frame.allocated).allows(&ask.resources))
            })
        };
        let fits = match obstacle {
            Obstacle::RequiredNode => true,
            Obstacle::Quota => fits_below_root(),
            _ => false,
        };
        let who = self.reserver(slot);
        let has_preempted = baton.books.promises.of(Promisee::Ask(who)).is_some();
        let node = ask.required_node.as_ref().and_then(|id| baton.books.nodes.slot_of(id));
        if let Some(node) = node.filter(|_| fits && !has_preempted) {
            baton.preemptors.push(Preemptor { ask: who, goal: Goal::Node(node) });
        }
    }

    /// What an ask wants, if it is pending.
    pub(crate) fn pending_spec(&self, slot: AskSlot) -> Option<Arc<AskSpec>> {
        let ask = self.book.asks.find(slot).filter(|ask| ask.outstanding > 0)?;
        Some(Arc::clone(&ask.spec))
    }

    /// What of it goes together, where something of it may be taken.
    pub(crate) fn together(&self, baton: &Baton) -> Together {
        let table = &baton.books.allocations;
        let alive = self.all_allocations().into_iter();
        let alive = alive.filter(|id| table.get(*id).is_some_and(|it| it.leaving.is_none()));
        let alive: Vec<AllocationId> = alive.collect();
        let mut short = BTreeSet::new();
        let native = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref());
        for group in native.map(|native| native.groups()).unwrap_or_default() {
            let real = alive.iter().filter(|id| {
                table.get(**id).is_some_and(|it| it.spec.member_of() == Some(&group.name))
            });
            let real: Vec<AllocationId> = real.copied().collect();
            if real.len() <= group.min_members as usize {
                short.extend(real);
            }
        }
        let goes_as_one = goes_as_one(self.book.tags.as_ref());
        Together { mates: if goes_as_one { alive } else { Vec::new() }, short }
    }

    /// Whether the ask may look for victims at this time.
    pub(super) fn may_preempt(&self, slot: AskSlot, baton: &Baton) -> Result<(), NoPreemption> {
        let ask = self.book.asks.ask(slot);
        let promises = &baton.books.promises;
        let tries = ask.tries.as_deref();
        if tries.is_some_and(|tries| tries.waits_for_promises) && !promises.is_empty() {
            return Err(NoPreemption::NodesArePromised);
        }
        let wish = Wish {
            is_enabled: baton.preempts,
            may_preempt: ask.preemption.of_others(),
            has_preempted: promises.of(Promisee::Ask(self.reserver(slot))).is_some(),
            requires_node: ask.required_node.is_some(),
            created_ns: ask.created_ns,
            delay: self.leaf_facts.config.settings.preemption_delay,
            last: tries.and_then(|tries| tries.last(baton.books.changes())),
            again: TRY_AGAIN,
        };
        let mut queues = baton.directory.upward(self.leaf_facts.slot);
        if !queues.any(|facts| facts.config.guaranteed.is_some()) {
            return Err(NoPreemption::NoGuarantee);
        }
        wish.may_try(baton.now_ns)
    }

    /// Why an ask does not preempt others at this time, or that it does; for people.
    pub(super) fn explained_preemption(&self, slot: AskSlot, baton: &Baton) -> String {
        let who = Promisee::Ask(self.reserver(slot));
        if let Some(promise) = baton.books.promises.of(who) {
            let left = promise.victims.len();
            return format!("others leave for it, and {left} of them have still to go");
        }
        let ask = self.book.asks.ask(slot);
        let last = ask.tries.as_ref().and_then(|tries| tries.why.as_ref());
        match (self.may_preempt(slot, baton), last) {
            (
                Err(
                    NoPreemption::TriedLately { .. }
                    | NoPreemption::NothingChanged
                    | NoPreemption::RequiresNode,
                ),
                Some(why),
            ) => why.to_string(),
            (Err(why), _) => why.to_string(),
            (Ok(()), _) => String::new(),
        }
    }

    fn wish(&mut self, slot: AskSlot, nodes_were_tried: bool, baton: &mut Baton) {
        let at_ns = match self.may_preempt(slot, baton) {
            Ok(()) => {
                let tries = self.book.asks.ask_mut(slot).tries.get_or_insert_default();
                tries.last = Some((baton.now_ns, baton.books.changes()));
                (tries.why, tries.waits_for_promises) = (None, false);
                self.preempting_mut().due.remove(&slot);
                let (ask, goal) = (self.reserver(slot), Goal::Guarantee { nodes_were_tried });
                baton.preemptors.push(Preemptor { ask, goal });
                return;
            }
            Err(NoPreemption::TooYoung { until_ns } | NoPreemption::TriedLately { until_ns }) => {
                Some(until_ns)
            }
            Err(NoPreemption::NothingChanged | NoPreemption::NodesArePromised) => None,
            Err(_) => return,
        };
        self.preempting_mut().due.insert(slot, Due { at_ns, nodes_were_tried });
        self.await_preemption(baton);
    }

    fn preempting_mut(&mut self) -> &mut Preempting {
        self.preempting.get_or_insert_default()
    }

    /// Has it reminded of the next ask that may look for victims.
    fn await_preemption(&mut self, baton: &mut Baton) {
        let (application, id) = (self.slot, Arc::clone(&self.book.id));
        let preempting = self.preempting_mut();
        if preempting.due.values().any(|due| due.at_ns.is_none()) {
            baton.directory.preempt_later.insert(application);
        }
        let Some(at_ns) = preempting.due.values().filter_map(|due| due.at_ns).min() else { return };
        if preempting.armed_ns.is_some_and(|armed| armed <= at_ns) {
            return;
        }
        preempting.armed_ns = Some(at_ns);
        let wait_ns = u64::try_from(at_ns.saturating_sub(baton.now_ns)).unwrap_or(0);
        let alarm = Alarm::MayPreempt { application, id, at_ns };
        baton.alarms.push((Duration::from_nanos(wait_ns), alarm));
    }

    /// Asks that waited for this time, or for a change, may look for victims.
    pub(super) fn look_for_victims(&mut self, at_ns: Option<i64>, baton: &mut Baton) {
        let Some(preempting) = &mut self.preempting else { return };
        if at_ns.is_some() {
            if preempting.armed_ns != at_ns {
                return;
            }
            preempting.armed_ns = None;
        }
        let now_ns = baton.now_ns;
        let is_due = |due: &Due| due.at_ns.is_none_or(|at_ns| at_ns <= now_ns);
        let due: Vec<_> = preempting
            .due
            .iter()
            .filter(|(_, due)| is_due(due))
            .map(|(at, it)| (*at, *it))
            .collect();
        for (slot, Due { nodes_were_tried, .. }) in due {
            self.preempting_mut().due.remove(&slot);
            let asks = &mut self.book.asks;
            let Some(class) = asks.find(slot).and_then(|_| asks.class_of(slot)) else { continue };
            // What is due is tried anyway, and comes back here if it is in vain.
            if *asks.waits_of(class) == WaitSet::Due {
                continue;
            }
            if let Some(tries) = &mut asks.ask_mut(slot).tries {
                tries.waits_for_promises = false;
            }
            self.wish(slot, nodes_were_tried, baton);
        }
        let Some(preempting) = &self.preempting else { return };
        if preempting.due.is_empty() {
            self.preempting = None;
        } else {
            self.await_preemption(baton);
        }
    }

    /// What is to be known of an ask that looks for victims, and of those like it that may, too;
    /// none where it is not pending any more.
    pub(crate) fn asking(&self, slot: AskSlot, baton: &Baton) -> Option<Asking> {
        let ask = self.book.asks.find(slot)?;
        let class = ask.outstanding.gt(&0).then(|| self.book.asks.class_of(slot))??;
        let delay = self.leaf_facts.config.settings.preemption_delay;
        let delay_ns = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let others = self.book.asks.members_of_class(class);
        let is_old = |slot: &AskSlot| {
            let ask = self.book.asks.ask(*slot);
            ask.created_ns.saturating_add(delay_ns) <= baton.now_ns && ask.tries.is_none()
        };
        let others = others.filter(|other| *other != slot).filter(is_old);
        // Where one goes may decide where the next one may.
        let together = if ask.constraint.is_some() { 1 } else { TOGETHER };
        let members = std::iter::once(slot).chain(others.take(together - 1));
        Some(Asking {
            leaf: self.leaf_facts.slot,
            amount: ask.resources.clone(),
            priority: ask.priority,
            members: members.map(|at| (at, Arc::clone(&self.book.asks.ask(at).key))).collect(),
            excluded: ask.request().excluded.iter().map(|it| Arc::clone(&it.node)).collect(),
            domain: ask.domain.clone(),
            wish: ask.wish().map(|wish| {
                let mates = wish.wish().mates;
                (Arc::clone(wish.terms()), wish.open(), mates)
            }),
        })
    }

    /// What is to be known of this application where something of it may be taken for another.
    /// Without a winner it is for a queue that is above its maximum.
    pub(crate) fn losing(
        &self,
        queue: usize,
        winner: Option<ApplicationSlot>,
        baton: &Baton,
    ) -> ApplicationFacts {
        let (evictions, now_ns) = (&baton.books.evictions, baton.now_ns);
        let bounds = &self.leaf_facts.config.settings.eviction;
        let native = self.book.gang.as_ref().and_then(|gang| gang.native.as_ref());
        let groups = native.map(|native| {
            let groups = native.groups().iter();
            groups.map(|group| GroupFacts {
                name: group.name.clone(),
                min_members: group.min_members,
            })
        });
        ApplicationFacts {
            allowance: evictions.allowance(self.slot, bounds, now_ns),
            is_barred: winner.is_some_and(|winner| evictions.is_barred(winner, self.slot, now_ns)),
            goes_as_one: goes_as_one(self.book.tags.as_ref()),
            groups: groups.into_iter().flatten().collect(),
            ..ApplicationFacts::of(self.slot, queue)
        }
    }

    /// No victims were found for an ask.
    pub(super) fn not_preempted(&mut self, key: &str, why: NoPreemption, baton: &mut Baton) {
        let Some(slot) = self.book.asks.slot_of(key) else { return };
        if self.book.asks.class_of(slot).is_none() {
            return;
        }
        tracing::debug!(application = %self.book.id, ask = key, %why, "nothing is preempted");
        if self.book.asks.ask(slot).required_node.is_some() {
            return self.node_not_cleared(slot, why, baton);
        }
        let waits = why == NoPreemption::NodesArePromised && !baton.books.promises.is_empty();
        let changes = baton.books.changes();
        let tries = self.book.asks.ask_mut(slot).tries.get_or_insert_default();
        tries.waits_for_promises = waits;
        tries.why = Some(why);
        tries.last = (!waits).then_some((baton.now_ns, changes));
        if waits {
            baton.directory.wait_for_promises(self.slot, baton.books.promises.len());
        }
        let nodes_were_tried = true;
        self.wish(slot, nodes_were_tried, baton);
    }

    /// Nothing leaves the node that an ask requires: that is told, unless it was a moment ago. The ask
    /// is tried again when something changes there.
    fn node_not_cleared(&mut self, slot: AskSlot, why: NoPreemption, baton: &mut Baton) {
        let changes = baton.books.changes();
        let tries = self.book.asks.ask_mut(slot).tries.get_or_insert_default();
        tries.why = Some(why);
        let again_ns = i64::try_from(TRY_AGAIN.as_nanos()).unwrap_or(i64::MAX);
        if tries.last.is_some_and(|(at_ns, _)| baton.now_ns < at_ns.saturating_add(again_ns)) {
            return;
        }
        tries.last = Some((baton.now_ns, changes));
        let ask = self.book.asks.ask(slot);
        let node = ask.required_node.clone().unwrap_or_else(|| Arc::from(""));
        let event = |at| self.request(EventKind::NodeNotCleared, ask, at);
        baton.happens(|at| event(at).with_message(Message::NodeNotCleared(node)));
    }

    /// Others leave this node for an ask, which has it reserved from now on. The promise is made
    /// already.
    pub(super) fn promised(
        &mut self,
        key: &str,
        node: &str,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let (Some(slot), Some(node)) =
            (self.book.asks.slot_of(key), baton.books.nodes.slot_of(node))
        else {
            debug_assert!(false, "the ask and its node were looked at in this step");
            return;
        };
        self.cancel_claim(slot, baton);
        self.displace(slot, baton);
        let reserved = baton.books.reservations.of(self.reserver(slot)).map(|it| it.node);
        if reserved.is_some_and(|reserved| reserved != node) {
            baton.move_reservation(self.reserver(slot));
            self.book.asks.unreserve(slot);
        }
        if reserved != Some(node) {
            self.reserve(slot, node, WaitSet::Due, baton);
        }
        self.counts_as_running(baton);
        effects.touched = true;
    }
}

/// Being preempted.
impl Application {
    /// These allocations are preempted. Places that are held end at once: the RM does not know of
    /// them.
    pub(super) fn preempted(
        &mut self,
        ids: &[AllocationId],
        grounds: &Arc<Grounds>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let mut lost_holds = false;
        for id in ids {
            let Some(entry) = baton.books.allocations.get_mut(*id) else { continue };
            if entry.leaving.is_some() {
                continue;
            }
            if entry.is_hold() {
                lost_holds = true;
                self.end_hold(*id, EventKind::AllocationPreempted, None, baton, effects);
                continue;
            }
            entry.leaving = Some(Leaving::Preempted);
            entry.preempted_for = Some(Arc::clone(grounds));
            effects.delta.preempting.add(entry.resources());
            effects.touched = true;
            let (key, amount) = (Arc::clone(entry.key()), entry.resources().clone());
            let is_placeholder = entry.spec.placeholder;
            let message = grounds.to_string();
            let released = Released::of(&self.book.id, entry, Ending::Preempted, message);
            tracing::debug!(application = %self.book.id, allocation = %entry.uuid, why = %grounds,
                "preempted");
            baton.notices.push(Notice::Released(Box::new(released)));
            let event = |at| Event::of(EventKind::VictimChosen, &key, at);
            let message = Message::Preempted(Arc::clone(grounds));
            effects.happens(baton, |at| {
                event(at).referring(&self.book.id).amount(&amount).with_message(message)
            });
            if is_placeholder {
                self.take_free(*id, baton);
            }
        }
        if lost_holds {
            self.holds_lost(baton, effects);
        }
    }

    /// A preempted allocation is gone.
    pub(super) fn note_preempted(
        id: AllocationId,
        entry: &Allocation,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        if entry.leaving == Some(Leaving::Preempted) {
            effects.delta.preempting.subtract(entry.resources());
            baton.books.promises.confirmed(id);
        }
    }

    /// Another was placed, or not, for which something of this application was taken, or was to be:
    /// whatever waited for that is looked at again.
    pub(super) fn promise_over(&mut self, baton: &Baton, effects: &mut VisitEffects) {
        self.book.asks.wake_all(&baton.books.nodes);
        (effects.touched, effects.loosens) = (true, true);
    }
}

impl Baton {
    /// A promise was made just now: it is over after a while at the latest.
    pub(crate) fn watch_promises(&mut self) {
        self.alarms.push((self.patience.wait_timeout, Alarm::PromisesWaited));
    }

    /// The promise of an asker is over: whoever made room for it is looked at again, and whoever
    /// waits for nodes that are promised, once half of them are not.
    pub(crate) fn end_promise(&mut self, promisee: Promisee, is_placed: bool) {
        let Some(promise) = self.books.promises.end(promisee) else { return };
        let mut concerned = promise.losers;
        // Where it was placed, what was promised is used now: nobody in its queues has more room.
        concerned.extend((!is_placed).then_some(promisee.application()));
        concerned.retain(|slot| self.directory.application(*slot).is_some());
        for slot in concerned {
            self.revisits.push((slot, crate::step::Op::PromiseOver));
        }
        let left = self.books.promises.len();
        for slot in self.directory.wake_for_promises(left) {
            self.revisits.push((slot, crate::step::Op::MayPreempt { at_ns: None }));
        }
    }

    /// A reservation for which others were to leave was refused its node.
    pub(crate) fn promise_refused(&mut self, promisee: Promisee) {
        let is_over =
            self.books.promises.of(promisee).is_some_and(|promise| promise.victims.is_empty());
        if is_over {
            self.end_promise(promisee, false);
        }
    }
}
