//! Checks whether a queue configuration would be accepted.
//!
//! # Why a text that cannot be used is a success
//! Callers refuse a change if the answer is *no*, and accept it if there is no answer. So every
//! body is answered with a verdict, even one that is not text.

use monoceros_actors::config;
use serde::Serialize;

use super::Reads;

/// The verdict about a configuration.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ValidationOutcome {
    allowed: bool,
    /// All errors, one per line.
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    /// The checksum of an accepted text.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
    /// Whether the text contains this checksum. A contained checksum does not affect the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum_match: Option<bool>,
}

/// Checks a text as an update does, if a check may run now. Otherwise the answer is *no*, so that
/// many requests cannot make others pass unchecked.
pub(super) async fn outcome<S: Reads>(source: &S, body: Vec<u8>) -> ValidationOutcome {
    let text = match String::from_utf8(body) {
        Ok(text) => text,
        Err(error) => {
            let from = error.utf8_error().valid_up_to();
            return refused(format!("it is not UTF-8 from byte {from} on"));
        }
    };
    match source.check_configuration(text.clone()).await {
        Ok(Ok(checksum)) => ValidationOutcome {
            allowed: true,
            checksum_match: Some(config::carries_checksum(&text, &checksum)),
            checksum: Some(checksum),
            ..ValidationOutcome::default()
        },
        Ok(Err(errors)) => refused(errors.to_string()),
        Err(busy) => refused(busy.to_string()),
    }
}

fn refused(reason: impl Into<String>) -> ValidationOutcome {
    ValidationOutcome { reason: reason.into(), ..ValidationOutcome::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::tests::RUNNING;

    const GOOD: &str = "partitions:\n  - name: default\n    queues:\n      - name: root\n";

    async fn check(body: &[u8]) -> ValidationOutcome {
        outcome(&RUNNING, body.to_vec()).await
    }

    fn limited(limit: &str) -> String {
        format!("{GOOD}        limits:\n          - limit: all\n            users: ['*']\n{limit}")
    }

    #[tokio::test]
    async fn every_body_gets_a_verdict_with_all_reasons() {
        let bad_policy = format!("{GOOD}    nodesortpolicy: {{type: best}}\n");
        let two_faults = format!("{bad_policy}    bogus: true\n");
        let cases: [(&str, &[u8], bool, &[&str]); 8] = [
            ("good", GOOD.as_bytes(), true, &[]),
            ("empty", b"", true, &[]),
            ("bad policy", bad_policy.as_bytes(), false, &["best"]),
            ("unknown key", b"partition: []\n", false, &["partition"]),
            ("two faults", two_faults.as_bytes(), false, &["best", "bogus"]),
            ("broken", b"partitions: [\n", false, &["line"]),
            ("junk", &[0x80, 0, 0xff], false, &["not UTF-8 from byte 0"]),
            ("comments alone", b"# nothing\n", false, &["E_NO_PARTITIONS"]),
        ];
        for (case, body, allowed, reasons) in cases {
            let outcome = check(body).await;
            assert_eq!(outcome.allowed, allowed, "{case}: {}", outcome.reason);
            assert_eq!(outcome.reason.is_empty(), allowed, "{case}");
            assert_eq!(outcome.checksum.is_some(), allowed, "{case}");
            assert!(outcome.reason.lines().count() >= reasons.len(), "{case}: {}", outcome.reason);
            for reason in reasons {
                assert!(outcome.reason.contains(reason), "{case}: {}", outcome.reason);
            }
        }
    }

    #[tokio::test]
    async fn a_contained_checksum_does_not_affect_the_verdict() {
        let plain = check(GOOD.as_bytes()).await;
        assert_eq!(plain.checksum_match, Some(false));
        let checksum = plain.checksum.clone().unwrap();
        assert_eq!((checksum.len(), checksum.to_uppercase()), (64, checksum.clone()));
        let own = check(format!("{GOOD}checksum: {checksum}\n").as_bytes()).await;
        assert_eq!(own.checksum_match, Some(false), "the newline behind it is one more");
        let own = check(format!("{GOOD}checksum: {checksum}").as_bytes()).await;
        assert_eq!((&own.checksum, own.checksum_match), (&plain.checksum, Some(true)));
        let wrong = check(format!("{GOOD}checksum: {}", "0".repeat(64)).as_bytes()).await;
        assert_eq!((wrong.allowed, wrong.checksum_match), (true, Some(false)));
        assert_eq!(wrong.checksum, plain.checksum);
        let shown = serde_json::to_string(&wrong).unwrap();
        assert_eq!(
            shown,
            format!(r#"{{"allowed":true,"checksum":"{checksum}","checksumMatch":false}}"#)
        );
    }

    #[tokio::test]
    async fn limits_of_nothing_are_refused() {
        let zeros = limited("            maxresources: {memory: 0, vcore: 0}\n");
        let outcome = check(zeros.as_bytes()).await;
        assert!(outcome.reason.contains("E_LIMIT_RES_ZERO"), "{}", outcome.reason);
    }
}
