//! Steering one session of an RM: what whoever carries its messages has to say beside them.

use std::time::Duration;

use actix::prelude::*;

use crate::predicates::{Invalidation, Predicates};
use crate::rm::{Rm, Steer, Steering};

/// Steers the session that was current when it was made; once that is over, nothing happens.
/// Calls return at once and are obeyed in order, ahead of requests that still wait their turn.
#[derive(Clone, Debug)]
pub struct ResourceManagerControl(Addr<Rm>);

impl ResourceManagerControl {
    pub(crate) fn new(rm: Addr<Rm>) -> Self {
        Self(rm)
    }

    /// Holds: from now on nothing is decided for the RM, while requests, releases and timers go on.
    /// Placements that wait for a predicate are taken back. `false` lets it go on.
    pub fn hold(&self, hold: bool) {
        self.steer(Steering::Hold(hold));
    }

    /// Sets how the RM's predicates are asked.
    pub fn set_predicates(&self, predicates: Predicates) {
        self.steer(Steering::Predicates(predicates));
    }

    /// Tries again what predicates refused.
    pub fn invalidate(&self, invalidation: Invalidation) {
        self.steer(Steering::Invalidate(invalidation));
    }

    /// Sets how long items may wait for the application or node that they name, and how many may in
    /// one partition (scheduler-interface chapter, 3.4 O3).
    pub fn set_reordering(&self, window: Duration, items: usize) {
        self.steer(Steering::Reordering { window, items });
    }

    fn steer(&self, steering: Steering) {
        self.0.do_send(Steer(steering));
    }
}
