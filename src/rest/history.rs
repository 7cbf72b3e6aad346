//! Usage of a queue, user or node over time, from the logbook.

use monoceros_actors::names::{self, is_user};

use super::endpoints::{name as checked, queue_path, value};
use super::failures::Failure;
use super::lists::{self, Subject};
use super::replies::EndpointReply;
use super::{Reads, RestEdge};
use crate::clock::now_ns;
use crate::logbook::history::{HistorySubject, POINTS_MAX, Range};
use crate::reads::Kind;

/// Points of an answer, unless the request names another number.
const POINTS: u32 = 240;

/// Answers with the history of a subject.
pub(super) async fn of_subject<S: Reads>(
    edge: &RestEdge<S>,
    query: Option<&str>,
    partition: String,
    of: HistorySubject,
    name: String,
) -> Result<EndpointReply, Failure> {
    if !edge.source.partition_names().contains(&partition) {
        return Err(Failure::PartitionNotFound);
    }
    let (name, missing) = match of {
        HistorySubject::Queue => (queue_path(&name)?, Failure::QueueNotFound),
        HistorySubject::User => {
            (checked(&name, is_user, Failure::UserName)?, Failure::UserNotFound)
        }
        HistorySubject::Node => (name, Failure::NodeNotFound),
    };
    let history = edge.logbook.history.clone();
    if !history.is_kept() {
        return Err(Failure::NoHistory);
    }
    let range = range(query, now_ns() / 1_000_000_000)?;
    let subject = Subject::which(Kind::History, &partition, &[&format!("{of:?} {name} {range:?}")]);
    let read = move || async move {
        let found = history.read(of, (partition, name), range).await;
        found.map_err(|panic| Failure::Document(panic.to_string()))?.ok_or(missing)
    };
    lists::plain(edge, &subject, read).await
}

/// Reads the range from the query. `now` is in seconds since the epoch.
fn range(query: Option<&str>, now: i64) -> Result<Range, Failure> {
    let points = match value(query, "points") {
        Some(text) => match text.parse() {
            Ok(points) if (1..=POINTS_MAX).contains(&points) => points,
            _ => return Err(Failure::HistoryPoints(names::shown(&text))),
        },
        None => POINTS,
    };
    let (from, to) = (time(query, "from", now)?, time(query, "to", now)?);
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        return Err(Failure::HistoryRange { from, to });
    }
    Ok(Range { from, to, points })
}

/// Returns a time of the query, in seconds since the epoch.
fn time(query: Option<&str>, name: &'static str, now: i64) -> Result<Option<i64>, Failure> {
    let Some(text) = value(query, name) else { return Ok(None) };
    match text.parse::<i64>() {
        Ok(seconds) if seconds < 0 => Ok(Some(now.saturating_add(seconds))),
        Ok(seconds) => Ok(Some(seconds)),
        Err(_) => Err(Failure::HistoryTime { name, text: names::shown(&text) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_since_the_epoch_or_before_now() {
        let of = |query| range(Some(query), 1_000).map_err(|failure| failure.to_string());
        assert_eq!(of(""), Ok(Range { from: None, to: None, points: POINTS }));
        let range = Range { from: Some(700), to: Some(990), points: 1_000 };
        assert_eq!(of("from=-300&to=990&points=1000"), Ok(range));
        for (query, reason) in [
            ("points=0", "points `0` is no number from 1 to 1000"),
            ("points=1001", "points `1001` is no number from 1 to 1000"),
            ("from=1h", "from `1h` is no time: seconds since the epoch, or negative: before now"),
            ("from=10&to=5", "from (10) is after to (5), in seconds since the epoch"),
            ("to=x", "to `x` is no time: seconds since the epoch, or negative: before now"),
        ] {
            assert_eq!(of(query), Err(reason.to_owned()));
        }
    }
}
