//! Two applications that use the same key: messages to and from a shim about one never affect the
//! other.

use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;

use super::{REQUIRED, rm_with_nodes};
use crate::harness::shim::{ALL, Shim, hello};
use crate::harness::{Rm, Service, ask, release};

/// An RM with the applications `app` and `other`, and a shim that confirms assumptions.
async fn confirming(service: &Service) -> (Rm, Shim) {
    let rm = rm_with_nodes(service, &[("callback.predicates", "none")], &["n1"]).await;
    let rm = rm.with_application("other", "root.a").await;
    let confirming = cb::Hello { confirm_assume: true, ..hello("rm", ALL) };
    let mut shim = Shim::attach(service, confirming).await;
    let first = shim.sync().await;
    assert!(first.snapshot_end && first.args.unwrap().assumed_allocations.is_empty());
    (rm, shim)
}

/// Both applications ask for a container with the key `k`.
async fn ask_twice(rm: &Rm) {
    rm.send_allocations(vec![], vec![ask("app", "k"), ask("other", "k")], vec![]).await;
}

/// The assumed (`+application/key`) and forgotten (`-application/key`) allocations in the next
/// `items` items, sorted, and the number of the last sync.
async fn told(shim: &mut Shim, items: usize) -> (Vec<String>, u64) {
    let (mut words, mut last) = (Vec::new(), 0);
    while words.len() < items {
        let sync = shim.sync().await;
        last = sync.cache_seq;
        let args = sync.args.unwrap();
        let assumed = args.assumed_allocations.iter();
        words.extend(assumed.map(|one| format!("+{}/{}", one.application_id, one.allocation_key)));
        let forgotten = args.forget_allocations.iter();
        words
            .extend(forgotten.map(|one| format!("-{}/{}", one.application_id, one.allocation_key)));
    }
    words.sort();
    (words, last)
}

fn failure(application: &str) -> cb::CacheSyncFailure {
    cb::CacheSyncFailure {
        allocation_key: "k".to_owned(),
        reason: "volume".to_owned(),
        retryable: true,
        application_id: application.to_owned(),
    }
}

fn applications(rm: &Rm) -> Vec<String> {
    rm.read(|seen| seen.new.iter().map(|new| new.application_id.clone()).collect())
}

#[tokio::test]
async fn equal_keys_are_synced_by_application() {
    let service = Service::start();
    let (rm, mut shim) = confirming(&service).await;
    ask_twice(&rm).await;
    let (both, seq) = told(&mut shim, 2).await;
    assert_eq!(both, ["+app/k", "+other/k"]);
    shim.acknowledge(seq, vec![]).await;
    rm.until("both run", |seen| seen.new.len() == 2).await;
    rm.send_allocations(vec![], vec![], vec![release("app", "k")]).await;
    rm.until("one is released", |seen| seen.released.len() == 1).await;
    assert_eq!(told(&mut shim, 1).await.0, ["-app/k"]);
    let mut next = Shim::attach(&service, hello("rm", ALL)).await;
    assert_eq!(told(&mut next, 1).await.0, ["+other/k"], "what a new stream begins with");
}

#[tokio::test]
async fn only_the_failed_allocation_is_placed_again() {
    let service = Service::start();
    let (rm, mut shim) = confirming(&service).await;
    ask_twice(&rm).await;
    let (_, seq) = told(&mut shim, 2).await;
    shim.acknowledge(seq, vec![failure("other")]).await;
    rm.until("one runs", |seen| seen.new.len() == 1).await;
    assert_eq!(applications(&rm), ["app"]);
    let (again, seq) = told(&mut shim, 1).await;
    assert_eq!(again, ["+other/k"]);
    shim.acknowledge(seq, vec![]).await;
    rm.until("both run", |seen| seen.new.len() == 2).await;
    assert_eq!(applications(&rm), ["app", "other"]);
}

#[tokio::test]
async fn failure_without_application_id_applies_to_every_unconfirmed_allocation() {
    let service = Service::start();
    let (rm, mut shim) = confirming(&service).await;
    ask_twice(&rm).await;
    let (_, seq) = told(&mut shim, 2).await;
    shim.acknowledge(seq, vec![failure("")]).await;
    let (again, seq) = told(&mut shim, 4).await;
    assert_eq!(again, ["+app/k", "+other/k", "-app/k", "-other/k"], "each is placed again");
    rm.read(|seen| assert!(seen.new.is_empty(), "{:?}", seen.new));
    shim.acknowledge(seq, vec![]).await;
    rm.until("both run", |seen| seen.new.len() == 2).await;

    shim.acknowledge(seq, vec![failure("")]).await;
    service.until_logged("nothing is undone", 1).await;
    // If only one application has the key, the failure concerns that one.
    rm.send_allocations(vec![], vec![], vec![release("app", "k")]).await;
    assert_eq!(told(&mut shim, 1).await.0, ["-app/k"]);
    shim.acknowledge(seq, vec![failure("")]).await;
    assert_eq!(told(&mut shim, 1).await.0, ["+other/k"]);
}

#[tokio::test]
async fn withdrawn_assumption_is_forgotten_by_application() {
    let service = Service::start();
    let rm = rm_with_nodes(&service, REQUIRED, &["n1"]).await;
    let rm = rm.with_application("other", "root.a").await;
    let mut shim = Shim::attach(&service, hello("rm", ALL)).await;
    ask_twice(&rm).await;
    let mut batches = vec![shim.batch().await];
    while batches.iter().map(|batch| batch.queries.len()).sum::<usize>() < 2 {
        batches.push(shim.batch().await);
    }
    assert!(batches.iter().flat_map(|batch| &batch.queries).all(|query| query.assume));
    // One of them is withdrawn before the shim answers.
    rm.send_allocations(vec![], vec![], vec![release("other", "k")]).await;
    let rm = rm.with_nodes(&["n2"]).await;
    for batch in &batches {
        shim.pass(batch, |_| cb::Scope::Static).await;
    }
    let forgotten = shim.until("forget", |body| match body {
        Body::CacheSync(sync) => sync.args.as_ref().unwrap().forget_allocations.first().cloned(),
        _ => None,
    });
    assert_eq!(forgotten.await.application_id, "other");
    rm.until("the other one runs", |seen| seen.new.len() == 1).await;
    assert_eq!(applications(&rm), ["app"]);
}
