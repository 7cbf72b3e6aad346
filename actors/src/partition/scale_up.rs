//! The scale-up signal: when the RM is notified of requests that more machines would let run
//! (`docs/scheduling.md#the-scale-up-signal`).
//!
//! # When it is due
//! An offer that comes home without result while an ask is pending arms a deadline of a second,
//! unless one is armed: so the signal is due once a second at most, and an idle partition does
//! nothing. While the partition is on hold the RM is not notified, because requests that are pending
//! then do not wait for machines.
//!
//! The requests are determined in [`super::surveys`], slice by slice: each slice is an input of its
//! own, so that inputs which arrived before it go first.

use std::time::Duration;

use super::input::Input;
use super::surveys::scale_up_survey;
use super::{Partition, Signal, Task};
use crate::step::{Alarm, Baton, Survey};

/// Time from an offer without result to the signal, and least time between two signals.
const SIGNAL_INTERVAL: Duration = Duration::from_secs(1);

impl Partition {
    /// Arms the signal when an offer came home without result.
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

    /// Begins or continues the survey, when the deadline is over or the next slice has its turn.
    pub(super) fn signal_scale_up(&mut self, baton: &mut Baton) {
        let decides = self.decides();
        match &mut self.scale_up {
            Signal::Looking { .. } if !decides => self.signal_done(baton),
            Signal::Looking { rest, .. } => {
                self.agenda.extend(rest.take().map(Task::Survey));
            }
            Signal::Idle | Signal::Armed => {
                self.scale_up = Signal::Looking { rest: None, again: false };
                self.agenda.push_back(Task::survey(scale_up_survey()));
            }
        }
    }

    /// Continues the survey when other input has had its turn. It is not continued by a deadline: a
    /// timer would have the thread sleep for a millisecond between two slices.
    pub(super) fn continue_signal(&mut self, survey: Box<dyn Survey>) {
        if let Signal::Looking { rest, .. } = &mut self.scale_up {
            *rest = Some(survey);
            self.inbox.push_input(Input::Alarm(Alarm::ScaleUp));
        }
    }

    /// Ends the survey, and arms the next one if an offer came home without result during this one.
    pub(super) fn signal_done(&mut self, baton: &mut Baton) {
        let before = std::mem::take(&mut self.scale_up);
        if matches!(before, Signal::Looking { again: true, .. }) {
            self.scale_up = Signal::Armed;
            baton.effects.remind(SIGNAL_INTERVAL, Alarm::ScaleUp);
        }
    }
}
