//! The shim's cache: assumptions and their removal, and their order with the allocations.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use monoceros::grpc::stubs::scheduler_client::SchedulerClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use monoceros_proto::v1::shim_message::Body as ShimBody;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use super::{REQUIRED, ask_for, placed, rm_with_nodes, used_and_pending};
use crate::harness::shim::{ALL, Shim, hello, passes};
use crate::harness::{PATIENCE, Rm, Seen, Service, ask, release};

/// An allocation stream read message by message, next to a callback stream.
struct AllocationStream {
    requests: mpsc::Sender<si::AllocationRequest>,
    answers: Streaming<si::AllocationResponse>,
}

impl AllocationStream {
    async fn open_on(channel: Channel) -> Self {
        let (requests, sent) = mpsc::channel(16);
        let mut client = SchedulerClient::new(channel);
        let answers = client.update_allocation(ReceiverStream::new(sent)).await.unwrap();
        Self { requests, answers: answers.into_inner() }
    }

    async fn send(&self, asks: Vec<si::Allocation>, ends: Vec<si::AllocationRelease>) {
        let releases =
            si::AllocationReleasesRequest { allocations_to_release: ends, ..Default::default() };
        let request = si::AllocationRequest {
            allocations: asks,
            releases: Some(releases),
            rm_id: "rm".to_owned(),
            ..Default::default()
        };
        self.requests.send(request).await.unwrap();
    }

    /// The next message. `None` once the stream has ended OK.
    async fn answer(&mut self) -> Option<si::AllocationResponse> {
        timeout(PATIENCE, self.answers.message()).await.expect("an answer in time").unwrap()
    }
}

/// Keys that make a large message.
fn long_keys(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("{n:0200}")).collect()
}

/// A shim that reads its snapshot and nothing afterwards; its window is smaller than the sync of
/// twenty long keys.
async fn shim_with_a_small_window(service: &Service) -> Shim {
    let endpoint = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    let channel = endpoint.initial_stream_window_size(1_000).connect().await.unwrap();
    let mut shim = Shim::open_on(channel).await;
    shim.say(ShimBody::Hello(hello("rm", &[cb::Capability::CacheSync]))).await;
    shim.sync().await;
    shim
}

