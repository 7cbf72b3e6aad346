//! Requests to the shim whose caller waits: its state dump, saving a configuration, and the effect
//! of preemptions.
//!
//! The conversation numbers each request; the table here has the caller of each number. No caller
//! waits for ever: the conversation answers each request by its deadline, and the end of the
//! session drops the waiting callers, who then get an error.

use std::collections::BTreeMap;

use monoceros_actors::PreemptionQuestions;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::conversation::{Conversation, ShimReply};
use super::super::preemption::Preempted;
use super::Attachment;

impl Attachment {
    /// Whether a shim that provides state dumps is attached.
    pub fn provides_state(&self) -> bool {
        self.lock().conversation.provides_state()
    }

    /// The shim's state as JSON text, or the reason why there is none. Serves one caller at a time.
    pub async fn rm_state(&self) -> Result<String, String> {
        let _turn = self.dumping.lock().await;
        let answer = self.request(Conversation::ask_state)?;
        match answer.await {
            Ok(ShimReply::State(state)) => state,
            _ => Err("the session is over".to_owned()),
        }
    }

    /// Lets the shim save a configuration.
    pub async fn save_config(
        &self,
        config: String,
        extra: BTreeMap<String, String>,
    ) -> Result<(), String> {
        let ask = |conversation: &mut Conversation, now| conversation.ask_save(now, config, extra);
        match self.request(ask)?.await {
            Ok(ShimReply::Saved(saved)) => saved,
            _ => Err("the session is over".to_owned()),
        }
    }

    /// Asks the shim about a group of preemptions. The answers go to the sink of the group: at once
    /// if no shim is attached that answers such questions, otherwise when the shim has answered or
    /// its time is over.
    pub fn ask_preemption(&self, group: PreemptionQuestions) {
        let PreemptionQuestions { id, questions, answers } = group;
        let n_asked = questions.len();
        let responses = |known: Vec<Preempted>| -> Vec<_> {
            known.into_iter().map(Preempted::response).collect()
        };
        match self.request(|conversation, now| conversation.ask_preemption(now, questions)) {
            Err(known) => answers.answer_preemption(id, &responses(known)),
            Ok(reply) => {
                tokio::spawn(async move {
                    let known = match reply.await {
                        Ok(ShimReply::Preempted(known)) => known,
                        _ => vec![Preempted::Unanswered; n_asked],
                    };
                    answers.answer_preemption(id, &responses(known));
                });
            }
        }
    }

    fn request<E>(
        &self,
        ask: impl FnOnce(&mut Conversation, Instant) -> Result<u64, E>,
    ) -> Result<oneshot::Receiver<ShimReply>, E> {
        let mut state = self.lock();
        let (asked, _) = self.work_on(&mut state, ask);
        let number = asked?;
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(number, sender);
        Ok(receiver)
    }
}
