//! The view of an offer: headroom and counters at its present row, and its phase.

use serde::{Deserialize, Serialize};

use crate::limits::Trackers;
use crate::nodes::NodeIndex;
use crate::queues::figures::QueueTable;
use crate::values::epoch::{Epoch, Growth, Loosening};
use crate::values::resources::Limits;

/// The phase of an offer: the kind of asks that it may decide. After every decision it starts again
/// with the first phase in which an ask may be decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Asks that have a node reserved.
    #[default]
    Reserved,
    /// Asks that may replace a placeholder of their application.
    Pairs,
    /// All asks.
    Normal,
}

impl Phase {
    /// The phase after this one.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Reserved => Some(Self::Pairs),
            Self::Pairs => Some(Self::Normal),
            Self::Normal => None,
        }
    }
}

/// The epochs of the offers that were declined last, by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declined([Epoch; 3]);

impl Declined {
    /// Records that an offer in this phase was declined; `at` was the [`View::epoch`] then.
    pub fn note(&mut self, phase: Phase, at: Epoch) {
        self.0[phase as usize] = at;
    }

    /// Returns the [`View::epoch`] of the last offer in this phase that was declined.
    pub fn at(&self, phase: Phase) -> Epoch {
        self.0[phase as usize]
    }
}

/// The state of an offer at a row, which decides whether an ask below can use it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The headroom for all asks below.
    pub headroom: &'a Limits,
    /// The latest quota loosening on the path from root to here.
    pub loosening: Loosening,
    /// Whether every queue on the path has room for one more running application.
    pub may_start: bool,
    /// The node index; `None` to check quota alone.
    pub nodes: Option<&'a NodeIndex>,
    /// The limits of users and groups; `None` if nothing below is [`Limited`](super::Limited).
    pub limits: Option<&'a Trackers>,
    /// The figures of queues, to see which guarantees are unused; `None` ignores guarantees.
    pub queues: Option<&'a QueueTable>,
}

impl<'a> View<'a> {
    /// Builds a view of quota alone: the headroom of a queue or a lane itself.
    pub fn of_quota(headroom: &'a Limits, loosening: Loosening, may_start: bool) -> Self {
        Self { headroom, loosening, may_start, nodes: None, limits: None, queues: None }
    }

    /// Returns the present counters: the loosening on this path and the growth of the node index.
    pub fn epoch(&self) -> Epoch {
        let growth = self.nodes.map_or(Growth::NONE, NodeIndex::growth);
        Epoch { loosening: self.loosening, growth }
    }
}
