//! The check for resource types that an RM does not use any more: it releases their names.
//!
//! # How it works
//! When the [`NameHolder`] wants a check, every partition is asked for the types that it uses. The
//! question follows all earlier requests, so the answers take account of every type named in those.
//! A type that is named later is kept whatever the answers are. So no code on the way of an ask
//! counts names.
//!
//! # Invariants
//! * At most one check at a time, and one a second: an RM that names one new type after another
//!   costs its own partitions one scan a second.
//! * If a partition does not answer, no name is released.
//!
//! [`NameHolder`]: monoceros_rules::values::resources::NameHolder

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
use crate::partition::{Entry, LocalRequest};

/// The types that all partitions use; `None` if one of them did not answer.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct NamesChecked {
    number: u64,
    in_use: Option<FxHashSet<Name>>,
}

impl Rm {
    /// Begins a check, if one is due.
    pub(super) fn check_names(&mut self) {
        let now_ns = self.clock.now_ns();
        if !self.names.wants_look() || !self.name_check.may_begin(now_ns) {
            return;
        }
        let number = self.names.begin_look();
        let names: Vec<Arc<str>> = self.partitions.keys().cloned().collect();
        let mut answers = Vec::new();
        for partition in names {
            let (reply, answer) = oneshot::channel();
            let request = LocalRequest::Read(Box::new(NamesInUse::new(reply)));
            self.hand_in(Chunks::from([(partition, vec![Entry::Local(request)])]));
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
            mailbox.post(NamesChecked { number, in_use });
        });
        self.name_check.begin(task, now_ns);
    }
}

impl Receive<NamesChecked> for Rm {
    fn receive(&mut self, NamesChecked { number, in_use }: NamesChecked, _ctx: &mut Context<Self>) {
        self.name_check.end();
        let Some(in_use) = in_use else { return };
        // All partitions of a document share the names in it.
        let document = Arc::clone(&self.in_force.document);
        let configured = document.partitions.first().map(|wanted| &wanted.config.names);
        let configured = |name| configured.is_some_and(|names| names.holds(name));
        let n_unused =
            self.names.end_look(number, |name| in_use.contains(&name) || configured(name));
        tracing::debug!(rm = %self.id, n_unused, n_used = self.names.len(), "resource types in use");
    }
}