async fn ask_for_twenty(rm: &Rm) {
    let keys = long_keys(0..20);
    ask_for(rm, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

async fn until_twenty_are_decided(service: &Service) {
    let decided = async {
        while used_and_pending(service).await != (20_000, 0) {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, decided).await.expect("decided in time");
}

#[tokio::test]
async fn assumptions_settle_exclusive_placements_in_one_batch() {
    let service = Service::start();
    let nodes: Vec<String> = (0..64).map(|n| format!("n{n:02}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let rm = rm_with_nodes(&service, REQUIRED, &nodes).await;
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
async fn node_removal_voids_only_dependent_answers() {
    let service = Service::start();
    let nodes = ["n1", "n2", "n3", "n4"];
    let rm = rm_with_nodes(&service, REQUIRED, &nodes).await;
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
    // The node of the second is removed before the shim answers; the next node's answer shows that
    // the scheduler knows.
    let gone = si::NodeInfo {
        node_id: place["b"].clone(),
        action: si::node_info::ActionFromRm::Decomission.into(),
        ..Default::default()
    };
    rm.send_nodes(vec![gone]).await;
    let rm = rm.with_nodes(&["n9"]).await;
    // The node of `b` is gone. A decision made before that of `b` stays valid, and so does one that
    // depends only on its own node. The decision for `d` assumed `b` on the removed node, so it is
    // void.
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
    // The shim is asked about it again: already, or soon.
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
async fn every_change_is_synced_once_in_order() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &["n1"]).await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    let first = shim.sync().await;
    assert!(first.snapshot && first.snapshot_end, "the whole view comes first: {first:?}");
    let mut last = first.cache_seq;
    for n in 1..=20 {
        let key = format!("k{n}");
        ask_for(&rm, &[&key]).await;
        rm.until("allocated", |seen| seen.new.len() == n).await;
        let sync = shim.sync().await;
        assert!(sync.cache_seq > last && !sync.snapshot, "{last}: {sync:?}");
        last = sync.cache_seq;
        let args = sync.args.unwrap();
        let [assumed] = &args.assumed_allocations[..] else { panic!("one: {args:?}") };
        assert_eq!((&*assumed.allocation_key, &*assumed.node_id), (&*key, "n1"));
        assert!(args.forget_allocations.is_empty(), "{args:?}");
        rm.send_allocations(vec![], vec![], vec![release("app", &key)]).await;
        rm.until("released", |seen| seen.released.len() == n).await;
        let sync = shim.sync().await;
        assert!(sync.cache_seq > last, "{last}: {sync:?}");
        last = sync.cache_seq;
        let args = sync.args.unwrap();
        let [forgotten] = &args.forget_allocations[..] else { panic!("one: {args:?}") };
        assert_eq!(forgotten.allocation_key, key);
        assert!(args.assumed_allocations.is_empty(), "{args:?}");
    }
}

#[tokio::test]
async fn sync_precedes_allocation_on_one_connection() {
    let service = Service::start();
    let nodes: Vec<String> = (0..100).map(|n| format!("n{n}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let _rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &nodes).await;
    let channel = service.channel().await;
    let mut shim = Shim::open_on(channel.clone()).await;
    shim.say(ShimBody::Hello(hello("rm", ALL))).await;
    let first = shim.sync().await;
    assert!(first.snapshot && first.snapshot_end, "the whole view comes first: {first:?}");
    // This stream displaces the RM's own stream.
    let mut stream = AllocationStream::open_on(channel).await;
    let mut last = first.cache_seq;
    // Some are sent in one HTTP/2 frame, some in many.
    for n in 0..50 {
        let many = if n % 10 == 0 { 300 } else { 1 };
        let keys = long_keys(n * 1_000..n * 1_000 + many);
        stream.send(keys.iter().map(|key| ask("app", key)).collect(), vec![]).await;
        let (mut told, mut assumed) = (BTreeSet::new(), BTreeSet::new());
        while told.len() < many {
            for new in stream.answer().await.expect("the stream goes on").new {
                while !assumed.contains(&(new.allocation_key.clone(), new.node_id.clone())) {
                    let sync = shim.sync().now_or_never();
                    let sync = sync.expect("what is to be assumed is there before it is told");
                    assert!(sync.cache_seq > last && !sync.snapshot, "{last}: {sync:?}");
                    last = sync.cache_seq;
                    let args = sync.args.unwrap().assumed_allocations.into_iter();
                    assumed.extend(args.map(|one| (one.allocation_key, one.node_id)));
                }
                told.insert(new.allocation_key);
            }
        }
        assert_eq!(assumed.len(), many);
        stream.send(vec![], keys.iter().map(|key| release("app", key)).collect()).await;
        let (mut ended, mut forgotten) = (0, 0);
        while ended < many {
            ended += stream.answer().await.expect("the stream goes on").released.len();
        }
        while forgotten < many {
            let sync = shim.sync().await;
            assert!(sync.cache_seq > last, "{last}: {sync:?}");
            last = sync.cache_seq;
            forgotten += sync.args.unwrap().forget_allocations.len();
        }
    }
}

#[tokio::test]
async fn allocation_waits_for_a_slow_sync() {
    let service = Service::start_with(&[("CALLBACK__CACHE_SYNC_TIMEOUT", "30")]);
    let nodes = ["n1", "n2", "n3", "n4", "n5"];
    let rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &nodes).await;
    let mut shim = shim_with_a_small_window(&service).await;
    ask_for_twenty(&rm).await;
    // It is decided, and the RM is notified of all other decisions.
    until_twenty_are_decided(&service).await;
    let rm = rm.with_nodes(&["n6"]).await;
    rm.read(|seen| assert!(seen.new.is_empty(), "{:?}", seen.new));
    shim.sync().await;
    rm.until("allocated", |seen| seen.new.len() == 20).await;
    assert_eq!(service.counted("monoceros_callback_cache_sync_timeouts_total").await, 0);
}

#[tokio::test]
async fn stuck_sync_delays_allocation_only_for_a_time() {
    for (timeout, lost) in [("0.05", false), ("30", true)] {
        let service = Service::start_with(&[("CALLBACK__CACHE_SYNC_TIMEOUT", timeout)]);
        let nodes = ["n1", "n2", "n3", "n4", "n5"];
        let rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &nodes).await;
        let shim = shim_with_a_small_window(&service).await;
        ask_for_twenty(&rm).await;
        until_twenty_are_decided(&service).await;
        let shim = (!lost).then_some(shim);
        rm.until("allocated", |seen| seen.new.len() == 20).await;
        let unconfirmed = service.counted("monoceros_callback_cache_sync_timeouts_total").await;
        assert_eq!(unconfirmed, 0, "nothing was to be confirmed");
        drop(shim);
    }
}

#[tokio::test]
async fn half_closed_stream_gets_withheld_allocations() {
    let service = Service::start_with(&[("CALLBACK__CACHE_SYNC_TIMEOUT", "0.5")]);
    let nodes = ["n1", "n2", "n3", "n4", "n5"];
    let _rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &nodes).await;
    let _shim = shim_with_a_small_window(&service).await;
    let mut stream = AllocationStream::open_on(service.channel().await).await;
    stream.send(long_keys(0..20).iter().map(|key| ask("app", key)).collect(), vec![]).await;
    // Closes its side.
    stream.requests = mpsc::channel(1).0;
    let mut told = 0;
    while let Some(answer) = stream.answer().await {
        told += answer.new.len();
    }
    assert_eq!(told, 20);
}

#[tokio::test]
async fn allocation_waits_for_acknowledgement() {
    let service = Service::start_with(&[("CALLBACK__CACHE_SYNC_TIMEOUT", "30")]);
    let rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &["n1"]).await;
    let confirming = cb::Hello { confirm_assume: true, ..hello("rm", ALL) };
    let mut shim = Shim::attach(&service, confirming).await;
    let first = shim.sync().await;
    ask_for(&rm, &["a"]).await;
    let sync = shim.sync().await;
    let assumed = &sync.args.as_ref().unwrap().assumed_allocations[0];
    assert_eq!((&*assumed.allocation_key, &*assumed.node_id), ("a", "n1"));
    // It is decided, and the RM is notified of all other decisions.
    assert_eq!(used_and_pending(&service).await, (1_000, 0));
    let rm = rm.with_nodes(&["n2"]).await;
    shim.acknowledge(first.cache_seq, vec![]).await;
    let rm = rm.with_nodes(&["n3"]).await;
    rm.read(|seen| assert!(seen.new.is_empty(), "{:?}", seen.new));
    shim.acknowledge(sync.cache_seq, vec![]).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
    let timeouts = "monoceros_callback_cache_sync_timeouts_total";
    assert_eq!(service.counted(timeouts).await, 0, "it was the acknowledgement");
}

#[tokio::test]
async fn sync_precedes_the_next_batch() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, REQUIRED, &["n1"]).await;
    // A shim that confirms must not assume by itself: each decision is sent.
    let confirming = cb::Hello { confirm_assume: true, ..hello("rm", ALL) };
    let mut shim = Shim::attach(&service, confirming).await;
    let first = shim.sync().await;
    ask_for(&rm, &["a"]).await;
    let batch = shim.batch().await;
    assert_eq!(batch.cache_seq, first.cache_seq);
    assert!(!batch.queries[0].assume);
    shim.answer(&batch, passes).await;
    let assumed = shim.sync().await;
    assert_eq!(assumed.args.as_ref().unwrap().assumed_allocations[0].allocation_key, "a");
    assert!(assumed.cache_seq > first.cache_seq);
    shim.acknowledge(assumed.cache_seq, vec![]).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
    // The end of the first is sent before the question about the second.
    rm.send_allocations(vec![], vec![], vec![release("app", "a")]).await;
    rm.until("released", |seen| seen.released.len() == 1).await;
    ask_for(&rm, &["b"]).await;
    shim.seen.clear();
    let batch = shim.batch().await;
    assert_eq!(batch.queries[0].allocation_key, "b");
    let syncs: Vec<_> = shim
        .seen
        .iter()
        .filter_map(|body| match body {
            Body::CacheSync(sync) => Some(sync),
            _ => None,
        })
        .collect();
    let [forgotten] = &syncs[..] else { panic!("one sync before the batch: {syncs:?}") };
    assert_eq!(forgotten.args.as_ref().unwrap().forget_allocations[0].allocation_key, "a");
    assert!(forgotten.cache_seq > assumed.cache_seq);
    assert_eq!(batch.cache_seq, forgotten.cache_seq, "the batch says what it rests on");
}

#[tokio::test]
async fn snapshot_excludes_reported_allocations() {
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
async fn failed_assumption_is_placed_again() {
    let service = Service::start_with(&[("SCHEDULER__START_RETRY", "50ms")]);
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
        ..Default::default()
    };
    shim.acknowledge(sync.cache_seq, vec![failure]).await;
    let again = shim.sync().await;
    assert_eq!(again.args.as_ref().unwrap().assumed_allocations[0].allocation_key, "a");
    rm.read(|seen| assert!(seen.new.is_empty(), "{:?}", seen.new));
    shim.acknowledge(again.cache_seq, vec![]).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}

/// Of the allocations that wait for one acknowledgement, in the present form, only the failed one
/// is withheld.
#[tokio::test]
async fn only_the_allocation_whose_assumption_failed_is_withheld() {
    let service = Service::start_with(&[("SCHEDULER__START_RETRY", "50ms")]);
    let rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &["n1"]).await;
    let confirming = cb::Hello { confirm_assume: true, ..hello("rm", ALL) };
    let mut shim = Shim::attach(&service, confirming).await;
    shim.sync().await;
    let names = ["a", "b", "c", "d"];
    ask_for(&rm, &names).await;
    let (mut assumed, mut n_together) = (Vec::new(), 0);
    while assumed.len() < names.len() {
        let sync = shim.sync().await;
        let keys = sync.args.unwrap().assumed_allocations.into_iter().map(|it| it.allocation_key);
        let keys: Vec<String> = keys.collect();
        n_together = n_together.max(keys.len());
        let fails = keys.iter().any(|key| key == "b").then(|| cb::CacheSyncFailure {
            allocation_key: "b".to_owned(),
            reason: "volume".to_owned(),
            retryable: true,
            ..Default::default()
        });
        shim.acknowledge(sync.cache_seq, fails.into_iter().collect()).await;
        assumed.extend(keys);
    }
    assert!(n_together > 1, "what fails has others beside it");
    let again = shim.sync().await;
    assert_eq!(again.args.as_ref().unwrap().assumed_allocations[0].allocation_key, "b");
    shim.acknowledge(again.cache_seq, vec![]).await;
    let is_told = |seen: &Seen| {
        let told: BTreeSet<&str> = seen.new.iter().map(|it| &*it.allocation_key).collect();
        told == BTreeSet::from(names) && seen.new.len() == names.len()
    };
    rm.until("all are told, each once", is_told).await;
}

#[tokio::test]
async fn unconfirmed_allocation_is_delivered_after_timeout() {
    let service = Service::start_with(&[("CALLBACK__CACHE_SYNC_TIMEOUT", "0.05")]);
    let rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &["n1"]).await;
    let confirming = cb::Hello { confirm_assume: true, ..hello("rm", ALL) };
    let _shim = Shim::attach(&service, confirming).await;
    ask_for(&rm, &["a"]).await;
    rm.until("allocated", |seen| seen.new.len() == 1).await;
}
