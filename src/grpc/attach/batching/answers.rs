//! The results of batches.
//!
//! A shim may answer in any order, in parts, late, or with nonsense. Each result is checked against
//! its query before it takes effect; an invalid one ends the stream, because the shim and the
//! scheduler no longer agree on the questions.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use monoceros_actors::metrics::QueryOutcome;
use monoceros_actors::{Scope, Verdict};
use monoceros_proto::v1 as cb;
use tokio::time::Instant;

use super::super::results::{self, Reading, Violation, clamped};
use super::{Abandoned, Answer, Assumed, Batcher, Pending, Query, Question, QuestionState, Turn};

impl Batcher {
    /// Processes results up to the first invalid one, which is returned as a violation. The results
    /// before it count: their questions are not [open](Batcher::close) any more.
    pub(in crate::grpc::attach) fn results(
        &mut self,
        now: Instant,
        results: &cb::PredicateResults,
    ) -> (Turn, Option<Violation>) {
        let mut turn = Turn::default();
        let id = results.batch_id;
        let Some(batch) = self.in_flight.get(&id) else {
            self.late(results, &mut turn);
            return (turn, None);
        };
        let stale = results.cache_seq < batch.cache_seq;
        let mut useful = false;
        for result in &results.results {
            match self.result(now, id, stale, result, &mut turn) {
                Ok(answers) => useful |= answers,
                Err(violation) => return (turn, Some(violation)),
            }
        }
        self.close_batch(now, id, results.last, &mut turn);
        useful |= !self.is_in_flight(id);
        self.useless = if useful { 0 } else { self.useless + 1 };
        (turn, None)
    }

    /// Whether more results answered nothing than a correct shim can send.
    pub(in crate::grpc::attach) fn is_flooded(&self) -> bool {
        self.useless > 2 * self.limits.batches
    }

    /// Processes one result of a batch in flight. Returns whether it answers a query.
    fn result(
        &mut self,
        now: Instant,
        id: u64,
        stale: bool,
        result: &cb::PredicateResult,
        turn: &mut Turn,
    ) -> Result<bool, Violation> {
        let batch = self.in_flight.get_mut(&id).expect("looked up by the caller");
        let unknown = Violation::NoSuchQuery { batch: id, query: result.query_id };
        let slot = batch.queries.get_mut(result.query_id as usize).ok_or(unknown)?;
        let Some(query) = slot else {
            self.metrics.late_result();
            return Ok(false);
        };
        let reading = results::read(result, query.nodes)?;
        let query = slot.take().expect("just looked at");
        batch.open -= 1;
        if query.cancelled {
            if query.assume && matches!(reading, Reading::Passes { .. }) {
                turn.forget.push(query.pending.question.request());
            }
            return Ok(true);
        }
        batch.wanted -= 1;
        let sent = batch.sent;
        let stale = stale || reading == Reading::Stale;
        batch.shed |= reading == Reading::Shed;
        batch.stale |= stale;
        if stale {
            if !std::mem::replace(&mut self.was_behind, true) {
                turn.behind = Some(batch.cache_seq);
            }
        } else if reading != Reading::Shed {
            self.window.caught_up();
        }
        self.read(now, sent, stale, reading, query, turn);
        Ok(true)
    }

    /// Applies a result to its question.
    fn read(
        &mut self,
        now: Instant,
        sent: Instant,
        stale: bool,
        reading: Reading,
        query: Query,
        turn: &mut Turn,
    ) {
        let Query { pending, nodes, assume, forgotten, .. } = query;
        let passes = matches!(reading, Reading::Passes { .. });
        if passes && assume && (stale || forgotten) {
            turn.forget.push(pending.question.request());
        }
        if stale {
            self.metrics.query(QueryOutcome::Stale);
            return self.answer(&pending, Verdict::Unanswered, turn);
        }
        match reading {
            Reading::Stale => {
                self.metrics.query(QueryOutcome::Stale);
                self.answer(&pending, Verdict::Unanswered, turn);
            }
            Reading::Shed => self.shed(now, sent, pending, turn),
            Reading::Passes { position, scope } => {
                self.passed(&pending, position, scope, assume && !forgotten, turn);
            }
            Reading::Fails { evaluated, reasons, outcome } => {
                self.failed(pending, evaluated.min(nodes), reasons, outcome, turn);
            }
        }
    }

    /// Handles a question that the shim returned unread: it is asked again while there is time.
    fn shed(&mut self, now: Instant, sent: Instant, mut pending: Pending, turn: &mut Turn) {
        self.metrics.query(QueryOutcome::Shed);
        let first_sent = *pending.sent.get_or_insert(sent);
        if first_sent + self.limits.timeout <= now {
            self.states.remove(&pending.question.ticket);
            turn.answers.push(self.timed_out(&pending));
        } else {
            self.retry(pending);
        }
    }

