//! A batcher against a shim that acts at random, correctly and sometimes incorrectly.

use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::super::results;
use super::*;

proptest! {
    /// Each question is answered once or cancelled; an assumed request without a confirming answer
    /// is forgotten; bounds hold.
    #[test]
    fn every_question_ends_once(
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut history = History::new();
        for step in &steps {
            let turn = history.take(step)?;
            history.hear(&turn)?;
            if history.is_broken {
                break;
            }
            history.send()?;
        }
        history.check_end()?;
    }
}

/// Events of a batcher, in any order.
#[derive(Clone, Debug)]
enum Step {
    Ask {
        nodes: usize,
    },
    Cancel {
        question: u64,
    },
    Answer {
        batch: usize,
        kind: u8,
        bits: u8,
    },
    /// An answer whose result at this position is invalid.
    Break {
        batch: usize,
        at: usize,
        kind: u8,
    },
    Repeat {
        batch: u64,
    },
    Wait {
        millis: u64,
    },
    Confirm,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..40_usize).prop_map(|nodes| Step::Ask { nodes }),
        1 => (1..60_u64).prop_map(|question| Step::Cancel { question }),
        4 => (0..4_usize, 0..8_u8, any::<u8>())
            .prop_map(|(batch, kind, bits)| Step::Answer { batch, kind, bits }),
        1 => (0..4_usize, 0..4_usize, 0..3_u8)
            .prop_map(|(batch, at, kind)| Step::Break { batch, at, kind }),
        1 => (1..20_u64).prop_map(|batch| Step::Repeat { batch }),
        1 => (0..1_500_u64).prop_map(|millis| Step::Wait { millis }),
        1 => Just(Step::Confirm),
    ]
}

/// A batcher, and the knowledge of the scheduler and of the shim.
struct History {
    bench: Bench,
    nodes: Vec<String>,
    asked: BTreeSet<u64>,
    cancelled: BTreeSet<u64>,
    answered: HashMap<u64, Verdict>,
    /// Questions whose allocation was confirmed.
    confirmed: BTreeSet<u64>,
    /// Batches that the shim has not answered.
    out: Vec<cb::PredicateBatch>,
    /// Requests that the shim has assumed, by key.
    view: BTreeSet<String>,
    /// Set after a violation: the stream is over.
    is_broken: bool,
}

impl History {
    fn new() -> Self {
        Self {
            bench: Bench::new(LIMITS),
            nodes: (0..40).map(|n| format!("n{n}")).collect(),
            asked: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            answered: HashMap::new(),
            confirmed: BTreeSet::new(),
            out: Vec::new(),
            view: BTreeSet::new(),
            is_broken: false,
        }
    }

    fn take(&mut self, step: &Step) -> Result<Turn, TestCaseError> {
        match *step {
            Step::Ask { nodes } => Ok(self.ask(nodes)),
            Step::Cancel { question } => Ok(self.cancel(question)),
            Step::Answer { .. } | Step::Break { .. } if self.out.is_empty() => Ok(Turn::default()),
            Step::Answer { batch, kind, bits } => {
                let batch = self.out.remove(batch % self.out.len());
                Ok(self.answer(&batch, kind, bits))
            }
            Step::Break { batch, at, kind } => {
                let batch = self.out.remove(batch % self.out.len());
                self.break_off(&batch, at, kind)
            }
            Step::Repeat { batch } => Ok(self.bench.say(batch, vec![])),
            Step::Wait { millis } => {
                self.bench.now += Duration::from_millis(millis);
                Ok(self.bench.batcher.expire(self.bench.now))
            }
            Step::Confirm => self.confirm().map(|()| Turn::default()),
        }
    }

    fn ask(&mut self, n_nodes: usize) -> Turn {
        let key = self.asked.len() as u64 + 1;
        self.asked.insert(key);
        let nodes: Vec<&str> = self.nodes[..n_nodes].iter().map(String::as_str).collect();
        let answer = self.bench.batcher.ask(question(key, &nodes));
        Turn { answers: answer.into_iter().collect(), ..Turn::default() }
    }

    fn cancel(&mut self, question: u64) -> Turn {
        // A confirmed placement is never cancelled.
        if !self.asked.contains(&question) || self.confirmed.contains(&question) {
            return Turn::default();
        }
        self.cancelled.insert(question);
        self.bench.batcher.cancel(&[QuestionId(question)])
    }

