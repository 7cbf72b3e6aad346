//! Preemption questions: which of these allocations must be evicted from a node before the request
//! fits on it?
//!
//! The engine asks in groups, the most promising first, so that a shim need not simulate every node
//! of the cluster to find the one to be used.
//!
//! # Invariant
//! Each question of a group is answered once: by the shim, at the deadline, or when the stream is
//! lost.

use std::collections::BTreeMap;

use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use tokio::time::Instant;

/// The answer to one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preempted {
    /// The request fits once this many of the allocations have ended, in the order of the question.
    Victims(usize),
    /// The request does not fit, or the answer is invalid.
    Failed,
    /// There is no answer, which is not the fault of the request.
    Unanswered,
}

impl Preempted {
    /// The answer as a message. `None` unless there are victims.
    pub(super) fn response(self) -> Option<si::PreemptionPredicatesResponse> {
        let Self::Victims(count) = self else { return None };
        let index = i32::try_from(count).unwrap_or(i32::MAX) - 1;
        Some(si::PreemptionPredicatesResponse { success: true, index })
    }
}

/// The answer presumed without a shim that answers such questions: the first attempt succeeds.
pub(super) fn presumed(args: &si::PreemptionPredicatesArgs) -> Preempted {
    if args.preempt_allocation_keys.is_empty() {
        return Preempted::Victims(0);
    }
    let response = si::PreemptionPredicatesResponse { success: true, index: args.start_index };
    judge(args, response)
}

fn judge(
    args: &si::PreemptionPredicatesArgs,
    response: si::PreemptionPredicatesResponse,
) -> Preempted {
    match usize::try_from(response.index) {
        _ if !response.success => Preempted::Failed,
        Err(_) if response.index == -1 => Preempted::Victims(0),
        Ok(index) if index < args.preempt_allocation_keys.len() => Preempted::Victims(index + 1),
        _ => Preempted::Failed,
    }
}

/// The groups in flight.
#[derive(Debug, Default)]
pub(super) struct Preemptions(BTreeMap<u64, QuestionGroup>);

#[derive(Debug)]
struct QuestionGroup {
    questions: Vec<si::PreemptionPredicatesArgs>,
    answers: Vec<Option<Preempted>>,
    deadline: Instant,
}

/// A completed group and its answers.
pub(super) type DoneGroup = (u64, Vec<Preempted>);

impl Preemptions {
    /// Adds a group in flight.
    pub(super) fn ask(
        &mut self,
        batch: u64,
        questions: Vec<si::PreemptionPredicatesArgs>,
        deadline: Instant,
    ) {
        let answers = vec![None; questions.len()];
        self.0.insert(batch, QuestionGroup { questions, answers, deadline });
    }

    /// Whether this group is in flight.
    pub(super) fn is_in_flight(&self, batch: u64) -> bool {
        self.0.contains_key(&batch)
    }

    /// Processes results. Returns the group if they complete it. Results from an old view are no
    /// answer. Fails if the group is not in flight.
    pub(super) fn results(
        &mut self,
        results: &cb::PreemptionResults,
    ) -> Result<Option<DoneGroup>, ()> {
        let id = results.batch_id;
        let group = self.0.get_mut(&id).ok_or(())?;
        for result in &results.results {
            let at = result.query_id as usize;
            let (Some(args), Some(answer)) = (group.questions.get(at), group.answers.get_mut(at))
            else {
                continue;
            };
            answer.get_or_insert_with(|| match (result.outcome(), result.response) {
                (cb::Outcome::Evaluated, Some(response)) => judge(args, response),
                (cb::Outcome::Stale | cb::Outcome::Shed, _) => Preempted::Unanswered,
                _ => Preempted::Failed,
            });
        }
        if results.last || group.answers.iter().all(Option::is_some) {
            return Ok(self.0.remove(&id).map(|group| done(id, group, Preempted::Failed)));
        }
        Ok(None)
    }

    /// Completes the groups whose time is over.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<DoneGroup> {
        let over: Vec<u64> =
            self.0.iter().filter(|(_, group)| group.deadline <= now).map(|(id, _)| *id).collect();
        let group = |id| Some(done(id, self.0.remove(&id)?, Preempted::Failed));
        over.into_iter().filter_map(group).collect()
    }

    /// The time of the next [`expire`](Self::expire).
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().map(|group| group.deadline).min()
    }

    /// Completes all groups when the stream is lost.
    pub(super) fn close(self) -> Vec<DoneGroup> {
        self.0.into_iter().map(|(id, group)| done(id, group, Preempted::Unanswered)).collect()
    }
}

fn done(id: u64, group: QuestionGroup, missing: Preempted) -> DoneGroup {
    (id, group.answers.into_iter().map(|answer| answer.unwrap_or(missing)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(node: &str, start_index: i32, victims: usize) -> si::PreemptionPredicatesArgs {
        si::PreemptionPredicatesArgs {
            node_id: node.to_owned(),
            preempt_allocation_keys: (0..victims).map(|n| format!("victim-{n}")).collect(),
            start_index,
            ..Default::default()
        }
    }

    #[test]
    fn index_names_the_last_victim() {
        for (success, index, expected) in [
            (true, 0, Preempted::Victims(1)),
            (true, 2, Preempted::Victims(3)),
            (true, -1, Preempted::Victims(0)),
            (true, 3, Preempted::Failed),
            (true, -2, Preempted::Failed),
            (false, 0, Preempted::Failed),
        ] {
            let response = si::PreemptionPredicatesResponse { success, index };
            assert_eq!(judge(&question("n", 0, 3), response), expected, "{response:?}");
        }
    }

    #[test]
    fn unanswered_group_fails_and_lost_group_stays_open() {
        let now = Instant::now();
        let mut out = Preemptions::default();
        out.ask(1, vec![question("n", 0, 1); 2], now);
        out.ask(2, vec![question("n", 0, 1)], now + std::time::Duration::from_secs(1));
        let result = cb::PreemptionResult {
            query_id: 1,
            outcome: cb::Outcome::Evaluated.into(),
            response: Some(si::PreemptionPredicatesResponse { success: true, index: 0 }),
            ..Default::default()
        };
        let results =
            cb::PreemptionResults { batch_id: 1, results: vec![result], ..Default::default() };
        assert_eq!(out.results(&results), Ok(None));
        assert_eq!(out.expire(now), [(1, vec![Preempted::Failed, Preempted::Victims(1)])]);
        assert_eq!(out.results(&results), Err(()));
        assert_eq!(out.close(), [(2, vec![Preempted::Unanswered])]);
    }
}
