//! Answers that state their dependencies on other nodes, from a shim that assumes nothing by
//! itself.

use monoceros_proto::v1 as cb;

use super::{REQUIRED, ask_for, placed, rm_with_nodes};
use crate::harness::shim::{ALL, Shim, hello};
use crate::harness::{Rm, Service};

/// Sends asks `a` and `b`, about which the shim is asked on a node each. `b` is placed and affects
/// topic 7. The answer about `a` was made before that, arrives after it, and depends on the given
/// topics.
async fn late_answer(service: &Service, depends_on: &[u64]) -> (Rm, Shim) {
    let rm = rm_with_nodes(service, REQUIRED, &["n1", "n2"]).await;
    let confirming = cb::Hello { confirm_assume: true, ..hello("rm", ALL) };
    let mut shim = Shim::attach(service, confirming).await;
    shim.sync().await;
    ask_for(&rm, &["a", "b"]).await;
    let mut batches = vec![shim.batch().await];
    while batches.iter().map(|batch| batch.queries.len()).sum::<usize>() < 2 {
        batches.push(shim.batch().await);
    }
    let about = |key: &str| {
        let asks = |batch: &&cb::PredicateBatch| {
            batch.queries.iter().any(|query| query.allocation_key == key)
        };
        batches.iter().find(asks).unwrap()
    };
    shim.pass_one(about("b"), "b", &[], &[7]).await;
    let sync = shim.sync().await;
    assert_eq!(sync.args.unwrap().assumed_allocations[0].allocation_key, "b");
    shim.pass_one(about("a"), "a", depends_on, &[]).await;
    shim.acknowledge(sync.cache_seq, vec![]).await;
    (rm, shim)
}

#[tokio::test]
async fn late_answer_counts_if_unaffected() {
    let service = Service::start();
    let (rm, mut shim) = late_answer(&service, &[8]).await;
    let sync = shim.sync().await;
    assert_eq!(sync.args.unwrap().assumed_allocations[0].allocation_key, "a");
    shim.acknowledge(sync.cache_seq, vec![]).await;
    rm.until("both run", |seen| seen.new.len() == 2).await;
    let void = r#"monoceros_predicate_answers_total{outcome="void"}"#;
    assert_eq!(service.counted(void).await, 0);
}

#[tokio::test]
async fn late_answer_is_repeated_if_affected() {
    let service = Service::start();
    let (rm, mut shim) = late_answer(&service, &[8, 7]).await;
    let again = shim.batch().await;
    assert_eq!(again.queries[0].allocation_key, "a");
    rm.until("the other one runs", |seen| seen.new.len() == 1).await;
    assert_eq!(placed(&rm)[0].0, "b");
    shim.pass_one(&again, "a", &[8, 7], &[]).await;
    let sync = shim.sync().await;
    assert_eq!(sync.args.unwrap().assumed_allocations[0].allocation_key, "a");
    shim.acknowledge(sync.cache_seq, vec![]).await;
    rm.until("both run", |seen| seen.new.len() == 2).await;
}
