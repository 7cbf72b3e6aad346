//! When the RM is told for which requests more machines would help:
//! `docs/scheduling.md#the-scale-up-signal`.
//!
//! # When it is looked at
//! An offer that comes home in vain while something waits arms a deadline of a second, unless one
//! is armed: so it is looked at once a second at most, and an idle partition does nothing. While the
//! partition is on hold the RM is not told, because requests that wait then do not wait for
//! machines.
//!
//! Which requests these are is found out in [`super::surveys`], slice by slice: each is an input of its
//! own, so that what came in meanwhile goes before the next one.

use std::time::Duration;

use super::input::Input;
use super::surveys::tell_wanted;
use super::{Partition, Signal, Task};
use crate::step::{Alarm, Baton, Survey};

/// How long after an offer in vain the RM is told, and how often at most.
const SIGNAL_INTERVAL: Duration = Duration::from_secs(1);

impl Partition {
    /// An offer came home in vain.
    pub(super) fn arm_scale_up(&mut self, baton: &mut Baton) {
        if !baton.books.is_waiting {
            return;
        }
        match &mut self.scale_up {
            Signal::Idle => {
                self.scale_up = Signal::Armed;
                baton.effects.remind(SIGNAL_INTERVAL, Alarm::ScaleUp);
            }
            Signal::Armed => {}
            Signal::Looking { again, .. } => *again = true,
        }
    }

    /// The deadline is over, or the next slice has its turn.
    pub(super) fn signal_scale_up(&mut self, baton: &mut Baton) {
        let decides = self.decides();
        match &mut self.scale_up {
            Signal::Looking { .. } if !decides => self.looked(baton),
            Signal::Looking { rest, .. } => {
                self.agenda.extend(rest.take().map(Task::Survey));
            }
            Signal::Idle | Signal::Armed => {
                self.scale_up = Signal::Looking { rest: None, again: false };
                self.agenda.push_back(Task::survey(tell_wanted()));
            }
        }
    }

    /// A slice is over: the survey goes on when what came in meanwhile has had its turn. Not by a
    /// deadline: a timer would have the thread sleep for a millisecond between two slices.
    pub(super) fn look_on(&mut self, survey: Box<dyn Survey>) {
        if let Signal::Looking { rest, .. } = &mut self.scale_up {
            *rest = Some(survey);
            self.inbox.push_input(Input::Alarm(Alarm::ScaleUp));
        }
    }

    /// It is found out, and the RM is told.
    pub(super) fn looked(&mut self, baton: &mut Baton) {
        let before = std::mem::take(&mut self.scale_up);
        if matches!(before, Signal::Looking { again: true, .. }) {
            self.scale_up = Signal::Armed;
            baton.effects.remind(SIGNAL_INTERVAL, Alarm::ScaleUp);
        }
    }
}
