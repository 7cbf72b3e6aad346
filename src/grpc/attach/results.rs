//! Decoding of predicate results.
//!
//! This file knows the encoding (bitmaps, counts, reasons by plugin), so that the batcher handles
//! meanings only.
//!
//! # Invalid results
//! A result that contradicts its query is a [`Violation`]. A result that is merely empty counts as
//! a refusal with a reason that says so: a pending request with an explanation is better than one
//! placed on a node that the shim never evaluated.

use std::sync::Arc;

use monoceros_actors::metrics::QueryOutcome;
use monoceros_actors::{Elsewhere, Scope};
use monoceros_proto::v1 as cb;

/// Most reasons of one answer.
pub(super) const REASONS: usize = 5;

/// Most topics in each list of a result; with more, the result depends on everything.
const TOPICS: usize = 64;

/// Maximum length of a reason.
const REASON_BYTES: usize = 512;

/// A result that contradicts its query.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    #[error("a bitmap has {bytes} bytes for {nodes} nodes")]
    LongBitmap { bytes: usize, nodes: usize },
    #[error("{evaluated} nodes were evaluated of {nodes}")]
    TooManyEvaluated { evaluated: usize, nodes: usize },
    #[error("batch {batch} has no query {query}")]
    NoSuchQuery { batch: u64, query: u32 },
}

/// A decoded result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The node at this position of the query passes, those before it do not.
    Passes { position: usize, scope: Scope },
    /// The first `evaluated` nodes do not pass; the others are unknown.
    Fails { evaluated: usize, reasons: Vec<(String, u32)>, outcome: QueryOutcome },
    /// The shim's view was too old.
    Stale,
    /// The shim is overloaded and did not evaluate the query.
    Shed,
}

/// Decodes the result of a query about `nodes` nodes. Finds a passing node even if the result is
/// not usable, since the shim may have assumed the request there.
pub(super) fn read(result: &cb::PredicateResult, nodes: usize) -> Result<Reading, Violation> {
    let failed = result.failures.iter().map(|group| &group.fail_bitmap);
    for bitmap in std::iter::once(&result.pass_bitmap).chain(failed) {
        if bitmap.len() > nodes.div_ceil(8) {
            return Err(Violation::LongBitmap { bytes: bitmap.len(), nodes });
        }
    }
    let evaluated = result.evaluated as usize;
    if evaluated > nodes {
        return Err(Violation::TooManyEvaluated { evaluated, nodes });
    }
    let none_passes = |outcome, reason: &str| Reading::Fails {
        evaluated: nodes,
        reasons: vec![(cut(reason), clamped(nodes))],
        outcome,
    };
    let reading = match result.outcome() {
        cb::Outcome::Evaluated => match first_bit(&result.pass_bitmap, evaluated) {
            Some(position) => Reading::Passes { position, scope: scope(result) },
            None if evaluated == 0 => {
                none_passes(QueryOutcome::Failed, "the shim looked at no node")
            }
            None => Reading::Fails {
                evaluated,
                reasons: reasons(&result.failures, evaluated),
                outcome: QueryOutcome::Failed,
            },
        },
        cb::Outcome::UnknownAllocation => {
            none_passes(QueryOutcome::UnknownAllocation, "the shim does not know the allocation")
        }
        cb::Outcome::Error | cb::Outcome::Unspecified => {
            let text = if result.error.is_empty() { "the shim failed" } else { &result.error };
            none_passes(QueryOutcome::Error, text)
        }
        cb::Outcome::Shed => Reading::Shed,
        cb::Outcome::Stale => Reading::Stale,
    };
    Ok(reading)
}

/// The lowest bit set among the first `bits`, least significant first.
pub(super) fn first_bit(bitmap: &[u8], bits: usize) -> Option<usize> {
    let byte = bitmap.iter().position(|byte| *byte != 0)?;
    let bit = byte * 8 + bitmap[byte].trailing_zeros() as usize;
    (bit < bits).then_some(bit)
}

/// Adds reasons; equal ones are summed.
pub(super) fn merge(reasons: &mut Vec<(String, u32)>, more: Vec<(String, u32)>) {
    for (text, nodes) in more {
        match reasons.iter_mut().find(|(known, _)| *known == text) {
            Some((_, sum)) => *sum = sum.saturating_add(nodes),
            None => reasons.push((text, nodes)),
        }
    }
}

/// The most frequent reasons.
pub(super) fn most_frequent(mut reasons: Vec<(String, u32)>) -> Vec<(String, u32)> {
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    reasons.truncate(REASONS);
    reasons
}

fn reasons(failures: &[cb::FailureGroup], evaluated: usize) -> Vec<(String, u32)> {
    let mut merged = Vec::new();
    for group in failures {
        let nodes = match group.count {
            0 => group.fail_bitmap.iter().map(|byte| byte.count_ones()).sum(),
            count => count,
        };
        let text = match (&*group.plugin, &*group.reason) {
            ("", reason) => cut(reason),
            (plugin, "") => cut(plugin),
            (plugin, reason) => cut(&format!("{plugin}: {reason}")),
        };
        merge(&mut merged, vec![(text, nodes.max(1))]);
    }
    if merged.is_empty() {
        merged.push(("refused by the shim".to_owned(), clamped(evaluated)));
    }
    merged
}

