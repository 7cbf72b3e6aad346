//! The preemptors of one application: whether its asks, or its gang, may look for victims now, and what
//! they want.

use super::conditions::Wish;
use crate::applications::application::Application;
use crate::asks::failed_starts::FailedStarts;
use crate::asks::preemption::{NoPreemption, TRY_AGAIN, Tries};
use crate::books::Books;
use crate::limits::LaneId;
use crate::pending::nominations::Preemptor;
use crate::pending::reservations::Reserver;
use crate::queues::QueueSettings;
use crate::values::ids::{ApplicationSlot, AskSlot};

/// An application whose asks, or whose gang, would preempt others, with the facts that decide it.
pub struct Preemptors<'a> {
    /// The application.
    pub book: &'a Application,
    /// Its place in the directory.
    pub slot: ApplicationSlot,
    /// The slot of its leaf.
    pub leaf: u32,
    /// The settings of its leaf.
    pub settings: &'a QueueSettings,
    /// Whether its leaf or a queue above has a guarantee.
    pub is_guaranteed: bool,
    /// Whether the partition has preemption switched on.
    pub is_enabled: bool,
    /// The lane of the application, if something limits its user or group.
    pub lane: Option<LaneId>,
    /// Whether the application counts among those that run in its lane.
    pub counts: bool,
    /// When the gang was declared, ns since the epoch, and the tries of the gang.
    pub gang: Option<(i64, Option<&'a Tries>)>,
    /// The books.
    pub books: &'a Books,
    /// ns since the epoch.
    pub now_ns: i64,
}

impl<'a> Preemptors<'a> {
    /// An ask of the application, as a preemptor.
    pub fn ask(&self, ask: AskSlot) -> Preemptor {
        Preemptor::Ask(Reserver { application: self.slot, ask })
    }

    /// The earlier tries of a preemptor.
    pub fn tries(&self, who: Preemptor) -> Option<&'a Tries> {
        match who {
            Preemptor::Ask(of) => self.book.asks.ask(of.ask).search.tries.as_deref(),
            Preemptor::Gang(_) => self.gang?.1,
        }
    }

    /// Whether a preemptor may look for victims now.
    ///
    /// # Errors
    /// The first reason why not.
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

    /// Whether a preemptor whose turn it is may have victims, whenever it tried last. What lets it may
    /// have changed since it was given its turn, or since it was tried.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn may_have_victims(&self, who: Preemptor) -> Result<(), NoPreemption> {
        self.wish(who)?.may_try(self.now_ns)?;
        let lane = self.lane.filter(|_| !self.counts);
        if lane.is_some_and(|lane| !self.books.trackers.may_start(lane)) {
            return Err(NoPreemption::MayNotStart);
        }
        if self.gives_way(who) { Err(NoPreemption::GivesWay) } else { Ok(()) }
    }

    /// Whether something of the application was taken for another, which comes first.
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

    /// The starts of a preemptor that failed since one succeeded.
    fn failed_starts(&self, who: Preemptor) -> Option<&FailedStarts> {
        match who {
            Preemptor::Ask(of) => self.book.asks.ask(of.ask).starts(),
            Preemptor::Gang(_) => self.book.native()?.starts.as_deref(),
        }
    }

    /// The facts of a preemptor, without its earlier tries.
    fn wish(&self, who: Preemptor) -> Result<Wish, NoPreemption> {
        if self.failed_starts(who).is_some() {
            return Err(NoPreemption::StartFailed);
        }
        if let Preemptor::Ask(of) = who
            && self.book.asks.ask(of.ask).required_node.is_some()
        {
            // Whatever the guarantee of its queue.
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
            // All of its groups have to be allowed to, and it is as old as its admission.
            Preemptor::Gang(_) => {
                let (_, bundled) = self.book.undecided_bundle().ok_or(NoPreemption::NotNeeded)?;
                let mut asks = bundled.iter().flatten().map(|(slot, _)| self.book.asks.ask(*slot));
                let declared_ns = self.gang.map_or(self.now_ns, |(declared_ns, _)| declared_ns);
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

    /// The reason why a preemptor does not preempt others now, or that it does, for people; empty if it
    /// may.
    pub fn explained(&self, who: Preemptor) -> String {
        if let Some(nomination) = self.books.nominations.of(who) {
            let left = nomination.victims.len();
            return format!("others leave for it, and {left} of them have still to go");
        }
        let tries = self.tries(who);
        match self.may_try(who) {
            Ok(()) => String::new(),
            // An ask that requires a node looks again as soon as something changes there.
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
