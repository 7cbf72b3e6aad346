//! Where answers to predicate questions go: one sink for each partition that has asked.
//!
//! A question arrives with the sink of its partition. `Conversation` holds plain data only, so its
//! tickets carry a number, and this table has the sink of each number.

use std::collections::BTreeMap;

use monoceros_actors::{AnswerSink, PredicateAnswer};

use super::super::batching::{Answer, Ticket};

/// Sinks of the partitions, by the number in their tickets. Sinks of removed partitions are dropped
/// when a new one is added.
#[derive(Default)]
pub(super) struct Sinks {
    open: BTreeMap<u32, AnswerSink>,
    /// The number of the last sink added.
    so_far: u32,
}

/// Consecutive answers to one partition, sent as one message.
#[derive(Default)]
pub(super) struct AnswersInARow {
    partition: u32,
    answers: Vec<PredicateAnswer>,
}

impl Sinks {
    /// Returns the number of this sink, which is added if it is new.
    pub(super) fn number(&mut self, sink: AnswerSink) -> u32 {
        if let Some((number, _)) = self.open.iter().find(|(_, known)| known.is(&sink)) {
            return *number;
        }
        self.open.retain(|_, known| !known.is_closed());
        self.so_far += 1;
        self.open.insert(self.so_far, sink);
        self.so_far
    }
}

impl AnswersInARow {
    /// Adds an answer. Answers to another partition are sent first.
    pub(super) fn push(&mut self, answer: Answer, sinks: &Sinks) {
        let Answer { ticket: Ticket { partition, id }, verdict } = answer;
        if partition != self.partition {
            self.send(sinks);
            self.partition = partition;
        }
        self.answers.push(PredicateAnswer { id, verdict });
    }

    /// Sends the collected answers. Answers for a removed partition are dropped.
    pub(super) fn send(&mut self, sinks: &Sinks) {
        let answers = std::mem::take(&mut self.answers);
        if let Some(sink) = sinks.open.get(&self.partition)
            && !answers.is_empty()
        {
            sink.answer(answers);
        }
    }
}
