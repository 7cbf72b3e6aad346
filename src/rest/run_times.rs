//! Run times of a partition: how long allocations of each class run.

use std::sync::Arc;
use std::time::Duration;

use monoceros_actors::names;
use monoceros_actors::runtimes::{Basis, RowKey, RunTimes};
use serde::Serialize;
use tokio::task::spawn_blocking;

use super::endpoints::{path_of, value};
use super::failures::Failure;
use super::lists::{self, Subject};
use super::replies::EndpointReply;
use super::{Reads, RestEdge};
use crate::reads::Kind;
use crate::settings::seconds;

/// A class, or a wider row, and what is expected of its allocations.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunTimeRow {
    #[serde(flatten)]
    key: Arc<RowKey>,
    /// Runs that ended by themselves. Old ones count less.
    ended: f64,
    /// Runs that were cut off. Old ones count less.
    at_least: f64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    expected: Option<Expected>,
}

/// Run times within which parts of the allocations end. A part of which that is unknown is omitted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Expected {
    /// The row that they are read from.
    basis: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    p10_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    median_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p90_seconds: Option<f64>,
}

/// The rows that a request selects.
#[derive(Clone, Debug)]
struct Selection {
    queue: Option<String>,
    user: Option<String>,
    /// The time for which the allocations have run already.
    age: Duration,
}

/// Answers with the rows of a partition, by queue, user, stem and shape.
pub(super) async fn list<S: Reads>(
    edge: &RestEdge<S>,
    query: Option<&str>,
    partition: String,
) -> Result<EndpointReply, Failure> {
    let selection = selection(query);
    let subject = Subject::which(Kind::RunTimes, &partition, &[&format!("{selection:?}")]);
    let source = edge.source.clone();
    let read = move || async move {
        // If the query is malformed too, the partition is reported first.
        let read = source.run_times(&partition).await?;
        let selection = selection?;
        let Some((run_times, now_ns)) = read else { return Ok(Vec::new()) };
        let rows = spawn_blocking(move || rows(&run_times, &selection, now_ns)).await;
        rows.map_err(|panic| Failure::Document(panic.to_string()))
    };
    lists::plain(edge, &subject, read).await
}

fn selection(query: Option<&str>) -> Result<Selection, Failure> {
    let age = match value(query, "age") {
        Some(text) => seconds::parse(&text).ok_or_else(|| Failure::Age(names::shown(&text)))?,
        None => Duration::ZERO,
    };
    let queue = value(query, "queue").map(path_of).transpose()?;
    Ok(Selection { queue, user: value(query, "user"), age })
}

fn rows(run_times: &RunTimes, selection: &Selection, now_ns: i64) -> Vec<RunTimeRow> {
    let is = |wanted: Option<&str>, field: Option<&str>| wanted.is_none() || wanted == field;
    let (queue, user) = (selection.queue.as_deref(), selection.user.as_deref());
    let mut keys: Vec<_> = run_times.keys().cloned().collect();
    keys.retain(|key| is(queue, key.queue.as_deref()) && is(user, key.user.as_deref()));
    keys.sort_unstable();
    let row = |key: Arc<RowKey>| {
        // The row of all is there before any run has ended.
        let counted = run_times.weights(&key, now_ns);
        let (ended, at_least) = counted.filter(|(ended, at_least)| ended + at_least > 0.0)?;
        let estimate = run_times.estimate(&key, now_ns);
        let expected = estimate.map(|estimate| {
            let within = |part| {
                let lasts = estimate.histogram.quantile(part, selection.age)?;
                Some(rounded(lasts.as_secs_f64()))
            };
            Expected {
                basis: named(estimate.basis),
                p10_seconds: within(0.1),
                median_seconds: within(0.5),
                p90_seconds: within(0.9),
            }
        });
        Some(RunTimeRow { key, ended: rounded(ended), at_least: rounded(at_least), expected })
    };
    keys.into_iter().filter_map(row).collect()
}

/// Rounds to thousandths.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

