//! Asks of this application, or its gang, that would preempt others: `docs/preemption.md`.
//!
//! Whether one may look for victims is decided by a rule ([`Wish`]); who may is put on the baton, and
//! the partition looks for them when the step is home (`partition/surveys/victims.rs`). What it finds
//! comes back as an order to each application that it concerns.
//!
//! # Invariant
//! One deadline is armed for the next one that may look, however many there are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use monoceros_rules::asks::preemption::{NoPreemption, TRY_AGAIN, Tries};
use monoceros_rules::decide::preemption::Wish;
use monoceros_rules::pending::promises::Promisee;
use monoceros_rules::queues::QueueSettings;
use monoceros_rules::specs::ask::AskSpec;
use monoceros_rules::values::ids::AskSlot;
use monoceros_rules::values::instant::after;
use monoceros_rules::waiting::WaitSet;
use monoceros_rules::waiting::obstacle::Obstacle;

use super::Application;
use super::asking::Kind;
use super::ops::VisitEffects;
use crate::events::{EventKind, Message};
use crate::step::{Alarm, Baton, NoVictims, Op, Preemptor};

/// When asks of an application, or its gang, may look for victims.
#[derive(Default)]
pub(super) struct Preempting {
    /// When the one deadline is over that is armed, ns since the epoch.
    armed_ns: Option<i64>,
    /// Those that may look from then on.
    due: BTreeMap<Promisee, Due>,
}

