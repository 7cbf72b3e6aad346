//! Events over HTTP: a range by number, or a stream of new ones.
//!
//! # Invariants
//! * Every answer is a range of numbers without a gap. A stream that cannot continue without a gap
//!   says so and ends.
//! * The order of the checks is part of the interface: tracking, then the number of streams, then
//!   the parameters.

mod pump;
mod shown;

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use futures::{Stream, stream};
use monoceros_actors::{EventRange, EventReader, names};
use serde::Serialize;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

pub(super) use self::pump::Pump;
use self::pump::{ChunkQueue, ReaderLease};
use self::shown::{Shown, lines};
use super::endpoints::value;
use super::failures::Failure;
use super::replies::{Class, EndpointReply, error_object};
use super::{Reads, RestEdge};
use crate::logbook::streams::StreamPermit;
use crate::reads::{Draft, Kind};

/// Past events that a stream reads at a time.
const PIECE: u64 = 256;

/// Attempts to read the oldest kept event, which is dropped when new ones arrive.
const LOOKS: usize = 16;

/// Longest stored host name in bytes.
const HOST_BYTES: usize = 255;

const CLOSED: &str = "Event stream was closed by the producer";

/// A range of events in the form of the interface.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Batch<'r> {
    #[serde(rename = "InstanceUUID")]
    instance_uuid: &'r str,
    #[serde(rename = "LowestID")]
    lowest_id: u64,
    #[serde(rename = "HighestID")]
    highest_id: u64,
    /// `null` if the first event is no longer kept.
    event_records: Option<Vec<Shown<'r>>>,
}

/// The first line of a stream.
#[derive(Serialize)]
struct Greeting<'r> {
    #[serde(rename = "InstanceUUID")]
    instance_uuid: &'r str,
}

/// Answers with a range of events.
pub(super) async fn batch<S: Reads>(
    edge: &RestEdge<S>,
    query: Option<&str>,
) -> Result<EndpointReply, Failure> {
    let events = edge.source.events();
    if !events.is_tracking() {
        return Err(Failure::EventsDisabled);
    }
    let most = u64::try_from(edge.logbook.events_per_answer()).unwrap_or(u64::MAX);
    let count = number(query, "count")?.unwrap_or(most).min(most);
    if count == 0 {
        return Err(Failure::NoEvents);
    }
    let start = number(query, "start")?.unwrap_or(0);
    let run = Arc::clone(&edge.logbook.run);
    let read = move |_| async move {
        let written = spawn_blocking(move || {
            let EventRange { lowest, highest, records } = events.range(start, count);
            let shown = records.iter().map(Shown::of).collect();
            let batch = Batch {
                instance_uuid: &run,
                lowest_id: lowest,
                highest_id: highest,
                event_records: Some(shown).filter(|shown: &Vec<_>| !shown.is_empty()),
            };
            let mut text = serde_json::to_vec(&batch)?;
            text.push(b'\n');
            Ok::<_, serde_json::Error>(text)
        });
        let written = written.await.map_err(|panic| Failure::Document(panic.to_string()))?;
        let written = written.map_err(|error| Failure::Document(error.to_string()))?;
        Ok(Draft::of(written).into())
    };
    let wanted = format!("{start} {count}");
    let document = edge.joined.read(Kind::Events, "", wanted, read).await?;
    Ok(EndpointReply::shared(Class::Json, document))
}

/// Opens a stream of events, which begins with some past ones.
pub(super) fn follow<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
) -> Result<impl Stream<Item = Bytes> + Send + use<S>, Failure> {
    let events = edge.source.events();
    if !events.is_tracking() {
        return Err(Failure::EventsDisabled);
    }
    let seat = edge.logbook.streams.take(&host(request), events.stream_limits());
    let seat = seat.ok_or(Failure::TooManyStreams)?;
    let count = number(request.uri.query(), "count")?.unwrap_or(0);
    let lease = edge.pump.join(&events);
    let following = EventStream {
        run: Arc::clone(&edge.logbook.run),
        events,
        lease,
        stopping: edge.stopping.clone(),
        phase: Phase::Greeting { count },
        _seat: seat,
    };
    Ok(stream::unfold(following, async |mut following| {
        let lines = following.next_lines().await?;
        Some((lines, following))
    }))
}

