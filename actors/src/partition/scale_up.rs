//! When the RM is told for which requests more machines would help:
//! `docs/scheduling.md#the-scale-up-signal`.
//!
//! # When it is looked at
//! An offer that comes home in vain while something waits arms a deadline of a second, unless one
//! is armed: so the RM is told once a second at most, and an idle partition does nothing. While the
//! partition is on hold the RM is not told, because requests that wait then do not wait for
//! machines.
//!
//! Which requests these are is found out in [`super::surveys`].

use std::time::Duration;

use super::surveys::tell_wanted;
use super::{Partition, Task};
use crate::step::{Alarm, Baton};

/// How long after an offer in vain the RM is told, and how often at most.
const SIGNAL_INTERVAL: Duration = Duration::from_secs(1);

/// Whether the RM will be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Signal {
    #[default]
    Idle,
    /// When the deadline is over.
    Armed,
}

impl Partition {
    /// An offer came home in vain.
    pub(super) fn arm_scale_up(&mut self, baton: &mut Baton) {
        if baton.offer.waiting && self.scale_up == Signal::Idle {
            self.scale_up = Signal::Armed;
            baton.alarms.push((SIGNAL_INTERVAL, Alarm::ScaleUp));
        }
    }

    /// The deadline is over.
    pub(super) fn signal_scale_up(&mut self) {
        self.scale_up = Signal::Idle;
        self.agenda.push_back(Task::survey(tell_wanted()));
    }
}
