//! Callback streams over gRPC, from the shim's side (scheduler-interface chapter, 2.9).

use std::time::Duration;

use monoceros_proto::callback::v1 as cb;
use monoceros_proto::callback::v1::core_message::Body;
use monoceros_proto::callback::v1::shim_message::Body as Said;
use monoceros_proto::si::v1 as si;
use tonic::Code;

use crate::harness::shim::{ALL, Shim, hello, passes, refuses};
use crate::harness::{self, QUEUES, Rm, Service, ask, registration, release};

/// An RM with one application and these nodes, of four cores each.
async fn rm_with_nodes(service: &Service, extra: &[(&str, &str)], nodes: &[&str]) -> Rm {
    let extra_config =
        extra.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let mut client = service.client().await;
    let request = si::RegisterResourceManagerRequest { extra_config, ..registration("rm", QUEUES) };
    client.register_resource_manager(request).await.unwrap();
    let rm = Rm::open(client, "rm").await;
    rm.hello().await;
    rm.with_nodes(nodes).await.with_application("app", "root.a").await
}

async fn ask_for(rm: &Rm, keys: &[&str]) {
    rm.send_allocations(vec![], keys.iter().map(|key| ask("app", key)).collect(), vec![]).await;
}

fn placed(rm: &Rm) -> Vec<(String, String)> {
    rm.read(|seen| {
        seen.new.iter().map(|new| (new.allocation_key.clone(), new.node_id.clone())).collect()
    })
}

