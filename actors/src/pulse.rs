//! Signs of life of the front and of partitions, for a watchdog on a thread of its own.
//!
//! # Why messages
//! A thread that hangs can say nothing, and one that has much to do says it late: both show in a
//! message that is not answered. A counter that each step writes would cost every step, and would
//! not tell an idle partition from one whose thread hangs between two steps.
//!
//! # Invariants
//! * At most one message without an answer is in each mailbox, however long its thread hangs.
//! * Feeling a pulse never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::prelude::*;

use crate::mailbox::{Mailbox, Mailed, Measured, Receive};

/// What a thread says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Its actor is gone.
    Gone,
    /// It has not answered yet.
    Silent,
    /// It has answered.
    Alive {
        /// The number of the step that is under way in a partition; none if it is at home.
        step: Option<u64>,
    },
}

/// The sign of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSign {
    /// The RM that it belongs to.
    pub rm_id: Arc<str>,
    /// Its name with the RM's prefix.
    pub partition: Arc<str>,
    /// What it says.
    pub sign: Sign,
}

/// Asks an actor for a sign of life. Answered at once, also while a step is under way.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Beat {
    number: u64,
    answers: Arc<Answers>,
}

/// The last answer of one actor.
#[derive(Debug, Default)]
struct Answers {
    /// The number of the message that was answered.
    number: AtomicU64,
    /// Twice the number of the step, and one more while it is under way.
    step: AtomicU64,
}

impl Beat {
    /// Answers, with the number of the step that is under way, if there is one.
    pub(crate) fn answer(&self, step: Option<u64>) {
        let step = step.map_or(0, |number| number.wrapping_mul(2) | 1);
        self.answers.step.store(step, Ordering::Relaxed);
        self.answers.number.store(self.number, Ordering::Release);
    }
}

/// One actor whose pulse is felt.
pub(crate) struct Pulse<A: Actor> {
    pub(crate) mailbox: Mailbox<A>,
    sent: u64,
    answers: Arc<Answers>,
}

impl<A: Measured + Receive<Beat> + Handler<Mailed<Beat>>> Pulse<A> {
    pub(crate) fn of(mailbox: Mailbox<A>) -> Self {
        Self { mailbox, sent: 0, answers: Arc::default() }
    }

    /// The sign since the last time; asks for the next.
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
