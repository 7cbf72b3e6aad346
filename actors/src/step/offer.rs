//! An offer under way: its frames, and the rows it chooses from.
//!
//! # Why frames
//! An offer that went home after each decision would pass every queue twice per decision. Instead
//! it leaves a frame per queue. A frame holds all that is needed to see whether the path is still
//! the first choice: the offer stays below as long as every frame comes before its runner-up, and
//! the decisions are the same as those of single offers.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use monoceros_rules::audit::Decision;
use monoceros_rules::decide::explain::QueueRoom;
use monoceros_rules::limits::LaneId;
use monoceros_rules::nodes::NodeIndex;
use monoceros_rules::order::keys::{ApplicationKey, QueueKey, SiblingOrder, Verdict};
use monoceros_rules::order::ledger::LedgerDelta;
use monoceros_rules::queues::figures::QueueTable;
use monoceros_rules::values::epoch::Loosening;
use monoceros_rules::values::resources::{Limits, Resources, Sum};
use monoceros_rules::waiting::{Phase, View, Waits};

use super::slots::RowSlot;
use crate::queue::QueueFacts;

/// Nodes that may refuse within one offer before it goes home, so that other steps get their turn.
const REFUSALS_PER_TRIP: u32 = 1_024;

/// An offer under way.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Default)]
pub(crate) struct Offering {
    /// The phase of the offer: which asks it may decide now.
    pub(crate) phase: Phase,
    /// One frame per queue on the way down, root first.
    pub(crate) frames: Vec<Frame>,
    /// The runner-up of the child or application that the offer goes to next: the key that it must
    /// stay ahead of.
    pub(crate) runner_up: Option<RowKey>,
    /// The rule that put the child or application before its runner-up; set only where decisions
    /// are kept.
    pub(crate) verdict: Verdict,
    /// Whether records of decisions are kept, with the rule that put each row before its runner-up.
    pub(crate) explains: bool,
    /// The sum of all decisions so far. The part that a queue has still to add to its totals is the
    /// difference to its frame's [`charged_before`](Frame::charged_before).
    pub(crate) charged: LedgerDelta,
    /// The number of decisions so far; the offer goes home after `budget` decisions.
    pub(crate) decided: u32,
    pub(crate) budget: u32,
    /// The number of nodes that have refused so far; at [`REFUSALS_PER_TRIP`] the offer goes home,
    /// too.
    pub(crate) refused: u32,
    /// The last decision without a notice of its own; read by the full search of tests.
    pub(crate) silent: Option<Decision>,
    /// Whether each decision is compared with a full search.
    pub(crate) is_watched: bool,
    /// Whether predicates are answered later: a node holds a placement until the RM has answered.
    pub(crate) asks_later: bool,
    /// Whether predicates are asked also about places to be held for members of declared gangs.
    /// Otherwise these places pass without a question, where predicates are answered later.
    pub(crate) asks_about_holds: bool,
    /// The most frames that may stay after the last decision: the queues below them have to be
    /// chosen again.
    pub(crate) rise_to: usize,
    /// Whether root found no child that may use the offer.
    pub(crate) is_without_result: bool,
}

/// A queue on the path of an offer.
pub(crate) struct Frame {
    pub(crate) facts: Arc<QueueFacts>,
    /// The headroom below this queue, after subtracting nominations; shrinks with each decision.
    pub(crate) headroom: Limits,
    /// The headroom without subtracting nominations; `None` while there are none.
    pub(crate) with_nominated: Option<Box<Limits>>,
    /// The latest loosening of quota from root to here.
    pub(crate) loosening: Loosening,
    pub(crate) may_start: bool,
    /// Whether this queue or one above limits the number of running applications.
    pub(crate) counts_running: bool,
    /// The queue's own totals, with this offer's decisions. The pending sum is used only for the
    /// queue's key, and is kept only if there is a runner-up to compare with.
    pub(crate) allocated: Resources,
    pub(crate) pending: Sum,
    pub(crate) priority: i32,
    /// The runner-up among this queue's siblings: while the queue's own key is smaller, the offer
    /// may stay below.
    pub(crate) runner_up: Option<RowKey>,
    /// The rule that put this queue before its runner-up; set only where decisions are kept.
    pub(crate) verdict: Verdict,
    /// The number of the loosening, if a decision below gave this queue more headroom.
    pub(crate) loosened: Loosening,
    /// The sum of the offer's decisions that the queue has taken into its totals, or that were made
    /// before the offer came here.
    pub(crate) charged_before: LedgerDelta,
}

