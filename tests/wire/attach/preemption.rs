//! Preemption questions to a shim, and the effects of its answers.

use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use monoceros_proto::v1::core_message::Body;
use monoceros_proto::v1::shim_message::Body as ShimBody;

use super::REQUIRED;
use crate::harness::shim::{ALL, Shim, hello, passes};
use crate::harness::{Rm, Service, ask, registration, release};

/// Two queues, each with half of two nodes of four cores as its guarantee.
const GUARANTEED: &str = r#"
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {guaranteed: {vcore: 4}}
          - name: b
            resources: {guaranteed: {vcore: 4}}
            properties: {preemption.delay: 1s}
"#;

/// An RM whose queue `a` uses both nodes, and its shim, which passes every placement.
async fn full(service: &Service) -> (Rm, Shim) {
    let mut client = service.client().await;
    let extra = REQUIRED.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let request = si::RegisterResourceManagerRequest {
        extra_config: extra.collect(),
        ..registration("rm", GUARANTEED)
    };
    client.register_resource_manager(request).await.unwrap();
    let rm = Rm::open(client, "rm").await;
    rm.hello().await;
    let rm = rm.with_nodes(&["n1", "n2"]).await;
    let rm = rm.with_application("one", "root.a").await.with_application("two", "root.b").await;
    let mut shim = Shim::attach(service, hello("rm", ALL)).await;
    let keys: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
    rm.send_allocations(vec![], keys.iter().map(|key| ask("one", key)).collect(), vec![]).await;
    while rm.read(|seen| seen.new.len() < 8) {
        tokio::select! {
            batch = shim.batch() => shim.answer(&batch, passes).await,
            () = rm.until("all placed", |seen| seen.new.len() == 8) => {}
        }
    }
    (rm, shim)
}

/// An ask that may preempt others.
fn preempting(key: &str) -> si::Allocation {
    let policy = si::PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true };
    si::Allocation { preemption_policy: Some(policy), ..ask("two", key) }
}

async fn preemption_batch(shim: &mut Shim) -> cb::PreemptionBatch {
    shim.until("questions about preemption", |body| match body {
        Body::PreemptionBatch(batch) => Some(batch.clone()),
        _ => None,
    })
    .await
}

/// Answers each question by its node with the index of the last victim; `None` refuses the node.
async fn answer(shim: &Shim, batch: &cb::PreemptionBatch, index: impl Fn(&str) -> Option<i32>) {
    let results = batch.queries.iter().map(|query| {
        let found = index(&query.args.as_ref().unwrap().node_id);
        let response = si::PreemptionPredicatesResponse {
            success: found.is_some(),
            index: found.unwrap_or_default(),
        };
        cb::PreemptionResult {
            query_id: query.query_id,
            outcome: cb::Outcome::Evaluated.into(),
            response: Some(response),
            ..Default::default()
        }
    });
    let results = cb::PreemptionResults {
        batch_id: batch.batch_id,
        results: results.collect(),
        last: true,
        ..Default::default()
    };
    shim.say(ShimBody::PreemptionResults(results)).await;
}

#[tokio::test]
async fn shim_chooses_the_victims() {
    let service = Service::start();
    let (rm, mut shim) = full(&service).await;
    rm.send_allocations(vec![], vec![preempting("k")], vec![]).await;
    let batch = preemption_batch(&mut shim).await;
    let asked = |query: &cb::PreemptionQuery| {
        let args = query.args.clone().unwrap();
        (args.allocation_key, args.node_id, args.start_index, args.preempt_allocation_keys.len())
    };
    let asked: Vec<_> = batch.queries.iter().map(asked).collect();
    let on = |node: &str| ("k".to_owned(), node.to_owned(), 0, 4);
    assert_eq!(
        asked,
        [on("n1"), on("n2")],
        "up to four may go of each before `a` has its own left"
    );
    let listed = batch.queries[1].args.clone().unwrap().preempt_allocation_keys;
    answer(&shim, &batch, |node| (node == "n2").then_some(1)).await;
    rm.until("two are preempted", |seen| seen.released.len() == 2).await;
    let (keys, kinds) = rm.read(|seen| {
        let keys: Vec<_> = seen.released.iter().map(|it| it.allocation_key.clone()).collect();
        let kinds: Vec<_> = seen.released.iter().map(|it| it.termination_type).collect();
        (keys, kinds)
    });
    assert_eq!(keys, listed[..2], "the first two of the list that was asked about");
    assert_eq!(kinds, [si::TerminationType::PreemptedByScheduler as i32; 2]);
    let kind = si::TerminationType::PreemptedByScheduler.into();
    let gone =
        |key: &String| si::AllocationRelease { termination_type: kind, ..release("one", key) };
    rm.send_allocations(vec![], vec![], keys.iter().map(gone).collect()).await;
    while rm.read(|seen| seen.new.len() < 9) {
        tokio::select! {
            batch = shim.batch() => shim.answer(&batch, passes).await,
            () = rm.until("placed", |seen| seen.new.len() == 9) => {}
        }
    }
    rm.read(|seen| assert_eq!(seen.new[8].node_id, "n2"));
}

#[tokio::test]
async fn no_victims_if_the_shim_refuses_all_nodes() {
    let service = Service::start();
    let (rm, mut shim) = full(&service).await;
    rm.send_allocations(vec![], vec![preempting("k")], vec![]).await;
    let batch = preemption_batch(&mut shim).await;
    answer(&shim, &batch, |_| None).await;
    let path = "/ws/v1/partition/default/application/two/explain";
    let refused = async {
        while !service.http("GET", path, &[], "").await.body.contains("refused every node") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::harness::PATIENCE, refused).await.expect("it is explained");
    rm.read(|seen| assert!(seen.released.is_empty()));
}