struct EventStream {
    run: Arc<str>,
    events: EventReader,
    lease: ReaderLease,
    stopping: CancellationToken,
    phase: Phase,
    _seat: StreamPermit,
}

/// Progress of a stream.
enum Phase {
    /// Nothing was sent.
    Greeting {
        count: u64,
    },
    /// Past events before `next` were sent. If none was sent, `next` is the requested beginning,
    /// which may be older than the oldest kept event.
    Past {
        next: u64,
        is_begun: bool,
    },
    /// New events are sent as they occur.
    Live(ChunkQueue),
    Over,
}

impl EventStream {
    /// Returns the next lines. `None` at the end.
    async fn next_lines(&mut self) -> Option<Bytes> {
        match &mut self.phase {
            Phase::Greeting { count } => {
                let count = *count;
                Some(self.greet(count))
            }
            Phase::Past { next, is_begun } => {
                let (next, is_begun) = (*next, *is_begun);
                let lines = if is_begun { self.past(next) } else { self.oldest(next) };
                match lines {
                    Some(lines) if lines.is_empty() => Box::pin(self.next_lines()).await,
                    Some(lines) => Some(lines),
                    None => Some(self.close()),
                }
            }
            Phase::Live(queue) => match self.stopping.run_until_cancelled(queue.next()).await {
                Some(Some(lines)) => Some(lines),
                Some(None) => Some(self.close()),
                None => None,
            },
            Phase::Over => None,
        }
    }

    fn greet(&mut self, count: u64) -> Bytes {
        let next = self.lease.position().unwrap_or(0);
        self.phase = Phase::Past { next: next.saturating_sub(count), is_begun: false };
        let greeting = Greeting { instance_uuid: &self.run };
        let mut line = serde_json::to_vec(&greeting).expect("a text is JSON");
        line.push(b'\n');
        line.into()
    }

    /// Returns the first past events, from `wanted` or from the oldest kept one. If the oldest one
    /// is dropped during the read, the read is repeated.
    fn oldest(&mut self, wanted: u64) -> Option<Bytes> {
        (0..LOOKS).find_map(|_| self.past(wanted.max(self.events.range(0, 0).lowest)))
    }

    /// Returns the next past events. With the last of them the stream joins the listeners, which
    /// receive all later events. `None` if events were dropped.
    fn past(&mut self, from: u64) -> Option<Bytes> {
        let position = self.lease.position()?;
        let mut missing = position.saturating_sub(from);
        if missing <= PIECE {
            let (position, queue) = self.lease.listen()?;
            missing = position.saturating_sub(from);
            self.phase = Phase::Live(queue);
        } else {
            missing = PIECE;
            self.phase = Phase::Past { next: from + missing, is_begun: true };
        }
        let records = self.events.range(from, missing).records;
        let is_whole = records.len() as u64 == missing;
        is_whole.then(|| lines(records.iter()))
    }

    /// Returns the last line of a stream that the server ends.
    fn close(&mut self) -> Bytes {
        self.phase = Phase::Over;
        let mut line = error_object(StatusCode::OK, CLOSED);
        line.push(b'\n');
        line.into()
    }
}

/// Returns the host that a stream counts for, as the request names it.
fn host(request: &Parts) -> String {
    let named = request.headers.get(HOST).and_then(|host| host.to_str().ok());
    let named = named.or_else(|| request.uri.authority().map(Authority::as_str));
    named.unwrap_or_default().chars().take(HOST_BYTES).collect()
}