fn scope(result: &cb::PredicateResult) -> Scope {
    match (result.scope(), &result.elsewhere) {
        (cb::Scope::Node, _) => Scope::Node,
        (cb::Scope::Static, _) => Scope::Static,
        (
            cb::Scope::Topology | cb::Scope::Unspecified,
            Some(cb::Elsewhere { depends_on, affects }),
        ) if depends_on.len() <= TOPICS && affects.len() <= TOPICS => {
            let (depends_on, affects) = (depends_on.clone(), affects.clone());
            Scope::Elsewhere(Arc::new(Elsewhere { depends_on, affects }))
        }
        (cb::Scope::Topology | cb::Scope::Unspecified, _) => Scope::Topology,
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(REASON_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

pub(super) fn clamped(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(evaluated: u32, bitmap: &[u8]) -> cb::PredicateResult {
        cb::PredicateResult {
            outcome: cb::Outcome::Evaluated.into(),
            evaluated,
            pass_bitmap: bitmap.to_vec(),
            ..Default::default()
        }
    }

    fn position(result: &cb::PredicateResult, nodes: usize) -> Option<usize> {
        match read(result, nodes).unwrap() {
            Reading::Passes { position, .. } => Some(position),
            Reading::Fails { .. } => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn first_evaluated_bit_is_the_node() {
        for (nodes, looked, bitmap, expected) in [
            (1, 1, &[1][..], Some(0)),
            (1, 1, &[], None),
            (8, 8, &[0x80], Some(7)),
            (9, 9, &[0, 1], Some(8)),
            (9, 9, &[0x80], Some(7)),
            (9, 8, &[0, 1], None),
            (9, 9, &[0, 0xfe], None),
            (16, 3, &[0b100], Some(2)),
            (16, 3, &[0b1000], None),
            (16, 16, &[0b110, 0xff], Some(1)),
        ] {
            let found = position(&evaluated(looked, bitmap), nodes);
            assert_eq!(found, expected, "{nodes} nodes, {looked} evaluated, {bitmap:?}");
        }
    }

    #[test]
    fn oversized_results_are_violations() {
        assert_eq!(
            read(&evaluated(8, &[0, 0]), 8),
            Err(Violation::LongBitmap { bytes: 2, nodes: 8 })
        );
        assert_eq!(
            read(&evaluated(9, &[]), 8),
            Err(Violation::TooManyEvaluated { evaluated: 9, nodes: 8 })
        );
    }

    #[test]
    fn failures_are_grouped_by_reason() {
        let group = |reason: &str, count, bitmap: &[u8]| cb::FailureGroup {
            plugin: "taints".to_owned(),
            reason: reason.to_owned(),
            fail_bitmap: bitmap.to_vec(),
            count,
        };
        let failures = vec![
            group("dedicated", 2, &[]),
            group("full", 0, &[0b111]),
            group("dedicated", 1, &[]),
        ];
        let result = cb::PredicateResult { failures, ..evaluated(6, &[]) };
        let Reading::Fails { reasons, .. } = read(&result, 6).unwrap() else { panic!() };
        let expected = [("taints: dedicated".to_owned(), 3), ("taints: full".to_owned(), 3)];
        assert_eq!(reasons, expected);
    }

    #[test]
    fn missing_outcome_and_scope_have_defaults() {
        let result = cb::PredicateResult::default();
        assert!(matches!(
            read(&result, 3).unwrap(),
            Reading::Fails { evaluated: 3, outcome: QueryOutcome::Error, .. }
        ));
        assert!(matches!(
            read(&evaluated(1, &[1]), 1).unwrap(),
            Reading::Passes { scope: Scope::Topology, .. }
        ));
    }

    #[test]
    fn elsewhere_counts_up_to_a_limit() {
        let topics = |n: usize| (0..n as u64).collect::<Vec<_>>();
        let scope = |scope: cb::Scope, depends_on: usize, affects: usize| {
            let elsewhere =
                cb::Elsewhere { depends_on: topics(depends_on), affects: topics(affects) };
            let (scope, elsewhere) = (scope.into(), Some(elsewhere));
            let result = cb::PredicateResult { scope, elsewhere, ..evaluated(1, &[1]) };
            let Reading::Passes { scope, .. } = read(&result, 1).unwrap() else { panic!() };
            scope
        };
        let expected = Elsewhere { depends_on: topics(2), affects: topics(1) };
        for stated in [cb::Scope::Topology, cb::Scope::Unspecified] {
            assert_eq!(scope(stated, 2, 1), Scope::Elsewhere(Arc::new(expected.clone())));
        }
        assert!(matches!(scope(cb::Scope::Topology, 0, 0), Scope::Elsewhere(_)));
        assert!(matches!(scope(cb::Scope::Topology, TOPICS, TOPICS), Scope::Elsewhere(_)));
        assert_eq!(scope(cb::Scope::Topology, TOPICS + 1, 0), Scope::Topology);
        assert_eq!(scope(cb::Scope::Topology, 0, TOPICS + 1), Scope::Topology);
        assert_eq!(scope(cb::Scope::Node, 1, 1), Scope::Node);
        assert_eq!(scope(cb::Scope::Static, 1, 1), Scope::Static);
    }

    #[test]
    fn reason_is_cut_at_a_character_boundary() {
        let result = cb::PredicateResult { error: "ß".repeat(1_000), ..Default::default() };
        let Reading::Fails { reasons, .. } = read(&result, 1).unwrap() else { panic!() };
        assert_eq!(reasons[0].0.len(), REASON_BYTES);
    }
}
