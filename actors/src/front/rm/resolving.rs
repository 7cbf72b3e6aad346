//! Lookups of the groups of users before new applications are sent to their partitions:
//! `docs/users.md#what-becomes-of-a-submission`.
//!
//! A resolver may be slow. Until it answers, the request waits with everything that the RM sends after
//! it, so that the order is kept. If all users are known, nothing waits and no task is spawned.

use std::sync::Arc;

use actix::prelude::*;
use monoceros_proto::si::v1 as si;
use tokio::task::JoinSet;

use super::Rm;
use super::held_back::Resolving;
use super::requests::{Body, Taken, Update};
use crate::api::users::GroupAnswers;
use crate::mailbox::Receive;

/// All lookups of a request are done.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Resolved(GroupAnswers);

impl Rm {
    /// Processes a request, or begins the lookups that it needs first.
    pub(super) fn process(&mut self, Update { body, taken }: Update) {
        match body {
            Body::Application(request) => self.resolve(request, taken, GroupAnswers::default()),
            body => self.update(Update { body, taken }, &GroupAnswers::default()),
        }
    }

    fn resolve(
        &mut self,
        request: si::ApplicationRequest,
        taken: Taken,
        mut answers: GroupAnswers,
    ) {
        answers.at = self.users.now();
        let questions = self.translator.questions(&request, &answers);
        if questions.is_empty() {
            return self.update(Update { body: Body::Application(request), taken }, &answers);
        }
        let (patience, rm, id) = (self.users.timeout(), self.mailbox.clone(), Arc::clone(&self.id));
        let mut lookups = JoinSet::new();
        lookups.spawn(async move { rm.post(Resolved(questions.ask(&id, patience).await)) });
        self.resolving = Some(Resolving { request, taken, answers, _lookups: lookups });
    }
}

impl Receive<Resolved> for Rm {
    fn receive(&mut self, Resolved(later): Resolved, ctx: &mut Context<Self>) {
        // The session may have ended during the lookups.
        let Some(resolving) = self.resolving.take() else { return };
        self.users.learn(&later);
        let Resolving { request, taken, mut answers, .. } = resolving;
        answers.join(later);
        // Cached answers about other users may have expired during the lookups, so this may look up
        // again.
        self.resolve(request, taken, answers);
        self.resume();
        self.arm_events(ctx);
    }
}