/// Parses a query parameter that consists of digits.
fn number(query: Option<&str>, name: &'static str) -> Result<Option<u64>, Failure> {
    let Some(text) = value(query, name) else { return Ok(None) };
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    let refused = || Failure::EventNumber { name, text: names::shown(&text) };
    number.map(Some).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use monoceros_actors::{
        EventSettings, ResourceManagerCallback, Scheduler, SchedulerHandle, StreamLimits,
    };
    use monoceros_proto::si::v1 as si;
    use serde_json::Value;

    use super::pump::Pump;
    use super::*;
    use crate::logbook::OpenStreams;

    struct Deaf;

    impl ResourceManagerCallback for Deaf {
        fn update_allocation(&self, _: si::AllocationResponse) {}

        fn update_application(&self, _: si::ApplicationResponse) {}

        fn update_node(&self, _: si::NodeResponse) {}
    }

    /// Adds nodes, and returns the number of the oldest kept event once their events are recorded.
    async fn more(scheduler: &SchedulerHandle, names: std::ops::Range<u32>) -> u64 {
        let node = |name| si::NodeInfo::new(format!("n{name}"), [("vcore", 1)]);
        let nodes = si::NodeRequest::report("rm", names.map(node).collect::<Vec<_>>());
        scheduler.update_node(nodes).await.unwrap();
        // Each makes two events, which need not arrive together.
        scheduler.settle().await;
        scheduler.events().range(0, 0).lowest
    }

    #[tokio::test]
    async fn past_events_begin_with_the_oldest_kept_one() {
        let settings = EventSettings {
            ring_capacity: NonZeroUsize::new(8).unwrap(),
            ..EventSettings::default()
        };
        let scheduler = Scheduler::simple().events(settings).start().unwrap();
        let registration = si::RegisterResourceManagerRequest::new("rm");
        scheduler.register_resource_manager(registration, Arc::new(Deaf)).await.unwrap();
        more(&scheduler, 0..20).await;
        let events = scheduler.events();
        let pump = Pump::default();
        let limits = StreamLimits { in_all: 1, per_host: 1 };
        let mut following = EventStream {
            run: "run".into(),
            lease: pump.join(&events),
            stopping: CancellationToken::new(),
            phase: Phase::Greeting { count: 1_000 },
            _seat: OpenStreams::default().take("host", limits).unwrap(),
            events,
        };
        assert!(following.next_lines().await.unwrap().starts_with(b"{\"InstanceUUID\""));
        // Between the greeting and the next lines, the ring drops events.
        let lowest = more(&scheduler, 20..26).await;
        // Waits until the pump has read all events. Unread ones would count as new.
        while following.lease.position() != Some(following.events.range(0, 0).highest + 1) {
            tokio::task::yield_now().await;
        }
        let oldest = following.events.range(lowest, 1).records;
        let lines = following.next_lines().await.unwrap();
        let first: Value =
            serde_json::Deserializer::from_slice(&lines).into_iter().next().unwrap().unwrap();
        assert_eq!(first["objectID"], oldest[0].object_id.as_str(), "{first}");
    }

    #[test]
    fn numbers_are_digits() {
        let count =
            |query: &str| number(Some(query), "count").map_err(|failure| failure.to_string());
        assert_eq!(count("count=7&count=8"), Ok(Some(7)));
        assert_eq!(count("count=18446744073709551615"), Ok(Some(u64::MAX)));
        for none in ["", "count=", "start=3"] {
            assert_eq!(count(none), Ok(None), "{none}");
        }
        for wrong in ["abc", "-1", "1.5", "%2B5", "%205", "18446744073709551616", "0x1"] {
            let refused = count(&format!("count={wrong}")).unwrap_err();
            assert!(refused.starts_with("count `"), "{refused}");
            assert!(refused.ends_with("is no number from 0 to 18446744073709551615"), "{refused}");
        }
    }
}
