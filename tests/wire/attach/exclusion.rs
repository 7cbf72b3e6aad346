//! A placement that a shim refuses for good: the scheduler excludes the node for the request, even
//! if the shim answers no predicates.

use monoceros_proto::v1 as cb;
use monoceros_proto::v1::Capability;

use super::{ask_for, placed, rm_with_nodes};
use crate::harness::Service;
use crate::harness::shim::{Shim, hello};

/// A shim that keeps a cache and confirms assumptions, and is not asked for predicates.
async fn shim(service: &Service) -> Shim {
    let hello = hello("rm", &[Capability::CacheSync]);
    let hello = cb::Hello { confirm_assume: true, ..hello };
    let mut shim = Shim::attach(service, hello).await;
    // Attached: later placements are sent to it first.
    shim.welcome().await;
    shim
}

/// The next assumption: its sync number and the node.
async fn assumed(shim: &mut Shim) -> (u64, String) {
    loop {
        let sync = shim.sync().await;
        let args = sync.args.unwrap_or_default();
        if let Some(assumed) = args.assumed_allocations.first() {
            return (sync.cache_seq, assumed.node_id.clone());
        }
        shim.acknowledge(sync.cache_seq, vec![]).await;
    }
}

fn never(key: &str) -> cb::CacheSyncFailure {
    let reason = "no such device there".to_owned();
    cb::CacheSyncFailure {
        allocation_key: key.to_owned(),
        reason,
        retryable: false,
        ..Default::default()
    }
}

#[tokio::test]
async fn permanent_refusal_excludes_node_for_request() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, &[("callback.predicates", "none")], &["n1", "n2"]).await;
    let mut shim = shim(&service).await;
    ask_for(&rm, &["k"]).await;
    let (seq, first) = assumed(&mut shim).await;
    shim.acknowledge(seq, vec![never("k")]).await;
    let (seq, second) = assumed(&mut shim).await;
    assert_ne!(first, second, "it does not come back to the node");
    shim.acknowledge(seq, vec![]).await;
    rm.until("the request runs", |seen| seen.new.len() == 1).await;
    assert_eq!(placed(&rm), [("k".to_owned(), second)]);

    ask_for(&rm, &["other"]).await;
    let (seq, third) = assumed(&mut shim).await;
    assert_eq!(third, first, "the emptier node is open to everybody else");
    shim.acknowledge(seq, vec![]).await;
    rm.until("the other one runs, too", |seen| seen.new.len() == 2).await;
}