    fn answer(&mut self, batch: &cb::PredicateBatch, kind: u8, bits: u8) -> Turn {
        let mut results = Vec::new();
        for query in &batch.queries {
            let n = query.node_index.len();
            let bitmap = vec![bits; n.div_ceil(8)];
            let looked = (n / 2).max(1);
            let result = match kind {
                0 => outcome(query.query_id, cb::Outcome::Shed),
                1 => outcome(query.query_id, cb::Outcome::Stale),
                2 => outcome(query.query_id, cb::Outcome::Error),
                3 => result(query.query_id, clamped(looked), &bitmap),
                4 => result(query.query_id, clamped(n), &[]),
                _ => result(query.query_id, clamped(n), &bitmap),
            };
            let passes = results::first_bit(&result.pass_bitmap, result.evaluated as usize);
            if query.assume && passes.is_some() {
                self.view.insert(query.allocation_key.clone());
            }
            results.push(result);
        }
        self.bench.say(batch.batch_id, results)
    }

    /// Answers, with an invalid result at this position.
    fn break_off(
        &mut self,
        batch: &cb::PredicateBatch,
        at: usize,
        kind: u8,
    ) -> Result<Turn, TestCaseError> {
        let mut results: Vec<_> =
            batch.queries.iter().map(|query| result(query.query_id, 1, &[1])).collect();
        let at = at % results.len();
        match kind {
            0 => results[at].query_id = 1_000,
            1 => results[at].evaluated = 1_000,
            _ => results[at].pass_bitmap = vec![0; 1_000],
        }
        for query in batch.queries[..at].iter().filter(|query| query.assume) {
            self.view.insert(query.allocation_key.clone());
        }
        let results = cb::PredicateResults {
            batch_id: batch.batch_id,
            cache_seq: self.bench.cache_seq,
            results,
            last: true,
        };
        let was_out = self.bench.batcher.is_in_flight(batch.batch_id);
        let (turn, violation) = self.bench.batcher.results(self.bench.now, &results);
        self.is_broken = violation.is_some();
        prop_assert!(self.is_broken || !was_out || kind > 0);
        Ok(turn)
    }

    /// Confirms the allocations of all questions that passed with an assumption.
    fn confirm(&mut self) -> Result<(), TestCaseError> {
        for (id, verdict) in &self.answered {
            let Verdict::Passed { position, assumed: true, .. } = verdict else { continue };
            if !self.cancelled.contains(id) && self.confirmed.insert(*id) {
                let (key, node) = (id.to_string(), &self.nodes[*position]);
                prop_assert!(self.bench.batcher.confirm("app", &key, node));
            }
        }
        Ok(())
    }

    /// Delivers answers to the scheduler and forgotten requests to the shim.
    fn hear(&mut self, turn: &Turn) -> Result<(), TestCaseError> {
        for answer in &turn.answers {
            let id = answer.ticket.id.0;
            prop_assert!(self.asked.contains(&id) && !self.cancelled.contains(&id));
            let before = self.answered.insert(id, answer.verdict.clone());
            prop_assert!(before.is_none(), "{id} twice");
        }
        for request in &turn.forget {
            self.bench.batcher.forgotten(request);
            self.view.remove(&*request.key);
        }
        if self.is_broken {
            // The end of the stream, and of the requests that the shim assumed on it.
            self.view.clear();
        }
        Ok(())
    }

    /// Sends as many batches as the window allows.
    fn send(&mut self) -> Result<(), TestCaseError> {
        prop_assert!(self.out.len() <= LIMITS.batches + ABANDONED);
        prop_assert!(self.bench.batcher.in_flight.len() <= LIMITS.batches);
        while let Some(batch) = self.bench.batch() {
            let n_nodes: usize = batch.queries.iter().map(|query| query.node_index.len()).sum();
            prop_assert!(batch.queries.len() <= LIMITS.queries && n_nodes <= LIMITS.nodes);
            self.out.push(batch);
        }
        Ok(())
    }

    fn check_end(mut self) -> Result<(), TestCaseError> {
        // Every request that the shim still assumes was answered as assumed and not cancelled
        // since.
        for key in &self.view {
            let id: u64 = key.parse().unwrap();
            let good =
                matches!(self.answered.get(&id), Some(Verdict::Passed { assumed: true, .. }));
            prop_assert!(good && !self.cancelled.contains(&id), "{key} is assumed for nothing");
        }
        for ticket in self.bench.batcher.close() {
            prop_assert!(self.answered.insert(ticket.id.0, Verdict::Unanswered).is_none());
        }
        for id in &self.asked {
            let is_over = self.answered.contains_key(id) || self.cancelled.contains(id);
            prop_assert!(is_over, "{id} is open");
        }
        Ok(())
    }
}
