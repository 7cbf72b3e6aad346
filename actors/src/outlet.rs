//! All that a partition says to its RM, in the order it was said, one batch per turn.
//!
//! # Why an actor
//! A partition may come home thousands of times a millisecond. The outlet collects what was said
//! until the partition's arbiter has nothing else to do in this turn, so that what crosses to the
//! front arbiter crosses in batches.

use std::sync::Arc;

use actix::prelude::*;

use crate::mailbox::{Measured, Receive, receives};
use crate::metrics::{ActorKind, Counted, Metrics};
use crate::step::{Notice, Notices, PartitionClosed, PartitionLost, SessionLink};

/// At most so many notices cross in one message, however many a step has said: the front arbiter
/// belongs to all RMs, and an RM lets the others have a turn behind each.
pub(crate) const BATCH: usize = 256;

/// What a step said. From the partition.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Publish(pub(crate) Vec<Notice>);

/// The partition closes: the last that is said.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Farewell(pub(crate) PartitionClosed);

/// Sent by the outlet to itself, behind everything that is in its mailbox: when it arrives, the
/// turn is over.
#[derive(Message)]
#[rtype(result = "()")]
struct Flush;

/// Collects the notices of one partition and hands them to its [`Rm`] in batches.
pub(crate) struct Outlet {
    partition: Arc<str>,
    session: SessionLink,
    waiting: Vec<Notice>,
    flush_is_due: bool,
    metrics: Arc<Metrics>,
    _counted: Counted,
}

impl Outlet {
    pub(crate) fn new(partition: Arc<str>, session: SessionLink, metrics: &Arc<Metrics>) -> Self {
        Self {
            partition,
            session,
            waiting: Vec::new(),
            flush_is_due: false,
            metrics: Arc::clone(metrics),
            _counted: metrics.counted(ActorKind::Outlet),
        }
    }

    fn send(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let notices = std::mem::take(&mut self.waiting);
        if notices.len() <= BATCH {
            return self.post(notices);
        }
        let mut notices = notices.into_iter();
        while notices.len() > 0 {
            self.post(notices.by_ref().take(BATCH).collect());
        }
    }

    fn post(&self, notices: Vec<Notice>) {
        self.session.notices.post(Notices { partition: Arc::clone(&self.partition), notices });
    }
}

impl Actor for Outlet {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What it had to say is lost: nothing that comes after would make sense to the RM.
            self.session.lost.post(PartitionLost { partition: Arc::clone(&self.partition) });
        }
    }
}

impl Measured for Outlet {
    const KIND: ActorKind = ActorKind::Outlet;
}

receives!(Outlet);

impl Receive<Publish> for Outlet {
    fn receive(&mut self, Publish(notices): Publish, ctx: &mut Context<Self>) {
        if self.waiting.is_empty() {
            self.waiting = notices;
        } else {
            self.waiting.extend(notices);
        }
        if self.waiting.len() >= BATCH {
            self.send();
        } else if !self.flush_is_due {
            self.flush_is_due = true;
            // Handled after everything that is in the mailbox already: the end of the turn.
            ctx.notify(Flush);
        }
    }
}

impl Handler<Flush> for Outlet {
    type Result = ();

    fn handle(&mut self, _: Flush, _ctx: &mut Self::Context) {
        let _timer = self.metrics.handles(ActorKind::Outlet);
        self.flush_is_due = false;
        self.send();
    }
}

impl Receive<Farewell> for Outlet {
    fn receive(&mut self, Farewell(closed): Farewell, ctx: &mut Context<Self>) {
        self.send();
        self.session.closed.post(closed);
        ctx.stop();
    }
}

impl Receive<crate::Halt> for Outlet {
    fn receive(&mut self, _: crate::Halt, ctx: &mut Context<Self>) {
        self.send();
        ctx.stop();
    }
}
