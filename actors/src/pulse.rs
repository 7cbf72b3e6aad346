//! Pings to the front and to partitions, for a watchdog on a thread of its own.
//!
//! # Why messages
//! A thread that hangs does not answer a message, and an overloaded one answers late. A counter that
//! each step writes would cost every step, and would not distinguish an idle partition from one whose
//! thread hangs between two steps.
//!
//! # Invariants
//! * At most one unanswered ping is in each mailbox, however long its thread hangs.
//! * Reading a pulse never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::prelude::*;

use crate::mailbox::{Mailbox, Mailed, Measured, Receive};

/// The state of a thread, by its last ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The actor has ended.
    Gone,
    /// The actor has not answered yet.
    Silent,
    /// The actor has answered.
    Alive {
        /// The number of the step that was under way in a partition; `None` between two steps.
        step: Option<u64>,
    },
}

/// The sign of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSign {
    /// The id of its RM.
    pub rm_id: Arc<str>,
    /// Its name with the RM's prefix.
    pub partition: Arc<str>,
    /// The state of its thread.
    pub sign: Sign,
}

/// A ping, answered at once, also while a step is under way. From a [`Pulse`].
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Beat {
    number: u64,
    answers: Arc<Answers>,
}

/// The last answer of an actor.
#[derive(Debug, Default)]
struct Answers {
    /// The number of the last ping that was answered.
    number: AtomicU64,
    /// Twice the number of the step, and one more while it is under way.
    step: AtomicU64,
}

impl Beat {
    /// Answers the ping. `step`: the number of the step that is under way.
    pub(crate) fn answer(&self, step: Option<u64>) {
        let step = step.map_or(0, |number| number.wrapping_mul(2) | 1);
        self.answers.step.store(step, Ordering::Relaxed);
        self.answers.number.store(self.number, Ordering::Release);
    }
}

/// The pings to one actor.
pub(crate) struct Pulse<A: Actor> {
    pub(crate) mailbox: Mailbox<A>,
    sent: u64,
    answers: Arc<Answers>,
}

impl<A: Measured + Receive<Beat> + Handler<Mailed<Beat>>> Pulse<A> {
    pub(crate) fn of(mailbox: Mailbox<A>) -> Self {
        Self { mailbox, sent: 0, answers: Arc::default() }
    }

    /// The sign since the last call; sends the next ping unless the last one is unanswered.
    pub(crate) fn feel(&mut self) -> Sign {
        if !self.mailbox.is_open() {
            return Sign::Gone;
        }
        if self.answers.number.load(Ordering::Acquire) < self.sent {
            return Sign::Silent;
        }
        let step = self.answers.step.load(Ordering::Relaxed);
        self.sent += 1;
        self.mailbox.post(Beat { number: self.sent, answers: Arc::clone(&self.answers) });
        Sign::Alive { step: (step & 1 == 1).then_some(step / 2) }
    }
}
