//! The event streams of the metrics service, for clients other than resource managers.
//!
//! # Invariant
//! * A stream has no gap: the stream of a client that reads too slowly ends with an error.

use std::net::IpAddr;
use std::pin::Pin;

use futures::{Stream, stream};
use monoceros_actors::{
    EventFilter, EventSubscription, History, NamedEvent, SchedulerHandle, Streamed,
};
use monoceros_proto::si::v1::event_record::Type;
use monoceros_proto::v1;
use tonic::{Code, Status};

use crate::grpc::admin::refusal::CallRefusal;
use crate::grpc::admin::target;
use crate::grpc::end::with_reason;
use crate::identity::Identity;
use crate::logbook::OpenStreams;
use crate::logbook::streams::StreamPermit;

/// A stream of events.
pub(super) type Events<E> = Pin<Box<dyn Stream<Item = Result<E, Status>> + Send>>;

/// A subscription, and the permit that counts it among the open event streams.
pub(super) struct Followed(EventSubscription, StreamPermit);

/// The caller of an event stream.
pub(super) struct EventCaller {
    pub(super) caller: Identity,
    pub(super) host: Option<IpAddr>,
}

/// Subscribes a caller to events.
pub(super) async fn follow(
    handle: &SchedulerHandle,
    streams: &OpenStreams,
    reader: EventCaller,
    request: v1::EventParameters,
) -> Result<Followed, Status> {
    let types = types(&request.types)?;
    let rm_id = target::resource_manager_or_all(handle, &reader.caller, &request.rm_id).await?;
    let events = handle.events();
    if !events.is_tracking() {
        let text = "event tracking is disabled (`event.trackingEnabled`)";
        return Err(with_reason(Code::FailedPrecondition, "EVENTS_DISABLED", text));
    }
    let most = events.stream_limits();
    let host = reader.host.map(|host| host.to_string()).unwrap_or_default();
    let seat = streams.take(&host, most).ok_or_else(|| {
        let text = format!(
            "too many event streams: {} may be open, {} from one host",
            most.in_all, most.per_host
        );
        with_reason(Code::ResourceExhausted, "LIMIT_EVENT_STREAMS", &text)
    })?;
    let history = match request.from_seq {
        0 => History::Last(request.history.into()),
        from => History::From(from),
    };
    Ok(Followed(events.subscribe(history, EventFilter { types, rm_id }), seat))
}

impl Followed {
    /// The stream of these events, each converted by `form`.
    pub(super) fn given<E: 'static>(self, form: fn(NamedEvent) -> E) -> Events<E> {
        Box::pin(stream::unfold(Some(self), move |open| async move {
            let Self(mut subscription, seat) = open?;
            match subscription.next().await? {
                Streamed::Event { id, mut record } => {
                    record.record.seq = id;
                    Some((Ok(form(record)), Some(Self(subscription, seat))))
                }
                Streamed::Lagged => {
                    let text =
                        "events were not read in time; what came since is lost to this stream";
                    let status = with_reason(Code::ResourceExhausted, "EVENTS_LAGGED", text);
                    Some((Err(status), None))
                }
            }
        }))
    }
}

/// An event with the name of its pod.
pub(super) fn info(event: NamedEvent) -> v1::EventInfo {
    let NamedEvent { record, pod } = event;
    v1::EventInfo { record: Some(record), pod: pod.as_deref().unwrap_or_default().to_owned() }
}

fn types(named: &[i32]) -> Result<Vec<Type>, CallRefusal> {
    let known = |number: &i32| match Type::try_from(*number) {
        Ok(Type::UnknownEventrecordType) | Err(_) => {
            Err(CallRefusal::field("types", format!("{number} is no type of events")))
        }
        Ok(kind) => Ok(kind),
    };
    named.iter().map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_event_types_are_named() {
        assert_eq!(types(&[1, 5]), Ok(vec![Type::Request, Type::Usergroup]));
        for number in [0, 9] {
            let refusal = types(&[number]).unwrap_err();
            assert_eq!(refusal.to_string(), format!("`types`: {number} is no type of events"));
        }
    }
}
