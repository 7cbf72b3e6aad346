//! A callback stream from its first message to its end, and the time without one.

use std::collections::BTreeSet;
use std::time::Duration;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::v1;
use monoceros_proto::v1::core_message::Body;
use monoceros_proto::v1::shim_message::Body as ShimBody;
use tokio::time::timeout;
use tonic::Code;

use super::{REQUIRED, ask_for, placed, rm_with_nodes, used_and_pending};
use crate::harness::shim::{ALL, Shim, hello, passes};
use crate::harness::{PATIENCE, Service, release};

#[tokio::test]
async fn lost_required_stream_pauses_decisions() {
    let service = Service::start();
    let nodes: Vec<String> = (0..8).map(|n| format!("n{n}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let rm = rm_with_nodes(&service, REQUIRED, &nodes).await;
    let one_each = v1::Hello { max_queries_per_batch: 1, ..hello("rm", ALL) };
    let mut shim = Shim::attach(&service, one_each).await;
    let mut keys: Vec<String> = (0..16).map(|n| format!("a{n:02}")).collect();
    ask_for(&rm, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut out = BTreeSet::new();
    for _ in 0..16 {
        out.insert(shim.batch().await.queries[0].allocation_key.clone());
    }
    assert_eq!(out.into_iter().collect::<Vec<_>>(), keys, "all of them are out");
    drop(shim);
    until_detached(&service).await;

    // An ask is withdrawn, and asks, a node and an application are added, but nothing is decided:
    // neither the questions in flight nor new ones.
    let withdrawn = keys.pop().unwrap();
    rm.send_allocations(vec![], vec![], vec![release("app", &withdrawn)]).await;
    ask_for(&rm, &["b0", "b1"]).await;
    keys.extend(["b0".to_owned(), "b1".to_owned()]);
    ask_for(&rm, &[""]).await;
    rm.expect_rejection("", "R_KEY").await;
    let rm = rm.with_nodes(&["n8"]).await.with_application("other", "root.b").await;
    assert_eq!(used_and_pending(&service).await, (0, 17_000));
    rm.read(|seen| assert!(seen.new.is_empty(), "{:?}", seen.new));

    // The next stream is asked about all of them, and has no assumptions.
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    let view = shim.sync().await;
    assert!(view.snapshot && view.args.unwrap().assumed_allocations.is_empty());
    rm.read(|seen| assert!(seen.new.is_empty(), "{:?}", seen.new));
    let mut asked = BTreeSet::new();
    while asked.len() < keys.len() {
        let batch = shim.batch().await;
        asked.extend(batch.queries.iter().map(|query| query.allocation_key.clone()));
        shim.answer(&batch, passes).await;
    }
    assert_eq!(asked.into_iter().collect::<Vec<_>>(), keys);
    shim.keep_answering(passes);
    rm.until("all allocated", |seen| seen.new.len() >= keys.len()).await;
    // A last ask. When it is placed, no earlier question is open.
    ask_for(&rm, &["c"]).await;
    keys.push("c".to_owned());
    rm.until("one more", |seen| seen.new.iter().any(|new| new.allocation_key == "c")).await;
    let mut placed: Vec<_> = placed(&rm).into_iter().map(|(key, _)| key).collect();
    placed.sort();
    assert_eq!(placed, keys, "each once");
    assert_eq!(used_and_pending(&service).await, (18_000, 0));
}

/// Waits until the service has noticed the end of the callback stream.
async fn until_detached(service: &Service) {
    let mut admin = AdminServiceClient::new(service.channel().await);
    let detached = async {
        loop {
            let listed = admin.list_sessions(v1::ListSessionsRequest {}).await.unwrap();
            let [session] = &listed.into_inner().sessions[..] else { panic!("one session") };
            if !session.open_streams.iter().any(|stream| stream == "attach") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, detached).await.expect("the stream is gone in time");
}

#[tokio::test]
async fn second_stream_displaces_the_first() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, REQUIRED, &["n1"]).await;
    let mut first = Shim::attach(&service, hello("rm", ALL)).await;
    assert_eq!(first.welcome().await.attach_id, 1);
    let mut second = Shim::attach(&service, hello("rm", ALL)).await;
    assert_eq!(second.welcome().await.attach_id, 2);
    assert_eq!(first.goodbye().await.reason, "displaced");
    assert_eq!(first.end().await, (Code::Aborted, "STREAM_DISPLACED".to_owned()));
    ask_for(&rm, &["a"]).await;
    let batch = second.batch().await;
    second.answer(&batch, passes).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn wrong_first_message_ends_the_stream() {
    let service = Service::start_with(&[("CALLBACK__HELLO_TIMEOUT", "0.1")]);
    let _rm = rm_with_nodes(&service, &[], &[]).await;
    let stale = v1::Hello { session_id: 1, ..hello("rm", ALL) };
    for (first, code, reason) in [
        (Some(ShimBody::Hello(stale)), Code::FailedPrecondition, "SESSION_STALE"),
        (
            Some(ShimBody::Hello(hello("nobody", ALL))),
            Code::FailedPrecondition,
            "RM_NOT_REGISTERED",
        ),
        (Some(ShimBody::Hello(hello("", ALL))), Code::InvalidArgument, "RM_ID_MISSING"),
        (
            Some(ShimBody::Heartbeat(v1::Heartbeat::default())),
            Code::InvalidArgument,
            "HELLO_MISSING",
        ),
        (None, Code::DeadlineExceeded, "HELLO_TIMEOUT"),
    ] {
        let mut shim = Shim::open(&service).await;
        if let Some(first) = first {
            shim.say(first).await;
        }
        assert_eq!(shim.end().await, (code, reason.to_owned()));
    }
}

#[tokio::test]
async fn violations_end_the_stream() {
    let service = Service::start();
    let _rm = rm_with_nodes(&service, &[], &[]).await;
    for wrong in [
        ShimBody::Hello(hello("rm", ALL)),
        ShimBody::CacheSyncAck(v1::CacheSyncAck { cache_seq: 1_000_000, failures: vec![] }),
    ] {
        let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
        shim.say(wrong).await;
        assert_eq!(shim.end().await, (Code::InvalidArgument, "PROTOCOL_VIOLATION".to_owned()));
    }
    let narrow = v1::Hello { max_inflight_batches: 2, ..hello("rm", ALL) };
    let mut shim = Shim::attach(&service, narrow).await;
    for batch_id in 900..910 {
        let results = v1::PredicateResults { batch_id, ..Default::default() };
        shim.try_say(ShimBody::PredicateResults(results)).await;
    }
    assert_eq!(shim.end().await, (Code::ResourceExhausted, "RESULT_FLOOD".to_owned()));
}

#[tokio::test]
async fn registration_ends_the_earlier_stream() {
    let service = Service::start();
    let _rm = rm_with_nodes(&service, &[], &[]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.welcome().await;
    let _again = rm_with_nodes(&service, &[], &[]).await;
    assert!(shim.goodbye().await.resync);
    assert_eq!(shim.end().await, (Code::Aborted, "SESSION_SUPERSEDED".to_owned()));
}

#[tokio::test]
async fn silence_ends_the_stream() {
    let service = Service::start_with(&[("CALLBACK__HEARTBEAT", "0.05")]);
    let _rm = rm_with_nodes(&service, &[], &[]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.say(ShimBody::Heartbeat(v1::Heartbeat { nonce: 77, reply: true, ..Default::default() }))
        .await;
    shim.until("echo", |body| match body {
        Body::Heartbeat(echo) if echo.nonce == 77 && !echo.reply => Some(()),
        _ => None,
    })
    .await;
    // From here on the shim is silent.
    assert_eq!(shim.end().await, (Code::Unavailable, "HEARTBEAT_MISSED".to_owned()));
}

#[tokio::test]
async fn both_sides_send_goodbye() {
    let service = Service::start();
    let _rm = rm_with_nodes(&service, &[], &[]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.say(ShimBody::Goodbye(v1::Goodbye::default())).await;
    assert_eq!(shim.end().await.0, Code::Ok);
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.welcome().await;
    service.terminate();
    assert!(shim.goodbye().await.reconnect_after_ms > 0);
    assert_eq!(shim.end().await, (Code::Unavailable, "SHUTTING_DOWN".to_owned()));
}

#[tokio::test]
async fn limits_are_the_minimum_of_both_sides() {
    let service = Service::start();
    let _rm = rm_with_nodes(&service, &[("callback.maxNodesPerBatch", "100")], &[]).await;
    let wishes = v1::Hello {
        max_inflight_batches: 3,
        max_nodes_per_batch: 1_000,
        predicate_timeout_ms: 500,
        ..hello("rm", ALL)
    };
    let welcome = Shim::attach(&service, wishes).await.welcome().await;
    assert_eq!((welcome.max_inflight_batches, welcome.max_nodes_per_batch), (3, 100));
    assert_eq!((welcome.max_queries_per_batch, welcome.predicate_timeout_ms), (64, 500));
    assert_eq!(welcome.predicates_absent(), v1::AbsentPolicy::AbsentHold);
    assert_eq!(Duration::from_millis(welcome.heartbeat_ms.into()), Duration::from_secs(10));
}
