//! The preemptors of one application: whether its asks, or its gang, may search for victims now,
//! and what they request.

use std::sync::Arc;

use super::asking::Kind;
use super::conditions::Wish;
use super::turns::Turn;
use crate::applications::application::Application;
use crate::asks::failed_starts::FailedStarts;
use crate::asks::preemption::{NoPreemption, TRY_AGAIN, Tries};
use crate::books::Books;
use crate::decide::gang::GangSearch;
use crate::limits::LaneId;
use crate::pending::nominations::Preemptor;
use crate::pending::reservations::Reserver;
use crate::queues::QueueSettings;
use crate::specs::ask::AskSpec;
use crate::values::ids::{ApplicationSlot, AskSlot};
use crate::waiting::WaitSet;

/// An application whose asks, or whose gang, would preempt others, with the facts that decide it.
pub struct Preemptors<'a> {
    /// The application.
    pub book: &'a Application,
    /// The slot of the application in the directory.
    pub slot: ApplicationSlot,
    /// The slot of its leaf.
    pub leaf: u32,
    /// The settings of its leaf.
    pub settings: &'a QueueSettings,
    /// Whether its leaf or a queue above has a guarantee.
    pub is_guaranteed: bool,
    /// Whether the partition has preemption switched on.
    pub is_enabled: bool,
    /// The lane of the application, if its user or group has limits.
    pub lane: Option<LaneId>,
    /// Whether the application counts among the running applications of its lane.
    pub counts: bool,
    /// The search for places of its declared gang.
    pub gang: Option<&'a GangSearch>,
    /// The books.
    pub books: &'a Books,
    /// The present time, ns since the epoch.
    pub now_ns: i64,
}

impl<'a> Preemptors<'a> {
    /// Returns an ask of the application as a preemptor.
    pub fn ask(&self, ask: AskSlot) -> Preemptor {
        Preemptor::Ask(Reserver { application: self.slot, ask })
    }

    /// Returns the pending ask with this key; without a key, the undecided gang.
    pub fn named(&self, key: Option<&str>) -> Option<Preemptor> {
        let Some(key) = key else {
            return self.book.undecided_bundle().map(|_| Preemptor::Gang(self.slot));
        };
        let slot = self.book.asks.slot_of(key)?;
        self.book.asks.class_of(slot).map(|_| self.ask(slot))
    }

    /// Whether a preemptor is still parked. If it is due, it is tried with the next offer, and has
    /// its turn after that.
    pub fn is_waiting(&self, who: Preemptor) -> bool {
        match who {
            Preemptor::Ask(of) => {
                let asks = &self.book.asks;
                let class = asks.find(of.ask).and_then(|_| asks.class_of(of.ask));
                class.is_some_and(|class| *asks.waits_of(class) != WaitSet::Due)
            }
            Preemptor::Gang(_) => {
                let gang = self.gang.filter(|_| self.book.undecided_bundle().is_some());
                gang.is_some_and(|gang| !gang.is_due())
            }
        }
    }

    /// Returns the specification of a pending ask, and its request for nodes.
    pub fn pending(&self, slot: AskSlot) -> Option<(Arc<AskSpec>, Kind)> {
        let ask = self.book.asks.find(slot).filter(|ask| ask.outstanding > 0)?;
        Some((Arc::clone(&ask.spec), Kind::of(ask)))
    }

