//! Controls of a session, and the state dump of its RM.
//!
//! The session remembers the controls that stay in force, and applies them to partitions that are
//! started later.

use std::panic::{AssertUnwindSafe, catch_unwind};

use actix::prelude::*;
use tokio::sync::oneshot;

use super::Rm;
use crate::api::callback::{RmState, StateDump};
use crate::mailbox::Receive;
use crate::partition::{ApplyControl, Control};

/// Asks the RM for a dump of its state. From `RmProxy`.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Diagnose {
    pub(crate) reply: oneshot::Sender<Option<RmState>>,
}

impl Receive<ApplyControl> for Rm {
    fn receive(&mut self, ApplyControl(control): ApplyControl, _ctx: &mut Context<Self>) {
        match &control {
            Control::StrictEnums(strict) => {
                self.translator.strict_enums = *strict;
                return;
            }
            Control::Invalidate(_) | Control::Elsewhere(_) => {}
            lasting => {
                let kind = std::mem::discriminant(lasting);
                self.controls.retain(|earlier| std::mem::discriminant(earlier) != kind);
                self.controls.push(lasting.clone());
            }
        }
        for held in self.partitions.values() {
            held.mailbox.post(ApplyControl(control.clone()));
        }
    }
}

impl Receive<Diagnose> for Rm {
    fn receive(&mut self, Diagnose { reply }: Diagnose, _ctx: &mut Context<Self>) {
        let begin = || self.callback.state_dump().map(StateDump::rm_state);
        let state = catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| {
            tracing::error!(rm = %self.id, "state dump panicked");
            Some(Box::pin(async { Err("the state dump panicked".to_owned()) }))
        });
        // The caller may have given up.
        let _ = reply.send(state);
    }
}