#[tokio::test]
async fn c1_without_a_callback_stream_nobody_is_asked() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[], &["n1"]).await;
    ask_for(&rm, &["a"]).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn c2_where_a_stream_is_required_nothing_is_decided_before_it_is_there() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "required")], &["n1"]).await;
    ask_for(&rm, &["a"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    // The question is the first thing that becomes of the ask: nothing was decided before.
    let batch = shim.batch().await;
    assert_eq!(batch.queries[0].allocation_key, "a");
    rm.read(|seen| assert!(seen.new.is_empty()));
    assert!(!shim.seen.iter().any(|body| matches!(body, Body::ContainerStates(_))));
    shim.answer(&batch, passes).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn c3_the_node_whose_bit_is_set_first_is_the_one() {
    let service = Service::start();
    let nodes: Vec<String> = (1..=9).map(|n| format!("n{n}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "required")], &nodes).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    ask_for(&rm, &["a"]).await;
    while rm.read(|seen| seen.new.is_empty()) {
        let Some(batch) = shim.batch_or_allocation(&rm).await else { break };
        // Only the last node in the order of the question will do, of the ninth in all.
        shim.answer(&batch, |_, node| node == "n9").await;
    }
    assert_eq!(placed(&rm), [("a".to_owned(), "n9".to_owned())]);
}

#[tokio::test]
async fn c4_an_ask_that_is_refused_everywhere_stays_and_is_asked_about_again() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "required")], &["n1", "n2"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    ask_for(&rm, &["a"]).await;
    let mut refused = std::collections::BTreeSet::new();
    while refused.len() < 2 {
        let batch = shim.batch().await;
        refused.extend(shim.nodes(&batch.queries[0]));
        shim.answer(&batch, refuses).await;
    }
    rm.read(|seen| assert!(seen.new.is_empty() && seen.rejected_allocations.is_empty()));
    shim.say(Said::Invalidate(cb::Invalidate { all: true, ..Default::default() })).await;
    let batch = shim.batch().await;
    shim.answer(&batch, passes).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn c5_a_late_answer_is_ignored_and_the_ask_is_asked_about_again() {
    let service = Service::start_with(&[("CALLBACK__PREDICATE_TIMEOUT", "0.05")]);
    let rm = rm_with_nodes(&service, &[("callback.predicates", "required")], &["n1"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    ask_for(&rm, &["a"]).await;
    let late = shim.batch().await;
    // Nothing is answered before the scheduler asks anew.
    let again = shim.batch().await;
    assert_eq!(again.queries[0].allocation_key, "a");
    shim.answer(&late, passes).await;
    shim.answer(&again, passes).await;
    shim.keep_answering(passes);
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn c6a_one_batch_with_assumptions_settles_placements_that_exclude_each_other() {
    let service = Service::start();
    let nodes: Vec<String> = (0..64).map(|n| format!("n{n:02}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "required")], &nodes).await;
    let shim = Shim::attach(&service, hello("rm", ALL)).await;
    let keys: Vec<String> = (0..64).map(|n| format!("a{n:02}")).collect();
    ask_for(&rm, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    shim.keep_excluding();
    rm.until("all allocated", |seen| seen.new.len() == 64).await;
    let nodes: std::collections::BTreeSet<_> =
        placed(&rm).into_iter().map(|(_, node)| node).collect();
    assert_eq!(nodes.len(), 64, "each on a node of its own");
}

#[tokio::test]
async fn c6a_a_winner_that_is_lost_to_a_node_removal_is_forgotten_and_voids_only_what_rests_on_it()
{
    let service = Service::start();
    let nodes = ["n1", "n2", "n3", "n4"];
    let rm = rm_with_nodes(&service, &[("callback.predicates", "required")], &nodes).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.sync().await;
    ask_for(&rm, &["a", "b", "c", "d"]).await;
    let mut out = Vec::new();
    while out.iter().map(|batch: &cb::PredicateBatch| batch.queries.len()).sum::<usize>() < 4 {
        out.push(shim.batch().await);
    }
    let place: std::collections::BTreeMap<String, String> = out
        .iter()
        .flat_map(|batch| &batch.queries)
        .map(|query| (query.allocation_key.clone(), shim.nodes(query).remove(0)))
        .collect();
    let apart: std::collections::BTreeSet<_> = place.values().collect();
    assert_eq!(apart.len(), 4, "each on a node of its own: {place:?}");
    // The node of the second one goes while the shim thinks; the next node's answer says that the
    // scheduler knows.
    let gone = si::NodeInfo {
        node_id: place["b"].clone(),
        action: si::node_info::ActionFromRm::Decomission.into(),
        ..Default::default()
    };
    rm.send_nodes(vec![gone]).await;
    let rm = rm.with_nodes(&["n9"]).await;
    // What was decided before the second holds, as does what rests on its own node only. The
    // last one saw the second where it is not.
    let scope = |key: &str| match key {
        "d" => cb::Scope::Topology,
        _ => cb::Scope::Node,
    };
    for batch in &out {
        shim.pass(batch, scope).await;
    }
    let forgotten = shim
        .until("forget", |body| match body {
            Body::CacheSync(sync) => {
                sync.args.as_ref().unwrap().forget_allocations.first().cloned()
            }
            _ => None,
        })
        .await;
    assert_eq!(forgotten.allocation_key, "b");
    rm.until("what holds is allocated", |seen| seen.new.len() == 2).await;
    let mut placed_now = placed(&rm);
    placed_now.sort();
    let expected = ["a", "c"].map(|key| (key.to_owned(), place[key].clone()));
    assert_eq!(placed_now, expected);
    // Asked again: by now, or soon.
    let mut again: Vec<_> = std::mem::take(&mut shim.seen)
        .into_iter()
        .filter_map(|body| match body {
            Body::PredicateBatch(batch) => Some(batch),
            _ => None,
        })
        .collect();
    let asked_again = |again: &[cb::PredicateBatch]| -> std::collections::BTreeSet<String> {
        again
            .iter()
            .flat_map(|batch| &batch.queries)
            .map(|one| one.allocation_key.clone())
            .collect()
    };
    while asked_again(&again).len() < 2 {
        again.push(shim.batch().await);
    }
    assert_eq!(asked_again(&again).into_iter().collect::<Vec<_>>(), ["b", "d"]);
    for batch in &again {
        shim.pass(batch, scope).await;
    }
    shim.keep_answering(passes);
    rm.until("all allocated", |seen| seen.new.len() == 4).await;
    assert!(placed(&rm).iter().all(|(_, node)| *node != place["b"]));
}

#[tokio::test]
async fn c7_the_shims_view_is_brought_up_to_date_before_anything_that_depends_on_it() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &["n1"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    let first = shim.sync().await;
    assert!(first.snapshot && first.snapshot_end, "the whole view comes first: {first:?}");
    ask_for(&rm, &["a"]).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
    let sync = shim.sync().await;
    assert!(sync.cache_seq > first.cache_seq && !sync.snapshot);
    let assumed = &sync.args.as_ref().unwrap().assumed_allocations[0];
    assert_eq!((&*assumed.allocation_key, &*assumed.node_id), ("a", "n1"));
    rm.send_allocations(vec![], vec![], vec![release("app", "a")]).await;
    rm.until("released", |seen| seen.released.len() == 1).await;
    let sync = shim.sync().await;
    assert_eq!(sync.args.unwrap().forget_allocations[0].allocation_key, "a");
}

#[tokio::test]
async fn a_new_stream_begins_with_what_the_rm_has_not_reported_itself() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "optional")], &["n1"]).await;
    ask_for(&rm, &["a"]).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
    let running = si::Allocation { node_id: "n1".to_owned(), ..ask("app", "b") };
    rm.send_allocations(vec![], vec![running], vec![]).await;
    rm.until("taken over", |seen| seen.new.len() == 2).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    let assumed = shim.sync().await.args.unwrap().assumed_allocations;
    let keys: Vec<_> = assumed.iter().map(|one| &*one.allocation_key).collect();
    assert_eq!(keys, ["a"]);
}

#[tokio::test]
async fn c8_an_allocation_that_the_shim_cannot_take_in_is_never_told_and_goes_elsewhere() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &["n1"]).await;
    let confirming = cb::Hello { confirm_assume: true, ..hello("rm", ALL) };
    let mut shim = Shim::attach(&service, confirming).await;
    shim.sync().await;
    ask_for(&rm, &["a"]).await;
    let sync = shim.sync().await;
    let failure = cb::CacheSyncFailure {
        allocation_key: "a".to_owned(),
        reason: "volume".to_owned(),
        retryable: true,
    };
    shim.acknowledge(sync.cache_seq, vec![failure]).await;
    let again = shim.sync().await;
    assert_eq!(again.args.as_ref().unwrap().assumed_allocations[0].allocation_key, "a");
    rm.read(|seen| assert!(seen.new.is_empty(), "{:?}", seen.new));
    shim.acknowledge(again.cache_seq, vec![]).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn an_allocation_that_is_not_confirmed_in_time_is_told_anyway() {
    let service = Service::start_with(&[("CALLBACK__CACHE_SYNC_TIMEOUT", "0.05")]);
    let rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &["n1"]).await;
    let confirming = cb::Hello { confirm_assume: true, ..hello("rm", ALL) };
    let _shim = Shim::attach(&service, confirming).await;
    ask_for(&rm, &["a"]).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}

#[tokio::test]
async fn c9_a_lost_stream_loses_no_ask_and_nothing_is_decided_until_the_next() {
    let service = Service::start();
    let nodes: Vec<String> = (0..8).map(|n| format!("n{n}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "required")], &nodes).await;
    let one_each = cb::Hello { max_queries_per_batch: 1, ..hello("rm", ALL) };
    let mut shim = Shim::attach(&service, one_each).await;
    let keys: Vec<String> = (0..16).map(|n| format!("a{n:02}")).collect();
    ask_for(&rm, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for _ in 0..16 {
        shim.batch().await;
    }
    drop(shim);
    rm.read(|seen| assert!(seen.new.is_empty()));
    let shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.keep_answering(passes);
    rm.until("all allocated", |seen| seen.new.len() >= 16).await;
    let mut placed: Vec<_> = placed(&rm).into_iter().map(|(key, _)| key).collect();
    placed.sort();
    assert_eq!(placed, keys, "each once");
}

#[tokio::test]
async fn c10_a_second_stream_takes_the_place_of_the_first() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "required")], &["n1"]).await;
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
async fn c14_a_shim_that_does_not_answer_delays_no_other_rm() {
    let service = Service::start();
    let mut rms = Vec::new();
    for id in ["slow", "busy"] {
        let mut client = service.client().await;
        let extra_config =
            [("callback.predicates".to_owned(), "required".to_owned())].into_iter().collect();
        let request =
            si::RegisterResourceManagerRequest { extra_config, ..registration(id, QUEUES) };
        client.register_resource_manager(request).await.unwrap();
        let rm = Rm::open(client, id).await;
        rm.hello().await;
        rms.push(rm.with_nodes(&["n1"]).await.with_application("app", "root.a").await);
    }
    let mut slow = Shim::attach(&service, hello("slow", ALL)).await;
    let busy = Shim::attach(&service, hello("busy", ALL)).await;
    ask_for(&rms[0], &["a"]).await;
    slow.batch().await;
    busy.keep_answering(passes);
    ask_for(&rms[1], &["a", "b"]).await;
    rms[1].until("both allocated", |seen| seen.new.len() == 2).await;
    rms[0].read(|seen| assert!(seen.new.is_empty()));
}

#[tokio::test]
async fn c15_a_shim_that_sheds_everything_for_a_while_is_asked_again() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "required")], &["n1"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    ask_for(&rm, &["a", "b"]).await;
    for _ in 0..3 {
        let batch = shim.batch().await;
        shim.shed(&batch).await;
    }
    shim.keep_answering(passes);
    rm.until("both allocated", |seen| seen.new.len() == 2).await;
}

#[tokio::test]
async fn c16_a_stream_that_begins_wrongly_ends_with_the_status_that_says_so() {
    let service = Service::start_with(&[("CALLBACK__HELLO_TIMEOUT", "0.1")]);
    let _rm = rm_with_nodes(&service, &[], &[]).await;
    let stale = cb::Hello { session_id: 1, ..hello("rm", ALL) };
    for (first, code, reason) in [
        (Some(Said::Hello(stale)), Code::FailedPrecondition, "SESSION_STALE"),
        (Some(Said::Hello(hello("nobody", ALL))), Code::FailedPrecondition, "RM_NOT_REGISTERED"),
        (Some(Said::Hello(hello("", ALL))), Code::InvalidArgument, "RM_ID_MISSING"),
        (Some(Said::Heartbeat(cb::Heartbeat::default())), Code::InvalidArgument, "HELLO_MISSING"),
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
async fn what_no_shim_may_send_ends_its_stream() {
    let service = Service::start();
    let _rm = rm_with_nodes(&service, &[], &[]).await;
    for wrong in [
        Said::Hello(hello("rm", ALL)),
        Said::CacheSyncAck(cb::CacheSyncAck { cache_seq: 1_000_000, failures: vec![] }),
    ] {
        let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
        shim.say(wrong).await;
        assert_eq!(shim.end().await, (Code::InvalidArgument, "PROTOCOL_VIOLATION".to_owned()));
    }
    let narrow = cb::Hello { max_inflight_batches: 2, ..hello("rm", ALL) };
    let mut shim = Shim::attach(&service, narrow).await;
    for batch_id in 900..910 {
        let results = cb::PredicateResults { batch_id, ..Default::default() };
        shim.try_say(Said::PredicateResults(results)).await;
    }
    assert_eq!(shim.end().await, (Code::ResourceExhausted, "RESULT_FLOOD".to_owned()));
}

#[tokio::test]
async fn a_registration_ends_the_stream_of_the_session_before() {
    let service = Service::start();
    let _rm = rm_with_nodes(&service, &[], &[]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.welcome().await;
    let _again = rm_with_nodes(&service, &[], &[]).await;
    assert!(shim.goodbye().await.resync);
    assert_eq!(shim.end().await, (Code::Aborted, "SESSION_SUPERSEDED".to_owned()));
}

#[tokio::test]
async fn a_sign_of_life_is_answered_and_silence_ends_the_stream() {
    let service = Service::start_with(&[("CALLBACK__HEARTBEAT", "0.05")]);
    let _rm = rm_with_nodes(&service, &[], &[]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.say(Said::Heartbeat(cb::Heartbeat { nonce: 77, reply: true, ..Default::default() })).await;
    shim.until("echo", |body| match body {
        Body::Heartbeat(echo) if echo.nonce == 77 && !echo.reply => Some(()),
        _ => None,
    })
    .await;
    // From here on it says nothing.
    assert_eq!(shim.end().await, (Code::Unavailable, "HEARTBEAT_MISSED".to_owned()));
}

#[tokio::test]
async fn a_shim_may_say_goodbye_and_the_service_does_when_it_ends() {
    let service = Service::start();
    let _rm = rm_with_nodes(&service, &[], &[]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.say(Said::Goodbye(cb::Goodbye::default())).await;
    assert_eq!(shim.end().await.0, Code::Ok);
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    shim.welcome().await;
    service.terminate();
    assert!(shim.goodbye().await.reconnect_after_ms > 0);
    assert_eq!(shim.end().await, (Code::Unavailable, "SHUTTING_DOWN".to_owned()));
}

#[tokio::test]
async fn what_is_agreed_on_is_the_least_of_both_wishes() {
    let service = Service::start();
    let _rm = rm_with_nodes(&service, &[("callback.maxNodesPerBatch", "100")], &[]).await;
    let wishes = cb::Hello {
        max_inflight_batches: 3,
        max_nodes_per_batch: 1_000,
        predicate_timeout_ms: 500,
        ..hello("rm", ALL)
    };
    let welcome = Shim::attach(&service, wishes).await.welcome().await;
    assert_eq!((welcome.max_inflight_batches, welcome.max_nodes_per_batch), (3, 100));
    assert_eq!((welcome.max_queries_per_batch, welcome.predicate_timeout_ms), (64, 500));
    assert_eq!(welcome.predicates_absent(), cb::AbsentPolicy::AbsentHold);
    assert_eq!(Duration::from_millis(welcome.heartbeat_ms.into()), Duration::from_secs(10));
}

#[tokio::test]
async fn c11_events_come_as_far_as_credit_was_given_and_a_later_stream_goes_on() {
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
    shim.say(Said::EventCredit(cb::EventCredit { add: 1, ack_seq: first.last_seq })).await;
    let second = shim.events().await;
    assert_eq!(second.first_seq, first.last_seq + 1);
    drop(shim);
    let mut shim = Shim::attach(&service, node_events(100, second.last_seq)).await;
    let rest = shim.events().await;
    assert_eq!((rest.first_seq, rest.dropped), (second.last_seq + 1, 0));
}

#[tokio::test]
async fn c12_the_state_of_the_shim_is_part_of_the_dump() {
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
            shim.say(Said::StateDump(chunk)).await;
        }
    };
    let (dump, ()) = tokio::join!(dump, tell);
    assert!(dump.contains("remembers 4711"), "{dump}");
}

#[tokio::test]
async fn a_request_that_only_lacks_a_node_is_told() {
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
