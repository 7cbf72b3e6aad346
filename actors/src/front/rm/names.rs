//! The resource types of an RM: those that it does not use any more are given back.
//!
//! # How it is found out
//! When [the holder](NameHolder) wants a look, every partition is asked what it has. The question
//! goes behind all requests before it, so that everything that was named in them is there or gone;
//! what is named later stays whatever the answers say. So nothing on the way of an ask counts names.
//!
//! # Invariants
//! * One look at a time, and none sooner than a second after the one before: an RM that names one
//!   type after another costs its own partitions a walk a second.
//! * A look that a partition does not answer gives nothing back.

use std::sync::Arc;

use actix::prelude::*;
use monoceros_rules::values::resources::Name;
use rustc_hash::FxHashSet;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::Rm;
use crate::front::translate::Chunks;
use crate::mailbox::Receive;
use crate::partition::surveys::NamesInUse;
use crate::partition::{Entry, LocalErrand};

/// The least time between two looks, ns.
const PAUSE_NS: i64 = 1_000_000_000;

/// What is known of looks.
#[derive(Default)]
pub(super) struct Looking {
    /// The look under way, which ends when this is dropped.
    now: Option<JoinSet<()>>,
    /// When the last one began, ns since the epoch.
    began_ns: Option<i64>,
}

/// What all partitions have in use; `None` if some have not said it.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Looked {
    number: u64,
    in_use: Option<FxHashSet<Name>>,
}

impl Rm {
    /// Begins a look at what is in use, if it is time for one.
    pub(super) fn look_at_names(&mut self) {
        let now_ns = self.clock.now_ns();
        let is_soon = |began_ns: i64| now_ns < began_ns.saturating_add(PAUSE_NS);
        if self.looking.now.is_some()
            || !self.names.wants_look()
            || self.looking.began_ns.is_some_and(is_soon)
        {
            return;
        }
        let number = self.names.begin_look();
        let names: Vec<Arc<str>> = self.partitions.keys().cloned().collect();
        let mut answers = Vec::new();
        for partition in names {
            let (reply, answer) = oneshot::channel();
            let errand = LocalErrand::Read(Box::new(NamesInUse::new(reply)));
            self.hand_in(Chunks::from([(partition, vec![Entry::Errand(errand)])]));
            answers.push(answer);
        }
        let (mailbox, mut task) = (self.mailbox.clone(), JoinSet::new());
        task.spawn(async move {
            let mut in_use = Some(FxHashSet::default());
            for answer in answers {
                match (answer.await, &mut in_use) {
                    (Ok(names), Some(in_use)) => in_use.extend(names),
                    _ => in_use = None,
                }
            }
            mailbox.post(Looked { number, in_use });
        });
        self.looking = Looking { now: Some(task), began_ns: Some(now_ns) };
    }
}

impl Receive<Looked> for Rm {
    fn receive(&mut self, Looked { number, in_use }: Looked, _ctx: &mut Context<Self>) {
        self.looking.now = None;
        let Some(in_use) = in_use else { return };
        // All partitions of a document share what it names.
        let document = self.in_force.document();
        let configured = document.partitions.first().map(|wanted| &wanted.config.names);
        let configured = |name| configured.is_some_and(|names| names.holds(name));
        let n_unused =
            self.names.end_look(number, |name| in_use.contains(&name) || configured(name));
        tracing::debug!(rm = %self.id, n_unused, n_used = self.names.len(), "resource types in use");
    }
}