    /// The candidate at this position of the query passes.
    fn passed(
        &mut self,
        pending: &Pending,
        position: usize,
        scope: Scope,
        assumed: bool,
        turn: &mut Turn,
    ) {
        self.metrics.query(QueryOutcome::Passed);
        let position = pending.candidates()[position];
        let scope = match scope {
            // Without a cache that follows the decisions, any decision may invalidate an answer
            // that depends on other nodes, whatever scope the answer states.
            Scope::Elsewhere(_) if !self.limits.follows => {
                turn.is_unheeded |= !std::mem::replace(&mut self.was_unheeded, true);
                Scope::Topology
            }
            scope => scope,
        };
        let verdict = Verdict::Passed { position, scope, assumed };
        if assumed {
            self.assume(&pending.question, position);
            turn.answers.push(Answer { ticket: pending.question.ticket, verdict });
        } else {
            self.answer(pending, verdict, turn);
        }
    }

    /// The first `n_refused` candidates do not pass. Asks about the others, if there are any.
    fn failed(
        &mut self,
        mut pending: Pending,
        n_refused: usize,
        reasons: Vec<(String, u32)>,
        outcome: QueryOutcome,
        turn: &mut Turn,
    ) {
        results::merge(&mut pending.reasons, reasons);
        pending.refused += n_refused;
        if pending.candidates().is_empty() {
            self.metrics.query(outcome);
            let reasons = results::most_frequent(std::mem::take(&mut pending.reasons));
            self.answer(&pending, Verdict::Failed { reasons }, turn);
        } else {
            pending.sent = None;
            self.retry(pending);
        }
    }

    fn retry(&mut self, pending: Pending) {
        self.states.insert(pending.question.ticket, QuestionState::Waiting);
        self.retries.push_back(pending);
    }

    /// Answers and ends the question.
    fn answer(&mut self, pending: &Pending, verdict: Verdict, turn: &mut Turn) {
        let ticket = pending.question.ticket;
        self.states.remove(&ticket);
        turn.answers.push(Answer { ticket, verdict });
    }

    fn assume(&mut self, question: &Question, position: usize) {
        let Question { ticket, application, key, nodes, .. } = question;
        self.states.insert(*ticket, QuestionState::Answered { request: question.request() });
        self.assumed.entry(Arc::clone(key)).or_default().push(Assumed {
            ticket: *ticket,
            application: Arc::clone(application),
            node: Arc::clone(&nodes[position]),
        });
    }

    /// Ends a batch once all its queries are answered, or its last message has arrived.
    fn close_batch(&mut self, now: Instant, id: u64, last: bool, turn: &mut Turn) {
        let Entry::Occupied(batch) = self.in_flight.entry(id) else {
            debug_assert!(false, "batch {id} is in flight until this ends it");
            return;
        };
        if batch.get().open > 0 && !last {
            return;
        }
        let batch = batch.remove();
        if batch.shed {
            self.window.shed(now);
        } else if batch.stale {
            self.window.stale(now);
        } else {
            self.window.answered(now);
        }
        for query in batch.queries.into_iter().flatten().filter(|query| !query.cancelled) {
            self.metrics.query(QueryOutcome::Error);
            let ticket = query.pending.question.ticket;
            self.states.remove(&ticket);
            let mut reasons = query.pending.reasons;
            let left_out = ("left out of the shim's answer".to_owned(), clamped(query.nodes));
            results::merge(&mut reasons, vec![left_out]);
            let reasons = results::most_frequent(reasons);
            turn.answers.push(Answer { ticket, verdict: Verdict::Presumed { reasons } });
        }
    }

    /// Processes results of a batch not in flight: assumed requests are forgotten. The results are
    /// useless unless they may belong to an abandoned batch.
    fn late(&mut self, results: &cb::PredicateResults, turn: &mut Turn) {
        let id = results.batch_id;
        let Some(abandoned) = self.abandoned.get_mut(&id) else {
            self.useless += 1;
            self.metrics.unknown_result();
            return;
        };
        self.metrics.late_result();
        for result in &results.results {
            let passes = results::first_bit(&result.pass_bitmap, result.evaluated as usize);
            let request =
                abandoned.requests.get_mut(result.query_id as usize).and_then(Option::take);
            turn.forget.extend(request.filter(|_| passes.is_some()));
        }
        abandoned.messages_left = abandoned.messages_left.saturating_sub(1);
        if (results.last || abandoned.messages_left == 0)
            && let Some(Abandoned { requests, .. }) = self.abandoned.remove(&id)
            && !results.last
        {
            // Further results would be ignored.
            turn.forget.extend(requests.into_iter().flatten());
        }
    }
}
