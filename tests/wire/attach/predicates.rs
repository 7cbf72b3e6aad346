//! Predicate questions to a shim, and the effects of its answers.

use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use monoceros_proto::v1::shim_message::Body as ShimBody;

use super::{REQUIRED, ask_for, placed, rm_called, rm_with_nodes, used_and_pending};
use crate::harness::shim::{ALL, Shim, hello, passes, refuses};
use crate::harness::{Service, release};
use crate::revisions::client::application;

#[tokio::test]
async fn no_questions_without_a_callback_stream() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[], &["n1"]).await;
    ask_for(&rm, &["a"]).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn required_stream_delays_decisions() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, REQUIRED, &["n1"]).await;
    ask_for(&rm, &["a"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    // The question is the first effect of the ask: nothing was decided before.
    let batch = shim.batch().await;
    assert_eq!(batch.queries[0].allocation_key, "a");
    rm.read(|seen| assert!(seen.new.is_empty()));
    assert!(!shim.seen.iter().any(|body| matches!(body, Body::ContainerStates(_))));
    shim.answer(&batch, passes).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn first_set_bit_chooses_the_node() {
    let service = Service::start();
    let nodes: Vec<String> = (1..=9).map(|n| format!("n{n}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let rm = rm_with_nodes(&service, REQUIRED, &nodes).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    ask_for(&rm, &["a"]).await;
    while rm.read(|seen| seen.new.is_empty()) {
        let Some(batch) = shim.batch_or_allocation(&rm).await else { break };
        // Only the last node in the order of the question passes, the ninth of all.
        shim.answer(&batch, |_, node| node == "n9").await;
    }
    assert_eq!(placed(&rm), [("a".to_owned(), "n9".to_owned())]);
}

#[tokio::test]
async fn ask_refused_everywhere_is_asked_again() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, REQUIRED, &["n1", "n2"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    ask_for(&rm, &["a"]).await;
    let mut refused = std::collections::BTreeSet::new();
    while refused.len() < 2 {
        let batch = shim.batch().await;
        refused.extend(shim.nodes(&batch.queries[0]));
        shim.answer(&batch, refuses).await;
    }
    rm.read(|seen| assert!(seen.new.is_empty() && seen.rejected_allocations.is_empty()));
    shim.say(ShimBody::Invalidate(cb::Invalidate { all: true, ..Default::default() })).await;
    let batch = shim.batch().await;
    shim.answer(&batch, passes).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn late_answer_is_counted_and_ignored() {
    let service = Service::start_with(&[("CALLBACK__PREDICATE_TIMEOUT", "0.05")]);
    let rm = rm_with_nodes(&service, REQUIRED, &["n1"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.sync().await;
    ask_for(&rm, &["a"]).await;
    let late = shim.batch().await;
    assert!(late.queries[0].assume);
    // No answer until the scheduler asks again: the deadline is over.
    let again = shim.batch().await;
    assert_eq!(again.queries[0].allocation_key, "a");
    assert_ne!(again.batch_id, late.batch_id);
    let timeouts = r#"monoceros_callback_queries_total{outcome="timeout"}"#;
    let timeouts = service.counted(timeouts).await;
    assert!(timeouts >= 1, "{timeouts}");
    shim.answer(&late, passes).await;
    service.until_counted(r#"monoceros_callback_ignored_results_total{reason="late"}"#, 1).await;
    // The shim has assumed its answer, and is notified to forget it.
    let forget = shim.until("forget", |body| match body {
        Body::CacheSync(sync) => sync.args.as_ref()?.forget_allocations.first().cloned(),
        _ => None,
    });
    assert_eq!(forget.await.allocation_key, "a");
    // Any effect of the late answer would have arrived before this acceptance.
    let rm = rm.with_nodes(&["n2"]).await;
    let shown = application(&service, "rm", "root.a", "app").await;
    assert_eq!(shown["allocations"].as_array().map_or(0, Vec::len), 0, "{shown}");
    rm.read(|seen| assert!(seen.new.is_empty(), "{:?}", seen.new));
    shim.keep_answering(passes);
    rm.until("allocated", |seen| seen.new.len() == 1).await;
    assert_eq!(used_and_pending(&service).await, (1_000, 0));
}

#[tokio::test]
async fn silent_shim_does_not_block_other_rms() {
    // Longer than the test may take: the question stays open throughout.
    let service = Service::start_with(&[("CALLBACK__PREDICATE_TIMEOUT", "30")]);
    let slow_rm = rm_called("slow", &service, REQUIRED, &["n1"]).await;
    let busy_rm = rm_called("busy", &service, REQUIRED, &["n1"]).await;
    let mut slow = Shim::attach(&service, hello("slow", ALL)).await;
    let busy = Shim::attach(&service, hello("busy", ALL)).await;
    ask_for(&slow_rm, &["a"]).await;
    let open = slow.batch().await;
    busy.keep_answering(passes);
    // One after another: each is asked about, placed and released before the next.
    for n in 1..=20 {
        let key = format!("k{n}");
        ask_for(&busy_rm, &[&key]).await;
        busy_rm.until("allocated", |seen| seen.new.len() == n).await;
        busy_rm.send_allocations(vec![], vec![], vec![release("app", &key)]).await;
        busy_rm.until("released", |seen| seen.released.len() == n).await;
        slow_rm.read(|seen| assert!(seen.new.is_empty(), "{:?}", seen.new));
    }
    let outcome = |outcome| format!(r#"monoceros_callback_queries_total{{outcome="{outcome}"}}"#);
    assert_eq!(service.counted(&outcome("passed")).await, 20);
    // The slow shim's question was open all along: its answer is still valid.
    slow.answer(&open, passes).await;
    slow_rm.until("allocated", |seen| seen.new.len() == 1).await;
    for ended in ["timeout", "cancelled", "lost"] {
        assert_eq!(service.counted(&outcome(ended)).await, 0, "{ended}");
    }
    assert_eq!(service.counted(&outcome("passed")).await, 21);
}

#[tokio::test]
async fn shedding_shim_is_asked_again() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, REQUIRED, &["n1"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    ask_for(&rm, &["a", "b"]).await;
    for _ in 0..3 {
        let batch = shim.batch().await;
        shim.shed(&batch).await;
    }
    shim.keep_answering(passes);
    rm.until("both allocated", |seen| seen.new.len() == 2).await;
}