impl Frame {
    /// Returns the view of an offer in this phase. In the phase of reserved nodes, nominations are
    /// not subtracted from the headroom, because an ask with a reserved node may have a nomination.
    pub(crate) fn view<'a>(
        &'a self,
        phase: Phase,
        nodes: &'a NodeIndex,
        queues: &'a QueueTable,
    ) -> View<'a> {
        View {
            headroom: if phase == Phase::Reserved { self.whole() } else { &self.headroom },
            loosening: self.loosening,
            may_start: self.may_start,
            nodes: Some(nodes),
            limits: None,
            queues: Some(queues),
        }
    }

    /// Returns the headroom without subtracting nominations.
    pub(crate) fn whole(&self) -> &Limits {
        self.with_nominated.as_deref().unwrap_or(&self.headroom)
    }

    fn rooms(&mut self) -> impl Iterator<Item = &mut Limits> {
        std::iter::once(&mut self.headroom).chain(self.with_nominated.as_deref_mut())
    }

    /// Subtracts this amount from the pending sum.
    fn pends_less(&mut self, resources: &Resources) {
        if self.runner_up.is_some() {
            self.pending.subtract(resources);
        }
    }

    /// Whether this queue still comes before its runner-up.
    fn leads(&mut self, explains: bool) -> bool {
        let Some(runner_up) = &self.runner_up else {
            return true;
        };
        let key = self.facts.key(self.priority, &self.allocated, self.pending.shown());
        let key = RowKey::Queue(key);
        if explains {
            self.verdict = key.verdict(Some(runner_up), self.facts.sibling_order());
        }
        key < *runner_up
    }
}

impl Offering {
    /// Charges a placement to every queue on the path.
    pub(crate) fn charge(&mut self, resources: &Resources) {
        self.decided += 1;
        self.charged.allocated.add(resources);
        self.charged.pending.subtract(resources);
        for frame in &mut self.frames {
            frame.rooms().for_each(|room| room.take(resources));
            frame.allocated.add(resources);
            frame.pends_less(resources);
        }
    }

    /// Notes that an ask replaces a placeholder, whose amount is charged already.
    pub(crate) fn pair(&mut self, resources: &Resources) {
        self.decided += 1;
        self.charged.pending.subtract(resources);
        for frame in &mut self.frames {
            frame.pends_less(resources);
        }
    }

    /// Notes that a decision reduced the allocated amount by this much. Every queue on the path has
    /// more headroom, so all choices are made again.
    pub(crate) fn give_back(&mut self, resources: &Resources, loosening: Loosening) {
        self.charged.allocated.subtract(resources);
        for frame in &mut self.frames {
            frame.rooms().for_each(|room| room.give(resources));
            frame.allocated.subtract(resources);
            frame.allocated.prune();
            frame.loosened = loosening;
        }
        self.rise_to(0);
    }

    /// Returns the decisions below the queue of the last frame that the queue has still to add to
    /// its totals.
    pub(crate) fn take_delta(&mut self) -> LedgerDelta {
        let frame = self.frames.last_mut().expect("an offer rises to the queue of its last frame");
        let before = std::mem::replace(&mut frame.charged_before, self.charged.clone());
        self.charged.since(&before)
    }

    /// Returns the queues on the path, root first, with their maxima and usage, for people.
    pub(crate) fn rooms(&self) -> impl Iterator<Item = QueueRoom<'_>> {
        self.frames.iter().map(|frame| QueueRoom {
            queue: &frame.facts.config.path,
            is_stopped: false,
            max: frame.facts.config.max.as_ref(),
            used: &frame.allocated,
            running: 0,
            most_running: 0,
        })
    }

    /// Notes that at most this many frames may stay: the queues below them have to be chosen again.
    pub(crate) fn rise_to(&mut self, frames: usize) {
        self.rise_to = self.rise_to.min(frames);
    }

    /// Returns the number of frames that stay: those above the first queue that has fallen behind
    /// its runner-up, at most `rise_to`, and none if the offer has to go home.
    pub(crate) fn level(&mut self) -> usize {
        if self.decided >= self.budget || self.refused >= REFUSALS_PER_TRIP {
            return 0;
        }
        let explains = self.explains;
        let behind = self.frames.iter_mut().position(|frame| !frame.leads(explains));
        behind.unwrap_or(self.frames.len()).min(self.rise_to)
    }
}

/// The key of a row: parents order queues, leaves order applications.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum RowKey {
    Queue(QueueKey),
    Application(ApplicationKey),
}

impl RowKey {
    /// Returns the path of the queue, or the id of the application.
    pub(crate) fn name(&self) -> &Arc<str> {
        match self {
            Self::Queue(key) => key.path(),
            Self::Application(key) => key.id(),
        }
    }

    /// Returns the rule that puts this key before a second one, if there is one. `order` is the
    /// order that both keys were built for.
    pub(crate) fn verdict(&self, second: Option<&Self>, order: SiblingOrder) -> Verdict {
        match (self, second) {
            (Self::Queue(first), Some(Self::Queue(second))) => first.verdict(second, order),
            (Self::Application(first), Some(Self::Application(second))) => {
                first.verdict(second, order)
            }
            _ => Verdict::Alone,
        }
    }
}

/// A child's report of itself to its parent.
pub(crate) struct RowUpdate {
    pub(crate) row: RowSlot,
    /// The lane of an application that is limited by its user or group.
    pub(crate) lane: Option<LaneId>,
    /// The key in the parent's order. `None`: nothing is pending, and the row is not in the order.
    pub(crate) key: Option<RowKey>,
    /// The priority that the child shows to its parent.
    pub(crate) priority: i32,
    pub(crate) waits: Waits,
}
