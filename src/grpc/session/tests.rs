//! A session whose streams come and go, without a scheduler.

use monoceros_actors::ResourceManagerCallback as _;

use super::*;
use crate::grpc::end::{Cause, StreamEnd};
use crate::grpc::stream_handle::StreamHandle;

fn accepted(ids: &[&str]) -> si::NodeResponse {
    let accepted = ids
        .iter()
        .map(|id| si::AcceptedNode { node_id: (*id).to_owned(), ..Default::default() })
        .collect();
    si::NodeResponse { accepted, ..si::NodeResponse::default() }
}

fn session_with(extra: &[(&str, &str)]) -> Arc<Session> {
    let registrant = Registrant { rm_id: "rm".to_owned(), number: 1, ..Default::default() };
    let terms = terms::tests::terms(extra);
    let attachment = Attachment::for_tests();
    Arc::new(Session::new(registrant, terms, LegacyOptions::default(), None, attachment))
}

fn session() -> Arc<Session> {
    session_with(&[("session.outboxItems", "2")])
}

fn bind<K: StreamKind>(session: &Arc<Session>) -> Result<Arc<StreamHandle>, StreamEnd> {
    let stream = Arc::new(StreamHandle::new());
    session.bind::<K>(&stream, Binding::default()).map(|()| stream)
}

#[test]
fn overflow_ends_all_streams() {
    let session = session();
    let nodes = bind::<Nodes>(&session).unwrap();
    let applications = bind::<Applications>(&session).ok().unwrap();
    session.update_node(accepted(&["n1", "n2"]));
    session.update_node(accepted(&["n3"]));
    for stream in [&nodes, &applications] {
        assert!(matches!(stream.end(), Some(StreamEnd::ResyncRequired(Cause::Overflow))));
    }
    assert!(session.take::<Nodes>(&nodes, |_| {}).is_none());
    assert!(matches!(bind::<Nodes>(&session), Err(StreamEnd::ResyncRequired(_))));
    assert_eq!(session.state(), SessionState::Paused);
}

#[test]
fn lost_scheduler_state_ends_all_streams() {
    let session = session();
    let open = bind::<Nodes>(&session).unwrap();
    session.resync_required("a step was lost");
    assert!(matches!(open.end(), Some(StreamEnd::ResyncRequired(Cause::StateLost(_)))));
    let late = bind::<Nodes>(&session);
    assert!(late.err().unwrap().to_string().contains("a step was lost"));
}

#[test]
fn unreadable_message_refuses_later_streams() {
    let session = session();
    let open = bind::<Nodes>(&session).unwrap();
    session.mark_items_lost();
    session.update_node(accepted(&["n1"]));
    assert!(session.take::<Nodes>(&open, |_| {}).is_some());
    assert!(bind::<Applications>(&session).is_err());
}

#[test]
fn session_runs_with_an_allocation_stream() {
    let session = session();
    assert_eq!(session.state(), SessionState::Unattached);
    bind::<Nodes>(&session).unwrap();
    assert_eq!(session.state(), SessionState::Unattached);
    let older = bind::<Allocations>(&session).unwrap();
    assert_eq!(session.state(), SessionState::Running);
    let newer = bind::<Allocations>(&session).unwrap();
    session.release::<Allocations>(&older);
    assert_eq!(session.state(), SessionState::Running, "the newer one is there");
    session.release::<Allocations>(&newer);
    assert_eq!(session.state(), SessionState::Paused);
    assert_eq!(session.status().open_streams, ["node"]);
    bind::<Allocations>(&session).unwrap();
    assert_eq!(session.state(), SessionState::Running);
}

#[tokio::test(start_paused = true)]
async fn session_times_out_in_two_steps() {
    let session = session();
    let mut deadlines = session.deadlines();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(!session.expire());
    assert_eq!(session.state(), SessionState::Unattached);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!session.expire());
    assert_eq!(session.state(), SessionState::Paused);
    assert_eq!(*deadlines.borrow_and_update(), Some(Instant::now() + Duration::from_secs(120)));
    assert_eq!(session.status().paused_at_ns, Some(60_000_000_000));
    tokio::time::advance(Duration::from_secs(120)).await;
    assert!(session.expire(), "by whoever can tell the scheduler");
    let stream = bind::<Allocations>(&session).unwrap();
    assert!(!session.expire(), "it came just in time");
    session.stop(&StreamEnd::Deregistered);
    assert!(matches!(stream.end(), Some(StreamEnd::Deregistered)));
    assert!(matches!(bind::<Nodes>(&session), Err(StreamEnd::Deregistered)));
}

#[test]
fn backlog_counts_all_kinds() {
    let session = session_with(&[("session.outboxItems", "10")]);
    let stream = bind::<Nodes>(&session).unwrap();
    bind::<Allocations>(&session).unwrap();
    session.update_node(accepted(&["n1", "n2", "n3"]));
    let is_behind = || session.live().status.is_behind();
    assert!(!is_behind());
    let applications = vec![si::AcceptedApplication::default(); 2];
    session.update_application(si::ApplicationResponse {
        accepted: applications,
        ..Default::default()
    });
    assert!(is_behind(), "5 of 10");
    assert_eq!(session.status().outbox_items, 5);
    session.take::<Nodes>(&stream, |_| {}).unwrap();
    assert!(!is_behind(), "2 of 10");
}

#[test]
fn gap_refuses_every_later_stream() {
    let session = session_with(&[("session.onStreamLoss", "resync")]);
    let stream = bind::<Nodes>(&session).unwrap();
    session.update_node(accepted(&["n1"]));
    session.release::<Nodes>(&stream);
    for _ in 0..2 {
        let refused = bind::<Nodes>(&session);
        assert!(matches!(refused, Err(StreamEnd::ResyncRequired(Cause::Missed))));
    }
    assert!(bind::<Allocations>(&session).is_err());
}
