//! To whom the answers to predicates go: the partitions that asked.
//!
//! A question carries the sink of its partition; the conversation keeps a small number in its
//! place, because it is data without anything that acts.

use std::collections::BTreeMap;

use monoceros_actors::{AnswerSink, PredicateAnswer};

use super::super::batching::{Answer, Ticket};

/// The partitions that have asked, by the number that their tickets have. Those that are gone leave
/// when a new one asks for the first time.
#[derive(Default)]
pub(super) struct Sinks {
    open: BTreeMap<u32, AnswerSink>,
    /// How many there were so far: the number of the last one.
    so_far: u32,
}

/// Answers in a row to one partition, which go to it in one message.
#[derive(Default)]
pub(super) struct AnswersInARow {
    partition: u32,
    answers: Vec<PredicateAnswer>,
}

impl Sinks {
    /// The number of the partition that wants its answers in this sink.
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
    /// Adds an answer; those to another partition leave before it.
    pub(super) fn push(&mut self, answer: Answer, sinks: &Sinks) {
        let Answer { ticket: Ticket { partition, id }, verdict } = answer;
        if partition != self.partition {
            self.send(sinks);
            self.partition = partition;
        }
        self.answers.push(PredicateAnswer { id, verdict });
    }

    /// Sends what there is. A partition that is gone wants no answers.
    pub(super) fn send(&mut self, sinks: &Sinks) {
        let answers = std::mem::take(&mut self.answers);
        if let Some(sink) = sinks.open.get(&self.partition)
            && !answers.is_empty()
        {
            sink.answer(answers);
        }
    }
}
