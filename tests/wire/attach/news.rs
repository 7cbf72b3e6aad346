//! Messages of a callback stream other than questions: events, scheduling states of requests, and
//! the state of the shim.

use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use monoceros_proto::v1::shim_message::Body as ShimBody;

use super::rm_with_nodes;
use crate::harness::shim::{ALL, Shim, hello};
use crate::harness::{self, Service, ask};

#[tokio::test]
async fn events_respect_credit_across_streams() {
    let service = Service::start();
    let _rm = rm_with_nodes(&service, &[], &["n1", "n2", "n3"]).await;
    let node_events = |credit: u32, last_event_seq: u64| cb::Hello {
        event_types: vec![si::event_record::Type::Node.into()],
        initial_event_credit: credit,
        last_event_seq,
        ..hello("rm", &[cb::Capability::Events])
    };
    let mut shim = Shim::attach(&service, node_events(1, 0)).await;
    let first = shim.events().await;
    assert_eq!((first.events.len(), first.dropped), (1, 0));
    assert_eq!(first.events[0].r#type(), si::event_record::Type::Node);
    shim.say(ShimBody::EventCredit(cb::EventCredit { add: 1, ack_seq: first.last_seq })).await;
    let second = shim.events().await;
    assert_eq!(second.first_seq, first.last_seq + 1);
    drop(shim);
    let mut shim = Shim::attach(&service, node_events(100, second.last_seq)).await;
    let rest = shim.events().await;
    assert_eq!((rest.first_seq, rest.dropped), (second.last_seq + 1, 0));
}

#[tokio::test]
async fn dump_contains_the_shim_state() {
    let service = Service::start();
    let _rm = rm_with_nodes(&service, &[], &["n1"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.welcome().await;
    let dump = service.get("/debug/fullstatedump");
    let tell = async {
        let request = shim
            .until("state dump", |body| match body {
                Body::StateDump(request) => Some(*request),
                _ => None,
            })
            .await;
        for (index, data) in ["{\"shim\":", "\"remembers 4711\"}"].into_iter().enumerate() {
            let chunk = cb::StateDumpChunk {
                request_id: request.request_id,
                index: u32::try_from(index).unwrap(),
                last: index == 1,
                data: data.into(),
                ..Default::default()
            };
            shim.say(ShimBody::StateDump(chunk)).await;
        }
    };
    let (dump, ()) = tokio::join!(dump, tell);
    assert!(dump.contains("remembers 4711"), "{dump}");
}

#[tokio::test]
async fn unplaceable_request_state_is_sent() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[], &["n1"]).await;
    let mut shim = Shim::attach(&service, hello("rm", &[cb::Capability::ContainerStates])).await;
    let large = si::Allocation {
        resource_per_alloc: Some(harness::resource(100_000, 1)),
        ..ask("app", "large")
    };
    rm.send_allocations(vec![], vec![large], vec![]).await;
    let state = shim
        .until("container state", |body| match body {
            Body::ContainerStates(batch) => batch.states.first().cloned(),
            _ => None,
        })
        .await;
    assert_eq!((&*state.application_id, &*state.allocation_key), ("app", "large"));
}