    /// Returns the earlier tries of a preemptor.
    pub fn tries(&self, who: Preemptor) -> Option<&'a Tries> {
        match who {
            Preemptor::Ask(of) => self.book.asks.ask(of.ask).search.tries.as_deref(),
            Preemptor::Gang(_) => self.gang?.tries(),
        }
    }

    /// Whether a preemptor may search for victims now.
    ///
    /// # Errors
    /// The first reason why it may not.
    pub fn may_try(&self, who: Preemptor) -> Result<(), NoPreemption> {
        let tries = self.tries(who);
        let last = tries.and_then(|tries| tries.last(self.books.changes(), self.now_ns));
        let wish = Wish { last, ..self.wish(who)? };
        if tries.is_some_and(|tries| tries.waits_for_nominations)
            && !self.books.nominations.is_empty()
        {
            return Err(NoPreemption::NodesAreNominated);
        }
        wish.may_try(self.now_ns)
    }

    /// Whether a preemptor whose turn it is may have victims, without regard to its last try. The
    /// facts may have changed since it was given its turn.
    ///
    /// # Errors
    /// The first reason why it may not.
    pub fn may_have_victims(&self, who: Preemptor) -> Result<(), NoPreemption> {
        self.wish(who)?.may_try(self.now_ns)?;
        let lane = self.lane.filter(|_| !self.counts);
        if lane.is_some_and(|lane| !self.books.trackers.may_start(lane)) {
            return Err(NoPreemption::MayNotStart);
        }
        if self.gives_way(who) { Err(NoPreemption::GivesWay) } else { Ok(()) }
    }

    /// Whether an allocation of the application was evicted for another preemptor, which comes
    /// first.
    fn gives_way(&self, who: Preemptor) -> bool {
        let nominations = &self.books.nominations;
        if nominations.is_empty() {
            return false;
        }
        let is_barred = |slot: AskSlot| {
            nominations.bars(self.slot, self.book.asks.ask(slot).sequence).is_some()
        };
        match who {
            Preemptor::Ask(of) => is_barred(of.ask),
            Preemptor::Gang(_) => self.book.undecided_bundle().is_some_and(|(_, bundled)| {
                bundled.iter().flatten().any(|(slot, _)| is_barred(*slot))
            }),
        }
    }

    /// Returns the starts of a preemptor that failed since one succeeded.
    fn failed_starts(&self, who: Preemptor) -> Option<&FailedStarts> {
        match who {
            Preemptor::Ask(of) => self.book.asks.ask(of.ask).starts(),
            Preemptor::Gang(_) => self.book.native()?.starts.as_deref(),
        }
    }

    /// Returns the facts of a preemptor, without its earlier tries.
    fn wish(&self, who: Preemptor) -> Result<Wish, NoPreemption> {
        if self.failed_starts(who).is_some() {
            return Err(NoPreemption::StartFailed);
        }
        if let Preemptor::Ask(of) = who
            && self.book.asks.ask(of.ask).required_node.is_some()
        {
            // The guarantee of its queue makes no difference.
            return Err(NoPreemption::RequiresNode);
        }
        if !self.is_guaranteed {
            return Err(NoPreemption::NoGuarantee);
        }
        let (may_preempt, created_ns) = match who {
            Preemptor::Ask(of) => {
                let ask = self.book.asks.ask(of.ask);
                (ask.preemption.of_others(), ask.created_ns)
            }
            // All of its members have to be allowed to preempt, and its age counts from its
            // admission.
            Preemptor::Gang(_) => {
                let (_, bundled) = self.book.undecided_bundle().ok_or(NoPreemption::NotNeeded)?;
                let mut asks = bundled.iter().flatten().map(|(slot, _)| self.book.asks.ask(*slot));
                let declared_ns = self.gang.map_or(self.now_ns, GangSearch::declared_ns);
                (asks.all(|ask| ask.preemption.of_others()), declared_ns)
            }
        };
        Ok(Wish {
            is_enabled: self.is_enabled,
            may_preempt,
            has_preempted: self.books.has_preempted(who),
            requires_node: false,
            created_ns,
            delay: self.settings.preemption_delay,
            last: None,
            again: TRY_AGAIN,
        })
    }

    /// Returns the turn of a preemptor that was not placed. `nodes_were_tried`: nodes with capacity
    /// were tried for it without result.
    pub fn turn(&self, who: Preemptor, nodes_were_tried: bool) -> Turn {
        let bound_ends_ns = self.tries(who).and_then(|tries| tries.bound_ends_ns);
        Turn::of(&self.may_try(who), bound_ends_ns, nodes_were_tried)
    }

    /// Returns the reason why a preemptor does not preempt others now, or that it does, for people;
    /// empty if it may.
    pub fn explained(&self, who: Preemptor) -> String {
        if let Some(nomination) = self.books.nominations.of(who) {
            let left = nomination.victims.len();
            return format!("others leave for it, and {left} of them have still to go");
        }
        let tries = self.tries(who);
        match self.may_try(who) {
            Ok(()) => String::new(),
            // An ask that requires a node is tried again after each change on the node.
            Err(why @ NoPreemption::RequiresNode) => {
                tries.and_then(|tries| tries.why.as_ref()).unwrap_or(&why).to_string()
            }
            Err(why @ (NoPreemption::TriedLately { .. } | NoPreemption::NothingChanged)) => {
                let last = tries.and_then(|it| it.explained(self.books.changes(), self.now_ns));
                last.unwrap_or_else(|| why.to_string())
            }
            Err(why) => why.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::preemption::Later;
    use crate::nodes::NodeOrder;
    use crate::specs::ask::Preemption;
    use crate::specs::declaration::DeclaredGroup;
    use crate::values::resources::Resources;

    fn one() -> Resources {
        Resources::of(&[("vcore", 1)])
    }

    fn book(group: Option<DeclaredGroup>) -> Application {
        Application::small(group)
    }

    fn with<T>(book: &Application, look: impl FnOnce(Preemptors<'_>) -> T) -> T {
        let (books, settings) = (Books::new(NodeOrder::default()), QueueSettings::default());
        look(Preemptors {
            book,
            slot: ApplicationSlot::at(0),
            leaf: 0,
            settings: &settings,
            is_guaranteed: true,
            is_enabled: true,
            lane: None,
            counts: false,
            gang: None,
            books: &books,
            now_ns: 0,
        })
    }

    #[test]
    fn only_pending_asks_are_preemptors() {
        let mut book = book(None);
        let (slot, _) = book.asks.put(AskSpec::new("a", one()), 0, 1);
        with(&book, |of| {
            assert_eq!(of.named(Some("a")), Some(of.ask(slot)));
            assert_eq!([of.named(Some("b")), of.named(None)], [None, None]);
            assert!(of.pending(slot).is_some());
        });
        book.asks.take_one(slot);
        with(&book, |of| assert!(of.named(Some("a")).is_none() && of.pending(slot).is_none()));
    }

    #[test]
    fn an_ask_that_is_due_does_not_wait() {
        let mut book = book(None);
        let (slot, _) = book.asks.put(AskSpec::new("a", one()), 0, 1);
        assert!(with(&book, |of| !of.is_waiting(of.ask(slot))));
        let class = book.asks.class_of(slot).unwrap();
        book.asks.set_waits(class, WaitSet::Nothing);
        assert!(with(&book, |of| of.is_waiting(of.ask(slot))));
    }

    #[test]
    fn an_undecided_gang_is_a_preemptor_without_a_key() {
        let mut book = book(Some(DeclaredGroup::new("w", 2, Some(one()))));
        book.ask_internally(ApplicationSlot::at(0), 0, || 1);
        let gang = Preemptor::Gang(ApplicationSlot::at(0));
        assert_eq!(with(&book, |of| of.named(None)), Some(gang));
    }

    #[test]
    fn a_young_ask_has_its_turn_later() {
        let mut book = book(None);
        let spec = AskSpec { preemption: Preemption::Others, ..AskSpec::new("a", one()) };
        let (slot, _) = book.asks.put(spec, 0, 1);
        let delay = i64::try_from(QueueSettings::default().preemption_delay.as_nanos()).unwrap();
        let later = Later { at_ns: Some(delay), at_change: false, nodes_were_tried: true };
        assert_eq!(with(&book, |of| of.turn(of.ask(slot), true)), Turn::Later(later));
    }
}