fn named(basis: Basis) -> &'static str {
    match basis {
        Basis::Class => "class",
        Basis::User => "user",
        Basis::Queue => "queue",
        Basis::All => "all",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use monoceros_actors::runtimes::{RunTimeSettings, RunTimesImage};

    use super::*;

    /// The rows of four runs, two of them of 64 s, one of 512 s, and one cut off.
    fn shown(query: &str) -> Result<String, String> {
        let mut image = RunTimesImage::new(0);
        let class = r#""queue":"root.a","user":"ada","stem":"etl","shape":"vcore=2^1""#;
        let other = r#""queue":"root.b","user":"eve","stem":"web","shape":"vcore=2^1""#;
        for row in [
            r#"{"runs":[[49,2,0],[73,1,1]]}"#,
            r#"{"queue":"root.a","runs":[[49,2,0],[73,1,0]]}"#,
            r#"{"queue":"root.a","user":"ada","runs":[[49,2,0],[73,1,0]]}"#,
            &format!(r#"{{{class},"runs":[[49,2,0],[73,1,0]]}}"#),
            r#"{"queue":"root.b","runs":[[73,0,1]]}"#,
            r#"{"queue":"root.b","user":"eve","runs":[[73,0,1]]}"#,
            &format!(r#"{{{other},"runs":[[73,0,1]]}}"#),
        ] {
            image.push(serde_json::from_str(row).unwrap()).unwrap();
        }
        let run_times = RunTimes::restored(RunTimeSettings::default(), &image);
        let selection = selection(Some(query)).map_err(|failure| failure.to_string())?;
        let rows = rows(&run_times, &selection, 0);
        let lines = rows.iter().map(|row| serde_json::to_string(row).unwrap() + "\n");
        Ok(lines.collect())
    }

    #[test]
    fn each_row_has_what_is_expected_of_it() {
        expect![[r#"
            {"ended":3.0,"atLeast":1.0,"basis":"all","p10Seconds":66.834,"medianSeconds":66.834}
            {"queue":"root.a","ended":3.0,"atLeast":0.0,"basis":"queue","p10Seconds":66.834,"medianSeconds":66.834,"p90Seconds":534.668}
            {"queue":"root.a","user":"ada","ended":3.0,"atLeast":0.0,"basis":"user","p10Seconds":66.834,"medianSeconds":66.834,"p90Seconds":534.668}
            {"queue":"root.a","user":"ada","stem":"etl","shape":"vcore=2^1","ended":3.0,"atLeast":0.0,"basis":"class","p10Seconds":66.834,"medianSeconds":66.834,"p90Seconds":534.668}
            {"queue":"root.b","ended":0.0,"atLeast":1.0,"basis":"all","p10Seconds":66.834,"medianSeconds":66.834}
            {"queue":"root.b","user":"eve","ended":0.0,"atLeast":1.0,"basis":"all","p10Seconds":66.834,"medianSeconds":66.834}
            {"queue":"root.b","user":"eve","stem":"web","shape":"vcore=2^1","ended":0.0,"atLeast":1.0,"basis":"all","p10Seconds":66.834,"medianSeconds":66.834}
        "#]].assert_eq(&shown("").unwrap());
    }

    #[test]
    fn before_a_run_has_ended_there_is_no_row() {
        let run_times = RunTimes::new(RunTimeSettings::default(), 0);
        let everything = selection(None).unwrap();
        assert_eq!(rows(&run_times, &everything, 0).len(), 0);
    }

    #[test]
    fn rows_are_selected_and_expected_by_their_age() {
        expect![[r#"
            {"queue":"root.a","user":"ada","ended":3.0,"atLeast":0.0,"basis":"user","p10Seconds":534.668,"medianSeconds":534.668,"p90Seconds":534.668}
            {"queue":"root.a","user":"ada","stem":"etl","shape":"vcore=2^1","ended":3.0,"atLeast":0.0,"basis":"class","p10Seconds":534.668,"medianSeconds":534.668,"p90Seconds":534.668}
        "#]].assert_eq(&shown("queue=Root.A&user=ada&age=2m").unwrap());
        assert_eq!(shown("user=nobody"), Ok(String::new()));
        let fault = "age `soon` is no duration: seconds, or a text such as 90s, 2m or 1h";
        assert_eq!(shown("age=soon"), Err(fault.to_owned()));
    }
}
