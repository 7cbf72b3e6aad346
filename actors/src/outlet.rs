//! All that a partition says to its RM, in the order it was said, one batch per turn.
//!
//! # Why an actor
//! A partition may come home thousands of times a millisecond. The outlet collects what was said
//! until the partition's arbiter has nothing else to do in this turn, so that what crosses to the
//! front arbiter crosses in batches.

use std::sync::Arc;

use actix::prelude::*;

use crate::front::rm::{Notices, PartitionClosed, PartitionLost, Rm};
use crate::metrics::{ActorKind, Metrics};
use crate::step::Notice;
use crate::tally::Tally;

/// At most so many notices cross in one message.
const BATCH: usize = 512;

/// What a step said. From the partition.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Publish(pub(crate) Vec<Notice>);

/// The partition closes: the last that is said.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Farewell(pub(crate) PartitionClosed);

/// The turn is over.
#[derive(Message)]
#[rtype(result = "()")]
struct Flush;

/// See the module.
pub(crate) struct Outlet {
    partition: Arc<str>,
    rm: Addr<Rm>,
    waiting: Vec<Notice>,
    flush_is_due: bool,
    tally: Tally,
}

impl Outlet {
    pub(crate) fn new(partition: Arc<str>, rm: Addr<Rm>, metrics: &Arc<Metrics>) -> Self {
        Self { partition, rm, waiting: Vec::new(), flush_is_due: false, tally: Tally::new(metrics) }
    }

    fn send(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let notices = std::mem::take(&mut self.waiting);
        self.rm.do_send(Notices { partition: Arc::clone(&self.partition), notices });
    }
}

impl Actor for Outlet {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.tally.shared().actor_started(ActorKind::Outlet);
        ctx.set_mailbox_capacity(0);
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        self.tally.shared().actor_stopped(ActorKind::Outlet);
        if std::thread::panicking() {
            // What it had to say is lost: nothing that comes after would make sense to the RM.
            self.rm.do_send(PartitionLost { partition: Arc::clone(&self.partition) });
        }
    }
}

impl Handler<Publish> for Outlet {
    type Result = ();

    fn handle(&mut self, Publish(notices): Publish, ctx: &mut Self::Context) {
        let _timer = self.tally.message(ActorKind::Outlet);
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
        self.flush_is_due = false;
        self.send();
        self.tally.flush();
    }
}

impl Handler<Farewell> for Outlet {
    type Result = ();

    fn handle(&mut self, Farewell(closed): Farewell, ctx: &mut Self::Context) {
        self.send();
        self.rm.do_send(closed);
        ctx.stop();
    }
}

impl Handler<crate::Halt> for Outlet {
    type Result = ();

    fn handle(&mut self, _: crate::Halt, ctx: &mut Self::Context) {
        self.send();
        ctx.stop();
    }
}