#[derive(Clone, Copy)]
struct Due {
    /// ns since the epoch, if at any time.
    at_ns: Option<i64>,
    /// As soon as something changes, too.
    at_change: bool,
    /// The nodes that have room were tried for it in vain.
    nodes_were_tried: bool,
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
        self.wish(Promisee::Ask(self.reserver(slot)), nodes_were_tried, baton);
    }

    /// An ask found no room on the node that it requires: what is less important leaves the node.
    fn would_clear_its_node(&mut self, slot: AskSlot, obstacle: Obstacle, baton: &mut Baton) {
        let (ask, who) = (self.book.asks.ask(slot), self.reserver(slot));
        if obstacle != Obstacle::RequiredNode || ask.starts().is_some() {
            return;
        }
        // While others leave for it nobody else does.
        let is_promised = baton.books.promises.of(Promisee::Ask(who)).is_some();
        let node = ask.required_node.as_ref().and_then(|id| baton.books.nodes.slot_of(id));
        if let Some(node) = node.filter(|_| !is_promised) {
            baton.preemptors.push(Preemptor::ForNode(who, node));
        }
    }

    /// What an ask wants, in all and of nodes, if it is pending.
    pub(crate) fn pending(&self, slot: AskSlot) -> Option<(Arc<AskSpec>, Kind)> {
        let ask = self.book.asks.find(slot).filter(|ask| ask.outstanding > 0)?;
        Some((Arc::clone(&ask.spec), Kind::of(ask)))
    }

    /// Whether one may look for victims at this time.
    pub(super) fn may_preempt(&self, who: Promisee, baton: &Baton) -> Result<(), NoPreemption> {
        let tries = self.tries(who);
        let last = tries.and_then(|tries| tries.last(baton.books.changes(), baton.now_ns));
        let wish = Wish { last, ..self.wish_to_preempt(who, baton)? };
        if tries.is_some_and(|tries| tries.waits_for_promises) && !baton.books.promises.is_empty() {
            return Err(NoPreemption::NodesArePromised);
        }
        wish.may_try(baton.now_ns)
    }

    /// Whether one that looks for victims may have them, whenever it tried last: what lets it may have
    /// changed since it began to look, or since it was tried.
    pub(super) fn may_have_victims(
        &self,
        who: Promisee,
        baton: &Baton,
    ) -> Result<(), NoPreemption> {
        self.wish_to_preempt(who, baton)?.may_try(baton.now_ns)?;
        if !self.may_count(baton) {
            return Err(NoPreemption::MayNotStart);
        }
        let promises = &baton.books.promises;
        let gives_way =
            |slot: AskSlot| promises.bars(self.slot, self.book.asks.ask(slot).sequence).is_some();
        let is_barred = !promises.is_empty()
            && match who {
                Promisee::Ask(of) => gives_way(of.ask),
                Promisee::Gang(_) => self.undecided_bundle().is_some_and(|(_, bundled)| {
                    bundled.iter().flatten().any(|(slot, _)| gives_way(*slot))
                }),
            };
        if is_barred { Err(NoPreemption::GivesWay) } else { Ok(()) }
    }

    /// What one wants that would preempt others, beside when it tried last.
    fn wish_to_preempt(&self, who: Promisee, baton: &Baton) -> Result<Wish, NoPreemption> {
        if self.failed_starts(who).is_some() {
            return Err(NoPreemption::StartFailed);
        }
        if let Promisee::Ask(of) = who
            && self.book.asks.ask(of.ask).required_node.is_some()
        {
            // Whatever its queue is guaranteed.
            return Err(NoPreemption::RequiresNode);
        }
        let mut queues = baton.directory.upward(self.leaf_facts.slot);
        if !queues.any(|facts| facts.config.guaranteed.is_some()) {
            return Err(NoPreemption::NoGuarantee);
        }
        match who {
            Promisee::Ask(of) => {
                let ask = self.book.asks.ask(of.ask);
                Ok(Wish {
                    may_preempt: ask.preemption.of_others(),
                    created_ns: ask.created_ns,
                    ..self.wish_of(who, baton)
                })
            }
            Promisee::Gang(_) => self.wish_of_gang(baton),
        }
    }

    /// What a wish is whoever has it, beside its policy and age, and when it tried last.
    pub(super) fn wish_of(&self, who: Promisee, baton: &Baton) -> Wish {
        Wish {
            is_enabled: baton.preempts,
            may_preempt: false,
            has_preempted: baton.books.has_preempted(who),
            requires_node: false,
            created_ns: 0,
            delay: self.leaf_settings(baton).preemption_delay,
            last: None,
            again: TRY_AGAIN,
        }
    }

    /// What its leaf is set to now: what it took over of that itself may be older, since a reload that
    /// changes nothing of how applications are ordered does not visit them.
    pub(super) fn leaf_settings<'a>(&self, baton: &'a Baton) -> &'a QueueSettings {
        &baton.directory.queue(self.leaf_facts.slot).facts.config.settings
    }

    fn tries(&self, who: Promisee) -> Option<&Tries> {
        match who {
            Promisee::Ask(of) => self.book.asks.ask(of.ask).search.tries.as_deref(),
            Promisee::Gang(_) => self.bundle.as_ref()?.tries.as_deref(),
        }
    }

    fn tries_mut(&mut self, who: Promisee) -> &mut Tries {
        let tries = match who {
            Promisee::Ask(of) => &mut self.book.asks.ask_mut(of.ask).search.make().tries,
            Promisee::Gang(_) => &mut self.bundle.get_or_insert_default().tries,
        };
        tries.get_or_insert_default()
    }

    /// Why one does not preempt others at this time, or that it does; for people.
    pub(super) fn explained_preemption(&self, who: Promisee, baton: &Baton) -> String {
        if let Some(promise) = baton.books.promises.of(who) {
            let left = promise.victims.len();
            return format!("others leave for it, and {left} of them have still to go");
        }
        let tries = self.tries(who);
        match self.may_preempt(who, baton) {
            Ok(()) => String::new(),
            // What requires a node looks again as soon as something changes there.
            Err(why @ NoPreemption::RequiresNode) => {
                tries.and_then(|tries| tries.why.as_ref()).unwrap_or(&why).to_string()
            }
            Err(why @ (NoPreemption::TriedLately { .. } | NoPreemption::NothingChanged)) => {
                let (changes, now_ns) = (baton.books.changes(), baton.now_ns);
                let last = tries.and_then(|tries| tries.explained(changes, now_ns));
                last.unwrap_or_else(|| why.to_string())
            }
            Err(why) => why.to_string(),
        }
    }

    /// One that was not placed looks for victims when the step is home, or when it may.
    pub(super) fn wish(&mut self, who: Promisee, nodes_were_tried: bool, baton: &mut Baton) {
        let (at_ns, at_change) = match self.may_preempt(who, baton) {
            Ok(()) => {
                let tries = self.tries_mut(who);
                tries.last = Some((baton.now_ns, baton.books.changes()));
                (tries.why, tries.waits_for_promises, tries.bound_ends_ns) = (None, false, None);
                self.preempting_mut().due.remove(&who);
                baton.preemptors.push(Preemptor::ForGuarantee { who, nodes_were_tried });
                return;
            }
            Err(NoPreemption::TooYoung { until_ns } | NoPreemption::TriedLately { until_ns }) => {
                (Some(until_ns), false)
            }
            Err(NoPreemption::NothingChanged) => {
                (self.tries(who).and_then(|tries| tries.bound_ends_ns), true)
            }
            Err(NoPreemption::NodesArePromised) => (None, true),
            Err(_) => return,
        };
        self.preempting_mut().due.insert(who, Due { at_ns, at_change, nodes_were_tried });
        self.await_preemption(baton);
    }

    fn preempting_mut(&mut self) -> &mut Preempting {
        self.preempting.get_or_insert_default()
    }

    /// Has it reminded of the next ask that may look for victims.
    fn await_preemption(&mut self, baton: &mut Baton) {
        let (application, id) = (self.slot, Arc::clone(&self.book.id));
        let preempting = self.preempting_mut();
        if preempting.due.values().any(|due| due.at_change) {
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

    /// The leaf is set otherwise: whoever waits is tried again, and it is found out anew who may look for
    /// victims, and when.
    pub(super) fn look_for_victims_anew(&mut self, baton: &mut Baton) {
        self.book.asks.wake_all(&baton.books.nodes);
        if let Some(bundle) = self.bundle.as_mut().filter(|bundle| bundle.air.is_none()) {
            bundle.waits = WaitSet::Due;
        }
        if let Some(preempting) = &mut self.preempting {
            preempting.due.values_mut().for_each(|due| due.at_change = true);
            baton.revisits.push((self.slot, Op::MayPreempt { at_ns: None }));
        }
    }

    /// Those that waited for this time, or for a change, may look for victims.
    pub(super) fn look_for_victims(
        &mut self,
        at_ns: Option<i64>,
        baton: &mut Baton,
        effects: &mut VisitEffects,
    ) {
        let Some(preempting) = &mut self.preempting else { return };
        if at_ns.is_some() {
            if preempting.armed_ns != at_ns {
                return;
            }
            preempting.armed_ns = None;
        }
        let now_ns = baton.now_ns;
        let is_due = |due: &Due| due.at_change || due.at_ns.is_some_and(|at_ns| at_ns <= now_ns);
        let due = preempting.due.iter().filter(|(_, due)| is_due(due));
        let due: Vec<_> = due.map(|(who, due)| (*who, due.nodes_were_tried)).collect();
        for (who, nodes_were_tried) in due {
            self.preempting_mut().due.remove(&who);
            if !self.is_asking(who) {
                continue;
            }
            if let Promisee::Ask(of) = who
                && self.book.asks.ask(of.ask).required_node.is_some()
            {
                self.try_again(of.ask, effects);
                continue;
            }
            if self.tries(who).is_some() {
                self.tries_mut(who).waits_for_promises = false;
            }
            self.wish(who, nodes_were_tried, baton);
        }
        let Some(preempting) = &self.preempting else { return };
        if preempting.due.is_empty() {
            self.preempting = None;
        } else {
            self.await_preemption(baton);
        }
    }

    /// Whether one waits in vain still. What is due is tried anyway, and wishes again if that is in
    /// vain.
    fn is_asking(&self, who: Promisee) -> bool {
        match who {
            Promisee::Ask(of) => {
                let asks = &self.book.asks;
                let class = asks.find(of.ask).and_then(|_| asks.class_of(of.ask));
                class.is_some_and(|class| *asks.waits_of(class) != WaitSet::Due)
            }
            Promisee::Gang(_) => {
                let bundle = self.bundle.as_ref().filter(|_| self.undecided_bundle().is_some());
                bundle.is_some_and(|bundle| bundle.waits != WaitSet::Due)
            }
        }
    }

    /// No victims were found for the ask with this key, or for the gang.
    pub(super) fn not_preempted(&mut self, key: Option<&str>, found: NoVictims, baton: &mut Baton) {
        let NoVictims { why, nodes_were_tried, changes, bound_ends_ns } = found;
        let slot = key.and_then(|key| self.book.asks.slot_of(key));
        let slot = slot.filter(|slot| self.book.asks.class_of(*slot).is_some());
        let who = match slot {
            Some(slot) => Promisee::Ask(self.reserver(slot)),
            None if key.is_none() && self.undecided_bundle().is_some() => Promisee::Gang(self.slot),
            // It is not pending any more.
            None => return,
        };
        tracing::debug!(application = %self.book.id, ask = key, %why, "nothing is preempted");
        if let Some(slot) = slot.filter(|slot| self.book.asks.ask(*slot).required_node.is_some()) {
            return self.node_not_cleared(slot, why, bound_ends_ns, baton);
        }
        let waits = why == NoPreemption::NodesArePromised && !baton.books.promises.is_empty();
        let last = (!waits).then_some((baton.now_ns, changes));
        let tries = self.tries_mut(who);
        (tries.waits_for_promises, tries.why, tries.last) = (waits, Some(why), last);
        tries.bound_ends_ns = bound_ends_ns;
        if waits {
            baton.directory.wait_for_promises(self.slot, baton.books.promises.len());
        }
        self.wish(who, nodes_were_tried, baton);
    }

    /// What an ask waits for may have come: it is tried with the next offer.
    fn try_again(&mut self, slot: AskSlot, effects: &mut VisitEffects) {
        if self.book.asks.ask(slot).is_reserved() {
            effects.touched |= self.book.asks.wake_at_reserved(slot);
        } else if let Some(class) = self.book.asks.class_of(slot) {
            self.book.asks.set_waits(class, WaitSet::Due);
            effects.touched = true;
        }
    }

    /// Nobody leaves the node that an ask requires: it is tried again then, though nothing may change
    /// on the node.
    fn wait_with_node(&mut self, who: Promisee, at_ns: i64, baton: &mut Baton) {
        let at_ns = Some(at_ns);
        let due = Due { at_ns, at_change: false, nodes_were_tried: true };
        self.preempting_mut().due.insert(who, due);
        self.await_preemption(baton);
    }

    /// Nothing leaves the node that an ask requires: that is told, unless it was a moment ago. The ask
    /// is tried again when something changes there, also where it does not fit a full cluster; a while
    /// later if it was the RM that refused, or something that is not of the node; and when a bound ends
    /// that keeps somebody there.
    fn node_not_cleared(
        &mut self,
        slot: AskSlot,
        why: NoPreemption,
        bound_ends_ns: Option<i64>,
        baton: &mut Baton,
    ) {
        if let Some(node) = &self.book.asks.ask(slot).required_node {
            baton.directory.named.enter(node, self.slot);
        }
        if why == NoPreemption::Refused
            && let Some(class) = self.book.asks.class_of(slot)
        {
            let waits = self.book.asks.waits_of(class).clone();
            self.book.asks.single_out(slot, waits);
            self.arm_retry(slot, baton);
        }
        let waits = matches!(
            why,
            NoPreemption::OverLimits | NoPreemption::OverMaximum | NoPreemption::RoomIsComing
        );
        let changes = baton.books.changes();
        let tries = self.book.asks.ask_mut(slot).search.make().tries.get_or_insert_default();
        tries.why = Some(why);
        let who = Promisee::Ask(self.reserver(slot));
        if waits {
            return self.wait_with_node(who, after(baton.now_ns, TRY_AGAIN), baton);
        }
        if let Some(at_ns) = bound_ends_ns {
            self.wait_with_node(who, at_ns, baton);
        }
        let tries = self.tries_mut(who);
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
            self.keep_promise(slot, node, baton);
            self.reserve(slot, node, WaitSet::Due, baton);
        }
        let books = &mut baton.books;
        books.reservations.note_preempted(&mut books.nodes, self.reserver(slot));
        self.counts_as_running(baton);
        effects.touched = true;
    }
}
